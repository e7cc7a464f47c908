"""
Contractions and convolutions that libraries compute, and the protocol of a library.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple, Protocol, TypeAlias

from penstock.runtime.cuda.driver import Launch
from penstock.runtime.errors import PenstockError

SIZES = {"bf16": 2, "f16": 2, "f32": 4, "f64": 8}
"""The bytes of elements."""


class LibraryError(PenstockError):
    """A library is not there, or cannot be used."""


class Product(NamedTuple):
    """
    Sums of products `o[m, n] += a[m, k] * b[k, n]` of matrices, several at once. Steps
    are in elements.
    """

    element: str
    extents: tuple[int, int, int]
    """Rows, columns and terms."""
    a_steps: tuple[int, int]
    """From a row to the next, and from a term."""
    b_steps: tuple[int, int]
    """From a term to the next, and from a column."""
    row_step: int
    """From a row of the result to the next; columns are contiguous."""
    batch: int = 1
    """The number of products."""
    strides: tuple[int, int, int] = (0, 0, 0)
    """From a first factor, a second one, and a result to the next."""
    adds: bool = False
    """Whether sums start with the values of the result; else with 0."""

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The bytes from the first to the last element of factors and results."""
        rows, columns, terms = self.extents
        steps = (
            (rows - 1) * self.a_steps[0] + (terms - 1) * self.a_steps[1],
            (terms - 1) * self.b_steps[0] + (columns - 1) * self.b_steps[1],
            (rows - 1) * self.row_step + columns - 1,
        )
        first, second, third = (
            (step + (self.batch - 1) * stride + 1) * SIZES[self.element]
            for step, stride in zip(steps, self.strides, strict=True)
        )
        return first, second, third


class Convolution(NamedTuple):
    """
    Sums of products of images `x` and filters `w`, each of which meets all places of
    the images of its group:

        o[n, g, f, p] += x[n, g, c, p * strides + k * dilations] * w[g, f, c, k]

    where `p` and `k` are of up to three dimensions. Steps are in elements, 0 where
    there is but one; the filters lie in the order of their indices, without gaps. There
    are no borders.
    """

    element: str
    batch: int
    """Images."""
    groups: int
    channels: int
    """Those of an image in each group."""
    filters: int
    """Those of each group."""
    places: tuple[int, ...]
    """The extents of the result in each dimension."""
    x_places: tuple[int, ...]
    """
    The extents of the images in each dimension: what windows reach, and less than a
    stride more, so that no other place of the result fits.
    """
    window: tuple[int, ...]
    """The extents of a filter in each dimension."""
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    x_steps: tuple[int, ...]
    """From an image to the next, from a channel, and from a place in each dimension."""
    o_steps: tuple[int, ...]
    """The same of the result."""
    adds: bool = False
    """Whether sums start with the values of the result; else with 0."""

    @property
    def x_extents(self) -> tuple[int, ...]:
        """Images, channels of all groups, and places."""
        return self.batch, self.groups * self.channels, *self.x_places

    @property
    def w_extents(self) -> tuple[int, ...]:
        """Filters of all groups, channels of a group, and windows."""
        return self.groups * self.filters, self.channels, *self.window

    @property
    def o_extents(self) -> tuple[int, ...]:
        """Images, filters of all groups, and places."""
        return self.batch, self.groups * self.filters, *self.places

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The bytes from the first to the last element of images, filters, results."""
        reach = (
            sum((n - 1) * step for n, step in zip(extents, steps, strict=True)) + 1
            for extents, steps in (
                (self.x_extents, self.x_steps),
                (self.o_extents, self.o_steps),
            )
        )
        size = SIZES[self.element]
        x, o = (count * size for count in reach)
        return x, prod(self.w_extents) * size, o


Sum: TypeAlias = Product | Convolution
"""The problem that a stage computes."""


class Library(Protocol):
    """A library that computes stages."""

    kinds: tuple[type[Sum], ...]
    """The kinds of problems that it can compute."""
    is_capturable: bool
    """Whether its launches may become part of a graph."""

    def open(self, device: int) -> None:
        """Get ready for a device, which is the one in use."""
        ...

    def room(self, wanted: Sum, device: int) -> int:
        """
        The bytes of memory of a device that a launch needs for itself. Raises
        LibraryError if the library cannot compute the problem.
        """
        ...

    def bind(self, wanted: Sum, words: Sequence[int], device: int) -> Launch:
        """
        A launch on a device with the addresses of factors and result and, if the
        library needs some, of the memory that it has for itself.
        """
        ...

    def forget(self, device: int) -> None:
        """Let go of a device whose context is no more."""
        ...
