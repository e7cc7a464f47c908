"""
Integers of shapes that follow from counts: which numbers they are, and how large they
can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.comparison import EqualOp, WhereOp
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.elementwise import (
    AddOp,
    DivOp,
    MaximumOp,
    MinimumOp,
    MulOp,
)
from penstock.dialects.op.movement import ExpandOp, GatherOp, ReshapeOp, TransposeOp
from penstock.dialects.op.reduction import (
    ReduceMaxOp,
    ReduceMinOp,
    ReduceProdOp,
    ReduceSumOp,
)
from penstock.dialects.op.slicing import ConcatOp, SliceOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.tensors import tensor_type
from penstock.tools.frontend.onnx.ops import Value

Size: TypeAlias = int | SSAValue
"""An extent: a number, or a value of one integer."""

Numbers: TypeAlias = npt.NDArray[Any]

MOST_SIZES = 64
"""The most integers that are looked at one by one."""

MOVING = ConcatOp | ExpandOp | GatherOp | ReshapeOp | SliceOp | TransposeOp
"""Ops that move elements."""

GROWING = (
    AddOp
    | MaximumOp
    | MinimumOp
    | MulOp
    | ReduceMaxOp
    | ReduceMinOp
    | ReduceProdOp
    | ReduceSumOp
)
"""Ops on numbers from 0 on whose results are largest where their operands are."""


def is_same(a: SSAValue, b: SSAValue) -> bool:
    """Whether two numbers are one, or are computed alike."""
    if a is b:
        return True
    one, other = a.owner, b.owner
    if not (isinstance(one, TensorOp) and isinstance(other, TensorOp)):
        return False
    return (
        (one.name, one.properties, len(one.operands), a.type)
        == (other.name, other.properties, len(other.operands), b.type)
        and [x is a for x in one.results] == [x is b for x in other.results]
        and not one.regions
        and all(map(is_same, one.operands, other.operands))
    )


class Bounds:
    """The largest numbers that counts, and what is computed from them, may be."""

    def __init__(self) -> None:
        self._limits: dict[SSAValue, int] = {}

    def limit(self, count: SSAValue, most: int) -> None:
        """Say that a count is at most a number."""
        self._limits[count] = min(most, self._limits.get(count, most))

    def of(self, size: Size) -> int | None:
        """The largest number that a size may be, if that is known."""
        if not isinstance(size, SSAValue):
            return size
        most = self._most(size).reshape(-1)[0]
        return int(most) if np.isfinite(most) else None

    def sizes_of(self, value: Value) -> Sequence[Size] | None:
        """The integers of a list, if each is known or a value of its own."""
        found = self._entries(value)
        return None if found is None else [*found.reshape(-1)]

    def _entries(self, value: Value) -> Numbers | None:
        """
        The elements of a tensor of integers, in an array of its shape: numbers, and
        values that have one element. None if some are neither.
        """
        if not isinstance(value, SSAValue):
            return value.astype(np.int64).astype(object)
        shape = tensor_type(value).get_shape()
        if prod(shape) > MOST_SIZES:
            return None
        op, found = value.owner, None
        if isinstance(op, ConstantOp):
            found = op.meaning()[0].astype(np.int64).astype(object)
        elif isinstance(op, CastOp):
            found = self._entries(op.operands[0])
        elif isinstance(op, MOVING | EqualOp | WhereOp):
            found = self._made(op)
        if found is None and prod(shape) == 1:
            found = np.full(shape, value, object)
        return found

    def _made(self, op: TensorOp) -> Numbers | None:
        """The elements that an op takes from operands whose elements are known."""
        operands: list[Numbers] = []
        for operand in op.operands:
            if (found := self._entries(operand)) is None:
                return None
            is_known = all(isinstance(each, int) for each in found.reshape(-1))
            operands.append(found.astype(np.int64) if is_known else found)
        if isinstance(op, EqualOp):
            return self._equal(*operands)
        # Places and conditions have to be known.
        choosers = operands[1:] if isinstance(op, GatherOp) else operands[:1]
        is_choice = isinstance(op, GatherOp | WhereOp)
        if is_choice and any(each.dtype == object for each in choosers):
            return None
        return np.asarray(op.evaluate(*operands)[0], object)

    def _equal(self, lhs: Numbers, rhs: Numbers) -> Numbers | None:
        """Whether elements are equal, where each pair of them tells; else None."""
        pairs = np.broadcast(lhs.astype(object), rhs.astype(object))
        found = [self._is_equal(*pair) for pair in pairs]
        if None in found:
            return None
        return np.array([int(bool(each)) for each in found], object).reshape(
            pairs.shape
        )

    def _is_equal(self, lhs: Size, rhs: Size) -> bool | None:
        match lhs, rhs:
            case int(), int():
                return lhs == rhs
            case SSAValue(), int():
                # A count may be any number from 0 on.
                return False if lhs in self._limits and rhs < 0 else None
            case int(), SSAValue():
                return self._is_equal(rhs, lhs)
            case _:
                return None

    def is_at_most(self, size: Size, other: Size) -> bool:
        """Whether a size is at most another one, whatever they are."""
        most = self.of(size)
        if isinstance(other, int):
            return most is not None and most <= other
        if not isinstance(size, SSAValue):
            return False
        if is_same(size, other):
            return True
        op = size.owner
        if isinstance(op, CastOp | ReshapeOp | MinimumOp):
            return any(self.is_at_most(value, other) for value in op.operands)
        if isinstance(op, ReduceMinOp):
            return any(
                self.is_at_most(x, other) for x in self.sizes_of(op.operand) or ()
            )
        return False

    def _most(self, value: SSAValue) -> Numbers:
        """The largest numbers that elements from 0 on may be; infinite if unknown."""
        shape = tensor_type(value).get_shape()
        unknown = np.broadcast_to(np.inf, shape)
        if value in self._limits:
            return np.full(shape, float(self._limits[value]))
        op = value.owner
        if not isinstance(op, TensorOp) or any(map(_is_large, op.operands)):
            return unknown
        if isinstance(op, ConstantOp):
            found = np.asarray(op.meaning()[0], np.float64)
            return found if (found >= 0).all() else unknown
        if isinstance(op, CastOp):
            return self._most(op.operands[0])
        if isinstance(op, GatherOp | DivOp):
            # Places and divisors have to be known.
            by = op.operands[1].owner
            if not isinstance(by, ConstantOp):
                return unknown
            number = by.meaning()[0]
            if isinstance(op, GatherOp):
                return op.evaluate(self._most(op.operands[0]), number)[0]
            is_positive = np.all(np.greater(number, 0))
            return self._most(op.operands[0]) // number if is_positive else unknown
        if isinstance(op, GROWING | MOVING):
            return op.evaluate(*map(self._most, op.operands))[0]
        return unknown


def _is_large(value: SSAValue) -> bool:
    return prod(tensor_type(value).get_shape()) > MOST_SIZES
