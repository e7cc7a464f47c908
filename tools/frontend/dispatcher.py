"""The thread of a session that runs what was submitted, in order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeAlias

Work: TypeAlias = tuple["Future[Any]", Callable[[], object]]


class Dispatcher:
    """
    Runs calls one after the other in a thread of its own, which lives from the first
    one until `close`, and sleeps while there are none.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, call: Callable[[], object]) -> Future[Any] | None:
        """The future of a call, which comes after all others; None once closed."""
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                return None
            if self._thread is None:
                self._thread = _start(self._queue)
            self._queue.put((future, call))
        return future

    def close(self, *, cancel: bool) -> None:
        """
        Wait until all calls have ended; with `cancel` those that have not started are
        cancelled. A callback of a future may call this, too, and does not wait.
        """
        with self._lock:
            self._closed = True
            thread = self._thread
        if cancel:
            self._cancel()
        self._queue.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _cancel(self) -> None:
        while not self._queue.empty():
            if (work := self._queue.get()) is not None:
                work[0].cancel()


def _start(queue: SimpleQueue[Work | None]) -> threading.Thread:
    # A daemon, as Python would wait for it before it lets anyone close the session.
    thread = threading.Thread(
        target=_serve, args=(queue,), name="penstock-calls", daemon=True
    )
    thread.start()
    return thread


def _serve(queue: SimpleQueue[Work | None]) -> None:
    while (work := queue.get()) is not None:
        _run(*work)
        # While the thread sleeps, it keeps nothing alive.
        del work


def _run(future: Future[Any], call: Callable[[], object]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
