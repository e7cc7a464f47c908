"""`op.update_rows` against loops over its indices in NumPy, in 64 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from draws import fresh
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.test_value import create_ssa_value

from penstock.dialects.op.body import YieldOp
from penstock.dialects.op.op_builder import OpBuilder
from penstock.dialects.op.training.update_rows import UpdateRowsOp, rows_of
from penstock.dialects.utils.numpy_types import element_type_of
from penstock.dialects.utils.tensors import tensor_type

Array: TypeAlias = NDArray[Any]
RunOp: TypeAlias = Callable[..., list[Array]]


def value(array: Array) -> SSAValue:
    """A value like an array."""
    return create_ssa_value(TensorType(element_type_of(array.dtype), array.shape))


def made(indices: Array, w: Array, m: Array, g: Array, rate: Array) -> UpdateRowsOp:
    """Momentum of rows: m = 0.5 m + g, w = w - rate m."""
    targets, others = [value(w), value(m)], [value(g), value(rate)]
    kinds = [rows_of(tensor_type(value(x)), indices.shape) for x in (w, m)]
    block = Block(arg_types=[*kinds, *(x.type for x in others)])
    o = OpBuilder(block.add_op)
    old, momentum, grad, scale = block.args
    momentum = o.add(o.mul(momentum, 0.5), grad)
    block.add_op(YieldOp(o.sub(old, o.mul(momentum, scale)), momentum))
    op = UpdateRowsOp(value(indices), targets, others, Region(block))
    op.verify()
    return op


def expected(
    indices: Array, w: Array, m: Array, g: Array, rate: Array
) -> tuple[Array, Array]:
    """One index after the other."""
    w, m = w.astype(np.float64), m.astype(np.float64)
    for number, row in enumerate(indices):
        if 0 <= row < len(w):
            m[row] = 0.5 * m[row] + g[number]
            w[row] -= float(rate) * m[row]
    return w, m


@pytest.mark.parametrize(
    ("indices", "rows", "columns"),
    [
        ([4, 0, 4, 9, 4, -1, 0, 8], 9, (70,)),
        ([1, 1, 0], 3, ()),
        ([2, 0, 2, 2], 3, (2, 3)),
        ([], 3, (4,)),
        ([0], 0, (4,)),
        ([0], 2, (0,)),
    ],
    ids=str,
)
def test_rows_are_updated_one_after_the_other(
    indices: list[int], rows: int, columns: tuple[int, ...], run_op: RunOp
) -> None:
    rng = fresh()
    w, m = (rng.normal(size=(rows, *columns)).astype(np.float32) for _ in range(2))
    g = rng.normal(size=(len(indices), *columns)).astype(np.float32)
    arrays = np.array(indices, np.int64), w, m, g, np.array(0.1, np.float32)
    op = made(*arrays)
    wanted = expected(*arrays)
    for found in (op.evaluate(*arrays), run_op(op, *arrays)):
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(ours, float), theirs, 1e-5, 1e-5)


def test_the_cost_is_that_of_rows_and_no_more() -> None:
    indices, g, rate = np.zeros(3, np.int64), np.zeros((3, 8)), np.array(1.0)
    few, many = (np.zeros((rows, 8)) for rows in (10, 1000))
    cost = made(indices, few, few, g, rate).cost()
    assert cost == made(indices, many, many, g, rate).cost()
