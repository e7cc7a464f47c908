"""
Faults on purpose: kernels that fail or take long, messages that are lost.

    with inject(executor, KernelFault("matmul", act=3, code=7)):
        executor.run(inputs)

A *message* is the move of a counter by which an actor tells that it has filled a slot
of a register or, when it has read one, that the slot is free. The fast path knows
nothing of faults: they are in kernels that take the place of others in the tables of a
core of its own, which is used until the `with` block ends.

No fault goes unnoticed: after each run, and when no actor can act, what was told is
compared with what was done, and a register of which too much or too little was told is
named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from penstock.runtime.core import Core
from penstock.runtime.edges import Callback
from penstock.runtime.entries import address_of_entry
from penstock.runtime.errors import DeadlockError, MessageError, PenstockError
from penstock.runtime.executor import Executor
from penstock.runtime.jit import KernelFunction
from penstock.runtime.log import Log
from penstock.runtime.tables import (
    CACHE_LINE,
    Actor,
    Call,
    Fixed,
    Layout,
    Register,
    Tables,
    Words,
)
from penstock.runtime.words import ACTS, STOP, State

_FAIL, _DELAY, _MOVE = 0, 1, 2
_HEAD = 4
"""See `penstock.runtime.fault_kernel`."""


@dataclass(frozen=True)
class KernelFault:
    """
    In act number `act` of a task, from 0, its call number `call` first takes so many
    `seconds` more, then returns `code` without doing anything, unless that is 0.
    """

    task: str
    act: int
    code: int = 0
    seconds: float = 0.0
    call: int = 0


@dataclass(frozen=True)
class MessageFault:
    """
    What act number `act` tells of a register, that a slot of it was filled or, if a
    `reader` is named, that this one has read it, is lost (`drop`), told twice
    (`duplicate`), or told with act number `act + by` only (`late`).
    """

    register: str
    act: int
    kind: Literal["drop", "duplicate", "late"]
    reader: str | None = None
    by: int = 1


Fault: TypeAlias = KernelFault | MessageFault


class FaultyCore(Core):
    """
    A core with faults. Acts are counted from its first run, and anew after a run that
    has failed. Raises PenstockError for a fault on what there is not.
    """

    def __init__(self, tables: Tables, faults: Iterable[Fault], threads: int = 1):
        self._plan = _Plan(tables, faults)
        super().__init__(self._plan.tables, threads)
        memory = self.memory
        self._plan.point_to(memory.layout.place, memory.state)

    def run(self, acts: int, log: Log | None = None) -> None:
        """
        What `Core.run` does. Raises MessageError also if actors were told of more or
        fewer pieces than there are.
        """
        super().run(acts, log)
        if wrong := self._miscounts():
            # The next run begins anew.
            self._clean = False
            raise MessageError(wrong)

    def _error(self, acts: int) -> PenstockError:
        error = super()._error(acts)
        if isinstance(error, DeadlockError):
            return DeadlockError([*error.stuck, *self._miscounts()])
        return error

    def _miscounts(self) -> list[str]:
        return self._plan.tables.miscounts(self.memory.state.counters)


class _Message(NamedTuple):
    """Who tells of a register by a counter, and whether it is who fills it."""

    register: int
    actor: int
    counter: int
    fills: bool


class _Wired(Tables):
    """
    Tables in which others see some counters through a *wire*: a counter of its own,
    which who owns the other one moves on with it. Faults are in wires alone.
    """

    def __init__(
        self,
        registers: Sequence[Register],
        actors: Sequence[Actor],
        callbacks: Iterable[Callback],
        messages: Sequence[_Message],
    ):
        super().__init__(registers, actors, callbacks)
        self._messages = messages
        self._first = len(super().counters())
        for number, message in enumerate(messages):
            wire = self.wire_at(number)
            self.layout = _with_wire(self.layout, message, wire)

    def wire_at(self, message: int) -> int:
        """The counter that others see, given the number of the message."""
        return self._first + message * CACHE_LINE

    def counters(self) -> Words:
        """All counters as they are before the first act, and then the wires."""
        own = super().counters()
        wires = np.zeros(len(self._messages) * CACHE_LINE, np.int64)
        wires[::CACHE_LINE] = [own[message.counter] for message in self._messages]
        return np.concatenate([own, wires])

    def waits(self, counters: Words) -> dict[int, list[str]]:
        """What actors wait for by what they have and by what they see."""
        seen = counters.copy()
        for number, message in enumerate(self._messages):
            seen[message.counter] = counters[self.wire_at(number)]
        found = super().waits(counters)
        for actor, reasons in super().waits(seen).items():
            known = found.get(actor, [])
            found[actor] = list(dict.fromkeys([*known, *reasons]))
        return found

    def miscounts(self, counters: Words) -> list[str]:
        """A line for each actor that told more or less than it did."""
        lines: list[str] = []
        for number, (register, actor, counter, fills) in enumerate(self._messages):
            start = self.registers[register].initial if fills else 0
            done = int(counters[counter]) - start
            told = int(counters[self.wire_at(number)]) - start
            if done != told:
                what = f"slots of register '{self.registers[register].name}'"
                verb = "filled" if fills else "read"
                name = self.actors[actor].name
                lines.append(f"'{name}' {verb} {done} {what}, but told of {told}")
        return lines


def _with_wire(layout: Layout, message: _Message, wire: int) -> Layout:
    """A layout in which everybody but its owner sees a counter as a wire."""
    end = int(layout.owned_start[message.actor + 1])
    owned_start = layout.owned_start.copy()
    owned_start[message.actor + 1 :] += 1
    return layout._replace(
        watched=np.where(layout.watched == message.counter, wire, layout.watched),
        owned_start=owned_start,
        owned=np.insert(layout.owned, end, wire),
    )


@contextmanager
def inject(executor: Executor, *faults: Fault) -> Generator[None]:
    """
    Let the runs of an executor have faults until the block ends. Raises PenstockError
    for a fault on what there is not, and for the reference executor.
    """
    program = executor.program
    with executor.on_core(FaultyCore(program.tables, faults, program.threads)):
        yield


class _Plan:
    """Tables with the kernel of faults in place of others, and its own tables."""

    def __init__(self, tables: Tables, faults: Iterable[Fault]):
        self._sound = tables
        self._actors = {actor.name: i for i, actor in enumerate(tables.actors)}
        self._registers = {r.name: i for i, r in enumerate(tables.registers)}
        self._rows: defaultdict[tuple[int, int], list[list[int]]] = defaultdict(list)
        """Actor and call: act, kind, amount, number of a message."""
        self._messages: dict[_Message, int] = {}
        for fault in faults:
            if fault.act < 0:
                raise PenstockError(f"there is no act {fault.act} for a fault")
            if isinstance(fault, KernelFault):
                self._add_kernel_fault(fault)
            elif tables.is_general:
                raise PenstockError(
                    "messages of a program with special actors cannot have faults"
                )
            else:
                self._add_message_fault(fault)
        # Until it is known where acts are counted, it is none.
        self._nowhere = np.array([-1], np.int64)
        self._words: dict[tuple[int, int], Words] = {}
        self._callbacks: list[Callback] = []
        actors = [self._faulty(i, actor) for i, actor in enumerate(tables.actors)]
        callbacks = (*tables.callbacks.values(), *self._callbacks)
        messages = list(self._messages)
        self.tables = _Wired(tables.registers, actors, callbacks, messages)

    def point_to(self, places: Words, state: State) -> None:
        """Let the faults happen in a core."""
        for (actor, call), words in self._words.items():
            words[0] = state.actors[places[actor] + ACTS :].ctypes.data
            words[1] = state.control[STOP:].ctypes.data
            for row, entry in enumerate(self._rows[actor, call]):
                if entry[1] == _MOVE:
                    wire = state.counters[self.tables.wire_at(entry[3]) :].ctypes.data
                    words[_HEAD + 4 * row + 3] = wire

    def _add_kernel_fault(self, fault: KernelFault) -> None:
        actor = self._actor(fault.task)
        count = len(self._sound.actors[actor].calls)
        if not 0 <= fault.call < count:
            raise PenstockError(
                f"there is no call {fault.call} of task '{fault.task}', it has {count}"
            )
        if fault.seconds < 0:
            raise PenstockError(f"a fault cannot take {fault.seconds:g} seconds")
        rows = self._rows[actor, fault.call]
        if fault.seconds > 0:
            rows.append([fault.act, _DELAY, round(fault.seconds * 1e9), 0])
        if fault.code != 0:
            rows.append([fault.act, _FAIL, fault.code, 0])

    def _add_message_fault(self, fault: MessageFault) -> None:
        index = self._registers.get(fault.register)
        if index is None:
            raise PenstockError(f"there is no register '{fault.register}'")
        if fault.by < 1:
            raise PenstockError(f"a message cannot be late by {fault.by} acts")
        message = self._message(index, fault.reader)
        number = self._messages.setdefault(message, len(self._messages))
        last = max(len(self._sound.actors[message.actor].calls) - 1, 0)
        rows = self._rows[message.actor, last]
        change = 1 if fault.kind == "duplicate" else -1
        rows.append([fault.act, _MOVE, change, number])
        if fault.kind == "late":
            rows.append([fault.act + fault.by, _MOVE, 1, number])

    def _message(self, register: int, reader: str | None) -> _Message:
        tables = self._sound
        if reader is None:
            producer = tables.registers[register].producer
            return _Message(register, producer, tables.produced_at(register), True)
        actor = self._actor(reader)
        if (register, actor) not in tables.edges:
            name = tables.registers[register].name
            raise PenstockError(f"task '{reader}' does not read register '{name}'")
        edge = tables.edges.index((register, actor))
        return _Message(register, actor, tables.consumed_at(edge), False)

    def _actor(self, name: str) -> int:
        if (index := self._actors.get(name)) is None:
            raise PenstockError(f"there is no task '{name}'")
        return index

    def _faulty(self, index: int, actor: Actor) -> Actor:
        """An actor with its faults."""
        calls = list(actor.calls)
        if not calls and (index, 0) in self._rows:
            return replace(actor, calls=(self._stub(index, 0, None),))
        for number, call in enumerate(calls):
            if (index, number) in self._rows:
                calls[number] = self._stub(index, number, call)
        return replace(actor, calls=tuple(calls))

    def _stub(self, actor: int, number: int, call: Call | None) -> Call:
        """What is called instead of a call, or where there is none."""
        rows = self._rows[actor, number]
        kernel = 0 if call is None else call.kernel
        nowhere = self._nowhere.ctypes.data
        words = np.array([nowhere, nowhere, kernel, len(rows), *chain(*rows)], np.int64)
        self._words[actor, number] = words
        fault, table = address_of_entry("fault"), Fixed(words.ctypes.data)
        if call is None:
            return Call(fault, (table,))
        if (callback := self._sound.callbacks.get(kernel)) is not None:
            # Its worker keeps to one thread.
            self._callbacks.append(_Around(fault, callback))
            fault = self._callbacks[-1].address
        return replace(call, kernel=fault, args=(table, *call.args))


class _Around(Callback):
    """A callback around the kernel of faults around another callback."""

    def __init__(self, fault: int, inner: Callback):
        super().__init__(KernelFunction(fault))
        self._inner = inner

    def take_error(self) -> BaseException | None:
        """The last exception of the inner one."""
        return self._inner.take_error()
