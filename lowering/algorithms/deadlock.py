"""
The slots that a plan lacks, so that its tasks never wait for each other in a cycle:
plain functions over numbers, no IR.

An act of a task moves one slot of each register it writes from free to full, and one of
each it reads back to free. So a register whose slots are all free makes its readers
wait for its writer, and one whose slots are all full makes its writer wait for its
readers. Tasks that wait for each other in a cycle of such edges never act. One more
slot takes the second kind of edges away, for all readers of a register at once; two
more take no more away, and nothing but a slot that is full at the start takes one of
the first kind away.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from penstock.lowering.algorithms.graphs import cycle_in

BUDGET = 10_000
"""Sets of registers that the exact search looks at."""


class Register(NamedTuple):
    """A register by the numbers of its writer and readers."""

    writer: int
    readers: Sequence[int]
    slots: int = 1
    initial: int = 0
    """The slots that are full at the start."""


class Wait(NamedTuple):
    """`first` must act before `second` can, because of a register."""

    first: int
    second: int
    register: int


class Increase(NamedTuple):
    """
    The registers that need one more slot each. No fewer than `at_least` do.
    """

    registers: Sequence[int]
    at_least: int

    @property
    def is_least(self) -> bool:
        """Whether it is known that no fewer do."""
        return len(self.registers) == self.at_least


@dataclass
class Waits:
    """The waits between `tasks` tasks at the start."""

    tasks: int
    registers: Sequence[Register]
    following: list[list[Wait]] = field(init=False)
    """For each task what waits for it."""

    def __post_init__(self) -> None:
        self.following = [[] for _ in range(self.tasks)]
        for index, register in enumerate(self.registers):
            for reader in dict.fromkeys(register.readers):
                if register.initial == 0:
                    wait = Wait(register.writer, reader, index)
                    self.following[wait.first].append(wait)
                if index in self.full:
                    wait = Wait(reader, register.writer, index)
                    self.following[wait.first].append(wait)

    @cached_property
    def full(self) -> frozenset[int]:
        """The registers that have no free slot at the start."""
        return frozenset(
            i for i, x in enumerate(self.registers) if x.initial >= x.slots
        )

    def breaks(self, wait: Wait) -> bool:
        """Whether one more slot of its register ends a wait."""
        register = self.registers[wait.register]
        return wait.register in self.full and wait.second == register.writer

    def cycle(self, without: Collection[int] = ()) -> list[Wait] | None:
        """A cycle of waits that remains if some registers have one more slot."""
        left: dict[tuple[int, int], Wait] = {}
        before: list[list[int]] = [[] for _ in range(self.tasks)]
        for wait in (wait for row in self.following for wait in row):
            ends = wait.first, wait.second
            if ends not in left and not (
                wait.register in without and self.breaks(wait)
            ):
                left[ends] = wait
                before[wait.second].append(wait.first)
        if (cycle := cycle_in(before)) is None:
            return None
        return [left[ends] for ends in pairwise((*cycle, cycle[0]))]

    def shortest_through(
        self, register: int, without: Collection[int]
    ) -> list[Wait] | None:
        """A cycle of the fewest waits that one more slot of a register breaks."""
        writer = self.registers[register].writer
        found: list[list[Wait]] = []
        reached = self._paths_from(writer, without)
        for last in (w for row in self.following for w in row):
            if last.register == register and self.breaks(last):
                path = path_to(last.first, writer, reached)
                if path is not None:
                    found.append([*path, last])
        return min(found, key=len, default=None)

    def _paths_from(self, task: int, without: Collection[int]) -> Mapping[int, Wait]:
        """For each task that a task leads to the last wait of a shortest path."""
        reached: dict[int, Wait] = {}
        queue = deque([task])
        while queue:
            for wait in self.following[queue.popleft()]:
                if wait.second in reached or wait.second == task:
                    continue
                if wait.register in without and self.breaks(wait):
                    continue
                reached[wait.second] = wait
                queue.append(wait.second)
        return reached


def path_to(task: int, root: int, reached: Mapping[int, Wait]) -> list[Wait] | None:
    """The waits on the path from a root to a task, if there is one."""
    path: list[Wait] = []
    while task != root:
        if (wait := reached.get(task)) is None:
            return None
        path.append(wait)
        task = wait.first
    return path[::-1]


def hopeless_cycles(waits: Waits) -> Iterator[list[Wait]]:
    """
    Cycles that no slots break. The waits between the tasks of each are left out from
    then on, so that at the end there is none.
    """
    while (cycle := waits.cycle(waits.full)) is not None:
        yield cycle
        members = {wait.first for wait in cycle}
        for task in members:
            waits.following[task] = [
                wait for wait in waits.following[task] if wait.second not in members
            ]


def smallest_increase(
    waits: Waits, sizes: Sequence[int] | None = None, budget: int = BUDGET
) -> Increase:
    """
    The fewest registers that break all cycles with one more slot each; of equally few
    those with the least sum of `sizes`, and of these the first in the list.

    There is no cycle that no slots break. If the exact search would look at more than
    `budget` sets, the increase is one that no register can be left out of, and at most
    as many times as large as the smallest one as there are full registers on a cycle.
    """
    sizes = sizes or [0] * len(waits.registers)
    greedy, at_least = disjoint_cycles(waits)
    exact = HittingSet(waits, sizes, budget).run()
    if exact is not None:
        return Increase(exact, len(exact))
    return Increase(greedy, at_least)


def disjoint_cycles(waits: Waits) -> tuple[list[int], int]:
    """
    Registers that break all cycles, none of which could be left out, and a number of
    cycles that no two have a register in common.
    """
    chosen: dict[int, None] = {}
    cycles = 0
    while (cycle := waits.cycle(chosen)) is not None:
        cycles += 1
        chosen.update(dict.fromkeys(breakers(waits, cycle)))
    kept = dict(chosen)
    for register in reversed(chosen):
        others = kept.keys() - {register}
        if waits.cycle(others) is None:
            del kept[register]
    return sorted(kept), cycles


def breakers(waits: Waits, cycle: Sequence[Wait]) -> list[int]:
    """The registers that break a cycle with one more slot, each once."""
    found = sorted({wait.register for wait in cycle if waits.breaks(wait)})
    assert found, "there are cycles that no slots break"
    return found


class HittingSet:
    """
    The exact search. Every cycle that was found needs one of its registers; the best
    set for these cycles either breaks all others too, or shows one more.
    """

    def __init__(self, waits: Waits, sizes: Sequence[int], budget: int) -> None:
        self._waits = waits
        self._sizes = sizes
        self._budget = budget
        self._cycles: list[list[int]] = []

    def run(self) -> list[int] | None:
        """The best registers; None if the budget does not last."""
        chosen: tuple[int, ...] = ()
        while (cycle := self._waits.cycle(set(chosen))) is not None:
            self._cycles.append(breakers(self._waits, cycle))
            if (best := self._best()) is None:
                return None
            chosen = best
        return list(chosen)

    def _best(self) -> tuple[int, ...] | None:
        """The best set for the cycles so far, by depth-first branch and bound."""
        best: tuple[int, ...] | None = None
        pending: list[tuple[frozenset[int], frozenset[int]]] = [
            (frozenset(), frozenset())
        ]
        while pending:
            chosen, refused = pending.pop()
            self._budget -= 1
            if self._budget < 0:
                return None
            if best is not None and len(chosen) + self._rest(chosen) > len(best):
                continue
            cycle = next((c for c in self._cycles if chosen.isdisjoint(c)), None)
            if cycle is None:
                found = tuple(sorted(chosen))
                if best is None or self._rank(found) < self._rank(best):
                    best = found
                continue
            # Whoever takes the n-th register of a cycle refuses those before it.
            able = [register for register in cycle if register not in refused]
            for position in range(len(able) - 1, -1, -1):
                branch = chosen | {able[position]}
                pending.append((branch, refused.union(able[:position])))
        return best

    def _rank(self, chosen: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
        return len(chosen), sum(self._sizes[i] for i in chosen), chosen

    def _rest(self, chosen: frozenset[int]) -> int:
        """A number of cycles that have neither a chosen register nor a common one."""
        used: set[int] = set()
        count = 0
        for cycle in self._cycles:
            if chosen.isdisjoint(cycle) and used.isdisjoint(cycle):
                used.update(cycle)
                count += 1
        return count


def cycle_of_each(waits: Waits, increase: Increase) -> list[tuple[int, list[Wait]]]:
    """Each register that needs a slot, with a cycle that no other of them breaks."""
    result: list[tuple[int, list[Wait]]] = []
    for register in increase.registers:
        cycle = waits.shortest_through(register, {*increase.registers} - {register})
        assert cycle is not None, "none of the registers could be left out"
        result.append((register, cycle))
    return result
