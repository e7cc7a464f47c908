"""
Add the jobs that initialise, load and save the variables of all jobs.

`System-ModelInit` and `System-ModelLoad` have for each variable `w` a
`job.foreign_input` from the buffer `ForeignInput-<job>-w` and a `job.assign` of that to
it; `System-ModelSave` has a `job.foreign_output` of it to the buffer
`ForeignOutput-System-ModelSave-w`. Their caller feeds the values that the variables'
initialisers stand for, feeds those of a file, or fetches them for a file. A variable is
there once, whatever the number of jobs that have it, which all define it alike
(`verify-jobs`), with its name, initialiser, placement and sbp; the order is that in
which names first appear. Its buffers are on the host of the first of its devices.

These jobs have the attribute `system`, and are listed behind the others. A module that
has some of them gets those that it lacks, and one without variables gets none; a job
without `system` that has the name of one is an error, and so is a variable that is a
part of another one.

Example: `test/lowering/job/job-add-model-jobs-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass

from penstock.dialects.job import (
    AssignOp,
    ForeignInputOp,
    ForeignOutputOp,
    JobOp,
    VariableOp,
    placement_of,
)
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.analysis.shared_ports import (
    SYSTEM,
    findings_about,
    jobs_in,
    shared_ports,
)
from penstock.lowering.job.system_jobs import CALLER, name_findings

INIT, LOAD, SAVE = "System-ModelInit", "System-ModelLoad", "System-ModelSave"
"""The names of the jobs."""

Variables: TypeAlias = Mapping[str, tuple[VariableOp, JobOp]]
"""The variables by name, each with the job that has it first."""


def variables_of(jobs: Sequence[JobOp]) -> Variables:
    """The variables of jobs, each name once."""
    found: dict[str, tuple[VariableOp, JobOp]] = {}
    for job in jobs:
        for op in job.body.block.ops:
            if isinstance(op, VariableOp):
                found.setdefault(op.port.data, (op, job))
    return found


def part_findings(variables: Variables) -> Iterator[Finding]:
    """The variables that are parts of others."""
    for name, (op, _) in variables.items():
        if op.whole is not None:
            yield op, f"variable '{name}' is a part, so it cannot be loaded alone"


def setting(name: str, variable: VariableOp) -> list[Operation]:
    """The ops that set a variable in the job of this name."""
    port, type = variable.port.data, tensor_type(variable.result)
    source = ForeignInputOp(f"ForeignInput-{name}-{port}", type)
    source.result.name_hint = f"{variable.result.name_hint or port}_new"
    return [source, AssignOp(source, variable)]


def getting(name: str, variable: VariableOp) -> list[Operation]:
    """The ops that put out a variable in the job of this name."""
    buffer = f"ForeignOutput-{name}-{variable.port.data}"
    return [ForeignOutputOp(buffer, variable.result)]


def model_job(
    name: str,
    variables: Variables,
    uses: Callable[[str, VariableOp], list[Operation]],
) -> JobOp:
    """A job of the system that does something with each variable."""
    ops: list[Operation] = []
    for original, owner in variables.values():
        variable = original.clone()
        variable.result.name_hint = original.result.name_hint
        variable.attributes.pop("placement", None)
        made = [variable, *uses(name, variable)]
        placement = placement_of(original, owner)
        for op in made:
            op.location = original.location
            if placement != CALLER and not isinstance(op, AssignOp):
                op.attributes["placement"] = placement
        ops += made
    job = JobOp(name, CALLER, Region(Block(ops)))
    job.attributes[SYSTEM] = UnitAttr()
    job.location = next(iter(variables.values()))[1].location
    return job


def wanted_jobs(variables: Variables) -> list[JobOp]:
    """The jobs over these variables, if there are any."""
    if not variables:
        return []
    return [
        model_job(INIT, variables, setting),
        model_job(LOAD, variables, setting),
        model_job(SAVE, variables, getting),
    ]


@dataclass(frozen=True)
class JobAddModelJobsPass(ModulePass):
    """
    Add the jobs that initialise, load and save the variables of all jobs.
    """

    name = "job-add-model-jobs"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        jobs = jobs_in(op)
        users = [job for job in jobs if SYSTEM not in job.attributes]
        fail_if_any(findings_about(shared_ports(users)))
        variables = variables_of(users)
        fail_if_any(part_findings(variables))
        wanted = wanted_jobs(variables)
        fail_if_any(name_findings(op, wanted))
        known = {job.sym_name for job in jobs}
        new = [job for job in wanted if job.sym_name not in known]
        if new:
            op.body.block.insert_ops_after(new, jobs[-1])
