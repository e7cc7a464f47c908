"""
The edges between tasks, by what a register is read for.

About half of what an actor reads is no data to it: control registers, and registers
that it only keeps from being written over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from penstock.dialects.launch import ActorOp
from penstock.runtime.program.executable import ActorImage, ProgramImage


class Purpose(IntEnum):
    """The reason why a task reads a register."""

    DATA = 0
    """Its steps or views use the bytes."""
    ORDER = 1
    """It is a control register."""
    GUARD = 2
    """It only keeps the bytes from being written over."""
    FEEDBACK = 3
    """It is full before the first act: the edge leads to a later act."""


class Edge(NamedTuple):
    """
    A register that a task reads and another one writes; all are numbers. That of a
    message from rank to rank is the one that it is received into.
    """

    start: int
    end: int
    register: int
    purpose: Purpose


def edges_of(image: ProgramImage, actors: Sequence[ActorOp | None]) -> Iterator[Edge]:
    """The edges of a program; its actors in IR, if known, are in the image's order."""
    number = {queue.name: index for index, queue in enumerate(image.queues)}
    writer = {
        name: index for index, actor in enumerate(image.actors) for name in actor.writes
    }
    for index, (actor, op) in enumerate(zip(image.actors, actors, strict=True)):
        used = used_by(actor, op)
        for name in actor.reads:
            if name not in writer:
                continue
            queue = image.queues[number[name]]
            if queue.initial:
                purpose = Purpose.FEEDBACK
            elif queue.kind is None:
                purpose = Purpose.ORDER
            else:
                purpose = Purpose.DATA if name in used else Purpose.GUARD
            yield Edge(writer[name], index, number[name], purpose)
    ends = messages_of(image, actors)
    for (verb, source, peer, tag), (receiver, target) in ends.items():
        sender = ends.get(("send", source, peer, tag))
        if verb == "receive" and sender is not None:
            yield Edge(sender[0], receiver, number[target], Purpose.DATA)


def messages_of(
    image: ProgramImage, actors: Sequence[ActorOp | None]
) -> dict[tuple[str, int, int, str], tuple[int, str]]:
    """
    The tasks that send or receive a message, and the register that it is in, by the
    verb, both ranks and the tag. Ranks stand in IR alone.
    """
    found: dict[tuple[str, int, int, str], tuple[int, str]] = {}
    for index, (actor, op) in enumerate(zip(image.actors, actors, strict=True)):
        for step in actor.steps:
            if op is None or step.verb not in ("send", "receive"):
                continue
            rank = op.device.rank.data
            peer, tag = step.subject.split("/")
            pair = (rank, int(peer)) if step.verb == "send" else (int(peer), rank)
            found[step.verb, *pair, tag] = index, step.arguments[0]
    return found


def used_by(actor: ActorImage, op: ActorOp | None) -> set[str]:
    """The registers whose bytes an actor uses: in a step, a view, or by its kind."""
    if actor.kind != "plain" and not actor.steps:
        return {*actor.reads}
    named = actor.names
    sources = set[str]() if op is None else sources_of(op)
    return named | sources or {*actor.reads}


def sources_of(op: ActorOp) -> set[str]:
    """The registers that an actor shows parts of."""
    return {view.names[0] for view in op.view_list}
