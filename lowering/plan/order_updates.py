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

*In place.* An assignment of a result that nothing else reads is marked `in_place` if
the task that makes the result can write it over the variable (an in-place pair of its
op that hints allow), and if that task cannot fail. All other readers of the variable
then come before that task, too. Two tasks that each read what the other one writes
cannot both work in place: the first one does. Nor can a task after which another one
may fail, or after which its job reads the variable. Whether the result does lie on the
variable is left to `regst-alias-registers`. With `apart` nothing is marked.

It comes before tasks have places in streams, so that they are ordered accordingly.
Where they have some already, a reader behind the assignment in its stream is an error.
A plan whose registers have places is left as it is.

Example: `test/lowering/plan/plan-order-updates-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Attribute, Block, BlockArgument, Region, SSAValue
from xdsl.passes import ModulePass

from penstock.dialects.job import SECTIONS, AssignOp, CopyOp, InputOp, OutputOp
from penstock.dialects.plan import PlanOp, TaskOp, YieldOp, name_of
from penstock.dialects.regst import RegisterOp
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.marked_graph import Edge, MarkedGraph
from penstock.lowering.algorithms.unique_names import UniqueNames
from penstock.lowering.analysis.control_edges import ControlEdge, write_control_edges
from penstock.lowering.analysis.in_place_updates import Update, possible_updates
from penstock.lowering.analysis.register_types import requested_slots
from penstock.lowering.analysis.variable_uses import names_of, readers_of, target_of


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


################################################################################
# Updates in place                                                             #
################################################################################


class InPlace:
    """
    The updates in place of a plan on values, and the orders that they need besides
    those of assignments.
    """

    def __init__(self, plan: PlanOp, edges: Sequence[ControlEdge]) -> None:
        self._tasks = [task for task in plan.tasks if task.kind != "variable"]
        self._after: dict[TaskOp, list[TaskOp]] = {}
        self._readers: dict[SSAValue, list[TaskOp]] = {}
        makers: dict[SSAValue, TaskOp] = {
            value: task for task in self._tasks for value in task.results_
        }
        for task in self._tasks:
            for value in dict.fromkeys(task.ins):
                self._readers.setdefault(value, []).append(task)
                if (maker := makers.get(value)) is not None:
                    self._after.setdefault(maker, []).append(task)
        self._have = controls_of(plan)
        for first, second, _ in edges:
            self._after.setdefault(first, []).append(second)
        for first, second in self._have:
            self._after.setdefault(first, []).append(second)
        self._shown = self._shown_by_sections(plan)
        self.edges: list[ControlEdge] = []

    def _shown_by_sections(self, plan: PlanOp) -> set[TaskOp]:
        """
        The tasks that use bytes of inputs and outputs whose sections a main job waits
        for before it grants others, and so before anything is assigned.
        """
        if SECTIONS not in plan.attributes:
            return set()
        ports = (x for x in self._tasks if isinstance(x.op, InputOp | OutputOp))
        values = [value for task in ports for value in (*task.ins, *task.results_)]
        return {task for x in values for task in readers_of(x, self._readers)}

    def mark(self) -> None:
        """Mark assignments, the first ones first, and note the orders."""
        for update in [*possible_updates(self._tasks)]:
            op = update.assign.op
            assert isinstance(op, AssignOp), "it assigns"
            if (before := self._before(update)) is None:
                op.in_place = None
                continue
            op.in_place = UnitAttr()
            for reader in before:
                if (reader, update.writer) not in self._have:
                    self._have.add((reader, update.writer))
                    self._after.setdefault(reader, []).append(update.writer)
                    self.edges.append(ControlEdge(reader, update.writer))

    def _before(self, update: Update) -> list[TaskOp] | None:
        """
        The tasks that have to come before an update in place; None if some cannot, or
        if it may fail.
        """
        writer = update.writer
        if requested_slots(writer) not in (None, 1) or writer in self._shown:
            return None
        after = self._all_after(writer)
        if any(task.is_uncertain for task in after):
            return None
        found = readers_of(update.variable, self._readers)
        others = [
            task
            for task in found
            if task not in (writer, update.assign) and task.job == writer.job
        ]
        is_possible = after.isdisjoint(others) and self._reads_once(update)
        return others if is_possible else None

    def _reads_once(self, update: Update) -> bool:
        """Whether a task reads a variable under its own name alone."""
        names = names_of(update.variable, self._readers)
        return all(x is update.variable or x not in names for x in update.writer.ins)

    def _all_after(self, task: TaskOp) -> set[TaskOp]:
        """A task, and all that come after it."""
        found, pending = {task}, [task]
        while pending:
            for other in self._after.get(pending.pop(), ()):
                if other not in found:
                    found.add(other)
                    pending.append(other)
        return found


@dataclass(frozen=True)
class PlanOrderUpdatesPass(ModulePass):
    """
    Order the tasks that use a variable before the one that assigns to it.
    """

    name = "plan-order-updates"

    apart: bool = False
    """Whether all new values of variables are made beside the old ones."""

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
            if plan.is_on_values and not self.apart:
                updates = InPlace(plan, of_plan)
                updates.mark()
                of_plan += updates.edges
            if of_plan:
                write_control_edges(plan, of_plan)
