"""Work that an interrupt of the calling thread does not cut short."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


def _nothing() -> None:
    """Do nothing."""


class _Work(Generic[T]):
    """A piece of work that is done once, in a thread, and its result."""

    def __init__(self, work: Callable[[], T]):
        self._work = work
        self._is_begun = threading.Lock()
        # A signal in `Thread.join` may make Python take a thread for ended.
        self.is_done = threading.Event()
        self.results: list[T] = []
        self.error: BaseException | None = None

    def wait(self, stop: Callable[[], None]) -> BaseException | None:
        """
        Begin it, unless it has begun, and wait; the exception of a signal, if any.
        """
        try:
            if not self._is_begun.locked():
                name = "penstock-shield"
                threading.Thread(target=self._do, name=name, daemon=True).start()
            self.is_done.wait()
        except BaseException as error:
            stop()
            return error
        return None

    def _do(self) -> None:
        # A signal may have come while a thread was started, so there may be two.
        if not self._is_begun.acquire(blocking=False):
            return
        try:
            self.results.append(self._work())
        except BaseException as error:
            self.error = error
        finally:
            self.is_done.set()


class Shield:
    """
    Work that comes to its end although signals raise exceptions in the main thread.

    Python handles signals there alone, between any two of its instructions, so the work
    is done in a thread of its own, and the main thread waits for its end. The exception
    of a signal is raised then. Other threads do the work themselves.
    """

    def __init__(self) -> None:
        self._last: threading.Event | None = None

    def run(self, work: Callable[[], T], stop: Callable[[], None] = _nothing) -> T:
        """
        The result of some work, or its exception. If a signal raises one meanwhile,
        `stop` is called, which may let the work come to an early end.
        """
        self.wait()
        if threading.current_thread() is not threading.main_thread():
            return work()
        doing = _Work(work)
        self._last = doing.is_done
        raised: BaseException | None = None
        while not doing.is_done.is_set():
            # Another signal may come while the last one is handled.
            try:
                raised = doing.wait(stop) or raised
            except BaseException as error:
                raised = error
        self._last = None
        if raised is not None:
            raise raised
        if doing.error is not None:
            raise doing.error
        return doing.results[0]

    def wait(self) -> None:
        """Wait for work that went on when too many signals had come."""
        if self._last is not None:
            self._last.wait()
