"""
All acts of tasks in one launch, where they act at different rates, and their order.

Tasks are numbered from 0, and so are acts: those of the first task, then those of the
second one... A launch follows another one, so an order between acts has tokens, as one
between tasks has: the n-th launch of the target comes after the (n - tokens)-th of the
source.

A *guard* lets the tasks of a line act in an order that a loop would have: tasks beside
each other that act equally often, and do not wait for several acts of each other, are a
group, in which each acts once, in order, before the first one acts again; and one group
acts after the other, in as many rounds in a launch as all of them can count. Where a
task of a group may act ahead of the others, the first one need not wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from math import gcd
from typing import NamedTuple

from penstock.lowering.algorithms.byte_sharing import Edge
from penstock.lowering.algorithms.graphs import GrowingOrder

MAX_ACTS = 1 << 14
"""Of more acts in a launch all those of a task count as one."""


class Queue(NamedTuple):
    """A queue from a writing task to a reading one, so many pieces in each launch."""

    writer: int
    reader: int
    pieces: int
    full: int
    """The slots that are full before anybody acts."""
    free: int


class Control(NamedTuple):
    """
    A control register of one slot between two tasks, with so many pieces in a launch,
    or tokens, of which there is one at the start or none.
    """

    source: int
    target: int
    tokens: int
    pieces: int = 1


class Acts:
    """
    The acts of tasks, given how often each acts in a launch, and how often what it
    reads has changed how often it comes.
    """

    def __init__(self, repetitions: Sequence[int], changes: Sequence[int] = ()) -> None:
        self.repetitions = repetitions
        self._kinds = list(zip(repetitions, changes or repetitions, strict=True))
        *self._first, self.count = accumulate(repetitions, initial=0)
        self.task_of = [
            task for task, count in enumerate(repetitions) for _ in range(count)
        ]
        """The task of each act."""

    def first_for(self, task: int, piece: int, pieces: int) -> int:
        """The first act of a task for one of so many pieces in a launch."""
        return self._first[task] + piece * (self.repetitions[task] // pieces)

    def last_for(self, task: int, piece: int, pieces: int) -> int:
        """The last act of a task for one of so many pieces in a launch."""
        return self.first_for(task, piece + 1, pieces) - 1

    def edges(self, queues: Iterable[Queue]) -> list[Edge]:
        """
        The edges that follow from the slots of queues, and from each task acting in
        order.
        """
        found = dict.fromkeys(edge for queue in queues for edge in self.edges_of(queue))
        found.update(dict.fromkeys(self._own()))
        return list(found)

    def edges_of(self, queue: Queue) -> Iterator[Edge]:
        """The edges that follow from the slots of a queue."""
        writer, reader, pieces, full, free = queue
        for piece in range(pieces):
            launches, source = divmod(piece - full, pieces)
            written = self.last_for(writer, source, pieces)
            yield Edge(written, self.first_for(reader, piece, pieces), -launches)
            launches, target = divmod(piece + free, pieces)
            read = self.last_for(reader, piece, pieces)
            yield Edge(read, self.first_for(writer, target, pieces), launches)

    def _own(self) -> Iterator[Edge]:
        for first, count in zip(self._first, self.repetitions, strict=True):
            yield from (Edge(a, a + 1, 0) for a in range(first, first + count - 1))
            if count > 1:
                yield Edge(first + count - 1, first, 1)

    def queue_of(self, control: Control) -> Queue:
        """The queue of a control register."""
        source, target, tokens, pieces = control
        return Queue(source, target, pieces, tokens, 1 - tokens)

    def groups(self, line: Sequence[int]) -> list[list[int]]:
        """The tasks of a line that follow each other and are of one kind."""
        return [list(x) for _, x in groupby(line, key=self._kinds.__getitem__)]

    def guard(
        self, line: Sequence[int], ahead: Collection[int] = ()
    ) -> list[list[Control]]:
        """
        The control registers that let the tasks of a line act like a loop: those of
        each group, and each of those between groups alone. A group with a task that may
        act again before the others have is in order, but no loop.
        """
        groups = self.groups(line)
        rounds = gcd(*(self.repetitions[task] for task in line))
        found: list[list[Control]] = []
        for group in groups:
            acts = self.repetitions[group[0]]
            found.append([Control(a, b, 0, acts) for a, b in pairwise(group)])
            is_inner = len(groups) == 1 or acts > rounds
            if is_inner and len(group) > 1 and not any(x in ahead for x in group):
                found[-1].append(Control(group[-1], group[0], 1, acts))
        if len(groups) > 1:
            for one, other in pairwise(groups):
                found.append([Control(one[-1], other[0], 0, rounds)])
            found.append([Control(groups[-1][-1], groups[0][0], 1, rounds)])
        return found

    def order(self, queues: Iterable[Queue]) -> GrowingOrder:
        """The order of acts in one launch."""
        return GrowingOrder(self.count, within_launch(self.edges(queues)))

    def tasks_of(self, acts: Sequence[int]) -> list[int]:
        """The tasks of some acts, those that follow each other as one."""
        return [task for task, _ in groupby(self.task_of[act] for act in acts)]


def within_launch(edges: Iterable[Edge]) -> Iterator[tuple[int, int]]:
    """The ends of edges without a token."""
    return ((source, target) for source, target, tokens in edges if tokens == 0)
