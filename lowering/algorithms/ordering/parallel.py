"""
Orders of tasks that run on several devices, or copy while others compute: what counts
is not only how many bytes are alive, but also when the last task ends.

Times are those of a simulation: the tasks of each lane run in the order, each as soon
as its lane is free and those it waits for have ended
(`lowering/algorithms/list_scheduling.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from operator import le
from typing import NamedTuple

from penstock.lowering.algorithms.list_scheduling import (
    Dispatch,
    Job,
    by_level,
    in_order,
)
from penstock.lowering.algorithms.ordering.problem import (
    Order,
    Problem,
    Task,
    Value,
    peaks_of,
    positions,
)
from penstock.lowering.algorithms.ordering.strategies import (
    early_order,
    flat,
    memory_order,
    overlap_order,
)


class Candidate(NamedTuple):
    """An order, the bytes of the fullest step of each memory, and when it ends."""

    order: Order
    peaks: Sequence[int]
    makespan: int

    @property
    def bytes(self) -> int:
        """The bytes of all memories."""
        return sum(self.peaks)


def candidates_of(
    problem: Problem, jobs: Sequence[Job], orders: Iterable[Order]
) -> Iterator[Candidate]:
    """
    The candidates of orders of a problem whose tasks are jobs that have one lane each.
    """
    for order in orders:
        makespan = in_order(jobs, order).makespan
        yield Candidate(order, peaks_of(problem, order), makespan)


################################################################################
# Several devices                                                              #
################################################################################


class Part(NamedTuple):
    """
    A task's part of a computation, and its device; tasks whose part is None are alone.
    """

    does: Hashable | None
    device: Hashable


def groups_of(problem: Problem, parts: Sequence[Part]) -> list[list[int]]:
    """
    The tasks in groups of such that do the same on different devices: those that follow
    each other in the source order, do not wait for each other and make as many values.
    """
    groups: list[list[int]] = []
    for task, part in enumerate(parts):
        if groups and part.does is not None and fits(problem, parts, groups[-1], task):
            groups[-1].append(task)
        else:
            groups.append([task])
    return groups


def fits(
    problem: Problem, parts: Sequence[Part], group: Sequence[int], task: int
) -> bool:
    """Whether a task is one more part of what a group does."""
    first = group[0]
    return (
        parts[first].does == parts[task].does
        and len(problem.tasks[first].makes) == len(problem.tasks[task].makes)
        and all(parts[other].device != parts[task].device for other in group)
        and not set(problem.before[task]).intersection(group)
    )


def contracted(problem: Problem, groups: Sequence[Sequence[int]]) -> Problem:
    """Groups as tasks; what all members make at one place is one value."""
    values: list[Value] = []
    merged = [0] * len(problem.values)
    for group in groups:
        for place in range(len(problem.tasks[group[0]].makes)):
            members = [problem.tasks[task].makes[place] for task in group]
            for value in members:
                merged[value] = len(values)
            values.append(Value(sum(problem.sizes[value] for value in members)))

    def task_of(group: Sequence[int]) -> Task:
        tasks = [problem.tasks[task] for task in group]
        makes = dict.fromkeys(merged[v] for task in tasks for v in task.makes)
        reads = dict.fromkeys(merged[v] for task in tasks for v in task.reads)
        over = dict.fromkeys(merged[v] for task in tasks for v in task.over)
        sizes = {values[value].size for value in makes}
        kept = (value for value in over if values[value].size in sizes)
        return Task(tuple(reads), tuple(makes), tuple(kept))

    return Problem(values, [task_of(group) for group in groups])


def parallel_order(
    problem: Problem, jobs: Sequence[Job], parts: Sequence[Part], budget: int
) -> Order:
    """
    An order in which no memory needs more than in the source order, and in which bytes
    times time are the least that was found: to save a share of the bytes it may not
    cost a greater share of the time. All devices do their parts of a task side by side.
    """
    groups = groups_of(problem, parts)
    whole = contracted(problem, groups)
    found = memory_order(whole, budget)[0], early_order(whole)
    orders = [flat(groups[index] for index in order) for order in found]
    busy = (without_idling(jobs, order) for order in orders)
    source, *others = candidates_of(problem, jobs, (problem.source, *orders, *busy))
    able = [other for other in others if all(map(le, other.peaks, source.peaks))]
    return min((source, *able), key=lambda x: x.bytes * x.makespan).order


def without_idling(jobs: Sequence[Job], order: Order) -> Order:
    """An order, but no lane waits for a task while others of it can run."""
    return Dispatch(jobs, [-step for step in positions(order)]).run().order


################################################################################
# Copies beside computation                                                    #
################################################################################


def shortest_order(
    problem: Problem, jobs: Sequence[Job], is_early: Sequence[bool]
) -> Order:
    """
    The order that ends first, of those that end at once the one with the fewest bytes:
    the source order, that with what is early as soon as it can run, or that of two list
    schedules, by the time that depends on each task.
    """
    orders = (
        problem.source,
        overlap_order(problem, is_early),
        Dispatch(jobs).run().order,
        by_level(jobs),
    )
    found = candidates_of(problem, jobs, orders)
    return min(found, key=lambda x: (x.makespan, x.bytes)).order
