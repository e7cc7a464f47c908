"""
Order the tasks that use a variable before the one that assigns to it, act by act.

A task that reads a variable of its own plan acts before the one that assigns to it in
the same act, and again only after that, so that it reads what a run began with. Each of
them gets a control register `<reader> -> <assign>` with one slot, which says both,
unless the two are one task. A task reads a variable if it reads its register, or the
result of a task that may be a view of what reads it (a reshape, a slice:
`in_place_pairs`).

It comes before tasks have places in streams, so that they are ordered accordingly.
Where they have some already, a reader behind the assignment in its stream is an error.
A plan whose registers have places is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from penstock.dialects.diagnostics import fail_if_any
from penstock.dialects.interfaces import TensorOp
from penstock.dialects.job import AssignOp
from penstock.dialects.plan import PlanOp, TaskOp, name_of
from penstock.dialects.walks import outermost
from penstock.lowering.control_edges import ControlEdge, write_control_edges

Finding = tuple[Operation, str]


def target_of(task: TaskOp) -> SSAValue | None:
    """The register that a task assigns to, if it does."""
    if isinstance(op := task.op, AssignOp) and isinstance(op.target, BlockArgument):
        return task.ins[op.target.index]
    return None


def shown_by(task: TaskOp, value: SSAValue) -> Iterator[SSAValue]:
    """The results of a task that may be views of something that it reads."""
    op = task.op
    if not isinstance(op, TensorOp):
        return
    for pair in op.in_place_pairs():
        inside = op.operands[pair.operand]
        if not pair.view or not isinstance(inside, BlockArgument):
            continue
        if task.ins[inside.index] is value:
            yield (task.outs or task.results_)[pair.result]


def readers_of(
    variable: SSAValue, readers: Mapping[SSAValue, list[TaskOp]]
) -> list[TaskOp]:
    """The tasks that read a variable, under any name, as they are found."""
    found: dict[TaskOp, None] = {}
    names = {variable: None}
    pending = [variable]
    for value in pending:
        for task in readers.get(value, ()):
            found[task] = None
            new = [shown for shown in shown_by(task, value) if shown not in names]
            names.update(dict.fromkeys(new))
            pending += new
    return list(found)


def edges_of(plan: PlanOp) -> list[ControlEdge]:
    """The edges that a plan lacks, in the order of its list."""
    updates = [task for task in plan.tasks if target_of(task) is not None]
    if not updates:
        return []
    readers: dict[SSAValue, list[TaskOp]] = {}
    for task in plan.tasks:
        for value in dict.fromkeys(task.ins):
            readers.setdefault(value, []).append(task)
    have = controls_of(plan)
    edges: list[ControlEdge] = []
    for update in updates:
        variable = target_of(update)
        assert variable is not None, "it assigns"
        for reader in readers_of(variable, readers):
            is_own = reader is not update and reader.job == update.job
            if is_own and (reader, update) not in have:
                edges.append(ControlEdge(reader, update))
    return edges


def controls_of(plan: PlanOp) -> set[tuple[TaskOp, TaskOp]]:
    """The pairs of tasks that a control register of one slot orders."""
    signallers = {value: task for task in plan.tasks for value in task.signals}
    return {
        (signallers[value], task)
        for task in plan.tasks
        for value in task.waits
        if value in signallers
    }


def complaints_about(edges: list[ControlEdge]) -> Iterator[Finding]:
    """The readers that come after the assignment in its stream."""
    for reader, update, _ in edges:
        if (reader.device, reader.stream) != (update.device, update.stream):
            continue
        if reader.order is None or update.order is None:
            continue
        if reader.order.value.data > update.order.value.data:
            variable = target_of(update)
            assert variable is not None, "it assigns"
            yield (
                reader,
                f"task '{reader.task_name.data}' uses '{name_of(variable)}' after "
                f"'{update.task_name.data}' has assigned to it; this pass orders them "
                "if it runs before plan-assign-streams",
            )


@dataclass(frozen=True)
class PlanOrderUpdatesPass(ModulePass):
    """
    Order the tasks that use a variable before the one that assigns to it.
    """

    name = "plan-order-updates"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plans = [
            plan
            for plan in outermost(op, PlanOp)
            if any(isinstance(task.op, AssignOp) for task in plan.tasks)
            and not plan.has_places
        ]
        edges = [edges_of(plan) for plan in plans]
        fail_if_any(found for of_plan in edges for found in complaints_about(of_plan))
        for plan, of_plan in zip(plans, edges, strict=True):
            if of_plan:
                write_control_edges(plan, of_plan)
