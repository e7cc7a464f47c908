"""The reference executor with a log: when it made acts and calls."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager, nullcontext

from penstock.runtime.core import state_layout as w
from penstock.runtime.errors import TaskError
from penstock.runtime.executors.reference import SequentialRun
from penstock.runtime.observe.event_log import Log


class RecordedRun(SequentialRun):
    """A run or stream of the reference executor that leaves rows in a log."""

    def __init__(self, log: Log):
        super().__init__(log.tables, log.acts)
        self._log = log
        self._whole = 0
        """The row of the last act."""

    def make_calls(self, actor: int) -> None:
        """Make the calls of the next act of an actor, and note when."""
        own = self.tables.actors[actor]
        has_rows = own.log_rows > 1
        sums: dict[int, list[int]] = {}
        with self._noted(w.WHOLE, actor) as self._whole:
            for index, call in self.calls_of(actor):
                if own.is_summed(index):
                    with self._timed(sums.setdefault(index, [0, 0])):
                        self.call(actor, call)
                    continue
                with self._noted(index, actor) if has_rows else nullcontext():
                    self.call(actor, call)
            for index, (start, taken) in sums.items() if has_rows else ():
                end = start + taken
                self._log.add(actor, self.done[actor], index, start, end, 0)

    @contextmanager
    def _timed(self, total: list[int]) -> Generator[None]:
        """Add to how long calls have taken, the first of which began at a time."""
        start = time.monotonic_ns()
        total[0] = total[0] or start
        yield
        total[1] += time.monotonic_ns() - start

    def finish(self, actor: int) -> None:
        """
        End an act as a run does, which fails if the actor was given a wrong number.
        """
        try:
            super().finish(actor)
        except TaskError as error:
            self._log.close(actor, self._whole, error.code)
            raise

    @contextmanager
    def _noted(self, what: int, actor: int) -> Generator[int]:
        row = self._log.open(what, actor, self.done[actor])
        code = w.CUT_SHORT
        try:
            yield row
            code = 0
        except TaskError as error:
            code = error.code
            raise
        finally:
            self._log.close(actor, row, code)
