"""The reference executor with a function that looks at registers around each act."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from penstock.runtime.errors import TaskError
from penstock.runtime.executors.reference import SequentialRun
from penstock.runtime.loading.arrays import Array, numpy_dtype
from penstock.runtime.program.actors import Call
from penstock.runtime.program.executable import ProgramImage, TensorKind
from penstock.runtime.program.tables import Tables


class Seen(NamedTuple):
    """A register of an actor, and a copy of what it holds."""

    actor: str
    register: str
    array: Array


class SeenInside(NamedTuple):
    """
    An argument of a call in loops or conditions of an actor, and a copy of what it
    holds after the call: its local name, the call among those of the actor, and the
    numbers of the iterations around it, the outermost first.
    """

    actor: str
    call: int
    name: str
    iterations: tuple[int, ...]
    array: Array


class Updated(NamedTuple):
    """A variable that a kernel writes over, by the control that tells of it."""

    control: str
    address: int
    kind: TensorKind


Look = Callable[[str, Seen], None]
"""Called with `read` before an act and `written` after it, and a register."""

LookInside = Callable[[SeenInside], None]
"""Called after each call in loops and conditions, with each of its arguments."""


class WatchedRun(SequentialRun):
    """
    A run that shows the registers on the host that actors read and write, and the new
    values of variables that they write over. An act that ends in an error because of
    what was seen leaves variables as they were.
    """

    def __init__(
        self,
        tables: Tables,
        acts: int,
        image: ProgramImage,
        look: Look,
        look_inside: LookInside | None = None,
    ):
        super().__init__(tables, acts)
        self._look_inside = look_inside
        self._steps = {actor.name: actor.steps for actor in image.actors}
        self._kinds = {kernel.name: kernel.arguments for kernel in image.kernels}
        on_host = {chunk.name for chunk in image.chunks if chunk.device == "cpu"}
        known = {queue.name: queue for queue in image.queues if queue.chunk in on_host}
        names = [register.name for register in tables.registers]
        self._queues = {i: known[name] for i, name in enumerate(names) if name in known}
        # Others are read to keep them, as their bytes may be written over.
        self._used = {actor.name: actor.names for actor in image.actors}
        self._look = look
        self._updated = dict(self._updates_of(image, on_host))

    def _updates_of(
        self, image: ProgramImage, on_host: Collection[str]
    ) -> Iterator[tuple[int, Updated]]:
        """The variables on the host that kernels write over, by their controls."""
        numbers = {x.name: i for i, x in enumerate(self.tables.registers)}
        variables = {variable.name: variable for variable in image.variables}
        addresses = {actor.name: actor.updates for actor in self.tables.actors}
        for actor in image.actors:
            places = addresses.get(actor.name, ())
            for (name, control), address in zip(actor.updates, places, strict=False):
                if variables[name].chunk in on_host:
                    kind = variables[name].kind
                    yield numbers[control], Updated(control, address, kind)

    def make_calls(self, actor: int) -> None:
        """Make the calls of an act, and look at its registers before and after."""
        own = self.tables.actors[actor]
        reads = [(index, self.used[index, actor]) for index in own.reads]
        writes = [(index, self.made[index]) for index in own.writes]
        for seen in self._seen(actor, reads):
            self._look("read", seen)
        updated = [self._updated[i] for i in own.writes if i in self._updated]
        before = [ctypes.string_at(x.address, x.kind.size) for x in updated]
        super().make_calls(actor)
        try:
            for seen in self._seen(actor, writes):
                self._look("written", seen)
        except TaskError:
            for place, held in zip(updated, before, strict=True):
                ctypes.memmove(place.address, held, len(held))
            raise

    def calls_of(self, actor: int) -> Iterable[tuple[int, Call]]:
        """The calls of the next act of an actor, each looked at once it is made."""
        for place, call in super().calls_of(actor):
            yield place, call
            if self._look_inside is not None and actor in self.walks:
                for seen in self._inside(actor, place, call):
                    self._look_inside(seen)

    def _inside(self, actor: int, place: int, call: Call) -> Iterator[SeenInside]:
        name, walk = self.tables.actors[actor].name, self.walks[actor]
        step = self._steps[name][place]
        kinds = self._kinds[step.subject] if step.verb == "call" else ()
        for local, arg, kind in zip(step.arguments, call.args, kinds, strict=False):
            array = _copy(self.address(actor, arg), kind)
            yield SeenInside(name, place, local, walk.iterations(walk.loop), array)

    def begun_turns(self, actor: int) -> int:
        """The iterations in which an actor has acted: a failure undoes what it did."""
        return -(-self.done[actor] // self.tables.repetitions[actor])

    def _seen(self, actor: int, pieces: list[tuple[int, int]]) -> Iterator[Seen]:
        own = self.tables.actors[actor]
        name = own.name
        for index, piece in pieces:
            if index in own.writes and (place := self._updated.get(index)) is not None:
                yield Seen(name, place.control, _copy(place.address, place.kind))
                continue
            queue = self._queues.get(index)
            if queue is None or queue.kind is None:
                continue
            if queue.name in self._used.get(name, ()):
                address = self.tables.registers[index].address_of(piece)
                yield Seen(name, queue.name, _copy(address, queue.kind))


def _copy(address: int, kind: TensorKind) -> Array:
    data = ctypes.string_at(address, kind.size)
    return np.frombuffer(data, numpy_dtype(kind.dtype)).reshape(kind.shape)
