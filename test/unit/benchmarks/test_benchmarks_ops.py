"""The benchmark of single ops: its cases, its rates, its limits; nothing is timed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks import limits
from benchmarks.accuracy import Error, cells_of, error_of, spacing
from benchmarks.figures import tables_of
from benchmarks.harness import Field, Race, Result
from benchmarks.limits import Limits
from benchmarks.op_cases import CASES, SIZES, WITHOUT_WORK, adds_up
from benchmarks.ops import (
    NARROW,
    OURS,
    Work,
    described,
    job_of,
    model_of,
    open_penstock,
    openers_of,
    operands_of,
    ops,
    problems_of,
    work_of,
)
from penstock.dialects.op import Op

Array: TypeAlias = NDArray[Any]

FLAT = {1 << n: 1e9 for n in range(14, 27)}
LIMITS = Limits(FLAT, FLAT, {size: 2e9 for size in FLAT}, {"f32": 4e9})


@pytest.mark.slow
def test_each_op_that_computes_something_is_a_case() -> None:
    found = {op.name for name in CASES for op in job_of(name, "L1").module.walk()}
    every = {op.name for op in Op.operations}
    assert every - found - WITHOUT_WORK.keys() == set()
    assert WITHOUT_WORK.keys() <= every


@pytest.mark.parametrize(
    "name", ["add, every second", "10 largest of rows", "gelu by tanh", "quantize"]
)
def test_cases_are_what_their_nodes_mean(name: str) -> None:
    operands = operands_of(name, "L1")
    reference = cast("Any", ReferenceEvaluator(model_of(name, "L1")))
    wanted: list[Array] = reference.run(None, operands)
    found: list[Array] = [np.asarray(array) for array in open_penstock(name, "L1", 1)()]
    assert len(found) == len(wanted)
    for ours, exact in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, exact, rtol=2e-4, atol=2e-5)


def test_operands_have_the_layouts_that_are_named() -> None:
    rows, _ = operands_of("add", "L1").values()
    columns, _ = operands_of("add, columns", "L1").values()
    second, _ = operands_of("add, every second", "L1").values()
    unaligned, _ = operands_of("add, unaligned", "L1").values()
    assert columns.flags.f_contiguous
    assert second.strides == (2 * rows.strides[0], 8)
    assert unaligned.ctypes.data % 16
    assert all(np.array_equal(rows, each) for each in (columns, second, unaligned))


def test_large_operands_have_the_size_that_is_named() -> None:
    for name in ("add", "3x3 convolution", "attention", "matmul", "exp, bf16"):
        for size, count in SIZES.items():
            assert np.prod(described(name, size)["a"].shape) == count, (name, size)


def test_peers_take_part_in_what_they_know() -> None:
    assert [*openers_of("exp", "L1", 1)] == [
        *(OURS, NARROW, "ONNX Runtime", "PyTorch eager")
    ]
    assert [*openers_of("exp, bf16", "L1", 1)] == [OURS, NARROW, "PyTorch eager"]
    assert [*openers_of("random bits", "L1", 1)] == [OURS, NARROW]


def test_work_is_bytes_once_and_flops() -> None:
    row = work_of("add a row", "L1")
    assert (row.read, row.written) == (4 * (64 * 64 + 64), 4 * 64 * 64)
    assert work_of("matmul", "L1").flops == 2 * 64**3


def test_the_limit_is_bytes_or_arithmetic_whichever_takes_longer() -> None:
    # Half of the bytes are copied, at the rate of copies, and the rest is read.
    assert LIMITS.seconds(3000, 1000, 0, "f32") == pytest.approx(1e-6 + 2e-6)
    assert LIMITS.seconds(3000, 1000, 40000, "f32") == pytest.approx(1e-5)
    assert LIMITS.seconds(0, 1000, 0, "i8") == pytest.approx(1e-6)
    assert [limits.rung(n) for n in (1, 16384, 16385, 1 << 40)] == [
        *(1 << 14, 1 << 14, 1 << 15, 1 << 26)
    ]


@pytest.mark.parametrize("name", ["read", "write", "copy"])
def test_loops_of_limits_touch_all_bytes_and_no_others(name: str) -> None:
    source = np.random.default_rng(3).integers(1, 99, 8192).astype(np.uint8)
    target = np.full(8192, 7, np.uint8)
    starts = [-each.ctypes.data % 64 for each in (target, source)]
    loop = limits.kernel(limits.memory_text(name, 32))
    at = [
        each.ctypes.data + n for each, n in zip((target, source), starts, strict=True)
    ]
    loop(at[0], at[1], 4096, 1)
    inside = target[starts[0] : starts[0] + 4096]
    wanted = {
        "read": np.full(4096, 7, np.uint8),
        "write": np.zeros(4096, np.uint8),
        "copy": source[starts[1] : starts[1] + 4096],
    }
    assert np.array_equal(inside, wanted[name])
    assert (target[: starts[0]] == 7).all()
    assert (target[starts[0] + 4096 :] == 7).all()


def flat(threads: int, vector_bytes: int) -> Limits:
    """The same limits for all."""
    return LIMITS


def raced(times: Mapping[str, float]) -> Race:
    """A race of one round."""
    return Race(tuple(Result(name, (time,)) for name, time in times.items()), 0)


def test_a_section_has_rates_shares_and_best_ratios(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = {OURS: 2e-5, NARROW: 4e-5, "ONNX Runtime": 1e-5, "PyTorch eager": 4e-5}

    def race(*_: object) -> Race:
        return raced(times)

    monkeypatch.setattr(Field, "race", race)
    monkeypatch.setattr("benchmarks.ops.measured", flat)
    found = ops([1], 1, ["leaky relu"], "L1")
    (table,) = tables_of(found.tables)
    (case,) = table.cases
    assert (case.case, case.threads) == ("leaky relu, L1", 1)
    # 32768 bytes at 2 GB/s take 16.4 us.
    assert [each.figures["share"] for each in case.ours] == [0.82, 0.41]
    assert case.ours[0].figures["us"] == 20.0
    assert case.ours[0].figures["best ratio"] == 0.5
    assert [each.figures["ratio"] for each in case.peers] == [0.5, 2.0]


def test_narrow_code_that_is_far_behind_wide_code_is_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("benchmarks.ops.measured", flat)
    work = Work(1000, 1000, 0, "f32")
    slow = problems_of("x, L1", 1, raced({OURS: 1.05e-6, NARROW: 1.6e-6}), work)
    assert slow == [
        "x, L1, 1 threads: 0.62 of its limit in 32 bytes, 0.95 in full vectors"
    ]
    assert not problems_of("x", 1, raced({OURS: 1.05e-6, NARROW: 1.4e-6}), work)
    assert not problems_of("x", 1, raced({OURS: 1.5e-6, NARROW: 1.6e-6}), work)


# Accuracy


def test_spacing_is_that_of_the_type() -> None:
    values = np.abs(np.random.default_rng(4).normal(0, 100, 500)).astype(np.float32)
    assert np.array_equal(
        spacing(values.astype(np.float64), values.dtype), np.spacing(values)
    )
    assert spacing(np.array([1.0, 2.0]), ml_dtypes.bfloat16).tolist() == [2**-7, 2**-6]


def test_errors_are_in_ulp_of_elements_or_of_the_largest() -> None:
    exact = np.array([1.0, 1024.0])
    found = np.add(exact, np.array([2**-22, 0.0])).astype(np.float32)
    assert error_of([found], [exact], sums=False) == Error(2.0, 1.0)
    assert error_of([found], [exact], sums=True).largest == 2.0 / 1024
    wrong = np.array([1, 2, 4]), np.array([1, 2, 3])
    assert error_of(wrong[:1], wrong[1:], sums=False) == Error(1.0, 1 / 3)
    assert adds_up("matmul, bf16")
    assert not adds_up("exp, f64")


def test_errors_of_contenders_stand_in_their_columns() -> None:
    found = {OURS: Error(0.5, 0.25), "PyTorch eager": Error(2, 1)}
    assert cells_of(found) == ["0.50", "0.250", "", "", "", "2.00"]
