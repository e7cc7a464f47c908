"""Unsigned integers, and bits: from tensors through kernels to whole sessions."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.test_value import create_ssa_value

from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.op.activation import ReluOp
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.bits import (
    BitAndOp,
    BitcastOp,
    BitOrOp,
    BitXorOp,
    ShiftLeftOp,
    ShiftRightOp,
)
from penstock.dialects.op.elementwise import BinaryOp
from penstock.dialects.op.indexing import ScatterElementsOp, ScatterMode
from penstock.dialects.op.indexing import ScatterModeAttr as ModeAttr
from penstock.dialects.op.linear import MatmulOp
from penstock.dialects.op.movement import GatherOp, TransposeOp
from penstock.dialects.op.reduction import (
    ReduceMaxOp,
    ReduceMinOp,
    ReduceProdOp,
    ReduceSumOp,
)
from penstock.dialects.op.scan import CumSumOp
from penstock.dialects.op.selection import ArgMaxOp, ArgMinOp, TopKOp
from penstock.dialects.op.slicing import ConcatOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.windows.convolution import Conv2dOp
from penstock.dialects.op.windows.pooling import MaxPool2dOp
from penstock.dialects.utils.numpy_types import element_type_of
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

Array: TypeAlias = NDArray[np.generic]
Integers: TypeAlias = NDArray[np.integer]
RunOp: TypeAlias = Callable[..., list[Array]]

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]


def made(
    kind: type[TensorOp], arrays: Sequence[Array], **properties: Attribute
) -> TensorOp:
    """The op on values like the arrays."""
    types = [TensorType(element_type_of(a.dtype), a.shape) for a in arrays]
    op = kind.inferred(list(map(create_ssa_value, types)), properties)
    op.verify()
    return op


def any_of(dtype: str, *shape: int, seed: int = 1) -> Integers:
    """Random integers of all sizes, the extreme ones among them."""
    limits = np.iinfo(dtype)
    generator = np.random.default_rng(seed)
    found: Integers = generator.integers(
        limits.min, limits.max, shape, dtype, endpoint=True
    )
    found.reshape(-1)[:2] = limits.max, limits.min
    return found


################################################################################
# Bits                                                                         #
################################################################################


def cut(value: int, dtype: str) -> int:
    """The number of a dtype that has the lower bits of an integer."""
    bits, least = np.iinfo(dtype).bits, int(np.iinfo(dtype).min)
    return (value - least) % (1 << bits) + least


BITS: dict[type[BinaryOp], Callable[[int, int], int]] = {
    BitAndOp: lambda a, b: a & b,
    BitOrOp: lambda a, b: a | b,
    BitXorOp: lambda a, b: a ^ b,
    ShiftLeftOp: lambda a, b: a << b,
    ShiftRightOp: lambda a, b: a >> b,
}


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED])
@pytest.mark.parametrize("kind", BITS)
def test_ops_on_bits_are_those_of_python(
    run_op: RunOp, kind: type[BinaryOp], dtype: str
) -> None:
    a, b = any_of(dtype, 41), any_of(dtype, 41, seed=2)
    if kind in (ShiftLeftOp, ShiftRightOp):
        # By more places than there are bits, too.
        b = np.random.default_rng(3).integers(0, 70, 41).astype(dtype)
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    wanted = np.array([cut(BITS[kind](*pair), dtype) for pair in pairs], dtype)
    op = made(kind, [a, b])
    for got in (op.evaluate(a, b)[0], run_op(op, a, b)[0]):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", SIGNED)
def test_shifts_by_less_than_nothing_move_all_bits_out(
    run_op: RunOp, dtype: str
) -> None:
    a, b = np.array([5, -5], dtype), np.array([-1, -1], dtype)
    for kind, wanted in ((ShiftLeftOp, [0, 0]), (ShiftRightOp, [0, -1])):
        op = made(kind, [a, b])
        assert op.evaluate(a, b)[0].tolist() == wanted
        assert run_op(op, a, b)[0].tolist() == wanted


BITCASTS = [
    *(("float32", "int32", "f", "i"), ("int32", "float32", "i", "f")),
    *(("float32", "uint32", "f", "I"), ("uint32", "float32", "I", "f")),
    *(("float64", "int64", "d", "q"), ("uint64", "float64", "Q", "d")),
    *(("int8", "uint8", "b", "B"), ("uint16", "int16", "H", "h")),
    *(("uint32", "int32", "I", "i"), ("int64", "int64", "q", "q")),
]


@pytest.mark.parametrize(("source", "target", "packed", "unpacked"), BITCASTS)
def test_bitcasts_are_those_of_struct(
    run_op: RunOp, source: str, target: str, packed: str, unpacked: str
) -> None:
    if source.startswith("f"):
        a = np.array([0.0, -0.0, 1.5, -np.inf, np.inf, 1e-40, -3.25], source)
    elif target.startswith("f"):
        ones = {"uint32": 0x3F800000, "int32": 0x3F800000, "uint64": 0x3FF0 << 48}
        a = np.array([0, 1, ones[source], ones[source] + 12345], source)
    else:
        a = any_of(source, 7)
    data = struct.pack(f"{a.size}{packed}", *a.tolist())
    wanted = np.array(struct.unpack(f"{a.size}{unpacked}", data), target)
    op = made(BitcastOp, [a], to=element_type_of(np.dtype(target)))
    for got in (op.evaluate(a)[0], run_op(op, a)[0]):
        assert got.dtype == wanted.dtype
        assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("float32", "int64", "expected elements of one size, got f32 and i64"),
        ("float16", "int16", "the bits of floats of 16 bits are not at hand"),
        ("bool", "uint8", "expected numbers, got i1"),
    ],
)
def test_bitcasts_that_are_none(source: str, target: str, message: str) -> None:
    with pytest.raises(VerifyException, match=f"^{message}$"):
        made(BitcastOp, [np.zeros(3, source)], to=element_type_of(np.dtype(target)))


################################################################################
# Unsigned integers in ops of all families                                     #
################################################################################


def number(value: int) -> Attribute:
    return IntegerAttr(value, i64)


def ints(*values: int) -> DenseArrayBase[IntegerType]:
    return int_list(values)


def best_two(a: Array) -> list[Array]:
    """The largest two of each row, by Python's sort, which is stable."""
    rows = a.tolist()
    places = [sorted(range(len(r)), key=lambda i: -r[i])[:2] for r in rows]
    values = [[r[i] for i in p] for r, p in zip(rows, places, strict=True)]
    return [np.array(values, a.dtype), np.array(places)]


Meaning: TypeAlias = Callable[[Integers], Sequence[Array]]
FAMILIES: dict[str, tuple[type[TensorOp], dict[str, Attribute], Meaning]] = {
    "arg_max": (
        ArgMaxOp,
        {"axis": number(1)},
        lambda a: [np.argmax(a, 1, keepdims=True)],
    ),
    "arg_min": (
        ArgMinOp,
        {"axis": number(1)},
        lambda a: [np.argmin(a, 1, keepdims=True)],
    ),
    "cum_sum": (
        CumSumOp,
        {"axis": number(1)},
        lambda a: [np.add.accumulate(a, 1, dtype=a.dtype)],
    ),
    "reduce_max": (ReduceMaxOp, {"axes": ints(1)}, lambda a: [np.max(a, 1)]),
    "reduce_min": (ReduceMinOp, {"axes": ints(0)}, lambda a: [np.min(a, 0)]),
    "reduce_prod": (
        ReduceProdOp,
        {"axes": ints(1)},
        lambda a: [np.prod(a, 1, dtype=a.dtype)],
    ),
    "reduce_sum": (
        ReduceSumOp,
        {"axes": ints(0, 1)},
        lambda a: [np.asarray(np.sum(a, dtype=a.dtype))],
    ),
    "relu": (ReluOp, {}, lambda a: [a]),
    "top_k": (TopKOp, {"count": number(2), "axis": number(1)}, best_two),
    "transpose": (TransposeOp, {"permutation": ints(1, 0)}, lambda a: [a.T]),
}


@pytest.mark.parametrize("dtype", UNSIGNED)
@pytest.mark.parametrize("name", FAMILIES)
def test_ops_of_one_tensor(run_op: RunOp, name: str, dtype: str) -> None:
    kind, properties, meaning = FAMILIES[name]
    a = any_of(dtype, 5, 7)
    op = made(kind, [a], **properties)
    results = zip(op.evaluate(a), run_op(op, a), meaning(a), strict=True)
    for evaluated, got, wanted in results:
        np.testing.assert_array_equal(evaluated, wanted)
        np.testing.assert_array_equal(got, wanted)
        assert got.dtype == wanted.dtype


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_products_and_convolutions(run_op: RunOp, dtype: str) -> None:
    a, b = any_of(dtype, 5, 7), any_of(dtype, 7, 3, seed=2)
    op = made(MatmulOp, [a, b])
    rows = [[cut(sum(x), dtype) for x in row] for row in terms_of(a, b)]
    np.testing.assert_array_equal(run_op(op, a, b)[0], np.array(rows, dtype))
    x, w = any_of(dtype, 1, 2, 5, 5), any_of(dtype, 3, 2, 1, 1, seed=3)
    conv = made(Conv2dOp, [x, w], strides=ints(1, 1), pads=ints(0, 0, 0, 0))
    wanted = np.einsum("ncij,oc->noij", x, w[:, :, 0, 0]).astype(dtype)
    np.testing.assert_array_equal(run_op(conv, x, w)[0], wanted)


def terms_of(a: Array, b: Array) -> list[list[list[int]]]:
    """The products that each element of a product of matrices is the sum of."""
    columns = b.T.tolist()
    return [
        [[x * y for x, y in zip(row, column, strict=True)] for column in columns]
        for row in a.tolist()
    ]


def test_a_largest_element_beyond_the_signed_ones_is_pooled(run_op: RunOp) -> None:
    a = np.array([[[[1, 200, 3], [4, 5, 6]]]], np.uint8)
    op = made(
        MaxPool2dOp, [a], kernel=ints(2, 2), strides=ints(1, 1), pads=ints(0, 0, 0, 0)
    )
    assert run_op(op, a)[0].tolist() == [[[[200, 200]]]]


def test_unsigned_elements_are_moved_and_scattered(run_op: RunOp) -> None:
    a, places = np.array([250, 3, 7], np.uint8), np.array([2, 0, 2])
    gathered = made(GatherOp, [a, places], axis=number(0))
    assert run_op(gathered, a, places)[0].tolist() == [7, 250, 7]
    both = made(ConcatOp, [a, a], axis=number(0))
    assert run_op(both, a, a)[0].tolist() == [250, 3, 7] * 2
    updates = np.array([255, 1, 9], np.uint8)
    mode = ModeAttr(ScatterMode("max"))
    op = made(ScatterElementsOp, [a, places, updates], axis=number(0), mode=mode)
    assert run_op(op, a, places, updates)[0].tolist() == [250, 3, 255]


def test_indices_have_a_sign() -> None:
    message = "^indices should be signed integers, got ui8$"
    with pytest.raises(VerifyException, match=message):
        made(GatherOp, [np.zeros(3), np.zeros(2, np.uint8)], axis=number(0))


def test_kernels_have_no_unsigned_types() -> None:
    a = np.zeros((2, 3), np.uint16)
    for op in (
        made(ReduceMaxOp, [a], axes=ints(1), keepdims=UnitAttr()),
        made(ArgMaxOp, [a], axis=number(1)),
        made(TopKOp, [a], count=number(2), axis=number(1)),
    ):
        assert "ui16" not in str(kernel_body(op).block)


JOB = """
job.job @main placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x3xui8>
  %w = job.variable "w" init <constant, value = 250> : tensor<3xui8>
  %c = op.constant dense<[1, 0, 200]> : tensor<3xui8>
  %s = op.add %x, %w : tensor<4x3xui8>, tensor<3xui8> -> tensor<4x3xui8>
  %m = op.maximum %s, %c : tensor<4x3xui8>, tensor<3xui8> -> tensor<4x3xui8>
  %f = op.cast %m to f32 : tensor<4x3xui8> -> tensor<4x3xf32>
  %l = op.less %x, %m : tensor<4x3xui8>, tensor<4x3xui8> -> tensor<4x3xi1>
  job.output "m", %m : tensor<4x3xui8>
  job.output "f", %f : tensor<4x3xf32>
  job.output "l", %l : tensor<4x3xi1>
}
"""


def test_sessions_take_hold_and_give_unsigned_integers(tmp_path: Path) -> None:
    module = installed_compiler()[0].parse(JOB.encode(), "job.mlir")
    x = any_of("uint8", 4, 3)
    with Session(Model(module, {}, tmp_path)) as session:
        got = session.run({"x": x})
    wanted = np.maximum(x + np.uint8(250), np.array([1, 0, 200], np.uint8))
    np.testing.assert_array_equal(got["m"], wanted)
    np.testing.assert_array_equal(got["f"], wanted.astype(np.float32))
    np.testing.assert_array_equal(got["l"], x < wanted)
    assert got["m"].dtype == np.uint8
