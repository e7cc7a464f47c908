"""Bytes that are alive at each step, of buffers with a lifetime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Row = tuple[int, int, int]
"""The first and the last step at which a buffer is alive, and its bytes."""


@dataclass
class Occupancy:
    """The bytes in use over time, if each buffer took bytes of its own."""

    rows: Sequence[Row]
    live: dict[int, int] = field(init=False)
    """The bytes alive from each step on at which they change, ascending."""
    peak: int = field(init=False, default=0)
    """The first step at which most bytes are alive; 0 if none ever are."""
    most: int = field(init=False, default=0)
    """The bytes alive then: no layout of the buffers is smaller."""

    def __post_init__(self) -> None:
        change: dict[int, int] = {}
        for first, last, size in self.rows:
            change[first] = change.get(first, 0) + size
            change[last + 1] = change.get(last + 1, 0) - size
        self.live, alive = {}, 0
        for step in sorted(change):
            self.live[step] = alive = alive + change[step]
            if alive > self.most:
                self.peak, self.most = step, alive

    @property
    def owners(self) -> list[int]:
        """The buffers alive at the peak, those with most bytes first."""
        alive = [i for i, (a, b, _) in enumerate(self.rows) if a <= self.peak <= b]
        return sorted(alive, key=lambda i: -self.rows[i][2])

    def of_steps(self, steps: Iterable[int]) -> list[int]:
        """The bytes alive at each of some steps, which ascend from 0 on, one by one."""
        found: list[int] = []
        alive = 0
        for step in steps:
            alive = self.live.get(step, alive)
            found.append(alive)
        return found
