"""
Minimum cuts of directed graphs, by pushes and relabels.

Each node has a height, at most its distance to the sink along edges with capacity left.
Flow that came into a node is pushed on, one step down, from the highest node first. A
node from which nothing goes down is raised. In the graphs of jobs, which are thousands
of nodes deep and have paths of all lengths, each edge is looked at a few times; search
by path, or by length, takes the square of that.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

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

    def distances(self, sink: int) -> list[int]:
        """
        The number of edges with capacity left from each node to the sink; `size` for
        those that cannot reach it.
        """
        found = [self.size] * self.size
        found[sink] = 0
        waiting = deque([sink])
        while waiting:
            node = waiting.popleft()
            for edge in self.edges_of[node]:
                tail = self.heads[edge]
                if self.left[edge ^ 1] and found[tail] == self.size:
                    found[tail] = found[node] + 1
                    waiting.append(tail)
        return found

    def fill(self, source: int, sink: int) -> int:
        """
        Send as much to the sink as possible, and say how much. Flow that cannot reach
        it stays in front of full edges.
        """
        return _Filling(self, sink).run(source)

    def before(self, sink: int) -> list[bool]:
        """
        Whether each node can still send to the sink. Of all minimum cuts of a graph
        that is full, the one around these nodes is the nearest to the sink.
        """
        return [distance < self.size for distance in self.distances(sink)]


class _Filling:
    """The flow of a graph while it is filled."""

    def __init__(self, graph: FlowGraph, sink: int):
        self._graph, self._sink = graph, sink
        self._inside = [0] * graph.size
        """The flow that came into each node, and did not leave it."""
        self._heights: list[int] = []
        self._tried: list[int] = []
        """The edges of each node along which nothing goes down."""
        self._waiting: list[tuple[int, int]] = []
        """The nodes that have something inside, the highest first."""

    def run(self, source: int) -> int:
        """Send all that goes from the source to the sink, and say how much."""
        for edge in self._graph.edges_of[source]:
            self._push(source, edge, self._graph.left[edge])
        self._measure()
        while self._waiting:
            # Heights get far too small one by one where a cut is full.
            work = len(self._graph.heads)
            while self._waiting and work > 0:
                work -= self._empty(heappop(self._waiting)[1])
            self._measure()
        return self._inside[self._sink]

    def _measure(self) -> None:
        """Take the heights anew, and the nodes that can still send to the sink."""
        graph = self._graph
        self._heights = graph.distances(self._sink)
        self._tried = [0] * graph.size
        self._waiting = [
            (-height, node)
            for node, height in enumerate(self._heights)
            if self._inside[node] and 0 < height < graph.size
        ]
        heapify(self._waiting)

    def _empty(self, node: int) -> int:
        """Push on all flow inside a node, and say how many edges were looked at."""
        graph, heights, tried = self._graph, self._heights, self._tried
        edges, looked = graph.edges_of[node], 0
        while self._inside[node] and heights[node] < graph.size:
            if tried[node] == len(edges):
                looked += len(edges)
                self._raise(node)
                continue
            edge = edges[tried[node]]
            head = graph.heads[edge]
            if graph.left[edge] and heights[head] == heights[node] - 1:
                if not self._inside[head] and head != self._sink:
                    heappush(self._waiting, (-heights[head], head))
                self._push(node, edge, min(self._inside[node], graph.left[edge]))
            else:
                tried[node] += 1
        return looked

    def _raise(self, node: int) -> None:
        """Put a node above the lowest of those that it can send to."""
        graph, heights = self._graph, self._heights
        below = [heights[graph.heads[x]] for x in graph.edges_of[node] if graph.left[x]]
        heights[node] = min(below, default=graph.size) + 1
        self._tried[node] = 0

    def _push(self, node: int, edge: int, amount: int) -> None:
        graph = self._graph
        graph.left[edge] -= amount
        graph.left[edge ^ 1] += amount
        self._inside[node] -= amount
        self._inside[graph.heads[edge]] += amount
