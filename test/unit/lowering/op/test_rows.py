"""Kernels of ops on rows with what is around them, against NumPy and SciPy."""

# Meanings work on arrays of all shapes, and SciPy carries no types.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pytest
from kernel_runs import run_source
from numpy.typing import NDArray
from scipy import special
from xdsl.dialects.builtin import IntegerAttr, TensorType, f32, f64, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.launch import KernelOp
from penstock.dialects.op import (
    AddOp,
    FusedOp,
    LayerNormOp,
    LogSoftmaxOp,
    MulOp,
    RmsNormOp,
    SigmoidOp,
    SoftmaxOp,
    YieldOp,
)
from penstock.dialects.op.tensor_op import TensorOp
from penstock.lowering.codegen.target import kernel_source

Array: TypeAlias = NDArray[np.generic]
Floats: TypeAlias = NDArray[np.float64]
RunOp: TypeAlias = Callable[..., list[Array]]
Build: TypeAlias = Callable[[Sequence[SSAValue]], tuple[list[Operation], list[int]]]
"""The ops of a body given its arguments, and the numbers of those it yields."""

TYPES = {"float32": f32, "float64": f64}


def normalized(x: Floats, scale: Floats, bias: Floats) -> Floats:
    """The layer norm of the rows of x."""
    deviation = np.sqrt(np.var(x, -1, keepdims=True) + 1e-5)
    return (x - np.mean(x, -1, keepdims=True)) / deviation * scale + bias


def scaled(x: Floats) -> Floats:
    """Rows over the root of the mean of their squares."""
    return x / np.sqrt(np.mean(np.square(x), -1, keepdims=True) + 1e-5)


def before_softmax(args: Sequence[SSAValue]) -> tuple[list[Operation], list[int]]:
    """Softmax of a sum."""
    add = AddOp.inferred(args)
    return [add, SoftmaxOp.inferred([add])], [1]


def around_rms_norm(args: Sequence[SSAValue]) -> tuple[list[Operation], list[int]]:
    """The sigmoid of an RMS norm of a product."""
    mul = MulOp.inferred(args[:2])
    norm = RmsNormOp.inferred([mul, args[2]])
    return [mul, norm, SigmoidOp.inferred([norm])], [2]


def before_layer_norm(args: Sequence[SSAValue]) -> tuple[list[Operation], list[int]]:
    """A layer norm of a sum, and the sum."""
    add = AddOp.inferred(args[:2])
    return [add, LayerNormOp.inferred([add, *args[2:]])], [1, 0]


def after_layer_norm(args: Sequence[SSAValue]) -> tuple[list[Operation], list[int]]:
    """A layer norm, and what it is of is added."""
    norm = LayerNormOp.inferred([args[0], *args[2:]])
    return [norm, AddOp.inferred([norm, args[1]])], [1]


def around_softmax(args: Sequence[SSAValue]) -> tuple[list[Operation], list[int]]:
    """Softmax of a product, times the product, which is not kept."""
    mul = MulOp.inferred(args)
    softmax = SoftmaxOp.inferred([mul])
    return [mul, softmax, MulOp.inferred([softmax, mul])], [2]


def around_log_softmax(args: Sequence[SSAValue]) -> tuple[list[Operation], list[int]]:
    """The logarithm of softmax of a sigmoid, times it, and the sigmoid."""
    sigmoid = SigmoidOp.inferred(args[:1])
    softmax = LogSoftmaxOp.inferred([sigmoid])
    return [sigmoid, softmax, MulOp.inferred([softmax, sigmoid])], [2, 0]


def softmax_of_norm(args: Sequence[SSAValue]) -> tuple[list[Operation], list[int]]:
    """Twice the softmax of a layer norm."""
    norm = LayerNormOp.inferred(args)
    softmax = SoftmaxOp.inferred([norm])
    return [norm, softmax, AddOp.inferred([softmax, softmax])], [2]


def norm_of_softmax(args: Sequence[SSAValue]) -> tuple[list[Operation], list[int]]:
    """A norm of the sum of a softmax of a product and something, times that, kept."""
    mul = MulOp.inferred(args[:2])
    softmax = SoftmaxOp.inferred([mul])
    add = AddOp.inferred([softmax, args[2]])
    norm = RmsNormOp.inferred([add, args[3]])
    return [mul, softmax, add, norm, MulOp.inferred([norm, add])], [4, 2]


def three_in_a_row(args: Sequence[SSAValue]) -> tuple[list[Operation], list[int]]:
    """A log-softmax of a softmax of an RMS norm, plus what the first one reads."""
    sigmoid = SigmoidOp.inferred(args[:1])
    norm = RmsNormOp.inferred([sigmoid, args[1]])
    softmax = SoftmaxOp.inferred([norm])
    log = LogSoftmaxOp.inferred([softmax])
    add = AddOp.inferred([log, sigmoid])
    return [sigmoid, norm, softmax, log, add], [4]


Meaning: TypeAlias = Callable[..., Sequence[Floats]]
FULL, LAST = (2, 3, 21), (21,)
CASES: dict[str, tuple[Build, Sequence[tuple[int, ...]], Meaning]] = {
    "softmax of a sum": (
        before_softmax,
        [FULL, FULL],
        lambda a, b: [special.softmax(a + b, -1)],
    ),
    "softmax under a mask": (
        before_softmax,
        [FULL, (2, 1, 21)],
        lambda a, b: [special.softmax(a + b, -1)],
    ),
    "softmax with a number a row": (
        around_softmax,
        [FULL, (3, 1)],
        lambda a, b: [special.softmax(a * b, -1) * (a * b)],
    ),
    "a product on both sides": (
        around_softmax,
        [FULL, LAST],
        lambda a, b: [special.softmax(a * b, -1) * (a * b)],
    ),
    "sigmoid of an RMS norm": (
        around_rms_norm,
        [FULL, FULL, LAST],
        lambda a, b, g: [special.expit(scaled(a * b) * g)],
    ),
    "layer norm of a sum, and the sum": (
        before_layer_norm,
        [FULL, FULL, LAST, LAST],
        lambda a, b, g, c: [normalized(a + b, g, c), a + b],
    ),
    "layer norm before a sum": (
        after_layer_norm,
        [FULL, FULL, LAST, LAST],
        lambda a, b, g, c: [normalized(a, g, c) + b],
    ),
    "log-softmax between": (
        around_log_softmax,
        [FULL],
        lambda a: [
            special.log_softmax(special.expit(a), -1) * special.expit(a),
            special.expit(a),
        ],
    ),
    "softmax of a layer norm": (
        softmax_of_norm,
        [FULL, LAST, LAST],
        lambda a, g, c: [2 * special.softmax(normalized(a, g, c), -1)],
    ),
    "norm of a softmax, and what it reads": (
        norm_of_softmax,
        [FULL, FULL, FULL, LAST],
        lambda a, b, r, g: [
            scaled(special.softmax(a * b, -1) + r)
            * g
            * (special.softmax(a * b, -1) + r),
            special.softmax(a * b, -1) + r,
        ],
    ),
    "three in a row": (
        three_in_a_row,
        [FULL, LAST],
        lambda a, g: [
            special.log_softmax(special.softmax(scaled(special.expit(a)) * g, -1), -1)
            + special.expit(a)
        ],
    ),
}


def rows_op(name: str, dtype: str) -> FusedOp:
    """The op of a case, on arguments of a block that nobody owns."""
    build, shapes, _ = CASES[name]
    types = [TensorType(TYPES[dtype], shape) for shape in shapes]
    block = Block(arg_types=types)
    ops, yielded = build(block.args)
    values = [ops[number].results[0] for number in yielded]
    block.add_ops([*ops, YieldOp(*values)])
    op = FusedOp(Block(arg_types=types).args, Region(block))
    op.verify()
    return op


def arrays_of(name: str, dtype: str) -> list[Array]:
    """Random operands of a case."""
    random = np.random.default_rng(7)
    return [random.normal(size=shape).astype(dtype) for shape in CASES[name][1]]


def check(results: Sequence[Array], name: str, arrays: Sequence[Array]) -> None:
    """Compare results with what NumPy and SciPy make of operands."""
    wanted = CASES[name][2](*(array.astype(np.float64) for array in arrays))
    assert len(results) == len(wanted)
    for result, exact in zip(results, wanted, strict=True):
        ulp = np.finfo(str(result.dtype)).eps
        error = np.abs(np.subtract(result, exact, dtype=np.float64))
        assert (error <= 16 * ulp * np.maximum(np.abs(exact), 1)).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", CASES)
def test_kernels_and_meanings(name: str, dtype: str, run_op: RunOp) -> None:
    op, arrays = rows_op(name, dtype), arrays_of(name, dtype)
    check(op.evaluate(*arrays), name, arrays)
    check(run_op(op, *arrays), name, arrays)


@pytest.mark.parametrize("name", CASES)
def test_results_over_operands(name: str) -> None:
    op = rows_op(name, "float32")
    source = kernel_source(KernelOp("k", "cpu", kernel_body(op)))
    for pair in op.in_place_pairs():
        arrays = arrays_of(name, "float32")
        results = [np.zeros(FULL, np.float32) for _ in op.outs]
        given: list[Array] = [array.copy() for array in arrays]
        given[pair.operand] = results[pair.result]
        results[pair.result][...] = arrays[pair.operand]
        assert run_source(source, [*given, *results]) == 0
        check(results, name, arrays)


PAIRS = {
    "softmax of a sum": {(0, 0), (1, 0)},
    "softmax under a mask": {(0, 0)},
    "softmax with a number a row": set[tuple[int, int]](),
    "a product on both sides": set[tuple[int, int]](),
    "sigmoid of an RMS norm": {(0, 0), (1, 0)},
    "layer norm of a sum, and the sum": {(0, 0), (0, 1), (1, 0), (1, 1)},
    "layer norm before a sum": {(0, 0), (1, 0)},
    "log-softmax between": {(0, 0), (0, 1)},
    "softmax of a layer norm": {(0, 0)},
    "norm of a softmax, and what it reads": {(0, 0), (1, 0), (0, 1), (1, 1), (2, 1)},
    "three in a row": set[tuple[int, int]](),
}


@pytest.mark.parametrize("name", CASES)
def test_which_results_may_lie_over_operands(name: str) -> None:
    pairs = rows_op(name, "float32").in_place_pairs()
    assert {(pair.operand, pair.result) for pair in pairs} == PAIRS[name]


def test_work_is_that_of_all_members() -> None:
    op = rows_op("softmax of a sum", "float32")
    members = [m for m in op.body.block.ops if isinstance(m, TensorOp)]
    assert op.flops() == sum(member.flops() for member in members) > 0
    moved = (2 + 1) * 2 * 3 * 21 * 4
    assert op.cost().bytes == moved


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [1, 2, -1])
def test_rms_norm(axis: int, dtype: str, run_op: RunOp) -> None:
    random = np.random.default_rng(9)
    x = random.normal(size=(4, 5, 33)).astype(dtype)
    scale = random.normal(size=x.shape[axis:]).astype(dtype)
    types = [TensorType(TYPES[dtype], array.shape) for array in (x, scale)]
    op = RmsNormOp.inferred(
        Block(arg_types=types).args, {"axis": IntegerAttr(axis, i64)}
    )
    flat = x.astype(np.float64).reshape(*x.shape[:axis], -1)
    wanted = scaled(flat).reshape(x.shape) * scale
    for (result,) in (op.evaluate(x, scale), run_op(op, x, scale)):
        error = np.abs(np.subtract(result, wanted, dtype=np.float64))
        assert error.max() <= 8 * np.finfo(dtype).eps * np.abs(wanted).max()
    assert op.flops() == 4 * x.size + 4 * x[..., 0].size // (1 if axis != 1 else 5)
