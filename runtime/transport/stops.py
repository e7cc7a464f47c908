"""The ranks whose processes are stopped, as by SIGSTOP, for longer than is allowed."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable

STOPPED_SECONDS = 4.0
"""
The time that the other ranks have to say first which messages of a stopped one they
wait for: they cannot before it has joined them.
"""


class Stops:
    """The seconds for which each rank has been stopped, as looks tell."""

    def __init__(self, is_stopped: Callable[[int], bool]):
        self._is_stopped = is_stopped
        self._seconds: defaultdict[int, float] = defaultdict(float)
        self._last = time.monotonic()

    def look(self, ranks: Iterable[int], patience: float, pause: float) -> str | None:
        """
        Look at these ranks; the text about one that is stopped for longer than a
        patience and a bit. Looks are a `pause` apart, in seconds.
        """
        now = time.monotonic()
        # Where this process was stopped itself, as by a terminal, that does not count.
        passed, self._last = min(now - self._last, 10 * pause), now
        for rank in ranks:
            seconds = (self._seconds[rank] + passed) * self._is_stopped(rank)
            self._seconds[rank] = seconds
            if seconds > patience + STOPPED_SECONDS:
                text = f"rank {rank} is frozen: its process has been stopped"
                return f"{text} for {seconds:.1f} s"
        return None
