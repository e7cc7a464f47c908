"""
Turn each job into a plan with one task for each op, in the same order.

A task is named by the SSA name of its op's result where it has one (`%h = ...` is
"h"), else by the port of an input, variable or output, else by the name of the op
without its dialect; of equal names the later ones get `_1`, `_2`... It reads each
tensor once, however often its op uses it. It runs on the device its op is placed on,
inputs and outputs on the host of that device, on stream `<compute, 0>`. A copy to a
device runs on that device's stream `<copy_h2d, 0>`, one from a device to a host on the
stream `<copy_d2h, 0>` of the former, and one between processors on the target's
`<compute, 0>`. The attribute `slots = N : i64` of an op becomes one of its task; its
`placement` has done its work and goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i32,
    i64,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from penstock.dialects.diagnostics import fail_if_any
from penstock.dialects.interfaces import TensorOp
from penstock.dialects.job import (
    CopyOp,
    DeviceAttr,
    InputOp,
    JobOp,
    OutputOp,
    VariableOp,
)
from penstock.dialects.plan import PlanOp, StreamAttr, TaskOp, YieldOp
from penstock.lowering.job_devices import JobDevices, placement_complaints
from penstock.lowering.unique_names import UniqueNames


def complaints_about(job: JobOp) -> list[tuple[Operation, str]]:
    """All that keeps a job from becoming a plan, each with the op it is about."""
    found = [*placement_complaints(job), *op_complaints(job)]
    return found or list(operand_complaints(job))


def op_complaints(job: JobOp) -> Iterator[tuple[Operation, str]]:
    """The ops of a job that cannot be tasks."""
    for op in job.body.block.ops:
        if not isinstance(op, TensorOp | CopyOp | InputOp | OutputOp | VariableOp):
            yield op, f"{op.name} cannot be a task: it is no op on tensors"
        if (slots := op.attributes.get("slots")) is not None and not (
            isa(slots, IntegerAttr) and slots.type == i64 and slots.value.data > 0
        ):
            yield op, f"slots must be an i64 of at least 1, got {slots}"


def operand_complaints(job: JobOp) -> Iterator[tuple[Operation, str]]:
    """The operands of a job that lie on another device than they are used on."""
    devices = JobDevices(job)
    made_on: dict[SSAValue, DeviceAttr] = {}
    for op in job.body.block.ops:
        device = devices.of(op)
        made_on.update((result, device) for result in op.results)
        if isinstance(op, CopyOp):
            continue
        for index, value in enumerate(op.operands):
            if (lies_on := made_on[value]) != device:
                yield (
                    op,
                    f"operand {index} lies on {lies_on}, but is used on {device}; "
                    "job-place inserts copies",
                )


def base_name_of(op: Operation) -> str:
    """The name of an op's task, but for the number that makes it unique."""
    hints = (result.name_hint for result in op.results)
    if (hint := next(filter(None, hints), None)) is not None:
        return hint
    if isinstance(op, InputOp | OutputOp | VariableOp):
        return op.port.data
    return op.name.split(".", 1)[-1]


class TaskBuilder:
    """Makes the tasks of one plan, in order, moving the ops of the job into them."""

    def __init__(self, devices: JobDevices) -> None:
        self._devices = devices
        self._names = UniqueNames()
        self._values: dict[SSAValue, SSAValue] = {}
        self._segments: dict[int, DenseArrayBase] = {}
        self._streams = {
            kind: StreamAttr(StringAttr(kind), IntAttr(0))
            for kind in ("compute", "copy_d2h", "copy_h2d")
        }
        self._made_on: dict[SSAValue, DeviceAttr] = {}

    def make(self, op: Operation) -> TaskOp:
        """Move one op of the job into a task of its own."""
        device, stream = self._stream_of(op)
        slots = op.attributes.pop("slots", None)
        op.attributes.pop("placement", None)
        read = tuple(dict.fromkeys(op.operands))
        task = TaskOp.create(
            operands=[self._values[value] for value in read],
            result_types=op.result_types,
            properties={
                "task_name": StringAttr(self._names.make(base_name_of(op))),
                "device": device,
                "stream": stream,
                "operandSegmentSizes": self._segments_of(len(read)),
            },
            attributes={} if slots is None else {"slots": slots},
            regions=[Region(body_of(op, read))],
            location=op.location,
        )
        for result, outer in zip(op.results, task.results, strict=True):
            outer.name_hint = result.name_hint
            self._values[result] = outer
        return task

    def _stream_of(self, op: Operation) -> tuple[DeviceAttr, StreamAttr]:
        device = self._devices.of(op)
        self._made_on.update((result, device) for result in op.results)
        kind = "compute"
        if isinstance(op, CopyOp):
            source = self._made_on[op.source]
            device, kind = copy_stream(source, device)
        return device, self._streams[kind]

    def _segments_of(self, reads: int) -> DenseArrayBase:
        if (known := self._segments.get(reads)) is not None:
            return known
        sizes = DenseArrayBase.from_list(i32, [reads, 0, 0, 0])
        return self._segments.setdefault(reads, sizes)


def copy_stream(source: DeviceAttr, target: DeviceAttr) -> tuple[DeviceAttr, str]:
    """The device whose stream a copy between two devices runs on, and its kind."""
    if target.kind.data != "cpu":
        return target, "copy_h2d"
    if source.kind.data != "cpu":
        return source, "copy_d2h"
    return target, "compute"


def body_of(op: Operation, read: tuple[SSAValue, ...]) -> Block:
    """The body of the task of an op that reads these values, with the op moved in."""
    block = Block(arg_types=[value.type for value in read])
    inside: dict[SSAValue, SSAValue] = dict(zip(read, block.args, strict=True))
    for value, arg in zip(read, block.args, strict=True):
        arg.name_hint = value.name_hint
    op.detach()
    op.operands = [inside[value] for value in op.operands]
    block.add_op(op)
    block.add_op(YieldOp.create(operands=op.results))
    return block


def convert_job(job: JobOp) -> None:
    """Replace a job by its plan."""
    builder = TaskBuilder(JobDevices(job))
    tasks = [builder.make(op) for op in list(job.body.block.ops)]
    plan = PlanOp.create(
        properties={"sym_name": job.sym_name},
        attributes=job.attributes,
        regions=[Region(Block(tasks))],
        location=job.location,
    )
    Rewriter.replace_op(job, plan, [])


@dataclass(frozen=True)
class ConvertJobToPlanPass(ModulePass):
    """
    Turn each job into a plan with one task for each op.
    """

    name = "convert-job-to-plan"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        jobs = [job for job in op.walk() if isinstance(job, JobOp)]
        fail_if_any(found for job in jobs for found in complaints_about(job))
        for job in jobs:
            convert_job(job)
