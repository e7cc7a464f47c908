"""Plant as many faults as the command line says, from its seed on."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from planted_faults.planting import plant


def main(count: int, seed: int) -> None:
    """Plant so many faults, and print what becomes of them."""
    tally = None
    for number, tally in enumerate(plant(seed, count)):
        print(f"{seed}/{number}: {dict(tally.results)}", *tally.holes, sep="\n")
        sys.stdout.flush()
    print(tally)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
