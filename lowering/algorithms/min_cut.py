"""
Minimum cuts of directed graphs, by Dinic's algorithm.

Each phase finds the distances of nodes from the source along edges with capacity left,
and sends flow along shortest paths until each of them has a full edge. All walks are
loops, as graphs of jobs are thousands of nodes deep.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

UNLIMITED = 1 << 62
"""The capacity of an edge that no cut may contain."""


@dataclass
class FlowGraph:
    """A graph of so many nodes; edges `2 i` and `2 i + 1` are each other's reverse."""

    size: int
    heads: list[int] = field(default_factory=list[int])
    left: list[int] = field(default_factory=list[int])
    """The capacity that is left of each edge."""
    edges_of: list[list[int]] = field(default_factory=list[list[int]])

    def __post_init__(self) -> None:
        self.edges_of = [[] for _ in range(self.size)]

    def add(self, tail: int, head: int, capacity: int) -> None:
        """Add an edge and its reverse, which takes nothing yet."""
        for node, other, left in ((tail, head, capacity), (head, tail, 0)):
            self.edges_of[node].append(len(self.heads))
            self.heads.append(other)
            self.left.append(left)

    def distances(self, source: int) -> list[int]:
        """The number of edges to each node; -1 for those that are out of reach."""
        found = [-1] * self.size
        found[source] = 0
        waiting = deque([source])
        while waiting:
            node = waiting.popleft()
            for edge in self.edges_of[node]:
                head = self.heads[edge]
                if self.left[edge] and found[head] < 0:
                    found[head] = found[node] + 1
                    waiting.append(head)
        return found

    def send(self, path: Iterable[int]) -> int:
        """Send as much as a path takes, and say how much."""
        edges = list(path)
        amount = min(self.left[edge] for edge in edges)
        for edge in edges:
            self.left[edge] -= amount
            self.left[edge ^ 1] += amount
        return amount

    def fill_shortest(self, source: int, sink: int, distances: list[int]) -> int:
        """Send flow along shortest paths until each has a full edge; say how much."""
        tried, path, total, node = [0] * self.size, list[int](), 0, source
        while True:
            if node == sink:
                total += self.send(path)
                # Walk on from the tail of the first edge that is full now.
                kept = next(i for i, edge in enumerate(path) if not self.left[edge])
                node = self.heads[path[kept] ^ 1]
                del path[kept:]
            edge = self._next_edge(node, distances, tried)
            if edge is not None:
                path.append(edge)
                node = self.heads[edge]
            elif path:
                node = self.heads[path.pop() ^ 1]
                tried[node] += 1
            else:
                return total

    def _next_edge(
        self, node: int, distances: list[int], tried: list[int]
    ) -> int | None:
        edges = self.edges_of[node]
        while tried[node] < len(edges):
            edge = edges[tried[node]]
            if self.left[edge] and distances[self.heads[edge]] == distances[node] + 1:
                return edge
            tried[node] += 1
        return None

    def fill(self, source: int, sink: int) -> int:
        """Send as much flow as possible, and say how much."""
        total = 0
        while (distances := self.distances(source))[sink] >= 0:
            total += self.fill_shortest(source, sink, distances)
        return total

    def before(self, sink: int) -> list[bool]:
        """
        Whether each node can still send to the sink. Of all minimum cuts of a graph
        that is full, the one around these nodes is the nearest to the sink.
        """
        found = [False] * self.size
        found[sink] = True
        waiting = [sink]
        while waiting:
            for edge in self.edges_of[waiting.pop()]:
                tail = self.heads[edge]
                if self.left[edge ^ 1] and not found[tail]:
                    found[tail] = True
                    waiting.append(tail)
        return found
