"""
Messages between ranks in the reference executor: on the thread of the run, and one of
each channel at a time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from penstock.runtime.program.channels import Channel, Collective
from penstock.runtime.program.tables import Tables
from penstock.runtime.transport.progress import NAP_SECONDS, opened
from penstock.runtime.transport.protocol import Communicator


class Run(Protocol):
    """A run of the reference executor: `penstock.runtime.executors.reference`."""

    tables: Tables
    limits: list[int]
    done: list[int]
    made: list[int]

    def has_piece(self, register: int, reader: int) -> bool:
        """Whether there is something to read."""
        ...

    def has_free_slot(self, register: int) -> bool:
        """Whether all readers of a register are done with one of its slots."""
        ...


class Messages:
    """The messages of a program, in one run after the other."""

    def __init__(
        self,
        channels: Sequence[Channel | Collective],
        tables: Tables,
        communicator: Communicator,
    ):
        self._channels, self._communicator = channels, communicator
        self._traffic = opened(channels, tables, communicator)
        self._numbers = {
            handle: i for i, each in enumerate(self._traffic) for handle in each.handles
        }
        self._under_way: set[int] = set()

    def wait(self, run: Run) -> list[int]:
        """
        Begin with all messages that can, and wait until some have ended: the actors
        that they were for, none if there is no message to wait for. Raises PeerError.
        """
        for number, channel in enumerate(self._channels):
            if number not in self._under_way and self._can_begin(run, channel):
                self._under_way.add(number)
                self._traffic[number].begin(run.done[channel.actor])
        ended: list[int] = []
        while self._under_way and not ended:
            for handle in self._communicator.poll():
                number = self._numbers[handle]
                if self._traffic[number].end(handle):
                    self._under_way.remove(number)
                    run.made[self._channels[number].done] += 1
                    ended.append(self._channels[number].actor)
            if not ended:
                time.sleep(NAP_SECONDS)
        return ended

    @staticmethod
    def _can_begin(run: Run, channel: Channel | Collective) -> bool:
        """Whether an actor waits for its message alone."""
        actor = run.tables.actors[channel.actor]
        reads = (x for x in actor.reads if x != channel.done)
        return (
            run.done[channel.actor] < run.limits[channel.actor]
            and not run.has_piece(channel.done, channel.actor)
            and all(run.has_piece(x, channel.actor) for x in reads)
            and all(map(run.has_free_slot, actor.writes))
        )
