"""
Let a task begin, and a task end, each section of a plan.

For each section (`job-add-sections`) and each rank that it acts on, a task
`<section>/source` acts before the tasks of the section, and `<section>/sink` after all
of them: control registers `<source> -> <task>` and `<task> -> <sink>` of one slot see
to that. On a rank r above 0 their names end in `@r`. Both run on CPU 0 of the rank, on
a stream `<tick, n>` of their own, where n is the number of the section, and do nothing
but pass a tick on. On each rank,

* the source of `total` comes before all tasks that no other task comes before, and its
  sink after all that no other one comes after, and after all other sinks;
* the source of an input comes before the task of the input, its sink after that and
  after all tasks that use its bytes;
* the source of `outputs` comes before the tasks that write the registers which outputs
  read, its sink after the outputs and all tasks that use the bytes of these registers;
* all sources come before all assignments of their rank, and before all tasks that may
  write over variables (`in_place`): a section that is never granted would keep a piece
  from its end that had begun to assign;
* the sink of a section without tasks comes after its source, on the rank of the plan,
  rank 0 if it is of several.

A task uses the bytes of a register if it reads it, or a register that may be a view of
it. The writer of an output's operand is known once `regst-mark-interfaces` has been
there. A plan without sections is left as it is, and so is one that has ticks or places.

Example: `test/lowering/plan/plan-add-ticks-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import (
    SECTIONS,
    AssignOp,
    DeviceAttr,
    InputOp,
    OutputOp,
    SectionAttr,
    SinkTickOp,
    SourceTickOp,
    sections_of,
)
from penstock.dialects.plan import PlanOp, StreamAttr, TaskOp, YieldOp
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.control_edges import ControlEdge, write_control_edges
from penstock.lowering.analysis.in_place_updates import writers_of_variables
from penstock.lowering.analysis.variable_uses import readers_of


def findings_about(plan: PlanOp) -> Iterator[Finding]:
    """The findings that keep a plan from having ticks."""
    try:
        sections = sections_of(plan.attributes.get(SECTIONS))
    except VerifyException as error:
        yield plan, str(error)
        return
    if sections and any(task.results_ for task in plan.tasks):
        yield plan, "tasks hand on values, run plan-create-registers first"
    names = {task.task_name.data for task in plan.tasks}
    for section in sections:
        for end in ("source", "sink"):
            name = f"{section.section_name.data}/{end}"
            if name in names:
                yield plan, f"'{name}' is taken, which is the name of a tick"


class Members:
    """The tasks of each section of one plan that act."""

    def __init__(self, plan: PlanOp) -> None:
        self.tasks = [task for task in plan.tasks if task.kind != "variable"]
        self._readers: dict[SSAValue, list[TaskOp]] = {}
        for task in self.tasks:
            for value in dict.fromkeys(task.ins):
                self._readers.setdefault(value, []).append(task)
        self._writer = {value: task for task in self.tasks for value in task.outs}

    @cached_property
    def first(self) -> list[TaskOp]:
        """The tasks that no other one comes before."""
        made = {v for task in self.tasks for v in (*task.outs, *task.signals)}
        return [t for t in self.tasks if made.isdisjoint((*t.ins, *t.waits))]

    @cached_property
    def last(self) -> list[TaskOp]:
        """The tasks that no other one comes after."""
        used = {v for task in self.tasks for v in (*task.ins, *task.waits)}
        return [t for t in self.tasks if used.isdisjoint((*t.outs, *t.signals))]

    def begun_by(self, section: SectionAttr) -> list[TaskOp]:
        """The tasks that the source of a section comes before."""
        match section.kind.data:
            case "total":
                return self.first
            case "input":
                return self._inputs(section)
            case _:
                values = self._handed_out(section)
                return unique(self._writer[v] for v in values if v in self._writer)

    @cached_property
    def updates(self) -> list[TaskOp]:
        """The tasks that assign to variables, or may write over them."""
        writers = writers_of_variables(self.tasks)
        assigning = [task for task in self.tasks if isinstance(task.op, AssignOp)]
        return unique((*writers, *assigning))

    def ended_by(self, section: SectionAttr) -> list[TaskOp]:
        """The tasks that the sink of a section comes after."""
        match section.kind.data:
            case "total":
                return self.last
            case "input":
                own = self._inputs(section)
                values = [value for task in own for value in task.outs]
            case _:
                own, values = self._outputs(section), self._handed_out(section)
        using = [task for v in values for task in readers_of(v, self._readers)]
        return unique((*own, *using))

    def _inputs(self, section: SectionAttr) -> list[TaskOp]:
        names = set(section.reads)
        return [
            t for t in self.tasks if isinstance(t.op, InputOp) and t.op.port in names
        ]

    def _outputs(self, section: SectionAttr) -> list[TaskOp]:
        names = set(section.writes)
        return [
            t for t in self.tasks if isinstance(t.op, OutputOp) and t.op.port in names
        ]

    def _handed_out(self, section: SectionAttr) -> list[SSAValue]:
        return list(
            dict.fromkeys(v for task in self._outputs(section) for v in task.ins)
        )


def unique(tasks: Iterable[TaskOp]) -> list[TaskOp]:
    """Tasks without repetitions."""
    return list(dict.fromkeys(tasks))


def tick_of(
    op: SourceTickOp | SinkTickOp, end: str, rank: int, number: int, plan: PlanOp
) -> TaskOp:
    """The task that begins or ends a section on a rank."""
    name = f"{op.section.data}/{end}" + (f"@{rank}" if rank else "")
    op.location = plan.location
    task = TaskOp(
        name,
        DeviceAttr(rank, "cpu", 0),
        StreamAttr("tick", number),
        Region(Block([op, YieldOp.create()])),
        order=0 if end == "source" else 1,
    )
    task.location = plan.location
    return task


class Ticks:
    """Makes the ticks of one plan."""

    def __init__(self, plan: PlanOp) -> None:
        self._plan = plan
        self._members = Members(plan)
        self._edges: list[ControlEdge] = []
        self._sources: list[TaskOp] = []
        self._sinks: list[tuple[SectionAttr, int, TaskOp]] = []

    def add(self, sections: Sequence[SectionAttr]) -> None:
        """Make the ticks of all sections."""
        for number, section in enumerate(sections):
            begun = self._members.begun_by(section)
            ended = self._members.ended_by(section)
            for rank in self._ranks((*begun, *ended)):
                self._add(section, number, rank, begun, ended)
        for section, rank, total in self._sinks:
            if section.kind.data == "total":
                for other, its_rank, sink in self._sinks:
                    if other is not section and its_rank == rank:
                        self._edges.append(ControlEdge(sink, total))
        block = self._plan.body.block
        sinks = [sink for _, _, sink in reversed(self._sinks)]
        if tasks := self._plan.tasks:
            block.insert_ops_before(self._sources, tasks[0])
        else:
            block.add_ops(self._sources)
        block.add_ops(sinks)
        write_control_edges(self._plan, self._edges)

    def _ranks(self, tasks: Iterable[TaskOp]) -> list[int]:
        """The ranks that tasks of a section run on, one even if there are none."""
        own = self._plan.rank
        return sorted({x.device.rank.data for x in tasks}) or [
            own.value.data if own else 0
        ]

    def _add(
        self,
        section: SectionAttr,
        number: int,
        rank: int,
        begun: Sequence[TaskOp],
        ended: Sequence[TaskOp],
    ) -> None:
        name, plan = section.section_name.data, self._plan
        source = tick_of(SourceTickOp(name), "source", rank, number, plan)
        sink = tick_of(SinkTickOp(name), "sink", rank, number, plan)
        here = [task for task in begun if task.device.rank.data == rank]
        there = [task for task in ended if task.device.rank.data == rank]
        updates = [x for x in self._members.updates if x.device.rank.data == rank]
        self._edges += [ControlEdge(source, x) for x in unique((*here, *updates))]
        self._edges += [ControlEdge(task, sink) for task in there]
        if not here or not there:
            self._edges.append(ControlEdge(source, sink))
        self._sources.append(source)
        self._sinks.append((section, rank, sink))


def has_ticks(plan: PlanOp) -> bool:
    """Whether some task of a plan is a tick."""
    return any(task.kind == "tick" for task in plan.tasks)


@dataclass(frozen=True)
class PlanAddTicksPass(ModulePass):
    """
    Let a task begin, and a task end, each section of a plan.
    """

    name = "plan-add-ticks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plans = [
            plan
            for plan in outermost(op, PlanOp)
            if SECTIONS in plan.attributes and not (has_ticks(plan) or plan.has_places)
        ]
        fail_if_any(found for plan in plans for found in findings_about(plan))
        for plan in plans:
            sections = sections_of(plan.attributes.get(SECTIONS))
            if sections:
                Ticks(plan).add(sections)
