"""
The thread that moves the messages of a running program.

The actor of a message has nothing to do: it waits, beside what any actor waits for, for
a piece of a register that this thread fills, one when each message has ended. When a
message may begin follows from the counters of the other registers of the actor: when a
slot is full that is to be sent, and the one that is to be written is free. So slots
bound how far ranks get ahead of each other, and there is no other rule.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from penstock.runtime.core import message_table as m
from penstock.runtime.core import state_layout as w
from penstock.runtime.core.core import Core
from penstock.runtime.core.entry_points import (
    close_messages,
    halt,
    move_messages,
    move_on,
)
from penstock.runtime.core.message_table import MessageTable
from penstock.runtime.errors import PeerError, PenstockError
from penstock.runtime.program.channels import Bytes, Channel, Collective
from penstock.runtime.program.tables import Tables
from penstock.runtime.transport.protocol import (
    CollectiveCommunicator,
    Communicator,
    CompiledCommunicator,
    Functions,
)
from penstock.runtime.transport.ring import Places, Ring

EAGER_LOOKS = 200
"""Fruitless looks at all messages after which the thread begins to sleep."""
NAP_SECONDS = 0.0001
"""The time between two looks from then on, while there is a run."""
REST_SECONDS = 0.02
"""The longest time between two looks while there is none."""


class Message:
    """The messages of one channel, from or to the slots of a register in turn."""

    def __init__(self, channel: Channel, communicator: Communicator, places: Places):
        (self._places,) = places
        self._size = channel.size
        self._start = communicator.start
        self._handle = communicator.open(channel)
        self.handles = [self._handle]
        self.most = len(self._places)
        """The messages that are on their way at once at most."""

    def begin(self, number: int) -> None:
        """Begin with the message of an act."""
        place = self._places[number % self.most]
        self._start(self._handle, place, self._size)

    def end(self, handle: int) -> bool:
        """Take in that a message has ended."""
        del handle
        return True


class OwnCollective:
    """The collectives of one actor that the library of a transport does."""

    most = 1

    def __init__(
        self,
        collective: Collective,
        communicator: CollectiveCommunicator,
        places: Places,
    ):
        self._places = places
        self._start = communicator.start_collective
        self._handle = communicator.open_collective(collective)
        self.handles = [self._handle]

    def begin(self, number: int) -> None:
        """Begin with the exchange of an act."""
        self._start(self._handle, [x[number % len(x)] for x in self._places])

    def end(self, handle: int) -> bool:
        """Take in that it has ended."""
        del handle
        return True


Traffic: TypeAlias = Message | Ring | OwnCollective


def opened(
    channels: Sequence[Channel | Collective],
    tables: Tables,
    communicator: Communicator,
) -> list[Traffic]:
    """The traffic of each channel; all ranks open collectives in the same order."""
    in_order = sorted(channels, key=lambda channel: channel.tag)
    made = {channel.done: _open(channel, tables, communicator) for channel in in_order}
    return [made[channel.done] for channel in channels]


def _open(
    channel: Channel | Collective, tables: Tables, communicator: Communicator
) -> Traffic:
    if isinstance(channel, Channel):
        places = _places_of(channel.data, tables, is_written=not channel.is_send)
        return Message(channel, communicator, [places])
    places = [
        *(_places_of(x, tables, is_written=False) for x in channel.sources),
        *(_places_of(x, tables, is_written=True) for x in channel.targets),
    ]
    if channel.algorithm == "ring":
        return Ring(channel, communicator, places)
    if not isinstance(communicator, CollectiveCommunicator):
        raise PenstockError(
            f"{channel} is to be done by '{channel.algorithm}', which moves no "
            "messages here: collectives=ring is for any transport"
        )
    return OwnCollective(channel, communicator, places)


def _places_of(data: Bytes, tables: Tables, *, is_written: bool) -> Sequence[int]:
    """The addresses of the slots that messages lie in, one after the other."""
    if data.register is None:
        return [data.address]
    register = tables.registers[data.register]
    first = register.initial if is_written else 0
    return [register.address_of(first + i) for i in range(register.slots)]


class Limits:
    """The number of messages that each channel may have begun so far."""

    def __init__(self, tables: Tables, channels: Sequence[Channel | Collective]):
        self.rows: list[list[tuple[int, int, int]]] = []
        """Of each channel: counters, a factor and more, whose least sum it is."""
        edges = {edge: number for number, edge in enumerate(tables.edges)}
        for channel in channels:
            actor = tables.actors[channel.actor]
            # One that always holds, so that there is a row for each channel.
            rows = [(tables.produced_at(channel.done), 0, 1 << 60)]
            for register in actor.reads:
                if register != channel.done:
                    every = actor.acts_for(register)
                    rows.append((tables.produced_at(register), every, 0))
            for register in actor.writes:
                free = tables.registers[register]
                every = actor.acts_for(register)
                more = (free.slots - free.initial) * every
                rows += [
                    (tables.seen(tables.consumed_at(number)), every, more)
                    for (other, _), number in edges.items()
                    if other == register
                ]
            self.rows.append(rows)
        whole = [row for rows in self.rows for row in rows]
        self._counter, self._factor, self._more = (
            np.array(whole, np.int64).reshape(-1, 3).T.copy()
        )
        sizes = [len(rows) for rows in self.rows]
        self._starts = np.cumsum([0, *sizes[:-1]])
        self._repetitions = np.array(
            [tables.repetitions[x.actor] for x in channels], np.int64
        )

    def of(self, counters: np.ndarray, target: int) -> list[int]:
        """The limits, where actors make their acts of so many iterations at most."""
        values = counters[self._counter] * self._factor + self._more
        least = np.minimum.reduceat(values, self._starts)
        return np.minimum(least, self._repetitions * target).tolist()


class CompiledMessages:
    """The messages of a program that the threads of its core move themselves."""

    def __init__(
        self,
        tables: Tables,
        channels: Sequence[Channel],
        communicator: CompiledCommunicator,
        functions: Functions,
    ):
        self._channels, self._communicator = channels, communicator
        words: list[int] = []
        limits: list[int] = []
        requests: list[int] = []
        own = Limits(tables, channels).rows
        for channel, rows in zip(channels, own, strict=True):
            places = _places_of(channel.data, tables, is_written=not channel.is_send)
            first, row = len(requests), len(limits)
            requests += communicator.requests(channel, places)
            limits += [word for each in rows for word in each]
            done, made = tables.produced_at(channel.done), tables.repetitions
            words += [0, 0, done, first, len(places), row, len(limits)]
            words.append(made[channel.actor])
        head = np.zeros(m.HEAD_WORDS, np.int64)
        head[[m.START, m.TEST, m.STATUS]] = functions
        rest = (np.array(x, np.int64) for x in (words, limits, requests))
        self._table = MessageTable(head, *rest)
        arrays = [word for x in self._table for word in (x.ctypes.data, x.size)]
        self._arrays = np.array(arrays, np.int64)
        self.address: int = self._arrays.ctypes.data
        """The address of its table."""

    @property
    def error(self) -> PenstockError | None:
        """The error of the library that has failed, or of a rank that has ended."""
        if code := int(self._table.head[m.FAILURE]):
            text = self._communicator.error_text(code)
            return PenstockError(f"messages between ranks have failed: {text}")
        if not (ended := self._communicator.ended):
            return None
        gone = (x.peer for x in self._missing if x.peer in ended)
        return next((PeerError(rank, "has ended") for rank in gone), None)

    @property
    def missing(self) -> list[str]:
        """The messages that have begun, and not ended."""
        return [str(channel) for channel in self._missing]

    @property
    def _missing(self) -> list[Channel]:
        rows = self._table.channels.reshape(-1, m.CHANNEL_WORDS)
        pairs = zip(self._channels, rows[:, m.BEGUN] > rows[:, m.ENDED], strict=True)
        return [channel for channel, is_missing in pairs if is_missing]


class MessageThread:
    """
    Moves the messages of the program on a core, from its making until it is closed.

    Those that compiled code moves are moved by the threads of a run while they have
    nothing to do, and by this one while they compute.
    """

    def __init__(
        self,
        core: Core,
        channels: Sequence[Channel | Collective],
        communicator: Communicator,
    ):
        self._core, self._communicator = core, communicator
        self._compiled = _compiled(core.tables, channels, communicator)
        self._channels = [
            x for x in channels if self._compiled is None or not isinstance(x, Channel)
        ]
        """Those whose messages this thread begins and ends."""
        self._limits = Limits(core.tables, self._channels)
        self._traffic = opened(self._channels, core.tables, communicator)
        self._numbers = {
            handle: i for i, each in enumerate(self._traffic) for handle in each.handles
        }
        self._begun = [0] * len(self._channels)
        self._ended = [0] * len(self._channels)
        self._error: PenstockError | None = None
        self._is_closed = False
        self._bell = threading.Event()
        core.connect(self, 0 if self._compiled is None else self._compiled.address)
        self._thread = threading.Thread(
            target=self._serve, name="penstock-messages", daemon=True
        )
        self._thread.start()

    @property
    def error(self) -> PenstockError | None:
        """The reason for which no message can be moved any more."""
        if self._error is None and self._compiled is not None:
            return self._compiled.error
        return self._error

    @property
    def missing(self) -> list[str]:
        """The messages that have begun, and not ended."""
        pairs = zip(self._channels, self._begun, self._ended, strict=True)
        found = [str(channel) for channel, begun, ended in pairs if begun > ended]
        return found + ([] if self._compiled is None else self._compiled.missing)

    def ring(self) -> None:
        """Let the thread look at messages at once, as a run has begun."""
        self._bell.set()

    def close(self) -> None:
        """End the thread, and let no other one look at messages any more."""
        if self._is_closed:
            return
        self._is_closed = True
        self._bell.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        if self._compiled is not None:
            close_messages(self._core.memory.address)

    def _serve(self) -> None:
        looks, control = 0, self._core.memory.state.control
        # Threads of a run look often at what they can move themselves.
        eager = EAGER_LOOKS if self._channels else 0
        try:
            while not self._is_closed:
                if self._step():
                    looks = 0
                    continue
                looks += 1
                if looks < eager:
                    os.sched_yield()
                elif control[w.OPEN] > 0:
                    time.sleep(NAP_SECONDS)
                elif self._bell.wait(REST_SECONDS):
                    self._bell.clear()
                    looks = 0
        except PenstockError as error:
            self._fail(error)
        except Exception as error:
            self._fail(PenstockError(f"the thread of messages failed: {error!r}"))

    def _fail(self, error: PenstockError) -> None:
        self._error = error
        halt(self._core.memory.address, w.INTERRUPTED)

    def _step(self) -> bool:
        """Begin and end what can be; whether there was anything."""
        moved = False
        if self._compiled is not None:
            moved = move_messages(self._core.memory.address)
            if (error := self._compiled.error) is not None:
                raise error
        return (bool(self._channels) and self._step_own()) or moved

    def _step_own(self) -> bool:
        """`_step` for the messages that this thread moves."""
        state, moved = self._core.memory.state, False
        limits = self._limits.of(state.counters, int(state.control[w.TARGET]))
        for number, limit in enumerate(limits):
            traffic = self._traffic[number]
            limit = min(limit, self._ended[number] + traffic.most)
            while self._begun[number] < limit:
                self._begun[number] += 1
                traffic.begin(self._begun[number] - 1)
                moved = True
        for handle in self._communicator.poll():
            number = self._numbers[handle]
            if self._traffic[number].end(handle):
                self._ended[number] += 1
                done = self._core.tables.produced_at(self._channels[number].done)
                move_on(self._core.memory.address, done, self._ended[number])
                moved = True
        return moved


def _compiled(
    tables: Tables, channels: Sequence[Channel | Collective], communicator: Communicator
) -> CompiledMessages | None:
    """The messages of these channels that compiled code can move, if any."""
    own = [channel for channel in channels if isinstance(channel, Channel)]
    if not own or not isinstance(communicator, CompiledCommunicator):
        return None
    if (functions := communicator.functions) is None:
        return None
    return CompiledMessages(tables, own, communicator, functions)
