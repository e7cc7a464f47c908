"""Sections of benchmarks as figures in the format of `docs/benchmarks/*.json`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from benchmarks.report import Json, Section, Table
from penstock.tools.reports.benchmark_figures import (
    Case,
    Contender,
    FigureTable,
    Measurement,
    Value,
    as_json,
    read_measurement,
)
from penstock.tools.reports.benchmarks_page import UNITS

OURS = "Penstock"
PEERS = ("ONNX Runtime", "PyTorch", "torch.compile", "JAX", "NumPy")
BEST = "best peer / Penstock"
RATES = ("ratio", "GFLOP/s", "GB/s", "share")
LIMITS = {"bound": "{} live at one step", "limit": "{} of the source order"}
"""Texts of limits by the columns that have them."""


def commit() -> str:
    """The commit that is measured. Raises OSError or CalledProcessError without Git."""
    command = ["git", "rev-parse", "--short=7", "HEAD"]
    root = Path(__file__).parent
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def measurement(
    name: str, section: Section, facts: Mapping[str, Json], commit: str
) -> Measurement:
    """A section as figures; `facts` are those of the environment."""
    versions, cores, rounds = facts["versions"], facts["cores"], facts["rounds"]
    assert isinstance(versions, Mapping), "as `environment` makes it"
    assert isinstance(cores, int), "as `environment` makes it"
    assert isinstance(rounds, int), "as `environment` makes it"
    return Measurement(
        section=name,
        title=section.title,
        text=section.text,
        processor=str(facts["processor"]),
        cores=cores,
        commit=commit,
        date=str(facts["date"]),
        rounds=rounds,
        versions={package: str(number) for package, number in versions.items()},
        tables=tables_of(section.tables),
        notes=section.problems,
    )


def write(folder: Path, found: Measurement) -> None:
    """
    Write the file of a measurement. With one of the same section, processor, commit and
    day, which may have been of other cases, it is joined.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / found.file_name
    if path.exists():
        found = joined(read_measurement(path), found)
    path.write_text(as_json(found), encoding="utf-8")


def joined(first: Measurement, then: Measurement) -> Measurement:
    """
    One measurement of two, whose tables go together in order. A case of both is that of
    the latter, with the notes that begin with it; means are taken anew.
    """
    tables = [with_cases(*pair) for pair in zip(first.tables, then.tables, strict=True)]
    again = {case.case for table in then.tables for case in table.cases}
    notes = [x for x in first.notes if x.partition(":")[0] not in again]
    return replace(then, tables=tables, notes=[*notes, *then.notes])


def with_cases(first: FigureTable, then: FigureTable) -> FigureTable:
    """A table with the cases of two; of one that both have, the latter counts."""
    cases = {(each.case, each.threads): each for each in (*first.cases, *then.cases)}
    found = [*cases.values()]
    return replace(then, cases=found, summary={**then.summary, **means(found)})


def means(cases: Sequence[Case]) -> dict[str, Value]:
    """The geometric means of best ratios by numbers of threads."""
    ratios: dict[int | None, list[float]] = {}
    for case in cases:
        ratio = case.ours[0].figures.get("best ratio")
        if isinstance(ratio, float) and ratio > 0:
            ratios.setdefault(case.threads, []).append(ratio)
    return {
        f"geometric mean, threads {threads}": round(geometric_mean(found), 2)
        for threads, found in ratios.items()
    }


def tables_of(tables: Sequence[Table]) -> list[FigureTable]:
    """
    Tables of text as figures. One of best ratios goes with the table of contenders
    before it, and one of means is its summary.
    """
    found: list[FigureTable] = []
    for table in tables:
        if BEST in table.header:
            found[-1] = with_best(found[-1], table)
        else:
            found.append(figure_table(table))
    return found


def figure_table(table: Table) -> FigureTable:
    """A table of text as figures."""
    title = table.header[0]
    if "contender" in table.header:
        return FigureTable(title, list(race_cases(table)))
    if any(row[0].startswith(PEERS) for row in table.rows):
        return FigureTable(title, [contenders_case(table)])
    return FigureTable(title, [plain_case(table.header, row) for row in table.rows])


def race_cases(table: Table) -> Iterator[Case]:
    """The cases of a table with a row for each contender."""
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    first = table.header[0]
    for (name, threads), group in groupby(rows, lambda r: (r[first], r["threads"])):
        found = [Contender(r["contender"], dict(race_figures(r))) for r in group]
        ours = [each for each in found if each.name.startswith(OURS)]
        peers = [each for each in found if not each.name.startswith(OURS)]
        yield Case(name, ours, peers, int(threads))


def race_figures(row: Mapping[str, str]) -> Iterator[tuple[str, Value]]:
    """The figures of a contender; a range becomes its ends."""
    unit = next(unit for unit in UNITS if unit in row)
    if "-" not in row["range"]:
        # A contender that took no part says why in place of its time.
        yield "problem", row[unit]
        return
    best, _, worst = row["range"].partition("-")
    texts = {unit: row[unit], "best": best, "worst": worst}
    texts |= {name: row.get(name, "") for name in RATES}
    yield from ((name, value_of(text)) for name, text in texts.items() if text)


def with_best(races: FigureTable, table: Table) -> FigureTable:
    """A table of contenders with the best ratio of each case, and the mean of these."""
    best: dict[tuple[str, str | None], Value] = {}
    for cells in table.rows:
        row = dict(zip(table.header, cells, strict=True))
        best[row["case"], row.get("threads")] = value_of(row[BEST])
    cases: list[Case] = []
    for case in races.cases:
        keys = (case.case, str(case.threads)), (case.case, None)
        ratios = [best.pop(key) for key in keys if key in best]
        cases.append(replace(case, ours=with_ratio(case.ours, ratios)))
    means = {
        name if threads is None else f"{name}, threads {threads}": value
        for (name, threads), value in best.items()
    }
    return replace(races, cases=cases, summary={**races.summary, **means})


def with_ratio(
    ours: Sequence[Contender], ratios: Sequence[Value]
) -> Sequence[Contender]:
    """Our contenders, the first one with the best ratio of its case."""
    if not ratios:
        return ours
    first, *others = ours
    return [replace(first, figures={**first.figures, "best ratio": ratios[0]}), *others]


def contenders_case(table: Table) -> Case:
    """One case from a table whose rows are contenders."""
    found = [
        Contender(row[0], dict(figures_of(table.header, row))) for row in table.rows
    ]
    ours = [each for each in found if each.name.startswith(OURS)]
    peers = [each for each in found if not each.name.startswith(OURS)]
    return Case(table.header[0], ours, peers)


def device_table(
    rows: Sequence[Mapping[str, Any]], limit: str | None
) -> FigureTable | None:
    """
    Rows of times on a GPU as figures, all cases with one limit; None without a time of
    ours.
    """
    timed = [row for row in rows if row["microseconds"] is not None]
    cases: list[Case] = []
    for name, group in groupby(timed, lambda row: row["case"]):
        found = [Contender(row["who"], dict(device_figures(row))) for row in group]
        ours = [each for each in found if each.name.startswith(OURS)]
        peers = [each for each in found if not each.name.startswith(OURS)]
        if ours:
            cases.append(Case(name, ours, peers, limit=limit))
    return FigureTable("case", cases) if cases else None


def device_figures(row: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    """The time of a contender on a GPU, its ratio to ours, and its rate."""
    yield "us", round(row["microseconds"], 2)
    if row["ratio"] is not None:
        yield "ratio", round(row["ratio"], 2)
    if row["figure"]:
        yield "rate", row["figure"]


def plain_case(header: Sequence[str], row: Sequence[str]) -> Case:
    """A case from a row of figures, of which some may be those of a peer."""
    ours: dict[str, Value] = {}
    peers: dict[str, dict[str, Value]] = {}
    limit: str | None = None
    for name, value in figures_of(header, row):
        peer = next((peer for peer in PEERS if name.startswith(f"{peer} ")), None)
        if name in LIMITS:
            limit = LIMITS[name].format(row[header.index(name)])
        elif peer is not None:
            peers.setdefault(peer, {})[name.removeprefix(f"{peer} ")] = value
        elif name == "ratio" and len(peers) == 1:
            next(iter(peers.values()))[name] = value
        else:
            ours[name.removeprefix("ours ")] = value
    others = [Contender(peer, figures) for peer, figures in peers.items()]
    return Case(row[0].strip("*"), [Contender(OURS, ours)], others, limit=limit)


def figures_of(
    header: Sequence[str], row: Sequence[str]
) -> Iterator[tuple[str, Value]]:
    """The figures of a row by their columns, but for the first one."""
    for name, cell in zip(header[1:], row[1:], strict=True):
        if cell:
            yield name, value_of(cell)


def value_of(cell: str) -> Value:
    """A number, or a text that is none, such as `3.7 MiB`."""
    text = cell.strip().strip("*")
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
