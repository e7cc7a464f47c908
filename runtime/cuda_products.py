"""Products of matrices, and what a library that computes them has to offer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from penstock.runtime.cuda_driver import Launch
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
    """From a row of the result to the next; columns follow each other."""
    batch: int = 1
    """How many products there are."""
    strides: tuple[int, int, int] = (0, 0, 0)
    """From a first factor, a second one, and a result to the next."""
    adds: bool = False
    """Whether sums start with what the result is before; else with 0."""

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


class Library(Protocol):
    """What computes phases."""

    is_capturable: bool
    """Whether what it launches may become part of a graph."""

    def open(self, device: int) -> None:
        """Get ready for a device, which is the one in use."""
        ...

    def bind(self, product: Product, words: Sequence[int], device: int) -> Launch:
        """A launch on a device with the addresses of factors and result."""
        ...

    def forget(self, device: int) -> None:
        """Let go of a device whose context is no more."""
        ...
