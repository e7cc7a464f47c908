"""A core whose run is a stream: it ends when there are no more pieces."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from penstock.runtime.core import Core
from penstock.runtime.entries import address_of_entry, begin, move_on, take_part
from penstock.runtime.errors import DeadlockError, PenstockError
from penstock.runtime.tables import CALLER, Tables
from penstock.runtime.words import (
    ACTS,
    DEADLOCKED,
    ENDED,
    ENDLESS,
    LOOP,
    MODE,
    OBSERVER,
    OPEN,
    PHASE,
    RUNNING,
    STOP,
    STREAM,
    UNTIL,
    UNTIL_VALUE,
)

NEVER = 1 << 62
SHORT_SLICE = 1_000_000
"""Nanoseconds that a caller works for others before it looks for what it waits for."""


CLOSED = "the stream is closed"
"""What those are told who use a stream that is."""


class StreamCore(Core):
    """
    One stream of a program: the caller fills registers and takes what is in others,
    from any of its threads. Those who wait for something work meanwhile.
    """

    def __init__(self, tables: Tables, threads: int = 1):
        super().__init__(tables, threads, general=True)
        self._edge_of = {edge: number for number, edge in enumerate(tables.edges)}
        self._worker = threading.Lock()
        """Who has it is the first thread."""
        self._waiters = 0
        state = self._memory.state
        self._counters = state.counters
        self._control[MODE] = STREAM
        self._control[LOOP] = address_of_entry("general")
        if tables.actors:
            self._start_threads()
            begin(self._memory.address, ENDLESS, self._wake)

    @property
    def is_over(self) -> bool:
        """Whether all actors have ended."""
        return int(self._control[OPEN]) == 0

    def has_room(self, register: int) -> bool:
        """Whether the caller may fill another slot."""
        slots = self.tables.registers[register].slots
        made = self._counters[self.tables.produced_at(register)]
        return all(made < self._counters[x] + slots for x in self._readers(register))

    def has_piece(self, register: int) -> bool:
        """Whether there is something for the caller to take."""
        made = self._counters[self.tables.produced_at(register)]
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
        self._wait(self.tables.produced_at(register), taken + 1)

    def wait_for_end(self) -> None:
        """Work, or sleep, until the stream may have ended, for about 10 ms at most."""
        self._wait(0, NEVER)

    def check(self) -> None:
        """Raise what has ended the stream before its time."""
        if self._closed:
            raise PenstockError(CLOSED)
        if self._control[STOP] != RUNNING:
            raise self._error(ENDLESS)

    def left_over(self) -> dict[tuple[str, str], int]:
        """How many pieces were thrown away, by reader and register."""
        general = self._memory.general
        assert general is not None, "a stream has the general loop"
        thrown: dict[tuple[int, int], int] = {}
        for index, actor in enumerate(self.tables.actors):
            notes = general.scratch[general.scratch_start[index] :].tolist()
            for place, register in enumerate(actor.reads):
                thrown[register, index] = notes[place]
        used = {
            edge: int(self._counters[self.tables.consumed_at(number)])
            for edge, number in self._edge_of.items()
        }
        return left_over_of(self.tables, thrown, used)

    def _taken_at(self, register: int) -> int:
        return self.tables.consumed_at(self._edge_of[register, CALLER])

    def _readers(self, register: int) -> list[int]:
        return [
            self.tables.consumed_at(number)
            for (other, _), number in self._edge_of.items()
            if other == register
        ]

    def _move(self, counter: int) -> None:
        move_on(self._memory.address, counter, int(self._counters[counter]) + 1)

    def _wait(self, counter: int, value: int) -> None:
        address = self._memory.address
        if not self._worker.acquire(blocking=False):
            self._waiters += 1
            take_part(address, OBSERVER, SHORT_SLICE)
            self._waiters -= 1
            return
        try:
            self._control[UNTIL_VALUE] = value
            self._control[UNTIL] = counter + 1
            take_part(address, self._caller, SHORT_SLICE)
            self._control[UNTIL] = 0
        finally:
            self._worker.release()
        if self._waiters:
            # One of them is the first thread now.
            move_on(address, -1, 0)

    def _error(self, acts: int) -> PenstockError:
        if self._control[STOP] != DEADLOCKED:
            return super()._error(acts)
        state, places = self._memory.state, self.tables.layout.place
        waits = self.tables.waits(self._counters)
        nothing = ["what it reads never comes to an end"]
        return DeadlockError(
            [
                f"'{actor.name}' at act {state.actors[place + ACTS]}: "
                + "; ".join(waits.get(index, nothing))
                for index, (actor, place) in enumerate(
                    zip(self.tables.actors, places, strict=True)
                )
                if state.actors[place + PHASE] != ENDED
            ]
        )


def left_over_of(
    tables: Tables,
    thrown: Mapping[tuple[int, int], int],
    used: Mapping[tuple[int, int], int],
) -> dict[tuple[str, str], int]:
    """
    How many pieces of each register an actor threw away, or had used for what it did
    not finish. Given is how many of each register it threw away, and was done with.
    """
    found: dict[tuple[str, str], int] = {}
    for index, actor in enumerate(tables.actors):
        spent = {x: used[x, index] - thrown[x, index] for x in actor.reads}
        rounds = min(spent.values(), default=0)
        for register, count in spent.items():
            lost = thrown[register, index]
            if actor.kind == "input_wise":
                lost += count - rounds
            elif actor.acts_for(register) == 1:
                lost += count % actor.round
            if lost:
                found[actor.name, tables.registers[register].name] = lost
    return found


def wait_limit(timeout: float | None) -> float | None:
    """When somebody stops waiting who begins now."""
    return None if timeout is None else time.monotonic() + timeout
