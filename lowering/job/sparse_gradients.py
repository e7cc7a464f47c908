"""
Gradients of embeddings as rows by indices: a part of `job-add-updates`.

The gradient of a table that `op.gather` reads is zero but in the rows that indices
name. Where an optimizer leaves other rows as they are, the table is never gone through:
neither for the gradient nor for the update.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple

from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import Operation, SSAValue

from penstock.dialects.op.all_finite import AllFiniteOp
from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.elementwise import AddOp, MulOp
from penstock.dialects.op.indexing import places_on
from penstock.dialects.op.movement import ReshapeOp
from penstock.dialects.op.multirate import AccOp, PackOp
from penstock.dialects.op.op_builder import OpBuilder
from penstock.dialects.op.training.embedding_gradient import EmbeddingGradientOp
from penstock.dialects.utils.tensors import element_count, tensor_type


class Rows(NamedTuple):
    """A gradient that is zero but in some rows, which are sums of `values`."""

    values: SSAValue
    indices: SSAValue
    """A line with the row of each of the values."""


def sparse_count(value: SSAValue) -> int | None:
    """
    The number of the rows that a gradient is a sum of, if it is made of those of
    `op.gather` alone: their sum, a mean of several pieces, in any float; else None.
    """
    match op := value.owner:
        case EmbeddingGradientOp():
            return element_count(op.indices.type)
        case AddOp(lhs=lhs, rhs=rhs) if lhs.type == rhs.type:
            sides = sparse_count(lhs), sparse_count(rhs)
            return None if None in sides else sum(x for x in sides if x is not None)
        case AccOp(source=source):
            count = sparse_count(source)
            return None if count is None else count * op.acts
        case MulOp(lhs=lhs, rhs=rhs) if not tensor_type(rhs).get_num_dims():
            return sparse_count(lhs)
        case ReshapeOp(source=source) if source.type == value.type:
            return sparse_count(source)
        case CastOp():
            return sparse_count(op.operands[0])
        case _:
            return None


def _rows(o: OpBuilder, value: SSAValue) -> Rows:
    """A gradient that has a `sparse_count`, as rows."""
    match op := value.owner:
        case EmbeddingGradientOp(grad=grad, indices=indices):
            count = prod(o.shape(indices))
            columns = o.shape(grad)[len(o.shape(indices)) :]
            line = o.cast(o.reshape(indices, [count]), i64)
            return Rows(o.reshape(grad, [count, *columns]), line)
        case AddOp(lhs=lhs, rhs=rhs):
            sides = _rows(o, lhs), _rows(o, rhs)
            return Rows(*(o.concat(parts, 0) for parts in zip(*sides, strict=True)))
        case AccOp(source=source):
            return Rows(*(_packed(o, part, op.acts) for part in _rows(o, source)))
        case MulOp(lhs=lhs, rhs=rhs):
            rows = _rows(o, lhs)
            share = o.cast(rhs, o.element(rows.values))
            return rows._replace(values=o.mul(rows.values, share))
        case _:
            assert isinstance(op, Operation), "it has a sparse count"
            return _rows(o, op.operands[0])


def _packed(o: OpBuilder, value: SSAValue, count: int) -> SSAValue:
    """The rows of several pieces."""
    rows, *columns = o.shape(value)
    op = PackOp(value, count, TensorType(o.element(value), [rows * count, *columns]))
    o.insert(op)
    return op.result


def sparse_gradient(value: SSAValue, insert: Callable[[Operation], object]) -> Rows:
    """
    A gradient that has a `sparse_count`, as rows whose indices differ, but for those
    behind the last one, which are out of range. Equal indices had their rows added, in
    their order. One that was out of range is an error when the job runs.

    Whether it is finite is asked of these rows.
    """
    o = OpBuilder(insert)
    values, indices = _rows(o, value)
    (count,), extent = o.shape(indices), o.shape(value)[0]
    place = o.where(o.greater(0, indices), o.add(indices, extent), indices)
    is_row = o.both(o.greater_equal(place, 0), o.greater(extent, place))
    place = o.one("op.require", is_row, place, message="gather index out of range")
    rows, _, number, _, found = o.results("op.unique", place, sorted=True)
    # The sums are of the order in which the gradient of the table has them.
    total = o.one("op.embedding_gradient", values, number, rows=count)
    is_used = o.greater(found, places_on(o, [count], 0, indices))
    for use in list(value.uses):
        if isinstance(reader := use.operation, AllFiniteOp):
            reader.operands[use.index] = total
    return Rows(total, o.where(is_used, rows, extent))
