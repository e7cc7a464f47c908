"""
When acts and calls of a run started and ended: the rows that workers leave in a log.

A log is made for one run, large enough for all that happens in it, so that threads only
write and nothing is lost. `penstock.runtime.words` says what the words of a row mean.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import numpy as np

from penstock.runtime.errors import TaskError
from penstock.runtime.reference import SequentialRun
from penstock.runtime.simulator import Simulation
from penstock.runtime.tables import Tables, Words
from penstock.runtime.words import (
    CODE,
    CUT_SHORT,
    END,
    LOG_HEAD,
    LOG_ROW,
    START,
    WHOLE,
)


class Row(NamedTuple):
    """
    A call of an act, or the WHOLE act; times are in nanoseconds of the monotonic clock.

    `act` counts from the start of the run. What has not ended has the end 0.
    """

    worker: int
    what: int
    actor: int
    act: int
    start: int
    end: int
    code: int


class Log:
    """Rows of one run of `acts` turns: one for each act, and its calls if several."""

    def __init__(self, tables: Tables, acts: int):
        self.tables = tables
        self.acts = acts
        self.first = 0
        """The turns that there were before the run."""
        rows = [0] * tables.workers
        for actor, turns in zip(tables.actors, tables.turns, strict=True):
            calls = len(actor.calls) if len(actor.calls) > 1 else 0
            rows[actor.worker] += acts * turns * (1 + calls)
        self._words = [np.empty(LOG_HEAD + LOG_ROW * n, np.int64) for n in rows]
        for words in self._words:
            words[0] = 0
        self._table: Words = np.array([x.ctypes.data for x in self._words], np.int64)

    @property
    def address(self) -> int:
        """Of a word for each worker: the address of its log."""
        return self._table.ctypes.data

    def open(self, what: int, actor: int, act: int) -> int:
        """Note that something starts; the row that is to be closed when it ends."""
        words = self._words[self.tables.actors[actor].worker]
        row = LOG_HEAD + LOG_ROW * int(words[0])
        words[row : row + LOG_ROW] = (what, actor, act, time.monotonic_ns(), 0, 0)
        words[0] += 1
        return row

    def close(self, actor: int, row: int, code: int) -> None:
        """Note that what an actor did has ended with a code."""
        words = self._words[self.tables.actors[actor].worker]
        words[row + CODE] = code
        words[row + END] = time.monotonic_ns()

    def add(self, simulation: Simulation) -> None:
        """
        Note the acts of a run on a virtual clock, the calls of each as equally long.
        """
        for act in simulation.acts:
            actor = self.tables.actors[act.actor]
            made = actor.calls_in(act.number) if len(actor.calls) > 1 else []
            length = act.end - act.start
            self._add(act.actor, act.number, WHOLE, act.start, act.end)
            for index, call in enumerate(made):
                start = act.start + length * index // len(made)
                end = act.start + length * (index + 1) // len(made)
                self._add(act.actor, act.number, call, start, end)

    def _add(self, actor: int, act: int, what: int, start: int, end: int) -> None:
        row = self.open(what, actor, act)
        words = self._words[self.tables.actors[actor].worker]
        words[row + START], words[row + END] = start, end

    def rows(self) -> list[Row]:
        """All rows, those of one worker in the order in which they were opened."""
        found: list[Row] = []
        for worker, words in enumerate(self._words):
            end = LOG_HEAD + LOG_ROW * int(words[0])
            for row in words[LOG_HEAD:end].reshape(-1, LOG_ROW).tolist():
                what, actor, act, *times = row
                number = act - self.first * self.tables.turns[actor]
                found.append(Row(worker, what, actor, number, *times))
        return found


class RecordedRun(SequentialRun):
    """A run of the reference executor that leaves rows in a log."""

    def __init__(self, log: Log):
        super().__init__(log.tables, log.acts)
        self._log = log

    def call_all(self, actor: int) -> None:
        """Make the calls of the next act of an actor, and note when."""
        calls = self.tables.actors[actor].calls
        with self._noted(WHOLE, actor):
            for index, call in self.calls_of(actor):
                with self._noted(index, actor) if len(calls) > 1 else nullcontext():
                    self.call(actor, call)

    @contextmanager
    def _noted(self, what: int, actor: int) -> Generator[None]:
        row = self._log.open(what, actor, self.done[actor])
        code = CUT_SHORT
        try:
            yield
            code = 0
        except TaskError as error:
            code = error.code
            raise
        finally:
            self._log.close(actor, row, code)
