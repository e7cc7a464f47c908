"""
The event log: starts and ends of the acts and calls of a run, in rows of its workers.

The log of a run is large enough for all of its acts. That of a stream is a ring: a
worker without room in it makes no act until rows are taken. So threads only write, and
nothing is lost. `penstock.runtime.core.state_layout` describes the words of a row.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.runtime.core import state_layout as w
from penstock.runtime.program.tables import Tables, Words

RING = 1 << 15
"""Rows of each worker that a stream has room for."""
SETTLED = 1_000_000
"""Nanoseconds after which everybody sees that a row was begun."""


class Row(NamedTuple):
    """
    A call of an act, or the WHOLE act; times are in nanoseconds of the monotonic clock.

    `act` counts from the start of the run. A call or act that has not ended has the end
    0.
    """

    worker: int
    what: int
    actor: int
    act: int
    start: int
    end: int
    code: int


class Log:
    """
    Rows of one run of `acts` iterations: one for each act, and its calls if several.

    `acts` are None for a stream; `room` is the number of rows of each worker.
    """

    def __init__(
        self, tables: Tables, acts: int | None, room: Sequence[int] | None = None
    ):
        self.tables = tables
        self.acts = acts
        self.first = 0
        """The iterations that there were before the run."""
        if room is None:
            room = [0] * tables.workers
            for actor, repetitions in zip(
                tables.actors, tables.repetitions, strict=True
            ):
                room[actor.worker] += (acts or 0) * repetitions * actor.log_rows
        self._words = [np.zeros(w.LOG_HEAD + w.LOG_ROW * n, np.int64) for n in room]
        for words, rows in zip(self._words, room, strict=True):
            words[w.ROOM] = rows
        self._table: Words = np.array([x.ctypes.data for x in self._words], np.int64)

    @property
    def address(self) -> int:
        """Of a word for each worker: the address of its log."""
        return self._table.ctypes.data

    @property
    def is_due(self) -> bool:
        """Whether rows should be taken, as there is not much more room."""
        return False

    def take(self) -> tuple[list[Row], int]:
        """
        Rows of acts and calls that ended well and were not taken before, and a time:
        later rows start and end at that time or after it.
        """
        return [], 0

    def open(self, what: int, actor: int, act: int) -> int:
        """Note that something starts; the row that is to be closed when it ends."""
        words = self._words[self.tables.actors[actor].worker]
        row = w.LOG_HEAD + w.LOG_ROW * int(words[w.ROWS] % words[w.ROOM])
        words[row : row + w.LOG_ROW] = (what, actor, act, time.monotonic_ns(), 0, 0)
        words[w.ROWS] += 1
        return row

    def close(self, actor: int, row: int, code: int) -> None:
        """Note that an act or call of an actor has ended with a code."""
        words = self._words[self.tables.actors[actor].worker]
        words[row + w.CODE] = code
        words[row + w.END] = time.monotonic_ns()

    def add(
        self, actor: int, act: int, what: int, start: int, end: int, code: int
    ) -> None:
        """Note a call of an act, or the WHOLE act, at times of another clock."""
        row = self.open(what, actor, act)
        words = self._words[self.tables.actors[actor].worker]
        words[row + w.START], words[row + w.END], words[row + w.CODE] = start, end, code

    def rows(self) -> list[Row]:
        """All rows that are there, those of one worker in the order of their starts."""
        found: list[Row] = []
        for worker, words in enumerate(self._words):
            found += self._rows(worker, self._present(words))
        return found

    def _present(self, words: Words) -> Words:
        """The rows of a worker that were not taken."""
        gone, count, room = int(words[w.GONE]), int(words[w.ROWS]), int(words[w.ROOM])
        table = words[w.LOG_HEAD :].reshape(-1, w.LOG_ROW)
        if gone == count:
            return table[:0]
        first, last = gone % room, (count - 1) % room + 1
        if first < last:
            return table[first:last].copy()
        return np.concatenate([table[first:], table[:last]])

    def _rows(self, worker: int, table: Words) -> list[Row]:
        found: list[Row] = []
        rows: list[list[int]] = table.tolist()
        for what, actor, act, *times in rows:
            number = act - self.first * self.tables.repetitions[actor]
            found.append(Row(worker, what, actor, number, *times))
        return found


class StreamLog(Log):
    """Rows of a stream, of which a number are there until they are taken."""

    def __init__(self, tables: Tables, room: int = RING):
        most = max((actor.log_rows for actor in tables.actors), default=1)
        self._room = max(room, 2 * most)
        super().__init__(tables, None, [self._room] * tables.workers)
        self._kept: list[Row] = []
        self._last = [0] * tables.workers
        """Worker: when the last thing had ended that was taken."""

    @property
    def is_due(self) -> bool:
        """Whether a worker may soon have no more room."""
        return bool(self._kept) or any(
            2 * (words[w.ROWS] - words[w.GONE]) > words[w.ROOM] for words in self._words
        )

    def open(self, what: int, actor: int, act: int) -> int:
        """Note that something starts, and make room for that."""
        words = self._words[self.tables.actors[actor].worker]
        if words[w.ROWS] - words[w.GONE] == words[w.ROOM]:
            rows, _ = self._take(self.tables.actors[actor].worker, 0)
            self._kept += rows
        return super().open(what, actor, act)

    def take(self) -> tuple[list[Row], int]:
        """Take rows, so that there is room for others."""
        until = time.monotonic_ns() - SETTLED
        found, self._kept = self._kept, []
        for worker in range(self.tables.workers):
            rows, begun = self._take(worker, until)
            found += rows
            until = min(until, begun)
        return found, until

    def rows(self) -> list[Row]:
        """All rows that were not taken."""
        return [*self._kept, *super().rows()]

    def _take(self, worker: int, until: int) -> tuple[list[Row], int]:
        """
        The rows of a worker up to the first act that goes on or has failed, and when
        that began; a time if there is none.
        """
        words = self._words[worker]
        table = self._present(words)
        is_whole = (table[:, w.END] != 0) & (table[:, w.CODE] == 0)
        count = len(table) if is_whole.all() else int(is_whole.argmin())
        rows = self._rows(worker, table[:count])
        self._last[worker] = max([self._last[worker], *(row.end for row in rows)])
        if count < len(table):
            until = int(table[count, w.START]) or self._last[worker]
        free, room = words[w.LOG_HEAD :].reshape(-1, w.LOG_ROW), int(words[w.ROOM])
        gone = int(words[w.GONE])
        free[np.arange(gone, gone + count) % room] = 0
        words[w.GONE] = gone + count
        return rows, until
