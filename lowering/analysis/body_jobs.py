"""
Bodies of loops and conditions as jobs of their own, so that what is done to a job is
done to them: their arguments are inputs, and what they yield outputs.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.job import InputOp, JobOp, OutputOp, placement_of
from penstock.dialects.op.body import FlowOp, yield_of
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.regst.ops import INPUT, OUTPUT
from penstock.dialects.utils.tensors import tensor_type
from penstock.dialects.utils.walk import outermost


def jobs_and_bodies(root: Operation) -> Iterator[JobOp]:
    """
    The jobs of a module, each after the bodies in it, as jobs, those inside of others
    first. A body is one again when the next job is asked for.
    """
    for job in outermost(root, JobOp):
        yield from with_bodies(job)


def with_bodies(job: JobOp) -> Iterator[JobOp]:
    """A job after the bodies in it, as `jobs_and_bodies` has them."""
    yield from _bodies_in(job)
    yield job


def _bodies_in(job: JobOp) -> Iterator[JobOp]:
    for op in [op for op in job.body.block.ops if isinstance(op, FlowOp)]:
        for region in op.regions:
            body = job_of_body(op, region, job)
            try:
                yield from _bodies_in(body)
                yield body
            finally:
                put_back(region.block, body)


def job_of_body(op: FlowOp, region: Region, job: JobOp) -> JobOp:
    """The ops of a body, moved to a job that runs where their op does in its job."""
    block = region.block
    end = yield_of(block)
    made: list[Operation] = []
    for arg in block.args:
        made.append(port := InputOp(f"{INPUT}{arg.index}", tensor_type(arg)))
        port.result.name_hint = arg.name_hint
        port.location = op.location
        arg.replace_all_uses_with(port.result)
    members = [member for member in block.ops if member is not end]
    for member in members:
        member.detach()
    outputs = [OutputOp(f"{OUTPUT}{i}", value) for i, value in enumerate(end.values)]
    for output in outputs:
        output.location = op.location
    end.operands = ()
    body = Region(Block([*made, *members, *outputs]))
    found = JobOp(job.sym_name.data, placement_of(op, job), body)
    found.location = op.location
    return found


def put_back(block: Block, job: JobOp) -> None:
    """Move the ops of the job of a body back to it."""
    end = yield_of(block)
    values: dict[int, SSAValue] = {}
    members: list[Operation] = []
    for op in list(job.body.block.ops):
        op.detach()
        if isinstance(op, InputOp):
            op.result.replace_all_uses_with(block.args[number_of(op)])
        elif isinstance(op, OutputOp):
            values[number_of(op)] = op.value
            op.drop_all_references()
        else:
            members.append(op)
    end.operands = [values[number] for number in sorted(values)]
    Rewriter.insert_op(members, InsertPoint.before(end))


def number_of(port: InputOp | OutputOp) -> int:
    """The number of the argument, or of the value yielded, that a port is."""
    return int(port.port.data.rpartition("_")[2])


def runs_bodies(op: FlowOp, job: JobOp, kind: str | None = None) -> bool:
    """
    Whether an op runs where its bodies can be run as such: on one CPU or GPU. `kind` is
    that of the device that the job will be moved to, if it will.
    """
    placement = placement_of(op, job)
    if is_spread(op, job):
        return False
    is_moved = kind is not None and "placement" not in op.attributes
    found = kind if is_moved else placement.kind.data
    return found in ("cpu", "cuda")


def is_spread(op: FlowOp, job: JobOp) -> bool:
    """Whether an op, or ops in its bodies, run on several devices."""
    own = placement_of(op, job)
    if own.single_device() is None:
        return True
    inside = (inner.attributes.get("placement") for inner in op.walk())
    return any(place is not None and place != own for place in inside)


def lift_constants(job: JobOp) -> None:
    """
    Let bodies read their constants from outside, where they are there all the time;
    those of equal elements stay, which are parts of kernels.
    """
    for op in [op for op in job.walk(region_first=True) if isinstance(op, FlowOp)]:
        known: dict[ConstantOp, SSAValue] = {}
        for region in op.regions:
            for member in list(region.block.ops):
                if isinstance(member, ConstantOp) and member.splat is None:
                    member.detach()
                    known[member] = member.result
        if known:
            Rewriter.insert_op([*known], InsertPoint.before(op))
            op.read_also([*known.values()])
