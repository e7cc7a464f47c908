"""
Let the assignments of a plan wait for all of its tasks that can fail, act by act.

Variables are assigned to in an act only if all tasks of that act come to their end: a
task `commit` (`job.commit`) acts after all tasks that can fail (`can_fail`), and before
the assignments; the tasks after it cannot fail. So all variables of a piece have new
values, or none. Nothing else waits.

Where a task may write a new value over the old one (`in_place`), this task waits in
place of the assignment. An assignment that comes after all those tasks anyway does not
wait for it, and where all do there is none; so there is none where nothing can fail.
The commit waits for those tasks alone that no other one of them comes after, and runs
on the stream `<commit, 0>` of CPU 0 of its rank: control registers of two slots `<task>
-> commit`, so that the next act may begin, and of one slot `commit -> <assign>`. A
failure on a device other than a CPU is known to the host only, so there all assignments
wait for the commit. On several ranks each has a commit (`commit@<rank>` above 0), and
is told of the others by tokens, as behind a `job.after`.

It comes after plan-order-updates, and before tasks are ordered. A job with a commit,
and a plan whose registers have places, is left as it is.

Example: `test/lowering/plan/plan-order-commits-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass

from penstock.dialects.job import CommitOp, DeviceAttr
from penstock.dialects.plan import PlanOp, StreamAttr, TaskOp, YieldOp
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.commit_gate import AHEAD, Gate, gate_of
from penstock.lowering.algorithms.marked_graph import Edge, MarkedGraph
from penstock.lowering.analysis.control_edges import ControlEdge, write_control_edges
from penstock.lowering.analysis.in_place_updates import writers_of_variables
from penstock.lowering.analysis.ordering_tokens import Tokens
from penstock.lowering.analysis.task_builder import TaskBuilder
from penstock.lowering.analysis.task_order import TaskOrder, controls_of


def graph_of(plan: PlanOp, tasks: Sequence[TaskOp]) -> MarkedGraph:
    """The order of values, registers and control in one act."""
    number = {task: i for i, task in enumerate(tasks)}
    writers: dict[SSAValue, int] = {}
    for task, index in number.items():
        writers.update(dict.fromkeys((*task.results_, *task.outs), index))
    edges = [
        Edge(writers[value], index, 0)
        for task, index in number.items()
        for value in task.ins
        if value in writers
    ]
    edges += [
        Edge(number[first], number[second], 0)
        for first, second in controls_of(plan)
        if first in number and second in number
    ]
    return MarkedGraph(len(tasks), edges)


@dataclass
class Commits:
    """Makes the commits of one plan."""

    plan: PlanOp

    def __post_init__(self) -> None:
        self.tasks = [task for task in self.plan.tasks if task.kind != "variable"]
        self._builder = TaskBuilder()
        for task in self.plan.tasks:
            self._builder.name(task.task_name.data)
        self._tokens = Tokens(self._builder)
        self._is_ordered = any(task.order is not None for task in self.tasks)

    @cached_property
    def _writers(self) -> set[TaskOp]:
        """The tasks that write variables."""
        return set(writers_of_variables(self.tasks))

    def gates(self) -> Iterator[Gate]:
        """
        The gate of the commit of each job that lacks one: the tasks before and after
        it.
        """
        if not any(task.is_uncertain for task in self.tasks) or not self._writers:
            return
        by_job: dict[str | None, list[int]] = {}
        for index, task in enumerate(self.tasks):
            name = None if task.job is None else task.job.data
            by_job.setdefault(name, []).append(index)
        graph = graph_of(self.plan, self.tasks)
        if graph.cycles:
            return
        for members in by_job.values():
            if not any(isinstance(self.tasks[x].op, CommitOp) for x in members):
                yield self._gate(graph, members)

    def _gate(self, graph: MarkedGraph, members: Sequence[int]) -> Gate:
        uncertain = [x for x in members if self.tasks[x].is_uncertain]
        updates = [x for x in members if self.tasks[x] in self._writers]
        is_remote = any(
            self.tasks[x].can_fail is not None
            and self.tasks[x].device.kind.data != "cpu"
            for x in uncertain
        )
        return gate_of(graph, uncertain, updates, is_remote=is_remote)

    def findings(self, gates: Sequence[Gate]) -> Iterator[Finding]:
        """
        The findings about tasks that wait for tasks of another rank where there can be
        no tokens.
        """
        if self.plan.is_on_values:
            return
        for gate in gates:
            for index in gate.updates:
                update = self.tasks[index]
                for other in (self.tasks[x] for x in gate.uncertain):
                    if other.device.rank != update.device.rank:
                        yield (
                            update,
                            f"task '{update.task_name.data}' has to wait for "
                            f"'{other.task_name.data}' of another rank; this pass "
                            "lets it if it runs before plan-create-registers",
                        )

    def add(self, gate: Gate) -> list[ControlEdge]:
        """The control edges of a gate, for which there are commits and tokens now."""
        uncertain = [self.tasks[x] for x in gate.uncertain]
        updates = [self.tasks[x] for x in gate.updates]
        edges: list[ControlEdge] = []
        by_rank: dict[int, list[TaskOp]] = {}
        for update in updates:
            by_rank.setdefault(update.device.rank.data, []).append(update)
        for rank, waiting in by_rank.items():
            commit = self._commit(rank, waiting[0])
            found = self._tokens.edges(uncertain, commit)
            edges += [edge._replace(slots=AHEAD) for edge in found]
            edges += [ControlEdge(commit, update) for update in waiting]
        return edges

    def _commit(self, rank: int, first: TaskOp) -> TaskOp:
        op = CommitOp()
        commit = TaskOp(
            self._builder.name("commit" + (f"@{rank}" if rank else "")),
            DeviceAttr(rank, "cpu", 0),
            StreamAttr("commit", 0),
            Region(Block([op, YieldOp.create()])),
            order=0 if self._is_ordered else None,
        )
        commit.job = first.job
        op.location = commit.location = first.location
        self.plan.body.block.insert_op_before(commit, first)
        return commit

    def write(self, edges: Sequence[ControlEdge]) -> None:
        """Add tokens and control registers; list tasks after those before them."""
        for task in self._builder.tasks:
            self.plan.body.block.add_op(task)
        write_control_edges(self.plan, edges)
        if self.plan.is_on_values:
            TaskOrder(self.plan).write()


@dataclass(frozen=True)
class PlanOrderCommitsPass(ModulePass):
    """
    Let the assignments of a plan wait for all of its tasks that can fail.
    """

    name = "plan-order-commits"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plans = [plan for plan in outermost(op, PlanOp) if not plan.has_places]
        found = [(x, list(x.gates())) for x in map(Commits, plans)]
        fail_if_any(c for commits, gates in found for c in commits.findings(gates))
        for commits, gates in found:
            edges = [edge for gate in gates for edge in commits.add(gate)]
            if edges:
                commits.write(edges)
