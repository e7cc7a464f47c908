"""
The order of the tasks of a plan in one act, before registers are made of values.

A task comes after those whose values it reads. A control register that is empty at the
start orders the tasks that wait for it after the one that signals it, and one whose
slots are all full that one after them. Variables never act, and order nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.ir import SSAValue

from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.regst import RegisterOp
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.algorithms.graphs import listed_order
from penstock.lowering.algorithms.marked_graph import Edge, MarkedGraph


class Control(NamedTuple):
    """A control register lets the second task act after the first, in one act."""

    first: TaskOp
    second: TaskOp


def controls_of(plan: PlanOp) -> Iterator[Control]:
    """
    The orders that the control registers of a plan set, by the tasks that wait, as
    listed.
    """
    writers: dict[SSAValue, TaskOp] = {}
    for task in plan.tasks:
        writers.update((value, task) for value in task.ports.signals)
    if not writers:
        return
    for task in plan.tasks:
        for value in task.ports.waits:
            register, writer = value.owner, writers.get(value)
            if not isinstance(register, RegisterOp) or writer is None:
                continue
            full = 0 if register.initial is None else register.initial.value.data
            if full == 0:
                yield Control(writer, task)
            if full == register.slots.value.data:
                yield Control(task, writer)


@dataclass
class TaskOrder:
    """The tasks of a plan that act, and which of them come before others."""

    plan: PlanOp
    tasks: list[TaskOp] = field(init=False)
    """As they are listed, but each after all that come before it."""
    before: list[list[int]] = field(init=False, default_factory=list)
    """For each task those that come before it, by number."""
    controls: list[tuple[int, int]] = field(init=False, default_factory=list)
    """The pairs that control registers order."""
    cycles: list[list[TaskOp]] = field(init=False, default_factory=list)
    """Tasks that come before each other; if there are any, nothing else is known."""

    def __post_init__(self) -> None:
        listed = [task for task in self.plan.tasks if task.kind != "variable"]
        number = {task: i for i, task in enumerate(listed)}
        sources = [makers_of(task, number) for task in listed]
        controls = [
            (number[first], number[second])
            for first, second in dict.fromkeys(controls_of(self.plan))
            if first in number and second in number
        ]
        for first, second in controls:
            sources[second].append(first)
        before = [list(dict.fromkeys(found)) for found in sources]
        order = listed_order(before)
        if len(order) < len(listed):
            self.cycles = [[listed[i] for i in x] for x in cycles_of(before)]
        place = {task: i for i, task in enumerate(order)}
        if not self.cycles:
            self.before = [[place[other] for other in before[task]] for task in order]
            self.controls = [(place[a], place[b]) for a, b in controls]
        self.tasks = [listed[task] for task in order]

    @property
    def is_listed(self) -> bool:
        """Whether each task is listed after all that come before it."""
        return self.tasks == [t for t in self.plan.tasks if t.kind != "variable"]

    def findings(self) -> Iterator[Finding]:
        """The tasks that come before each other."""
        for cycle in self.cycles:
            names = [task.task_name.data for task in (*cycle, cycle[0])]
            yield (
                cycle[0],
                f"cycle {' -> '.join(names)} of values and control registers",
            )

    def write(self) -> None:
        """List each task after all that come before it, if some are not."""
        if not self.is_listed:
            list_tasks(self.plan, self.tasks)


def makers_of(task: TaskOp, number: dict[TaskOp, int]) -> list[int]:
    """The tasks that make what a task reads."""
    owners = (value.owner for value in task.ins)
    return [number[x] for x in owners if isinstance(x, TaskOp) and x in number]


def cycles_of(before: Sequence[Sequence[int]]) -> list[list[int]]:
    """Cycles of tasks that come before each other, no two with a common task."""
    edges = [Edge(a, b, 0) for b, earlier in enumerate(before) for a in earlier]
    return MarkedGraph(len(before), edges).cycles


def list_tasks(plan: PlanOp, tasks: Sequence[TaskOp]) -> None:
    """List the tasks of a plan that act like this, after all variables."""
    variables = [task for task in plan.tasks if task.kind == "variable"]
    for task in (*variables, *tasks):
        task.detach()
    plan.body.block.add_ops((*variables, *tasks))
