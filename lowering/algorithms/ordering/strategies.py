"""
Ways to order tasks. None of them needs more bytes than the source order, except for
`overlap_order`, which is about time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain, pairwise
from operator import le
from typing import NamedTuple

from penstock.lowering.algorithms.ordering.limits import limit_of_tasks, lower_limit
from penstock.lowering.algorithms.ordering.problem import (
    Order,
    Problem,
    live_profile,
    peak_of,
    peaks_of,
    positions,
    segments,
)
from penstock.lowering.algorithms.ordering.search import Found, Search, Stretch
from penstock.lowering.algorithms.ordering.sweep import (
    Key,
    Sweep,
    by_effect,
    by_place,
    by_recency,
    by_release,
)

DEFAULT_BUDGET = 300_000
"""
The number of effects of tasks that a search may look at by default: about a second.
"""

LARGEST_SEARCH = 4096
"""
The largest number of tasks that are searched together; more would only burn the budget.
"""

WINDOWS = (8, 16, 32, 64, 128, 256)
"""The numbers of tasks around the fullest step that are reordered together."""

PER_WINDOW = 25_000
"""The part of the budget that may be spent on one window."""

STEPS = 50
"""A better order of a window is as good as the best one if it is one part better."""

ROUNDS = 4
"""
The largest number of times that tasks which free and make bytes are moved to and fro.
"""


################################################################################
# Orders found in one go                                                       #
################################################################################


def early_order(problem: Problem) -> Order:
    """
    The source order, but what frees at least as much as it makes, or adds next to
    nothing, runs as soon as it can without more bytes alive than there are in the
    source order at some step. If some memory needs more then, while another one needs
    less, it is the source order.
    """
    return if_no_worse(problem, swept(problem, problem.source, backward=False))


def if_no_worse(problem: Problem, order: Order) -> Order:
    """An order if no memory needs more than in the source order, else that one."""
    peaks = peaks_of(problem, order), peaks_of(problem, problem.source)
    return order if all(map(le, *peaks)) else problem.source


def swept(problem: Problem, order: Sequence[int], backward: bool) -> Order:
    """An order with what frees moved forward, or what makes moved backward."""
    key = by_place(order[::-1] if backward else order)
    return Sweep(problem, key, peak_of(problem, order), backward).run()


def overlap_order(problem: Problem, is_copy: Sequence[bool]) -> Order:
    """The source order, but each copy runs as soon as what it reads is there."""
    missing = [len(earlier) for earlier in problem.before]
    order: Order = []
    is_done = [False] * len(missing)
    for first in problem.source:
        stack = [] if is_done[first] else [first]
        while stack:
            task = stack.pop()
            is_done[task] = True
            order.append(task)
            for later in problem.after[task]:
                missing[later] -= 1
            ready = [t for t in problem.after[task] if is_copy[t] and not missing[t]]
            stack.extend(reversed(ready))
    return order


def depth_first_order(problem: Problem) -> Order:
    """
    Each task right after all that it needs, of which that runs first whose peak is
    highest above what it leaves, as is best in trees.
    """
    need = [0] * len(problem.tasks)
    made = [sum(problem.sizes[v] for v in task.makes) for task in problem.tasks]
    wants: list[list[int]] = []
    for task in problem.source:
        earlier = sorted(problem.before[task], key=lambda t: (made[t] - need[t], t))
        left = [0, *accumulate(made[other] for other in earlier)]
        below = [kept + need[t] for kept, t in zip(left, earlier, strict=False)]
        need[task] = max([left[-1] + made[task], *below])
        wants.append(earlier)
    return depth_first(wants, [t for t in problem.source if not problem.after[t]])


def depth_first(wants: Sequence[Sequence[int]], ends: Sequence[int]) -> Order:
    """The tasks that the ends want, each after those that it wants, in their order."""
    order: Order = []
    is_seen = [False] * len(wants)
    stack = [(end, False) for end in reversed(ends)]
    while stack:
        task, is_left = stack.pop()
        if is_left:
            order.append(task)
        elif not is_seen[task]:
            is_seen[task] = True
            stack.append((task, True))
            stack.extend((other, False) for other in reversed(wants[task]))
    return order


def settled(problem: Problem, order: Order, forward: Order | None = None) -> Order:
    """
    An order with what frees moved forward and what makes moved backward, in turn, for
    as long as that lowers the fullest step. The first move forward may be known.
    """
    peak = peak_of(problem, order)
    for _ in range(ROUNDS):
        forward = forward or swept(problem, order, backward=False)
        order, forward = swept(problem, forward, backward=True), None
        before, peak = peak, peak_of(problem, order)
        if peak >= before:
            break
    return order


def simple_orders(problem: Problem, floor: int) -> Iterator[Order]:
    """Orders to choose from, as they are asked for: first those near the source."""
    forward = swept(problem, problem.source, backward=False)
    yield if_no_worse(problem, forward)
    yield settled(problem, problem.source, forward)
    keys: tuple[Key, ...] = (by_effect, by_recency, by_release)
    for key in keys:
        yield Sweep(problem, key, floor).run()
    yield Sweep(problem, by_effect, floor, backward=True).run()
    yield settled(problem, depth_first_order(problem))


################################################################################
# The least memory                                                             #
################################################################################


class Piece(NamedTuple):
    """The tasks of a group in an order, and the bytes of its fullest step."""

    order: Order
    peak: int


class Timeline:
    """An order with the live bytes at each step, of which stretches can be replaced."""

    def __init__(self, problem: Problem, order: Order) -> None:
        self.problem = problem
        self.order = order
        self.profile = live_profile(problem, order)
        self._position = positions(order)

    @property
    def peak(self) -> int:
        """The bytes of the fullest step."""
        return max(self.profile, default=0)

    def stretch(self, start: int, end: int) -> Stretch:
        """The tasks from one step to before another one."""
        tasks = self.order[start:end]
        users = self.problem.users
        values = dict.fromkeys(v for task in tasks for v in self.problem.uses[task])
        started = {
            value: sum(self._position[user] < start for user in users[value])
            for value in values
        }
        stretch = Stretch(self.problem, tasks, 0, started)
        stretch.live = self.profile[start] - stretch.effect(0, 0).rise
        return stretch

    def replace(self, start: int, order: Order) -> None:
        """Put tasks in another order, the first of which is then at `start`."""
        end = start + len(order)
        old = self.stretch(start, end)
        new = Stretch(self.problem, order, old.live, old.started)
        self.order[start:end] = order
        self.profile[start:end] = new.profile()
        for step, task in enumerate(order, start):
            self._position[task] = step


class Improver:
    """Orders the tasks of a problem, as well as a budget allows."""

    def __init__(self, problem: Problem, budget: int) -> None:
        self.problem = problem
        self.floor = limit_of_tasks(problem)
        self._budget = budget
        self._groups = segments(problem)
        self._group_of = [0] * len(problem.tasks)
        for number, tasks in enumerate(self._groups):
            for task in tasks:
                self._group_of[task] = number

    def run(self) -> Order:
        """
        The best order that was found. Groups that are no obstacle keep their order.
        """
        line = Timeline(self.problem, self._choose())
        if line.peak > self.floor:
            self._raise_floor(line)
            self._search_windows(line)
            self._search_groups(line)
        source = self._pieces(self.problem.source)
        pieces = zip(source, self._pieces(line.order), strict=True)
        return flat(
            old if peak <= line.peak else new for (old, peak), (new, _) in pieces
        )

    def _pieces(self, order: Sequence[int]) -> list[Piece]:
        """An order, taken apart by groups."""
        orders: list[Order] = [[] for _ in self._groups]
        for task in order:
            orders[self._group_of[task]].append(task)
        steps = iter(live_profile(self.problem, flat(orders)))
        return [Piece(tasks, max(next(steps) for _ in tasks)) for tasks in orders]

    def _choose(self) -> Order:
        """The best order of each group among all simple orders."""
        best = self._pieces(self.problem.source)
        for order in simple_orders(self.problem, self.floor):
            if max((piece.peak for piece in best), default=0) <= self.floor:
                break
            pieces = zip(best, self._pieces(order), strict=True)
            best = [min(pair, key=lambda piece: piece.peak) for pair in pieces]
        return flat(piece.order for piece in best)

    def _raise_floor(self, line: Timeline) -> None:
        """See what is alive in all orders at the fullest steps."""
        steps = sorted(range(len(line.order)), key=lambda step: -line.profile[step])
        self.floor = lower_limit(self.problem, [line.order[step] for step in steps])

    def _search_groups(self, line: Timeline) -> None:
        """Find the best order of each group that is above the floor."""
        starts = [0, *accumulate(map(len, self._groups))]
        peaks = [max(line.profile[start:end]) for start, end in pairwise(starts)]
        for number in sorted(range(len(peaks)), key=lambda n: -peaks[n]):
            if peaks[number] <= self.floor or self._budget <= 0:
                break
            start, end = starts[number], starts[number + 1]
            if end - start <= LARGEST_SEARCH:
                found = self._search(line, start, end, self.floor, self._budget)
                self.floor = max(self.floor, found.limit)

    def _search(
        self, line: Timeline, start: int, end: int, floor: int, budget: int
    ) -> Found:
        """Find a better order of some steps, and use it."""
        stretch = line.stretch(start, end)
        ceiling = max(line.profile[start:end])
        found = Search(stretch, floor, ceiling).run(budget)
        self._budget -= stretch.evaluations + len(stretch.tasks)
        if found.order is not None:
            line.replace(start, found.order)
        return found

    def _search_windows(self, line: Timeline) -> None:
        """Find better orders around the fullest step, in ever wider windows."""
        widths = iter(WINDOWS)
        width = next(widths, None)
        while width and self._budget > 0 and (peak := line.peak) > self.floor:
            start = max(0, line.profile.index(peak) - width // 2)
            end = min(len(line.order), start + width)
            aim = max(self.floor, peak - peak // STEPS)
            found = self._search(line, start, end, aim, min(self._budget, PER_WINDOW))
            if found.order is not None:
                widths = iter(WINDOWS)
            width = next(widths, None)


def flat(orders: Iterable[Order]) -> Order:
    """Orders one after the other."""
    return list(chain.from_iterable(orders))


def memory_order(problem: Problem, budget: int = DEFAULT_BUDGET) -> tuple[Order, int]:
    """
    An order whose fullest step has as few bytes as can be found, in no memory more than
    in the source order, and a number of bytes that no order does without.
    """
    improver = Improver(problem, budget)
    source = peaks_of(problem, problem.source)
    finders = improver.run, partial(early_order, problem)
    for order in (find() for find in finders):
        found = peaks_of(problem, order)
        if sum(found) < sum(source) and all(map(le, found, source)):
            return order, improver.floor
    return problem.source, improver.floor
