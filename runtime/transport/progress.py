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

import numpy as np

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.core import Core
from penstock.runtime.core.entry_points import halt, move_on
from penstock.runtime.errors import PenstockError
from penstock.runtime.program.channels import Channel
from penstock.runtime.program.tables import Tables
from penstock.runtime.transport.protocol import Transport

EAGER_LOOKS = 200
"""Fruitless looks at all messages after which the thread begins to sleep."""
NAP_SECONDS = 0.0001
"""The time between two looks from then on, while there is a run."""
REST_SECONDS = 0.02
"""The longest time between two looks while there is none."""


class Limits:
    """The number of messages that each channel may have begun so far."""

    def __init__(self, tables: Tables, channels: Sequence[Channel]):
        rows: list[tuple[int, int, int]] = []
        starts: list[int] = []
        edges = {edge: number for number, edge in enumerate(tables.edges)}
        for channel in channels:
            starts.append(len(rows))
            actor = tables.actors[channel.actor]
            # One that always holds, so that there is a row for each channel.
            rows.append((tables.produced_at(channel.done), 0, 1 << 60))
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
        self._counter, self._factor, self._more = np.array(rows, np.int64).T.copy()
        self._starts = np.array(starts)
        self._repetitions = np.array(
            [tables.repetitions[x.actor] for x in channels], np.int64
        )

    def of(self, counters: np.ndarray, target: int) -> list[int]:
        """The limits, where actors make their acts of so many iterations at most."""
        values = counters[self._counter] * self._factor + self._more
        least = np.minimum.reduceat(values, self._starts)
        return np.minimum(least, self._repetitions * target).tolist()


class MessageThread:
    """
    Moves the messages of the programs on a core, from its making until it is closed.
    """

    def __init__(self, core: Core, channels: Sequence[Channel], transport: Transport):
        self._core, self._transport = core, transport
        self._channels = channels
        self._limits = Limits(core.tables, channels)
        self._handles = [transport.open(channel) for channel in channels]
        self._numbers = {handle: i for i, handle in enumerate(self._handles)}
        self._begun = [0] * len(channels)
        self._ended = [0] * len(channels)
        self._places = [self._places_of(channel) for channel in channels]
        self.error: PenstockError | None = None
        """The reason for which no message can be moved any more."""
        self._is_closed = False
        self._bell = threading.Event()
        core.connect(self)
        self._thread = threading.Thread(
            target=self._serve, name="penstock-messages", daemon=True
        )
        self._thread.start()

    @property
    def missing(self) -> list[str]:
        """The messages that have begun, and not ended."""
        pairs = zip(self._channels, self._begun, self._ended, strict=True)
        return [str(channel) for channel, begun, ended in pairs if begun > ended]

    def ring(self) -> None:
        """Let the thread look at messages at once, as a run has begun."""
        self._bell.set()

    def close(self) -> None:
        """End the thread."""
        self._is_closed = True
        self._bell.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _places_of(self, channel: Channel) -> Sequence[int]:
        """The addresses of the slots that messages lie in, one after the other."""
        if channel.data is None:
            return [channel.address]
        register = self._core.tables.registers[channel.data]
        first = register.initial if not channel.is_send else 0
        return [register.address_of(first + i) for i in range(register.slots)]

    def _serve(self) -> None:
        looks, control = 0, self._core.memory.state.control
        try:
            while not self._is_closed:
                if self._step():
                    looks = 0
                    continue
                looks += 1
                if looks < EAGER_LOOKS:
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
        self.error = error
        halt(self._core.memory.address, w.INTERRUPTED)

    def _step(self) -> bool:
        """Begin and end what can be; whether there was anything."""
        state, moved = self._core.memory.state, False
        limits = self._limits.of(state.counters, int(state.control[w.TARGET]))
        for number, limit in enumerate(limits):
            places = self._places[number]
            limit = min(limit, self._ended[number] + len(places))
            while self._begun[number] < limit:
                place = places[self._begun[number] % len(places)]
                self._begun[number] += 1
                self._transport.start(self._handles[number], place)
                moved = True
        for handle in self._transport.poll():
            if (number := self._numbers.get(handle)) is not None:
                self._ended[number] += 1
                done = self._core.tables.produced_at(self._channels[number].done)
                move_on(self._core.memory.address, done, self._ended[number])
                moved = True
        return moved
