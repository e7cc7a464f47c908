"""The search for the first task that makes a NaN or an infinity."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from penstock.runtime.errors import PenstockError, TaskError

if TYPE_CHECKING:
    from penstock.runtime.executors.executor import Executor
    from penstock.runtime.executors.watched import Seen, WatchedRun
    from penstock.runtime.loading.arrays import Array
    from penstock.runtime.program.tables import Tables

NAN, INFINITY = "NaN", "an infinity"


def check_finite(executor: Executor) -> None:
    """
    Let all runs of an executor from now on end with a TaskError at the first act that
    writes a NaN where it has read none, or an infinity where it has read neither.

    Memory of GPUs is not looked at. Raises PenstockError unless the engine is
    `sequential`.
    """
    if executor.engine != "sequential":
        raise PenstockError(f"the {executor.engine} engine cannot look at tasks")
    image = executor.program.image

    def make(tables: Tables, acts: int) -> WatchedRun:
        from penstock.runtime.executors.watched import WatchedRun

        search = FiniteSearch(tables)
        search.run = WatchedRun(tables, acts, image, search.look)
        return search.run

    executor.reference = make


class FiniteSearch:
    """A function that looks at the registers of one run, of the reference executor."""

    run: WatchedRun

    def __init__(self, tables: Tables):
        self._tables = tables
        self._numbers = {actor.name: n for n, actor in enumerate(tables.actors)}
        self._read = defaultdict[str, set[str]](set)

    def look(self, moment: str, seen: Seen) -> None:
        """Keep what an act has read, and raise the error of what it writes."""
        found = not_finite(seen.array)
        read = self._read[seen.actor]
        if moment == "read":
            read.update(found)
            return
        for kind, at in found.items():
            if NAN not in read and kind not in read:
                raise self._error(seen, f"{kind}{at}")
        read.clear()

    def _error(self, seen: Seen, what: str) -> TaskError:
        number = self._numbers[seen.actor]
        error = TaskError(seen.actor, self.run.done[number], 1)
        error.__cause__ = PenstockError(
            f"it has read no such number, and writes {what} to '{seen.register}'"
        )
        return self._tables.placed(error)


def not_finite(array: Array) -> dict[str, str]:
    """The kinds of elements that are not finite, and the place of the first of each."""
    import numpy as np

    from penstock.runtime.loading.arrays import is_float

    if not is_float(array.dtype):
        return {}
    wide = array.astype(np.float64)
    kinds = {NAN: np.isnan(wide), INFINITY: np.isinf(wide)}
    return {kind: place_in(found) for kind, found in kinds.items() if found.any()}


def place_in(found: Array) -> str:
    """The first place of an array that is true, as ` at [2, 3]`."""
    import numpy as np

    place = [int(index) for index in np.argwhere(found)[0]]
    return f" at {place}" if place else ""
