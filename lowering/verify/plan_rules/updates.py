"""
The tasks of a plan that write variables, for the rules about these.

An assignment `in_place` of a register that lies on its variable writes nothing: the
task that makes the register does, unless it does nothing itself. Such a register is
read by the assignment alone.

The source of a section may never be granted, so no task of its rank assigns before it;
other ranks have a source of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import BlockArgument

from penstock.dialects.job import AssignOp, CommitOp, SourceTickOp, StateOp
from penstock.dialects.plan import TaskOp, name_of
from penstock.dialects.regst import Place, RegisterOp
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.algorithms.update_order import UpdateOrder
from penstock.lowering.verify.plan_rules.graph import PlanGraph
from penstock.lowering.verify.plan_rules.rates import ActGraph, ActOrder, is_unrolled
from penstock.lowering.verify.plan_rules.uses import Pieces
from penstock.lowering.verify.shared_rules import updates
from penstock.lowering.verify.shared_rules.updates import Actor, Updates, Write


def bad_updates(pieces: Pieces) -> Iterator[Finding]:
    """All that is wrong with assignments. The graph has no cycle without a token."""
    plan_graph = pieces.plan
    assigned = updates_in(plan_graph)
    if not assigned:
        return
    for index, register in assigned.items():
        if register not in plan_graph.variables:
            task = plan_graph.tasks[index]
            names = f"{name_in(task)} assigns to '{name_of(register.register)}'"
            yield task, f"{names}, which is no variable"
    stored, variables = pieces.stored, plan_graph.variables
    users = {register: stored[register].users for register in variables}
    in_place = updates_in_place(plan_graph)
    writers = {x.assign: x.writer for x in in_place.values()}
    acts = ActOrder(ActGraph(plan_graph)) if is_unrolled(plan_graph) else None
    for members in members_of_jobs(plan_graph):
        yield from updates.bad_updates(
            Updates(
                {
                    index: actor_of(plan_graph.tasks[index], index in writers.values())
                    for index in members
                },
                list(writes_of(plan_graph, users, members, assigned, writers)),
                lambda users: acts or UpdateOrder(plan_graph.graph, users),
                lambda users: acts or UpdateOrder(plan_graph.launch_graph, users),
            )
        )


def members_of_jobs(plan_graph: PlanGraph) -> list[list[int]]:
    """The tasks of each job."""
    found: dict[StringAttr | None, list[int]] = {}
    for index, task in enumerate(plan_graph.tasks):
        found.setdefault(task.job, []).append(index)
    return list(found.values())


def writes_of(
    plan_graph: PlanGraph,
    users: Mapping[RegisterOp, Sequence[int]],
    members: Collection[int],
    assigned: Mapping[int, RegisterOp],
    writers: Mapping[int, int],
) -> Iterator[Write]:
    """
    The tasks of a job that write variables, for the tasks that assign to these, and the
    others that use them.
    """
    own = set(members)
    for index in members:
        if (register := assigned.get(index)) is None:
            continue
        writer = writers.get(index, index)
        others = own - {index, writer}
        used = [user for user in users.get(register, ()) if user in others]
        name = f"'{name_of(register.register)}'"
        made = plan_graph.variables.get(register)
        state = made is not None and isinstance(made.op, StateOp)
        yield Write(writer, register, name, used, state)


class InPlace(NamedTuple):
    """A task that writes over a variable, and the one that assigns it what is there."""

    writer: int
    assign: int


def updates_in_place(plan_graph: PlanGraph) -> dict[RegisterOp, InPlace]:
    """The registers that tasks write over variables, and are assigned to these."""
    found: dict[RegisterOp, InPlace] = {}
    for index, variable in updates_in(plan_graph).items():
        op = plan_graph.tasks[index].op
        assert isinstance(op, AssignOp), "it assigns"
        if op.in_place is None or not isinstance(op.value, BlockArgument):
            continue
        register = plan_graph.access[index].read[op.value.index].owner
        if not isinstance(register, RegisterOp) or variable is register:
            continue
        writer = plan_graph.writer.get(register)
        if writer is None or plan_graph.readers[register] != [index]:
            continue
        # A view is there already: nothing is written.
        lies_there = plan_graph.facts[register].place == Place(variable.register, 0)
        is_all = register.register.type == variable.register.type
        if lies_there and is_all and not plan_graph.is_view[writer]:
            found[register] = InPlace(writer, index)
    return found


def name_in(task: TaskOp) -> str:
    """The name of a task in messages."""
    return f"task '{task.task_name.data}'"


def actor_of(task: TaskOp, is_in_place: bool) -> Actor:
    """A task, as the rules see it; one in place writes a variable while it works."""
    rank = task.device.rank.data
    return Actor(
        task,
        name_in(task),
        task.is_uncertain,
        task.can_fail is not None and task.device.kind.data != "cpu",
        isinstance(task.op, CommitOp),
        rank if isinstance(task.op, SourceTickOp) else None,
        rank,
        fails_late=is_in_place,
    )


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
