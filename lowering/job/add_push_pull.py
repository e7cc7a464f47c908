"""
Add the jobs that bring inputs in and take outputs out.

For each name of an input, unless a job makes an output of that name, the module gets a
job `System-Push-<name>`: a `job.foreign_input` from the buffer
`ForeignInput-System-Push-<name>`, which becomes output `<name>`. For each name of an
output it gets a job `System-Pull-<name>`: an input `<name>`, which goes to the buffer
`ForeignOutput-System-Pull-<name>` ([OF-10](sources.md#of-10),
[OF-11](sources.md#of-11)). Each is there once, whatever the number of jobs that have
the name, which all define it alike (`verify-jobs`). It is on the host that the other
jobs have the input or output on, so that they share its bytes once plans are merged.

The input of either says how large it may be where its extents are open (`max_shape`):
like the input that it feeds, or as follows from the inputs of the job of the output.

These jobs have the attribute `system`: they run at the same time as others. They are
listed behind the others, in the order in which names first appear, inputs first. A
module that has some of them gets those that it lacks; a job without `system` that has
the name of one is an error.

With `shared`, only names that several jobs have get one: what a single job has it feeds
or fetches itself, in one run and with slots of its own.

Example: `test/lowering/job/job-add-push-pull-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, TensorType, UnitAttr, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from penstock.dialects.job import (
    ForeignInputOp,
    ForeignOutputOp,
    InputOp,
    JobOp,
    OutputOp,
    PlacementAttr,
)
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.analysis.largest_shapes import JobMaxima
from penstock.lowering.analysis.op_devices import JobDevices
from penstock.lowering.analysis.register_types import MAX_SHAPE
from penstock.lowering.analysis.shape_refinement import is_static
from penstock.lowering.analysis.shared_ports import (
    SYSTEM,
    findings_about,
    jobs_in,
    shared_ports,
)
from penstock.lowering.job.system_jobs import name_findings


@dataclass(frozen=True)
class Port:
    """An input or output of some job, and the host that it is on."""

    name: str
    op: InputOp | OutputOp
    host: PlacementAttr
    maximum: Attribute | None
    """The largest shape, where that is said."""

    @property
    def type(self) -> TensorType:
        """The type of the tensor."""
        op = self.op
        return tensor_type(op.value if isinstance(op, OutputOp) else op.result)

    def limit(self, op: ForeignInputOp | InputOp) -> None:
        """Let an input of a system job say how large it may be."""
        if self.maximum is not None:
            op.attributes[MAX_SHAPE] = self.maximum


def ports_of(jobs: Sequence[JobOp]) -> tuple[dict[str, Port], dict[str, Port]]:
    """The inputs and the outputs of jobs, each name once."""
    inputs: dict[str, Port] = {}
    outputs: dict[str, Port] = {}
    for job in jobs:
        devices, maxima = JobDevices(job), maxima_of(job)
        for op in job.body.block.ops:
            if isinstance(op, InputOp | OutputOp):
                ports = inputs if isinstance(op, InputOp) else outputs
                maximum = op.attributes.get(MAX_SHAPE)
                if isinstance(op, OutputOp) and (most := maxima.get(op.value)):
                    maximum = DenseArrayBase.from_list(i64, most)
                port = Port(op.port.data, op, devices.of(op), maximum)
                ports.setdefault(port.name, port)
    return inputs, outputs


def maxima_of(job: JobOp) -> Mapping[SSAValue, Sequence[int]]:
    """
    The largest shapes of the values of a job with open extents. If they cannot be
    found, there are none here, and it is an error once the job becomes a plan.
    """
    ops = job.body.block.ops
    if all(is_static(op.value.type) for op in ops if isinstance(op, OutputOp)):
        return {}
    maxima = JobMaxima(job)
    return {} if any(maxima.findings()) else maxima.shapes


def push_job(port: Port) -> JobOp:
    """The job that brings an input in."""
    name = f"System-Push-{port.name}"
    source = ForeignInputOp(f"ForeignInput-{name}", port.type)
    source.result.name_hint = port.op.results[0].name_hint
    target = OutputOp(port.name, source)
    port.limit(source)
    return system_job(name, port, [source, target])


def pull_job(port: Port) -> JobOp:
    """The job that takes an output out."""
    name = f"System-Pull-{port.name}"
    source = InputOp(port.name, port.type)
    port.limit(source)
    target = ForeignOutputOp(f"ForeignOutput-{name}", source.result)
    return system_job(name, port, [source, target])


def system_job(name: str, port: Port, ops: Sequence[Operation]) -> JobOp:
    """A job of the system, which comes from an input or output of another one."""
    job = JobOp(name, port.host, Region(Block(ops)))
    job.attributes[SYSTEM] = UnitAttr()
    for op in (job, *ops):
        op.location = port.op.location
    return job


def cut_findings(jobs: Sequence[JobOp], wanted: Sequence[JobOp]) -> Iterator[Finding]:
    """The outputs that would be pulled without the count that they are cut by."""
    if not wanted:
        return
    for op in (op for job in jobs for op in job.body.block.ops):
        if isinstance(op, OutputOp) and op.cuts is not None:
            yield op, f"output '{op.port.data}' is cut, which no job can pull"


def wanted_jobs(jobs: Sequence[JobOp], shared: bool) -> Iterator[JobOp]:
    """The system jobs that these jobs need, or only those for names of several."""
    users = [job for job in jobs if SYSTEM not in job.attributes]
    inputs, outputs = ports_of(users)
    names = set(shared_ports(users)) if shared else {*inputs, *outputs}
    for name, port in inputs.items():
        if name in names and name not in outputs:
            yield push_job(port)
    for name, port in outputs.items():
        if name in names:
            yield pull_job(port)


@dataclass(frozen=True)
class JobAddPushPullPass(ModulePass):
    """
    Add the jobs that bring inputs in and take outputs out.
    """

    name = "job-add-push-pull"

    shared: bool = False
    """Only for names that several jobs have."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        jobs = jobs_in(op)
        wanted = list(wanted_jobs(jobs, self.shared))
        fail_if_any(cut_findings(jobs, wanted))
        fail_if_any(name_findings(op, wanted))
        known = {job.sym_name for job in jobs}
        new = [job for job in wanted if job.sym_name not in known]
        fail_if_any(findings_about(shared_ports([*jobs, *new])))
        if new:
            op.body.block.insert_ops_after(new, jobs[-1])
