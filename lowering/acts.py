"""
All acts of tasks in one launch, where they act at different rates, and their order.

Tasks are numbered from 0, and so are acts: those of the first task, then those of the
second one... A launch follows another one, so an order between acts has tokens, as one
between tasks has: the n-th launch of the target comes after the (n - tokens)-th of the
source.

A *guard* lets the tasks of a line act in an order that a loop would have: tasks beside
each other that act equally often are a group, in which each acts once, in order, before
the first one acts again; and one group after the other, as often as both can count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from math import gcd
from typing import NamedTuple

from penstock.lowering.sharing import Edge

MAX_ACTS = 1 << 14
"""Of more acts in a launch all those of a task count as one."""


class Queue(NamedTuple):
    """What a task writes and another one reads, so many pieces in each launch."""

    writer: int
    reader: int
    pieces: int
    full: int
    """The slots that are full before anybody acts."""
    free: int


class Acts:
    """The acts of tasks, given how often each acts in a launch."""

    def __init__(self, turns: Sequence[int]) -> None:
        self.turns = turns
        *self._first, self.count = accumulate(turns, initial=0)
        self.task_of = [task for task, count in enumerate(turns) for _ in range(count)]
        """The task of each act."""

    def first_for(self, task: int, piece: int, pieces: int) -> int:
        """The first act of a task for one of so many pieces in a launch."""
        return self._first[task] + piece * (self.turns[task] // pieces)

    def last_for(self, task: int, piece: int, pieces: int) -> int:
        """The last act of a task for one of so many pieces in a launch."""
        return self.first_for(task, piece + 1, pieces) - 1

    def edges(self, queues: Iterable[Queue]) -> list[Edge]:
        """What the slots of queues mean, and that each task acts in order."""
        found = dict.fromkeys(edge for queue in queues for edge in self.edges_of(queue))
        found.update(dict.fromkeys(self._own()))
        return list(found)

    def edges_of(self, queue: Queue) -> Iterator[Edge]:
        """What the slots of a queue mean."""
        writer, reader, pieces, full, free = queue
        for piece in range(pieces):
            launches, source = divmod(piece - full, pieces)
            written = self.last_for(writer, source, pieces)
            yield Edge(written, self.first_for(reader, piece, pieces), -launches)
            launches, target = divmod(piece + free, pieces)
            read = self.last_for(reader, piece, pieces)
            yield Edge(read, self.first_for(writer, target, pieces), launches)

    def _own(self) -> Iterator[Edge]:
        for first, count in zip(self._first, self.turns, strict=True):
            yield from (Edge(a, a + 1, 0) for a in range(first, first + count - 1))
            if count > 1:
                yield Edge(first + count - 1, first, 1)

    def between(self, source: int, target: int, tokens: int) -> Queue:
        """A control register, of which so many pieces are there before anybody acts."""
        pieces = gcd(self.turns[source], self.turns[target])
        return Queue(source, target, pieces, tokens, max(1, tokens) - tokens)

    def groups(self, line: Sequence[int]) -> list[list[int]]:
        """The tasks of a line that follow each other and act equally often."""
        return [list(x) for _, x in groupby(line, key=self.turns.__getitem__)]

    def guard(self, line: Sequence[int]) -> Iterator[Edge]:
        """
        The control registers, between tasks, that let those of a line act like a loop;
        `tokens` are the pieces that are there before anybody acts.
        """
        groups = self.groups(line)
        rounds = gcd(*(self.turns[task] for task in line))
        for group in groups:
            yield from (Edge(a, b, 0) for a, b in pairwise(group))
            is_inner = len(groups) == 1 or self.turns[group[0]] > rounds
            if is_inner and len(group) > 1:
                yield Edge(group[-1], group[0], 1)
        for one, other in pairwise(groups):
            yield Edge(one[-1], other[0], 0)
        if len(groups) > 1:
            first, last = groups[0][0], groups[-1][-1]
            pieces = gcd(self.turns[first], self.turns[last])
            yield Edge(last, first, pieces // rounds)

    def tasks_of(self, acts: Sequence[int]) -> list[int]:
        """The tasks of some acts, those that follow each other as one."""
        return [task for task, _ in groupby(self.task_of[act] for act in acts)]
