"""
Extents that are only known at run time: values of which counts say how much is there.

A value is a tensor of its maximum, with a count for each axis that data decides. Beyond
a count it holds elements that do not matter: an op may follow where each part of its
result along the axis needs that part of its operands alone, so where it could be
computed in parts on several devices, or where elements of a number change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from math import prod
from operator import mul

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IntegerType, f32
from xdsl.ir import SSAValue

from penstock.dialects.job import Entry
from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.comparison import LessOp
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.counted.compaction import CompressOp
from penstock.dialects.op.elementwise import DivOp, MinimumOp, MulOp
from penstock.dialects.op.linear import GemmOp, MatmulOp
from penstock.dialects.op.movement import GatherOp, ReshapeOp, TransposeOp
from penstock.dialects.op.normalization import LogSoftmaxOp, SoftmaxOp
from penstock.dialects.op.reduction import (
    ReduceMaxOp,
    ReduceMeanOp,
    ReduceMinOp,
    ReduceOp,
    ReduceProdOp,
    ReduceSumOp,
)
from penstock.dialects.op.rounding import RemOp
from penstock.dialects.op.sbp import BROADCAST, PARTIAL, SbpSignature, split
from penstock.dialects.op.scan import CumProdOp, CumSumOp
from penstock.dialects.op.selection import ArgMaxOp, ArgMinOp
from penstock.dialects.op.slicing import ConcatOp, SliceOp, SplitOp
from penstock.dialects.op.tensor_op import TensorOp, can_fail
from penstock.dialects.op.verify import normal_axis
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.numpy_types import dtype_of
from penstock.dialects.utils.tensors import tensor_type
from penstock.tools.frontend.onnx.ops import Ops, Value
from penstock.tools.frontend.onnx.sizes import Bounds, is_same

Counts = Mapping[int, SSAValue]
"""The counts of a value, by its axes."""


class CannotFollow(Exception):
    """An op needs more of an operand than its counts say."""


MOVED = CastOp | GatherOp | ReshapeOp | SliceOp | SplitOp | TransposeOp
"""Ops whose results have elements of their first operand alone."""


def least(dtype: np.dtype[np.generic]) -> float:
    """The number of a type that is below all others."""
    return -np.inf if dtype.kind in "fV" else int(np.iinfo(dtype.name).min)


def largest(dtype: np.dtype[np.generic]) -> float:
    """The number of a type that is above all others."""
    return np.inf if dtype.kind in "fV" else int(np.iinfo(dtype.name).max)


NEUTRAL: Mapping[type[TensorOp], Callable[[np.dtype[np.generic]], float]] = {
    ArgMaxOp: least,
    ArgMinOp: largest,
    CumProdOp: lambda _: 1,
    CumSumOp: lambda _: 0,
    LogSoftmaxOp: least,
    ReduceMaxOp: least,
    ReduceMinOp: largest,
    ReduceProdOp: lambda _: 1,
    ReduceSumOp: lambda _: 0,
    SoftmaxOp: least,
}
"""The numbers that change nothing of what an op makes along an axis."""

KEEPING = CumProdOp | CumSumOp | LogSoftmaxOp | SoftmaxOp
"""Those of them whose results have the axis."""

CONTRACTIONS = GemmOp | MatmulOp
"""Ops that sum products: zeros change nothing."""


class RunTimeExtents:
    """The values of a job that are counted, and those that are zero from there on."""

    def __init__(self, ops: Ops):
        self._ops = ops
        self._of: dict[SSAValue, dict[int, SSAValue]] = {}
        self._blank: set[SSAValue] = set()
        self.bounds = Bounds()
        """The largest numbers that counts may be."""
        self.is_settled = False
        """Whether what is not there of an operand was seen to since the node began."""

    def __contains__(self, value: Value) -> bool:
        return bool(self.of(value))

    def of(self, value: Value) -> Counts:
        """The counts of a value."""
        return self._of.get(value, {}) if isinstance(value, SSAValue) else {}

    def set(
        self, value: Value, axis: int, count: Value, *, is_blank: bool = True
    ) -> None:
        """
        Let a value be counted along an axis, too. It is blank if it is zero behind its
        last element.
        """
        assert isinstance(value, SSAValue), "a count is only known at run time"
        assert isinstance(count, SSAValue), "a count is only known at run time"
        self._of.setdefault(value, {})[axis] = count
        self.bounds.limit(count, self._ops.shape(value)[axis])
        if is_blank:
            self._blank.add(value)

    def filled(
        self, value: Value, number: float | bool = 0, counts: Counts | None = None
    ) -> Value:
        """
        A value of which all matters along all axes, or along those of some counts: what
        is not there is a number.
        """
        own = self.of(value)
        counts = own if counts is None else counts
        if not counts:
            return value
        self.is_settled = True
        filled = self._masked(value, counts, number)
        self._of[filled] = {axis: own[axis] for axis in own.keys() - counts.keys()}
        return filled

    def _masked(self, value: Value, counts: Counts, number: float) -> SSAValue:
        for axis, count in counts.items():
            shape = [1] * len(self._ops.shape(value))
            shape[axis] = self._ops.shape(value)[axis]
            places = np.arange(shape[axis]).reshape(shape)
            is_there = self._ops.one(LessOp, places, count)
            value = self._ops.where(is_there, value, number)
        assert isinstance(value, SSAValue), "the value is of the job"
        return value

    def is_blank(self, value: Value) -> bool:
        """Whether a value is zero behind its last element."""
        return value not in self or value in self._blank

    def fitted(self, value: Value, shape: Sequence[int]) -> Value:
        """A value in a shape with room for it; behind its elements is any number."""
        ops, old = self._ops, self._ops.shape(value)
        with self.ignored([value], *range(len(old))):
            after = [max(0, new - own) for new, own in zip(shape, old, strict=True)]
            value = ops.pad(value, [0] * len(old), after)
            for axis, extent in enumerate(shape):
                if ops.shape(value)[axis] > extent:
                    value = ops.slice(value, axis, 0, extent)
        return value

    def copy(self, value: Value, other: Value) -> None:
        """Let a value be counted as another one of its shape is."""
        assert self._ops.shape(value) == self._ops.shape(other), "they are alike"
        for axis, count in self.of(other).items():
            self.set(value, axis, count, is_blank=False)

    def first(self, value: Value, count: SSAValue) -> Value:
        """As many elements of a line as a count says."""
        found = self._masked(value, {0: count}, 0)
        self.set(found, 0, count)
        return found

    @contextmanager
    def ignored(self, values: Sequence[Value], *axes: int) -> Generator[None]:
        """Let ops read values whose elements behind counts do not matter to them."""
        found = [
            self._of[value]
            for value in values
            if isinstance(value, SSAValue) and value in self
        ]
        saved = [dict(counts) for counts in found]
        for counts in found:
            self.is_settled = self.is_settled or not counts.keys().isdisjoint(axes)
            for axis in axes:
                counts.pop(axis, None)
        try:
            yield
        finally:
            for counts, own in zip(found, saved, strict=True):
                counts.update(own)

    def taken(self, value: Value, places: Value, axis: int) -> Value:
        """The elements along an axis at places that are there."""
        with self.ignored([value], axis):
            return self._ops.one(GatherOp, value, places, axis=axis)

    # Ops

    def instead(self, op: TensorOp) -> Sequence[Value] | None:
        """The results of other ops that know counts, where an op itself does not."""
        match op:
            case ConcatOp():
                return self._joined(op)
            case ReduceMeanOp():
                return self._mean(op)
            case _:
                return None

    def _joined(self, op: ConcatOp) -> Sequence[Value] | None:
        """The elements that are there of each operand, one after the other."""
        operands, ops = list(op.operands), self._ops
        axis = normal_axis(op.axis.value.data, len(ops.shape(operands[0])))
        counts = [self.of(value).get(axis) for value in operands]
        if not any(count is not None for count in counts):
            return None
        extents = [ops.shape(value)[axis] for value in operands]
        with self.ignored(operands, axis):
            whole = ops.concat(operands, axis)
        sizes = [
            np.array([extent]) if count is None else ops.reshape(count, [1])
            for count, extent in zip(counts, extents, strict=True)
        ]
        # The operand that each element is of, and its place there.
        of = np.repeat(np.arange(len(extents)), extents)
        place = np.concatenate([np.arange(extent) for extent in extents])
        ends = ops.one(GatherOp, ops.concat(sizes, 0), of, axis=0)
        is_there = ops.one(LessOp, place, ends)
        numbers = np.arange(sum(extents))
        places, count = ops.results(CompressOp, numbers, is_there, axis=0)
        joined = self.taken(whole, places, axis)
        self.set(joined, axis, count, is_blank=False)
        return [joined]

    def _mean(self, op: ReduceMeanOp) -> Sequence[Value] | None:
        """The sum of what is there over the number of it."""
        counts, axes, ops = self.of(op.operand), op.normal_axes, self._ops
        if not any(axis in counts for axis in axes):
            return None
        shape, element = ops.shape(op.operand), ops.element(op.operand)
        number: Value = np.asarray(
            prod(shape[axis] for axis in axes if axis not in counts), np.int64
        )
        for axis in axes:
            if axis in counts:
                number = ops.mul(counts[axis], number)
        is_narrow = isinstance(element, AnyFloat) and element.bitwidth < 32
        wide = f32 if is_narrow else element
        keepdims = op.keepdims is not None
        value = ops.cast(op.operand, wide)
        total = ops.reduce(ReduceSumOp, value, axes, keepdims=keepdims)
        return [ops.cast(ops.div(total, ops.cast(number, wide)), element)]

    def prepare(self, op: TensorOp) -> Counts:
        """
        Let an op read numbers that do not matter beyond a count: indices and divisors
        that let no op fail, and those that change no result. The counts that its result
        has from there. Ops of bodies have read theirs.
        """
        if op.regions:
            return {}
        kept = self._prepare_lines(op)
        if isinstance(op, CONTRACTIONS):
            self._prepare_products(op)
        if can_fail(op):
            self._prepare_integers(op)
        return kept

    def _prepare_lines(self, op: TensorOp) -> Counts:
        neutral, counts = NEUTRAL.get(type(op)), self.of(op.operands[0])
        if neutral is None or not counts:
            return {}
        if isinstance(op, ArgMaxOp | ArgMinOp) and op.last is not None:
            return {}
        lines = {axis: counts[axis] for axis in lines_of(op) if axis in counts}
        value = op.operands[0]
        number = neutral(dtype_of(tensor_type(value).element_type))
        self._replace(op, 0, self.filled(value, number, lines))
        return lines if isinstance(op, KEEPING) else {}

    def _prepare_products(self, op: TensorOp) -> None:
        (inner,) = (
            found
            for found in op.sbp_signatures(2)
            if found.results == (PARTIAL,) and PARTIAL not in found.operands[:2]
        )
        for index in range(2):
            value, entry = op.operands[index], inner.operands[index]
            terms = {x: n for x, n in self.of(value).items() if entry == split(x)}
            self._replace(op, index, self.filled(value, 0, terms))

    def _prepare_integers(self, op: TensorOp) -> None:
        for index, value in enumerate(op.operands):
            counts, element = self.of(value), tensor_type(value).element_type
            if not counts or not isa(element, IntegerType) or index == 0:
                continue
            is_divisor = isinstance(op, DivOp | RemOp)
            if value in self._blank and not is_divisor:
                continue
            filled = self._masked(value, counts, 1 if is_divisor else 0)
            self._of[filled] = dict(counts)
            self._replace(op, index, filled)

    def _replace(self, op: TensorOp, index: int, value: Value) -> None:
        assert isinstance(value, SSAValue), "it stands for a value of the job"
        op.operands[index] = value

    def follow(self, op: TensorOp, kept: Counts) -> None:
        """
        Say how the results of an op are counted, beside the counts that are known. Of
        an op with bodies the one that makes it does. Raises `CannotFollow`.
        """
        if op.regions or (not kept and not any(value in self for value in op.operands)):
            return
        found: list[dict[int, SSAValue]] = [dict(kept) for _ in op.results]
        for index, value in enumerate(op.operands):
            for axis, count in self.of(value).items():
                for counts, place, own in self._after(op, index, axis, count, found):
                    if not is_same(counts.setdefault(place, own), own):
                        raise CannotFollow("its operands have different counts")
        for result, counts in zip(op.results, found, strict=True):
            self._of[result] = counts
            if isinstance(op, MOVED) and op.operands[0] in self._blank:
                self._blank.add(result)

    def _after(
        self,
        op: TensorOp,
        index: int,
        axis: int,
        count: SSAValue,
        found: Sequence[dict[int, SSAValue]],
    ) -> Sequence[tuple[dict[int, SSAValue], int, SSAValue]]:
        """The axes of results that an axis of an operand is, and their counts."""
        if isinstance(op, ReshapeOp):
            return [(found[0], *self._reshaped(op, axis, count))]
        if isinstance(op, SliceOp) and (length := _start_of(op, axis)) is not None:
            least = self._ops.two(MinimumOp, count, length)
            assert isinstance(least, SSAValue), "the count is of the job"
            return [(found[0], axis, least)]
        places = axes_after(op, index, axis)
        return [
            (counts, place, count)
            for counts, place in zip(found, places, strict=True)
            if place is not None
        ]

    def _reshaped(
        self, op: ReshapeOp, axis: int, count: SSAValue
    ) -> tuple[int, SSAValue]:
        """
        The axis that a counted one has become, or that it and all after it have, if it
        is the first one; or the first of those that it is split to, if its count is of
        whole ones.
        """
        old, new = (tensor_type(v).get_shape() for v in (op.operands[0], op.results[0]))
        before, extent = prod(old[:axis]), old[axis]
        # An extent of 1 may lie between any others.
        for place in range(len(new)) if extent > 1 else ():
            if prod(new[:place]) != before or new[place] == 1:
                continue
            if new[place] == extent:
                return place, count
            times, rest = divmod(new[place], extent)
            others = [n for n in self.of(op.operands[0]) if n > axis]
            if before == 1 and not rest and not others:
                made = self._ops.two(MulOp, count, times)
                assert isinstance(made, SSAValue), "the count is of the job"
                return place, made
            times, rest = divmod(extent, new[place])
            ends = accumulate(new[place:], mul)
            if not rest and extent in ends and (parts := _parts(count, times)):
                return place, parts
        raise CannotFollow(f"its result has no axis for the count of {extent}")

    def reshaped(
        self, value: SSAValue, shape: Sequence[int], counted: set[int], free: set[int]
    ) -> Value:
        """
        A value in a shape of which some axes are as long as data says, and some may be.
        Raises `CannotFollow` if others would have to be.
        """
        ops, counts = self._ops, self.of(value)
        rest = prod(extent for extent in shape if extent != -1)
        left = prod(ops.shape(value)) // max(rest, 1)
        whole = [left if extent == -1 else extent for extent in shape]
        ends = sorted(free | counted)
        axis = next((axis for axis in ends if prod(whole[:axis]) == 1), None)
        if axis is not None and [*counts] == [0]:
            times, rest = divmod(ops.shape(value)[0], max(whole[axis], 1))
            if times > 1 and not rest:
                with self.ignored([value], 0):
                    found = ops.reshape(value, shape)
                parts = ops.div(counts[0], times)
                self.set(found, axis, parts, is_blank=value in self._blank)
                return found
        found = ops.one(ReshapeOp, value, shape=shape)
        if not counted <= self.of(found).keys() <= free | counted:
            raise CannotFollow("its result has a known extent for one that is a count")
        return found


def _parts(count: SSAValue, size: int) -> SSAValue | None:
    """The number that a count is a size times, if it is such a product."""
    op = count.owner
    if not isinstance(op, MulOp) or not isinstance(by := op.rhs.owner, ConstantOp):
        return None
    return op.lhs if by.splat == size else None


def lines_of(op: TensorOp) -> Sequence[int]:
    """The axes along which an op combines the elements of its first operand."""
    if isinstance(op, ReduceOp):
        return op.normal_axes
    assert isinstance(op, ArgMaxOp | ArgMinOp | KEEPING), "they have an axis"
    rank = tensor_type(op.operands[0]).get_num_dims()
    return [normal_axis(op.axis.value.data, rank)]


def _start_of(op: SliceOp, axis: int) -> int | None:
    """The length of what a slice keeps from the start of an axis, if it does."""
    whole, part = (tensor_type(v).get_shape() for v in (op.operands[0], op.results[0]))
    start, step = (each.get_values()[axis] for each in (op.starts, op.steps))
    return part[axis] if start == 0 and step == 1 and part[axis] < whole[axis] else None


def axes_after(op: TensorOp, index: int, axis: int) -> Sequence[int | None]:
    """
    The axis of each result that is cut where an operand is cut along one; None of one
    that does not depend on it. Raises `CannotFollow` if others need all.
    """
    for found in op.sbp_signatures(2):
        is_of_parts = found.operands[index] == split(axis)
        if is_of_parts and PARTIAL not in found.results and _suits(op, found):
            return [_axis_of(entry) for entry in found.results]
    raise CannotFollow(f"{op.name} needs all of an operand whose extent is a count")


def _axis_of(entry: Entry) -> int | None:
    axes = (axis for axis in range(9) if entry == split(axis))
    return next(axes, None)


def _suits(op: TensorOp, found: SbpSignature) -> bool:
    """Whether operands and results are whole, or are cut along axes of one extent."""
    entries = *found.operands, *found.results
    extents: set[int] = set()
    for value, entry in zip((*op.operands, *op.results), entries, strict=True):
        if (axis := _axis_of(entry)) is not None:
            extents.add(tensor_type(value).get_shape()[axis])
        elif entry != BROADCAST:
            return False
    return len(extents) == 1
