"""
The execution core of a stream of pieces: the compiled dataflow scheduler, fed by a
caller.

`penstock.runtime.executors.stream.Stream` drives it, through the `Engine` protocol: it
fills and takes pieces, and waits by working as a thread of the core. The reference
engine is `stream_stepwise`; `FaultyStreamCore` injects faults into this one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.core import RETRY_SECONDS, Core
from penstock.runtime.core.entry_points import (
    begin,
    halt,
    lock_all_workers,
    move_on,
    outlook,
    take_part,
    unlock_all_workers,
)
from penstock.runtime.core.stuck_report import stuck_in
from penstock.runtime.core.watchdog import CoreMemory, Watchdog
from penstock.runtime.errors import DeadlockError, PenstockError, TaskError
from penstock.runtime.executors.resumed import ResumedRun
from penstock.runtime.observe.event_log import StreamLog
from penstock.runtime.program.tables import CALLER, Tables

NEVER = 1 << 62
SHORT_SLICE = 1_000_000
"""Nanoseconds that a caller works for others between looks at its own counter."""


CLOSED = "the stream is closed"
"""The message for users of a closed stream."""


class StreamCore(Core):
    """
    One stream of a program: the caller fills registers and takes pieces of others, from
    any of its threads. Threads that wait work meanwhile.
    """

    def __init__(self, tables: Tables, threads: int = 1):
        super().__init__(tables, threads, dataflow=True, resume=ResumedRun)
        self._edge_of = {edge: number for number, edge in enumerate(tables.edges)}
        self._worker = threading.Lock()
        """The lock of the thread that is the first one of the core."""
        self._waiters = 0
        state = self._memory.state
        self._counters = state.counters
        self._control[w.MODE] = w.STREAM
        self._helpers = Helpers(own=self._count - self._first)
        self._failure: PenstockError | None = None
        self._settling = threading.Lock()
        self._is_settled = False

    def begin(self, log: StreamLog | None = None) -> None:
        """Let actors act from now on, and leave rows in a log if there is one."""
        self._record(log)
        self._helpers.log = log
        if self.tables.actors:
            self._start_threads()
            if self._watcher is not None:
                self._watcher.begin(w.ENDLESS)
            begin(self._memory.address, w.ENDLESS, self._wake)

    def watch(
        self, watchdog: Watchdog, kernels: Callable[[], Sequence[str]] | None = None
    ) -> None:
        """
        Let a watchdog look at the stream, before it begins. While actors have to wait
        for the caller, it sees nothing wrong.
        """
        super().watch(watchdog, kernels)
        assert self._watcher is not None, "it was made just now"
        self._watcher.is_idle = partial(is_idle, self._memory, self._helpers)

    @property
    def failure(self) -> PenstockError | None:
        """The error that has ended the stream before its time."""
        if self._failure is None and self._control[w.STOP] not in (w.RUNNING, w.CLOSED):
            self._end_stream()
        return self._failure

    def close(self) -> None:
        """
        Stop the stream at once, and end its threads. Iterations that have begun to
        assign to variables are completed.
        """
        self._check_caller()
        self._closed = True
        halt(self._memory.address, w.CLOSED)
        self._end_stream()
        super().close()

    def _end_stream(self) -> None:
        """
        Note the error of the stream, and complete iterations that have begun to assign.
        """
        if self.tables.assigns:
            self._shield.run(self._settle_stream)
        else:
            self._note_failure()

    def _note_failure(self) -> None:
        if self._failure is None and self._control[w.STOP] not in (w.RUNNING, w.CLOSED):
            self._failure = self._error(w.ENDLESS)

    def _settle_stream(self) -> None:
        with self._settling:
            self._note_failure()
            if self._is_settled or not self.tables.actors:
                return
            address = self._memory.address
            while not lock_all_workers(address):
                time.sleep(RETRY_SECONDS)
            failure = self._settled(self._failure, w.ENDLESS)
            if isinstance(self._failure, TaskError) and failure is not None:
                self._failure = failure
            self._is_settled = True
            unlock_all_workers(address)

    @property
    def is_over(self) -> bool:
        """Whether all actors have ended."""
        return int(self._control[w.OPEN]) == 0

    def has_room(self, register: int) -> bool:
        """Whether the caller may fill another slot."""
        slots = self.tables.registers[register].slots
        made = self._counters[self.tables.produced_at(register)]
        return all(made < self._counters[x] + slots for x in self._readers(register))

    def has_piece(self, register: int) -> bool:
        """Whether there is something for the caller to take."""
        made = self._counters[self._made_at(register)]
        return bool(made > self._counters[self._taken_at(register)])

    def has_ended(self, register: int) -> bool:
        """Whether there will be nothing more to take."""
        ended = self._counters[self.tables.ended_at(register)]
        return bool(ended) and not self.has_piece(register)

    def next_piece(self, register: int) -> int:
        """The number of the piece that the caller fills or takes next."""
        if self.tables.registers[register].producer == CALLER:
            return int(self._counters[self.tables.produced_at(register)])
        return int(self._counters[self._taken_at(register)])

    def fill(self, register: int) -> None:
        """Hand on the slot that the caller has filled."""
        self._move(self.tables.produced_at(register))

    def empty(self, register: int) -> None:
        """Give back the slot that the caller has taken."""
        self._move(self._taken_at(register))

    def end(self, register: int) -> None:
        """Say that the caller fills no more slots."""
        move_on(self._memory.address, self.tables.ended_at(register), 1)

    def wait_for_room(self, register: int) -> None:
        """Work, or sleep, until there may be room, for about 10 ms at most."""
        counter = self._readers(register)[0]
        slots = self.tables.registers[register].slots
        made = int(self._counters[self.tables.produced_at(register)])
        self._wait(counter, made - slots + 1)

    def wait_for_piece(self, register: int) -> None:
        """Work, or sleep, until there may be a piece, for about 10 ms at most."""
        taken = int(self._counters[self._taken_at(register)])
        self._wait(self._made_at(register), taken + 1)

    def wait_for_end(self) -> None:
        """Work, or sleep, until the stream may have ended, for about 10 ms at most."""
        self._wait(0, NEVER)

    def check(self) -> None:
        """Raise the error that has ended the stream before its time."""
        if self._closed:
            raise PenstockError(CLOSED)
        if self._control[w.STOP] != w.RUNNING and (failure := self.failure) is not None:
            raise failure

    def verify(self) -> None:
        """
        Do nothing: only injected faults (`FaultyStreamCore`) can falsify the counters.
        """

    def make_room(self) -> None:
        """Let others see that there is more room in the log."""
        move_on(self._memory.address, -1, 0)

    def left_over(self) -> dict[tuple[str, str], int]:
        """The number of pieces that were discarded, by reader and register."""
        used = {
            edge: int(self._counters[self.tables.consumed_at(number)])
            for edge, number in self._edge_of.items()
        }
        return left_over_of(self.tables, self._thrown(), used)

    def _thrown(self) -> dict[tuple[int, int], int]:
        """The number of pieces that were discarded, by register and reader."""
        dataflow = self._memory.dataflow
        assert dataflow is not None, "a stream has the dataflow scheduler"
        thrown: dict[tuple[int, int], int] = {}
        for index, actor in enumerate(self.tables.actors):
            first = int(dataflow.scratch_start[index])
            for place, register in enumerate(actor.reads):
                thrown[register, index] = int(dataflow.scratch[first + place])
        return thrown

    def _made_at(self, register: int) -> int:
        return self.tables.seen(self.tables.produced_at(register))

    def _taken_at(self, register: int) -> int:
        return self.tables.consumed_at(self._edge_of[register, CALLER])

    def _readers(self, register: int) -> list[int]:
        return [
            self.tables.seen(self.tables.consumed_at(number))
            for (other, _), number in self._edge_of.items()
            if other == register
        ]

    def _move(self, counter: int) -> None:
        move_on(self._memory.address, counter, int(self._counters[counter]) + 1)

    def _wait(self, counter: int, value: int) -> None:
        address = self._memory.address
        if not self._worker.acquire(blocking=False):
            self._waiters += 1
            take_part(address, w.OBSERVER, SHORT_SLICE)
            self._waiters -= 1
            return
        try:
            self._helpers.present = True
            self._control[w.UNTIL_VALUE] = value
            self._control[w.UNTIL] = counter + 1
            take_part(address, self._caller, SHORT_SLICE)
            self._control[w.UNTIL] = 0
        finally:
            self._helpers.present = False
            self._worker.release()
        if self._waiters:
            # One of them is the first thread now.
            move_on(address, -1, 0)

    def _error(self, acts: int) -> PenstockError:
        if self._control[w.STOP] != w.DEADLOCKED:
            return super()._error(acts)
        state, places = self._memory.state, self.tables.layout.place
        acts_made = state.actors[places + w.ACTS].tolist()
        phases = state.actors[places + w.PHASE].tolist()
        thrown = self._thrown()
        lines = stuck_in(self.tables, self._counters, acts_made, phases, thrown)
        return DeadlockError(lines)


@dataclass
class Helpers:
    """
    The help that a stream has: threads of its own, maybe the caller, and the log that
    the caller makes room in.
    """

    own: int
    present: bool = False
    log: StreamLog | None = None


def is_idle(memory: CoreMemory, helpers: Helpers) -> bool:
    """
    Whether no actor can act until the caller comes back: to work, fill, take, or make
    room in the log.
    """
    control = memory.state.control
    if helpers.own == 0 and not helpers.present:
        return True
    if not lock_all_workers(memory.address):
        return False
    expected = outlook(memory.address, int(control[w.LOOP]))
    unlock_all_workers(memory.address)
    # A thread that found all workers locked meanwhile may have gone to sleep.
    move_on(memory.address, -1, 0)
    is_logged = helpers.log is not None and helpers.log.is_due
    return expected == w.WAITS or (is_logged and not helpers.present)


def left_over_of(
    tables: Tables,
    thrown: Mapping[tuple[int, int], int],
    used: Mapping[tuple[int, int], int],
) -> dict[tuple[str, str], int]:
    """
    The number of pieces of each register that an actor discarded, or used without a
    result. Given are the pieces of each register that it discarded, and released. As
    many as were there at the start are no loss.
    """
    found: dict[tuple[str, str], int] = {}
    for index, actor in enumerate(tables.actors):
        spent = {x: used[x, index] - thrown[x, index] for x in actor.reads}
        rounds = min(spent.values(), default=0)
        for register, count in spent.items():
            lost = max(0, thrown[register, index] - tables.registers[register].initial)
            if actor.kind == "input_wise":
                lost += count - rounds
            elif actor.acts_for(register) == 1:
                lost += count % actor.round
            if lost:
                found[actor.name, tables.registers[register].name] = lost
    return found


def wait_limit(timeout: float | None) -> float | None:
    """The time at which a wait ends that begins now."""
    return None if timeout is None else time.monotonic() + timeout
