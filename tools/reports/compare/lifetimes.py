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
from penstock.tools.driver.errors import FileError, UsageError, explain_os_error

FOLDER = Path(__file__).with_name("lifetimes")

SUITES = ("minimalloc", "training")
"""The folders of problems."""


_COLUMNS = ("lower", "upper", "size")
"""The columns that are read."""


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
    order may give the answer away. Raises UsageError for a file that cannot be opened,
    and FileError for one of another form.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = _lifetimes_in(path, csv.DictReader(file))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {explain_os_error(error)}") from error
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is no table of lifetimes: it is no text") from error
    except csv.Error as error:
        raise FileError(f"{path} is no table of lifetimes: {error}") from error
    _check(path, rows)
    random.Random(0).shuffle(rows)
    return Problem(rows, alignment)


def _lifetimes_in(path: Path, table: csv.DictReader[str]) -> list[Lifetime]:
    """The lifetimes in a table. Raises FileError for one of another form."""
    for name in _COLUMNS:
        if name not in (table.fieldnames or ()):
            columns = ",".join(("id", *_COLUMNS))
            text = f"has no column '{name}' (the first line is {columns})"
            raise FileError(f"{path} is no table of lifetimes: it {text}")
    found: list[Lifetime] = []
    for row in table:
        where = f"{path}:{table.line_num}"
        lower, upper, size = (_integer(where, name, row[name]) for name in _COLUMNS)
        found.append(Lifetime(lower, upper - 1, size))
    return found


def _integer(where: str, name: str, text: str | None) -> int:
    """The number in a cell. Raises FileError for another text, and for no cell."""
    try:
        return int(text or "")
    except ValueError as error:
        got = "nothing" if text is None else f"'{text}'"
        raise FileError(f"{where}: {name} is an integer, got {got}") from error


def _check(path: Path, rows: Sequence[Lifetime]) -> None:
    for number, (first, last, size) in enumerate(rows, 1):
        if last < first or size < 0:
            got = f"lower {first}, upper {last + 1}, size {size}"
            raise FileError(f"{path}: buffer {number} cannot be packed: {got}")


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
