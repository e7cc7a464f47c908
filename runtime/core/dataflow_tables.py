"""
Lookup tables of the dynamic dataflow scheduler, in compressed sparse rows of `i64`.

`Core` makes them with `dataflow_tables` for streams, and for programs that the static
scheduler cannot run: with actors of kinds other than `plain`, pieces that last for
several acts, or registers that are cut into parts or used by the caller. The compiled
functions of `dataflow_rules` read them.

The scheduler looks at each register of an actor on its own: whether there is a piece to
read, a slot to write, and more to come. A field called `..._produced`, `..._consumed`
or `..._ended` holds an index into the array of counters. The value of a produced or
consumed counter is the number of the next piece, from which its address follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from penstock.runtime.program.actor_kinds import KINDS, WAITING, WHEN
from penstock.runtime.program.tables import (
    CALLER,
    Actor,
    Argument,
    Register,
    Slot,
    Tables,
    Words,
    columns,
)

PLACE_WORDS = 5
"""Words of a register in `General.places`."""


class Dataflow(NamedTuple):
    """
    `x_start[i]` to `x_start[i + 1]` are the entries of i in x; only `scratch` is
    written.
    """

    kind: Words
    repetitions: Words
    round: Words
    """Actor: the number of its kind, its acts in an iteration and in a round."""
    places: Words
    """
    Register: address, frames, parts in a frame, bytes from frame to frame and from part
    to part.
    """
    read_start: Words
    read_register: Words
    read_produced: Words
    read_consumed: Words
    read_ended: Words
    read_every: Words
    """Actor: the registers that it reads, their counters, acts that a piece lasts."""
    write_start: Words
    write_register: Words
    write_produced: Words
    write_ended: Words
    write_every: Words
    """Actor: the registers that it writes."""
    room_start: Words
    room_consumed: Words
    room_slots: Words
    """Written register of an actor: the counter of each reader, and the slots."""
    arg_start: Words
    arg_word: Words
    arg_register: Words
    arg_counter: Words
    arg_slice: Words
    arg_every: Words
    """Actor: the words of its rows that are addresses of slots."""
    when: Words
    on: Words
    """Call: when it is made, and for which register of the actor, -1 for all."""
    list_start: Words
    list_of: Words
    lists: Words
    """
    Actor: its lists. Entry i of `list_of` is where list i starts in `lists`, and the
    next entry is where it ends; each actor has an entry more than it has lists.
    """
    filled_ended: Words
    filled_produced: Words
    filled_consumed: Words
    filled_slots: Words
    """Registers that the caller fills, once for each reader: counters, and slots."""
    taken_produced: Words
    taken_consumed: Words
    """Registers that the caller takes pieces of: counters."""
    forward_start: Words
    forward_own: Words
    forward_place: Words
    """Actor: its counters that others see elsewhere, and where they do."""
    change_start: Words
    change_number: Words
    change_by: Words
    """Forwarded counter: moves by another number than one."""
    scratch_start: Words
    scratch: Words
    """Actor: pieces discarded of each register that it reads, and words of its kind."""


def dataflow_tables(tables: Tables) -> Dataflow:
    """The tables of a program for the dataflow scheduler."""
    return _Maker(tables).make()


class _Maker:
    def __init__(self, tables: Tables):
        self.tables = tables
        self.edge_of = {edge: number for number, edge in enumerate(tables.edges)}
        self.readers: list[list[int]] = [[] for _ in tables.registers]
        for register, reader in tables.edges:
            self.readers[register].append(reader)

    def make(self) -> Dataflow:
        tables, actors = self.tables, self.tables.actors
        starts, offsets, items = self._lists()
        sizes = [scratch_words(actor) for actor in actors]
        taken = [r for r, register in enumerate(tables.registers) if register.is_taken]
        calls = [(actor, call) for actor in actors for call in actor.calls]
        words: list[Words] = [
            _words(KINDS.index(actor.kind) for actor in actors),
            _words(tables.repetitions),
            _words(actor.round for actor in actors),
            _words(word for r in tables.registers for word in _place(r)),
            *columns([self._reads(i) for i in range(len(actors))], 5),
            *columns([self._writes(actor) for actor in actors], 4),
            *columns([self._rooms(r) for actor in actors for r in actor.writes], 2),
            *columns(self._args(), 5),
            _words(WHEN.index(call.when) for _, call in calls),
            _words(
                -1 if call.on is None else (*actor.reads, *actor.writes).index(call.on)
                for actor, call in calls
            ),
            starts,
            offsets,
            items,
            *columns([self._filled()], 4)[1:],
            _words(tables.seen(tables.produced_at(register)) for register in taken),
            _words(tables.consumed_at(self.edge_of[r, CALLER]) for r in taken),
            *self._forwarded(),
            np.cumsum([0, *sizes], dtype=np.int64),
            np.zeros(sum(sizes), np.int64),
        ]
        return Dataflow(*words)

    def _reads(self, index: int) -> list[tuple[int, int, int, int, int]]:
        actor, tables = self.tables.actors[index], self.tables
        return [
            (
                register,
                tables.seen(tables.produced_at(register)),
                tables.consumed_at(self.edge_of[register, index]),
                tables.ended_at(register),
                actor.acts_for(register),
            )
            for register in actor.reads
        ]

    def _writes(self, actor: Actor) -> list[tuple[int, int, int, int]]:
        tables = self.tables
        return [
            (
                register,
                tables.produced_at(register),
                tables.ended_at(register),
                actor.acts_for(register),
            )
            for register in actor.writes
        ]

    def _rooms(self, register: int) -> list[tuple[int, int]]:
        slots = self.tables.registers[register].slots
        return [
            (self._seen_consumed(register, reader), slots)
            for reader in self.readers[register]
        ]

    def _seen_consumed(self, register: int, reader: int) -> int:
        edge = self.edge_of[register, reader]
        return self.tables.seen(self.tables.consumed_at(edge))

    def _filled(self) -> list[tuple[int, int, int, int]]:
        tables = self.tables
        return [
            (
                tables.ended_at(index),
                tables.produced_at(index),
                self._seen_consumed(index, reader),
                register.slots,
            )
            for index, register in enumerate(tables.registers)
            for reader in self.readers[index]
            if register.producer == CALLER
        ]

    def _forwarded(self) -> list[Words]:
        tables = self.tables
        ordered = sorted(tables.forwarded, key=lambda forward: forward.actor)
        forwarded: list[list[tuple[int, int]]] = [[] for _ in tables.actors]
        for forward in ordered:
            forwarded[forward.actor].append((forward.counter, forward.place))
        changes = [sorted(forward.changes.items()) for forward in ordered]
        return [*columns(forwarded, 2), *columns(changes, 2)]

    def _args(self) -> list[list[tuple[int, int, int, int, int]]]:
        tables = self.tables
        rows: list[list[tuple[int, int, int, int, int]]] = []
        call_number = 0
        for index, actor in enumerate(tables.actors):
            rows.append([])
            for call in actor.calls:
                row = int(tables.layout.row[call_number])
                call_number += 1
                rows[-1] += self._slots_in(index, call.args, row)
            if (places := tables.control_places[index]) is not None:
                rows[-1] += self._slots_in(index, actor.roots, places.cells)
        return rows

    def _slots_in(
        self, index: int, args: Sequence[Argument], row: int
    ) -> list[tuple[int, int, int, int, int]]:
        """The words of a row of an actor that are addresses of slots."""
        actor = self.tables.actors[index]
        return [
            (
                row + word,
                arg.register,
                self._counter(index, arg.register),
                arg.slice,
                actor.acts_for(arg.register),
            )
            for word, arg in enumerate(args)
            if isinstance(arg, Slot)
        ]

    def _counter(self, actor: int, register: int) -> int:
        """The counter for the number of the piece that an actor uses."""
        if register in self.tables.actors[actor].writes:
            return self.tables.produced_at(register)
        return self.tables.consumed_at(self.edge_of[register, actor])

    def _lists(self) -> tuple[Words, Words, Words]:
        starts, offsets, items = [0], list[int](), list[int]()
        for actor in self.tables.actors:
            for numbers in actor.lists:
                offsets.append(len(items))
                items += numbers
            offsets.append(len(items))
            starts.append(len(offsets))
        return _words(starts), _words(offsets), _words(items)


def _words(numbers: Iterable[int]) -> Words:
    return np.fromiter(numbers, np.int64)


def _place(register: Register) -> tuple[int, ...]:
    frames = register.slots // register.parts
    size = register.stride, register.step
    return register.address, frames, register.parts, *size


def scratch_words(actor: Actor) -> int:
    """The words of scratch memory that an actor needs."""
    match actor.kind:
        case "case":
            own = len(actor.writes)
        case "input_wise":
            own = 1 + len(actor.reads)
        case "lock":
            own = len(actor.lists) + 2 + 2 * WAITING
        case "cyclic" | "plain":
            own = 0
        case _:
            own = 1
    return len(actor.reads) + own
