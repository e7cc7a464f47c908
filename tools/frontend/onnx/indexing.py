"""Converters of gather, scatter, top-k and other ops on indices."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from penstock.dialects.op import comparison
from penstock.dialects.op.indexing import (
    GatherElementsOp,
    GatherNdOp,
    ScatterElementsOp,
    ScatterMode,
    ScatterNdOp,
)
from penstock.dialects.op.movement import GatherOp
from penstock.dialects.op.requirement import RequireOp
from penstock.dialects.op.scan import CumProdOp, CumSumOp, ScanOp
from penstock.dialects.op.selection import ArgMaxOp, ArgMinOp, ArgOp, TopKOp
from penstock.dialects.op.triangle import TriangleOp, near_offset
from penstock.dialects.op.verify import normal_axis
from penstock.dialects.utils.numpy_types import dtype_of
from penstock.tools.frontend.onnx.counted import inside_places, places_in, scalar
from penstock.tools.frontend.onnx.extents import largest, least
from penstock.tools.frontend.onnx.graph import Converter, Node, Unsupported
from penstock.tools.frontend.onnx.ops import Value
from penstock.tools.frontend.onnx.sizes import Size


def gather_elements(node: Node) -> None:
    """Elements that indices name along an axis."""
    axis = node.axis(0)
    places = places_in(node, node.value(1), axis)
    with node.builder.extents.ignored([node.value()], axis):
        result = node.ops.one(GatherElementsOp, node.value(), places, axis=axis)
    node.give_value(result)


def gather_nd(node: Node) -> None:
    """Parts of a tensor that the last axis of indices names."""
    batch = node.int("batch_dims", 0)
    node.give_value(node.ops.one(GatherNdOp, node.value(), node.value(1), batch=batch))


MODES = {
    "none": ScatterMode.SET,
    "add": ScatterMode.ADD,
    "mul": ScatterMode.MUL,
    "max": ScatterMode.MAX,
    "min": ScatterMode.MIN,
}


def scatter_mode(node: Node) -> ScatterMode:
    """The modes by which updates are combined with elements."""
    mode = node.text("reduction", "none")
    if mode not in MODES:
        raise Unsupported(f"the reduction '{mode}' is not known")
    return MODES[mode]


def scatter_elements(node: Node) -> None:
    """Elements written to where indices say along an axis."""
    ops, extents, axis = node.ops, node.builder.extents, node.axis(0)
    value, places, updates = (node.value(index) for index in range(3))
    facts = {"axis": axis, "mode": scatter_mode(node)}
    counts = {**extents.of(updates), **extents.of(places)}
    if not counts and value not in extents:
        node.give_value(ops.one(ScatterElementsOp, value, places, updates, **facts))
        return
    # Updates that are not there go to a place behind the last one.
    extent, axes = node.shape()[axis], range(len(node.shape()))
    whole = extents.of(value).get(axis, np.asarray(extent))
    places = inside_places(ops, places, whole, extent + 1)
    places = extents.filled(places, extent, counts)
    with extents.ignored([value, updates], *axes):
        after = [int(each == axis) for each in axes]
        room = ops.pad(value, [0] * len(axes), after)
        found = ops.one(ScatterElementsOp, room, places, updates, **facts)
        found = ops.slice(found, axis, 0, extent)
    extents.copy(found, value)
    node.give_value(found)


def scatter_nd(node: Node) -> None:
    """Parts written to where the last axis of indices says."""
    operands = [node.value(index) for index in range(3)]
    node.give_value(node.ops.one(ScatterNdOp, *operands, mode=scatter_mode(node)))


def scan(op: type[ScanOp]) -> Converter:
    """Each element combined with all before it."""

    def convert(node: Node) -> None:
        (axis,) = node.known_ints(1, "the axis")
        result = node.ops.one(
            op,
            node.value(),
            axis=axis,
            exclusive=node.flag("exclusive"),
            reverse=node.flag("reverse"),
        )
        node.give_value(result)

    return convert


def arg(op: type[ArgOp]) -> Converter:
    """The place of the largest or smallest element along an axis."""

    def convert(node: Node) -> None:
        shape, axis = node.shape(), node.axis(0)
        last = node.flag("select_last_index")
        result = node.ops.one(op, node.value(), axis=axis, last=last)
        if not node.int("keepdims", 1):
            result = node.ops.reshape(result, shape[:axis] + shape[axis + 1 :])
        node.give_value(result)

    return convert


TOO_FEW = "there are fewer elements along the axis than the count"
"""The error of a count of results that is too large."""


def top_k(node: Node) -> None:
    """The largest or smallest elements along an axis, in order."""
    (size,) = node.sizes(1, "the count")
    axis, smallest, extents = node.axis(-1), not node.int("largest", 1), node.shape()
    bound = node.builder.extents.bounds.of(size)
    most = extents[axis] if bound is None else bound
    if isinstance(size, SSAValue):
        most = min(most, extents[axis])
    value, count = sorted_values(node, axis, size, smallest=smallest)
    results = node.ops.results(TopKOp, value, count=most, axis=axis, smallest=smallest)
    for index, result in enumerate(results):
        if isinstance(count, SSAValue):
            node.builder.extents.set(result, axis, count, is_blank=False)
        node.give_value(result, index)


def sorted_values(
    node: Node, axis: int, size: Size, *, smallest: bool
) -> tuple[Value, Size]:
    """
    The values to sort, with numbers that come last where no element is, and the number
    of results, which are no more than elements are there.
    """
    ops, extents, value = node.ops, node.builder.extents, node.value()
    there: Size = extents.of(value).get(axis, node.shape()[axis])
    is_counted = isinstance(there, SSAValue)
    if not (is_counted or isinstance(size, SSAValue)):
        return value, size
    if isinstance(size, SSAValue):
        size = scalar(node, size)
    if not extents.bounds.is_at_most(size, there):
        pair = (np.asarray(x) if isinstance(x, int) else x for x in (size, there))
        number, limit = pair
        fits = ops.one(comparison.LessEqualOp, number, limit)
        own = limit if is_counted else number
        checked = ops.one(RequireOp, fits, own, message=TOO_FEW)
        assert isinstance(checked, SSAValue), "one of both is a count"
        size, there = (size, checked) if is_counted else (checked, there)
    if isinstance(there, SSAValue):
        dtype = dtype_of(node.ops.element(value))
        # A NaN comes after all numbers, and the first one of equals first.
        is_float = dtype.kind in "fV"
        last = largest(dtype) if smallest else least(dtype)
        worst = float("nan") if smallest and is_float else last
        value = extents.filled(value, worst, {axis: there})
    return value, size


def hardmax(node: Node) -> None:
    """1 at the first largest element along an axis, 0 elsewhere."""
    ops, value, axis = node.ops, node.value(), node.axis(-1)
    place = ops.one(ArgMaxOp, value, axis=axis)
    here = ops.one(comparison.EqualOp, place, numbers_along(node.shape(), axis))
    result = ops.cast(here, node.element())
    node.builder.extents.copy(result, value)
    node.give_value(result)


def numbers_along(shape: list[int], axis: int) -> Value:
    """0, 1, 2... along one axis of a shape, whose other extents are 1."""
    extents = [1] * len(shape)
    extents[axis] = shape[axis]
    return np.arange(shape[axis]).reshape(extents)


def one_hot(node: Node) -> None:
    """One value where an index points to along a new axis, another one elsewhere."""
    ops, indices = node.ops, node.value()
    depth = int(node.known_number(1, "the depth"))
    shape = node.shape()
    axis = normal_axis(node.int("axis", -1), len(shape) + 1)
    shape.insert(axis, 1)
    indices = ops.reshape(ops.cast(indices, i64), shape)
    negative = ops.two(comparison.LessOp, indices, 0)
    indices = ops.where(negative, ops.add(indices, depth), indices)
    whole = [*shape[:axis], depth, *shape[axis + 1 :]]
    here = ops.one(comparison.EqualOp, indices, numbers_along(whole, axis))
    off, on = (ops.pick(node.value(2), 0, index) for index in (0, 1))
    node.give_value(ops.one(comparison.WhereOp, here, on, off))


def triangle(node: Node) -> None:
    """A matrix with zeros on one side of a diagonal."""
    place = node.known_ints(1, "the diagonal")[0] if node.has(1) else 0
    value = node.value()
    parts, offset = (value, node.ops.scalar(0, value)), place
    if node.int("upper", 1):
        parts, offset = parts[::-1], place - 1
    extents, shape = node.builder.extents, node.shape()
    offset = near_offset(shape, offset)
    with extents.ignored([value], *range(len(shape))):
        found = node.ops.one(TriangleOp, *parts, shape=shape, offset=offset)
    extents.copy(found, value)
    node.give_value(found)


def reverse_sequence(node: Node) -> None:
    """The first so many elements of each line turned round, the others as they are."""
    ops, shape = node.ops, node.shape()
    time, batch = node.int("time_axis", 0), node.int("batch_axis", 1)
    extents = [1] * len(shape)
    extents[batch] = shape[batch]
    lengths = ops.reshape(ops.cast(node.value(1), i64), extents)
    places = numbers_along(shape, time)
    turned = ops.sub(ops.sub(lengths, 1), places)
    inside = ops.one(comparison.LessOp, places, lengths)
    index = ops.expand(ops.where(inside, turned, places), shape)
    node.give_value(ops.one(GatherElementsOp, node.value(), index, axis=time))


def eye_like(node: Node) -> None:
    """A matrix of ones on a diagonal."""
    from penstock.tools.frontend.onnx.graph import element_type_of_onnx

    rows, columns = node.shape()
    element = (
        element_type_of_onnx(node.int("dtype", 0))
        if node.given("dtype")
        else node.element()
    )
    eye = np.eye(rows, columns, node.int("k", 0))
    node.give_value(node.ops.cast(eye, element))


def size(node: Node) -> None:
    """The number of elements of a tensor."""
    counts = node.builder.extents.of(node.value())
    node.builder.extents.is_settled = True
    others = [x for axis, x in enumerate(node.shape()) if axis not in counts]
    number: Value = np.asarray(prod(others), np.int64)
    for count in counts.values():
        number = node.ops.mul(count, number)
    node.give_value(number)


def tensor_scatter(node: Node) -> None:
    """A cache with an update written along one axis, from a place for each batch on."""
    ops, shape, update = node.ops, node.shape(), node.shape(1)
    axis = normal_axis(node.int("axis", -2), len(shape))
    mode = node.text("mode", "linear")
    first: Value = np.zeros([shape[0]], np.int64)
    if node.has(2):
        first = ops.cast(node.value(2), i64)
    starts = ops.reshape(first, [shape[0], *[1] * (len(shape) - 1)])
    places = ops.add(starts, numbers_along(update, axis))
    if mode == "circular":
        turns = ops.mul(ops.div(places, shape[axis]), shape[axis])
        places = ops.sub(places, turns)
    index = ops.expand(places, update)
    result = ops.one(ScatterElementsOp, node.value(), index, node.value(1), axis=axis)
    node.give_value(result)


def extracted(node: Node) -> None:
    """The elements along the last axis that indices name; a line is a matrix of one."""
    ops, value, shape = node.ops, node.value(), node.shape()
    if len(shape) == 1:
        value = ops.reshape(value, [1, *shape])
    index = ops.reshape(node.value(1), [prod(node.shape(1))])
    node.give_value(ops.one(GatherOp, value, index, axis=len(ops.shape(value)) - 1))


CONVERTERS: Mapping[str, Converter] = {
    "ArgMax": arg(ArgMaxOp),
    "ArgMin": arg(ArgMinOp),
    "CumProd": scan(CumProdOp),
    "CumSum": scan(CumSumOp),
    "EyeLike": eye_like,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Hardmax": hardmax,
    "OneHot": one_hot,
    "ReverseSequence": reverse_sequence,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "Size": size,
    "TensorScatter": tensor_scatter,
    "TopK": top_k,
    "Trilu": triangle,
    "ai.onnx.ml.ArrayFeatureExtractor": extracted,
}
"""The converters of ops on indices."""
