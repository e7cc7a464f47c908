"""
The executor on a virtual clock: results of a program, and the times of its acts.

Every worker makes one act at a time, and begins the next one as soon as an actor of it
can act: of several the one that could do so first, then the first in the program. When
an act ends, its inputs are free and its results are there.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from penstock.runtime.core import state_layout as w
from penstock.runtime.errors import PenstockError, TaskError
from penstock.runtime.executors.reference import SequentialRun
from penstock.runtime.observe.event_log import Log
from penstock.runtime.program.tables import Tables


@dataclass(frozen=True)
class Act:
    """
    Act `number` of an actor, from `start` to `end` on the virtual clock.

    `cause` is the index of the act whose end it waited for last; None if it did not.
    `calls` are those it made, of which the last one has returned `code`. An entry that
    `is_end` is no act, but the end of an actor in a stream.
    """

    actor: int
    number: int
    start: int
    end: int
    cause: int | None
    calls: tuple[int, ...] = ()
    code: int = 0
    is_end: bool = False


@dataclass(frozen=True)
class Simulation:
    """The acts of a run in the order in which they began."""

    tables: Tables
    acts: tuple[Act, ...]

    @property
    def makespan(self) -> int:
        """The end of the last act."""
        return max((act.end for act in self.acts), default=0)

    def busy(self, worker: int) -> int:
        """For how long a worker acts."""
        return sum(
            act.end - act.start
            for act in self.acts
            if self.tables.actors[act.actor].worker == worker
        )

    def critical_path(self) -> list[Act]:
        """
        The acts that the makespan is the sum of: each begins when the one before ends.
        """
        index = max(range(len(self.acts)), key=lambda i: self.acts[i].end, default=None)
        path: list[Act] = []
        while index is not None:
            path.append(self.acts[index])
            index = self.acts[index].cause
        return path[::-1]


def note_acts(acts: Iterable[Act], log: Log) -> None:
    """Note acts in a log, the calls of each as equally long."""
    for act in acts:
        if act.is_end:
            continue
        log.add(act.actor, act.number, w.WHOLE, act.start, act.end, act.code)
        if log.tables.actors[act.actor].log_rows > 1:
            note_calls(act, log)


def note_calls(act: Act, log: Log) -> None:
    """
    Note the calls of an act: those of a call that has one row for all of its iterations
    as one, which lasts for all of them.
    """
    actor = log.tables.actors[act.actor]
    length, count = act.end - act.start, len(act.calls)
    rows = [(call, 1) for call in act.calls if not actor.is_summed(call)]
    rows += Counter(filter(actor.is_summed, act.calls)).items()
    last = [index for index, (call, _) in enumerate(rows) if call == act.calls[-1]]
    done = 0
    for index, (call, times) in enumerate(rows):
        start = act.start + length * done // count
        done += times
        end = act.start + length * done // count
        code = act.code if index == last[-1] else 0
        log.add(act.actor, act.number, call, start, end, code)


def simulate(
    tables: Tables, acts: int, times: Sequence[int], log: Log | None = None
) -> Simulation:
    """
    Let every actor make its acts of `acts` iterations, from the program's first slots
    on, where each act of actor i takes `times[i]` on the virtual clock. The acts are
    noted in a log, also if one fails.

    Raises the errors of `run_sequential`, and PenstockError for times that are negative
    or not one for each actor.
    """
    return run_clock(VirtualClock(SequentialRun(tables, acts), times), log)


def run_clock(clock: VirtualClock, log: Log | None) -> Simulation:
    """Make all acts of a run; returns and raises as `simulate` does."""
    try:
        clock.go_on(range(len(clock.times)))
    except TaskError as error:
        failure = clock.settle() or error
        raise failure from failure.__cause__
    finally:
        if log is not None:
            note_acts(clock.acts, log)
    if clock.program.is_stopped:
        clock.settle()
    else:
        clock.program.check_end()
    return clock.simulation()


class VirtualClock:
    """The acts that have begun, those that will end, and the actors that wait."""

    def __init__(self, run: SequentialRun, times: Sequence[int]):
        count = len(run.tables.actors)
        if len(times) != count:
            raise PenstockError(f"there are {count} actors, got {len(times)} times")
        if (least := min(times, default=0)) < 0:
            raise PenstockError(f"times must not be negative, got {least}")
        self.program = run
        self.now = 0
        self.times = times
        self.acts: list[Act] = []
        self.ends: list[tuple[int, int]] = []
        """Heap of acts under way: when they end, and their indices."""
        self.ready: list[list[tuple[int, int, int | None]]] = [
            [] for _ in range(run.tables.workers)
        ]
        """Worker: heap of actors that can act: the time since, actor, cause."""
        self.waiting = set(range(len(times)))
        """Actors that are neither ready nor acting."""
        self.last: list[int | None] = [None] * run.tables.workers
        """Worker: the act that it made last."""
        self.is_busy = [False] * run.tables.workers

    def go_on(self, actors: Sequence[int]) -> None:
        """Let these actors act, and all that can because of that, until none can."""
        self.admit(actors, self.now, None)
        self.begin_all(self.now)
        while self.ends and not self.program.is_stopped:
            self.now = self.ends[0][0]
            while self.ends and self.ends[0][0] == self.now:
                self.finish(heapq.heappop(self.ends)[1])
            self.begin_all(self.now)

    def settle(self) -> TaskError | None:
        """End the acts that have begun, then settle as `SequentialRun` does."""
        program = self.program
        for _, index in sorted(self.ends):
            if (actor := self.acts[index].actor) not in program.failures:
                program.finish(actor)
        self.ends.clear()
        return program.settle()

    def simulation(self) -> Simulation:
        """All acts up to now."""
        return Simulation(self.program.tables, tuple(self.acts))

    def admit(self, actors: Sequence[int], now: int, cause: int | None) -> None:
        """Note which of some actors can act from now on."""
        for actor in actors:
            if actor in self.waiting and self.program.can_act(actor):
                self.waiting.remove(actor)
                worker = self.program.tables.actors[actor].worker
                # Causes are compared for no two entries of one actor.
                heapq.heappush(self.ready[worker], (now, actor, cause))

    def begin_all(self, now: int) -> None:
        """Let each worker that is free begin the act that is next."""
        for worker, ready in enumerate(self.ready):
            if ready and not self.is_busy[worker]:
                self.begin(worker, now)

    def begin(self, worker: int, now: int) -> None:
        since, actor, cause = heapq.heappop(self.ready[worker])
        if since < now:
            cause = self.last[worker]
        self.last[worker] = len(self.acts)
        self.is_busy[worker] = True
        number = self.program.done[actor]
        if self.program.ends(actor):
            act = Act(actor, number, now, now, cause, is_end=True)
        else:
            act = Act(actor, number, now, now + self.times[actor], cause)
        heapq.heappush(self.ends, (act.end, len(self.acts)))
        self.acts.append(act)
        if not act.is_end:
            self.call_all(act)

    def call_all(self, act: Act) -> None:
        """Make the calls of the last act, and note them in it."""
        made: list[int] = []
        code = w.CUT_SHORT
        try:
            for place, call in self.program.calls_of(act.actor):
                made.append(place)
                self.program.call(act.actor, call)
            code = 0
        except TaskError as error:
            code = error.code
            self.program.failures.setdefault(act.actor, error)
            raise
        finally:
            self.acts[-1] = replace(act, calls=tuple(made), code=code)

    def finish(self, index: int) -> None:
        """Let others see the end of an act."""
        act = self.acts[index]
        try:
            self.program.finish(act.actor)
        except TaskError as error:
            self.acts[index] = replace(act, code=error.code)
            self.program.failures.setdefault(act.actor, error)
            raise
        self.is_busy[self.program.tables.actors[act.actor].worker] = False
        self.waiting.add(act.actor)
        neighbours = self.program.neighbours(act.actor)
        self.admit([act.actor, *neighbours], act.end, index)
