"""
Order the tasks that use a variable before the one that assigns to it, act by act.

A task that reads a variable of its own plan acts before the one that assigns to it in
the same act, and again only after that, so that it reads what a run began with. Each of
them gets a control register `<reader> -> <assign>` with one slot, which says both,
unless the two are one task. A task reads a variable if it reads its register, or the
result of a task that may be a view of what reads it (a reshape, a slice:
`in_place_pairs`).

Where assignments exchange the values of variables, each would have to come before the
other: of each such cycle the first one in the list reads a copy `<assign>.copy`
instead, which is made before any of them.

It comes before tasks have places in streams, so that they are ordered accordingly.
Where they have some already, a reader behind the assignment in its stream is an error.
A plan whose registers have places is left as it is.

Example: `test/lowering/plan/plan-order-updates-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, BlockArgument, Region, SSAValue
from xdsl.passes import ModulePass

from penstock.dialects.job import AssignOp, CopyOp
from penstock.dialects.plan import PlanOp, TaskOp, YieldOp, name_of
from penstock.dialects.regst import RegisterOp
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.marked_graph import Edge, MarkedGraph
from penstock.lowering.algorithms.unique_names import UniqueNames
from penstock.lowering.analysis.control_edges import ControlEdge, write_control_edges
from penstock.lowering.plan.variable_uses import readers_of, target_of


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


def exchanging(plan: PlanOp, edges: Sequence[ControlEdge]) -> list[TaskOp]:
    """The first update of each cycle of those that read what the next assigns to."""
    found = {edge.second for edge in edges}
    updates = [task for task in plan.tasks if task in found]
    number = {task: i for i, task in enumerate(updates)}
    graph = MarkedGraph(
        len(updates),
        [
            Edge(number[first], number[second], 0)
            for first, second, _ in edges
            if first in number
        ],
    )
    return [updates[min(cycle)] for cycle in graph.cycles]


def read_copy(plan: PlanOp, update: TaskOp) -> None:
    """Let a task assign a copy of what it assigns, made by a task before it."""
    op = update.op
    assert isinstance(op, AssignOp), "it assigns"
    inside = op.value
    assert isinstance(inside, BlockArgument), "a task's body is one op"
    source = update.ins[inside.index]
    copy = copy_task(plan, update, source, inside.type)
    plan.body.block.insert_op_before(copy, update)
    (made,) = copy.outs or copy.results_
    ins = [made if i == inside.index else x for i, x in enumerate(update.ins)]
    update.connect(update.ports._replace(ins=ins))


def copy_task(
    plan: PlanOp, update: TaskOp, source: SSAValue, type: Attribute
) -> TaskOp:
    """A task that copies what another one reads, to a register if it reads one."""
    tasks = UniqueNames(task.task_name.data for task in plan.tasks)
    name = tasks.make(f"{update.task_name.data}.copy")
    block = Block(arg_types=[type])
    copy = CopyOp(block.args[0], update.device)
    block.add_ops([copy, YieldOp(copy)])
    is_read = isinstance(register := source.owner, RegisterOp)
    outs = [register_like(plan, register, name)] if is_read else []
    task = TaskOp(
        name,
        update.device,
        update.stream,
        Region(block),
        ins=[source],
        outs=outs,
        result_types=[] if outs else [type],
    )
    task.job = update.job
    task.location = copy.location = update.location
    return task


def register_like(plan: PlanOp, source: RegisterOp, task: str) -> SSAValue:
    """A new register for what a task copies from another one."""
    names = UniqueNames(register.register_name.data for register in plan.registers)
    register = RegisterOp(
        names.make(f"{task}/out"), source.memory_case, source.register.type
    )
    register.location = source.location
    plan.body.block.insert_op_before(register, plan.tasks[0])
    return register.register


def break_cycles(plan: PlanOp) -> list[ControlEdge]:
    """
    The edges that a plan lacks, once all that exchange values read copies. Copies do
    not part assignments to one variable.
    """
    edges = edges_of(plan)
    copied: set[TaskOp] = set()
    while found := [x for x in exchanging(plan, edges) if x not in copied]:
        for update in found:
            read_copy(plan, update)
        copied.update(found)
        edges = edges_of(plan)
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


def findings_about(edges: list[ControlEdge]) -> Iterator[Finding]:
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


def findings_about_cycles(
    plan: PlanOp, edges: Sequence[ControlEdge]
) -> Iterator[Finding]:
    """The assignments that wait for each other whatever is copied."""
    for update in exchanging(plan, edges):
        variable = target_of(update)
        assert variable is not None, "it assigns"
        yield (
            update,
            f"task '{update.task_name.data}' and another one that assigns to "
            f"'{name_of(variable)}' would wait for each other",
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
        edges = [break_cycles(plan) for plan in plans]
        fail_if_any(found for of_plan in edges for found in findings_about(of_plan))
        pairs = [*zip(plans, edges, strict=True)]
        fail_if_any(found for pair in pairs for found in findings_about_cycles(*pair))
        for plan, of_plan in pairs:
            if of_plan:
                write_control_edges(plan, of_plan)
