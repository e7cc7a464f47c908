"""
Split what training keeps over the devices that have copies of it: ZeRO, by SBP.

It is about the variables that a `job.update` updates and that are whole along some
dimension of several devices. Along each such dimension the first axis is cut whose
extent the number of devices divides, if `least` elements are left to a device; else all
stays whole there. `stage` says for whom this layout is:

* from 1 on for the states of the optimizer, and so for the update (the attribute `sbp`
  of `job.update`): each device updates its part of the variable, which is gathered
  where it is assigned. Updates without states stay as they are.
* from 2 on for the gradient, too. Sums over devices end on the device that needs them
  (reduce-scatter), and what is accumulated are parts.
* from 3 on for the variable itself, in all jobs of the module. Ops of the forward pass
  read one gathered copy of it. Ops of the backward pass have one each, which waits by
  `job.after` for the gradient that they read, so the first is gone meanwhile.

Gathered and reduced are values of the same elements, so losses differ by nothing but
the order of sums. With stage 0 jobs stay as they are. The rule is that of OneFlow's
`distributed_split` ([OF-51](sources.md#of-51)), and of the paper on ZeRO.

Example: `test/lowering/job/job-shard-states-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.job import (
    AfterOp,
    Entry,
    JobOp,
    SbpAttr,
    UpdateOp,
    VariableOp,
    made_of,
    placement_of,
)
from penstock.dialects.op.movement import ReshapeOp
from penstock.dialects.op.sbp import BROADCAST, sbp_of, split
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.training.optimizers import Optimizer
from penstock.dialects.utils.tensors import tensor_type
from penstock.dialects.utils.walk import outermost

PASS, BACKWARD = "pass", StringAttr("backward")
"""The attribute of ops of a part of a training step."""
SBP = "sbp"


def sharded(
    shape: Sequence[int], entries: Sequence[Entry], hierarchy: Sequence[int], least: int
) -> list[Entry]:
    """
    The layout of a tensor in which it is cut along the dimensions of a hierarchy along
    which it is whole, if at least so many elements are left to a device.
    """
    left, made = list(shape), list(entries)
    for entry, devices in zip(entries, hierarchy, strict=True):
        for axis, other in enumerate(left):
            if entry == split(axis):
                left[axis] = other // devices
    for dim, (entry, devices) in enumerate(zip(entries, hierarchy, strict=True)):
        if entry != BROADCAST or devices == 1 or prod(left) < devices * least:
            continue
        axes = [axis for axis, extent in enumerate(left) if extent % devices == 0]
        if axes:
            left[axes[0]] //= devices
            made[dim] = split(axes[0])
    return made


class Layouts(NamedTuple):
    """The layout that a variable has, and the one that its parts have."""

    have: SbpAttr
    parts: SbpAttr


def layouts_of(job: JobOp, variable: VariableOp, least: int) -> Layouts | None:
    """The layouts of a variable; None if it stays as it is."""
    hierarchy = placement_of(variable, job).shape
    have = variable.attributes.get(SBP, sbp_of(*[BROADCAST] * len(hierarchy)))
    type = tensor_type(variable.result)
    # An SBP that does not fit its placement is reported where it is read.
    if not isinstance(have, SbpAttr) or len(have.dims) != len(hierarchy):
        return None
    if not type.has_static_shape():
        return None
    entries = sharded(type.get_shape(), have.dims.data, hierarchy, least)
    parts = sbp_of(*entries)
    return None if parts == have else Layouts(have, parts)


def updates_of(job: JobOp) -> Iterator[tuple[UpdateOp, VariableOp]]:
    """The updates of a job that say nothing of layouts, each with its variable."""
    for op in job.body.block.ops:
        if not isinstance(op, UpdateOp) or SBP in op.attributes:
            continue
        # An update of anything else is reported by `job-add-updates`.
        if isinstance(variable := op.target.owner, VariableOp):
            yield op, variable


def has_states(op: UpdateOp) -> bool:
    """Whether the optimizer of an update keeps anything."""
    made = made_of("optimizer", op.optimizer)
    assert isinstance(made, Optimizer), "plug-ins of the kind are"
    return bool(made.states())


def lay_gradient(op: UpdateOp, parts: SbpAttr) -> None:
    """Let an update read its gradient in parts."""
    maker = op.gradient.owner
    assert isinstance(maker, Operation), "jobs have no arguments"
    if isinstance(maker, ReshapeOp) and SBP in maker.attributes:
        # It says how the gradient lies, and nothing else.
        maker.attributes[SBP] = parts
        return
    laid = laid_as(op.gradient, parts, maker)
    Rewriter.insert_op(laid, InsertPoint.before(op))
    # Its second operand: the variable itself may be the same value.
    op.operands[1] = laid.result


def laid_as(value: SSAValue, sbp: SbpAttr, like: Operation) -> ReshapeOp:
    """A value in a layout: an op for the part of a step that another one is for."""
    made = ReshapeOp(value, tensor_type(value).get_shape())
    made.attributes[SBP] = sbp
    for key in (PASS, "placement"):
        if key in like.attributes:
            made.attributes[key] = like.attributes[key]
    made.location = like.location
    made.result.name_hint = value.name_hint
    return made


################################################################################
# Variables                                                                    #
################################################################################


def readers_of(variable: VariableOp) -> list[Operation]:
    """The ops on tensors that read a variable, in order."""
    readers = {use.operation for use in variable.result.uses}
    block = variable.parent
    assert block is not None, "it stands in a job"
    return [op for op in block.ops if op in readers and isinstance(op, TensorOp)]


def is_backward(value: SSAValue) -> bool:
    """Whether a value is one of the backward pass."""
    owner = value.owner
    return isinstance(owner, Operation) and owner.attributes.get(PASS) == BACKWARD


def gradient_for(op: Operation) -> SSAValue | None:
    """
    The gradient that an op of the backward pass has to wait for: the first that it
    reads, or else that an op before it reads, as for weights that are only turned.
    """
    before: Operation | None = op
    while before is not None:
        if before.attributes.get(PASS) == BACKWARD:
            for value in before.operands:
                if is_backward(value):
                    return value
        before = before.prev_op
    return None


def gathered(variable: VariableOp, whole: SbpAttr, op: Operation) -> SSAValue:
    """A whole copy of a variable for an op, which is made in front of it."""
    value = variable.result
    wait = gradient_for(op) if op.attributes.get(PASS) == BACKWARD else None
    if wait is not None:
        after = AfterOp(value, [wait])
        after.location = op.location
        Rewriter.insert_op(after, InsertPoint.before(op))
        value = after.result
    copy = laid_as(value, whole, op)
    copy.result.name_hint = f"{variable.result.name_hint or 'variable'}_whole"
    Rewriter.insert_op(copy, InsertPoint.before(op))
    return copy.result


def gather(variable: VariableOp, whole: SbpAttr) -> None:
    """Let ops read gathered copies of a variable that lies in parts."""
    forward: SSAValue | None = None
    for op in readers_of(variable):
        if op.attributes.get(PASS) == BACKWARD:
            redirect(variable.result, op, gathered(variable, whole, op))
            continue
        if forward is None:
            forward = gathered(variable, whole, op)
        redirect(variable.result, op, forward)


def redirect(value: SSAValue, reader: Operation, other: SSAValue) -> None:
    """Let an op read another value instead of one."""
    for index, operand in enumerate(reader.operands):
        if operand is value:
            reader.operands[index] = other


################################################################################
# Jobs                                                                         #
################################################################################


def shard(jobs: Sequence[JobOp], stage: int, least: int) -> None:
    """Split what training keeps of all jobs of a module."""
    in_parts: dict[str, Layouts] = {}
    for job in jobs:
        for op, variable in updates_of(job):
            layouts = layouts_of(job, variable, least)
            if layouts is None or (stage == 1 and not has_states(op)):
                continue
            op.attributes[SBP] = layouts.parts
            if stage > 1:
                lay_gradient(op, layouts.parts)
            in_parts[variable.port.data] = layouts
    if stage < 3:
        return
    for job in jobs:
        for op in list(job.body.block.ops):
            if isinstance(op, VariableOp) and op.port.data in in_parts:
                layouts = in_parts[op.port.data]
                gather(op, layouts.have)
                op.attributes[SBP] = layouts.parts


@dataclass(frozen=True)
class JobShardStatesPass(ModulePass):
    """
    Split states, gradients and variables over devices that would have copies of them.
    """

    name = "job-shard-states"

    stage: int = 0
    """1: the states of optimizers, 2: gradients, too, 3: variables, too; 0: nothing."""

    least: int = 1024
    """The fewest elements of a part."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not 0 <= self.stage <= 3:
            raise PassFailedException(
                f"the stage should be 0, 1, 2 or 3, got {self.stage}"
            )
        if self.least < 1:
            raise PassFailedException(
                f"a part should have at least 1 element, got {self.least}"
            )
        if self.stage:
            shard(outermost(op, JobOp), self.stage, self.least)
