"""The reference executor with a function that looks at registers around each act."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from penstock.runtime.executors.reference import SequentialRun
from penstock.runtime.loading.arrays import Array, numpy_dtype
from penstock.runtime.program.executable import ProgramImage, TensorKind
from penstock.runtime.program.tables import Tables


class Seen(NamedTuple):
    """A register of an actor, and a copy of what it holds."""

    actor: str
    register: str
    array: Array


Look = Callable[[str, Seen], None]
"""Called with `read` before an act and `written` after it, and a register."""


class WatchedRun(SequentialRun):
    """A run that shows the registers on the host that actors read and write."""

    def __init__(self, tables: Tables, acts: int, image: ProgramImage, look: Look):
        super().__init__(tables, acts)
        on_host = {chunk.name for chunk in image.chunks if chunk.device == "cpu"}
        known = {queue.name: queue for queue in image.queues if queue.chunk in on_host}
        names = [register.name for register in tables.registers]
        self._queues = {i: known[name] for i, name in enumerate(names) if name in known}
        # Others are read to keep them, as their bytes may be written over.
        self._used = {actor.name: actor.names for actor in image.actors}
        self._look = look

    def make_calls(self, actor: int) -> None:
        """Make the calls of an act, and look at its registers before and after."""
        own = self.tables.actors[actor]
        reads = [(index, self.used[index, actor]) for index in own.reads]
        writes = [(index, self.made[index]) for index in own.writes]
        for seen in self._seen(actor, reads):
            self._look("read", seen)
        super().make_calls(actor)
        for seen in self._seen(actor, writes):
            self._look("written", seen)

    def _seen(self, actor: int, pieces: list[tuple[int, int]]) -> Iterator[Seen]:
        name = self.tables.actors[actor].name
        for index, piece in pieces:
            queue = self._queues.get(index)
            if queue is None or queue.kind is None:
                continue
            if queue.name in self._used.get(name, ()):
                address = self.tables.registers[index].address_of(piece)
                yield Seen(name, queue.name, _copy(address, queue.kind))


def _copy(address: int, kind: TensorKind) -> Array:
    data = ctypes.string_at(address, kind.size)
    return np.frombuffer(data, numpy_dtype(kind.dtype)).reshape(kind.shape)
