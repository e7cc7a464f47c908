"""Sections of benchmarks as figures: what is read from their tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks import figures
from benchmarks.figures import device_table, tables_of, value_of
from benchmarks.report import Json, Section, Table
from penstock.tools.reports.benchmark_figures import Measurement, read_measurements

RACE = Table(
    ("case", "threads", "contender", "ms", "range", "ratio", "GFLOP/s"),
    [
        ("4x4", "1", "Penstock", "2.000", "1.500-2.250", "", "10.0"),
        ("4x4", "1", "Penstock, Winograd", "1.000", "0.900-1.100", "0.50", "20.0"),
        ("4x4", "1", "NumPy", "3.000", "3.000-3.000", "1.50", "6.7"),
        ("4x4", "2", "Penstock", "1.000", "0.900-1.100", "", "20.0"),
        ("4x4", "2", "JAX", "not installed", "", "", ""),
    ],
)


def test_rows_of_contenders_become_cases() -> None:
    (table,) = tables_of([RACE])
    one, two = table.cases
    assert (one.case, one.threads, two.threads) == ("4x4", 1, 2)
    assert [each.name for each in one.ours] == ["Penstock", "Penstock, Winograd"]
    expected = {"ms": 2.0, "best": 1.5, "worst": 2.25, "GFLOP/s": 10.0}
    assert one.ours[0].figures == expected
    assert one.peers[0].figures["ratio"] == 1.5
    assert two.peers[0].figures == {"problem": "not installed"}
    assert one.limit is None


def test_best_ratios_go_with_their_cases() -> None:
    header = "threads", "case", "best peer / Penstock"
    rows = [("1", "4x4", "1.50"), ("1", "geometric mean", "1.50")]
    (table,) = tables_of([RACE, Table(header, rows)])
    one, two = table.cases
    assert one.ours[0].figures["best ratio"] == 1.5
    assert "best ratio" not in one.ours[1].figures
    assert "best ratio" not in two.ours[0].figures
    assert table.summary == {"geometric mean, threads 1": 1.5}


def test_rows_that_are_contenders_become_one_case() -> None:
    rows = [("Penstock, cold", "8.67", "27"), ("ONNX Runtime", "0.71", "")]
    (table,) = tables_of([Table(("start", "total", "kernels"), rows)])
    (case,) = table.cases
    assert case.ours[0].figures == {"total": 8.67, "kernels": 27}
    assert case.peers[0].figures == {"total": 0.71}


def test_columns_of_a_peer_are_its_figures() -> None:
    header = "model", "ours MB", "ONNX Runtime MB", "ratio"
    (table,) = tables_of([Table(header, [("**net**", "1.7", "6.3", "3.67")])])
    (case,) = table.cases
    assert (case.case, case.ours[0].figures) == ("net", {"MB": 1.7})
    assert case.peers[0].figures == {"MB": 6.3, "ratio": 3.67}


@pytest.mark.parametrize(
    ("column", "cell", "limit"),
    [
        ("bound", "3.7 MiB", "3.7 MiB live at one step"),
        ("limit", "1.000", "1.000 of the source order"),
    ],
)
def test_a_bound_is_the_limit_of_its_case(column: str, cell: str, limit: str) -> None:
    (table,) = tables_of([Table(("net", "peak", column), [("a", "4 MiB", cell)])])
    (case,) = table.cases
    assert (case.limit, case.ours[0].figures) == (limit, {"peak": "4 MiB"})


def test_cells_are_numbers_or_texts() -> None:
    cells = [value_of(cell) for cell in ("12", "1.50", "**7**", "3.7 MiB", "21%")]
    assert cells == [12, 1.5, 7, "3.7 MiB", "21%"]


def device_row(
    case: str, who: str, time: float | None, **more: object
) -> dict[str, object]:
    facts = {"case": case, "who": who, "microseconds": time, "figure": ""}
    return {**facts, "ratio": None, "note": "", "is_problem": False, **more}


def test_times_on_a_gpu_become_cases() -> None:
    rows = [
        device_row("sum", "Penstock", 1.504, figure="2 GB/s"),
        device_row("sum", "PyTorch", 3.0, ratio=1.995),
        device_row("sum", "Triton", None, note="not installed"),
        device_row("copy", "driver", 4.0),
    ]
    table = device_table(rows, "bandwidth of memory")
    assert table is not None
    (case,) = table.cases
    assert (case.case, case.limit) == ("sum", "bandwidth of memory")
    assert case.ours[0].figures == {"us": 1.5, "rate": "2 GB/s"}
    assert [(each.name, each.figures) for each in case.peers] == [
        ("PyTorch", {"us": 3.0, "ratio": 2.0})
    ]
    assert device_table(rows[3:], None) is None


def test_a_commit_is_a_number_of_git(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> CompletedProcess[str]:
        return CompletedProcess([], 0, stdout="0a590d1\n")

    monkeypatch.setattr(figures.subprocess, "run", run)
    assert figures.commit() == "0a590d1"


def test_cases_that_were_measured_in_pieces_are_one_file(tmp_path: Path) -> None:
    def piece(rows: Sequence[tuple[str, str]], *notes: str) -> Measurement:
        lines = [(name, "1", "Penstock", "2.0", "1.0-3.0") for name, _ in rows]
        races = Table(("case", "threads", "contender", "us", "range"), lines)
        header = "threads", "case", "best peer / Penstock"
        best = Table(header, [("1", *row) for row in rows])
        section = Section("Ops", "Text.", [races, best], None, notes)
        facts: dict[str, Json] = {"versions": {}, "cores": 2, "rounds": 1}
        facts |= {"processor": "Chip", "date": "2026-11-28"}
        return figures.measurement("ops", section, facts, "0a590d1")

    figures.write(tmp_path, piece([("a", "0.50"), ("b", "2.00")], "a: odd", "b: odd"))
    figures.write(tmp_path, piece([("b", "8.00"), ("c", "1.00")], "c: odd"))
    (found,) = read_measurements(tmp_path)
    (table,) = found.tables
    ratios = {case.case: case.ours[0].figures["best ratio"] for case in table.cases}
    assert ratios == {"a": 0.5, "b": 8.0, "c": 1.0}
    assert found.notes == ["a: odd", "c: odd"]
    assert table.summary == {"geometric mean, threads 1": 1.59}
