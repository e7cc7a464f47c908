"""
Extents that are only known at run time: values of which a count says how much is there.

A value is a tensor of its maximum. Beyond the count it holds elements that do not
matter: an op may follow where each part of its result along the axis needs that part of
its operands alone, so where it could be computed in parts on several devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue
from xdsl.utils.hints import isa

from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.comparison import LessOp
from penstock.dialects.op.elementwise import DivOp, MinimumOp, MulOp
from penstock.dialects.op.movement import GatherOp, ReshapeOp, TransposeOp
from penstock.dialects.op.reduction import (
    ReduceMaxOp,
    ReduceMinOp,
    ReduceOp,
    ReduceProdOp,
    ReduceSumOp,
)
from penstock.dialects.op.rounding import RemOp
from penstock.dialects.op.sbp import BROADCAST, SbpSignature, split
from penstock.dialects.op.slicing import SliceOp, SplitOp
from penstock.dialects.op.tensor_op import TensorOp, can_fail
from penstock.dialects.utils.numpy_types import dtype_of
from penstock.dialects.utils.tensors import tensor_type
from penstock.tools.frontend.onnx.ops import Ops, Value


@dataclass(frozen=True)
class Extent:
    """The axis of a value that is counted, and its count."""

    axis: int
    count: SSAValue


class CannotFollow(Exception):
    """An op needs more of an operand than its count says."""


MOVED = CastOp | GatherOp | ReshapeOp | SliceOp | SplitOp | TransposeOp
"""Ops whose results have elements of their first operand alone."""


def least(dtype: np.dtype[np.generic]) -> float:
    """The number of a type that is below all others."""
    return -np.inf if dtype.kind in "fV" else int(np.iinfo(dtype.name).min)


def largest(dtype: np.dtype[np.generic]) -> float:
    """The number of a type that is above all others."""
    return np.inf if dtype.kind in "fV" else int(np.iinfo(dtype.name).max)


NEUTRAL: Mapping[type[ReduceOp], Callable[[np.dtype[np.generic]], float]] = {
    ReduceSumOp: lambda _: 0,
    ReduceProdOp: lambda _: 1,
    ReduceMaxOp: least,
    ReduceMinOp: largest,
}
"""The numbers that change no fold."""


class RunTimeExtents:
    """The values of a job that are counted, and those that are zero from there on."""

    def __init__(self, ops: Ops):
        self._ops = ops
        self._of: dict[SSAValue, Extent] = {}
        self._blank: set[SSAValue] = set()
        self.is_settled = False
        """Whether an operand of the node that is read was filled up since it began."""

    def __contains__(self, value: Value) -> bool:
        return isinstance(value, SSAValue) and value in self._of

    def of(self, value: Value) -> Extent | None:
        """The extent of a value that is counted."""
        return self._of.get(value) if isinstance(value, SSAValue) else None

    def set(self, value: Value, axis: int, count: Value) -> None:
        """Let a value be counted along an axis, and be zero behind its last element."""
        assert isinstance(value, SSAValue), "a count is only known at run time"
        assert isinstance(count, SSAValue), "a count is only known at run time"
        self._of[value] = Extent(axis, count)
        self._blank.add(value)

    def filled(self, value: Value, number: float | bool = 0) -> Value:
        """A value of which all matters: what is not there is a number."""
        if (extent := self.of(value)) is None:
            return value
        assert isinstance(value, SSAValue), "it is counted"
        self.is_settled = True
        filled = self._filled(value, extent, number)
        assert isinstance(filled, SSAValue), "the value is of the job"
        del self._of[filled]
        return filled

    def _filled(self, value: SSAValue, extent: Extent, number: float) -> Value:
        shape = [1] * len(self._ops.shape(value))
        whole = self._ops.shape(value)[extent.axis]
        shape[extent.axis] = whole
        places = np.arange(whole).reshape(shape)
        is_there = self._ops.one(LessOp, places, extent.count)
        return self._ops.where(is_there, value, number)

    def prepare(self, op: TensorOp) -> None:
        """
        Let an op read numbers that do not matter beyond a count: indices and divisors
        that let no op fail, and those that change no fold.
        """
        if isinstance(op, ReduceOp):
            self._prepare_fold(op)
        if not can_fail(op):
            return
        for index, value in enumerate(op.operands):
            extent = self._of.get(value)
            element = tensor_type(value).element_type
            if extent is None or not isa(element, IntegerType) or index == 0:
                continue
            is_divisor = isinstance(op, DivOp | RemOp)
            if value in self._blank and not is_divisor:
                continue
            filled = self._filled(value, extent, 1 if is_divisor else 0)
            assert isinstance(filled, SSAValue), "the value is of the job"
            self._of[filled] = extent
            op.operands[index] = filled

    def _prepare_fold(self, op: ReduceOp) -> None:
        extent, neutral = self.of(op.operand), NEUTRAL.get(type(op))
        if extent is None or neutral is None or extent.axis not in op.normal_axes:
            return
        element = tensor_type(op.operand).element_type
        filled = self.filled(op.operand, neutral(dtype_of(element)))
        assert isinstance(filled, SSAValue), "the operand is of the job"
        op.operands[0] = filled

    def follow(self, op: TensorOp) -> None:
        """Say how the results of an op are counted. Raises `CannotFollow`."""
        ends = (region.block.last_op for region in op.regions)
        if any(value in self for end in ends if end for value in end.operands):
            raise CannotFollow("a result of its bodies has an extent that is a count")
        counted = {
            index: extent
            for index, value in enumerate(op.operands)
            if (extent := self._of.get(value)) is not None
        }
        if not counted:
            return
        if len({extent.count for extent in counted.values()}) > 1:
            raise CannotFollow("its operands have different counts")
        if op.regions:
            raise CannotFollow("an operand of its bodies has an extent that is a count")
        axes = {index: extent.axis for index, extent in counted.items()}
        count = next(iter(counted.values())).count
        if isinstance(op, ReshapeOp):
            found = [self._reshaped(op, axes[0], count)]
        elif isinstance(op, SliceOp) and (kept := _start_of(op, axes[0])) is not None:
            least = self._ops.two(MinimumOp, count, kept)
            assert isinstance(least, SSAValue), "the count is of the job"
            found = [Extent(axes[0], least)]
        else:
            found = [Extent(axis, count) for axis in axes_after(op, axes)]
        for result, extent in zip(op.results, found, strict=True):
            self._of[result] = extent
            if isinstance(op, MOVED) and op.operands[0] in self._blank:
                self._blank.add(result)

    def _reshaped(self, op: ReshapeOp, axis: int, count: SSAValue) -> Extent:
        """The extent of other axes that an axis has become, or is a part of."""
        old, new = (tensor_type(v).get_shape() for v in (op.operands[0], op.results[0]))
        before, extent = prod(old[:axis]), old[axis]
        starts = [prod(new[:place]) for place in range(len(new))]
        places = [place for place, start in enumerate(starts) if start == before]
        for place in places:
            if new[place] == extent:
                return Extent(place, count)
        for place in places if before == 1 else ():
            for op_type, times in ((MulOp, new[place]), (DivOp, extent)):
                other = extent if op_type is MulOp else new[place]
                if other > 1 and times % other == 0:
                    made = self._ops.two(op_type, count, times // other)
                    assert isinstance(made, SSAValue), "the count is of the job"
                    return Extent(place, made)
        raise CannotFollow(f"its result has no axis for the count of {extent}")


def _start_of(op: SliceOp, axis: int) -> int | None:
    """The length of what a slice keeps from the start of an axis, if it does."""
    whole, part = (tensor_type(v).get_shape() for v in (op.operands[0], op.results[0]))
    start, step = (each.get_values()[axis] for each in (op.starts, op.steps))
    return part[axis] if start == 0 and step == 1 and part[axis] < whole[axis] else None


def axes_after(op: TensorOp, axes: Mapping[int, int]) -> Sequence[int]:
    """
    The axis of each result that is cut where operands are cut along these. Raises
    `CannotFollow` if there are none.
    """
    for found in op.sbp_signatures(2):
        results = [_axis_of(found, number) for number in range(len(op.results))]
        known = [axis for axis in results if axis is not None]
        if len(known) == len(results) and _suits(op, found, axes, known):
            return known
    raise CannotFollow(f"{op.name} needs all of an operand whose extent is a count")


def _axis_of(found: SbpSignature, number: int) -> int | None:
    entry = found.results[number]
    axes = (axis for axis in range(9) if entry == split(axis))
    return next(axes, None)


def _suits(
    op: TensorOp, found: SbpSignature, axes: Mapping[int, int], results: Sequence[int]
) -> bool:
    """Whether operands that are counted are cut there, and others fit to that."""
    whole = {tensor_type(op.operands[i]).get_shape()[axis] for i, axis in axes.items()}
    whole |= {
        tensor_type(value).get_shape()[axis]
        for value, axis in zip(op.results, results, strict=True)
    }
    return len(whole) == 1 and all(
        entry == split(axes[index]) if index in axes else _is_there(op, found, index)
        for index, entry in enumerate(found.operands)
    )


def _is_there(op: TensorOp, found: SbpSignature, index: int) -> bool:
    """Whether an operand that is not counted is whole, or cut like the others."""
    rank = tensor_type(op.operands[index]).get_num_dims()
    return found.operands[index] in (BROADCAST, *map(split, range(rank)))
