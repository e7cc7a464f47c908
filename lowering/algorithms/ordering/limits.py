"""
Bytes that are alive at some step in whatever order tasks run.

`plan-order-tasks` reports them as the lower limit, and its strategies stop at an order
that takes no more.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.lowering.algorithms.graphs import reached
from penstock.lowering.algorithms.ordering.problem import Problem

REACH_BUDGET = 200_000
"""
The number of edges that may be followed to find predecessors and successors of a task.
"""


def limit_of_tasks(problem: Problem) -> int:
    """
    The bytes that the neediest task takes by itself: those it reads and makes together,
    less those it may overwrite.
    """
    return max(map(problem.needs, problem.source), default=0)


def limits_of_memories(problem: Problem) -> list[int]:
    """The bytes of each memory that its neediest task takes by itself."""
    limits = dict.fromkeys((value.memory for value in problem.values), 0)
    for task in problem.source:
        over = max((problem.sizes[v] for v in problem.tasks[task].over), default=0)
        needs: dict[int, int] = {}
        for size, memory in (problem.values[v] for v in problem.uses[task]):
            needs[memory] = needs.get(memory, 0) + size
        for memory, size in needs.items():
            limits[memory] = max(limits[memory], size - over)
    return [*limits.values()]


def limit_at(problem: Problem, task: int) -> int:
    """
    The bytes alive at a task in every order: values that it uses, less those it may
    overwrite, and values made before it in every order that are read after it in every
    order.
    """
    before = reached(problem.before, task) - {task}
    after = reached(problem.after, task) - {task}
    over = max((problem.sizes[v] for v in problem.tasks[task].over), default=0)
    across = {
        value
        for earlier in before
        for value in problem.tasks[earlier].makes
        if not after.isdisjoint(problem.users[value])
    }
    return sum(problem.sizes[v] for v in across.union(problem.uses[task])) - over


def lower_limit(problem: Problem, promising: Sequence[int]) -> int:
    """
    A number of bytes that no order does without. Bytes forced to be alive are looked up
    at the first of the `promising` tasks, as many as are affordable.
    """
    edges = len(problem.tasks) + sum(map(len, problem.users))
    affordable = REACH_BUDGET // max(1, edges)
    return max(
        limit_of_tasks(problem),
        *(limit_at(problem, task) for task in promising[: max(4, affordable)]),
    )
