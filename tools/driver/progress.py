"""
A progress line for long work: on a terminal, drawn over itself. Elsewhere there is
nothing, or, for work that asks for it, a plain line at intervals.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from typing import Self, TextIO

QUIET = 0.3
"""Seconds that work may take before it is worth a line."""
BETWEEN = 0.1
"""Seconds from one drawing to the next."""
WIDTH = 24


class Progress:
    """
    A progress line, `what done/total` and a bar, on standard error, drawn over itself,
    and removed at the end.

    It is shown on a terminal only, and if the work takes a while. `total` is None where
    it is not known; `done` of it may be done before. With `every`, a number of seconds,
    what is no terminal gets a plain line at such intervals, and either a last one that
    stays. `note` makes the text behind the numbers.
    """

    def __init__(
        self,
        what: str,
        total: int | None,
        stream: TextIO | None = None,
        *,
        done: int = 0,
        every: float | None = None,
        note: Callable[[], str] = str,
        clock: Callable[[], float] | None = None,
    ):
        self._what = what
        self._total = total
        self._stream = sys.stderr if stream is None else stream
        self.is_shown: bool = self._stream.isatty()
        """Whether there is a terminal to show it."""
        self._every = every
        self._note = note
        self._clock = clock or time.monotonic
        self._next = self._clock() + (QUIET if self.is_shown else every or 0)
        self._done = done
        self._width = 0
        self._told = ""
        """The plain line that was written last."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ending: object) -> None:
        self.clear()
        if self._every is not None:
            self._tell()

    def clear(self) -> None:
        """Remove the line."""
        if self._width:
            self._write("")

    def advance(self, count: int = 1) -> None:
        """Add `count` to the work that is done, and draw the line if it is time."""
        self._done += count
        if not self.is_shown and self._every is None:
            return
        if (now := self._clock()) < self._next:
            return
        if self.is_shown:
            self._next = now + BETWEEN
            self._write(self._text())
        else:
            self._next = now + (self._every or 0)
            self._tell()

    def _text(self) -> str:
        note = self._note()
        return f"{self._counts()}{self._bar()}{note and ' '}{note}"

    def _counts(self) -> str:
        of = f"/{self._total}" if self._total else ""
        return f"{self._what} {self._done}{of}"

    def _bar(self) -> str:
        if not self._total:
            return ""
        full = min(WIDTH, WIDTH * self._done // self._total)
        return f" [{'#' * full}{'.' * (WIDTH - full)}]"

    def _tell(self) -> None:
        """Write a plain line, unless it is the last one again."""
        note = self._note()
        text = f"{self._counts()}{note and ': '}{note}"
        if text != self._told:
            self._told = text
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def _write(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._width) + ("" if text else "\r"))
        self._stream.flush()
        self._width = len(text)


@contextmanager
def polled_progress(
    what: str, total: int, done: Callable[[], int], stream: TextIO | None = None
) -> Generator[None]:
    """
    A context with a progress line of its work.

    Another thread asks `done` now and then how much is done, if there is a terminal.
    """
    with Progress(what, total, stream) as progress:
        if not progress.is_shown:
            yield
            return
        ended = threading.Event()
        start = done()

        def draw() -> None:
            shown = start
            while not ended.wait(max(BETWEEN, 0.01)):
                count = done()
                progress.advance(count - shown)
                shown = count

        drawing = threading.Thread(target=draw, name="penstock-progress", daemon=True)
        drawing.start()
        try:
            yield
        finally:
            ended.set()
            drawing.join()


@cache
def _first_start_line() -> Progress:
    return Progress("compiling parts of penstock, once in this environment:", None)


def show_first_start(what: str, functions: int) -> None:
    """
    Draw the progress of compiling functions of this package, of which the cache has
    none at the first start in an environment; without a text, remove the line.
    """
    line = _first_start_line()
    if what:
        line.advance()
    else:
        line.clear()
