"""
Rules of `verify-plan` about variables that tasks assign to.

In one run of a job all that reads a variable reads what it held before. So each user of
its bytes, under any name, reaches the task that assigns to it without a token, and that
one reaches them over at most one: they use it again only when it has been written. Jobs
that share a variable with one that assigns to it never run at the same time as that
one, which the runtime sees to.

All variables of a piece have new values, or none: so all tasks of the job that can
fail, and the sources of its sections on the same rank, which may never be granted,
reach each task that assigns without a token; by way of a `job.commit` if they fail on a
device, which the host has to ask.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import BlockArgument

from penstock.dialects.job import AssignOp, CommitOp, SourceTickOp
from penstock.dialects.plan import TaskOp, name_of
from penstock.dialects.regst import RegisterOp
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.algorithms.graphs import bits_of
from penstock.lowering.algorithms.update_order import UpdateOrder
from penstock.lowering.verify.plan_rules.graph import PlanGraph
from penstock.lowering.verify.plan_rules.rates import ActGraph, ActOrder, is_unrolled


def bad_updates(plan_graph: PlanGraph) -> Iterator[Finding]:
    """All that is wrong with assignments. The graph has no cycle without a token."""
    updates = updates_in(plan_graph)
    if not updates:
        return
    stored = plan_graph.storages()
    seen: dict[tuple[RegisterOp, StringAttr | None], TaskOp] = {}
    checked: dict[int, Sequence[int]] = {}
    for index, register in updates.items():
        task, name = plan_graph.tasks[index], name_of(register.register)
        own = task.task_name.data
        if register not in plan_graph.variables:
            yield task, f"task '{own}' assigns to '{name}', which is no variable"
        elif (first := seen.setdefault((register, task.job), task)) is not task:
            other = first.task_name.data
            yield task, f"tasks '{other}' and '{own}' both assign to variable '{name}'"
        else:
            checked[index] = [
                user
                for user in stored[register].users
                if user != index and plan_graph.tasks[user].job == task.job
            ]
    if is_unrolled(plan_graph):
        order = ActOrder(ActGraph(plan_graph))
    else:
        order = UpdateOrder(plan_graph.graph, checked)
    for index, users in checked.items():
        yield from unordered_users(plan_graph, order, (index, users), updates[index])
    for members in members_of_jobs(plan_graph):
        yield from early_updates(plan_graph, members, updates)


def members_of_jobs(plan_graph: PlanGraph) -> list[list[int]]:
    """The tasks of each job."""
    found: dict[StringAttr | None, list[int]] = {}
    for index, task in enumerate(plan_graph.tasks):
        found.setdefault(task.job, []).append(index)
    return list(found.values())


def early_updates(
    plan_graph: PlanGraph, members: Sequence[int], updates: Collection[int]
) -> Iterator[Finding]:
    """The tasks of a job that may assign though others may still fail."""
    tasks = plan_graph.tasks
    own = [index for index in members if index in updates]
    uncertain = [index for index in members if tasks[index].is_uncertain] if own else []
    if not uncertain:
        return
    order = CommitOrder(plan_graph, own, uncertain)
    for index in uncertain:
        other = tasks[index].task_name.data
        for update in order.not_after(index):
            if is_elsewhere(tasks[index], tasks[update]):
                continue
            name = tasks[update].task_name.data
            yield tasks[update], f"task '{name}' may assign before '{other}' fails"
        for update in order.not_told_by(index):
            name = tasks[update].task_name.data
            yield (
                tasks[update],
                f"task '{name}' may assign before the host knows whether '{other}' "
                "fails, without a job.commit between them",
            )


def is_elsewhere(task: TaskOp, update: TaskOp) -> bool:
    """Whether a task is the source of a section on another rank, which has its own."""
    is_source = isinstance(task.op, SourceTickOp)
    return is_source and task.device.rank != update.device.rank


def fails_remotely(task: TaskOp) -> bool:
    """Whether a task fails on a device that the host has to ask."""
    return task.can_fail is not None and task.device.kind.data != "cpu"


class CommitOrder:
    """
    The order of the tasks of a job before those that assign, and by way of a commit.
    """

    def __init__(
        self, plan_graph: PlanGraph, updates: Sequence[int], uncertain: Sequence[int]
    ) -> None:
        self._acts = ActOrder(ActGraph(plan_graph)) if is_unrolled(plan_graph) else None
        graph, tasks = plan_graph.launch_graph, plan_graph.tasks
        self._updates = updates
        self._all = (1 << len(updates)) - 1
        bit = {update: 1 << i for i, update in enumerate(updates)}
        self._reached = graph.after([bit.get(x, 0) for x in range(graph.size)])
        self._told: dict[int, int] = {}
        if remote := [index for index in uncertain if fails_remotely(tasks[index])]:
            commits = [
                self._reached[x] if isinstance(tasks[x].op, CommitOp) else 0
                for x in range(graph.size)
            ]
            behind = graph.after(commits)
            self._told = {index: behind[index] for index in remote}

    def not_after(self, uncertain: int) -> Iterator[int]:
        """The tasks that may assign before another one is over."""
        if self._acts is not None:
            for update in self._updates:
                if not self._acts.comes_before(uncertain, update):
                    yield update
        else:
            yield from self._missing(self._reached[uncertain])

    def not_told_by(self, uncertain: int) -> Iterator[int]:
        """Those behind a task that fails on a device, without a commit between them."""
        if (told := self._told.get(uncertain)) is not None:
            yield from self._missing(told | ~self._reached[uncertain])

    def _missing(self, found: int) -> Iterator[int]:
        return (self._updates[i] for i in bits_of(self._all & ~found))


def updates_in(plan_graph: PlanGraph) -> dict[int, RegisterOp]:
    """The tasks that assign, by number, and the register that each assigns to."""
    found: dict[int, RegisterOp] = {}
    for index, task in enumerate(plan_graph.tasks):
        if isinstance(op := task.op, AssignOp) and isinstance(
            inside := op.target, BlockArgument
        ):
            register = plan_graph.access[index].read[inside.index].owner
            if isinstance(register, RegisterOp):
                found[index] = register
    return found


def unordered_users(
    plan_graph: PlanGraph,
    order: UpdateOrder | ActOrder,
    used_by: tuple[int, Sequence[int]],
    register: RegisterOp,
) -> Iterator[Finding]:
    """The tasks that may use a variable while a task, given with all, assigns to it."""
    update, users = used_by
    task = plan_graph.tasks[update]
    name, own = name_of(register.register), task.task_name.data
    for user in users:
        other = plan_graph.tasks[user].task_name.data
        used = f"task '{other}' may use variable '{name}'"
        if not order.comes_before(user, update):
            yield task, f"{used} after '{own}' has assigned to it"
        elif not order.comes_again_after(user, update):
            yield task, f"{used} again before '{own}' has assigned to it"
