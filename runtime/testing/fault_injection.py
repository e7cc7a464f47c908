"""
Faults on purpose: kernels that fail or take long, messages that are lost.

    with inject(executor, KernelFault("matmul", act=3, code=7)):
        executor.run(inputs)

A *message* is the move of a counter by which an actor tells that it has filled a slot
of a register or, when it has read one, that the slot is free. The fast path knows
nothing of faults. Those of kernels are in others that take their place in the tables of
a core of its own, which is used until the `with` block ends. Those of messages are in
*forwarded counters*, words that others see instead of counters. The dataflow scheduler,
where it records acts, moves one on after each act of the owner of the counter.

No fault goes unnoticed: after each run, when no actor can act and before a piece of a
stream is given to its caller, what was told is compared with what was done, and a
register of which too much or too little was told is named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.core import Core, RunLog
from penstock.runtime.core.entry_points import address_of_entry
from penstock.runtime.core.io_kernels import Callback
from penstock.runtime.core.state_layout import State
from penstock.runtime.errors import DeadlockError, MessageError, PenstockError
from penstock.runtime.executors.executor import Executor
from penstock.runtime.executors.resumed import ResumedRun
from penstock.runtime.executors.stream_core import StreamCore, is_idle
from penstock.runtime.jit.cpu import KernelFunction
from penstock.runtime.program.tables import (
    CACHE_LINE,
    CALLER,
    Actor,
    Call,
    Fixed,
    ForwardedCounter,
    PythonKernel,
    Register,
    Tables,
    Words,
)

_FAIL, _DELAY, _HOLD = 0, 1, 2
"""See `penstock.runtime.core.fault_kernel`."""


class Gate:
    """A handshake with a kernel, which waits there until the gate is opened."""

    def __init__(self) -> None:
        self._words = np.zeros(2, np.int64)

    def open(self) -> None:
        """Let all kernels go on that wait here, or will."""
        self._words[0] = 1

    @property
    def is_reached(self) -> bool:
        """Whether a kernel waits here, or has."""
        return bool(self._words[1])

    @property
    def address(self) -> int:
        """The address of two words: whether it is open, and whether it is reached."""
        return self._words.ctypes.data


@dataclass(frozen=True)
class KernelFault:
    """
    In act number `act` of a task, from 0, its call number `call` first takes so many
    `seconds` more, and waits until the `gate` is open, if there is one; then it returns
    `code` without doing anything, unless that is 0.
    """

    task: str
    act: int
    code: int = 0
    seconds: float = 0.0
    call: int = 0
    gate: Gate | None = None


@dataclass(frozen=True)
class MessageFault:
    """
    Message number `act` of a register, that a slot of it was filled or, if a `reader`
    is named, that this one has read it, is lost (`drop`), told twice (`duplicate`), or
    told with message number `act + by` only (`late`). Messages are counted from 0: who
    acts at no other rate than the register tells of it in each act.
    """

    register: str
    act: int
    kind: Literal["drop", "duplicate", "late"]
    reader: str | None = None
    by: int = 1


Fault: TypeAlias = KernelFault | MessageFault


class _FaultyTables(Tables):
    """
    Tables in which some counters are forwarded, with faults: others see words after the
    counters of the program.
    """

    def __init__(
        self,
        registers: Sequence[Register],
        actors: Sequence[Actor],
        callbacks: Iterable[PythonKernel],
        messages: Mapping[_Message, Mapping[int, int]],
    ):
        super().__init__(registers, actors, callbacks)
        self._messages = list(messages)
        first = len(super().counters())
        starts = [self._start(message) for message in messages]
        self.forwarded = [
            ForwardedCounter(
                message.actor,
                message.counter,
                first + number * CACHE_LINE,
                {start + n: change for n, change in messages[message].items()},
            )
            for number, (message, start) in enumerate(
                zip(messages, starts, strict=True)
            )
        ]
        self._forwarded_at = {entry.counter: entry.place for entry in self.forwarded}
        watched = [self.seen(counter) for counter in self.layout.watched.tolist()]
        self.layout = self.layout._replace(watched=np.array(watched, np.int64))

    def seen(self, counter: int) -> int:
        """Where others than its owner see a counter."""
        return self._forwarded_at.get(counter, counter)

    def _start(self, message: _Message) -> int:
        return self.registers[message.register].initial if message.fills else 0

    def counters(self) -> Words:
        """
        All counters as they are before the first act, and then the forwarded ones.
        """
        own = super().counters()
        forwarded = np.zeros(len(self.forwarded) * CACHE_LINE, np.int64)
        for number, entry in enumerate(self.forwarded):
            place = number * CACHE_LINE
            value = own[entry.counter]
            forwarded[place + w.SEEN] = forwarded[place + w.MOVES] = value
        return np.concatenate([own, forwarded])

    def waits(self, counters: Words) -> dict[int, list[str]]:
        """
        The waits of actors by the counters that they have and by those that they see.
        """
        seen = counters.copy()
        for entry in self.forwarded:
            seen[entry.counter] = counters[entry.place + w.SEEN]
        found = super().waits(counters)
        for actor, reasons in super().waits(seen).items():
            known = found.get(actor, [])
            found[actor] = list(dict.fromkeys([*known, *reasons]))
        return found

    def miscounts(self, counters: Words, *, is_over: bool = True) -> list[str]:
        """
        A line for each actor that told more than it did at any time, or that has told
        less, if all is over or it has ended.
        """
        lines: list[str] = []
        for message, entry in zip(self._messages, self.forwarded, strict=True):
            start = self._start(message)
            ended = message.fills and counters[self.ended_at(message.register)]
            told = int(counters[entry.place + w.SEEN]) - start
            done = int(counters[entry.counter]) - start
            what = f"slots of register '{self.registers[message.register].name}'"
            verb = "filled" if message.fills else "read"
            name = self.actors[message.actor].name
            if told != done and (is_over or ended or told > done):
                lines.append(f"'{name}' {verb} {done} {what}, but told of {told}")
            elif counters[entry.place + w.AHEAD]:
                lines.append(f"'{name}' told of {what} before it had {verb} them")
        return lines


class FaultyCore(Core):
    """
    A core with faults. Acts and messages are counted from its first run, and anew after
    a run that has failed. Raises PenstockError for a fault on what there is not.
    """

    def __init__(self, tables: Tables, faults: Iterable[Fault], threads: int = 1):
        self._plan = _Plan(tables, faults)
        tables = self._plan.tables
        is_dataflow = bool(tables.forwarded)
        super().__init__(tables, threads, dataflow=is_dataflow, resume=ResumedRun)
        self._plan.point_to(self.memory.layout.place, self.memory.state)

    def run(self, acts: int, log: RunLog | None = None) -> None:
        """
        Run as `Core.run` does. Raises MessageError also if actors got messages of more
        or fewer pieces than there are.
        """
        super().run(acts, log)
        if wrong := self._plan.tables.miscounts(self.memory.state.counters):
            # The next run begins anew.
            self._clean = False
            raise MessageError(wrong)

    def _error(self, acts: int) -> PenstockError:
        return self._plan.explained(super()._error(acts), self.memory.state)


class FaultyStreamCore(StreamCore):
    """
    A stream with faults. Nobody takes a piece from it after an actor was told of one
    that there was not.
    """

    def __init__(self, faults: Iterable[Fault], tables: Tables, threads: int = 1):
        self._plan = _Plan(tables, faults)
        super().__init__(self._plan.tables, threads)
        self._plan.point_to(self.memory.layout.place, self.memory.state)

    def verify(self) -> None:
        """
        Raise MessageError if actors were told of more pieces than there are, or will
        not be told of some.
        """
        self._check(is_over=self.is_over)

    def wait_for_room(self, register: int) -> None:
        """The awaited piece or room may never come if a message was lost."""
        super().wait_for_room(register)
        if not self.has_room(register):
            self._check_if_idle()

    def wait_for_piece(self, register: int) -> None:
        """The awaited piece or room may never come if a message was lost."""
        super().wait_for_piece(register)
        if not self.has_piece(register):
            self._check_if_idle()

    def _check_if_idle(self) -> None:
        """Raise MessageError if no actor can act and something was lost."""
        if self._plan.tables.forwarded and is_idle(self._memory, self._helpers):
            self._check(is_over=True)

    def _check(self, *, is_over: bool) -> None:
        counters = self.memory.state.counters
        if wrong := self._plan.tables.miscounts(counters, is_over=is_over):
            self._failure = MessageError(wrong)
            raise self._failure

    def _error(self, acts: int) -> PenstockError:
        return self._plan.explained(super()._error(acts), self.memory.state)


class _Message(NamedTuple):
    """
    An actor that sends messages about a register by a counter, and whether it fills it.
    """

    register: int
    actor: int
    counter: int
    fills: bool


@contextmanager
def inject(executor: Executor, *faults: Fault) -> Generator[None]:
    """
    Let the runs of an executor, and the streams that begin, have faults until the block
    ends. Raises PenstockError for a fault on what there is not, and for the reference
    executor.
    """
    program = executor.program
    core = FaultyCore(program.tables, faults, program.threads)
    with executor.on_core(core, partial(FaultyStreamCore, faults)):
        yield


class _Plan:
    """Tables with the kernel of faults in place of others, and its own tables."""

    def __init__(self, tables: Tables, faults: Iterable[Fault]):
        faults = list(faults)
        self._sound = tables
        self._actors = {actor.name: i for i, actor in enumerate(tables.actors)}
        self._registers: dict[str, int] = {}
        for index, register in enumerate(tables.registers):
            # Queues of a stream's caller may repeat the name of a register.
            self._registers.setdefault(register.name, index)
        self._rows: defaultdict[tuple[int, int], list[list[int]]] = defaultdict(list)
        """Actor and call: act, kind, amount."""
        self._messages: defaultdict[_Message, dict[int, int]] = defaultdict(dict)
        """The number of pieces that messages tell instead of one, by their numbers."""
        for fault in faults:
            if fault.act < 0:
                raise PenstockError(f"there is no act {fault.act} for a fault")
            if isinstance(fault, KernelFault):
                self._add_kernel_fault(fault)
            else:
                self._add_message_fault(fault)
        # Until it is known where acts are counted, it is none.
        self._nowhere = np.array([-1], np.int64)
        self._words: dict[tuple[int, int], Words] = {}
        self._callbacks: list[Callback] = []
        # They live as long as the tables with their addresses.
        self._faults = faults
        actors = [self._faulty(i, actor) for i, actor in enumerate(tables.actors)]
        callbacks = (*tables.callbacks.values(), *self._callbacks)
        self.tables = _FaultyTables(tables.registers, actors, callbacks, self._messages)

    def point_to(self, places: Words, state: State) -> None:
        """Let the faults happen in a core."""
        for (actor, _), words in self._words.items():
            words[0] = state.actors[places[actor] + w.ACTS :].ctypes.data
            words[1] = state.control[w.STOP :].ctypes.data

    def explained(self, error: PenstockError, state: State) -> PenstockError:
        """A deadlock with what else is wrong in it."""
        if isinstance(error, DeadlockError):
            wrong = self.tables.miscounts(state.counters)
            return DeadlockError([*error.stuck, *wrong])
        return error

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
            rows.append([fault.act, _DELAY, round(fault.seconds * 1e9)])
        if fault.gate is not None:
            rows.append([fault.act, _HOLD, fault.gate.address])
        if fault.code != 0:
            rows.append([fault.act, _FAIL, fault.code])

    def _add_message_fault(self, fault: MessageFault) -> None:
        index = self._registers.get(fault.register)
        if index is None:
            raise PenstockError(f"there is no register '{fault.register}'")
        if fault.by < 1:
            raise PenstockError(f"a message cannot be late by {fault.by} acts")
        changes = self._messages[self._message(index, fault.reader)]
        told = changes.get(fault.act, 1)
        changes[fault.act] = told + 1 if fault.kind == "duplicate" else max(told - 1, 0)
        if fault.kind == "late" and told:
            later = fault.act + fault.by
            changes[later] = changes.get(later, 1) + 1

    def _message(self, register: int, reader: str | None) -> _Message:
        tables = self._sound
        if reader is None:
            producer = tables.registers[register].producer
            if producer == CALLER:
                name = tables.registers[register].name
                raise PenstockError(f"register '{name}' is filled by the caller")
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
        for number, call in enumerate(calls):
            if (index, number) in self._rows:
                calls[number] = self._stub(index, number, call)
        return replace(actor, calls=tuple(calls))

    def _stub(self, actor: int, number: int, call: Call) -> Call:
        """The call that stands in for a call."""
        rows = self._rows[actor, number]
        nowhere = self._nowhere.ctypes.data
        head = nowhere, nowhere, call.kernel, len(rows)
        words = np.array([*head, *chain(*rows)], np.int64)
        self._words[actor, number] = words
        fault, table = address_of_entry("fault"), Fixed(words.ctypes.data)
        if (callback := self._sound.callbacks.get(call.kernel)) is not None:
            # Its worker keeps to one thread.
            self._callbacks.append(_Around(fault, callback))
            fault = self._callbacks[-1].address
        return replace(call, kernel=fault, args=(table, *call.args))


class _Around(Callback):
    """A callback around the kernel of faults around another callback."""

    def __init__(self, fault: int, inner: PythonKernel):
        super().__init__(KernelFunction(fault))
        self._inner = inner

    def take_error(self) -> BaseException | None:
        """The last exception of the inner one."""
        return self._inner.take_error()
