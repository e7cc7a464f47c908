"""
A run of the compiled core, as the reference executor goes on with it.

A run that stops early leaves no iteration half assigned, and the compiled loops have no
code for that. When all of its threads have stopped, the reference executor works on the
words of the core: it finds the iterations that have begun to assign, of each job, and
those before one that failed, and lets actors act up to there. Actors that have failed
act no more.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.state_layout import State
from penstock.runtime.errors import TaskError
from penstock.runtime.executors.reference import SequentialRun
from penstock.runtime.program.tables import Call, Cell, Layout, Tables


class ResumedRun(SequentialRun):
    """
    A run or stream of a core that has stopped, from where it is; no thread may act.

    Given are the iterations that actors were to make from the core's beginning on, the
    words of the core, and which actors have failed. Argument rows of the static
    scheduler are those of the next acts, also of registers that are bound to the
    caller's arrays; the dataflow scheduler computes them.
    """

    def __init__(
        self,
        tables: Tables,
        iterations: int,
        words: tuple[Layout, State],
        failures: Mapping[int, TaskError],
        *,
        is_plain: bool,
    ):
        super().__init__(tables, iterations)
        self._layout, self._state = words
        self._is_plain = is_plain
        self.failures.update(failures)
        actors, counters = self._state.actors, self._state.counters
        places = self._layout.place
        phases = actors[places + w.PHASE].tolist()
        self.done = actors[places + w.ACTS].tolist()
        self.is_draining = [phase == w.DRAINING for phase in phases]
        self.is_over = [phase == w.ENDED for phase in phases]
        for register in range(len(tables.registers)):
            self.made[register] = int(counters[tables.produced_at(register)])
            self.has_end[register] = bool(counters[tables.ended_at(register)])
        for number, edge in enumerate(tables.edges):
            self.used[edge] = int(counters[tables.consumed_at(number)])

    def begin(self) -> None:
        """Do nothing: work that is under way belongs to this run."""

    def make_calls(self, actor: int) -> None:
        """Make the calls of the next act of an actor."""
        if not self._is_plain:
            super().make_calls(actor)
            return
        first = int(self._layout.call_start[actor])
        for place, call in self.calls_of(actor):
            word = int(self._layout.row[first + place])
            for at, arg in enumerate(call.args):
                if isinstance(arg, Cell):
                    self._state.rows[word + at] = self.address(actor, arg)
            self._call_on(actor, call, self._state.rows[word:].ctypes.data)

    def root_addresses(self, actor: int) -> list[int]:
        """The addresses of what the loops and conditions of an actor work on."""
        places = self.tables.control_places[actor]
        if not self._is_plain or places is None:
            return super().root_addresses(actor)
        roots = len(self.tables.actors[actor].roots)
        return self._state.rows[places.cells : places.cells + roots].tolist()

    def _call_on(self, actor: int, call: Call, row: int) -> None:
        self.check(actor, call, self.kernels[call.kernel](row, 0, 1))

    def finish(self, actor: int) -> None:
        """Produce the pieces of the next act of an actor, and step through slots."""
        super().finish(actor)
        state, layout = self._state, self._layout
        # Faults are counted by it.
        state.actors[layout.place[actor] + w.ACTS] = self.done[actor]
        if not self._is_plain:
            return
        first, last = layout.rotation_start[actor], layout.rotation_start[actor + 1]
        for i in range(int(first), int(last)):
            word = int(layout.rotating[i])
            address = int(state.rows[word] + layout.stride[i])
            is_past = address == layout.limit[i]
            state.rows[word] = layout.first[i] if is_past else address
