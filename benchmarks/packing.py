"""
How low packing algorithms get, and how long they take.

    python benchmarks/packing.py FOLDER [--only NAME]... [--seconds 10]
                                 [--capacity BYTES] [--alignment BYTES] [--json OUT]

Each file of the folder, `<name>.csv`, is a problem: lines `id,lower,upper,size` with
the first step at which a buffer is needed, the first at which it no longer is, and its
bytes. Buffers are shuffled, as their order may give the answer away. Figures are peaks
over the bound, and seconds.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import only_one
from benchmarks.report import Table
from penstock.lowering.packing import Budget, Lifetime, Problem, pack
from penstock.lowering.packing.registry import complaint_about

RULES = {
    "size": "size-first",
    "lifetime": "lifetime-first",
    "volume": "volume-first",
    "exclusion": "mutual-exclusion-first",
    "time line": "time-line",
    "IREE": "best-fit",
    "NNFusion": "first-fit-time",
    "insert": "compact-insert",
}
"""What needs no budget, by its column."""

SEARCHES = {"local": "local-search", "best, default": "best", "best": "best"}
"""What has one: all the seconds, but for the second, which has none."""


@dataclass(frozen=True)
class Result:
    """How high a layout is, and the seconds it took."""

    peak: int
    seconds: float


def read(path: Path, alignment: int) -> Problem:
    """A problem from a file, shuffled."""
    with path.open(newline="") as file:
        rows = [
            Lifetime(int(row["lower"]), int(row["upper"]) - 1, int(row["size"]))
            for row in csv.DictReader(file)
        ]
    random.Random(0).shuffle(rows)
    return Problem(rows, alignment)


def timed(problem: Problem, run: Callable[[], Sequence[int]]) -> Result:
    """Lay a problem out, and check the layout."""
    start = time.perf_counter()
    offsets = run()
    seconds = time.perf_counter() - start
    if complaint := complaint_about(problem, offsets):
        raise SystemExit(f"no layout: {complaint}")
    return Result(problem.peak(offsets), seconds)


def results_of(
    problem: Problem, seconds: float, capacity: int | None
) -> Iterator[tuple[str, Result]]:
    """The results of all algorithms."""
    for column, name in RULES.items():
        yield column, timed(problem, lambda name=name: pack(problem, name))
    for column, name in SEARCHES.items():
        limit = None if column == "best, default" else seconds

        def search(name: str = name, limit: float | None = limit) -> list[int]:
            if limit is None:
                return pack(problem, name)
            return pack(problem, name, Budget(seconds=limit, capacity=capacity))

        yield column, timed(problem, search)
    if peer := installed_peer(seconds):
        yield "omnimalloc", timed(problem, lambda: peer(problem))


def installed_peer(seconds: float) -> Callable[[Problem], list[int]] | None:
    """The best allocator of omnimalloc on one thread; None if it is not installed."""
    try:
        library: Any = import_module("omnimalloc")
        allocators: Any = import_module("omnimalloc.allocators.supermalloc")
    except ImportError:
        return None
    library.set_max_threads(1)
    allocator = allocators.SupermallocAllocator(timeout=seconds)

    def run(problem: Problem) -> list[int]:
        buffers = [
            library.Allocation(id=i, size=stride, start=life.first, end=life.last + 1)
            for i, (life, stride) in enumerate(
                zip(problem.lifetimes, problem.strides, strict=True)
            )
        ]
        placed = library.allocate(buffers, allocator=allocator)
        offsets = {allocation.id: allocation.offset for allocation in placed}
        return [int(offsets[i]) for i in range(len(buffers))]

    return run


def row_of(name: str, problem: Problem, results: Mapping[str, Result]) -> list[str]:
    """A line of the table."""
    ratios = [f"{r.peak / problem.bound:.4f}" for r in results.values()]
    took = [f"{r.seconds:.2f}" for c, r in results.items() if c not in RULES]
    return [name, str(len(problem.sizes)), str(problem.bound), *ratios, *took]


def means(ratios: Mapping[str, Sequence[float]], count: int) -> list[list[str]]:
    """The last lines: geometric means, and the worst."""
    mean = [f"{statistics.geometric_mean(row):.4f}" for row in ratios.values()]
    worst = [f"{max(row):.4f}" for row in ratios.values()]
    rest = [""] * (len(ratios) - len(RULES))
    return [
        [f"mean of {count}", "", "", *mean, *rest],
        ["worst", "", "", *worst, *rest],
    ]


def run(paths: Sequence[Path], options: argparse.Namespace) -> dict[str, Any]:
    """Pack all problems; prints a table and returns its figures."""
    # What is compiled once does not count.
    small = Problem([Lifetime(i, i + i % 3, 1 + i % 5) for i in range(30)])
    for name in ("branch-and-bound", "local-search", "compact-insert", "best"):
        pack(small, name, Budget(steps=10_000))
    rows: list[list[str]] = []
    ratios: dict[str, list[float]] = {}
    found: dict[str, Any] = {}
    for path in paths:
        problem = read(path, options.alignment)
        results = dict(results_of(problem, options.seconds, options.capacity))
        for column, result in results.items():
            ratios.setdefault(column, []).append(result.peak / problem.bound)
        rows.append(row_of(path.stem, problem, results))
        print(*rows[-1], flush=True, file=sys.stderr)
        found[path.stem] = {
            "buffers": len(problem.sizes),
            "bound": problem.bound,
            "sum": sum(problem.strides),
            "results": {column: vars(result) for column, result in results.items()},
        }
    took = [f"{column} s" for column in ratios if column not in RULES]
    header = ["problem", "buffers", "bound", *ratios, *took]
    print(Table(header, [*rows, *means(ratios, len(rows))]).markdown())
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--capacity", type=int)
    parser.add_argument("--alignment", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    paths = sorted(options.folder.glob("*.csv"))
    if options.only:
        paths = [path for path in paths if path.stem in options.only]
    if not paths:
        parser.error(f"no problem in {options.folder}")
    with only_one():
        found = run(paths, options)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
