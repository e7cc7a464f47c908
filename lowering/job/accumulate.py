"""
Gradient accumulation: update variables once for several micro-batches.

A gradient that a `job.update` reads becomes the mean of those of `count` consecutive
pieces: `op.acc` adds them up, and an `op.mul` divides by their number. So the job takes
`count` pieces of each input a launch, and one update of losses that are means equals
one of a batch that is `count` times as large.

All that reads such a gradient reads the mean, but for other ops of the backward pass:
so a norm, and a condition to `skip` an update, are those of the whole batch. On several
devices the terms of a gradient that ends up whole on each are added up there first, so
they are exchanged once an update.

A gradient costs one register of its size more. Rates and scales that come from
variables are there for every act. With a count of 1 jobs stay as they are.

The rule is OneFlow's ([OF-70](sources.md#of-70)).

Example: `test/lowering/job/job-accumulate-example.mlir`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp, StringAttr, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.job import JobOp, SbpAttr, UpdateOp
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.elementwise import MulOp
from penstock.dialects.op.movement import ReshapeOp
from penstock.dialects.op.multirate import AccOp
from penstock.dialects.op.sbp import BROADCAST
from penstock.dialects.utils.splat import splat_of
from penstock.dialects.utils.tensors import tensor_type
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.op_devices import place_like

PASS, UPDATE, BACKWARD = "pass", StringAttr("update"), StringAttr("backward")
"""The attribute that names the part of a training step of an op, and its values."""


def gradients_of(job: JobOp) -> list[SSAValue]:
    """The gradients that updates of a job read, each once, but for sums of pieces."""
    updates = [op for op in job.body.block.ops if isinstance(op, UpdateOp)]
    found = dict.fromkeys(op.gradient for op in updates)
    return [value for value in found if not isinstance(value.owner, AccOp)]


def is_gathering(op: Operation) -> bool:
    """Whether an op says that a gradient is to be whole on several devices."""
    if not isinstance(op, ReshapeOp) or op.source.type != op.result.type:
        return False
    sbp = op.attributes.get("sbp")
    return isinstance(sbp, SbpAttr) and {*sbp.dims.data} == {BROADCAST}


def accumulate(gradient: SSAValue, count: int) -> None:
    """Let what reads a gradient read the mean of several pieces of it."""
    source = gradient.owner
    assert isinstance(source, Operation), "jobs have no arguments"
    laid = source.clone() if is_gathering(source) else None
    piece = gradient if laid is None else source.operands[0]
    type = tensor_type(gradient)
    element = type.element_type
    assert isinstance(element, AnyFloat), "variables of floats are updated"
    share = ConstantOp(splat_of(TensorType(element, []), element.pack([1 / count])))
    total = AccOp(piece, count, type)
    mean = MulOp.of(total, share)
    for op in (total, share, mean):
        op.attributes[PASS] = UPDATE
        op.location = source.location
        place_like(op, source)
    if hint := gradient.name_hint:
        total.result.name_hint, mean.result.name_hint = f"{hint}_sum", f"{hint}_mean"
    made: list[Operation] = [total, share, mean]
    if laid is not None:
        laid.operands[0] = mean.result
        laid.attributes[PASS] = UPDATE
        made.append(laid)
    Rewriter.insert_op(made, InsertPoint.after(source))
    for use in list(gradient.uses):
        reader = use.operation
        if reader is not total and reader.attributes.get(PASS) != BACKWARD:
            reader.operands[use.index] = made[-1].results[0]
    if laid is not None and not gradient.uses:
        Rewriter.erase_op(source)


@dataclass(frozen=True)
class JobAccumulatePass(ModulePass):
    """
    Update variables once for several micro-batches, by the means of their gradients.
    """

    name = "job-accumulate"

    count: int = 1
    """The number of micro-batches of one update."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.count < 1:
            raise PassFailedException(
                f"the count should be at least 1, got {self.count}"
            )
        if self.count == 1:
            return
        for job in outermost(op, JobOp):
            for gradient in gradients_of(job):
                accumulate(gradient, self.count)
