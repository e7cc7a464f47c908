"""
Signs of life of the ranks, by which a process that is frozen is missed at any time:
while programs are compiled and loaded, too, when no run is watched.

The ranks are a ring. A thread of each tells the next rank now and then that its process
runs, and listens to the one before. So two signs a rank are on their way at most,
however many there are, and of frozen ranks one has a neighbour that misses it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

from penstock.runtime.errors import PenstockError, printable
from penstock.runtime.transport.protocol import LivelyTransport, Sign

PULSE_SECONDS = 0.5
"""The time between two signs."""
GRACE_SECONDS = 2.0
"""The time that watchdogs of runs have to say first which messages are waited for."""
START_SECONDS = 60.0
"""The time that a process has to start in."""
Report: TypeAlias = Callable[[LivelyTransport, str], object]


def end_all(transport: LivelyTransport, text: str) -> None:
    """End all ranks, also this one, wherever its threads are."""
    transport.abort(text)
    # Some transports end this process, and say why.
    print(printable(f"penstock: error: {text}"), file=sys.stderr, flush=True)
    os._exit(1)


class Silence:
    """The time for which a rank has given no sign of life, of one that listens."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._was_heard = self._has_left = False
        self._last: float | None = None

    def hear(self, sign: Sign, now: float) -> None:
        """Take in the sign that was found at a time, or that there is none."""
        # A process that was stopped itself has not listened meanwhile.
        passed = 0.0 if self._last is None else now - self._last
        self.seconds += min(passed, 2 * PULSE_SECONDS)
        self._last = now
        if sign is not Sign.SILENT:
            self.seconds, self._was_heard = 0.0, True
            self._has_left = sign is Sign.LEFT

    def is_longer_than(self, seconds: float) -> bool:
        """Whether it is too long, where so many seconds without progress are."""
        more = GRACE_SECONDS if self._was_heard else START_SECONDS
        return not self._has_left and self.seconds > seconds + more


class Pulse:
    """
    The thread of a process that gives and hears signs of life, until it is closed.
    `report` is called once with the text about a rank that is missed.
    """

    def __init__(self, transport: LivelyTransport, report: Report = end_all):
        self._transport = transport
        self._report = report
        self._limit = float("inf")
        self._clock = time.monotonic
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._serve, name="penstock-pulse", daemon=True
        )
        self._thread.start()

    def watch(self, seconds: float, clock: Callable[[], float]) -> None:
        """Miss the rank before this one if it is silent for that time and a bit."""
        self._clock, self._limit = clock, seconds

    def close(self) -> None:
        """End the thread, and tell the next rank that there are no more signs."""
        self._ended.set()
        self._thread.join()
        self._transport.leave()

    def _serve(self) -> None:
        silence = Silence()
        while not self._ended.wait(PULSE_SECONDS):
            try:
                sign = self._transport.pulse()
            except PenstockError:
                # All that wait for the other ranks get this error, too.
                return
            silence.hear(sign, self._clock())
            if silence.is_longer_than(self._limit):
                rank = (self._transport.rank - 1) % self._transport.size
                text = f"rank {rank} is frozen: its process has given no sign of life"
                self._report(self._transport, f"{text} for {silence.seconds:.1f} s")
                return
