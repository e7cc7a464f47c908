"""A program whose ports are registers that the caller of a stream fills and empties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import gcd

import numpy as np
import numpy.typing as npt

from penstock.runtime.core.io_kernels import copy_kernel
from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.loader import LoadedProgram, Port
from penstock.runtime.program.tables import (
    CALLER,
    Actor,
    Argument,
    Call,
    Fixed,
    Register,
    Slot,
    Tables,
)

ALIGNMENT = 64
"""Slots that the caller uses start at multiples of so many bytes."""


def piece_shape(port: Port) -> tuple[int, ...]:
    """The shape of one of the pieces of an iteration."""
    return port.shape[1:] if port.repetitions > 1 else port.shape


class Wiring:
    """
    A program whose ports are registers that the caller fills and takes from. Actors
    that wait for nothing that comes from there get ticks of the first input.

    All variables of a piece are assigned to, or none, and some input of it may never
    come. So where not all that assigns waits for all inputs of its job anyway, a piece
    begins once all of these are there.
    """

    def __init__(self, program: LoadedProgram, capacity: int):
        self._capacity = capacity
        self._registers = list(program.tables.registers)
        self._memory: dict[int, npt.NDArray[np.uint8]] = {}
        self._sizes: list[npt.NDArray[np.int64]] = []
        self._ports = {x.table.ctypes.data: x for x in program.inputs.values()}
        self._targets = {x.table.ctypes.data: x for x in program.outputs.values()}
        self.inputs: dict[str, tuple[Port, int]] = {}
        self.outputs: dict[str, tuple[Port, int]] = {}
        actors = [self._wire(i, x) for i, x in enumerate(program.tables.actors)]
        self._tick(actors, program.tables.repetitions)
        for feeds in self._uncertain_feeds(actors, program.tables.repetitions):
            self._begin_at_once(actors, feeds)
        self.tables = Tables(self._registers, actors, program.tables.callbacks.values())

    def find(
        self, name: str, ports: Mapping[str, tuple[Port, int]], what: str
    ) -> tuple[Port, int]:
        """A port and its register. Raises PenstockError if there is none."""
        if name not in ports:
            known = ", ".join(ports) or "none"
            raise PenstockError(f"there is no {what} '{name}', the program has {known}")
        return ports[name]

    def slot(self, register: int, piece: int) -> npt.NDArray[np.uint8]:
        """The bytes of a piece."""
        port = {r: port for port, r in (*self.inputs.values(), *self.outputs.values())}
        size, memory = int(port[register].table[1]), self._memory[register]
        start = piece % self._capacity * self._registers[register].stride
        return memory[start : start + size]

    def _wire(self, index: int, actor: Actor) -> Actor:
        calls: list[Call] = []
        reads, writes = list(actor.reads), list(actor.writes)
        for call in actor.calls:
            first = call.args[0] if call.args else None
            address = first.address if isinstance(first, Fixed) else 0
            if (port := self._ports.get(address)) is not None:
                reads.append(self._end(port, CALLER, is_taken=False))
                self.inputs[port.name] = port, reads[-1]
                calls.append(self._copy(port, call, Slot(reads[-1]), call.args[1]))
            elif (port := self._targets.get(address)) is not None:
                writes.append(self._end(port, index, is_taken=True))
                self.outputs[port.name] = port, writes[-1]
                calls.append(self._copy(port, call, call.args[1], Slot(writes[-1])))
            else:
                calls.append(call)
        used = {"reads": tuple(reads), "writes": tuple(writes)}
        return replace(actor, calls=tuple(calls), **used)

    def _end(self, port: Port, producer: int, *, is_taken: bool) -> int:
        """A register with bytes of its own, one end of which is the caller's."""
        number, size = len(self._registers), int(port.table[1])
        stride = -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        self._memory[number] = np.zeros(stride * self._capacity, np.uint8)
        place = self._memory[number].ctypes.data, stride
        self._registers.append(
            Register(port.name, producer, self._capacity, 0, *place, is_taken=is_taken)
        )
        return number

    def _copy(self, port: Port, call: Call, source: Argument, target: Argument) -> Call:
        size = port.table[1:2].copy()
        self._sizes.append(size)
        args = Fixed(size.ctypes.data), source, target
        return replace(call, kernel=copy_kernel(), args=args)

    def _tick(self, actors: list[Actor], repetitions: Sequence[int]) -> None:
        """Let actors that no input reaches wait for ticks of the first one."""
        entries = [i for i, actor in enumerate(actors) if self._is_fed(actor)]
        if not entries:
            raise PenstockError("a program without inputs is no stream: it has no end")
        reached = set(entries)
        pending = list(entries)
        readers: dict[int, list[int]] = {}
        for index, actor in enumerate(actors):
            for register in actor.reads:
                readers.setdefault(register, []).append(index)
        first = entries[0]
        for lost in (-1, *range(len(actors))):
            if lost >= 0 and lost not in reached:
                self._add_tick(actors, first, lost, repetitions)
                reached.add(lost)
                pending.append(lost)
            while pending:
                for register in actors[pending.pop()].writes:
                    new = set(readers.get(register, ())) - reached
                    reached |= new
                    pending += new

    def _uncertain_feeds(
        self, actors: Sequence[Actor], repetitions: Sequence[int]
    ) -> list[list[int]]:
        """
        For each job the actors that read its inputs, if an assignment in it does not
        wait for all of them, and there is one piece of each in an iteration.
        """
        by_job: dict[str | None, list[int]] = {}
        for index, actor in enumerate(actors):
            if self._is_fed(actor):
                by_job.setdefault(actor.job, []).append(index)
        reached = self._reached(actors, [x for feeds in by_job.values() for x in feeds])
        found: list[list[int]] = []
        for job, feeds in by_job.items():
            wanted = sum(1 << feed for feed in feeds)
            assigning = [i for i, x in enumerate(actors) if x.assigns and x.job == job]
            is_certain = all(reached[i] & wanted == wanted for i in assigning)
            if not is_certain and {repetitions[feed] for feed in feeds} == {1}:
                found.append(feeds)
        return found

    def _reached(self, actors: Sequence[Actor], feeds: Sequence[int]) -> list[int]:
        """For each actor a bit for each of some actors that it waits for."""
        reached = [0] * len(actors)
        readers: dict[int, list[int]] = {}
        for index, actor in enumerate(actors):
            for register in actor.reads:
                if self._registers[register].initial == 0:
                    readers.setdefault(register, []).append(index)
        for feed in feeds:
            reached[feed] |= 1 << feed
        pending = list(feeds)
        for actor in pending:
            for register in actors[actor].writes:
                for reader in readers.get(register, ()):
                    if reached[actor] & ~reached[reader]:
                        reached[reader] |= reached[actor]
                        pending.append(reader)
        return reached

    def _begin_at_once(self, actors: list[Actor], feeds: Sequence[int]) -> None:
        """Let the first of some feeds wait for all inputs, and the others for it."""
        first, *others = feeds
        for other in others:
            given = [
                x for x in actors[other].reads if self._registers[x].producer == CALLER
            ]
            own = actors[first]
            actors[first] = replace(own, reads=(*own.reads, *given))
            self._add_tick(actors, first, other, [1] * len(actors))

    def _is_fed(self, actor: Actor) -> bool:
        return any(self._registers[x].producer == CALLER for x in actor.reads)

    def _add_tick(
        self, actors: list[Actor], source: int, target: int, repetitions: Sequence[int]
    ) -> None:
        number = len(self._registers)
        name = f"{actors[source].name} -> {actors[target].name}"
        self._registers.append(Register(name, source, self._capacity))
        common = gcd(repetitions[source], repetitions[target])
        giver, taker = actors[source], actors[target]
        made, taken = repetitions[source] // common, repetitions[target] // common
        actors[source] = replace(
            giver,
            writes=(*giver.writes, number),
            every=(*giver.every, *(((number, made),) if made > 1 else ())),
        )
        actors[target] = replace(
            taker,
            reads=(*taker.reads, number),
            every=(*taker.every, *(((number, taken),) if taken > 1 else ())),
        )
