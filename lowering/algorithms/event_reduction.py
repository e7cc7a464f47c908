"""
The transitive reduction of orders between streams, and of marked graphs. Plain
functions over numbers, no IR.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from penstock.lowering.algorithms.deadlock import Register
from penstock.lowering.algorithms.marked_graph import Edge, MarkedGraph

################################################################################
# Between streams                                                              #
################################################################################


class Order(NamedTuple):
    """The first task must be over before the second one begins, in the same act."""

    first: int
    second: int


def needed_events(
    streams: Sequence[Sequence[int]], orders: Sequence[Order]
) -> list[list[int]]:
    """
    For each task those on other streams that it must wait for itself, ascending.

    The tasks of a stream run in its order. An order needs no event if it follows from
    that and from the events of other orders: what is left is the least that covers all
    orders. The orders and the streams have no cycle.
    """
    return EventFinder(streams, orders).run()


class EventFinder:
    """
    Walks over the tasks and notes for each how far each stream has certainly come.
    """

    def __init__(
        self, streams: Sequence[Sequence[int]], orders: Sequence[Order]
    ) -> None:
        self._streams = streams
        count = sum(map(len, streams))
        self._stream = [0] * count
        self._place = [0] * count
        for index, tasks in enumerate(streams):
            for place, task in enumerate(tasks):
                self._stream[task], self._place[task] = index, place
        self._sources: list[list[int]] = [[] for _ in range(count)]
        for first, second in dict.fromkeys(orders):
            self._sources[second].append(first)
        self._over: list[list[int]] = [[] for _ in range(count)]
        """For each task the place in each stream up to which all is over, and it."""
        self._sorted = MarkedGraph(count, list(zero_edges(streams, orders))).order

    def run(self) -> list[list[int]]:
        """The tasks that each task must wait for."""
        waits: list[list[int]] = [[] for _ in self._place]
        for task in self._sorted:
            over = self._before(task)
            needed = self._needed(task, over)
            for other in needed:
                over = list(map(max, over, self._over[other]))
            over[self._stream[task]] = self._place[task]
            self._over[task] = over
            waits[task] = sorted(needed)
        return waits

    def _before(self, task: int) -> list[int]:
        """The tasks that are over as soon as the stream of a task comes to it."""
        if self._place[task] == 0:
            return [-1] * len(self._streams)
        return list(
            self._over[self._streams[self._stream[task]][self._place[task] - 1]]
        )

    def _needed(self, task: int, over: Sequence[int]) -> list[int]:
        latest: dict[int, int] = {}
        for source in self._sources[task]:
            stream = self._stream[source]
            if self._place[source] > max(over[stream], latest.get(stream, -1)):
                latest[stream] = self._place[source]
        ends = [self._streams[stream][place] for stream, place in latest.items()]
        return [end for end in ends if not self._follows(end, ends)]

    def _follows(self, task: int, others: Sequence[int]) -> bool:
        """Whether a task is over once one of the others is."""
        stream, place = self._stream[task], self._place[task]
        return any(x != task and self._over[x][stream] >= place for x in others)


def zero_edges(
    streams: Sequence[Sequence[int]], orders: Sequence[Order]
) -> Iterator[Edge]:
    """All orders of one act, those of streams included."""
    for tasks in streams:
        for first, second in pairwise(tasks):
            yield Edge(first, second, 0)
    for first, second in orders:
        yield Edge(first, second, 0)


################################################################################
# In marked graphs                                                             #
################################################################################


class OwnEdge(NamedTuple):
    """An edge of a marked graph, and the register that it comes from; -1 if none."""

    edge: Edge
    register: int


def edges_of(registers: Sequence[Register], index: int) -> Iterator[OwnEdge]:
    """The two edges that a register makes with each of its readers."""
    writer, readers, slots, initial = registers[index]
    for reader in dict.fromkeys(readers):
        yield OwnEdge(Edge(writer, reader, initial), index)
        yield OwnEdge(Edge(reader, writer, slots - initial), index)


def implied_registers(
    tasks: int, registers: Sequence[Register], removable: Collection[int]
) -> list[int]:
    """
    The `removable` registers that can all be removed together, without letting any
    task act before it could: each of their edges has as many tokens as a path of others
    has, or more. Of equal registers that with the fewest slots stays, of these the
    first one; what has one reader, and one slot, stays only if it must.

    The registers have no cycle without a token. An edge of two or more tokens is only
    compared with other edges and with paths of at most one token.
    """
    own = [list(edges_of(registers, index)) for index in range(len(registers))]
    slots = [register.slots for register in registers]
    return implied_by_others(tasks, own, slots, removable)


def implied_by_others(
    tasks: int,
    own: Sequence[Sequence[OwnEdge]],
    slots: Sequence[int],
    removable: Collection[int],
    fixed: Sequence[Edge] = (),
) -> list[int]:
    """
    The same for registers that make any number of edges each, given their edges and
    slots, and edges that are of no register.
    """
    edges = [*chain.from_iterable(own), *(OwnEdge(edge, -1) for edge in fixed)]
    implied = ImpliedEdges(tasks, edges, slots, removable)
    return [
        index
        for index in sorted(removable)
        if all(implied.is_implied(edge) for edge in own[index])
    ]


class ImpliedEdges:
    """Says which edges of a marked graph follow from others."""

    def __init__(
        self,
        tasks: int,
        own: Sequence[OwnEdge],
        slots: Sequence[int],
        removable: Collection[int],
    ) -> None:
        self._slots = slots
        self._removable = frozenset(removable)
        self._graph = MarkedGraph(tasks, [x.edge for x in own])
        ends = {x.edge.target for x in own if x.register in self._removable}
        self._bit = {task: 1 << i for i, task in enumerate(sorted(ends))}
        marks = [self._bit.get(task, 0) for task in range(tasks)]
        self._same_act = self._graph.after(marks)
        self._next_act = self._graph.after_up_to_next_act(marks)
        self._first: dict[tuple[int, int], OwnEdge] = {}
        for edge in sorted(own, key=self._rank, reverse=True):
            self._first[edge.edge.source, edge.edge.target] = edge

    def _rank(self, own: OwnEdge) -> tuple[int, bool, int, int]:
        slots = self._slots[own.register] if own.register >= 0 else 0
        is_removable = own.register in self._removable
        return own.edge.tokens, is_removable, slots, own.register

    def is_implied(self, own: OwnEdge) -> bool:
        """
        Whether an edge follows from others. No two follow only from each other: by way
        of a third task an edge follows from edges with fewer tokens, or from one with
        as many between tasks that are nearer to each other in the same act.
        """
        source, target, tokens = own.edge
        if source == target:
            return True
        if self._first[source, target] != own:
            return True
        if tokens > 1:
            return bool(self._next_act[source] & self._bit[target])
        if tokens == 1:
            reached = self._beyond(self._graph.next[source], target, self._next_act)
            one_more = self._graph.next_act[source]
            return reached or self._beyond(one_more, target, self._same_act)
        return self._beyond(self._graph.next[source], target, self._same_act)

    def _beyond(
        self, steps: Sequence[int], target: int, reached: Sequence[int]
    ) -> bool:
        """Whether a target is reached from one of these steps that is not itself."""
        bit = self._bit[target]
        return any(step != target and reached[step] & bit for step in steps)
