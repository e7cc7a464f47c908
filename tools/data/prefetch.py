"""
Items that a thread makes ahead of the caller, in a bounded queue.

The thread ends with the items, with an error, which the caller gets in its place, or
when it is closed. It waits while the queue is full, and is told of room and of the end:
nobody asks again and again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterator
from typing import Generic, TypeVar

from penstock.runtime.options import Closing

T = TypeVar("T")


class Prefetched(Closing, Iterator[T], Generic[T]):
    """
    The items of a generator, of which at most `ahead` wait in a queue.

    It is closed by its thread, which the caller joins by `close`.
    """

    def __init__(self, items: Generator[T], ahead: int):
        self._items = items
        self._ahead = ahead
        self._ready: deque[T] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._has_ended = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=self._make, name="penstock-data", daemon=True
        )
        self._thread.start()

    def __next__(self) -> T:
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._has_ended)
            if self._ready:
                item = self._ready.popleft()
                self._changed.notify_all()
                return item
            error, self._error = self._error, None
        if error is not None:
            raise error
        raise StopIteration

    def close(self) -> None:
        """End the thread, and drop all that it has made."""
        with self._changed:
            self._is_closed = True
            self._ready.clear()
            self._changed.notify_all()
        self._thread.join()

    def _make(self) -> None:
        error: BaseException | None = None
        try:
            for item in self._items:
                if not self._has_handed_on(item):
                    break
        except BaseException as raised:
            error = raised
        try:
            self._items.close()
        except BaseException as raised:
            error = error or raised
        with self._changed:
            self._error = error
            self._has_ended = True
            self._changed.notify_all()

    def _has_handed_on(self, item: T) -> bool:
        """Put an item into the queue once there is room; False if it is closed."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closed or len(self._ready) < self._ahead
            )
            if self._is_closed:
                return False
            self._ready.append(item)
            self._changed.notify_all()
            return True
