"""
Rules of `verify-plan` about bytes that registers share in plans with rates.

Each act of a launch counts as one of its own, and each piece of a register too. The
waits of an act follow from its number. In its n-th act a reader, with `taken` acts for
a piece, needs piece n / taken. This piece is there after as many acts of the writer as
that and all earlier pieces take, less those that were there at the start. A writer
needs the slot that the readers of an earlier piece have left. All slots of a register
count as one.

Registers that lie over each other because of aliases have the same slots, piece by
piece: all users of a piece of the earlier one come before the act that overwrites it,
or are that act, and all users of the new bytes before the act that writes the next
piece in the same slot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from math import gcd

from penstock.dialects.regst import RegisterOp
from penstock.lowering.algorithms.marked_graph import (
    Edge,
    MarkedGraph,
    Storage,
    clashes,
)
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

    def pieces(self, register: RegisterOp, storage: Storage) -> list[Storage]:
        """The bytes of a register for each of its pieces, with the acts that use it."""
        users, writer = storage.users, storage.writer
        count = gcd(*(self.turns[user] for user in users))
        count = gcd(count, self.count(register)) if writer is not None else 1
        return [
            storage._replace(
                writer=None if writer is None else self.acts_for(writer, i, count)[0],
                users=[act for user in users for act in self.acts_for(user, i, count)],
            )
            for i in range(max(1, count))
        ]

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


def clashing(
    acts: ActGraph, stored: Mapping[RegisterOp, Storage]
) -> list[tuple[RegisterOp, RegisterOp]]:
    """The pairs of registers that share bytes and may be in use together."""
    listed = list(stored)
    owner: list[int] = []
    storages: list[Storage] = []
    for number, (register, storage) in enumerate(stored.items()):
        if storage.start < storage.end:
            pieces = acts.pieces(register, storage)
            storages += pieces
            owner += [number] * len(pieces)
    found = {(owner[i], owner[j]) for i, j in clashes(acts.graph, storages)}
    return [(listed[i], listed[j]) for i, j in sorted(found) if i != j]


def meet(
    acts: ActGraph,
    one: tuple[RegisterOp, Storage],
    other: tuple[RegisterOp, Storage],
) -> bool:
    """Whether some uses of two registers, of which bytes are shared, may meet."""
    return bool(clashing(acts, dict((one, other))))


def badly_overwritten(
    plan_graph: PlanGraph,
    acts: ActGraph,
    stored: Mapping[RegisterOp, Storage],
    pair: tuple[RegisterOp, RegisterOp],
) -> bool:
    """
    Whether of two registers with common bytes, because of aliases, none is always
    overwritten by the last act that uses it.
    """
    if any(stored[register].writer is None for register in pair):
        return any(plan_graph.root(r) is not r.register for r in pair)
    return not any(
        _takes_turns(plan_graph, acts, stored, *order) for order in (pair, pair[::-1])
    )


def _takes_turns(
    plan_graph: PlanGraph,
    acts: ActGraph,
    stored: Mapping[RegisterOp, Storage],
    under: RegisterOp,
    over: RegisterOp,
) -> bool:
    """Whether the second of two registers is what overwrites the first, each time."""
    below = acts.pieces(under, plan_graph.storage_against(under, stored[over]))
    above = acts.pieces(over, plan_graph.storage_against(over, stored[under]))
    slots = plan_graph.facts[under].slots
    if len(below) != len(above) or plan_graph.facts[over].slots != slots:
        return False
    for piece, (first, second) in enumerate(zip(below, above, strict=True)):
        launches, following = divmod(piece + slots, len(below))
        if not _come_before(acts, first.users, second.writer, 0):
            return False
        if not _come_before(acts, second.users, below[following].writer, launches):
            return False
    return True


def _come_before(
    acts: ActGraph, users: Sequence[int], writer: int | None, launches: int
) -> bool:
    """Whether acts are over before another one, so many launches later, or are it."""
    assert writer is not None, "has been checked"
    return all(
        (user == writer and launches == 0) or acts.graph.reaches(user, writer, launches)
        for user in users
    )
