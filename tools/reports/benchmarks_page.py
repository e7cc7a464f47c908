"""The page of all benchmarks, `docs/benchmarks.md`, from the files of their figures."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from penstock.tools.reports.benchmark_figures import (
    Case,
    Contender,
    FigureTable,
    Measurement,
    Value,
    read_measurements,
)
from penstock.tools.reports.markdown import Lines

_PEERS = {"onnxruntime", "torch", "jax"}
_HEADING = "<!-- Written by `make docs` from docs/benchmarks/: see there. -->"
_INTRODUCTION = """\
# Benchmarks

All figures are in [`docs/benchmarks/`](benchmarks): a JSON file for each section,
processor, commit and day, with medians, extremes and versions of all contenders
(`tools/reports/benchmark_figures.py` says the format). This page shows the most
important ones. `python benchmarks/run.py --write docs/benchmarks` measures, and
`make docs` writes the page. The commit is the one that was measured; up to
2026-11-22 it is the one that recorded the figures.

How it is measured: each contender has a process of its own and as many threads as
the others. They take turns in rounds, so that a disturbance hits all alike, and a
turn begins once the threads of the one before are at rest. Outputs agree to 1e-4 of
the largest value before anything is timed.

How to read it: a time is the median of all rounds, with the best and the worst one
where there is space. A number in brackets is the time of that contender over ours:
above 1, Penstock is faster. Medians of a few per cent around 1 say little, and on a
shared machine one code takes up to half as long again from one minute to the next.

Why ratios are as they are: matmuls and convolutions run in register tiles that a
schedule in the IR describes, and store their results with the ops that follow
computed; constants are packed once, when a model is loaded. Softmax, normalizations
and reductions read and write each row once. A run of a tiny model takes longer to
begin and to end than to compute."""


def benchmarks_page(folder: Path) -> str:
    """
    The page of all figures in a folder.

    Raises `FiguresError` for a file that is not in their format.
    """
    lines = [_HEADING, "", _INTRODUCTION, ""]
    found = read_measurements(folder)
    said: set[str] = set()
    for _, group in groupby(found, key=lambda each: each.section):
        measured = list(group)
        lines += [f"## {measured[0].title}", "", measured[0].text, ""]
        for each in measured:
            lines += measurement_lines(each, said)
    return "\n".join(lines).rstrip() + "\n"


def measurement_lines(found: Measurement, said: set[str]) -> Lines:
    """A measurement: where it was made, its notes but for those that are `said`."""
    yield f"### {found.title}: {found.processor}, {found.date}, `{found.commit}`"
    names = sorted(_PEERS & found.versions.keys())
    peers = [f"{name} {found.versions[name]}" for name in names]
    rounds = f"{found.rounds} round{'s' * (found.rounds > 1)}"
    yield from ("", f"{found.cores} cores, {rounds}; {', '.join(peers)}.", "")
    for note in found.notes:
        if note not in said:
            yield from (*textwrap.wrap(note, 88, break_on_hyphens=False), "")
            said.add(note)
    for table in found.tables:
        if table.note:
            yield from (table.note, "")
        if len(table.cases) >= _MANY:
            yield from worst_lines(table)
        rows = list(race_rows(table) if is_race(table) else plain_rows(table))
        yield from (*aligned(rows), "")
        if table.summary:
            means = [f"{name} {value}" for name, value in table.summary.items()]
            yield from (f"{', '.join(means).capitalize()}.", "")


_MANY, _WORST = 30, 5
"""The cases of a table that begins with its worst ones, and the number of these."""
_BY = {
    "best ratio": "Furthest behind the best peer:",
    "share": "Furthest from what the processor can do:",
}
"""The figures by which cases are the worst, and the headings of these."""


def worst_lines(table: FigureTable) -> Lines:
    """The cases with the least figures of each kind that says how good they are."""
    for name, heading in _BY.items():
        found = [
            (value, case)
            for case in table.cases
            if isinstance(value := case.ours[0].figures.get(name), float)
        ]
        found.sort(key=lambda pair: pair[0])
        rows = [
            [case.case, str(case.threads or ""), f"{value:.2f}"]
            for value, case in found[:_WORST]
        ]
        if rows:
            yield from (heading, "")
            yield from (*aligned([[table.title, "threads", name], *rows]), "")


def is_race(table: FigureTable) -> bool:
    """Whether contenders have times that are compared."""
    peers = [each for case in table.cases for each in case.peers]
    return any(unit in each.figures for unit in UNITS for each in peers)


def race_rows(table: FigureTable) -> Iterator[list[str]]:
    """A row a case: our time and other figures, and others' times with ratios."""
    reference = table.cases[0].ours[0].name
    found = dict.fromkeys(name for case in table.cases for name in case.ours[0].figures)
    unit = next(unit for unit in UNITS if unit in found)
    more = [name for name in found if name not in (unit, *_EXTREMES, "best ratio")]
    names = dict.fromkeys(
        each.name for case in table.cases for each in contenders(case)[1:]
    )
    columns = [unit, *["range"] * ("best" in found), *more]
    last = [name for name in ("best ratio",) if name in found]
    has_limit = any(case.limit for case in table.cases)
    head = [table.title, "threads", f"{reference} {unit}", *columns[1:], *names, *last]
    yield [*head, *["limit"] * has_limit]
    for case in table.cases:
        ours, *others = contenders(case)
        times = {each.name: race_cell(each, unit) for each in others}
        row = [case.case, str(case.threads or ""), *cells(ours.figures, columns)]
        row += [times.get(name, "") for name in names]
        yield [*row, *cells(ours.figures, last), *[case.limit or ""] * has_limit]


def contenders(case: Case) -> list[Contender]:
    """All contenders of a case, ours first."""
    return [*case.ours, *case.peers]


def race_cell(contender: Contender, unit: str) -> str:
    """A time and its ratio to ours, or why there is none."""
    figures = contender.figures
    if unit not in figures:
        return str(figures.get("problem", ""))
    ratio = f" ({text_of_value(figures['ratio'], 2)})" if "ratio" in figures else ""
    return f"{text_of_value(figures[unit], _DIGITS[unit])}{ratio}"


_EXTREMES = ("best", "worst")
_DIGITS: Mapping[str, int] = {
    "ms": 3,
    "us": 2,
    "best": 3,
    "worst": 3,
    "GFLOP/s": 1,
    "best ratio": 2,
    "share": 2,
}
UNITS = ("ms", "us")
"""The figures that are times, of which a race has one."""


def cells(figures: Mapping[str, Value], names: Sequence[str]) -> list[str]:
    """Figures of a race as texts; empty where there is none."""
    found: list[str] = []
    for name in names:
        if name == "range":
            found.append("-".join(cells(figures, _EXTREMES)))
        else:
            digits = _DIGITS.get(name, 3)
            found.append(text_of_value(figures.get(name, ""), digits))
    return found


def text_of_value(value: Value, digits: int) -> str:
    """A figure as text, a float with so many digits after the point."""
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def plain_rows(table: FigureTable) -> Iterator[list[str]]:
    """Rows of figures: a row a case or, of one case, a row a contender."""
    if len(table.cases) == 1 and len(contenders(table.cases[0])) > 1:
        limit = table.cases[0].limit
        rows = [(each.name, [each], limit) for each in contenders(table.cases[0])]
    else:
        rows = [(case.case, contenders(case), case.limit) for case in table.cases]
    is_named = any(len(row) > 1 for _, row, _ in rows)
    found = [
        (name, dict(named_figures(row, limit, is_named=is_named)))
        for name, row, limit in rows
    ]
    columns = list(dict.fromkeys(name for _, figures in found for name in figures))
    digits = {
        column: max(map(decimals, (row.get(column, 0) for _, row in found)))
        for column in columns
    }
    yield [table.title, *columns]
    for name, figures in found:
        texts = [text_of_value(figures.get(c, ""), digits[c]) for c in columns]
        yield [name, *texts]


def named_figures(
    row: Sequence[Contender], limit: str | None, *, is_named: bool
) -> Iterator[tuple[str, Value]]:
    """The figures of contenders, which are named where there are several."""
    for each in row:
        for name, value in each.figures.items():
            yield f"{each.name} {name}" if is_named else name, value
    if limit is not None:
        yield "limit", limit


def decimals(value: Value) -> int:
    """The number of digits after the point of a float."""
    return len(repr(value).partition(".")[2]) if isinstance(value, float) else 0


def aligned(rows: Sequence[Sequence[str]]) -> Lines:
    """A table in Markdown, its first column to the left, all others to the right."""
    head, *others = rows
    yield f"| {' | '.join(head)} |"
    yield f"| --- |{' ---: |' * (len(head) - 1)}"
    for row in others:
        yield f"| {' | '.join(row)} |"
