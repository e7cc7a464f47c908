"""
All acts of the programs of several ranks as one marked graph: cycles without a token,
and the fewest slots that break all of them.

Both ends of a message act together, so they are one actor. An actor makes some acts in
an iteration, one after the other. A register has some pieces in an iteration, each of
which lasts for as many acts of its writer, and of its reader; its slots are full or
free at the start. One more slot lets a writer go on one piece earlier.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from penstock.lowering.algorithms.marked_graph import Edge, MarkedGraph
from penstock.lowering.verify.shared_rules.unrolled import Unrolled

BUDGET = 200
"""Sets of slots that the search for the fewest looks at."""


class Link(NamedTuple):
    """A register from a writer to a reader, by number, with its slots at the start."""

    writer: int
    reader: int
    register: int
    pieces: int
    full: int
    free: int


class Wait(NamedTuple):
    """An actor that another one waits for, or itself in its next act."""

    first: int
    link: Link | None
    is_for_slot: bool
    """Whether what it waits for is a free slot, not a full one."""


Cycle: TypeAlias = "Sequence[Wait]"


class Increase(NamedTuple):
    """More slots of registers that break all cycles. No fewer than `at_least` do."""

    more: Mapping[int, int]
    at_least: int

    @property
    def is_least(self) -> bool:
        """Whether it is known that no fewer do."""
        return sum(self.more.values()) == self.at_least


class JointGraph:
    """
    Actors by number, each with its acts in an iteration, and the registers between.
    """

    def __init__(self, acts: Sequence[int], links: Sequence[Link]) -> None:
        self._acts, self._links = Unrolled(acts), links
        self._actor = [actor for actor, n in enumerate(acts) for _ in range(n)]

    def cycles(self, more: Mapping[int, int] | None) -> list[Cycle]:
        """
        The cycles without a token with so many more slots of registers, no two with a
        common act; None stands for as many as could be.
        """
        waits: dict[tuple[int, int], Wait] = {}
        for edge in self._acts.own_edges():
            if edge.tokens == 0:
                waits[edge[:2]] = Wait(self._actor[edge.source], None, False)
        # Where two registers make one actor wait for another, no slot of one ends it.
        for is_for_slot in (False, True):
            for link in self._links:
                slots = 0 if more is None else more.get(link.register, 0)
                if is_for_slot and more is None:
                    continue
                for ends in self._edges(link, slots, is_for_slot):
                    wait = Wait(self._actor[ends[0]], link, is_for_slot)
                    waits.setdefault(ends, wait)
        graph = MarkedGraph(self._acts.size, [Edge(*ends, 0) for ends in waits])
        return [
            [waits[ends] for ends in zip(cycle, (*cycle[1:], cycle[0]), strict=True)]
            for cycle in graph.cycles
        ]

    def _edges(
        self, link: Link, more: int, is_for_slot: bool
    ) -> Iterator[tuple[int, int]]:
        """The waits without a token, for pieces or for slots, between single acts."""
        before = link.free + more if is_for_slot else link.full
        first, second = link.writer, link.reader
        if is_for_slot:
            first, second = second, first
        of = self._acts.acts_for
        for piece in range(max(0, before), link.pieces):
            done = of(first, piece - before, link.pieces)[-1]
            yield done, of(second, piece, link.pieces)[0]


def smallest_increase(graph: JointGraph, budget: int = BUDGET) -> Increase:
    """
    The fewest slots that break all cycles of a graph, none of which is one that no
    slots break. If the search would look at more than `budget` sets, each of the slots
    is needed, but others may be fewer.
    """
    pending: deque[tuple[int, ...]] = deque([()])
    seen: set[tuple[int, ...]] = {()}
    while pending:
        chosen = pending.popleft()
        more = {register: chosen.count(register) for register in chosen}
        if not (cycles := graph.cycles(more)):
            return Increase(more, len(chosen))
        budget -= 1
        if budget < 0:
            return Increase(enough(graph), len(chosen))
        # One of the slots on a cycle has to be among the fewest.
        for register in breakers(cycles[0]):
            larger = tuple(sorted((*chosen, register)))
            if larger not in seen:
                seen.add(larger)
                pending.append(larger)
    raise AssertionError("a cycle that no slots break")


def enough(graph: JointGraph) -> dict[int, int]:
    """Slots that break all cycles, of each register as few as the others allow."""
    more: dict[int, int] = {}
    while cycles := graph.cycles(more):
        for register in breakers(cycles[0]):
            more[register] = max(1, 2 * more.get(register, 0))
    for register in reversed([*more]):
        low, high = 0, more[register]
        while low < high:
            middle = (low + high) // 2
            if graph.cycles({**more, register: middle}):
                low = middle + 1
            else:
                high = middle
        more[register] = low
    return {register: count for register, count in more.items() if count}


def breakers(cycle: Cycle) -> list[int]:
    """The registers that break a cycle with more slots, in order."""
    found = (x.link.register for x in cycle if x.link is not None and x.is_for_slot)
    return sorted(set(found))
