"""The benchmark of single ops: its cases, its rates, and the worst of them."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from benchmarks.figures import tables_of
from benchmarks.harness import Race, Result
from benchmarks.ops import (
    CASES,
    SIZES,
    model_of,
    moved_bytes,
    open_onnxruntime,
    open_penstock,
    operands_of,
    ops,
    worst_of,
)
from benchmarks.report import Table

Array: TypeAlias = NDArray[Any]


@pytest.mark.parametrize("name", CASES)
def test_cases_are_what_their_nodes_mean(name: str) -> None:
    operands = operands_of(name, "L1")
    reference = cast("Any", ReferenceEvaluator(model_of(name, "L1")))
    wanted: list[Array] = reference.run(None, operands)
    for run in (open_penstock(name, "L1", 1), open_onnxruntime(name, "L1", 1)):
        found: list[Array] = [np.asarray(array) for array in run()]
        assert len(found) == len(wanted)
        for ours, exact in zip(found, wanted, strict=True):
            np.testing.assert_allclose(ours, exact, rtol=2e-4, atol=2e-5)


def test_first_operands_have_the_size_that_is_named() -> None:
    for name in CASES:
        for size, count in SIZES.items():
            assert operands_of(name, size)["a"].size == count, name


def test_bytes_of_operands_and_results_are_counted_once() -> None:
    assert moved_bytes("add a row", "L1") == 4 * (64 * 64 + 64 + 64 * 64)


def test_the_worst_stand_first() -> None:
    rows = [["1", f"case {n}", f"{n / 10:.2f}"] for n in (7, 3, 9, 2, 8, 5)]
    best = Table(("threads", "case", "b"), [*rows, ["1", "geometric mean", "0.10"]])
    found = worst_of(best)
    assert [row[0] for row in found.rows] == [f"case {n}" for n in (2, 3, 5, 7, 8)]


def test_a_section_has_rates_and_best_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(openers: object, rounds: int) -> Race:
        seconds = {"Penstock": 2e-6, "ONNX Runtime": 1e-6, "PyTorch eager": 4e-6}
        return Race(tuple(Result(n, (s,), None) for n, s in seconds.items()), 0)

    monkeypatch.setattr("benchmarks.ops.race", timed)
    found = ops([1], 1, ["relu"], ["L1"])
    worst, races, best = found.tables
    assert worst.rows == [("relu, L1", "1", "0.50")]
    assert races.header[-1] == "GB/s"
    assert [row[-1] for row in races.rows] == ["16.4", "32.8", "8.2"]
    assert best.rows[0] == ["1", "relu, L1", "0.50"]
    figures = tables_of(found.tables)[1].cases[0].ours[0].figures
    assert figures["GB/s"] == 16.4
    assert figures["best ratio"] == 0.5
