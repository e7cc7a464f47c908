"""What can go wrong while a program runs, and a check before it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.runtime.program.tables import Tables


def printable(text: str) -> str:
    """Escape what would confuse a terminal."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text
    )


class PenstockError(Exception):
    """
    The base of every error that Penstock raises.

    Names in its text are those of models and plans, whose escape sequences never reach
    a terminal.
    """

    def __str__(self) -> str:
        return printable(self.wording())

    def wording(self) -> str:
        """The text, with names as they are."""
        return super().__str__()


class OutOfMemory(PenstockError):
    """
    A device has no memory for so many bytes; `where` says which it is, `device` is its
    number if it is known, and `task` needs them if it is not for what all share.
    """

    def __init__(
        self,
        size: int,
        where: str,
        free: int | None = None,
        device: int | None = None,
        task: str = "",
    ):
        left = "" if free is None else f", {free} are free"
        use = f": task '{task}' needs them besides its arguments" if task else ""
        super().__init__(f"there is no memory for {size} bytes on {where}{left}{use}")
        self.device = device
        self._facts = size, where, free, device

    def needed_by(self, task: str) -> OutOfMemory:
        """The same, with the task that needs the bytes."""
        return OutOfMemory(*self._facts, task)


class KernelError(PenstockError):
    """
    The source of `kernel` cannot be compiled, for the `reason` in one line; `line` is
    that of the source, if it is known. The exception that says so is the cause.
    """

    def __init__(self, kernel: str, reason: str, line: int | None):
        super().__init__(kernel, reason, line)
        self.kernel = kernel
        self.reason = reason
        self.line = line

    def wording(self) -> str:
        where = "" if self.line is None else f" (line {self.line} of it)"
        return f"kernel @{self.kernel}: its source fails: {self.reason}{where}"


class TaskError(PenstockError):
    """
    A kernel of the actor `task` returned `code` in act number `act` of the run.

    `message` says what the code means, if the program knows. If the kernel is a Python
    callback, its exception is the cause of this one, and part of its text; if that is
    one of Penstock, it is all of the text. `place` is where the task was written, as
    `file:line:column`, if that is known, with which the text begins.
    """

    def __init__(self, task: str, act: int, code: int, message: str | None = None):
        super().__init__(task, act, code, message)
        self.place: str | None = None
        self.task = task
        self.act = act
        self.code = code
        self.message = message

    def wording(self) -> str:
        return self.reason if self.place is None else f"{self.place}: {self.reason}"

    @property
    def reason(self) -> str:
        """The text without the place."""
        text = f"task '{self.task}' failed at act {self.act} with code {self.code}"
        if self.message:
            return f"{text}: {self.message}"
        cause = self.__cause__
        if isinstance(cause, PenstockError):
            told = cause.reason if isinstance(cause, TaskError) else cause
            return f"task '{self.task}' failed at act {self.act}: {told}"
        if cause is not None:
            return f"{text}: {type(cause).__name__}: {cause}"
        return text


def failure_of_callback(error: TaskError, cause: BaseException | None) -> TaskError:
    """
    What a callback that raised something makes of the error of its task. An error of
    another task, which it has only been told of, becomes one at the act of its own.
    """
    if isinstance(cause, TaskError):
        return TaskError(cause.task, error.act, cause.code, cause.message)
    error.__cause__ = cause
    return error


class DeadlockError(PenstockError):
    """No actor can act; `stuck` has one line per actor: what it is and waits for."""

    def __init__(self, stuck: Sequence[str]):
        super().__init__(stuck)
        self.stuck = stuck

    def wording(self) -> str:
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

    def wording(self) -> str:
        head = f"the run made no progress for {self.seconds:g} s"
        return "\n  ".join([head, *self.stuck])


class MessageError(PenstockError):
    """Actors were told of more or fewer pieces than there are; `lines` say of which."""

    def __init__(self, lines: Sequence[str]):
        super().__init__(lines)
        self.lines = lines

    def wording(self) -> str:
        return "\n  ".join(["messages were lost or made up", *self.lines])


def find_deadlock(tables: Tables) -> list[str] | None:
    """
    The names of actors that wait for each other in a cycle, or None if none ever will.

    Where each act moves one piece per register, a program stops for ever exactly if
    some cycle of it has no token: no piece on the way from a producer to a reader, no
    free slot on the way back. With pieces that last for several acts, it does if it
    does so within one turn. Linear in the number of acts of a turn and of reads. Only
    actors of the plain kind count: what others need depends on data.
    """
    rates = {n for actor in tables.actors for _, n in actor.every}
    cycle = find_cycle(_waiting(tables) if rates <= {1} else _left_waiting(tables))
    return None if cycle is None else [tables.actors[actor].name for actor in cycle]


def _is_plain(tables: Tables, *actors: int) -> bool:
    """Whether these are actors, and of the plain kind."""
    return all(x >= 0 and tables.actors[x].kind == "plain" for x in actors)


def _waiting(tables: Tables) -> list[list[int]]:
    """For each actor those that cannot act first before it has acted."""
    followers: list[list[int]] = [[] for _ in tables.actors]
    for index, reader in tables.edges:
        register = tables.registers[index]
        if not _is_plain(tables, register.producer, reader):
            continue
        if register.initial == 0:
            followers[register.producer].append(reader)
        if register.initial == register.slots:
            followers[reader].append(register.producer)
    return followers


def _left_waiting(tables: Tables) -> list[list[int]]:
    """For each actor those that wait for it when no actor can act in the first turn."""
    if not all(_is_plain(tables, actor) for actor in range(len(tables.actors))):
        return _waiting(tables)
    done = [0] * len(tables.actors)
    near: list[list[int]] = [[] for _ in done]
    for place, (index, reader) in enumerate(tables.edges):
        if min(reader, tables.registers[index].producer) >= 0:
            near[tables.registers[index].producer].append(place)
            near[reader].append(place)

    def is_blocked(actor: int, edge: int) -> tuple[bool, int]:
        """Whether an actor waits for the other one on an edge, and which that is."""
        index, reader = tables.edges[edge]
        register = tables.registers[index]
        producer = register.producer
        made = done[producer] // tables.actors[producer].acts_for(index)
        used = done[reader] // tables.actors[reader].acts_for(index)
        full = register.initial + made - used
        if actor == reader and full <= 0:
            return True, producer
        return actor == producer and full >= register.slots, reader

    pending = list(range(len(done)))
    while pending:
        actor = pending.pop()
        while done[actor] < tables.turns[actor]:
            if any(is_blocked(actor, edge)[0] for edge in near[actor]):
                break
            done[actor] += 1
            for edge in near[actor]:
                index, reader = tables.edges[edge]
                pending += {tables.registers[index].producer, reader} - {actor}
    followers: list[list[int]] = [[] for _ in done]
    for actor, count in enumerate(done):
        for edge in near[actor] if count < tables.turns[actor] else ():
            waits, other = is_blocked(actor, edge)
            if waits:
                followers[other].append(actor)
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
