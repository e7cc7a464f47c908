"""Converters of ops whose results have as many elements as data says."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from penstock.dialects.op.compaction import CompressOp, NonZeroOp
from penstock.dialects.op.movement import GatherOp
from penstock.dialects.op.non_max_suppression import NonMaxSuppressionOp
from penstock.dialects.op.unique import UniqueOp
from penstock.tools.frontend.onnx.graph import Converter, Node
from penstock.tools.frontend.onnx.ops import Value


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
    if (extent := extents.of(value)) is not None and extent.axis == axis:
        # Its elements are there where those of the condition are.
        value = extents.filled(value)
    kept, count = node.ops.results(CompressOp, value, mask, axis=axis, max=node.maximum)
    extents.set(kept, axis, count)
    node.give_value(kept)


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
    selected, count, _ = ops.results(
        NonMaxSuppressionOp,
        *(node.value(), node.value(1), overlap, *least),
        most=max(most, 0),
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
