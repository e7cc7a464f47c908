"""Floats of 16 bits: stored so, computed in 32, from rounding to whole sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special
from xdsl.dialects.builtin import (
    FloatAttr,
    IntegerAttr,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i64,
)
from xdsl.ir import Attribute
from xdsl.utils.test_value import create_ssa_value

from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.op.activation import GeluOp, LeakyReluOp, SigmoidOp, TanhOp
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.comparison import LessOp
from penstock.dialects.op.elementwise import AddOp, DivOp, MaximumOp, MulOp, SubOp
from penstock.dialects.op.movement import TransposeOp
from penstock.dialects.op.normalization import RmsNormOp, SoftmaxOp
from penstock.dialects.op.padding import PadOp
from penstock.dialects.op.reduction import ReduceMaxOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.unary_math import ErfOp, ExpOp, LogOp, SqrtOp
from penstock.dialects.op.windows.pooling import GlobalAveragePoolOp
from penstock.dialects.utils.numpy_types import dtype_of, element_type_of
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

Array: TypeAlias = NDArray[np.generic]
RunOp: TypeAlias = Callable[..., list[Array]]

HALVES = [bf16, f16]
BF16 = np.dtype(ml_dtypes.bfloat16)


def made(
    kind: type[TensorOp], arrays: Sequence[Array], **properties: Attribute
) -> TensorOp:
    """The op on values like the arrays."""
    types = [TensorType(element_type_of(a.dtype), a.shape) for a in arrays]
    op = kind.inferred(list(map(create_ssa_value, types)), properties)
    op.verify()
    return op


def same_bits(a: Array, b: Array) -> None:
    """Check that floats are the same, where all NaNs are, and zeros have their sign."""
    assert a.dtype == b.dtype
    a, b = a.astype(np.float64), b.astype(np.float64)
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(np.signbit(a[b == 0]), np.signbit(b[b == 0]))


################################################################################
# Rounding                                                                     #
################################################################################


def floats_of_all_sizes(count: int) -> NDArray[np.float32]:
    """Random bits, and those around which a rounding changes its way."""
    generator = np.random.default_rng(5)
    some = generator.integers(0, 1 << 32, count, np.uint32)
    upper = generator.integers(0, 1 << 16, count, np.uint32) << 16
    ends = [upper + rest for rest in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]
    return np.concatenate([some, *ends]).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("element", HALVES)
def test_numbers_are_rounded_to_the_nearest(run_op: RunOp, element: Attribute) -> None:
    a = floats_of_all_sizes(4000)
    a = a[~np.isnan(a)]
    with np.errstate(over="ignore"):
        wanted = a.astype(dtype_of(element))
    same_bits(run_op(made(CastOp, [a], to=element), a)[0], wanted)


def test_a_number_of_64_bits_is_rounded_once(run_op: RunOp) -> None:
    # Just above the middle of two numbers of bf16, which f32 does not tell from it.
    a = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 3 * 2.0**-8 - 2.0**-40])
    got = run_op(made(CastOp, [a], to=bf16), a)[0]
    assert got.astype(np.float64).tolist() == [1 + 2.0**-7, 1 + 2.0**-7]


@pytest.mark.parametrize("element", HALVES)
def test_special_numbers_stay_what_they_are(run_op: RunOp, element: Attribute) -> None:
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 65504.0, -1.0]
    a = np.array(special).astype(dtype_of(element))
    same_bits(run_op(made(CastOp, [a], to=f32), a)[0], a.astype(np.float32))
    turned = made(TransposeOp, [a.reshape(2, 4)], permutation=int_list([1, 0]))
    got = run_op(turned, a.reshape(2, 4))[0]
    same_bits(got, np.ascontiguousarray(a.reshape(2, 4).T))


def test_a_nan_stays_one_when_its_upper_bits_are_those_of_infinity(
    run_op: RunOp,
) -> None:
    a = np.array([0x7F800001, 0xFF80FFFF], np.uint32).view(np.float32)
    got = run_op(made(CastOp, [a], to=bf16), a)[0]
    assert np.isnan(got.astype(np.float32)).all()


def test_one_half_becomes_the_other(run_op: RunOp) -> None:
    a = np.array([1.5, 1e30, 2.0**-20, -3.0]).astype(BF16)
    with np.errstate(over="ignore"):
        wanted = a.astype(np.float16)
    same_bits(run_op(made(CastOp, [a], to=f16), a)[0], wanted)


################################################################################
# Kernels                                                                      #
################################################################################


def numbers(element: Attribute, *shape: int, seed: int = 3) -> Array:
    """Random numbers, with a few special ones."""
    values = np.random.default_rng(seed).normal(0, 2, shape)
    return values.astype(dtype_of(element))


def corners(element: Attribute) -> list[Array]:
    """All pairs of some numbers."""
    ends = [np.nan, -np.inf, -1.5, -0.0, 0.0, 2.5, 1e-7, np.inf]
    grid = np.meshgrid(ends, ends)
    return [axis.ravel().astype(dtype_of(element)) for axis in grid]


@pytest.mark.parametrize("element", HALVES)
@pytest.mark.parametrize(
    ("kind", "meaning"),
    [
        (AddOp, np.add),
        (SubOp, np.subtract),
        (MulOp, np.multiply),
        (DivOp, np.divide),
        (MaximumOp, np.maximum),
    ],
)
def test_arithmetic_is_exact_but_for_one_rounding(
    run_op: RunOp, element: Attribute, kind: type[TensorOp], meaning: np.ufunc
) -> None:
    for a, b in (corners(element), [numbers(element, 99, seed=n) for n in (1, 2)]):
        with np.errstate(all="ignore"):
            exact = meaning(a.astype(np.float64), b.astype(np.float64))
            wanted = exact.astype(np.float32).astype(a.dtype)
        got = run_op(made(kind, [a, b]), a, b)[0]
        # Of two zeros either is the larger one.
        if kind is MaximumOp:
            got, wanted = np.add(got, 0), np.add(wanted, 0)
        same_bits(got, wanted)


@pytest.mark.parametrize("element", HALVES)
def test_comparisons(run_op: RunOp, element: Attribute) -> None:
    a, b = corners(element)
    got = run_op(made(LessOp, [a, b]), a, b)[0]
    np.testing.assert_array_equal(got, a.astype("f4") < b.astype("f4"))


Floats: TypeAlias = NDArray[np.float64]
Meaning: TypeAlias = Callable[[Floats], Floats]
LAST = IntegerAttr(-1, i64)
EPSILON: dict[str, Attribute] = {"axis": LAST, "epsilon": FloatAttr(1e-5, f64)}

ONE: dict[type[TensorOp], tuple[dict[str, Attribute], Meaning]] = {
    ErfOp: ({}, special.erf),
    ExpOp: ({}, np.exp),
    GeluOp: ({}, lambda x: x * special.ndtr(x)),
    GlobalAveragePoolOp: ({}, lambda x: x.mean((2, 3), keepdims=True)),
    LeakyReluOp: (
        {"alpha": FloatAttr(0.1, f64)},
        lambda x: np.where(x > 0, x, 0.1 * x),
    ),
    LogOp: ({}, np.log),
    ReduceMaxOp: ({"axes": int_list([1])}, lambda x: x.max(1)),
    RmsNormOp: (
        EPSILON,
        lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5),
    ),
    SigmoidOp: ({}, special.expit),
    SoftmaxOp: ({"axis": LAST}, lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    SqrtOp: ({}, np.sqrt),
    TanhOp: ({}, np.tanh),
}


@pytest.mark.parametrize("element", HALVES)
@pytest.mark.parametrize("kind", ONE, ids=lambda kind: kind.name)
def test_ops_round_their_result_once(
    run_op: RunOp, element: Attribute, kind: type[TensorOp]
) -> None:
    properties, function = ONE[kind]
    a = numbers(element, 2, 3, 7, 9)
    if kind in (LogOp, SqrtOp):
        a = np.abs(a)
    operands = [a]
    if kind is RmsNormOp:
        operands.append(np.ones(9).astype(a.dtype))
    op = made(kind, operands, **properties)
    exact = function(a.astype(np.float64))
    # Half a unit for the rounding, and what results that are stored in between add.
    units = 1.6 if kind is SoftmaxOp else 0.51
    step = np.spacing(np.abs(exact).astype(dtype_of(element))).astype(np.float64)
    for got in (run_op(op, *operands)[0], op.meaning(*operands)[0]):
        assert got.dtype == a.dtype
        error = np.abs(got.astype(np.float64) - exact)
        assert (error <= units * step + 1e-7).all()


@pytest.mark.parametrize("element", HALVES)
def test_kernels_compute_in_32_bits(element: Attribute) -> None:
    a = numbers(element, 4, 4)
    for op in (
        made(SoftmaxOp, [a], axis=IntegerAttr(1, i64)),
        made(GeluOp, [a]),
        made(PadOp, [a], before=int_list([1, 0]), after=int_list([0, 0])),
    ):
        for inner in kernel_body(op).walk():
            if inner.name.startswith("math."):
                assert inner.results[0].type == f32
            if inner.name.startswith("arith.") and inner.name.endswith("f"):
                types = {value.type for value in inner.operands}
                assert element not in types or inner.name == "arith.extf"


################################################################################
# Sessions                                                                     #
################################################################################

JOB = """
job.job @main placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x600xbf16>
  %w = job.variable "w" init <npz, file = "w.npz"> : tensor<600x32xbf16>
  %b = job.variable "b" init <constant, value = 0.5> : tensor<32xbf16>
  %c = op.constant dense<[1.0, 0.1]> : tensor<2xbf16>
  %p = op.matmul %x, %w : tensor<4x600xbf16>, tensor<600x32xbf16> -> tensor<4x32xbf16>
  %s = op.add %p, %b : tensor<4x32xbf16>, tensor<32xbf16> -> tensor<4x32xbf16>
  %g = op.gelu %s : tensor<4x32xbf16> -> tensor<4x32xbf16>
  %t = op.reduce_sum %x axes [1] : tensor<4x600xbf16> -> tensor<4xbf16>
  job.output "p", %p : tensor<4x32xbf16>
  job.output "g", %g : tensor<4x32xbf16>
  job.output "t", %t : tensor<4xbf16>
  job.output "c", %c : tensor<2xbf16>
}
"""


def model_of(folder: Path) -> Model:
    module = installed_compiler()[0].parse(JOB.encode(), "job.mlir")
    return Model(module, {}, folder)


def test_sessions_take_hold_and_give_bf16(tmp_path: Path) -> None:
    x = np.abs(numbers(bf16, 4, 600))
    w = numbers(bf16, 600, 32, seed=8)
    # NumPy writes what it does not know as bytes.
    np.savez(tmp_path / "w.npz", w=w)
    with Session(model_of(tmp_path)) as session:
        got = session.run({"x": x})
        state = session.state()
        session.load_state(state)
        again = session.run({"x": x})
        session.save(tmp_path / "plan")
    product = x.astype("f8") @ w.astype("f8")
    shifted = product + 0.5
    gelu = shifted * special.ndtr(shifted)
    for name, wanted in (("p", product), ("g", gelu), ("t", x.astype("f8").sum(1))):
        assert got[name].dtype == BF16
        np.testing.assert_allclose(got[name].astype("f8"), wanted, 2.0**-6, 2.0**-7)
        assert got[name].tobytes() == again[name].tobytes()
    # A sum that was rounded at each step would have come to rest far below.
    assert got["t"].astype("f4").min() > 800
    assert got["c"].astype("f4").tolist() == [1, 0.10009765625]
    assert state["w"].tobytes() == w.tobytes()
    assert state["b"].dtype == BF16
    with Session.open(tmp_path / "plan") as session:
        opened = session.run({"x": x})
    assert {name: a.tobytes() for name, a in opened.items()} == {
        name: a.tobytes() for name, a in got.items()
    }
