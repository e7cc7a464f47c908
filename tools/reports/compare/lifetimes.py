"""
Memory planners compared on lifetimes: the problems of `regst-plan-memory` without the
models that they come from.

The suites are the eleven hard instances of MiniMalloc, and traces of 26 training
graphs; `lifetimes/` has both, with their sources and licences. Each file has lines
`id,lower,upper,size`: the first step at which a buffer is needed, the first at which it
no longer is, and its bytes.
"""

from __future__ import annotations

import csv
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.lowering.algorithms.packing import Lifetime, Problem, pack
from penstock.tools.driver.errors import UsageError

FOLDER = Path(__file__).with_name("lifetimes")

SUITES = ("minimalloc", "training")
"""The folders of problems."""


class Packed(NamedTuple):
    """A layout of a problem: its height in bytes, and the seconds that it took."""

    peak: int
    seconds: float


def suite(name: str) -> dict[str, Path]:
    """The files of a suite by the names of their problems."""
    return {
        path.name.partition(".")[0]: path
        for path in sorted((FOLDER / name).glob("*.csv"))
    }


def read_problem(path: Path, alignment: int = 1) -> Problem:
    """
    The problem in a file. Its buffers are shuffled, always in the same way, as their
    order may give the answer away. Raises UsageError for a file of another form.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [
                Lifetime(int(row["lower"]), int(row["upper"]) - 1, int(row["size"]))
                for row in csv.DictReader(file)
            ]
    except (OSError, KeyError, TypeError, ValueError) as error:
        form = "lines of id,lower,upper,size"
        raise UsageError(f"{path} has no {form}: {error!r}") from error
    _check(path, rows)
    random.Random(0).shuffle(rows)
    return Problem(rows, alignment)


def _check(path: Path, rows: Sequence[Lifetime]) -> None:
    for number, (first, last, size) in enumerate(rows, 1):
        if last < first or size < 0:
            got = f"lower {first}, upper {last + 1}, size {size}"
            raise UsageError(f"{path}: buffer {number} cannot be packed: {got}")


def packed(problem: Problem, planner: str) -> Packed:
    """
    The layout of a problem by the planner of a name, within its default budget. Raises
    PackingError for a planner that fails or returns no layout.
    """
    start = time.perf_counter()
    offsets = pack(problem, planner)
    return Packed(problem.peak(offsets), time.perf_counter() - start)


def warm_up(planner: str) -> None:
    """Load, or compile once in an environment, all that a planner needs."""
    pack(Problem([Lifetime(i, i + i % 3, 1 + i % 5) for i in range(30)]), planner)
