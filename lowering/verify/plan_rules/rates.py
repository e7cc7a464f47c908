"""
The acts of tasks in a launch of a plan with rates, for the rules of `verify-plan`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from penstock.dialects.regst import RegisterOp
from penstock.lowering.algorithms.marked_graph import Edge, MarkedGraph
from penstock.lowering.verify.plan_rules.graph import PlanGraph
from penstock.lowering.verify.shared_rules.unrolled import Unrolled

MOST_ACTS = 1 << 14
"""Of more acts in a launch all those of a task count as one."""


def is_unrolled(plan_graph: PlanGraph) -> bool:
    """Whether each act of a launch is looked at."""
    rates = plan_graph.rates
    acts = sum(rates.repetitions[task] for task in plan_graph.tasks)
    return rates.is_rated and acts <= MOST_ACTS


class ActGraph(Unrolled):
    """The acts of a plan's tasks in one launch, as a marked graph."""

    def __init__(self, plan_graph: PlanGraph) -> None:
        repetitions = plan_graph.rates.repetitions
        super().__init__([repetitions[task] for task in plan_graph.tasks])
        self._plan = plan_graph
        self.graph = MarkedGraph(self.size, [*self.own_edges(), *self._edges()])

    def count(self, register: RegisterOp) -> int:
        """The pieces of a register in a launch."""
        writer = self._plan.writer[register]
        made = self._plan.rates.every(self._plan.tasks[writer])
        return self.repetitions[writer] // made.get(register.register, 1)

    def _edges(self) -> Iterator[Edge]:
        plan = self._plan
        for register, holders in plan.holders.items():
            if (writer := plan.writer.get(register)) is None or plan.is_main[writer]:
                continue
            count, facts = self.count(register), plan.facts[register]
            free = facts.slots - facts.initial
            for holder in holders:
                if not plan.is_main[holder] and self.repetitions[holder] % count == 0:
                    yield from self.edges(writer, holder, count, facts.initial, free)


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
        return gcd(self._acts.repetitions[user], self._acts.repetitions[update])

    def _reaches(self, source: int, target: int, launches: int) -> bool:
        return self._acts.graph.reaches(source, target, launches)
