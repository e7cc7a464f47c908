"""
Converters of `GridSample`, `RoiAlign` and other ops that sample images at computed
places.

Each is a sum over *taps*, the elements around a place, with weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod

import numpy as np
from xdsl.dialects.builtin import AnyFloat, f32, f64, i64

from penstock.dialects.op import comparison, elementwise, rounding
from penstock.dialects.op import unary_math as functions
from penstock.dialects.op.indexing import GatherNdOp
from penstock.dialects.op.linear import MatmulOp
from penstock.dialects.op.reduction import ReduceMaxOp, ReduceMeanOp
from penstock.tools.frontend.onnx.graph import Converter, Node, Unsupported
from penstock.tools.frontend.onnx.ops import Ops, Value
from penstock.tools.frontend.onnx.windows import pads_of, per_axis

COORDINATES = "coordinate_transformation_mode"
"""The attribute that says where regions begin."""

CUBIC = -0.75
"""The parameter of the cubic curves between elements."""

################################################################################
# Taps                                                                         #
################################################################################


@dataclass
class Tap:
    """An element along one axis for each place that is read."""

    index: Value
    inside: Value | None = None
    """Where it is one; places outside count as zero."""
    weight: Value | None = None


def between(ops: Ops, place: Value, low: float, high: float) -> Value:
    """Whether places lie between two, which belong to them."""
    above = ops.two(comparison.GreaterEqualOp, place, low)
    below = ops.two(comparison.LessEqualOp, place, high)
    return ops.one(comparison.LogicalAndOp, above, below)


def clamped(ops: Ops, place: Value, last: float) -> Value:
    """The nearest place from 0 to `last`; 0 for NaN."""
    place = ops.where(ops.two(comparison.GreaterOp, place, 0), place, 0)
    return ops.where(ops.two(comparison.LessOp, place, last), place, last)


def reflected(ops: Ops, place: Value, low: float, high: float) -> Value:
    """Places past the borders turned back at these, as often as it takes."""
    span = high - low
    if span <= 0:
        return ops.mul(place, 0)
    distance = ops.sub(place, low)
    turns = ops.one(functions.FloorOp, ops.div(distance, 2 * span))
    rest = ops.sub(distance, ops.mul(turns, 2 * span))
    back = ops.one(elementwise.AbsOp, ops.sub(rest, span))
    return ops.sub(span + low, back)


@dataclass
class Reading:
    """The sampling of an image between its elements and past its ends."""

    mode: str
    padding: str
    align_corners: bool

    def borders(self, extent: int) -> tuple[float, float]:
        """Where an axis begins and ends."""
        return (0.0, extent - 1.0) if self.align_corners else (-0.5, extent - 0.5)

    def taps(self, ops: Ops, place: Value, extent: int) -> list[Tap]:
        """The elements around places along one axis."""
        if self.mode == "nearest":
            place = ops.one(rounding.RoundOp, place)
        place = self._kept(ops, place, extent)
        if self.mode == "nearest":
            return [self._tap(ops, place, extent, None)]
        low = ops.one(functions.FloorOp, place)
        weights = (linear if self.mode == "linear" else cubic)(ops, ops.sub(place, low))
        first = 1 - len(weights) // 2
        return [
            self._tap(ops, ops.add(low, number), extent, weight)
            for number, weight in enumerate(weights, first)
        ]

    def _kept(self, ops: Ops, place: Value, extent: int) -> Value:
        """Places past the borders moved to where they are read, if that is one."""
        low, high = self.borders(extent)
        if self.padding == "zeros" or (self.mode, self.padding) == ("cubic", "border"):
            return place
        moved = (
            clamped(ops, place, extent - 1)
            if self.padding == "border"
            else reflected(ops, place, low, high)
        )
        return ops.where(between(ops, place, low, high), place, moved)

    def _tap(self, ops: Ops, place: Value, extent: int, weight: Value | None) -> Tap:
        """The element at a whole place."""
        inside: Value | None = None
        if self.padding == "zeros":
            inside = between(ops, place, 0, extent - 1)
        if self.padding == "reflection":
            place = reflected(ops, place, *self.borders(extent))
        index = ops.cast(clamped(ops, place, extent - 1), i64)
        return Tap(index, inside, weight)


def linear(ops: Ops, rest: Value) -> list[Value]:
    """The weights of the two elements around places, on straight lines."""
    return [ops.sub(1, rest), rest]


def cubic(ops: Ops, rest: Value) -> list[Value]:
    """The weights of the four elements around places, on cubic curves."""
    return [
        polynomial(ops, rest, [CUBIC, -2 * CUBIC, CUBIC, 0]),
        polynomial(ops, rest, [CUBIC + 2, -CUBIC - 3, 0, 1]),
        polynomial(ops, rest, [-CUBIC - 2, 2 * CUBIC + 3, -CUBIC, 0]),
        polynomial(ops, rest, [-CUBIC, CUBIC, 0, 0]),
    ]


def polynomial(ops: Ops, value: Value, coefficients: Sequence[float]) -> Value:
    """A polynomial, the highest power first."""
    total = ops.mul(value, coefficients[0])
    for coefficient in coefficients[1:-1]:
        total = ops.mul(ops.add(total, coefficient), value)
    return ops.add(total, coefficients[-1])


def terms(
    ops: Ops, images: Value, extents: Sequence[int], taps: Sequence[Sequence[Tap]]
) -> list[Value]:
    """
    The samples of images [batch, elements of all axes, channels] by the taps of each
    axis [batch, places]: a weighted [batch, places, channels] for each combination.
    """
    shape = [*ops.shape(taps[0][0].index), 1]
    found: list[Value] = []
    for chosen in product(*taps):
        index = chosen[0].index
        for tap, extent in zip(chosen[1:], extents[1:], strict=True):
            index = ops.add(ops.mul(index, extent), tap.index)
        term = ops.one(GatherNdOp, images, ops.reshape(index, shape), batch=1)
        inside = [tap.inside for tap in chosen if tap.inside is not None]
        if inside:
            whole = inside[0]
            for other in inside[1:]:
                whole = ops.one(comparison.LogicalAndOp, whole, other)
            term = ops.where(ops.reshape(whole, shape), term, 0)
        for weight in (tap.weight for tap in chosen):
            if weight is not None:
                share = ops.cast(ops.reshape(weight, shape), ops.element(images))
                term = ops.mul(term, share)
        found.append(term)
    return found


def combined(op: type[elementwise.BinaryOp], ops: Ops, values: list[Value]) -> Value:
    """One value of several, two at a time."""
    total = values[0]
    for value in values[1:]:
        total = ops.one(op, total, value)
    return total


summed = partial(combined, elementwise.AddOp)


def channels_last(ops: Ops, images: Value, groups: int = 1) -> Value:
    """Images as [images x groups of channels, elements, channels of a group]."""
    count, channels, *extents = ops.shape(images)
    shape = [count * groups, channels // groups, prod(extents)]
    return ops.transpose(ops.reshape(images, shape), [0, 2, 1])


################################################################################
# Ops                                                                          #
################################################################################

MODES = {"bilinear": "linear", "bicubic": "cubic"}
"""The names of the modes in older versions."""


def grid_sample(node: Node) -> None:
    """Images read at the places of a grid, from -1 to 1 along each axis."""
    ops, shape = node.ops, node.shape()
    mode = node.text("mode", "linear")
    padding = node.text("padding_mode", "zeros")
    reading = Reading(
        MODES.get(mode, mode), padding, bool(node.int("align_corners", 0))
    )
    known = ("nearest", "linear", "cubic"), ("zeros", "border", "reflection")
    if reading.mode not in known[0] or padding not in known[1]:
        raise Unsupported(f"the mode '{mode}' with '{padding}' is not known")
    if reading.mode != "nearest" and not isinstance(node.element(), AnyFloat):
        raise Unsupported(f"{node.element()} cannot lie between others")
    count, channels, *extents = shape
    wanted = node.shape(1)[1:-1]
    grid = ops.cast(node.value(1), f64 if node.element(1) == f64 else f32)
    grid = ops.reshape(grid, [count, prod(wanted), len(extents)])
    # The last axis of the images comes first in the grid.
    places = [ops.pick(grid, 2, axis) for axis in reversed(range(len(extents)))]
    taps = [
        reading.taps(ops, placed(ops, place, extent, reading), extent)
        for place, extent in zip(places, extents, strict=True)
    ]
    result = summed(ops, terms(ops, channels_last(ops, node.value()), extents, taps))
    result = ops.transpose(result, [0, 2, 1])
    node.give_value(ops.reshape(result, [count, channels, *wanted]))


def placed(ops: Ops, place: Value, extent: int, reading: Reading) -> Value:
    """Where a place from -1 to 1 is along an axis."""
    low, high = reading.borders(extent)
    half = (high - low) / 2
    return ops.add(ops.mul(ops.add(place, 1), half), low)


def roi_align(node: Node) -> None:
    """The mean or the maximum of samples at points of regions of images."""
    ops = node.ops
    _, channels, *extents = node.shape()
    regions = node.shape(1)[0]
    bins = [node.int("output_height", 1), node.int("output_width", 1)]
    samples = node.int("sampling_ratio", 0)
    mode = node.text("mode", "avg")
    if samples <= 0:
        raise Unsupported("the number of samples follows from the regions")
    if mode not in ("avg", "max"):
        raise Unsupported(f"the mode '{mode}' is not known")
    places = region_places(node, bins, samples)
    near: list[Value] = []
    taps: list[list[Tap]] = [[Tap(spread(ops, region_images(node), bins, samples))]]
    for axis, (place, extent) in enumerate(zip(places, extents, strict=True)):
        shape = [regions, 1, 1]
        shape[axis + 1] = bins[axis] * samples
        whole = spread(ops, ops.reshape(place, shape), bins, samples)
        near.append(between(ops, whole, -1, extent))
        whole = clamped(ops, whole, extent - 1)
        taps.append(Reading("linear", "border", True).taps(ops, whole, extent))
    flat = channels_last(ops, node.value())
    flat = ops.reshape(flat, [1, prod(ops.shape(flat)[:2]), channels])
    inside = ops.one(comparison.LogicalAndOp, *near)
    shape = [*ops.shape(inside), 1]
    found = [
        ops.where(ops.reshape(inside, shape), term, 0)
        for term in terms(ops, flat, [node.shape()[0], *extents], taps)
    ]
    # ONNX takes the largest of the weighted elements, not of their sums.
    one = elementwise.AddOp if mode == "avg" else elementwise.MaximumOp
    value = combined(one, ops, found)
    split = [regions, bins[0], samples, bins[1], samples, channels]
    value = ops.reshape(value, split)
    op = ReduceMeanOp if mode == "avg" else ReduceMaxOp
    value = ops.reduce(op, value, [2, 4], keepdims=False)
    node.give_value(ops.transpose(value, [0, 3, 1, 2]))


def region_places(node: Node, bins: Sequence[int], samples: int) -> list[Value]:
    """The points [regions, bins x samples] of regions along each axis."""
    ops, element = node.ops, node.element()
    halved = node.text(COORDINATES, "half_pixel") == "half_pixel"
    corners = ops.mul(ops.cast(node.value(1), element), node.float("spatial_scale", 1))
    if halved:
        corners = ops.sub(corners, 0.5)
    found: list[Value] = []
    for axis, count in enumerate(bins):
        # A region is x and y of its first corner, then those of its last one.
        first, last = (ops.slice(corners, 1, at, at + 1) for at in (1 - axis, 3 - axis))
        size = ops.sub(last, first)
        if not halved:
            size = ops.two(elementwise.MaximumOp, size, 1)
        shares = (np.arange(count * samples) + 0.5) / (count * samples)
        steps = ops.mul(size, ops.cast(shares[None], element))
        found.append(ops.add(steps, first))
    return found


def region_images(node: Node) -> Value:
    """The image of each region."""
    return node.ops.reshape(node.ops.cast(node.value(2), i64), [*node.shape(2), 1, 1])


def spread(ops: Ops, value: Value, bins: Sequence[int], samples: int) -> Value:
    """Numbers [regions, rows or 1, columns or 1] for all points: [1, points]."""
    shape = [ops.shape(value)[0], bins[0] * samples, bins[1] * samples]
    return ops.reshape(ops.expand(value, shape), [1, prod(shape)])


def deform_conv(node: Node) -> None:
    """
    A convolution of images whose taps are moved by offsets and scaled by a mask: their
    samples, as a matrix, times the weights.
    """
    ops, (count, channels, *extents) = node.ops, node.shape()
    if len(extents) != 2:
        raise Unsupported(f"the image should have 4 axes, got {len(extents) + 2}")
    outputs, _, *kernel = node.shape(1)
    groups, parts = node.int("group", 1), node.int("offset_group", 1)
    wanted = node.shape(2)[2:]
    size, number = prod(kernel), prod(wanted)
    moved = ops.reshape(node.value(2), [count * parts, size, 2, number])
    reading = Reading("linear", "zeros", True)
    taps: list[list[Tap]] = []
    for axis, known in enumerate(window_places(node, kernel, wanted)):
        place = ops.add(ops.pick(moved, 2, axis), ops.cast(known, node.element(2)))
        flat = ops.reshape(place, [count * parts, size * number])
        taps.append(reading.taps(ops, flat, extents[axis]))
    images = channels_last(ops, node.value(), parts)
    value = summed(ops, terms(ops, images, extents, taps))
    if node.has(4):
        mask = ops.reshape(node.value(4), [count * parts, size * number, 1])
        value = ops.mul(value, mask)
    split = [count * parts, size, number, channels // parts]
    value = ops.transpose(ops.reshape(value, split), [0, 3, 1, 2])
    inner = channels // groups * size
    value = ops.reshape(value, [count, groups, inner, number])
    weights = ops.reshape(node.value(1), [groups, outputs // groups, inner])
    value = ops.reshape(ops.one(MatmulOp, weights, value), [count, outputs, *wanted])
    if node.has(3):
        value = ops.add(value, ops.reshape(node.value(3), [outputs, 1, 1]))
    node.give_value(value)


def window_places(
    node: Node, kernel: Sequence[int], wanted: Sequence[int]
) -> list[Value]:
    """Where the taps of windows are along each axis: [taps, windows]."""
    strides, dilations = (per_axis(node, n, 2) for n in ("strides", "dilations"))
    pads = pads_of(node, kernel, strides, dilations)
    taps, windows = np.indices(kernel), np.indices(wanted)
    return [
        taps[axis].reshape(-1, 1) * dilations[axis]
        + windows[axis].reshape(1, -1) * strides[axis]
        - pads[axis]
        for axis in range(2)
    ]


CONVERTERS: Mapping[str, Converter] = {
    "DeformConv": deform_conv,
    "GridSample": grid_sample,
    "RoiAlign": roi_align,
}
"""The converters of ops that sample images."""
