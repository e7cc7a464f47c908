"""
Marked graphs: actors that wait for each other's acts, and bytes they use one after the
other. Verifiers of plans and programs, and passes that order tasks, reason about them.

An edge with tokens from one actor to another says that the n-th act of the second
follows the (n - tokens)-th of the first; each act of an actor follows its last one.
Only orders along paths are certain: acts that no path orders may run at the same time.

A storage has some slots of equal size; in its n-th act an actor uses slot n mod slots.
Let all users of one storage reach the writer of another one over at most `there`
tokens, and those of the other the writer of the one over at most `back`, both as few as
they can be. Then the n-th use of the one is over before the m-th of the other begins if
m - n >= there, and is after it if n - m >= back; all other pairs of uses may meet. So
storages clash if slots with a common byte, the i-th of the one and the j-th of the
other, are used in acts n and m with -back < m - n < there: that is, if there is such an
m - n which leaves the rest j - i when divided by the greatest common divisor of the
numbers of slots. This is exact, for any numbers of slots. Where that divisor is 1, each
slot of the one meets each of the other, and the rule is the same as for storages as a
whole: there + back <= 1.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from math import gcd
from typing import NamedTuple

from penstock.lowering.algorithms.graphs import bits_of, cycle_behind, release


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
        waiting = [len(sources) for sources in self.previous]
        ready = [actor for actor, count in enumerate(waiting) if not count]
        self.order = release(ready, self.next, waiting)
        """Actors before those that wait for them; without those of `cycles`."""
        self.cycles: list[list[int]] = []
        """Cycles without a token, no two with a common actor; none is left aside."""
        self._cut_cycles(waiting)

    def _cut_cycles(self, waiting: list[int]) -> None:
        for actor in range(self.size):
            while waiting[actor] > 0:
                cycle = cycle_behind(actor, self.previous, lambda x: waiting[x] > 0)
                self.cycles.append(cycle)
                for member in cycle:
                    waiting[member] = 0
                self.order += release(cycle, self.next, waiting)[len(cycle) :]

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
        return self.tokens_between(source, target, tokens) is not None

    def tokens_between(self, source: int, target: int, limit: int) -> int | None:
        """
        The fewest tokens on a path from one actor to another; None if there are more
        than `limit`. No path is needed from an actor to its own next act.
        """
        seen: set[int] = set()
        waves: list[list[int]] = [[] for _ in range(limit + 1)]
        waves[0].append(source)
        for spent, wave in enumerate(waves):
            if source == target and spent == 1:
                return 1
            for actor in wave:
                if actor in seen:
                    continue
                seen.add(actor)
                if actor == target and actor != source:
                    return spent
                wave += self.next[actor]
                for other, more in self._later_targets(actor):
                    if spent + more <= limit:
                        waves[spent + more].append(other)
        return None

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
    slots: int = 1
    stride: int = 0
    """The bytes from one slot to the next."""

    @property
    def slot_size(self) -> int:
        """The bytes of one slot."""
        return self.end - self.start - self.stride * (self.slots - 1)


def clashes(graph: MarkedGraph, storages: Sequence[Storage]) -> list[tuple[int, int]]:
    """
    The pairs of storages that share bytes and may be in use together, in order.

    The graph has no cycle without a token.
    """
    return [
        (i, j)
        for i, j in clashes_as_a_whole(graph, storages)
        if storages[i].slots == storages[j].slots == 1
        or slots_meet(graph, storages[i], storages[j])
    ]


def clashes_as_a_whole(
    graph: MarkedGraph, storages: Sequence[Storage]
) -> list[tuple[int, int]]:
    """The same, if each act used all slots, and what is between them."""
    order = written_order(graph, storages)
    ordered = [storages[i] for i in order]
    marks = marks_of(graph, [storage.writer for storage in ordered])
    same_act = graph.after(marks)
    next_act = graph.after_up_to_next_act(marks)
    found: set[tuple[int, int]] = set()
    for i, overlapping in enumerate(overlaps(ordered)):
        # Storages written later must be so after all users of i in the same act, and
        # those written earlier after them in the next one.
        earlier = (1 << i) - 1
        same = common(same_act[user] for user in ordered[i].users)
        next = common(next_act[user] for user in ordered[i].users)
        for j in bits_of(overlapping & (~same & ~earlier | ~next & earlier)):
            found.add((min(order[i], order[j]), max(order[i], order[j])))
    return sorted(found)


def slots_meet(graph: MarkedGraph, one: Storage, other: Storage) -> bool:
    """Whether slots with a common byte may be in use together."""
    divisor = gcd(one.slots, other.slots)
    rests = {(j - i) % divisor for i, j in common_slots(one, other)}
    if one.writer is None or other.writer is None:
        return bool(rests)
    there = tokens_to_writer(graph, one, other.writer, divisor)
    back = tokens_to_writer(graph, other, one.writer, divisor)
    differences = range(1 - back, there)
    if len(differences) >= divisor:
        return bool(rests)
    return any(difference % divisor in rests for difference in differences)


def tokens_to_writer(
    graph: MarkedGraph, storage: Storage, writer: int, limit: int
) -> int:
    """
    The fewest tokens over which all users of a storage reach an actor; one more than
    the limit if there are more.
    """
    most = 0
    for user in storage.users:
        found = graph.tokens_between(user, writer, limit)
        if found is None:
            return limit + 1
        most = max(most, found)
    return most


def common_slots(one: Storage, other: Storage) -> Iterator[tuple[int, int]]:
    """The pairs of slots that have a byte in common."""
    for i in range(one.slots):
        start = one.start + i * one.stride
        end = start + one.slot_size
        # Slots in front of the first end before it starts.
        first = (start - other.start - other.slot_size) // max(1, other.stride) + 1
        for j in range(max(0, first), other.slots):
            begin = other.start + j * other.stride
            if begin >= end:
                break
            yield i, j


def common_bytes(one: Storage, other: Storage) -> int:
    """The bytes that slots of two storages have in common."""
    a, b = one.slot_size, other.slot_size
    total = 0
    for i, j in common_slots(one, other):
        start, begin = one.start + i * one.stride, other.start + j * other.stride
        total += min(start + a, begin + b) - max(start, begin)
    return total


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
