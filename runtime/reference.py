"""The reference executor: what a program means, in plain Python on one thread."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable

from penstock.runtime.edges import CALLBACK_FAILED, KernelFunction
from penstock.runtime.errors import DeadlockError, PenstockError, TaskError
from penstock.runtime.tables import Argument, Call, Fixed, Tables, Words

Kernel = Callable[[int, int, int], int]


def run_sequential(tables: Tables, acts: int) -> None:
    """
    Let every actor act `acts` times, from the program's first slots on.

    Raises what `Core.run` raises. It uses the registers and actors alone, not the flat
    tables, so that it can tell whether those are right.
    """
    SequentialRun(tables, acts).run()


class SequentialRun:
    """
    The pieces and slots of a program on their way: how often each actor has acted.
    """

    def __init__(self, tables: Tables, acts: int):
        if acts < 0:
            raise PenstockError(f"the number of acts must not be negative, got {acts}")
        self.tables = tables
        self.acts = acts
        self.done = [0] * len(tables.actors)
        self.readers: list[list[int]] = [[] for _ in tables.registers]
        for register, reader in tables.edges:
            self.readers[register].append(reader)
        self.kernels: dict[int, Kernel] = {
            call.kernel: KernelFunction(call.kernel)
            for actor in tables.actors
            for call in actor.calls
        }

    def run(self) -> None:
        """Let actors act, one after the other, until all have done so or none can."""
        ready = deque(range(len(self.tables.actors)))
        while ready:
            actor = ready.popleft()
            while self.can_act(actor):
                self.call_all(actor)
                self.done[actor] += 1
                ready.extend(self.neighbours(actor))
        if any(done < self.acts for done in self.done):
            raise DeadlockError(
                self.tables.stuck(self.counters(), self.done, self.acts)
            )

    def produced(self, register: int) -> int:
        """How many slots of a register were filled so far."""
        origin = self.tables.registers[register]
        return origin.initial + self.done[origin.producer]

    def can_act(self, actor: int) -> bool:
        """Whether an actor has acts left, pieces to read and free slots to write."""
        reads, writes = (
            self.tables.actors[actor].reads,
            self.tables.actors[actor].writes,
        )
        return (
            self.done[actor] < self.acts
            and all(self.produced(r) > self.done[actor] for r in reads)
            and all(self.has_free_slot(r) for r in writes)
        )

    def has_free_slot(self, register: int) -> bool:
        """Whether all readers of a register are done with one of its slots."""
        consumed = min((self.done[a] for a in self.readers[register]), default=None)
        if consumed is None:
            return True
        return (
            self.produced(register) - consumed < self.tables.registers[register].slots
        )

    def neighbours(self, actor: int) -> list[int]:
        """The actors that an act of this one can make ready."""
        found = [
            self.tables.registers[r].producer for r in self.tables.actors[actor].reads
        ]
        for register in self.tables.actors[actor].writes:
            found.extend(self.readers[register])
        return found

    def address(self, actor: int, arg: Argument) -> int:
        """What an argument is in the next act of an actor."""
        if isinstance(arg, Fixed):
            return arg.address
        register = self.tables.registers[arg.register]
        read = arg.register in self.tables.actors[actor].reads
        piece = self.done[actor] if read else self.produced(arg.register)
        return register.address + piece % register.slots * register.stride

    def call_all(self, actor: int) -> None:
        """Make the calls of the next act of an actor."""
        for call in self.tables.actors[actor].calls:
            self.call(actor, call)

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
            error.__cause__ = self.tables.callbacks[call.kernel].take_error()
        raise error

    def counters(self) -> Words:
        """The counters of the compiled executor at this point."""
        counters = self.tables.counters()
        for index in range(len(self.tables.registers)):
            counters[self.tables.produced_at(index)] = self.produced(index)
        for edge, (_, reader) in enumerate(self.tables.edges):
            counters[self.tables.consumed_at(edge)] = self.done[reader]
        return counters
