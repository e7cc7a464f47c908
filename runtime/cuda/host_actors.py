"""
The registers and actors of a program whose actors on CUDA devices are driven by Python.

A result of an actor on a device is there for the host only when its unit is done, so
the *waiter* of the unit comes between: an actor on a worker of its own, one for each
stream. Registers that units write have a *shadow* for such readers, a control register
of the waiter that has a piece when theirs is done. Registers of the host that units
read are also read by the waiter, so that they are not overwritten before.

Actors that became a graph act as before, but do nothing; the graph is an actor that
comes after all of them, and has a part in their registers in the same way.

An actor that commits also waits for the waiters of all units of its job with
assertions: later acts must not begin if one of them has failed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.runtime.core.io_kernels import Callback
from penstock.runtime.cuda.launch_units import Flow, Unit
from penstock.runtime.cuda.program import MARK, CudaProgram
from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.devices import Wired
from penstock.runtime.program.actors import Actor, Call, Register, Slot
from penstock.runtime.program.tables import repetitions_of

PLAIN: Mapping[str, Any] = {"control": None, "roots": ()}
"""The fields of an actor whose loops and conditions are part of one call."""


def wire(program: CudaProgram, flow: Flow, worker: int) -> Wired:
    """
    The program with its calls of Python. Actors that launch are on one worker, waiters
    on those after it.
    """
    wiring = _Wiring(program, flow, worker)
    for number in range(len(program.units)):
        wiring.add(number)
    for actor in sorted(program.tasks.keys() - program.ahead):
        wiring.block(actor)
    if wiring.callbacks:
        wiring.callbacks[0].on_reset = program.reset
    return Wired(wiring.registers, wiring.actors, wiring.callbacks)


class _Wiring:
    def __init__(self, program: CudaProgram, flow: Flow, worker: int):
        self.registers, self.actors = list(flow.registers), list(flow.actors)
        self.callbacks: list[Callback] = []
        self._program, self._flow, self._worker = program, flow, worker
        self._readers = flow.readers
        edges = [(r, a) for a, x in enumerate(self.actors) for r in x.reads]
        self._repetitions = repetitions_of(self.registers, self.actors, edges)
        self._commits = [i for i, actor in enumerate(self.actors) if actor.commits]
        lanes = sorted({program.lanes[unit] for unit in program.waiting})
        self._waiters = {lane: worker + 1 + i for i, lane in enumerate(lanes)}

    # Units

    def add(self, number: int) -> None:
        """Let a unit be asked for, and waited for if need be."""
        program, unit = self._program, self._program.units[number]
        if len(unit.actors) == 1:
            (asking,) = unit.actors
            arguments = program.tasks[asking].arguments
            reading = _reader(len(arguments))
            call = self._call(lambda row: program.ask(number, reading(row)))
            calls = (replace(call, args=arguments),)
            self.actors[asking] = replace(self.actors[asking], calls=calls, **PLAIN)
        else:
            graph = _reader(min(program.graphs_of(number) - 1, 1))
            call = self._call(lambda row: program.ask(number, graph(row)))
            asking = self._add_graph(number, unit, call)
        if number in program.waiting:
            self._add_waiter(number, unit, asking)

    def _call(self, function: Callable[[int], None]) -> Call:
        def run(row: int, part: int, parts: int) -> None:
            function(row)

        self.callbacks.append(Callback(run))
        return Call(self.callbacks[-1].address)

    def _add_graph(self, number: int, unit: Unit, call: Call) -> int:
        """The actor that launches a graph after its actors have acted."""
        index = self._new_actor(unit.name, self._worker, call)
        count, tokens = self._program.graphs_of(number), list[int]()
        for actor in unit.actors:
            self.actors[actor] = replace(self.actors[actor], calls=(), **PLAIN)
            if not self._is_followed(actor, unit):
                name = f"{self.actors[actor].name} in graph"
                tokens.append(self._new_register(name, actor, max(count, 2)))
                self._let_read(index, tokens[-1], 1)
        if count > 1:
            # The slot of a token says which graph is next.
            self._give_memory(tokens[0], self._program.mark_address)
            call = replace(call, args=(Slot(tokens[0]),))
            self.actors[index] = replace(self.actors[index], calls=(call,))
        for register in self._outer_reads(unit):
            self._let_read(index, register, 1)
        for register in self._written(unit):
            later = set(self._readers[register]) & self._program.ahead
            self._shadow(register, index, 1, sorted(later - {*unit.actors}), "asked")
        return index

    def _is_followed(self, actor: int, unit: Unit) -> bool:
        """Whether some actor of a unit acts after another one of it."""
        written = self._flow.actors[actor].writes
        return any(
            self._flow.registers[r].initial == 0
            and {*unit.actors} & {*self._readers[r]}
            for r in written
        )

    def _add_waiter(self, number: int, unit: Unit, asking: int) -> None:
        """The actor that waits until an act of a unit is done."""
        program = self._program

        def wait(row: int) -> None:
            program.wait(number)

        worker = self._waiters[program.lanes[number]]
        index = self._new_actor(f"{unit.name}, done", worker, self._call(wait))
        depth = program.depths[number]
        self._let_read(
            index, self._new_register(f"{unit.name}, asked", asking, depth), 1
        )
        for register in self._outer_reads(unit):
            if self._flow.registers[register].producer not in program.ahead:
                self._let_read(index, register, self._taken(unit, register))
        for register in self._written(unit):
            hosts = sorted(set(self._readers[register]) - program.ahead)
            (writer,) = {self._flow.registers[register].producer}
            made = self._flow.actors[writer].acts_for(register)
            self._shadow(register, index, made, hosts, "done")
        if number in program.checked:
            self._tell_commits(unit, index, depth)

    def _tell_commits(self, unit: Unit, waiter: int, depth: int) -> None:
        """Let nothing be assigned before it is known whether a unit has failed."""
        first = unit.actors[0]
        for commit in self._commits:
            if self.actors[commit].job != self.actors[first].job:
                continue
            made, repetitions = self._repetitions[first], self._repetitions[commit]
            name = f"{unit.name}, checked"
            number = self._new_register(name, waiter, depth, made=made // repetitions)
            self._let_read(commit, number, 1)

    def _outer_reads(self, unit: Unit) -> list[int]:
        """The registers that a unit reads of others."""
        reads = [r for actor in unit.actors for r in self._flow.actors[actor].reads]
        producer = self._flow.registers
        return [
            r for r in dict.fromkeys(reads) if producer[r].producer not in unit.actors
        ]

    def _written(self, unit: Unit) -> list[int]:
        return [r for actor in unit.actors for r in self._flow.actors[actor].writes]

    def _taken(self, unit: Unit, register: int) -> int:
        """The acts of a unit for a piece that it reads."""
        actors = [self._flow.actors[x] for x in unit.actors]
        return next(x.acts_for(register) for x in actors if register in x.reads)

    def _shadow(
        self, register: int, producer: int, made: int, readers: Sequence[int], what: str
    ) -> None:
        """Let readers of a register also wait for another actor, piece by piece."""
        if not readers:
            return
        real = self._flow.registers[register]
        name, counts = f"{real.name}, {what}", (real.slots, real.initial)
        number = self._new_register(name, producer, *counts, made=made)
        for reader in readers:
            taken = self._flow.actors[reader].acts_for(register)
            self._let_read(reader, number, taken)

    # Actors that wait for the end of their acts

    def block(self, actor: int) -> None:
        """Let each call of an actor end when it is done."""
        program, made = self._program, list[Call]()
        if self.actors[actor].control is not None:
            raise PenstockError(
                f"task '{self.actors[actor].name}' has a loop or condition, but works "
                "with what a caller or an actor of another kind hands on"
            )
        for number, call in enumerate(self.actors[actor].calls):
            reading = _reader(len(call.args))
            doing = _doing(program, actor, number, reading)
            made.append(replace(call, kernel=self._call(doing).kernel))
        self.actors[actor] = replace(self.actors[actor], calls=tuple(made))

    # Registers and actors

    def _new_actor(self, name: str, worker: int, call: Call) -> int:
        self.actors.append(Actor(name, worker, calls=(call,)))
        return len(self.actors) - 1

    def _new_register(
        self,
        name: str,
        producer: int,
        slots: int = 2,
        initial: int = 0,
        *,
        made: int = 1,
    ) -> int:
        number = len(self.registers)
        self.registers.append(Register(name, producer, slots, initial))
        actor = self.actors[producer]
        every = (*actor.every, *(((number, made),) if made > 1 else ()))
        writes = (*actor.writes, number)
        self.actors[producer] = replace(actor, writes=writes, every=every)
        return number

    def _give_memory(self, register: int, address: int) -> None:
        """Let the slots of a control register lie at words from an address on."""
        place = {"address": address, "stride": MARK}
        self.registers[register] = replace(self.registers[register], **place)

    def _let_read(self, reader: int, register: int, taken: int) -> None:
        actor = self.actors[reader]
        every = (*actor.every, *(((register, taken),) if taken > 1 else ()))
        reads = (*actor.reads, register)
        self.actors[reader] = replace(actor, reads=reads, every=every)


def _reader(count: int) -> Callable[[int], list[int]]:
    """A reader of so many words at an address."""
    row = ctypes.c_int64 * count
    return lambda address: row.from_address(address)[:]


def _doing(
    program: CudaProgram, actor: int, call: int, reading: Callable[[int], list[int]]
) -> Callable[[int], None]:
    return lambda row: program.do(actor, call, reading(row))
