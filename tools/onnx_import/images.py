"""Ops of ONNX on images, lines and volumes: convolutions, pooling and what is alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, prod

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, UnitAttr, f32, f64, i64
from xdsl.ir import Attribute, SSAValue

from penstock.dialects.op import elementwise
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.convolution import Conv2dOp
from penstock.dialects.op.normalization import BatchNormOp
from penstock.dialects.op.pooling import AveragePool2dOp, MaxPool2dOp
from penstock.dialects.op.reduction import ReduceMaxOp, ReduceMeanOp, ReduceSumOp
from penstock.tools.onnx_import.graph import Converter, Node, Unsupported
from penstock.tools.onnx_import.ops import Array, Ops, Value

################################################################################
# Windows                                                                      #
################################################################################


def per_axis(node: Node, name: str, rank: int) -> list[int]:
    """A list of one number for each axis of an image, ones if it is left out."""
    values = node.ints(name) or [1] * rank
    if len(values) != rank:
        raise Unsupported(f"'{name}' should be {rank} numbers, got {values}")
    return values


def image_rank(node: Node) -> int:
    """How many axes an image has besides its channels."""
    rank = len(node.shape()) - 2
    if rank < 1:
        raise Unsupported(f"an image has 3 axes or more, got {rank + 2}")
    return rank


def pads_of(
    node: Node, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    """The pads before each axis, then those after it, as `pads` or `auto_pad` say."""
    auto = node.text("auto_pad", "NOTSET")
    if auto == "NOTSET":
        return node.ints("pads") or [0] * 2 * len(kernel)
    if auto == "VALID":
        return [0] * 2 * len(kernel)
    total = [
        max(0, (-(-extent // stride) - 1) * stride + (size - 1) * dilation + 1 - extent)
        for extent, size, stride, dilation in zip(
            node.shape()[2:], kernel, strides, dilations, strict=True
        )
    ]
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    return [*small, *large] if auto == "SAME_UPPER" else [*large, *small]


################################################################################
# Convolutions                                                                 #
################################################################################


class Steps:
    """How a window moves over an image: one number for each axis, pads in pairs."""

    def __init__(
        self, strides: Sequence[int], dilations: Sequence[int], pads: Sequence[int]
    ):
        self.strides = list(strides)
        self.dilations = list(dilations)
        self.before = list(pads[: len(strides)])
        self.after = list(pads[len(strides) :])

    def inner(self) -> Steps:
        """How it moves over all axes but the first."""
        pads = [*self.before[1:], *self.after[1:]]
        return Steps(self.strides[1:], self.dilations[1:], pads)

    def widened(self) -> Steps:
        """How it moves over one axis more, of extent 1, before the others."""
        pads = [0, *self.before, 0, *self.after]
        return Steps([1, *self.strides], [1, *self.dilations], pads)


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
    node.give(Conv2dOp, node.tensors(), conv_properties(steps, groups))


def conv_properties(steps: Steps, groups: int) -> dict[str, Attribute | None]:
    """The properties of a convolution of images."""
    return {
        "strides": int_list(steps.strides),
        "pads": int_list([*steps.before, *steps.after]),
        "dilations": int_list(steps.dilations),
        "groups": IntegerAttr(groups, i64),
    }


def convolved(
    ops: Ops, x: Value, weights: Value, bias: Value | None, steps: Steps, groups: int
) -> Value:
    """A convolution over any number of axes, made of those of images."""
    rank = len(steps.strides)
    if rank == 2:
        given = [x, weights] if bias is None else [x, weights, bias]
        return ops.apply(Conv2dOp, given, conv_properties(steps, groups))[0]
    if rank == 1:
        wide, taps = (with_rows(ops, value) for value in (x, weights))
        result = convolved(ops, wide, taps, bias, steps.widened(), groups)
        images, channels, _, extent = ops.shape(result)
        return ops.reshape(result, [images, channels, extent])
    return convolved_in_slices(ops, x, weights, bias, steps, groups)


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
    """
    The gradient of a convolution with respect to its input: for each place modulo the
    strides a convolution of its own, all of which are one with more channels, whose
    results are put next to each other.
    """
    ops, rank, groups = node.ops, image_rank(node), node.int("group", 1)
    strides, dilations = (per_axis(node, n, rank) for n in ("strides", "dilations"))
    weights = dilated(ops, node.value(1), dilations)
    kernel = ops.shape(weights)[2:]
    before, extents = transposed_places(node, kernel, strides)
    taps = [ceil(size / stride) for size, stride in zip(kernel, strides, strict=True)]
    # As many results as are needed, of which there may be some without any input.
    after = [
        max(size - 1, ceil((first + extent) / stride) - own)
        for size, first, extent, stride, own in zip(
            taps, before, extents, strides, node.shape()[2:], strict=True
        )
    ]
    steps = Steps([1] * rank, [1] * rank, [*(size - 1 for size in taps), *after])
    phased = phases_of(ops, weights, strides, taps, groups)
    result = convolved(ops, node.value(), phased, None, steps, groups)
    result = interleaved(ops, result, strides, groups)
    for axis, (first, extent) in enumerate(zip(before, extents, strict=True), 2):
        result = ops.slice(result, axis, first, first + extent)
    if (bias := node.optional(2)) is not None:
        channels = [*ops.shape(bias), *[1] * rank]
        result = ops.add(result, ops.reshape(bias, channels))
    node.give_value(result)


def dilated(ops: Ops, weights: Value, dilations: Sequence[int]) -> Value:
    """Weights with zeros between their taps."""
    for axis, dilation in enumerate(dilations, 2):
        if dilation == 1:
            continue
        shape = ops.shape(weights)
        spread = ops.reshape(weights, [*shape[: axis + 1], 1, *shape[axis + 1 :]])
        after = [0] * (len(shape) + 1)
        after[axis + 1] = dilation - 1
        spread = ops.pad(spread, [0] * len(after), after)
        shape[axis] *= dilation
        whole = ops.reshape(spread, shape)
        weights = ops.slice(whole, axis, 0, shape[axis] - dilation + 1)
    return weights


def transposed_places(
    node: Node, kernel: Sequence[int], strides: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Where results begin among all there are, and how many are wanted, by axis."""
    rank = len(kernel)
    own = node.shape()[2:]
    extra = node.ints("output_padding") or [0] * rank
    full = [
        (extent - 1) * stride + size + more
        for extent, stride, size, more in zip(own, strides, kernel, extra, strict=True)
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


def phases_of(
    ops: Ops,
    weights: Value,
    strides: Sequence[int],
    taps: Sequence[int],
    groups: int,
) -> Value:
    """
    The weights [in channels, out channels / groups, ...] for each place modulo the
    strides, as those of a convolution: [groups x places x out channels / groups, in
    channels / groups, ...].
    """
    inputs, outputs, *kernel = ops.shape(weights)
    pairs = list(zip(taps, strides, strict=True))
    rank = len(kernel)
    after = [tap * stride - k for (tap, stride), k in zip(pairs, kernel, strict=True)]
    weights = ops.pad(weights, [0] * (rank + 2), [0, 0, *after])
    split = [groups, inputs // groups, outputs, *(e for pair in pairs for e in pair)]
    places, positions = range(4, 2 * rank + 3, 2), range(3, 2 * rank + 3, 2)
    weights = ops.transpose(ops.reshape(weights, split), [0, *places, 2, 1, *positions])
    for axis in range(rank):
        weights = ops.reversed(weights, rank + 3 + axis)
    channels = groups * prod(strides) * outputs
    return ops.reshape(weights, [channels, inputs // groups, *taps])


def interleaved(ops: Ops, value: Value, strides: Sequence[int], groups: int) -> Value:
    """Results for each place modulo the strides, put next to each other."""
    images, channels, *extents = ops.shape(value)
    outputs = channels // groups // prod(strides)
    rank = len(strides)
    split = ops.reshape(value, [images, groups, *strides, outputs, *extents])
    pairs = [axis for at in range(rank) for axis in (rank + 3 + at, 2 + at)]
    moved = ops.transpose(split, [0, 1, rank + 2, *pairs])
    whole = [a * b for a, b in zip(extents, strides, strict=True)]
    return ops.reshape(moved, [images, groups * outputs, *whole])


################################################################################
# Pooling                                                                      #
################################################################################


def max_pool(node: Node) -> None:
    """The largest element of each window."""
    rank = image_rank(node)
    kernel = per_axis(node, "kernel_shape", rank)
    strides, dilations = (per_axis(node, n, rank) for n in ("strides", "dilations"))
    steps = Steps(strides, dilations, pads_of(node, kernel, strides, dilations))
    flags: dict[str, Attribute | None] = {
        "ceil_mode": UnitAttr() if node.int("ceil_mode", 0) else None
    }
    node.give_value(pooled(node.ops, MaxPool2dOp, node.value(), kernel, steps, flags))


def average_pool(node: Node) -> None:
    """The average of each window."""
    rank = image_rank(node)
    kernel = per_axis(node, "kernel_shape", rank)
    strides, dilations = (per_axis(node, n, rank) for n in ("strides", "dilations"))
    steps = Steps(strides, dilations, pads_of(node, kernel, strides, dilations))
    if any(dilation > 1 for dilation in dilations):
        node.give_value(dilated_average(node, kernel, steps))
        return
    flags: dict[str, Attribute | None] = {
        "ceil_mode": UnitAttr() if node.int("ceil_mode", 0) else None,
        "count_include_pad": UnitAttr() if node.int("count_include_pad", 0) else None,
    }
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
    flags: Mapping[str, Attribute | None],
) -> Value:
    """Windows over any number of axes: first along the last two, then one by one."""
    rank = len(kernel)
    if rank == 1:
        images, channels, extent = ops.shape(x)
        wide = ops.reshape(x, [images, channels, 1, extent])
        result = pooled(ops, op, wide, [1, *kernel], steps.widened(), flags)
        return ops.reshape(result, [images, channels, ops.shape(result)[-1]])
    if rank == 2:
        properties = dict(flags)
        properties["kernel"] = int_list(kernel)
        properties["strides"] = int_list(steps.strides)
        properties["pads"] = int_list([*steps.before, *steps.after])
        if op is MaxPool2dOp:
            properties["dilations"] = int_list(steps.dilations)
        return ops.apply(op, [x], properties)[0]
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


################################################################################
# Channels and places                                                          #
################################################################################


def depth_to_space(node: Node) -> None:
    """Channels become places."""
    ops, size = node.ops, node.int("blocksize", 1)
    images, channels, height, width = node.shape()
    outputs = channels // size**2
    if node.text("mode", "DCR") == "DCR":
        split, order = [size, size, outputs], [0, 3, 4, 1, 5, 2]
    else:
        split, order = [outputs, size, size], [0, 1, 4, 2, 5, 3]
    value = ops.reshape(node.value(), [images, *split, height, width])
    value = ops.transpose(value, order)
    node.give_value(ops.reshape(value, [images, outputs, height * size, width * size]))


def space_to_depth(node: Node) -> None:
    """Places become channels."""
    ops, size = node.ops, node.int("blocksize", 1)
    images, channels, height, width = node.shape()
    split = [images, channels, height // size, size, width // size, size]
    order = [0, 3, 5, 1, 2, 4]
    if node.text("mode", "DCR") == "CRD":
        order = [0, 1, 3, 5, 2, 4]
    value = ops.transpose(ops.reshape(node.value(), split), order)
    shape = [images, channels * size**2, height // size, width // size]
    node.give_value(ops.reshape(value, shape))


def tile(node: Node) -> None:
    """A tensor repeated along each axis."""
    repeats = node.known_ints(1, "the repeats")
    node.give_value(node.ops.tile(node.value(), repeats))


def batch_norm(node: Node) -> None:
    """
    Normalisation by statistics that are given, or in training by the batch's own. Known
    statistics become a factor and an addend, which go with the op before or after.
    """
    epsilon = FloatAttr(node.float("epsilon", 1e-5), f64)
    if not node.int("training_mode", 0):
        if (line := known_line(node)) is not None:
            factor, addend = line
            node.give_value(node.ops.add(node.ops.mul(node.value(), factor), addend))
            return
        node.give(BatchNormOp, node.tensors(), {"epsilon": epsilon})
        return
    ops, momentum = node.ops, node.float("momentum", 0.9)
    value, rank = node.value(), len(node.shape())
    axes = [0, *range(2, rank)]
    mean = ops.reduce(ReduceMeanOp, value, axes)
    centered = ops.sub(value, mean)
    variance = ops.reduce(ReduceMeanOp, ops.mul(centered, centered), axes)
    flat = [node.shape()[1]]
    found = [ops.reshape(each, flat) for each in (mean, variance)]
    scale, bias = node.value(1), node.value(2)
    node.give_value(ops.one(BatchNormOp, value, scale, bias, *found, epsilon=epsilon))
    for index, own in enumerate(found, 1):
        old = ops.mul(node.value(index + 2), momentum)
        node.give_value(ops.add(old, ops.mul(own, 1 - momentum)), index)


def known_line(node: Node) -> tuple[Array, Array] | None:
    """
    What a batch normalisation multiplies each channel with and adds to it, if all of
    its statistics are known; worked out with 64 bits.
    """
    known = [node.value(index) for index in range(1, 5)]
    arrays = [value for value in known if not isinstance(value, SSAValue)]
    if len(arrays) < len(known) or node.element() not in (f32, f64):
        return None
    rank, dtype = len(node.shape()), arrays[0].dtype
    shape = [-1, *[1] * (rank - 2)]
    scale, bias, mean, variance = (np.asarray(each, np.float64) for each in arrays)
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = scale / np.sqrt(variance + node.float("epsilon", 1e-5))
        addend = bias - mean * factor
    return factor.astype(dtype).reshape(shape), addend.astype(dtype).reshape(shape)


def max_unpool(node: Node) -> None:
    """The largest elements of windows back at their places, zeros elsewhere."""
    from penstock.dialects.op.indexing import ScatterElementsOp

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
    axis = IntegerAttr(0, i64)
    flat = ops.one(ScatterElementsOp, zeros, indices, values, axis=axis)
    result = ops.reshape(flat, own)
    after = [b - a for a, b in zip(own, whole, strict=True)]
    node.give_value(ops.pad(result, [0] * len(own), after))


CONVERTERS: Mapping[str, Converter] = {
    "AveragePool": average_pool,
    "BatchNormalization": batch_norm,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "DepthToSpace": depth_to_space,
    "GlobalLpPool": global_lp_pool,
    "GlobalMaxPool": global_max_pool,
    "LpPool": lp_pool,
    "MaxPool": max_pool,
    "MaxUnpool": max_unpool,
    "SpaceToDepth": space_to_depth,
    "Tile": tile,
}
"""How ops on images are converted."""
