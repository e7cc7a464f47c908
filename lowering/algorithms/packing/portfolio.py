"""
The portfolio of packing algorithms: rules first, then branch and bound; the best layout
is taken.

Buffers fall into parts that have no conflict with each other; the highest part is
worked on, until none is higher than the highest bound of a part. Small problems that
are soon solved are solved by Python, others by compiled functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from penstock.lowering.algorithms.packing import compiled_greedy as insertion
from penstock.lowering.algorithms.packing.branch_and_bound import SLICE, Ladder
from penstock.lowering.algorithms.packing.budget import Budget
from penstock.lowering.algorithms.packing.compiled import (
    NONE,
    Numbers,
    numbers_of,
    table_of,
    use_machine_code,
)
from penstock.lowering.algorithms.packing.greedy import ORDERS, Order, by_size
from penstock.lowering.algorithms.packing.problem import Lifetime, Problem
from penstock.lowering.algorithms.packing.tables import (
    Tables,
    columns,
    joined,
    parts_of,
)

QUICK_CONFLICTS = 1 << 20
"""With up to so many conflicts, `compact-insert` takes up to some 0.3 s."""

PLAIN_BUFFERS = 256
"""With up to so many buffers, Python takes up to some 0.5 s for all rules."""

MOVING = 1 << 20
"""The steps of a local search after which it looks at its budget."""

SMALL = Problem(
    [Lifetime(0, 0, 2), Lifetime(0, 2, 1), Lifetime(2, 2, 2), Lifetime(1, 1, 1)]
)
"""
A problem that is packed to load compiled functions, or to compile them at the first
time.
"""


@cache
def warm_up() -> None:
    """Load, or compile for all processes, what `improve` needs."""
    use_machine_code()
    tables = Tables(SMALL)
    for _ in laid_out_by_rules(tables):
        pass
    for _ in Ladder(tables, 6, tables.problem.bound).slices():
        pass


@cache
def warm_up_local_search() -> None:
    """Load what `local_search` needs."""
    use_machine_code()
    local_search(SMALL, Budget(steps=1))


class Part:
    """Buffers of a problem that are laid out on their own."""

    def __init__(
        self, problem: Problem, indices: Sequence[int], offsets: Sequence[int]
    ):
        place = {index: i for i, index in enumerate(indices)}
        self.indices = indices
        self.problem = Problem(
            [problem.lifetimes[i] for i in indices],
            problem.alignment,
            [
                (place[i], place[j])
                for i, j in problem.further_conflicts
                if i in place and j in place
            ],
        )
        self.offsets = [offsets[i] for i in indices]
        self.peak = self.problem.peak(self.offsets)
        self._tables = Tables(self.problem)

    def follow_rules(self, enough: int, budget: Budget) -> None:
        """Try one rule after the other, until the layout is low enough."""
        layouts = laid_out_by_rules(self._tables)
        while self.peak > enough and not budget.is_over:
            if (offsets := next(layouts, None)) is None:
                break
            self._keep(offsets)

    def search(self, bound: int, capacity: int | None) -> Iterator[int]:
        """
        Lower the layout, and stop for a moment after some steps, whose number is handed
        out; until it cannot be lowered, or is as low as the bound or the capacity.
        """
        ladder = Ladder(self._tables, self.peak, bound, capacity)
        for steps in ladder.slices():
            if ladder.offsets is not None:
                self._keep(ladder.offsets)
            yield steps

    def _keep(self, offsets: list[int]) -> None:
        """Keep a layout if it is lower."""
        if (peak := self.problem.peak(offsets)) < self.peak:
            self.offsets, self.peak = offsets, peak


def improve(
    problem: Problem, offsets: Sequence[int], budget: Budget, *, rules: bool
) -> list[int]:
    """
    A layout that is lower than a given one, where one is found. Rules take no steps off
    the budget.
    """
    parts = [Part(problem, indices, offsets) for indices in parts_of(problem)]
    enough = max(problem.bound, budget.capacity or 0)
    if max(len(part.indices) for part in parts) > PLAIN_BUFFERS:
        compile_functions(budget)
    for part in parts if rules else ():
        part.follow_rules(enough, budget)
    searches = [part.search(problem.bound, budget.capacity) for part in parts]
    done = 0
    while not budget.is_spent:
        highest = max(range(len(parts)), key=lambda i: parts[i].peak)
        if parts[highest].peak <= enough:
            break
        if (steps := next(searches[highest], None)) is None:
            break
        budget.spend(steps)
        done += steps
        if done >= SLICE:
            compile_functions(budget)
    best = list(offsets)
    for part in parts:
        for index, offset in zip(part.indices, part.offsets, strict=True):
            best[index] = offset
    return best


def compile_functions(budget: Budget) -> None:
    """Go on by machine code, which takes no time off the budget."""
    with budget.clock_stopped():
        warm_up()


################################################################################
# Rules                                                                        #
################################################################################


def layout_of(tables: Tables) -> insertion.Layout:
    """An empty sequence."""
    count = len(tables.sizes)
    links, ends = joined(tables.neighbours)
    items = table_of(insertion.Item, count)
    table = columns(items)
    table["size"], table["place"] = tables.sizes, NONE
    table["links_from"], table["links_to"] = ends[:-1], ends[1:]
    lengths = count, count + 1, 2
    rows = (numbers_of(np.zeros(length, np.int64)) for length in lengths)
    return insertion.Layout(items, links, *rows)


def heads_of(tables: Tables, layout: insertion.Layout) -> list[int]:
    """The offsets that the heads of a layout stand for."""
    return tables.offsets_of(columns(layout.items)["head"])


def ordered(tables: Tables, order: Order) -> Numbers:
    """The buffers with bytes in some order."""
    place = {index: i for i, index in enumerate(tables.indices)}
    indices = (place[i] for i in order(tables.problem) if i in place)
    return numbers_of(np.fromiter(indices, np.int64, len(place)))


def laid_out_by_rules(tables: Tables) -> Iterator[list[int]]:
    """The layouts of all orders and fits, and of `compact-insert` if it is quick."""
    layout = layout_of(tables)
    for order in ORDERS:
        indices = ordered(tables, order)
        for best_fit in (False, True):
            insertion.place_in_order(
                layout.items, layout.links, indices, layout.sequence, best_fit
            )
            yield heads_of(tables, layout)
    if len(layout.links) <= QUICK_CONFLICTS:
        insertion.insert_in_order(layout, ordered(tables, by_size))
        yield heads_of(tables, layout)


def compact_insert(problem: Problem, budget: Budget) -> list[int]:
    """
    Largest first, each is put in between others where the layout gets least high; what
    is above moves up.
    """
    tables = Tables(problem)
    if not tables.indices:
        return [0] * len(problem.sizes)
    if len(tables.indices) > PLAIN_BUFFERS:
        compile_functions(budget)
    layout = layout_of(tables)
    insertion.insert_in_order(layout, ordered(tables, by_size))
    return heads_of(tables, layout)


def local_search(problem: Problem, budget: Budget) -> list[int]:
    """
    From the layout of `compact-insert`, what the height is due to is moved elsewhere,
    again and again.
    """
    tables = Tables(problem)
    if not tables.indices:
        return [0] * len(problem.sizes)
    layout = layout_of(tables)
    insertion.insert_in_order(layout, ordered(tables, by_size))
    enough = max(problem.bound, budget.capacity or 0) // tables.unit
    best = numbers_of(np.fromiter(layout.sequence, np.int64))
    # A move looks at each conflict up to four times, but quickly.
    steps = len(layout.links) + len(best)
    moves = max(1, MOVING // steps)
    while not budget.is_spent:
        if insertion.move_buffers(layout, best, enough, moves) <= enough:
            break
        budget.spend(moves * steps)
    insertion.restore(layout, best)
    return heads_of(tables, layout)
