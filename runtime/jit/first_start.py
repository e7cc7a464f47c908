"""
Progress of the first start, when a process compiles parts of this package itself.

The core of the executor, and long searches for places of registers, are compiled once
in an environment, which takes a few seconds. A listener can tell the user.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

Listener: TypeAlias = Callable[[str, int], None]
"""Is told a name and the number of functions begun so far; at an end, ""."""


class FirstStart:
    """The functions that this process has compiled, and the time that took."""

    def __init__(self) -> None:
        self.functions = 0
        """The number of functions that were begun."""
        self.seconds = 0.0
        """The seconds of those that have ended."""
        self.listener: Listener | None = None
        self._began: list[float] = []

    def begin(self, what: str) -> None:
        """Note that a function is being compiled, maybe for another one."""
        self._began.append(time.perf_counter())
        self.functions += 1
        self._tell(what)

    def end(self) -> None:
        """Note that the function which was begun last is compiled."""
        began = self._began.pop()
        if not self._began:
            self.seconds += time.perf_counter() - began
            self._tell("")

    def _tell(self, what: str) -> None:
        if self.listener is not None:
            self.listener(what, self.functions)


first_start = FirstStart()
"""That of this process."""
