"""Plant as many faults as the command line says, from its seed on."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "helpers"))

from planted_faults.planting import plant


def main(count: int, seed: int, kind: str | None = None) -> None:
    """Plant so many faults, in subjects of a kind, and print what becomes of them."""
    tally = None
    for number, tally in enumerate(plant(seed, count, kind=kind)):
        print(f"{seed}/{number}: {dict(tally.results)}", *tally.holes, sep="\n")
        sys.stdout.flush()
    print(tally)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
