"""The budget of a search, and the condition under which it has found enough."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Budget:
    """
    The time and the steps that searches may still spend, all together.

    A search goes on until one of them is spent, or until its layout is as low as it
    asks for. A step is a small piece of work, of about 4 ns. A search depends on its
    steps only: a clock ends it earlier or later, but leads it nowhere else. Loading or
    compiling the search for the first time in a process does not count.
    """

    seconds: float | None = None
    steps: int | None = None
    capacity: int | None = None
    """Bytes that are enough; None asks for as few as possible."""
    _end: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.seconds is not None and self.seconds < 0:
            raise ValueError(f"seconds must not be negative, got {self.seconds}")
        if self.steps is not None and self.steps < 0:
            raise ValueError(f"steps must not be negative, got {self.steps}")
        if self.capacity is not None and self.capacity < 0:
            raise ValueError(f"capacity must not be negative, got {self.capacity}")
        self._end = time.perf_counter() + (self.seconds or 0)

    @contextmanager
    def clock_stopped(self) -> Generator[None]:
        """Do something that does not count as time."""
        start = time.perf_counter()
        yield
        self._end += time.perf_counter() - start

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return self.seconds is not None and time.perf_counter() >= self._end

    @property
    def is_spent(self) -> bool:
        """Whether a search must end."""
        return self.is_over or (self.steps is not None and self.steps <= 0)

    def spend(self, steps: int) -> None:
        """Take steps off."""
        if self.steps is not None:
            self.steps -= steps
