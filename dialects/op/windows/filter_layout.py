"""
The layout of images for `op.conv2d_filter_gradient`: all of them as one tall image, so
that the terms of its sums are equally far apart, as schedules of contractions want.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TypeVar

from penstock.dialects.kernel.windows import Window
from penstock.dialects.op.windows.window_numbers import numbers_of
from penstock.dialects.utils.op_functions import OpFunctions

V = TypeVar("V")


def filter_gradient(
    o: OpFunctions[V], x: V, g: V, windows: Sequence[Window], groups: int
) -> V:
    """
    The gradient of the weights of a convolution, given its images [n, channels, h, w]
    and the gradient [n, out channels, rows, columns] of its result.
    """
    kernel = [window.taps for window in windows]
    if groups == 1:
        x, g = as_one_image(o, x, g, windows[0])
        windows = [windows[0]._replace(before=0, after=0), *windows[1:]]
    numbers = numbers_of(windows)
    op = "op.conv2d_filter_gradient"
    return o.one(op, x, g, kernel=kernel, groups=groups, **numbers)


def as_one_image(o: OpFunctions[V], x: V, g: V, down: Window) -> tuple[V, V]:
    """
    Images one below the other, with as many zeros between two of them as the windows of
    both read there, and their gradients, with zeros for the windows between.
    """
    n, c, h, w = o.shape(x)
    _, k, rows, columns = o.shape(g)
    span = (down.taps - 1) * down.dilation
    behind = (rows - 1) * down.stride + span - down.before - (h - 1)
    if n == 1:
        return o.pad(x, [0, 0, down.before, 0], [0, 0, max(0, behind), 0]), g
    gap = max(down.before, behind)
    count = ceil(max(h + gap, rows * down.stride) / down.stride)
    height = count * down.stride
    end = (n * count - 1) * down.stride + span + 1
    more = ceil(max(0, end - n * height) / height)
    after = height - h - down.before
    x = o.pad(x, [0, 0, down.before, 0], [more, 0, after, 0])
    x = o.reshape(o.transpose(x, [1, 0, 2, 3]), [1, c, (n + more) * height, w])
    g = o.pad(g, [0] * 4, [0, 0, count - rows, 0])
    return x, o.reshape(o.transpose(g, [1, 0, 2, 3]), [1, k, n * count, columns])
