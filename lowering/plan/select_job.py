"""
Keep one job of a plan of several jobs.

The tasks of the job, the variables that it reads, and the registers, blocks and chunks
that these use stay, all in their places and of their sizes. The plan is named like the
job, and says what the job's own plan said before it was merged. It can be launched
alone, and takes the memory that the job has among the others.

A plan whose jobs are linked to a main job (`plan-link-main`) cannot be taken apart.
Plans whose tasks say no job are left alone, and so are plans of other jobs, as long as
there is one of this job.

Example: `test/lowering/plan/plan-select-job-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.regst import BlockOp, ChunkOp, RegisterOp
from penstock.dialects.utils.walk import outermost


def tasks_of(plan: PlanOp, job: str) -> list[TaskOp]:
    """The tasks of a job, and those of all jobs that make a variable it reads."""
    own = [t for t in plan.tasks if t.job is not None and t.job.data == job]
    read = {value for task in own for value in task.ins}
    kept = set(own)
    kept.update(t for t in plan.tasks if t.job is None and read.intersection(t.outs))
    return [task for task in plan.tasks if task in kept]


def used_by(plan: PlanOp, tasks: Sequence[TaskOp]) -> set[SSAValue]:
    """The registers that tasks name, and the headers of these."""
    used = {value for task in tasks for value in task.operands}
    names = {r.register_name for r in plan.registers if r.register in used}
    return used | {r.register for r in plan.registers if r.header in names}


def select_job(plan: PlanOp, job: str) -> None:
    """Remove all from a plan that this job has no use for."""
    tasks = tasks_of(plan, job)
    used = used_by(plan, tasks)
    kept = set(tasks)
    for task in plan.tasks:
        if task not in kept:
            task.detach()
            task.erase()
    # Definitions stand before uses, so the last user goes first.
    for op in reversed(list(plan.body.block.ops)):
        match op:
            case RegisterOp():
                is_idle = op.register not in used
            case BlockOp() | ChunkOp():
                is_idle = not op.results[0].uses
            case _:
                continue
        if is_idle:
            op.detach()
            op.erase()
    own = plan.attributes.pop("jobs", None)
    said = own.data.get(job) if isinstance(own, DictionaryAttr) else None
    if isinstance(said, DictionaryAttr):
        plan.attributes.update(said.data)
    plan.sym_name, plan.exclusive = StringAttr(job), None


@dataclass(frozen=True)
class PlanSelectJobPass(ModulePass):
    """
    Keep one job of a plan of several jobs.
    """

    name = "plan-select-job"

    job: str
    """The name of the job."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plans = outermost(op, PlanOp)
        found = [plan for plan in plans if self.job in plan.jobs]
        if not found:
            raise PassFailedException(f"no task belongs to job '{self.job}'")
        for plan in found:
            if any(task.kind == "main" for task in plan.tasks):
                raise PassFailedException(
                    f"the jobs of @{plan.sym_name.data} are linked to a main job"
                )
        for plan in found:
            select_job(plan, self.job)
