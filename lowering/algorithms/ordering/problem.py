"""
The problem of ordering tasks: the orders they may run in, and the bytes alive at each
step.

Tasks and values are numbers from 0 on. A value is alive from the task that makes it to
the last one that reads it, both included. Nothing here depends on the order in which
dictionaries or sets are visited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple, TypeAlias

Order: TypeAlias = list[int]
"""Tasks, each after those whose values it reads."""


class Value(NamedTuple):
    """The output of a task: its bytes, and the memory that it lies in."""

    size: int
    memory: int = 0


class Task(NamedTuple):
    """
    The values that a task reads and makes. A value of `over` is one that it reads and
    may overwrite with one that it makes, of the same size, if nobody reads it later.
    """

    reads: tuple[int, ...]
    makes: tuple[int, ...]
    over: tuple[int, ...] = ()


@dataclass(frozen=True)
class Problem:
    """Tasks in their source order, which must be one that they may run in."""

    values: Sequence[Value]
    tasks: Sequence[Task]
    sizes: list[int] = field(init=False)
    made: list[int] = field(init=False)
    """The bytes that each task makes."""
    uses: list[tuple[int, ...]] = field(init=False)
    """The values of each task: those it reads and those it makes."""
    users: list[list[int]] = field(init=False)
    """The tasks of each value: first the one that makes it."""
    before: list[list[int]] = field(init=False)
    """The tasks that must run before each task, each once."""
    after: list[list[int]] = field(init=False)
    """The tasks that must run after each task, each once."""

    def __post_init__(self) -> None:
        uses = [(*dict.fromkeys(t.reads), *t.makes) for t in self.tasks]
        users: list[list[int]] = [[] for _ in self.values]
        for task, used in enumerate(uses):
            for value in used:
                users[value].append(task)
        before = [
            list(dict.fromkeys(users[value][0] for value in task.reads))
            for task in self.tasks
        ]
        after: list[list[int]] = [[] for _ in self.tasks]
        for task, earlier in enumerate(before):
            for other in earlier:
                after[other].append(task)
        sizes = [value.size for value in self.values]
        made = [sum(sizes[value] for value in task.makes) for task in self.tasks]
        for name, found in (
            ("sizes", sizes),
            ("made", made),
            ("uses", uses),
            ("users", users),
            ("before", before),
            ("after", after),
        ):
            object.__setattr__(self, name, found)

    @property
    def source(self) -> Order:
        """The order that the tasks came in."""
        return list(range(len(self.tasks)))

    def needs(self, task: int) -> int:
        """The bytes that are alive at a task in every order, seen from it alone."""
        over = max((self.sizes[value] for value in self.tasks[task].over), default=0)
        return sum(self.sizes[value] for value in self.uses[task]) - over


def is_order(problem: Problem, order: Sequence[int]) -> bool:
    """Whether all tasks are listed once, each after all that it needs."""
    if sorted(order) != problem.source:
        return False
    position = positions(order)
    return all(
        position[earlier] < position[task]
        for task, found in enumerate(problem.before)
        for earlier in found
    )


def positions(order: Sequence[int]) -> list[int]:
    """The step of each task."""
    found = [0] * len(order)
    for step, task in enumerate(order):
        found[task] = step
    return found


def live_profile(problem: Problem, order: Sequence[int]) -> list[int]:
    """The bytes that are alive at each step."""
    sizes, made = problem.sizes, problem.made
    uses, tasks = problem.uses, problem.tasks
    left = [len(users) for users in problem.users]
    profile: list[int] = []
    live = 0
    for task in order:
        live += made[task]
        over = [sizes[v] for v in tasks[task].over if left[v] == 1]
        profile.append(live - max(over) if over else live)
        for value in uses[task]:
            left[value] = uses_left = left[value] - 1
            if not uses_left:
                live -= sizes[value]
    return profile


def peak_of(problem: Problem, order: Sequence[int]) -> int:
    """The bytes alive at the fullest step, in all memories together."""
    return max(live_profile(problem, order), default=0)


def peaks_of(problem: Problem, order: Sequence[int]) -> list[int]:
    """The bytes alive at the fullest step of each memory, which may differ."""
    values, uses = problem.values, problem.uses
    left = [len(users) for users in problem.users]
    live = dict.fromkeys(sorted({value.memory for value in values}), 0)
    peaks = {**live}
    for task in order:
        _, makes, may_overwrite = problem.tasks[task]
        over: dict[int, int] = {}
        for value in may_overwrite:
            if left[value] == 1:
                size, memory = values[value]
                over[memory] = max(over.get(memory, 0), size)
        for value in makes:
            size, memory = values[value]
            live[memory] += size
        # A memory is fullest at a task that makes something in it.
        for memory in {values[value].memory for value in makes}:
            now = live[memory] - over.get(memory, 0)
            peaks[memory] = max(peaks[memory], now)
        for value in uses[task]:
            left[value] = uses_left = left[value] - 1
            if not uses_left:
                size, memory = values[value]
                live[memory] -= size
    return [*peaks.values()]


################################################################################
# Cuts                                                                         #
################################################################################


def segments(problem: Problem) -> list[list[int]]:
    """
    The tasks in groups, each of which can run after the one before without loss.

    A *cut* is a task that comes before or after each other task in every order. A group
    ends with a cut, so what is alive between two groups does not depend on the order
    within them. Two kinds of tasks are no obstacle: those that need nothing can always
    wait for the first one that reads them, and those that make nothing never need to
    wait.
    """
    inner = [
        not is_early(problem, t) and not is_final(problem, t) for t in problem.source
    ]
    group = groups_of(problem, inner)
    for task in problem.source:
        if is_early(problem, task):
            readers = [group[r] for r in problem.after[task] if inner[r]]
            group[task] = min(readers)
    for task in problem.source:
        if is_final(problem, task):
            group[task] = max(group[maker] for maker in problem.before[task])
    found: list[list[int]] = [[] for _ in range(max(group, default=-1) + 1)]
    for task in problem.source:
        found[group[task]].append(task)
    return found


def is_final(problem: Problem, task: int) -> bool:
    """Whether a task reads something and makes nothing."""
    return not problem.tasks[task].makes and bool(problem.before[task])


def is_early(problem: Problem, task: int) -> bool:
    """Whether a task needs nothing, and all that it makes is read, not only at ends."""
    return (
        not problem.before[task]
        and all(len(problem.users[value]) > 1 for value in problem.tasks[task].makes)
        and any(problem.tasks[reader].makes for reader in problem.after[task])
    )


def groups_of(problem: Problem, inner: Sequence[bool]) -> list[int]:
    """For each inner task the number of cuts before it, seen from inner tasks alone."""
    tasks = [task for task in problem.source if inner[task]]
    step = [-1] * len(inner)
    for index, task in enumerate(tasks):
        step[task] = index
    # A task is a cut if all earlier ones lead to it and all later ones come from it:
    # if each earlier one has a successor, each later one a predecessor, not beyond it.
    last_source = [max((step[t] for t in problem.before[u]), default=-1) for u in tasks]
    lowest = list(accumulate(reversed(last_source), min, initial=len(tasks)))[::-1]
    group = [0] * len(inner)
    reach = count = 0
    for index, task in enumerate(tasks):
        group[task] = count
        if reach <= index <= lowest[index + 1]:
            count += 1
        targets = [step[t] for t in problem.after[task] if inner[t]]
        reach = max(reach, min(targets, default=len(tasks)))
    return group
