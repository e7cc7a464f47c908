"""
Marked graphs: actors that wait for each other's acts, and bytes they use in turn.

An edge with tokens from one actor to another says that the n-th act of the second
follows the (n - tokens)-th of the first. Two storages with common bytes are never in
use together if all users of the one reach the writer of the other without a token, and
those of the other reach the writer of the one over at most one token.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Edge(NamedTuple):
    """The target's n-th act follows the source's (n - tokens)-th."""

    source: int
    target: int
    tokens: int


class MarkedGraph:
    """Actors, numbered from 0, and what they wait for."""

    def __init__(self, size: int, edges: Sequence[Edge]) -> None:
        self.size = size
        self.next: list[list[int]] = [[] for _ in range(size)]
        """The targets of each actor's edges without a token."""
        self.previous: list[list[int]] = [[] for _ in range(size)]
        """The sources of each actor's edges without a token."""
        self.next_act: list[list[int]] = [[] for _ in range(size)]
        """The targets of each actor's edges with one token."""
        self._later: list[list[tuple[int, int]]] = [[] for _ in range(size)]
        """The targets of each actor's other edges, and how many tokens these have."""
        for source, target, tokens in dict.fromkeys(edges):
            if tokens == 0:
                self.next[source].append(target)
                self.previous[target].append(source)
            elif tokens == 1:
                self.next_act[source].append(target)
            else:
                self._later[source].append((target, tokens))
        self.order: list[int] = []
        """Actors before those that wait for them; without those of `cycles`."""
        self.cycles: list[list[int]] = []
        """Cycles without a token, no two with a common actor; none is left aside."""
        self._sort()

    def _sort(self) -> None:
        waiting = [len(sources) for sources in self.previous]
        seen = [count == 0 for count in waiting]
        ready = [actor for actor in range(self.size) if seen[actor]]
        self.order += self._release(ready, waiting, seen)
        for actor in range(self.size):
            while not seen[actor]:
                cycle = self._cycle_behind(actor, seen)
                self.cycles.append(cycle)
                for member in cycle:
                    seen[member] = True
                self.order += self._release(list(cycle), waiting, seen)[len(cycle) :]

    def _release(
        self, ready: list[int], waiting: list[int], seen: list[bool]
    ) -> list[int]:
        """The actors that wait for nothing but these, and these, in order."""
        for actor in ready:
            for target in self.next[actor]:
                waiting[target] -= 1
                if not waiting[target] and not seen[target]:
                    seen[target] = True
                    ready.append(target)
        return ready

    def _cycle_behind(self, actor: int, seen: list[bool]) -> list[int]:
        """A cycle that an actor waits for, from its lowest actor on."""
        path: dict[int, int] = {}
        while actor not in path:
            path[actor] = len(path)
            actor = next(source for source in self.previous[actor] if not seen[source])
        cycle = list(path)[path[actor] :][::-1]
        first = cycle.index(min(cycle))
        return cycle[first:] + cycle[:first]

    def after(self, marks: Sequence[int]) -> list[int]:
        """
        For each actor the marks of all that follow it in the same act. The marks are
        sets: the bits of an integer.
        """
        sets = [0] * self.size
        for actor in reversed(self.order):
            for target in self.next[actor]:
                sets[actor] |= marks[target] | sets[target]
        return sets

    def after_up_to_next_act(self, marks: Sequence[int]) -> list[int]:
        """The same, for those that follow an actor in the same or the next act."""
        same_act = self.after(marks)
        sets = [mark | later for mark, later in zip(marks, same_act, strict=True)]
        for actor in reversed(self.order):
            for target in self.next[actor]:
                sets[actor] |= sets[target]
            for target in self.next_act[actor]:
                sets[actor] |= marks[target] | same_act[target]
        return sets

    def reaches(self, source: int, target: int, tokens: int) -> bool:
        """Whether a path from one actor to another has at most so many tokens."""
        # No path is needed for an act of the same actor later on.
        if source == target and tokens > 0:
            return True
        seen: set[int] = set()
        waves: list[list[int]] = [[] for _ in range(tokens + 1)]
        waves[0].append(source)
        for spent, wave in enumerate(waves):
            for actor in wave:
                if actor in seen:
                    continue
                seen.add(actor)
                if actor == target and actor != source:
                    return True
                wave += self.next[actor]
                for other, more in self._later_targets(actor):
                    if spent + more <= tokens:
                        waves[spent + more].append(other)
        return False

    def _later_targets(self, actor: int) -> Iterator[tuple[int, int]]:
        for other in self.next_act[actor]:
            yield other, 1
        yield from self._later[actor]


class Storage(NamedTuple):
    """Bytes from `start` up to `end`, the actor that writes them, and all users."""

    start: int
    end: int
    writer: int | None
    """None for a variable, which is in use all the time."""
    users: Sequence[int]


def clashes(graph: MarkedGraph, storages: Sequence[Storage]) -> list[tuple[int, int]]:
    """
    The pairs of storages that share bytes and may be in use together, in order.

    The graph has no cycle without a token.
    """
    order = written_order(graph, storages)
    ordered = [storages[i] for i in order]
    marks = marks_of(graph, [storage.writer for storage in ordered])
    same_act = graph.after(marks)
    next_act = graph.after_up_to_next_act(marks)
    found: set[tuple[int, int]] = set()
    for i, overlapping in enumerate(overlaps(ordered)):
        # What is written later must be so after all users of i in the same act, and
        # what is written earlier after them in the next one.
        earlier = (1 << i) - 1
        same = common(same_act[user] for user in ordered[i].users)
        next = common(next_act[user] for user in ordered[i].users)
        for j in bits_of(overlapping & (~same & ~earlier | ~next & earlier)):
            found.add((min(order[i], order[j]), max(order[i], order[j])))
    return sorted(found)


def written_order(graph: MarkedGraph, storages: Sequence[Storage]) -> list[int]:
    """The storages with at least one byte in an order they can be written in."""
    position = {actor: i for i, actor in enumerate(graph.order)}

    def written(index: int) -> int:
        writer = storages[index].writer
        return -1 if writer is None else position[writer]

    some = [i for i, storage in enumerate(storages) if storage.start < storage.end]
    return sorted(some, key=written)


def marks_of(graph: MarkedGraph, writers: Sequence[int | None]) -> list[int]:
    """For each actor the set of indices at which it stands among the writers."""
    marks = [0] * graph.size
    for i, writer in enumerate(writers):
        if writer is not None:
            marks[writer] |= 1 << i
    return marks


def common(sets: Iterator[int]) -> int:
    """The intersection of sets; that of none is empty."""
    result = next(sets, 0)
    for other in sets:
        result &= other
    return result


def overlaps(storages: Sequence[Storage]) -> Iterator[int]:
    """For each storage the set of the others that have a byte in common with it."""
    starts, begun = prefix_sets([storage.start for storage in storages])
    ends, over = prefix_sets([storage.end for storage in storages])
    for i, storage in enumerate(storages):
        started = begun[bisect_left(starts, storage.end)]
        ended = over[bisect_right(ends, storage.start)]
        yield started & ~ended & ~(1 << i)


def prefix_sets(values: Sequence[int]) -> tuple[list[int], list[int]]:
    """The values in ascending order, and the sets of the first 0, 1, 2... indices."""
    order = sorted(range(len(values)), key=values.__getitem__)
    sets = [0]
    for i in order:
        sets.append(sets[-1] | 1 << i)
    return [values[i] for i in order], sets


def bits_of(numbers: int) -> Iterator[int]:
    """The members of a set, ascending."""
    while numbers:
        yield (low := numbers & -numbers).bit_length() - 1
        numbers ^= low
