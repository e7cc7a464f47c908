"""
The acts of tasks in a launch of a plan with rates, for the rules of `verify-plan`.

Each act of a launch counts as one of its own, and each piece of a register too. The
waits of an act follow from its number. In its n-th act a reader, with `taken` acts for
a piece, needs piece n / taken. This piece is there after as many acts of the writer as
that and all earlier pieces take, less those that were there at the start. A writer
needs the slot that the readers of an earlier piece have left.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from math import gcd

from penstock.dialects.regst import RegisterOp
from penstock.lowering.algorithms.marked_graph import Edge, MarkedGraph
from penstock.lowering.verify.plan_rules.graph import PlanGraph

MOST_ACTS = 1 << 14
"""Of more acts in a launch all those of a task count as one."""


def is_unrolled(plan_graph: PlanGraph) -> bool:
    """Whether each act of a launch is looked at."""
    rates = plan_graph.rates
    acts = sum(rates.turns[task] for task in plan_graph.tasks)
    return rates.is_rated and acts <= MOST_ACTS


class ActGraph:
    """The acts of a plan's tasks in one launch, as a marked graph."""

    def __init__(self, plan_graph: PlanGraph) -> None:
        self._plan = plan_graph
        turns = plan_graph.rates.turns
        self.turns = [turns[task] for task in plan_graph.tasks]
        *self.first, count = accumulate(self.turns, initial=0)
        self.graph = MarkedGraph(count, [*self._own_edges(), *self._edges()])

    def count(self, register: RegisterOp) -> int:
        """The pieces of a register in a launch."""
        writer = self._plan.writer[register]
        made = self._plan.rates.every(self._plan.tasks[writer])
        return self.turns[writer] // made.get(register.register, 1)

    def _own_edges(self) -> Iterator[Edge]:
        for first, acts in zip(self.first, self.turns, strict=True):
            for act in range(acts):
                follows = act + 1 == acts
                yield Edge(first + act, first + (act + 1) % acts, int(follows))

    def _edges(self) -> Iterator[Edge]:
        plan = self._plan
        for register, holders in plan.holders.items():
            if (writer := plan.writer.get(register)) is None or plan.is_main[writer]:
                continue
            count, facts = self.count(register), plan.facts[register]
            for holder in holders:
                if not plan.is_main[holder] and self.turns[holder] % count == 0:
                    ends = (writer, holder), self.turns[writer] // count
                    yield from self._after(*ends, facts.initial, count)
                    ends = (holder, writer), self.turns[holder] // count
                    yield from self._after(*ends, facts.slots - facts.initial, count)

    def _after(
        self, ends: tuple[int, int], length: int, spare: int, count: int
    ) -> Iterator[Edge]:
        """
        That acts of the second of two tasks wait for the first, which takes `length`
        acts for each of `count` pieces, of which so many are there without it.
        """
        source, target = ends
        for act in range(0, self.turns[target], self.turns[target] // count):
            piece = act // (self.turns[target] // count)
            over = (piece - spare + 1) * length - 1
            launches, last = divmod(over, self.turns[source])
            yield Edge(self.first[source] + last, self.first[target] + act, -launches)

    def acts_for(self, task: int, piece: int, count: int) -> range:
        """The acts of a task for one of so many pieces."""
        length = self.turns[task] // count
        first = self.first[task] + piece * length
        return range(first, first + length)


class ActOrder:
    """Whether tasks use a variable before it is written, and again only after that."""

    def __init__(self, acts: ActGraph) -> None:
        self._acts = acts

    def comes_before(self, user: int, update: int) -> bool:
        """Whether all acts of a task for an update are over when it begins."""
        count = self._count(user, update)
        return all(
            self._reaches(
                self._acts.acts_for(user, piece, count)[-1],
                self._acts.acts_for(update, piece, count)[0],
                0,
            )
            for piece in range(count)
        )

    def comes_again_after(self, user: int, update: int) -> bool:
        """Whether an update is over when the task acts again after it."""
        count = self._count(user, update)
        return all(
            self._reaches(
                self._acts.acts_for(update, piece, count)[-1],
                self._acts.acts_for(user, (piece + 1) % count, count)[0],
                int(piece + 1 == count),
            )
            for piece in range(count)
        )

    def _count(self, user: int, update: int) -> int:
        return gcd(self._acts.turns[user], self._acts.turns[update])

    def _reaches(self, source: int, target: int, launches: int) -> bool:
        return self._acts.graph.reaches(source, target, launches)
