"""
A progress line for long work, on a terminal only.
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
    it is not known.
    """

    def __init__(self, what: str, total: int | None, stream: TextIO | None = None):
        self._what = what
        self._total = total
        self._stream = sys.stderr if stream is None else stream
        self.is_shown: bool = self._stream.isatty()
        """Whether there is a terminal to show it."""
        self._next = time.monotonic() + QUIET
        self._done = 0
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ending: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove the line."""
        if self._width:
            self._write("")

    def advance(self, count: int = 1) -> None:
        """Add `count` to the work that is done, and draw the line if it is time."""
        self._done += count
        if self.is_shown and time.monotonic() >= self._next:
            self._next = time.monotonic() + BETWEEN
            self._write(self._text())

    def _text(self) -> str:
        if not self._total:
            return f"{self._what} {self._done}"
        full = min(WIDTH, WIDTH * self._done // self._total)
        bar = "#" * full + "." * (WIDTH - full)
        return f"{self._what} {self._done}/{self._total} [{bar}]"

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
