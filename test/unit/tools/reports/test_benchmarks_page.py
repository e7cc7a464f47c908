"""`docs/benchmarks.md`, and the format of the figures that it is made of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.tools.reports import docs
from penstock.tools.reports.benchmark_figures import (
    Case,
    Contender,
    FiguresError,
    FigureTable,
    Measurement,
    as_json,
    read_measurement,
    read_measurements,
)
from penstock.tools.reports.benchmarks_page import benchmarks_page

FOLDER = Path(__file__).parents[4] / "docs" / "benchmarks"

OURS = Contender("Penstock", {"ms": 2.0, "best": 1.5, "worst": 2.25, "GFLOP/s": 10.0})
WINOGRAD = Contender("Penstock, Winograd", {"ms": 1.0, "ratio": 0.5})
PEER = Contender("Peer", {"ms": 3.0, "ratio": 1.5})
ABSENT = Contender("Other", {"problem": "not installed"})
RACE = FigureTable(
    "case", [Case("4x4", [OURS, WINOGRAD], [PEER, ABSENT], 2)], {"mean": 1.5}
)
SIZES = FigureTable(
    "model", [Case("net", [Contender("Penstock", {"MB": 1.5})], limit="1 MB live")]
)
FOUND = Measurement(
    "gemm", "Products", "Of matrices.", "Chip 9", 2, "0a590d1", "2026-11-22", 5,
    {"numpy": "2.4.6", "torch": "2.13"}, [RACE, SIZES], ["Alone."],
)  # fmt: skip


def test_all_figures_are_in_the_format() -> None:
    found = read_measurements(FOLDER)
    assert len(found) >= 17
    assert {each.processor for each in found} >= {"AMD EPYC", "Intel Xeon"}
    assert sum(len(t.cases) for each in found for t in each.tables) > 340


def test_a_measurement_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / FOUND.file_name
    path.write_text(as_json(FOUND))
    assert path.name == "gemm-chip-9-2026-11-22-0a590d1.json"
    assert as_json(read_measurement(path)) == as_json(FOUND)


def test_the_page_shows_ratios_extremes_and_limits(tmp_path: Path) -> None:
    (tmp_path / FOUND.file_name).write_text(as_json(FOUND))
    page = benchmarks_page(tmp_path)
    assert "### Products: Chip 9, 2026-11-22, `0a590d1`\n" in page
    assert "2 cores, 5 rounds; torch 2.13.\n\nAlone.\n" in page
    assert "| case | threads | Penstock ms | range | GFLOP/s |" in page
    assert (
        "| 4x4 | 2 | 2.000 | 1.500-2.250 | 10.0 | 1.000 (0.50) | 3.000 (1.50)" in page
    )
    assert "| not installed |\n" in page
    assert "Mean 1.5.\n" in page
    assert (
        "| model | MB | limit |\n| --- | ---: | ---: |\n| net | 1.5 | 1 MB live |"
        in page
    )


def test_large_tables_begin_with_their_worst_cases(tmp_path: Path) -> None:
    def case(n: int) -> Case:
        figures = {"us": 2.0, "best ratio": 40.0 - n, "share": n / 100}
        return Case(f"c{n}", [Contender("Penstock", figures)], [PEER], 1)

    table = FigureTable("case", [case(n) for n in range(40)])
    (tmp_path / FOUND.file_name).write_text(as_json(replace(FOUND, tables=[table])))
    page = benchmarks_page(tmp_path)
    head, _, rest = page.partition("| case | threads | Penstock us |")
    assert (
        "| case | threads | best ratio |\n| --- | ---: | ---: |\n| c39 | 1 | 1.00 |"
        in head
    )
    assert "| c35 | 1 | 5.00 |\n\n" in head
    assert (
        "| case | threads | share |\n| --- | ---: | ---: |\n| c0 | 1 | 0.00 |" in head
    )
    assert rest.count("| c") == 40


def test_contenders_of_one_case_have_a_row_each(tmp_path: Path) -> None:
    ours = Contender("Penstock", {"total": 1.25, "load": 1})
    table = FigureTable(
        "start", [Case("start", [ours], [Contender("P", {"total": 2.5})])]
    )
    found = replace(FOUND, tables=[table])
    (tmp_path / found.file_name).write_text(as_json(found))
    page = benchmarks_page(tmp_path)
    assert "| Penstock | 1.25 | 1 |\n| P | 2.50 |  |\n" in page


def test_figures_of_a_peer_are_named(tmp_path: Path) -> None:
    case = Case(
        "net", [Contender("Penstock", {"MB": 1.5})], [Contender("P", {"MB": 3})]
    )
    found = replace(
        FOUND, tables=[FigureTable("model", [case, replace(case, case="b")])]
    )
    (tmp_path / found.file_name).write_text(as_json(found))
    assert "| model | Penstock MB | P MB |\n" in benchmarks_page(tmp_path)


def test_the_latest_measurement_of_a_section_comes_first(tmp_path: Path) -> None:
    for found in (FOUND, replace(FOUND, date="2026-12-01", notes=["Alone.", "Late."])):
        (tmp_path / found.file_name).write_text(as_json(found))
    page = benchmarks_page(tmp_path)
    assert page.index("2026-12-01") < page.index("2026-11-22, `")
    assert page.count("Alone.") == 1
    assert page.count("## Products\n") == 1


def changed(path: str, value: object) -> str:
    """The JSON of a measurement with another value at a path; None drops it."""
    data: Any = json.loads(as_json(FOUND))
    *keys, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    place = data
    for key in keys:
        place = place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("format", 2, "expected format 1, got 2"),
        ("commit", None, "missing or unknown: commit"),
        ("odd", 1, "missing or unknown: odd"),
        ("commit", "HEAD", "commit: expected 7 to 40 digits, got 'HEAD'"),
        ("date", "22.11.", "date: Invalid isoformat string"),
        ("processor", "", "processor: expected a text, got ''"),
        ("section", "a-b", "section: expected a name, got 'a-b'"),
        ("cores", True, "cores: expected a number from 1 on, got True"),
        ("versions", [], r"versions: expected an object, got \[\]"),
        ("tables", {}, r"tables: expected a list, got {}"),
        ("tables/0/odd", 1, "a table: missing or unknown: odd"),
        ("tables/0/note", 1, "note: expected a text, got 1"),
        ("tables/0/cases/0/limit", None, "a case: missing or unknown: limit"),
        ("tables/0/cases/0/limit", 4, "limit: expected a text, got 4"),
        ("tables/0/cases/0/ours", [], "case '4x4' has no figures of ours"),
        ("tables/0/cases/0/peers/0/name", None, "a contender has no name"),
        ("tables/0/cases/0/peers/0/ms", [1], r"ms: expected a figure, got \[1\]"),
        ("rounds", 0, "rounds: expected a number from 1 on, got 0"),
    ],
)
def test_other_files_are_refused(
    path: str, value: object, message: str, tmp_path: Path
) -> None:
    file = tmp_path / FOUND.file_name
    file.write_text(changed(path, value))
    with pytest.raises(FiguresError, match=f"^{file.name}: {message}"):
        read_measurement(file)


def test_one_case_may_not_be_there_twice(tmp_path: Path) -> None:
    twice = replace(FOUND, tables=[replace(RACE, cases=[*RACE.cases, *RACE.cases])])
    (tmp_path / FOUND.file_name).write_text(as_json(twice))
    with pytest.raises(FiguresError, match="case '4x4' is there twice with threads 2"):
        read_measurements(tmp_path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({FOUND.file_name: "{"}, f"{FOUND.file_name}: Expecting property name"),
        ({"mine.json": as_json(FOUND)}, f"expected the name {FOUND.file_name}"),
    ],
)
def test_damaged_or_misnamed_files_are_refused(
    files: Mapping[str, str], message: str, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(FiguresError, match=message):
        read_measurements(tmp_path)


def test_docs_tell_of_a_wrong_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> str:
        raise FiguresError(f"{folder.name}: no figures")

    monkeypatch.setattr(docs, "benchmarks_page", refuse)
    with pytest.raises(SystemExit, match="error: benchmarks: no figures"):
        docs.main([str(tmp_path / "docs")])
