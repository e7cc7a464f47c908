"""
Bring every value of a job to the device it is used on.

An op runs where it is placed: by its own `placement`, else by its job's. Inputs are
made, and outputs used, on the host of that device; variables lie where they are placed.
Where a value is used on another device than the one it is made on, it is copied there
by a `job.copy` right after the op that makes it; all uses on a device share one copy,
and a copy that is there already serves the uses after it. Copies that outputs alone
read stand with these at the end of the job, so that they do not keep apart ops that can
be computed together. A constant is made where it is used: it moves there, and one that
is used in several places is cloned for each. So in a job that has been placed nothing
is left to do.

The result of a `job.after` lies where the first tensor does, wherever the others are; a
copy of it waits for these, too, and so is none of the first tensor's.

Values that are made or used by an op on several devices stay as they are: it takes
`job-infer-sbp` and `job-insert-boxing` to say which device needs which part of them.

Example: `test/lowering/job/job-place-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException, VerifyException

from penstock.dialects.job import (
    AfterOp,
    BoxingOp,
    CopyOp,
    JobOp,
    OutputOp,
    PlacementAttr,
    verify_device_kind,
)
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.op_devices import JobDevices, place_on

Uses: TypeAlias = dict[PlacementAttr, list[tuple[Operation, int]]]
"""The uses of a value, as op and operand index, by where it is needed."""


def read_uses(job: JobOp, devices: JobDevices) -> dict[SSAValue, Uses]:
    """
    The uses of all values of a job, in order, but for those by copies, which read from
    any device, by boxings, which say where they read from, and by `job.after` of what
    it waits for. Uses that a copy before them can serve are handed to that copy.
    """
    uses: dict[SSAValue, Uses] = {}
    copies: dict[tuple[SSAValue, PlacementAttr], SSAValue] = {}
    for op in job.body.block.ops:
        place = devices.of(op)
        if isinstance(op, CopyOp):
            copies.setdefault((op.source, place), op.result)
        if isinstance(op, CopyOp | BoxingOp):
            continue
        if isinstance(op, AfterOp):
            uses.setdefault(op.value, {}).setdefault(place, []).append((op, 0))
            continue
        for index, value in enumerate(op.operands):
            if (copy := copies.get((value, place))) is not None:
                op.operands[index] = copy
            else:
                by_place = uses.setdefault(value, {})
                by_place.setdefault(place, []).append((op, index))
    return uses


def redirect(uses: Iterable[tuple[Operation, int]], value: SSAValue) -> None:
    """Let operands be `value`."""
    for op, index in uses:
        op.operands[index] = value


def copy_result(
    owner: Operation, value: SSAValue, made_on: PlacementAttr, by_place: Uses
) -> None:
    """Copy a result of `owner`, right after it, to each device it is used on."""
    others = [place for place in by_place if place != made_on]
    if not others or made_on.single_device() is None:
        return
    last = owner
    for place in others:
        if (device := place.single_device()) is None:
            continue
        copy = CopyOp(value, device)
        copy.location = owner.location
        if value.name_hint is not None:
            copy.result.name_hint = f"{value.name_hint}_{device.kind.data}"
        Rewriter.insert_op(copy, InsertPoint.after(last))
        redirect(by_place[place], copy.result)
        last = copy


def spread_constant(constant: ConstantOp, devices: JobDevices, by_place: Uses) -> None:
    """Make a constant wherever it is used, itself at one of these places."""
    made_on = devices.of(constant)
    home = made_on if made_on in by_place else next(iter(by_place))
    last = constant
    for place, uses in by_place.items():
        if place == home:
            continue
        clone = constant.clone()
        place_on(clone, place, devices)
        Rewriter.insert_op(clone, InsertPoint.after(last))
        redirect(uses, clone.result)
        last = clone
    place_on(constant, home, devices)


def let_copied_outputs_be_last(job: JobOp) -> None:
    """Move copies that outputs alone read, and these, to the end in their order."""
    block = job.body.block
    for op in tuple(block.ops):
        made = op.operands[0].owner if isinstance(op, OutputOp) else op
        if isinstance(made, CopyOp) and is_for_outputs(made):
            op.detach()
            block.add_op(op)


def is_for_outputs(copy: CopyOp) -> bool:
    """Whether all that reads a copy are outputs."""
    users = [use.operation for use in copy.result.uses]
    return bool(users) and all(isinstance(user, OutputOp) for user in users)


def place_job(job: JobOp) -> None:
    """Bring every value of a job to the device it is used on."""
    devices = JobDevices(job)
    for value, by_place in read_uses(job, devices).items():
        owner = value.owner
        assert isinstance(owner, Operation), "the block of a job takes no arguments"
        if isinstance(owner, ConstantOp):
            spread_constant(owner, devices, by_place)
        else:
            copy_result(owner, value, devices.of(owner), by_place)
    let_copied_outputs_be_last(job)


def move_job(job: JobOp, kind: str) -> None:
    """Place a job on devices of another kind, at the same ranks and indices."""
    old = job.placement
    job.placement = PlacementAttr(kind, old.pairs, old.shape)


@dataclass(frozen=True)
class JobPlacePass(ModulePass):
    """
    Insert a `job.copy` wherever a value is used on another device than it is made on.
    """

    name = "job-place"

    device: str | None = None
    """Run the jobs on devices of this kind, at the ranks and indices they name."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        jobs = outermost(op, JobOp)
        if self.device is not None:
            try:
                verify_device_kind(self.device)
            except VerifyException as error:
                raise PassFailedException(str(error)) from error
            for job in jobs:
                move_job(job, self.device)
        for job in jobs:
            place_job(job)
