"""Converters of convolutions in one to three dimensions, and of their transposes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from penstock.dialects.kernel.windows import Window
from penstock.dialects.op.indexing import ScatterNdOp
from penstock.dialects.op.linear import BYTES
from penstock.dialects.op.windows.convolution import Conv2dOp
from penstock.dialects.op.windows.transposed_convolution import transposed
from penstock.tools.frontend.onnx.graph import Converter, Node
from penstock.tools.frontend.onnx.ops import Ops, Value
from penstock.tools.frontend.onnx.windows import Steps, image_rank, pads_of, per_axis


def conv(node: Node) -> None:
    """A convolution of images, lines or volumes."""
    rank, kernel = image_rank(node), node.shape(1)[2:]
    strides, dilations = (per_axis(node, n, rank) for n in ("strides", "dilations"))
    steps = Steps(strides, dilations, pads_of(node, kernel, strides, dilations))
    bias = node.optional(2)
    groups = node.int("group", 1)
    if rank != 2:
        result = convolved(node.ops, node.value(), node.value(1), bias, steps, groups)
        node.give_value(result)
        return
    node.give(Conv2dOp, *node.tensors(), groups=groups, **steps.of_images())


def convolved(
    ops: Ops, x: Value, weights: Value, bias: Value | None, steps: Steps, groups: int
) -> Value:
    """
    A convolution over any number of axes, made of those of images. The sums of an int8
    convolution are `i32`. Neighbouring axes along which windows are single elements
    are one.
    """
    rank = len(steps.strides)
    single = steps.single(ops.shape(weights)[2:])
    if rank > 2 and (axis := single_pair(single)) is not None:
        first = axis + 2
        extents = ops.shape(x)[first : first + 2]
        x, weights = with_one_axis(ops, x, first), with_one_axis(ops, weights, first)
        result = convolved(ops, x, weights, bias, steps.without(axis), groups)
        shape = ops.shape(result)
        return ops.reshape(result, [*shape[:first], *extents, *shape[first + 1 :]])
    if rank == 2:
        wide, own = ops.element(x) in BYTES, steps.of_images()
        return ops.one(Conv2dOp, x, weights, bias, groups=groups, wide=wide, **own)
    if rank == 1:
        wide, taps = (with_rows(ops, value) for value in (x, weights))
        result = convolved(ops, wide, taps, bias, steps.widened(), groups)
        images, channels, _, extent = ops.shape(result)
        return ops.reshape(result, [images, channels, extent])
    return convolved_in_slices(ops, x, weights, bias, steps, groups)


def single_pair(single: Sequence[bool]) -> int | None:
    """The first of two neighbouring axes with windows of one element, if there are."""
    pairs = enumerate(pairwise(single))
    return next((axis for axis, pair in pairs if all(pair)), None)


def with_one_axis(ops: Ops, value: Value, axis: int) -> Value:
    """A tensor with an axis and the next one as one."""
    shape = ops.shape(value)
    extent = shape[axis] * shape[axis + 1]
    return ops.reshape(value, [*shape[:axis], extent, *shape[axis + 2 :]])


def with_rows(ops: Ops, lines: Value) -> Value:
    """Lines as images of one row."""
    shape = ops.shape(lines)
    return ops.reshape(lines, [*shape[:2], 1, *shape[2:]])


def convolved_in_slices(
    ops: Ops, x: Value, weights: Value, bias: Value | None, steps: Steps, groups: int
) -> Value:
    """A convolution as the sum of those of the slices of the weights."""
    images, channels, depth, *rest = ops.shape(x)
    taps, stride, dilation = ops.shape(weights)[2], steps.strides[0], steps.dilations[0]
    inner = [0] * len(rest)
    padded = ops.pad(x, [0, 0, steps.before[0], *inner], [0, 0, steps.after[0], *inner])
    depth += steps.before[0] + steps.after[0]
    count = (depth - (taps - 1) * dilation - 1) // stride + 1
    axes = list(range(3, len(rest) + 3))
    layers = ops.transpose(padded, [0, 2, 1, *axes])
    total: Value | None = None
    for tap in range(taps):
        start = tap * dilation
        part = ops.slice(layers, 1, start, start + (count - 1) * stride + 1, stride)
        part = ops.reshape(part, [images * count, channels, *rest])
        own = None if tap else bias
        term = convolved(
            ops, part, ops.pick(weights, 2, tap), own, steps.inner(), groups
        )
        total = term if total is None else ops.add(total, term)
    assert total is not None, "weights have at least one tap"
    _, outputs, *extents = ops.shape(total)
    result = ops.reshape(total, [images, count, outputs, *extents])
    return ops.transpose(result, [0, 2, 1, *axes])


def conv_transpose(node: Node) -> None:
    """The gradient of a convolution with respect to its images."""
    ops, rank, groups = node.ops, image_rank(node), node.int("group", 1)
    strides, dilations = (per_axis(node, n, rank) for n in ("strides", "dilations"))
    taps = ops.shape(node.value(1))[2:]
    spans = [(k - 1) * d + 1 for k, d in zip(taps, dilations, strict=True)]
    before, extents = transposed_places(node, spans, strides)
    numbers = zip(taps, strides, before, dilations, strict=True)
    windows = [Window(k, s, first, 0, d) for k, s, first, d in numbers]

    def convolve(
        x: Value, weights: Value, windows: Sequence[Window], groups: int
    ) -> Value:
        return convolved(ops, x, weights, None, Steps.of(windows), groups)

    facts = windows, extents, groups, convolve
    result = transposed(ops, node.value(), node.value(1), *facts)
    if (bias := node.optional(2)) is not None:
        channels = [*ops.shape(bias), *[1] * rank]
        result = ops.add(result, ops.reshape(bias, channels))
    node.give_value(result)


def transposed_places(
    node: Node, spans: Sequence[int], strides: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Where results begin among all there are, and how many are wanted, by axis."""
    rank = len(spans)
    own = node.shape()[2:]
    extra = node.ints("output_padding") or [0] * rank
    full = [
        (extent - 1) * stride + size + more
        for extent, stride, size, more in zip(own, strides, spans, extra, strict=True)
    ]
    auto, wanted = node.text("auto_pad", "NOTSET"), node.ints("output_shape")
    if wanted is None and auto in ("NOTSET", "VALID"):
        pads = node.ints("pads") or [0] * 2 * rank
        pairs = zip(full, pads[:rank], pads[rank:], strict=True)
        return pads[:rank], [size - first - last for size, first, last in pairs]
    if wanted is None:
        wanted = [a * b for a, b in zip(own, strides, strict=True)]
    wanted = wanted[-rank:]
    total = [max(0, a - b) for a, b in zip(full, wanted, strict=True)]
    small = [t // 2 for t in total]
    large = [t - t // 2 for t in total]
    return (small if auto == "SAME_UPPER" else large), list(wanted)


def col2im(node: Node) -> None:
    """Images of which each window is given as a column: sums where they overlap."""
    ops, (count, rows, columns) = node.ops, node.shape()
    extents = node.known_ints(1, "the image's shape")
    block = node.known_ints(2, "the windows' shape")
    rank, size = len(block), prod(block)
    strides, dilations = (
        node.ints(name) or [1] * rank for name in ("strides", "dilations")
    )
    pads = node.ints("pads") or [0] * 2 * rank
    padded = [
        before + extent + after
        for before, extent, after in zip(pads[:rank], extents, pads[rank:], strict=True)
    ]
    places = column_places(padded, block, strides, dilations)
    channels = rows // size
    shape = [count * channels, size * columns]
    values = ops.transpose(ops.reshape(node.value(), shape), [1, 0])
    zeros = ops.expand(ops.like(0, values), [prod(padded), shape[0]])
    sums = ops.one(ScatterNdOp, zeros, places.reshape(-1, 1), values, mode="add")
    value = ops.reshape(ops.transpose(sums, [1, 0]), [count, channels, *padded])
    for axis, extent in enumerate(extents):
        value = ops.slice(value, axis + 2, pads[axis], pads[axis] + extent)
    node.give_value(value)


def column_places(
    extents: Sequence[int],
    block: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> NDArray[np.int64]:
    """Where in a whole image the elements [taps, windows] of all windows are."""
    counts = [
        (extent - (taps - 1) * dilation - 1) // stride + 1
        for extent, taps, stride, dilation in zip(
            extents, block, strides, dilations, strict=True
        )
    ]
    taps, windows = np.indices(block), np.indices(counts)
    places = np.zeros((prod(block), prod(counts)), np.int64)
    for axis, extent in enumerate(extents):
        own = taps[axis].reshape(-1, 1) * dilations[axis]
        own = own + windows[axis].reshape(1, -1) * strides[axis]
        places = places * extent + own
    return places


CONVERTERS: Mapping[str, Converter] = {
    "Col2Im": col2im,
    "ConvTranspose": conv_transpose,
}
"""The converters of convolutions."""
