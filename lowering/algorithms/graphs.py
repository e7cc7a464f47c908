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
