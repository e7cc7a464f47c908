"""
Rules of `verify-plan` about variables that tasks assign to.

In one run of a job all that reads a variable reads what it held before. So whoever uses
its bytes, under whatever name, reaches the task that assigns to it without a token, and
that one reaches them over at most one: they use it again only when it has been written.
Jobs that share a variable with one that assigns to it never run at the same time as
that one, which whoever runs them sees to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import BlockArgument, Operation

from penstock.dialects.job import AssignOp
from penstock.dialects.plan import TaskOp, name_of
from penstock.dialects.regst import RegisterOp
from penstock.lowering.plan_graph import PlanGraph
from penstock.lowering.update_order import UpdateOrder
from penstock.lowering.verify_plan_acts import ActGraph, ActOrder, is_unrolled

Finding: TypeAlias = tuple[Operation, str]


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
