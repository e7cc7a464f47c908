"""What can go wrong while a program runs, and a check before it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.runtime.tables import Tables


class PenstockError(Exception):
    """The base of every error that Penstock's runtime raises."""


class TaskError(PenstockError):
    """
    A kernel of the actor `task` returned `code` in act number `act` of the run.

    `message` says what the code means, if the program knows. If the kernel is a Python
    callback, its exception is the cause of this one, and part of its text.
    """

    def __init__(self, task: str, act: int, code: int, message: str | None = None):
        super().__init__(task, act, code, message)
        self.task = task
        self.act = act
        self.code = code
        self.message = message

    def __str__(self) -> str:
        text = f"task '{self.task}' failed at act {self.act} with code {self.code}"
        if self.message:
            return f"{text}: {self.message}"
        if (cause := self.__cause__) is not None:
            return f"{text}: {type(cause).__name__}: {cause}"
        return text


class DeadlockError(PenstockError):
    """No actor can act; `stuck` has one line per actor: what it is and waits for."""

    def __init__(self, stuck: Sequence[str]):
        super().__init__(stuck)
        self.stuck = stuck

    def __str__(self) -> str:
        return "\n  ".join(["no actor can act", *self.stuck])


class WatchdogError(PenstockError):
    """
    No actor made progress for `seconds`; `stuck` has one line per actor that had acts
    left: what it did or waited for.
    """

    def __init__(self, seconds: float, stuck: Sequence[str]):
        super().__init__(seconds, stuck)
        self.seconds = seconds
        self.stuck = stuck

    def __str__(self) -> str:
        head = f"the run made no progress for {self.seconds:g} s"
        return "\n  ".join([head, *self.stuck])


class MessageError(PenstockError):
    """Actors were told of more or fewer pieces than there are; `lines` say of which."""

    def __init__(self, lines: Sequence[str]):
        super().__init__(lines)
        self.lines = lines

    def __str__(self) -> str:
        return "\n  ".join(["messages were lost or made up", *self.lines])


def find_deadlock(tables: Tables) -> list[str] | None:
    """
    The names of actors that wait for each other in a cycle, or None if none ever will.

    Each act moves one piece per register, so a program stops for ever exactly if some
    cycle of it has no token: no piece on the way from a producer to a reader, no free
    slot on the way back. Linear in the number of actors and reads.
    """
    cycle = find_cycle(_waiting(tables))
    return None if cycle is None else [tables.actors[actor].name for actor in cycle]


def _waiting(tables: Tables) -> list[list[int]]:
    """For each actor those that cannot act first before it has acted."""
    followers: list[list[int]] = [[] for _ in tables.actors]
    for index, reader in tables.edges:
        register = tables.registers[index]
        if register.initial == 0:
            followers[register.producer].append(reader)
        if register.initial == register.slots:
            followers[reader].append(register.producer)
    return followers


def find_cycle(successors: Sequence[Sequence[int]]) -> list[int] | None:
    """The nodes of one cycle of a graph in order, or None if it has no cycle."""
    unseen, open_, finished = 0, 1, 2
    mark = [unseen] * len(successors)
    for root in range(len(successors)):
        if mark[root] != unseen:
            continue
        path = [root]
        pending: list[Iterator[int]] = [iter(successors[root])]
        mark[root] = open_
        while path:
            node = next(pending[-1], None)
            if node is None:
                mark[path.pop()] = finished
                pending.pop()
            elif mark[node] == open_:
                return path[path.index(node) :]
            elif mark[node] == unseen:
                mark[node] = open_
                path.append(node)
                pending.append(iter(successors[node]))
    return None
