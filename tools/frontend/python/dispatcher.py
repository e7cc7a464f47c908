"""The threads of a session that run what was submitted, each job's calls in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, NamedTuple


class Call(NamedTuple):
    """A submitted call: run it, or give it up if its future is cancelled."""

    run: Callable[[], object]
    give_up: Callable[[], object]


class _Lane:
    """The calls of one job that have not ended; the first one may be running."""

    def __init__(self, key: Hashable):
        self.key = key
        self.calls: deque[tuple[Future[Any], Call]] = deque()


class Dispatcher:
    """
    Runs calls, those of one *lane* one after the other, those of different lanes at the
    same time. Each lane that has calls has a thread; threads live until `close`, and
    sleep while they have none. At most `limit` calls of a lane are in flight: who wants
    to submit more waits, unless it is one of these threads.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lanes: dict[Hashable, _Lane] = {}
        """Those that have calls."""
        self._ready: SimpleQueue[_Lane | None] = SimpleQueue()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        """Threads that have no lane and will not get one of those that are ready."""
        self._changed = threading.Condition(threading.Lock())
        self._closed = self._ended = False

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller is one of the threads, in a callback of a future."""
        return threading.current_thread() in self._threads

    def submit(self, key: Hashable, prepare: Callable[[], Call]) -> Future[Any] | None:
        """
        The future of a call of a lane, which comes after all others of it; None once
        closed. The call is made by `prepare` when it has its place.
        """
        future: Future[Any] = Future()
        with self._changed:
            if not self.is_own_thread:
                self._changed.wait_for(lambda: self._closed or not self._is_full(key))
            if self._closed:
                return None
            call = prepare()
            lane = self._lanes.get(key) or _Lane(key)
            lane.calls.append((future, call))
            if key not in self._lanes:
                self._lanes[key] = lane
                self._wake_one(lane)
        return future

    def close(self, *, cancel: bool) -> None:
        """
        Wait until all calls have ended; with `cancel` those that have not started are
        cancelled. A callback of a future may call this, too, and does not wait.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            waiting = [f for lane in self._lanes.values() for f, _ in lane.calls]
            self._end_if_done()
        if cancel:
            for future in waiting:
                future.cancel()
        if not self.is_own_thread:
            for thread in tuple(self._threads):
                thread.join()

    def _is_full(self, key: Hashable) -> bool:
        lane = self._lanes.get(key)
        return lane is not None and len(lane.calls) >= self._limit

    def _wake_one(self, lane: _Lane) -> None:
        """Let a thread serve a lane: a new one if all others have theirs."""
        self._ready.put(lane)
        if self._idle > 0:
            self._idle -= 1
            return
        # A daemon, as Python would wait for it before it lets anyone close the session.
        thread = threading.Thread(
            target=self._serve, name="penstock-calls", daemon=True
        )
        self._threads.add(thread)
        thread.start()

    def _serve(self) -> None:
        while (lane := self._ready.get()) is not None:
            is_done = False
            while not is_done:
                _run(*lane.calls[0])
                is_done = self._ends(lane)
            # While the thread sleeps, it keeps nothing alive.
            del lane

    def _ends(self, lane: _Lane) -> bool:
        """Note that the first call of a lane has ended; whether it was the last."""
        with self._changed:
            lane.calls.popleft()
            self._changed.notify_all()
            if lane.calls:
                return False
            del self._lanes[lane.key]
            self._idle += 1
            self._end_if_done()
            return True

    def _end_if_done(self) -> None:
        """Let all threads end once there will be no more calls."""
        if self._closed and not self._lanes and not self._ended:
            self._ended = True
            for _ in self._threads:
                self._ready.put(None)


def _run(future: Future[Any], call: Call) -> None:
    if not future.set_running_or_notify_cancel():
        call.give_up()
        return
    try:
        result = call.run()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
