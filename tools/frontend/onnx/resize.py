"""
The converter of `Resize`: each axis on its own, as sums of weighted elements.

Elements and weights follow from the shapes, and are known. Places are exact fractions:
rounded ones would lie beside the middle between two elements, or outside of the input,
where those of the standard do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import AnyFloat, f32

from penstock.dialects.op.movement import GatherOp
from penstock.dialects.op.verify import normal_axis
from penstock.tools.frontend.onnx.graph import Converter, Node, Unsupported
from penstock.tools.frontend.onnx.ops import Ops, Value

HALF = Fraction(1, 2)


@dataclass
class Axis:
    """The resizing of one axis."""

    extent: int
    result: int
    scale: Fraction
    start: Fraction
    """Where the part of the input begins that is resized, from 0 to 1."""
    end: Fraction

    @property
    def exact(self) -> Fraction:
        """The extent of the result before it was rounded."""
        return self.scale * self.extent


def aligned(axis: Axis, place: int) -> Fraction:
    """
    The first and last elements stay where they are, if the extent was not rounded: the
    cases of ONNX want that of before.
    """
    if axis.exact == 1:
        return Fraction(0)
    return place * (axis.extent - 1) / (axis.exact - 1)


def cropped(axis: Axis, place: int) -> Fraction:
    """A part of the input is resized."""
    last, share = axis.extent - 1, axis.end - axis.start
    if axis.result == 1:
        return (axis.start + axis.end) * last / 2
    return axis.start * last + place * share * last / (axis.result - 1)


def half_pixel(axis: Axis, place: int) -> Fraction:
    """Elements are squares, whose centers are scaled."""
    return (place + HALF) / axis.scale - HALF


def half_pixel_of_pytorch(axis: Axis, place: int) -> Fraction:
    """Like `half_pixel`, but one element is the first one."""
    return half_pixel(axis, place) if axis.result > 1 else Fraction(0)


def half_pixel_symmetric(axis: Axis, place: int) -> Fraction:
    """Like `half_pixel`, but about the center."""
    offset = axis.extent * HALF * (1 - axis.result / axis.exact)
    return offset + half_pixel(axis, place)


COORDINATES: Mapping[str, Callable[[Axis, int], Fraction]] = {
    "align_corners": aligned,
    "asymmetric": lambda axis, place: place / axis.scale,
    "half_pixel": half_pixel,
    "half_pixel_symmetric": half_pixel_symmetric,
    "pytorch_half_pixel": half_pixel_of_pytorch,
    "tf_crop_and_resize": cropped,
}
"""Where in the input a place of the result lies."""

ROUNDING: Mapping[str, Callable[[Fraction], int]] = {
    "ceil": ceil,
    "floor": floor,
    "round_prefer_ceil": lambda place: floor(place + HALF),
    "round_prefer_floor": lambda place: ceil(place - HALF),
}
"""The element nearest to a place."""


def tent(distance: float, _: float) -> float:
    """The weight of an element so far away, for straight lines between them."""
    return max(0.0, 1 - abs(distance))


def cubic(distance: float, a: float) -> float:
    """The weight of an element so far away, for cubic curves between them."""
    x = abs(distance)
    if x <= 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else 0.0


@dataclass
class Filter:
    """The taps of an element of the result."""

    mode: str
    coordinates: Callable[[Axis, int], Fraction]
    nearest: Callable[[Fraction], int]
    cubic_a: float
    exclude_outside: bool
    antialias: bool

    def taps(self, axis: Axis, place: Fraction) -> dict[int, float]:
        """The weights of the elements that a place of the input is made of."""
        if self.mode == "nearest":
            return {min(max(self.nearest(place), 0), axis.extent - 1): 1.0}
        shrink = min(axis.scale, Fraction(1)) if self.antialias else Fraction(1)
        weight, reach = (tent, 1) if self.mode == "linear" else (cubic, 2)
        first, last = floor(place - reach / shrink), ceil(place + reach / shrink)
        weights = {
            index: weight(float((index - place) * shrink), self.cubic_a)
            for index in range(first, last + 1)
        }
        if self.exclude_outside:
            weights = {i: w for i, w in weights.items() if 0 <= i < axis.extent}
        total = sum(weights.values())
        taps: dict[int, float] = {}
        for index, share in weights.items():
            inside = min(max(index, 0), axis.extent - 1)
            taps[inside] = taps.get(inside, 0.0) + share / total
        return {index: share for index, share in taps.items() if share}


def resize(node: Node) -> None:
    """A tensor with other extents, its elements between those of the input."""
    axes = resized_axes(node)
    filter = filter_of(node)
    ops, value, element = node.ops, node.value(), node.element()
    outside = node.float("extrapolation_value", 0.0)
    crops = is_cropped(node)
    wide = element if filter.mode == "nearest" and not crops else f32
    if isinstance(element, AnyFloat):
        wide = element
    elif wide is f32:
        raise Unsupported(f"{element} cannot lie between others")
    missing: dict[int, NDArray[np.bool_]] = {}
    repeats: dict[int, int] = {}
    for index, axis in axes.items():
        places = [filter.coordinates(axis, place) for place in range(axis.result)]
        beyond = [place < 0 or place > axis.extent - 1 for place in places]
        if crops and any(beyond):
            missing[index] = np.array(beyond)
        taps = [filter.taps(axis, place) for place in places]
        if factor := repeats_of(taps, axis.extent):
            repeats[index] = factor
        else:
            value = mixed(ops, value, index, taps)
    if any(factor > 1 for factor in repeats.values()):
        value = repeated(ops, value, repeats)
    for index, beyond in missing.items():
        extents = [1] * len(node.shape())
        extents[index] = len(beyond)
        value = ops.where(beyond.reshape(extents), ops.like(outside, value), value)
    node.give_value(value)


def mixed(ops: Ops, value: Value, axis: int, taps: list[dict[int, float]]) -> Value:
    """Elements along an axis as weighted sums of others."""
    count = max(map(len, taps), default=0)
    total: Value | None = None
    for at in range(count):
        pairs = [[*tap.items()][at] if at < len(tap) else (0, 0.0) for tap in taps]
        term = ops.one(
            GatherOp, value, np.array([index for index, _ in pairs]), axis=axis
        )
        weights = np.array([weight for _, weight in pairs])
        if not np.all(weights == 1):
            extents = [1] * len(ops.shape(value))
            extents[axis] = len(taps)
            shares = ops.cast(weights.reshape(extents), ops.element(value))
            term = ops.mul(term, shares)
        total = term if total is None else ops.add(total, term)
    if total is None:
        return ops.one(GatherOp, value, np.zeros(0, np.int64), axis=axis)
    return total


def repeats_of(taps: list[dict[int, float]], extent: int) -> int:
    """The times that each element of an axis comes; 0 if others lie between."""
    factor = len(taps) // max(1, extent)
    is_repeated = taps == [{n // factor: 1.0} for n in range(factor * extent)]
    return factor if is_repeated else 0


def repeated(ops: Ops, value: Value, factors: Mapping[int, int]) -> Value:
    """Each element along some axes several times."""
    shape = ops.shape(value)
    pairs = [(extent, factors.get(axis, 1)) for axis, extent in enumerate(shape)]
    split = [n for extent, _ in pairs for n in (extent, 1)]
    whole = [n for pair in pairs for n in pair]
    spread = ops.expand(ops.reshape(value, split), whole)
    return ops.reshape(spread, [extent * factor for extent, factor in pairs])


def filter_of(node: Node) -> Filter:
    """The taps of an element of the result, by the attributes."""
    mode = node.text("mode", "nearest")
    coordinates = node.text("coordinate_transformation_mode", "half_pixel")
    nearest = node.text("nearest_mode", "round_prefer_floor")
    for known, what, name in (
        ({"nearest", "linear", "cubic"}, "mode", mode),
        (COORDINATES.keys(), "coordinate transformation", coordinates),
        (ROUNDING.keys(), "rounding", nearest),
    ):
        if name not in known:
            raise Unsupported(f"the {what} '{name}' is not known")
    return Filter(
        mode,
        COORDINATES[coordinates],
        ROUNDING[nearest],
        node.float("cubic_coeff_a", -0.75),
        node.int("exclude_outside", 0) == 1,
        node.int("antialias", 0) == 1,
    )


def resized_axes(node: Node) -> dict[int, Axis]:
    """The resizing of each axis that is resized."""
    shape = node.shape()
    axes = [normal_axis(axis, len(shape)) for axis in node.ints("axes") or []]
    axes = axes or list(range(len(shape)))
    extents = [shape[axis] for axis in axes]
    roi = known_numbers(node, 1) or [Fraction(0), Fraction(1)]
    starts = roi[: len(roi) // 2] * (len(axes) if len(roi) == 2 else 1)
    ends = roi[len(roi) // 2 :] * (len(axes) if len(roi) == 2 else 1)
    scales = known_numbers(node, 2)
    if any(scale <= 0 for scale in scales):
        raise Unsupported("the scales should be greater than 0")
    sizes = [int(size) for size in known_numbers(node, 3)]
    if sizes:
        sizes, scales = kept_aspect(node, extents, sizes)
    else:
        crops = is_cropped(node)
        parts = [
            e - s if crops else Fraction(1) for s, e in zip(starts, ends, strict=True)
        ]
        shares = zip(extents, parts, scales, strict=True)
        sizes = [floor(extent * part * scale) for extent, part, scale in shares]
        if any(size < 0 for size in sizes):
            raise Unsupported("a part of the input ends before it begins")
    rows = zip(axes, extents, sizes, scales, starts, ends, strict=True)
    return {axis: Axis(*numbers) for axis, *numbers in rows}


def is_cropped(node: Node) -> bool:
    """Whether a part of the input is resized, and all of it else."""
    return node.text("coordinate_transformation_mode", "") == "tf_crop_and_resize"


def known_numbers(node: Node, index: int) -> list[Fraction]:
    """The numbers of an operand, which are none where it is left out."""
    if not node.has(index):
        return []
    numbers = node.known(index, "how it is resized").astype(np.float64)
    if not np.isfinite(numbers).all():
        raise Unsupported("it is resized by numbers that are not finite")
    return [Fraction(float(number)) for number in numbers.reshape(-1)]


def kept_aspect(
    node: Node, extents: list[int], sizes: list[int]
) -> tuple[list[int], list[Fraction]]:
    """The sizes and scales of axes, which may have to be the same."""
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    pairs = zip(sizes, extents, strict=True)
    scales = [Fraction(size, extent) for size, extent in pairs]
    if policy == "stretch":
        return sizes, scales
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [floor(scale * extent + HALF) for extent in extents], [scale] * len(extents)


CONVERTERS: Mapping[str, Converter] = {"Resize": resize}
"""The converter of resizing."""
