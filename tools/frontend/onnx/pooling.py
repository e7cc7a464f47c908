"""Converters of pooling in one to three dimensions, and of unpooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.dialects.op import elementwise
from penstock.dialects.op.indexing import ScatterElementsOp
from penstock.dialects.op.movement import GatherOp
from penstock.dialects.op.reduction import ReduceMaxOp, ReduceSumOp
from penstock.dialects.op.selection import ArgMaxOp
from penstock.dialects.op.verify import lowest
from penstock.dialects.op.windows.pooling import AveragePool2dOp, MaxPool2dOp
from penstock.tools.frontend.onnx.convolutions import convolved
from penstock.tools.frontend.onnx.graph import Converter, Node
from penstock.tools.frontend.onnx.ops import Ops, Value
from penstock.tools.frontend.onnx.windows import Steps, image_rank, pads_of, per_axis

Places: TypeAlias = NDArray[np.int64]


def max_pool(node: Node) -> None:
    """The largest element of each window."""
    rank = image_rank(node)
    kernel = per_axis(node, "kernel_shape", rank)
    strides, dilations = (per_axis(node, n, rank) for n in ("strides", "dilations"))
    steps = Steps(strides, dilations, pads_of(node, kernel, strides, dilations))
    flags = {"ceil_mode": node.flag("ceil_mode")}
    node.give_value(pooled(node.ops, MaxPool2dOp, node.value(), kernel, steps, flags))
    if node.wants(1):
        if node.int("ceil_mode", 0):
            steps.after = ceiled(node.shape()[2:], kernel, steps)
        node.give_value(largest_places(node, kernel, steps), 1)


def largest_places(node: Node, kernel: Sequence[int], steps: Steps) -> Value:
    """Where in the whole tensor the first largest element of each window is."""
    ops, (images, channels, *extents) = node.ops, node.shape()
    places, inside = tap_places(extents, kernel, steps)
    count, size = images * channels, prod(extents)
    read = ops.reshape(node.value(), [count, size])
    read = ops.one(GatherOp, read, flat_places(places, extents), axis=1)
    read = ops.where(inside[None], read, lowest(node.element()))
    tap = ops.one(ArgMaxOp, read, axis=1)
    counts = window_counts(extents, kernel, steps)
    windows = np.arange(prod(counts))
    own = ops.add(ops.mul(tap, prod(counts)), windows)
    if node.int("storage_order", 0):
        # The first axis of an image is the one whose elements follow each other.
        places, extents = places[::-1], extents[::-1]
    table = flat_places(places, extents).reshape(-1)
    found = ops.add(
        ops.one(GatherOp, table, own, axis=0), size * np.arange(count).reshape(-1, 1, 1)
    )
    return ops.reshape(found, [images, channels, *counts])


def window_counts(
    extents: Sequence[int], kernel: Sequence[int], steps: Steps
) -> list[int]:
    """The number of windows along each axis."""
    return [
        (before + extent + after - (taps - 1) * dilation - 1) // stride + 1
        for extent, taps, stride, dilation, before, after in zip(
            extents,
            kernel,
            steps.strides,
            steps.dilations,
            steps.before,
            steps.after,
            strict=True,
        )
    ]


def tap_places(
    extents: Sequence[int], kernel: Sequence[int], steps: Steps
) -> tuple[list[Places], NDArray[np.bool_]]:
    """
    Where the taps of windows are along each axis [taps, windows], moved to the nearest
    element there is, and which of them are elements.
    """
    taps = np.indices(kernel)
    windows = np.indices(window_counts(extents, kernel, steps))
    inside = np.ones((prod(kernel), prod(windows.shape[1:])), np.bool_)
    places: list[Places] = []
    for axis, extent in enumerate(extents):
        own = taps[axis].reshape(-1, 1) * steps.dilations[axis]
        own = own + windows[axis].reshape(1, -1) * steps.strides[axis]
        own = own - steps.before[axis]
        inside &= (own >= 0) & (own < extent)
        places.append(np.clip(own, 0, extent - 1))
    return places, inside


def flat_places(places: Sequence[Places], extents: Sequence[int]) -> Places:
    """Places along each axis as one number, the last axis the fastest."""
    total = np.zeros_like(places[0])
    for own, extent in zip(places, extents, strict=True):
        total = total * extent + own
    return total


def average_pool(node: Node) -> None:
    """The average of each window."""
    rank = image_rank(node)
    kernel = per_axis(node, "kernel_shape", rank)
    strides, dilations = (per_axis(node, n, rank) for n in ("strides", "dilations"))
    steps = Steps(strides, dilations, pads_of(node, kernel, strides, dilations))
    if any(dilation > 1 for dilation in dilations):
        node.give_value(dilated_average(node, kernel, steps))
        return
    flags = {name: node.flag(name) for name in ("ceil_mode", "count_include_pad")}
    node.give_value(
        pooled(node.ops, AveragePool2dOp, node.value(), kernel, steps, flags)
    )


def dilated_average(node: Node, kernel: Sequence[int], steps: Steps) -> Value:
    """The average of each window whose taps do not touch: its sum over their number."""
    ops, shape = node.ops, node.shape()
    ends = steps.after
    if node.int("ceil_mode", 0):
        ends = ceiled(shape[2:], kernel, steps)
    counted = ops.expand(ops.like(1, node.value()), [1, 1, *shape[2:]])
    within = 1.0 if node.int("count_include_pad", 0) else 0.0
    counted = ops.pad(counted, [0, 0, *steps.before], [0, 0, *steps.after], within)
    behind = [end - after for end, after in zip(ends, steps.after, strict=True)]
    counted = ops.pad(counted, [0] * len(shape), [0, 0, *behind])
    padded = ops.pad(node.value(), [0, 0, *steps.before], [0, 0, *ends])
    sums, counts = (window_sums(ops, each, kernel, steps) for each in (padded, counted))
    return ops.div(sums, counts)


def window_sums(ops: Ops, x: Value, kernel: Sequence[int], steps: Steps) -> Value:
    """
    The sum of each window that lies in an image: a product with ones, of each channel
    for itself.
    """
    channels = ops.shape(x)[1]
    weights = ops.expand(ops.like(1, x), [channels, 1, *kernel])
    bare = Steps(steps.strides, steps.dilations, [0] * 2 * len(kernel))
    return convolved(ops, x, weights, None, bare, channels)


def pooled(
    ops: Ops,
    op: type[MaxPool2dOp | AveragePool2dOp],
    x: Value,
    kernel: Sequence[int],
    steps: Steps,
    flags: Mapping[str, bool],
) -> Value:
    """Windows over any number of axes: first along the last two, then one by one."""
    rank = len(kernel)
    if rank == 1:
        images, channels, extent = ops.shape(x)
        wide = ops.reshape(x, [images, channels, 1, extent])
        result = pooled(ops, op, wide, [1, *kernel], steps.widened(), flags)
        return ops.reshape(result, [images, channels, ops.shape(result)[-1]])
    if rank == 2:
        own = steps.of_images()
        if op is not MaxPool2dOp:
            del own["dilations"]
        return ops.one(op, x, kernel=kernel, **own, **flags)
    images, channels, depth, *rest = ops.shape(x)
    folded = ops.reshape(x, [images, channels * depth, *rest])
    inner = pooled(ops, op, folded, kernel[1:], steps.inner(), flags)
    extents = ops.shape(inner)[2:]
    lines = ops.reshape(inner, [images, channels, depth, prod(extents)])
    first = Steps(
        [steps.strides[0], 1],
        [steps.dilations[0], 1],
        [steps.before[0], 0, steps.after[0], 0],
    )
    result = pooled(ops, op, lines, [kernel[0], 1], first, flags)
    count = ops.shape(result)[2]
    return ops.reshape(result, [images, channels, count, *extents])


def lp_pool(node: Node) -> None:
    """The norm of each window: a root of the sum of powers."""
    ops, rank, power = node.ops, image_rank(node), node.int("p", 2)
    kernel = per_axis(node, "kernel_shape", rank)
    strides, dilations = (per_axis(node, n, rank) for n in ("strides", "dilations"))
    steps = Steps(strides, dilations, pads_of(node, kernel, strides, dilations))
    powers = powered(ops, ops.one(elementwise.AbsOp, node.value()), float(power))
    if node.int("ceil_mode", 0):
        steps.after = ceiled(node.shape()[2:], kernel, steps)
    powers = ops.pad(powers, [0, 0, *steps.before], [0, 0, *steps.after])
    sums = window_sums(ops, powers, kernel, steps)
    node.give_value(powered(ops, sums, 1 / power))


def ceiled(extents: Sequence[int], kernel: Sequence[int], steps: Steps) -> list[int]:
    """The pads after each axis with which the last windows end in it, too."""
    found: list[int] = []
    for axis, extent in enumerate(extents):
        before, after = steps.before[axis], steps.after[axis]
        size = (kernel[axis] - 1) * steps.dilations[axis] + 1
        rest = extent + before + after - size
        count = ceil(rest / steps.strides[axis])
        if count * steps.strides[axis] >= extent + before:
            count -= 1  # It would start behind the image.
        needed = count * steps.strides[axis] + size
        found.append(max(after, needed - extent - before))
    return found


def powered(ops: Ops, value: Value, exponent: float) -> Value:
    """Elements to the power of a number."""
    if exponent == 1:
        return value
    if exponent == 2:
        return ops.mul(value, value)
    return ops.two(elementwise.PowOp, value, exponent)


def global_max_pool(node: Node) -> None:
    """The largest element of each channel."""
    axes = list(range(2, len(node.shape())))
    node.give_value(node.ops.reduce(ReduceMaxOp, node.value(), axes))


def global_lp_pool(node: Node) -> None:
    """The norm of each channel."""
    ops, power = node.ops, float(node.int("p", 2))
    axes = list(range(2, len(node.shape())))
    powers = powered(ops, ops.one(elementwise.AbsOp, node.value()), power)
    sums = ops.reduce(ReduceSumOp, powers, axes)
    node.give_value(powered(ops, sums, 1 / power))


def max_unpool(node: Node) -> None:
    """The largest elements of windows back at their places, zeros elsewhere."""
    ops, rank, shape = node.ops, image_rank(node), node.shape()
    kernel = per_axis(node, "kernel_shape", rank)
    strides = per_axis(node, "strides", rank)
    pads = node.ints("pads") or [0] * 2 * rank
    own = shape[:2] + [
        (extent - 1) * stride + size - before - after
        for extent, stride, size, before, after in zip(
            shape[2:], strides, kernel, pads[:rank], pads[rank:], strict=True
        )
    ]
    whole = node.known_ints(2, "the shape") if node.has(2) else own
    zeros = ops.expand(ops.like(0, node.value()), [prod(own)])
    indices, values = (ops.reshape(node.value(i), [prod(shape)]) for i in (1, 0))
    flat = ops.one(ScatterElementsOp, zeros, indices, values, axis=0)
    result = ops.reshape(flat, own)
    after = [b - a for a, b in zip(own, whole, strict=True)]
    node.give_value(ops.pad(result, [0] * len(own), after))


CONVERTERS: Mapping[str, Converter] = {
    "AveragePool": average_pool,
    "GlobalLpPool": global_lp_pool,
    "GlobalMaxPool": global_max_pool,
    "LpPool": lp_pool,
    "MaxPool": max_pool,
    "MaxUnpool": max_unpool,
}
"""The converters of pooling."""
