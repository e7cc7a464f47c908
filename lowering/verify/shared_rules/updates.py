"""
Rules on variables that actors write, in plans and in programs.

In one run of a job all that reads a variable reads what it held before. So each user of
its bytes, under any name, comes before the one actor that writes it, and that one
before they use it again. Jobs that share a variable with one that writes it never run
at the same time as that one, which the runtime sees to.

All variables of a job have new values, or none. So each of its actors that can fail,
and each that a main job lets act, comes before every write; by way of a commit if it
fails on a device, which the host has to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from xdsl.ir import Operation

from penstock.dialects.utils.diagnostics import Finding


class Actor(NamedTuple):
    """An actor that may write a variable, or fail before that."""

    op: Operation
    name: str
    """Its name in messages."""
    is_uncertain: bool
    """Whether it can fail, or waits for a section of its job to be granted."""
    fails_remotely: bool
    """Whether it fails on a device that the host has to ask."""
    commits: bool
    """Whether nothing fails after it."""
    section_of: int | None = None
    """The rank that it begins a section on: other ranks have one of their own."""
    rank: int = 0
    fails_late: bool = False
    """Whether it may fail after it has written a variable."""


class Write(NamedTuple):
    """An actor that writes a variable."""

    actor: int
    variable: Hashable
    name: str
    """The name of the variable in messages."""
    users: Sequence[int]
    """The other actors of the job that use its bytes, under any name."""
    is_state: bool = False
    """Whether nothing but the job knows it, so that it matters in no failed piece."""


class Order(Protocol):
    """The order of users and writers of variables."""

    def comes_before(self, user: int, update: int) -> bool:
        """Whether the user is done before the writer writes."""
        ...

    def comes_again_after(self, user: int, update: int) -> bool:
        """Whether the writer has written before the user acts again."""
        ...


Ordered: TypeAlias = Callable[[Mapping[int, Sequence[int]]], Order]
"""The order of actors that write, or commit, and of those to compare with each."""


@dataclass
class Updates:
    """The actors of a job, by number, and those of them that write variables."""

    actors: Mapping[int, Actor]
    writes: Sequence[Write]
    order: Ordered
    launch_order: Ordered
    """The order of all acts of an actor in a launch before all of another one."""


def bad_updates(job: Updates) -> Iterator[Finding]:
    """All that is wrong with writes. The graph has no cycle without a token."""
    if not job.writes:
        return
    checked: list[Write] = []
    first: dict[Hashable, Write] = {}
    for write in job.writes:
        if (other := first.setdefault(write.variable, write)) is write:
            checked.append(write)
            continue
        one, two = job.actors[other.actor], job.actors[write.actor]
        text = f"{one.name} and {two.name} both write variable {write.name}"
        yield two.op, text
    yield from unordered_users(job, checked)
    yield from early_writes(job)


def unordered_users(job: Updates, writes: Sequence[Write]) -> Iterator[Finding]:
    """The actors that may use a variable while it is written."""
    users: dict[int, list[int]] = {}
    for write in writes:
        users.setdefault(write.actor, []).extend(write.users)
    order = job.order(users)
    for write in writes:
        writer = job.actors[write.actor]
        for user in write.users:
            used = f"{job.actors[user].name} may use variable {write.name}"
            if not order.comes_before(user, write.actor):
                yield writer.op, f"{used} after {writer.name} has written it"
            elif not order.comes_again_after(user, write.actor):
                yield writer.op, f"{used} again before {writer.name} has written it"


def early_writes(job: Updates) -> Iterator[Finding]:
    """The actors that may write variables though others may still fail."""
    actors = job.actors
    uncertain = [x for x, actor in actors.items() if actor.is_uncertain]
    if not uncertain:
        return
    commits = [x for x, actor in actors.items() if actor.commits]
    known = [x for x in job.writes if not x.is_state]
    writers = list(dict.fromkeys(x.actor for x in known))
    order = job.launch_order({x: uncertain for x in (*writers, *commits)})
    for index in uncertain:
        actor = actors[index]
        told = [x for x in commits if actor.fails_remotely]
        told = [x for x in told if order.comes_before(index, x)]
        if actor.fails_late and index in writers:
            yield actor.op, f"{actor.name} writes a variable before it may fail"
        for writer in writers:
            op, name = actors[writer].op, actors[writer].name
            if writer == index:
                continue
            if not order.comes_before(index, writer):
                if actor.section_of in (None, actors[writer].rank):
                    yield op, f"{name} may write a variable before {actor.name} fails"
            elif actor.fails_remotely and not any(
                order.comes_before(x, writer) for x in told
            ):
                yield (
                    op,
                    f"{name} may write a variable before the host knows whether "
                    f"{actor.name} fails, without a commit between them",
                )
