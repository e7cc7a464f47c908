"""Program metadata for observers: tasks, ops, and the places of registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.runtime.program.actor_kinds import CYCLIC, DYNAMIC
from penstock.runtime.program.executable import ActorImage, ProgramImage, Step
from penstock.runtime.program.tables import CALLER, PLAIN, Actor, Tables


class Op(NamedTuple):
    """
    A call of a task. `verb` is call, copy, feed, fetch or release; `name` that of the
    kernel, port or register. Flops and bytes are those of one row in a log, None where
    the program does not tell; a row of a long loop stands for so many `calls` at most.
    """

    verb: str
    name: str
    kind: str
    """The op that the kernel is made of, such as `op.matmul`; else the verb."""
    flops: int | None
    bytes: int | None
    calls: int = 1


class Task(NamedTuple):
    """An actor, by its number, with its job, device and ops."""

    number: int
    name: str
    device: str
    stream: int
    worker: int
    ops: tuple[Op, ...]

    @property
    def kind(self) -> str:
        """The ops of its calls as a name; `view` for a task without any."""
        return ", ".join(dict.fromkeys(op.kind for op in self.ops)) or "view"


class Place(NamedTuple):
    """
    Bytes of a chunk: `slots` times `size`, each `stride` after the one before; with
    `parts`, so many in each frame at every `step` bytes, and frames at every `stride`.
    """

    chunk: str
    offset: int
    size: int
    stride: int
    slots: int
    parts: int = 1
    step: int = 0

    def slot(self, index: int) -> tuple[int, int]:
        """The first byte of a slot, and the one after its last."""
        frame, part = divmod(index % self.slots, self.parts)
        start = self.offset + frame * self.stride + part * self.step
        return start, start + self.size


@dataclass(frozen=True)
class Subject:
    """A program that is observed; `places` of control registers are None."""

    name: str
    tables: Tables
    tasks: Sequence[Task]
    places: Sequence[Place | None]
    readers: Sequence[Sequence[int]]
    """Register: the actors that read it."""
    chunks: Mapping[str, int] = field(default_factory=dict[str, int])
    """The bytes of each."""
    variables: Sequence[Place] = ()
    image: ProgramImage | None = None
    """The program itself, if it is known."""

    def span(self, actor: int, register: int) -> int | None:
        """
        The most acts of an actor that a piece of a register lasts for, None if that
        depends on data, or is not the same for all.
        """
        found = self.tables.actors[actor]
        if found.kind in (CYCLIC, *DYNAMIC):
            return None
        return len(found.reads) if found.kind != PLAIN else found.acts_for(register)

    def filling(self, register: int, piece: int) -> tuple[int, int] | None:
        """The producer of a piece, and its act, if that is known."""
        queue = self.tables.registers[register]
        if queue.producer == CALLER:
            return None
        span = self.span(queue.producer, register)
        if span is None or piece < queue.initial:
            return None
        return queue.producer, (piece - queue.initial + 1) * span - 1


def subject_of(tables: Tables, image: ProgramImage | None = None) -> Subject:
    """The metadata of a program; without its image not much more than names."""
    readers: list[list[int]] = [[] for _ in tables.registers]
    for register, reader in tables.edges:
        readers[register].append(reader)
    if image is None:
        tasks = [
            Task(
                index,
                actor.name,
                "cpu",
                actor.worker,
                actor.worker,
                tuple(
                    Op("call", f"call {i}", "call", None, None)
                    for i in range(len(actor.calls))
                ),
            )
            for index, actor in enumerate(tables.actors)
        ]
        return Subject("", tables, tasks, [None] * len(tables.registers), readers)
    ops = _Ops(image)
    return Subject(
        image.name,
        tables,
        [
            Task(i, actor.name, actor.device, actor.stream, found.worker, work)
            for i, actor in enumerate(image.actors)
            for found in (tables.actors[i],)
            for work in (per_row(found, ops.of(actor)),)
        ]
        + _added(tables, len(image.actors)),
        [ops.places.get(register.name) for register in tables.registers],
        readers,
        {chunk.name: chunk.size for chunk in image.chunks},
        [ops.places[variable.name] for variable in image.variables],
        image,
    )


def _added(tables: Tables, count: int) -> list[Task]:
    """The actors behind the first so many, which a device added for its own ends."""
    found: list[Task] = []
    for number, actor in enumerate(tables.actors[count:], count):
        ops = tuple(Op("wait", actor.name, "wait", 0, 0) for _ in actor.calls)
        found.append(Task(number, actor.name, "cpu", actor.worker, actor.worker, ops))
    return found


def per_row(actor: Actor, ops: Sequence[Op]) -> tuple[Op, ...]:
    """
    The ops of the calls of an actor with the work of a row in a log, which may stand
    for as many iterations as a loop makes at most.
    """
    if actor.control is None:
        return tuple(ops)
    times = [
        actor.control.times(call) if actor.is_summed(call) else 1
        for call in range(len(ops))
    ]
    return tuple(
        op._replace(
            flops=None if op.flops is None else op.flops * n,
            bytes=None if op.bytes is None else op.bytes * n,
            calls=n,
        )
        for op, n in zip(ops, times, strict=True)
    )


def ops_by_actor(image: ProgramImage) -> list[tuple[Op, ...]]:
    """The ops of each actor of a program."""
    ops = _Ops(image)
    return [ops.of(actor) for actor in image.actors]


class _Ops:
    """Finds the ops of the steps of actors."""

    def __init__(self, image: ProgramImage):
        self._kernels = {kernel.name: kernel for kernel in image.kernels}
        self.places = {
            queue.name: Place(
                queue.chunk,
                queue.offset,
                queue.kind.size,
                queue.stride,
                queue.slots,
                queue.parts,
                queue.step,
            )
            for queue in image.queues
            if queue.chunk is not None and queue.kind is not None
        }
        for variable in image.variables:
            size = variable.kind.size
            place = Place(variable.chunk, variable.offset, size, size, 1)
            self.places[variable.name] = place

    def of(self, actor: ActorImage) -> tuple[Op, ...]:
        """The ops of an actor."""
        sizes = actor.sizes if actor.control else {}
        return tuple(self._op(step, sizes) for step in actor.steps)

    def _op(self, step: Step, sizes: Mapping[str, int]) -> Op:
        if step.verb == "call":
            work = self._kernels[step.subject].work
            if work is None:
                return Op("call", step.subject, step.subject, None, None)
            return Op("call", step.subject, work.op, work.flops, work.bytes)
        if step.verb == "release":
            return Op(step.verb, step.arguments[0], step.verb, 0, 0)
        # Bytes that are moved are read and written.
        first = step.arguments[0]
        moved = 2 * (sizes[first] if first in sizes else self.places[first].size)
        name = step.subject or " to ".join(step.arguments)
        return Op(step.verb, name, step.verb, 0, moved)
