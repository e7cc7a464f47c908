"""The geometry of windows along an axis of an image, for code that is made of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """Windows along one axis of an image."""

    extent: int
    count: int
    taps: int
    stride: int
    before: int
    dilation: int

    def position(self, window: int, tap: int) -> int:
        """Where a tap of a window lies; maybe outside of the image."""
        return window * self.stride - self.before + tap * self.dilation

    def has(self, position: int) -> bool:
        """Whether a position is in the image."""
        return 0 <= position < self.extent

    @property
    def is_all_inside(self) -> bool:
        """Whether no tap of a window lies outside of the image."""
        last = self.position(self.count - 1, self.taps - 1)
        return self.has(self.position(0, 0)) and self.has(last)

    def is_inside(self, first: int, size: int) -> bool:
        """Whether so many windows are there, and what vectors load is in the image."""
        last = self.position(first + size, self.taps - 1) - 1
        ends = self.position(first, 0), last
        return first + size <= self.count and all(map(self.has, ends))

    def runs(self, size: int) -> Iterator[tuple[int, int, int]]:
        """
        The first window and the windows of blocks of some size, and how many follow
        that are alike.
        """
        first = 0
        while first < self.count:
            alike = 0
            while self.is_inside(first + alike * size, size):
                alike += 1
            yield first, min(size, self.count - first), max(1, alike)
            first += max(1, alike) * size
