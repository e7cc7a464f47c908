"""
Transposed convolutions in one to three dimensions, in terms of convolutions: what
windows on an image are a gradient of, and ONNX's `ConvTranspose`.

Element `y` of an axis gets tap `t` of window `o` where `y = o * stride + t * dilation -
before`. So all elements that are equal modulo the stride get the same taps, of windows
one after the other: they are a dense convolution, without zeros between the windows.
The results of these convolutions are put next to each other. Convolutions to few
channels that have as many taps are one of more channels, which reads the images once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import gcd, prod
from typing import NamedTuple, TypeAlias, TypeVar

from penstock.dialects.kernel.windows import Window
from penstock.dialects.op.windows.window_numbers import numbers_of
from penstock.dialects.utils.op_functions import OpFunctions

V = TypeVar("V")

Convolve: TypeAlias = Callable[[V, V, Sequence[Window], int], V]
"""
A convolution of images with weights, given windows along their last dimensions and the
number of groups.
"""


FEW_CHANNELS = 16
"""
The out channels of a group from which on phases are convolutions of their own: joined
ones have a window more on each axis, and the images are no longer what takes time.
"""


class Phase(NamedTuple):
    """The elements of an axis at one place modulo the stride, as a convolution."""

    place: int
    taps: range
    """Their taps, the last one first, as windows go the other way."""
    window: Window
    """The window of these taps, whose pads are less than 0 where it leaves out some."""


def phase_of(window: Window, place: int, count: int, extent: int) -> Phase | None:
    """
    The phase of the elements `place`, `place + stride`... of which there are `count`,
    of windows that are `extent` ones; None if no tap of a window lies there.
    """
    stride, dilation = window.stride, window.dilation
    common = gcd(stride, dilation)
    step, spread = stride // common, dilation // common
    offset = place + window.before
    first = next(
        (
            tap
            for tap in range(min(step, window.taps))
            if (offset - tap * dilation) % stride == 0
        ),
        None,
    )
    if first is None:
        return None
    taps = range(first, window.taps, step)
    nearest = (offset - first * dilation) // stride
    before = (len(taps) - 1) * spread - nearest
    after = count + nearest - extent
    if -before >= extent or -after >= extent:
        return None
    return Phase(place, taps[::-1], Window(len(taps), 1, before, after, spread))


def phases_of(
    window: Window, count: int, image: int, extent: int, *, joined: bool
) -> list[list[Phase]]:
    """
    The phases of an axis of an extent, `count` elements each, of windows that are
    `image` ones: those of as many taps together if they are joined, else each alone.
    """
    found: dict[int, list[Phase]] = {}
    for place in range(min(window.stride, extent)):
        if (phase := phase_of(window, place, count, image)) is not None:
            kind = len(phase.taps) if joined else place
            found.setdefault(kind, []).append(phase)
    return [*found.values()]


def transposed(
    o: OpFunctions[V],
    x: V,
    weights: V,
    windows: Sequence[Window],
    extents: Sequence[int],
    groups: int,
    convolve: Convolve[V],
) -> V:
    """
    The gradient of a convolution of images [n, channels, *extents] with respect to
    these, given the gradient `x` [n, out channels, ...] of its result and its weights
    [out channels, channels / groups, *taps].
    """
    counts = [
        -(-extent // window.stride)
        for extent, window in zip(extents, windows, strict=True)
    ]
    turned = turned_channels(o, weights, groups)
    outputs, inputs, *_ = o.shape(turned)
    is_joined = outputs // groups < FEW_CHANNELS and inputs > 1
    found: dict[tuple[int, ...], V] = {}
    strides = [window.stride for window in windows]
    axes = [
        phases_of(*facts, joined=is_joined)
        for facts in zip(windows, counts, o.shape(x)[2:], extents, strict=True)
    ]
    for phases in product(*axes):
        found |= _convolved_phases(o, x, turned, phases, counts, groups, convolve)
    shape = [o.shape(x)[0], o.shape(turned)[0], *counts]
    whole = interleaved(o, found, shape, strides, x)
    for axis, extent in enumerate(extents, 2):
        whole = o.slice(whole, axis, 0, extent)
    return whole


def images_convolved(o: OpFunctions[V]) -> Convolve[V]:
    """The convolution of images, for `transposed`."""

    def conv(x: V, weights: V, windows: Sequence[Window], groups: int) -> V:
        numbers = numbers_of(windows)
        return o.one("op.conv2d", x, weights, groups=groups, **numbers)

    return conv


def turned_channels(o: OpFunctions[V], weights: V, groups: int) -> V:
    """Weights [a, b / groups, *taps] as [b, a / groups, *taps]."""
    a, b, *taps = o.shape(weights)
    axes = range(3, 3 + len(taps))
    split = o.reshape(weights, [groups, a // groups, b, *taps])
    if 1 not in (a // groups, b):
        split = o.transpose(split, [0, 2, 1, *axes])
    return o.reshape(split, [groups * b, a // groups, *taps])


def _convolved_phases(
    o: OpFunctions[V],
    x: V,
    weights: V,
    axes: Sequence[Sequence[Phase]],
    counts: Sequence[int],
    groups: int,
    convolve: Convolve[V],
) -> dict[tuple[int, ...], V]:
    """
    The elements at some places modulo the strides, by these, of one convolution with
    the windows of all: those of any phase on each axis.
    """
    windows: list[Window] = []
    for axis, phases in enumerate(axes, 2):
        extent = o.shape(x)[axis]
        before = max(phase.window.before for phase in phases)
        after = max(phase.window.after for phase in phases)
        x = o.slice(x, axis, max(0, -before), extent - max(0, -after))
        own = phases[0].window._replace(before=max(0, before), after=max(0, after))
        windows.append(own)
    chosen = [*product(*axes)]
    parts = [_taps(o, weights, [phase.taps for phase in each]) for each in chosen]
    result = convolve(x, _side_by_side(o, parts, groups), windows, groups)
    if len(chosen) == 1:
        return {tuple(phase.place for phase in chosen[0]): result}
    images, outputs, *extents = o.shape(result)
    outputs //= groups * len(parts)
    split = o.reshape(result, [images, groups, len(parts), outputs, *extents])
    found: dict[tuple[int, ...], V] = {}
    for number, each in enumerate(chosen):
        befores = [
            max(other.window.before for other in axis) - phase.window.before
            for axis, phase in zip(axes, each, strict=True)
        ]
        starts = [0, 0, number, 0, *befores]
        sizes = [images, groups, 1, outputs, *counts]
        ends = [a + b for a, b in zip(starts, sizes, strict=True)]
        steps = [1] * len(starts)
        part = o.one("op.slice", split, starts=starts, ends=ends, steps=steps)
        place = tuple(phase.place for phase in each)
        found[place] = o.reshape(part, [images, groups * outputs, *counts])
    return found


def _side_by_side(o: OpFunctions[V], parts: Sequence[V], groups: int) -> V:
    """Weights of the same groups as those of one convolution to more channels."""
    if len(parts) == 1:
        return parts[0]
    outputs, *rest = o.shape(parts[0])
    split = [groups, outputs // groups, *rest]
    joined = o.concat([o.reshape(part, split) for part in parts], 1)
    return o.reshape(joined, [len(parts) * outputs, *rest])


def _taps(o: OpFunctions[V], weights: V, taps: Sequence[range]) -> V:
    """Some taps of weights, in another order."""
    whole = [range(extent) for extent in o.shape(weights)]
    ranges = [*whole[:2], *taps]
    if ranges == whole:
        return weights
    # A range that counts down to the first element ends before all.
    ends = [
        own.stop if own.stop >= 0 else own.stop - len(all)
        for own, all in zip(ranges, whole, strict=True)
    ]
    starts, steps = [own.start for own in ranges], [own.step for own in ranges]
    return o.one("op.slice", weights, starts=starts, ends=ends, steps=steps)


def interleaved(
    o: OpFunctions[V],
    parts: Mapping[tuple[int, ...], V],
    shape: Sequence[int],
    strides: Sequence[int],
    like: V,
) -> V:
    """
    Images of which the elements at some places modulo the strides are given, each part
    of the shape; all others are zeros of the type of `like`.
    """
    images, channels, *counts = shape
    whole = [count * stride for count, stride in zip(counts, strides, strict=True)]
    if not parts:
        return o.filled(0, [images, channels, *whole], like)
    if len(parts) == 1:
        ((place, part),) = parts.items()
        return o.reshape(_spread(o, part, place, strides), [images, channels, *whole])
    places = [*product(*map(range, strides))]
    zeros = None
    if len(parts) < len(places):
        zeros = o.filled(0, shape, like)
    all_parts = [parts.get(place, zeros) for place in places]
    given = [part for part in all_parts if part is not None]
    rank = len(strides)
    stacked = o.reshape(o.stack(given, 0), [*strides, *shape])
    pairs = [axis for at in range(rank) for axis in (rank + 2 + at, at)]
    moved = o.transpose(stacked, [rank, rank + 1, *pairs])
    return o.reshape(moved, [images, channels, *whole])


def _spread(
    o: OpFunctions[V], part: V, place: Sequence[int], strides: Sequence[int]
) -> V:
    """The elements at one place modulo the strides, with zeros at all others."""
    if prod(strides) == 1:
        return part
    images, channels, *counts = o.shape(part)
    split = [images, channels, *(extent for count in counts for extent in (count, 1))]
    before, after = [0] * len(split), [0] * len(split)
    before[3::2] = place
    after[3::2] = [s - 1 - p for s, p in zip(strides, place, strict=True)]
    return o.pad(o.reshape(part, split), before, after)
