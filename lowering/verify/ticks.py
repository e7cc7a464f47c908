"""
Check that ticks begin and end all that a plan with sections does.

In a plan that has ticks, for each job

* each section has one source and one sink on each rank that has either, and ticks are
  of sections that the job has;
* on each rank where the job acts, `total` has both;
* the first tasks on each rank are sources, and the last one is the sink of `total`;
* a source comes before the sink of its section.

Plans without ticks, and plans on values, are left alone.

Example: `test/lowering/verify/verify-ticks-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import SECTIONS, SinkTickOp, SourceTickOp, sections_of
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.walk import outermost
from penstock.lowering.verify.plan_rules.graph import PlanGraph

NOTHING = DictionaryAttr({})
Ends: TypeAlias = dict[tuple[str, int], list[int]]
"""The ticks of each section on each rank."""


@dataclass
class JobTicks:
    """The tasks of one job of a plan, by their numbers in the graph."""

    plan_graph: PlanGraph
    job: str | None
    tasks: list[int]

    def __post_init__(self) -> None:
        self.sources: Ends = {}
        self.sinks: Ends = {}
        for index in self.tasks:
            task = self._task(index)
            rank = task.device.rank.data
            if isinstance(op := task.op, SourceTickOp):
                self.sources.setdefault((op.section.data, rank), []).append(index)
            elif isinstance(op, SinkTickOp):
                self.sinks.setdefault((op.section.data, rank), []).append(index)

    def _task(self, index: int) -> TaskOp:
        return self.plan_graph.tasks[index]

    @property
    def sections(self) -> dict[str, str]:
        """The kind of each section of the job. Raises `VerifyException`."""
        plan = self.plan_graph.plan
        given: Mapping[str, Attribute] = plan.attributes
        if self.job is not None:
            jobs = plan.attributes.get("jobs")
            own = jobs.data.get(self.job) if isinstance(jobs, DictionaryAttr) else None
            given = (own if isinstance(own, DictionaryAttr) else NOTHING).data
        sections = sections_of(given.get(SECTIONS))
        return {x.section_name.data: x.kind.data for x in sections}

    def findings(self) -> Iterator[Finding]:
        """All that is wrong with the ticks of the job."""
        try:
            sections = self.sections
        except VerifyException as error:
            yield self.plan_graph.plan, str(error)
            return
        yield from self._unknown(sections)
        yield from self._unpaired(sections)
        yield from self._loose_ends(sections)

    def _unknown(self, sections: dict[str, str]) -> Iterator[Finding]:
        for ticks in (self.sources, self.sinks):
            for (section, _), found in ticks.items():
                if section not in sections:
                    for index in found:
                        task = self._task(index)
                        name = task.task_name.data
                        yield task, f"tick '{name}' is of no section: '{section}'"

    def _unpaired(self, sections: dict[str, str]) -> Iterator[Finding]:
        ranks = {self._task(index).device.rank.data for index in self.tasks}
        total = [
            (name, r)
            for name, kind in sections.items()
            for r in sorted(ranks)
            if kind == "total"
        ]
        for key in dict.fromkeys((*total, *self.sources, *self.sinks)):
            section, rank = key
            counts = [len(ticks.get(key, ())) for ticks in (self.sources, self.sinks)]
            if counts != [1, 1]:
                yield (
                    self._task(self.tasks[0]),
                    f"section '{section}' should have one source and one sink on rank "
                    f"{rank}, got {counts[0]} and {counts[1]}",
                )
            elif not self._comes_before(self.sources[key][0], self.sinks[key][0]):
                sink = self._task(self.sinks[key][0])
                yield sink, f"'{sink.task_name.data}' may act before its source"

    def _comes_before(self, source: int, sink: int) -> bool:
        return self.plan_graph.launch_graph.reaches(source, sink, 0)

    def _loose_ends(self, sections: dict[str, str]) -> Iterator[Finding]:
        graph = self.plan_graph.launch_graph
        final = {
            index
            for (section, _), found in self.sinks.items()
            if sections.get(section) == "total"
            for index in found
        }
        for index in self.tasks:
            task = self._task(index)
            name = task.task_name.data
            if not graph.previous[index] and not isinstance(task.op, SourceTickOp):
                yield task, f"task '{name}' waits for no tick"
            if not graph.next[index] and index not in final:
                yield task, f"no tick waits for task '{name}'"


def findings_in(plan: PlanOp) -> Iterator[Finding]:
    """All that is wrong with the ticks of a plan."""
    plan_graph = PlanGraph(plan)
    if plan_graph.graph.cycles:
        return
    by_job: dict[str | None, list[int]] = {}
    for index, task in enumerate(plan_graph.tasks):
        job = None if task.job is None else task.job.data
        by_job.setdefault(job, []).append(index)
    for job, tasks in by_job.items():
        ticks = JobTicks(plan_graph, job, tasks)
        if ticks.sources or ticks.sinks:
            yield from ticks.findings()


def has_ticks(plan: PlanOp) -> bool:
    """Whether a plan on registers has ticks."""
    if any(task.results_ for task in plan.tasks):
        return False
    return any(task.kind == "tick" for task in plan.tasks)


@dataclass(frozen=True)
class VerifyTicksPass(ModulePass):
    """
    Check that ticks begin and end all that a plan with sections does.
    """

    name = "verify-ticks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plans = outermost(op, PlanOp)
        fail_if_any(
            found for plan in plans if has_ticks(plan) for found in findings_in(plan)
        )
