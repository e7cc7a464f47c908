"""
The layout of the graph of tasks: layers from the top to the bottom, each below all that
it depends on.

Plain functions on numbers. All take time linear in the tasks and edges, but for sorting
inside of layers, so that programs of many thousand tasks are laid out in a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TypeAlias

Edge: TypeAlias = tuple[int, int]
"""An edge from a node to one that comes after it."""

SWEEPS = 4
"""
The number of times that the order inside of layers is improved, down and up again.
"""


def layers_of(count: int, edges: Sequence[Edge]) -> list[int]:
    """
    The layer of each node: the most edges on a path that ends there. A cycle is cut
    before the first of its nodes that nothing else keeps waiting.
    """
    followers: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for start, end in edges:
        followers[start].append(end)
        missing[end] += 1
    layer = [0] * count
    is_done = [False] * count
    for root in (*(n for n in range(count) if missing[n] == 0), *range(count)):
        if is_done[root]:
            continue
        is_done[root] = True
        ready = [root]
        for node in ready:
            for follower in followers[node]:
                missing[follower] -= 1
                if is_done[follower]:
                    continue
                layer[follower] = max(layer[follower], layer[node] + 1)
                if missing[follower] == 0:
                    is_done[follower] = True
                    ready.append(follower)
    return layer


def positions_of(count: int, edges: Sequence[Edge]) -> list[tuple[float, int]]:
    """
    The position of each node: its distance to the right, at least 1 from the next one
    of its layer, and its layer. The middle of the drawing is near 0.
    """
    layer = layers_of(count, edges)
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for node in range(count):
        rows[layer[node]].append(node)
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for start, end in edges:
        below[start].append(end)
        above[end].append(start)
    place = [0.0] * count
    for row in rows:
        spread(row, [0.0] * len(row), place)
    for _ in range(SWEEPS):
        for row in rows:
            arrange(row, above, place)
        for row in reversed(rows):
            arrange(row, below, place)
    return [(place[node], layer[node]) for node in range(count)]


def arrange(
    row: list[int], neighbours: Sequence[Sequence[int]], place: list[float]
) -> None:
    """Order and place the nodes of a layer near the middles of their neighbours."""
    wanted = {
        node: fmean(place[other] for other in neighbours[node])
        if neighbours[node]
        else place[node]
        for node in row
    }
    row.sort(key=lambda node: (wanted[node], place[node], node))
    spread(row, [wanted[node] for node in row], place)


def spread(row: Sequence[int], wanted: Sequence[float], place: list[float]) -> None:
    """
    The positions of nodes in their order, at least 1 apart, with the least square
    distances from the positions that they want.
    """
    # Nodes that push each other move as one group, to the mean of what they want.
    groups: list[tuple[float, int]] = []
    for index, want in enumerate(wanted):
        total, size = want - index, 1
        while groups and groups[-1][0] / groups[-1][1] >= total / size:
            before, count = groups.pop()
            total, size = total + before, size + count
        groups.append((total, size))
    index = 0
    for total, size in groups:
        for _ in range(size):
            place[row[index]] = total / size + index
            index += 1
