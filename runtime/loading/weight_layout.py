"""
The layout of variables in memory: plain, packed in panels (`#launch.panels`), or
transformed for Winograd.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
import numpy.typing as npt

from penstock.runtime.program.executable import Panels, Variable

Array = npt.NDArray[np.generic]


WINOGRAD = (
    (1 / 4, 0, 0),
    (-1 / 6, -1 / 6, -1 / 6),
    (-1 / 6, 1 / 6, -1 / 6),
    (1 / 24, 1 / 12, 1 / 6),
    (1 / 24, -1 / 12, 1 / 6),
    (0, 0, 1),
)
"""G of Winograd's convolution with 3 x 3 weights, for tiles of 4 x 4 results."""


def winograd_weights(weights: Array) -> Array:
    """
    G g G' for each pair of channels of weights [out channels, channels, 3, 3], computed
    in 64 bits and rounded once: [36, out channels, channels].
    """
    g = np.array(WINOGRAD)
    product = np.kron(g, g) @ weights.reshape(-1, 9).T.astype(np.float64)
    return product.astype(weights.dtype).reshape(-1, *weights.shape[:2])


def stored_value(variable: Variable, value: Array) -> Array:
    """The array in memory for a value of a variable (its part of the whole)."""
    if variable.winograd:
        value = winograd_weights(value)
    return as_stored(value, variable.panels)


def as_stored(array: Array, panels: Panels | None) -> Array:
    """The elements of an array in the order in which they lie in memory."""
    if panels is None:
        return array
    matrices = _cut_last(np.ascontiguousarray(array).reshape(panels.shape), panels)
    stored = np.empty((panels.shape[0], prod(panels.shape[1:])), array.dtype)
    for piece, place in _pieces(matrices, stored, panels):
        place[...] = piece
    return stored.reshape(array.shape)


def as_usual(stored: Array, panels: Panels | None) -> Array:
    """The elements that lie in memory in the order of their array, a flat one."""
    if panels is None:
        return stored
    array = np.empty(panels.shape, stored.dtype)
    lines = stored.reshape(panels.shape[0], -1)
    for piece, place in _pieces(_cut_last(array, panels), lines, panels):
        piece[...] = place
    return array.reshape(-1)


def _cut_last(matrices: Array, panels: Panels) -> Array:
    """The matrices with the axis that is cut last."""
    return matrices.transpose(0, 2, 1) if panels.axis == 1 else matrices


def _pieces(
    matrices: Array, lines: Array, panels: Panels
) -> Iterator[tuple[Array, Array]]:
    """
    Views of all whole panels of each block, and of the last, at both places: matrix,
    panel, group of terms, column, and term of the group.
    """
    count, all_terms, extent = matrices.shape
    size = panels.group
    rest = extent % panels.width
    whole = extent - rest
    for first in range(0, all_terms, panels.depth):
        block = matrices[:, first : first + panels.depth]
        terms = block.shape[1]
        start, middle = first * extent, first * extent + whole * terms
        end = first * extent + extent * terms
        for columns, place, width in (
            (block[:, :, :whole], lines[:, start:middle], panels.width),
            (block[:, :, whole:], lines[:, middle:end], rest or 1),
        ):
            number, groups = columns.shape[2] // width, terms // size
            cut = columns.reshape(count, groups, size, number, width)
            there = place.reshape(count, number, groups, width, size)
            yield cut.transpose(0, 3, 1, 4, 2), there
