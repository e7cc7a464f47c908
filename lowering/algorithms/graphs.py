"""
Algorithms on directed graphs: topological order, cycles, reachability, components.

Nodes are numbered from 0. Edges are given as rows: for each node those that it waits
for, or those that wait for it. Results depend on the order of nodes and rows alone, so
that passes are deterministic; `graphlib` does not keep the order of a list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import heapify, heappop, heappush


def listed_order(before: Sequence[Collection[int]]) -> list[int]:
    """
    A topological order, for each node given the different nodes before it: of the nodes
    that could be next always the least. Nodes on a cycle or behind one are left out.
    """
    missing = [len(earlier) for earlier in before]
    after: list[list[int]] = [[] for _ in before]
    for node, earlier in enumerate(before):
        for other in earlier:
            after[other].append(node)
    ready = [node for node, count in enumerate(missing) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        order.append(node := heappop(ready))
        for other in after[node]:
            missing[other] -= 1
            if not missing[other]:
                heappush(ready, other)
    return order


def release(
    ready: Iterable[int], after: Sequence[Sequence[int]], missing: list[int]
) -> list[int]:
    """
    A topological order from some nodes on, first come, first served. `missing` counts
    the edges from nodes that are not in an order yet, and is brought up to date.
    """
    order = list(ready)
    for node in order:
        for other in after[node]:
            missing[other] -= 1
            if not missing[other]:
                order.append(other)
    return order


class GrowingOrder:
    """
    A topological order of a graph that grows, each edge at the cost of the nodes
    between its ends (Pearce and Kelly, "A dynamic topological sort algorithm for
    directed acyclic graphs", 2006).
    """

    def __init__(self, size: int, edges: Iterable[tuple[int, int]]) -> None:
        self._after: list[list[int]] = [[] for _ in range(size)]
        self._before: list[list[int]] = [[] for _ in range(size)]
        for source, target in edges:
            self._after[source].append(target)
            self._before[target].append(source)
        missing = [len(earlier) for earlier in self._before]
        ready = [node for node, count in enumerate(missing) if not count]
        order = release(ready, self._after, missing)
        self.is_acyclic = len(order) == size
        """Whether there is an order, as edges may be added to an acyclic graph only."""
        self._place = [0] * size
        for place, node in enumerate(order):
            self._place[node] = place
        self._added: list[tuple[int, int]] = []

    @property
    def added(self) -> int:
        """The number of edges that were added."""
        return len(self._added)

    def add(self, edges: Iterable[tuple[int, int]]) -> bool:
        """Add edges, unless that closes a cycle; whether they were added."""
        start = self.added
        for source, target in edges:
            if not self._make_room(source, target):
                self.take_back(start)
                return False
            self._after[source].append(target)
            self._before[target].append(source)
            self._added.append((source, target))
        return True

    def take_back(self, count: int) -> None:
        """Remove the edges that were added after so many."""
        while self.added > count:
            source, target = self._added.pop()
            self._after[source].pop()
            self._before[target].pop()

    def _make_room(self, source: int, target: int) -> bool:
        """Order two nodes; whether no path leads back from the second one."""
        place = self._place
        low, high = place[target], place[source]
        if high < low:
            return True
        behind = self._between(self._after, target, lambda x: place[x] <= high)
        if source in behind:
            return False
        ahead = self._between(self._before, source, lambda x: place[x] >= low)
        moved = sorted(ahead, key=place.__getitem__)
        moved += sorted(behind, key=place.__getitem__)
        for node, new in zip(moved, sorted(map(place.__getitem__, moved)), strict=True):
            place[node] = new
        return True

    def _between(
        self, edges: Sequence[Sequence[int]], start: int, is_near: Callable[[int], bool]
    ) -> set[int]:
        """The nodes that paths of near nodes lead to from a node."""
        found, pending = {start}, [start]
        while pending:
            new = [x for x in edges[pending.pop()] if x not in found and is_near(x)]
            found.update(new)
            pending += new
        return found


def cycle_behind(
    node: int, before: Sequence[Sequence[int]], is_left: Callable[[int], bool]
) -> list[int]:
    """
    A cycle that a node waits for, from its least node on, in the order of its edges;
    of the nodes that are left, each of which waits for another one that is.
    """
    path: dict[int, int] = {}
    while node not in path:
        path[node] = len(path)
        node = next(source for source in before[node] if is_left(source))
    cycle = list(path)[path[node] :][::-1]
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]


def cycle_in(before: Sequence[Sequence[int]]) -> list[int] | None:
    """A cycle of a graph, given for each node those before it, if it has any."""
    missing = [len(earlier) for earlier in before]
    after: list[list[int]] = [[] for _ in before]
    for node, earlier in enumerate(before):
        for other in earlier:
            after[other].append(node)
    release((node for node, count in enumerate(missing) if not count), after, missing)
    left = next((node for node, count in enumerate(missing) if count), None)
    return (
        None if left is None else cycle_behind(left, before, lambda x: missing[x] > 0)
    )


def reached(edges: Sequence[Sequence[int]], start: int) -> set[int]:
    """The nodes that paths lead to from a node, which is among them."""
    found, pending = {start}, [start]
    while pending:
        new = [x for x in edges[pending.pop()] if x not in found]
        found.update(new)
        pending += new
    return found


def components(neighbours: Sequence[int]) -> list[list[int]]:
    """
    The nodes of each connected component, ascending; for each node its neighbours as a
    set of bits. Components are in the order of their least nodes.
    """
    left = (1 << len(neighbours)) - 1
    parts: list[list[int]] = []
    while left:
        found = left & -left
        left ^= found
        part = [found.bit_length() - 1]
        for member in part:
            new = neighbours[member] & left
            left ^= new
            part += bits_of(new)
        parts.append(sorted(part))
    return parts


def bits_of(numbers: int) -> list[int]:
    """The members of a set of bits, ascending."""
    digits = bin(numbers)[:1:-1]
    members: list[int] = []
    member = digits.find("1")
    while member >= 0:
        members.append(member)
        member = digits.find("1", member + 1)
    return members
