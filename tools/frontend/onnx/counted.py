"""Converters of ops whose results have as many elements as data says."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import SSAValue

from penstock.dialects.op.comparison import LessEqualOp, LessOp
from penstock.dialects.op.counted.compaction import CompressOp, NonZeroOp
from penstock.dialects.op.counted.non_max_suppression import NonMaxSuppressionOp
from penstock.dialects.op.counted.unique import UniqueOp
from penstock.dialects.op.movement import GatherOp
from penstock.dialects.op.slicing import SliceOp
from penstock.tools.frontend.onnx.graph import Converter, Node, NotKnown
from penstock.tools.frontend.onnx.ops import Ops, Value
from penstock.tools.frontend.onnx.sizes import Size


def non_zero(node: Node) -> None:
    """The places of elements that are not zero, one a column."""
    extents = node.builder.extents
    value = extents.filled(node.value())
    places, count = node.ops.results(NonZeroOp, value, max=node.maximum)
    extents.set(places, 1, count)
    node.give_value(places)


def compress(node: Node) -> None:
    """The slices along an axis for which a condition holds."""
    value, axis = node.value(), node.axis(0) if node.given("axis") else 0
    if not node.given("axis"):
        value = node.ops.reshape(value, [prod(node.shape())])
    extents, condition = node.builder.extents, node.value(1)
    if not isinstance(condition, SSAValue):
        places = np.flatnonzero(condition.astype(np.bool_))
        node.give_value(node.ops.one(GatherOp, value, places, axis=axis))
        return
    mask = extents.filled(node.ops.cast(condition, i1), False)
    # Its elements are there where those of the condition are.
    with extents.ignored([value], axis):
        kept, count = node.ops.results(
            CompressOp, value, mask, axis=axis, max=node.maximum
        )
    extents.set(kept, axis, count)
    node.give_value(kept)


def scalar(node: Node, size: SSAValue) -> SSAValue:
    """A size as a number of 64 bits."""
    found = node.ops.reshape(node.ops.cast(size, i64), [])
    assert isinstance(found, SSAValue), "it is only known at run time"
    return found


def places_in(node: Node, places: Value, axis: int) -> Value:
    """
    Places along an axis of the first operand, from its start on; those that are not
    there let the op that reads them fail, as they are behind its maximum.
    """
    count = node.builder.extents.of(node.value()).get(axis)
    if count is None:
        return node.tensor(1)
    return inside_places(node.ops, places, count, node.shape()[axis])


def inside_places(ops: Ops, places: Value, count: Value, outside: int) -> Value:
    """Places from the start on of so many; a number for those that are not there."""
    places = ops.cast(places, i64)
    from_start = ops.where(ops.two(LessOp, places, 0), ops.add(places, count), places)
    is_inside = ops.one(LessOp, from_start, count)
    not_before = ops.one(LessEqualOp, np.asarray(0), from_start)
    is_there = ops.both(is_inside, not_before)
    return ops.where(is_there, from_start, outside)


def is_plain(node: Node, axis: int, start: int, end: int, step: int) -> bool:
    """Whether a slice of an axis of the first operand needs no count but its own."""
    is_first = start == 0 and end >= 0 and step == 1
    return is_first or axis not in node.builder.extents.of(node.value())


def counted_slice(
    node: Node, value: Value, axis: int, part: tuple[Size, Size, int]
) -> Value:
    """
    The elements between two places of an axis, as `Slice` means them, where the axis is
    counted, or a place is only known at run time.
    """
    ops, extents, (start, end, step) = node.ops, node.builder.extents, part
    extent = ops.shape(value)[axis]
    if step < 1 or not extent:
        raise NotKnown("a slice of a count goes from the end on", node.outputs[0])
    first, last = (_place(node, value, axis, size) for size in (start, end))
    count = last if start == 0 else ops.maximum(ops.sub(last, first), 0)
    if step > 1:
        count = ops.div(ops.add(count, step - 1), step)
    low = start if isinstance(start, int) and start > 0 else 0
    high = extents.bounds.of(end)
    high = min(extent, high) if high is not None and high >= 0 else extent
    places = np.arange(max(0, -(-(high - low) // step))) * step
    if start == 0 and step == 1:
        ends = ops.shape(value)
        ends[axis], rank = len(places), len(ends)
        bounds = {"starts": [0] * rank, "ends": ends, "steps": [1] * rank}
        with extents.ignored([value], axis):
            found = ops.one(SliceOp, value, **bounds)
    else:
        there = ops.minimum(ops.add(places, first), extent - 1)
        found = extents.taken(value, there, axis)
    extents.set(found, axis, count, is_blank=False)
    return found


def _place(node: Node, value: Value, axis: int, size: Size) -> Value:
    """A start or an end of a slice, from the start of the axis on and within it."""
    ops, extents = node.ops, node.builder.extents
    count, extent = extents.of(value).get(axis), ops.shape(value)[axis]
    whole: Value = np.asarray(extent, np.int64) if count is None else count
    if isinstance(size, int):
        if size >= extent:
            return whole
        return ops.minimum(whole, size) if size >= 0 else _from_end(ops, whole, size)
    place, bound = scalar(node, size), extents.bounds.of(size)
    if bound is not None and bound <= extent and count is None:
        return place
    inside = ops.minimum(place, whole)
    if bound is not None:
        return inside
    is_before = ops.two(LessOp, place, 0)
    return ops.where(is_before, _from_end(ops, whole, place), inside)


def _from_end(ops: Ops, whole: Value, place: Value | int) -> Value:
    return ops.maximum(ops.add(whole, place), 0)


def unique(node: Node) -> None:
    """The differing elements, or slices along an axis, and where they are."""
    ops, value, extents = node.ops, node.value(), node.builder.extents
    shape, axis = node.shape(), node.axis(0) if node.given("axis") else 0
    order = [axis, *(other for other in range(len(shape)) if other != axis)]
    if node.given("axis"):
        value = ops.transpose(value, order)
    else:
        value = ops.reshape(value, [prod(shape)])
    is_sorted = bool(node.int("sorted", 1))
    rows, first, place, times, count = ops.results(UniqueOp, value, sorted=is_sorted)
    for counted in (rows, first, times):
        extents.set(counted, 0, count)
    if node.given("axis"):
        rows = ops.transpose(rows, [order.index(each) for each in range(len(order))])
    for index, result in enumerate((rows, first, place, times)):
        node.give_value(result, index)


def non_max_suppression(node: Node) -> None:
    """The boxes of images that no better one of their class overlaps."""
    ops, extents = node.ops, node.builder.extents
    most = int(node.known_number(2, "the number of boxes")) if node.has(2) else 0
    overlap: Value = np.zeros([], np.float32)
    if node.has(3):
        overlap = ops.reshape(node.value(3), [])
    least = [ops.reshape(node.value(4), [])] if node.has(4) else []
    boxes, scores = node.value(), node.value(1)
    if extents.of(boxes) or extents.of(scores):
        # A NaN is no score: boxes without one are not read.
        places = {0: 0, 1: 2}
        counts = {places[axis]: n for axis, n in extents.of(boxes).items()}
        scores = extents.filled(scores, float("nan"), {**counts, **extents.of(scores)})
    with extents.ignored([boxes], 0, 1):
        selected, count, _ = ops.results(
            NonMaxSuppressionOp,
            *(boxes, scores, overlap, *least),
            most=min(max(most, 0), ops.shape(boxes)[1]),
            centers=bool(node.int("center_point_box", 0)),
            max=node.maximum,
        )
    extents.set(selected, 0, count)
    node.give_value(selected)


BOUNDED = "Compress", "NonMaxSuppression", "NonZero"
"""Those of them that may be given a maximum."""

CONVERTERS: Mapping[str, Converter] = {
    "Compress": compress,
    "NonMaxSuppression": non_max_suppression,
    "NonZero": non_zero,
    "Unique": unique,
}
"""The converters of ops whose results have as many elements as data says."""
