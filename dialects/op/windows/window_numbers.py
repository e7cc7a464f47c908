"""The windows of ops on images, from the numbers that these are given."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IntegerType,
    TensorType,
)
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.windows import Window, check_pads
from penstock.dialects.op.verify import check_rank


def windows_of(
    kernel: Sequence[int],
    strides: DenseArrayBase[IntegerType],
    pads: DenseArrayBase[IntegerType],
    dilations: DenseArrayBase[IntegerType] | None = None,
    ceil: bool = False,
) -> tuple[Window, Window]:
    """
    The windows along the last two dimensions of a tensor.

    `pads` are those at the top, left, bottom and right. Raises `VerifyException` for
    numbers that are too few, too many or too small.
    """
    _check_list("window extents", kernel, 2, 1)
    _check_list("strides", strides.get_values(), 2, 1)
    _check_list("pads", pads.get_values(), 4, 0)
    spread = (1, 1) if dilations is None else dilations.get_values()
    _check_list("dilations", spread, 2, 1)
    top, left, bottom, right = pads.get_values()
    down, across = strides.get_values()
    return (
        Window(kernel[0], down, top, bottom, spread[0], ceil),
        Window(kernel[1], across, left, right, spread[1], ceil),
    )


def pooled_shape(type: TensorType, windows: Sequence[Window]) -> list[int]:
    """
    The shape of pools over windows of images [n, channels, h, w]. Raises
    `VerifyException` for tensors of other ranks, and for windows of pads alone.
    """
    check_rank("the input", type, 4)
    check_pads(windows)
    images, channels, *extents = type.get_shape()
    counts = [w.count(e) for w, e in zip(windows, extents, strict=True)]
    return [images, channels, *counts]


def pooled_taps(type: TensorType, windows: Sequence[Window]) -> int:
    """The taps inside images [n, channels, h, w] of all windows."""
    images, channels, *extents = type.get_shape()
    pairs = zip(windows, extents, strict=True)
    return images * channels * prod(w.count_taps(e) for w, e in pairs)


def numbers_of(windows: Sequence[Window]) -> dict[str, list[int]]:
    """The strides, pads and dilations of windows, as ops on images are given them."""
    return {
        "strides": [window.stride for window in windows],
        "pads": [*(w.before for w in windows), *(w.after for w in windows)],
        "dilations": [window.dilation for window in windows],
    }


def _check_list(name: str, values: Sequence[int], length: int, least: int) -> None:
    values = list(values)
    if len(values) != length or any(
        value < least for value in values if value != DYNAMIC_INDEX
    ):
        raise VerifyException(
            f"{name} should be {length} numbers of at least {least}, got {values}"
        )
