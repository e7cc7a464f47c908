"""The reference executor: what a program means, in plain Python on one thread."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable

from penstock.runtime.edges import CALLBACK_FAILED, KernelFunction
from penstock.runtime.errors import (
    DeadlockError,
    PenstockError,
    TaskError,
    failure_of_callback,
)
from penstock.runtime.reference_kinds import Behaviour, behaviour_of
from penstock.runtime.stream_report import stuck_in
from penstock.runtime.tables import CALLER, Argument, Call, Fixed, Tables, Words
from penstock.runtime.words import DRAINING, ENDED, NORMAL

Kernel = Callable[[int, int, int], int]


def run_sequential(tables: Tables, acts: int) -> None:
    """
    Let every actor make its acts of `acts` turns, from the program's first slots on.

    Raises what `Core.run` raises. It uses the registers and actors alone, not the flat
    tables, so that it can tell whether those are right.
    """
    SequentialRun(tables, acts).run()


class SequentialRun:
    """
    The pieces and slots of a program on their way: how often each actor has acted.

    Without a number of turns it is a stream: it ends when there are no more pieces.
    """

    def __init__(self, tables: Tables, acts: int | None):
        if acts is not None and acts < 0:
            raise PenstockError(f"the number of acts must not be negative, got {acts}")
        self.tables = tables
        self.acts = acts
        self.done = [0] * len(tables.actors)
        self.made = [register.initial for register in tables.registers]
        """How many pieces each register has had."""
        self.used = dict.fromkeys(tables.edges, 0)
        """How many pieces of a register a reader is done with."""
        self.has_end = [False] * len(tables.registers)
        """Whether a register gets no more pieces."""
        self.left_over = dict.fromkeys(tables.edges, 0)
        """How many pieces were thrown away."""
        self.is_draining = [False] * len(tables.actors)
        self.is_over = [False] * len(tables.actors)
        self.readers: list[list[int]] = [[] for _ in tables.registers]
        for register, reader in tables.edges:
            self.readers[register].append(reader)
        self.kernels: dict[int, Kernel] = {
            call.kernel: KernelFunction(call.kernel)
            for actor in tables.actors
            for call in actor.calls
        }
        tables.go_back()
        self._behaviours: list[Behaviour] = [
            behaviour_of(self, index) for index in range(len(tables.actors))
        ]

    def run(self) -> None:
        """Let actors act, one after the other, until all have done so or none can."""
        self.go_on(range(len(self.tables.actors)))
        self.check_end()

    def go_on(self, actors: range | list[int]) -> None:
        """Let these actors act, and all that can because of that, until none can."""
        ready = deque(actors)
        while ready:
            actor = ready.popleft()
            while self.can_act(actor):
                self.call_all(actor)
                self.finish(actor)
                ready.extend(self.neighbours(actor))

    def check_end(self) -> None:
        """Raise DeadlockError unless all actors have made their acts, or ended."""
        tables, acts = self.tables, self.acts
        if acts is None:
            if not all(self.is_over):
                raise DeadlockError(self.stuck())
        elif any(n < acts * m for n, m in zip(self.done, tables.turns, strict=True)):
            raise DeadlockError(tables.stuck(self.counters(), self.done, acts))

    def stuck(self) -> list[str]:
        """A line for each actor of a stream that has not ended."""
        phases = [
            ENDED if over else DRAINING if draining else NORMAL
            for over, draining in zip(self.is_over, self.is_draining, strict=True)
        ]
        counters, thrown = self.counters(), self.left_over
        return stuck_in(self.tables, counters, self.done, phases, thrown)

    # What actors ask for

    def has_piece(self, register: int, reader: int) -> bool:
        """Whether there is something to read."""
        return self.made[register] > self.used[register, reader]

    def has_ended(self, register: int, reader: int) -> bool:
        """Whether there is nothing to read, and never will be."""
        return self.has_end[register] and not self.has_piece(register, reader)

    def has_free_slot(self, register: int) -> bool:
        """Whether all readers of a register are done with one of its slots."""
        slots = self.tables.registers[register].slots
        return all(
            self.made[register] - self.used[register, reader] < slots
            for reader in self.readers[register]
        )

    # Acts

    def can_act(self, actor: int) -> bool:
        """Whether an actor can act, has to end or has to throw something away."""
        reads = self.tables.actors[actor].reads
        if self.is_over[actor]:
            return False
        if self.is_draining[actor]:
            return any(self.has_piece(register, actor) for register in reads) or all(
                self.has_ended(register, actor) for register in reads
            )
        if self.acts is not None:
            if self.done[actor] >= self.acts * self.tables.turns[actor]:
                return False
            return self._behaviours[actor].is_ready()
        return self.ends(actor) or self._behaviours[actor].is_ready()

    def ends(self, actor: int) -> bool:
        """Whether what an actor has to do is to end, or to throw something away."""
        if self.acts is not None:
            return False
        behaviour = self._behaviours[actor]
        return self.is_draining[actor] or (
            not behaviour.is_ready() and behaviour.is_finished()
        )

    def neighbours(self, actor: int) -> list[int]:
        """The actors that an act of this one can make ready."""
        found = [
            self.tables.registers[r].producer for r in self.tables.actors[actor].reads
        ]
        for register in self.tables.actors[actor].writes:
            found.extend(self.readers[register])
        return [other for other in found if other != CALLER]

    def address(self, actor: int, arg: Argument) -> int:
        """What an argument is in the next act of an actor."""
        if isinstance(arg, Fixed):
            return arg.address
        register = self.tables.registers[arg.register]
        own = self.tables.actors[actor]
        is_read = arg.register in own.reads
        piece = self.used[arg.register, actor] if is_read else self.made[arg.register]
        part = self.done[actor] % own.acts_for(arg.register)
        return register.address_of(piece) + part * arg.slice

    def call_all(self, actor: int) -> None:
        """Make the calls of the next act of an actor, unless it ends."""
        if not self.ends(actor):
            self.make_calls(actor)

    def make_calls(self, actor: int) -> None:
        """Make the calls of the next act of an actor."""
        for _, call in self.calls_of(actor):
            self.call(actor, call)

    def calls_of(self, actor: int) -> list[tuple[int, Call]]:
        """The calls of the next act of an actor, and their places among its calls."""
        return self._behaviours[actor].calls()

    def finish(self, actor: int) -> None:
        """Hand on what the next act of an actor makes, and give back what it used."""
        if not self.ends(actor):
            self._behaviours[actor].finish()
            self.done[actor] += 1
            return
        self.is_draining[actor] = True
        for register in self.tables.actors[actor].writes:
            self.has_end[register] = True
        for register in self.tables.actors[actor].reads:
            edge = register, actor
            self.left_over[edge] += self.made[register] - self.used[edge]
            self.used[edge] = self.made[register]
        self.is_over[actor] = all(
            self.has_end[register] for register in self.tables.actors[actor].reads
        )

    def call(self, actor: int, call: Call) -> None:
        """Make a call, all of it at once. Raises TaskError if it fails."""
        words = [self.address(actor, arg) for arg in call.args]
        row = (ctypes.c_int64 * len(words))(*words)
        code = self.kernels[call.kernel](ctypes.addressof(row), 0, 1)
        if code == 0:
            return
        name = self.tables.actors[actor].name
        error = TaskError(name, self.done[actor], code, call.message_of(code))
        if code == CALLBACK_FAILED and call.kernel in self.tables.callbacks:
            cause = self.tables.callbacks[call.kernel].take_error()
            error = failure_of_callback(error, cause)
        raise self.tables.placed(error)

    def counters(self) -> Words:
        """The counters of the compiled executor at this point."""
        counters = self.tables.counters()
        for index, made in enumerate(self.made):
            counters[self.tables.produced_at(index)] = made
            counters[self.tables.ended_at(index)] = self.has_end[index]
        for edge, used in enumerate(self.used.values()):
            counters[self.tables.consumed_at(edge)] = used
        return counters
