"""
Compute elementwise ops together with the contractions that they follow (epilogue
fusion).

An elementwise op (or an `op.fused` of such ops) becomes an `op.fused` with an op whose
result it reads (a matmul or a convolution; its last such operand, where there are
several), if nothing else uses that result, both have one type and run in the same
place, the contraction asks for no `slots` of its own, and the op is one that a kernel
computes in registers: all its parts work on floats of one type. Depthwise convolutions
are left alone: their sums are no tiles. On several devices, where ops say how they are
cut in parts, they stay apart. Ops that must write over an operand by a hint
(`in_place`), or whose operand another op must, do too; other hints go on to the whole
where the operand they are about is still there.

This saves a tensor that is written and read again. On a CPU the epilogue costs next to
nothing (`launch-schedule-contractions`); on any device the two are one kernel.

On a `cpu`, a tensor of the type of the sums (`f32` or `f64`) that is added to them, be
it after others, is the initial value of the accumulators (`starts`): so the result may
lie over it, and each element is read before it is written. The other addends follow;
the order of additions changes.

Example: `test/lowering/op/op-fuse-epilogues-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp, UnitAttr, f32, f64
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.job import JobOp, placement_of
from penstock.dialects.op.convolution import Conv2dOp
from penstock.dialects.op.elementwise import AddOp
from penstock.dialects.op.fused import FusedOp
from penstock.dialects.op.tensor_op import (
    ContractionOp,
    FusibleOp,
    is_elementwise,
)
from penstock.dialects.utils.attributes import carry
from penstock.dialects.utils.pass_events import count
from penstock.dialects.utils.tensors import tensor_type
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.in_place_hints import (
    Overwritten,
    must_lie_over,
)
from penstock.lowering.analysis.op_layouts import OPERANDS, RESULTS
from penstock.lowering.op.outline import outline


def root_of(
    op: FusibleOp, job: JobOp, overwritten: Overwritten
) -> ContractionOp | None:
    """The contraction that an elementwise op can be computed with, if any."""
    if not _is_of_floats(op) or _is_cut(op) or must_lie_over(op):
        return None
    owners = dict.fromkeys(value.owner for value in op.operands)
    roots = [root for root in owners if isinstance(root, ContractionOp)]
    fitting = (root for root in reversed(roots) if _is_root(root, op, job))
    return next(
        (root for root in fitting if not overwritten.keeps_apart(root, op)), None
    )


def _is_cut(op: Operation) -> bool:
    """Whether an op says how it runs in parts."""
    return OPERANDS in op.attributes or RESULTS in op.attributes


def _is_root(root: ContractionOp, op: FusibleOp, job: JobOp) -> bool:
    return (
        not _is_cut(root)
        and not (isinstance(root, Conv2dOp) and root.is_depthwise)
        and "slots" not in root.attributes
        and root.results[0].type == op.results[0].type
        and all(use.operation is op for use in root.results[0].uses)
        and placement_of(root, job) == placement_of(op, job)
    )


def _is_of_floats(op: FusibleOp) -> bool:
    """Whether all that an op computes is of the type of its result, and static."""
    result = tensor_type(op.results[0])
    return (
        isinstance(result.element_type, AnyFloat)
        and result.has_static_shape()
        and all(
            tensor_type(value).element_type == result.element_type
            for value in _tensors(op)
        )
    )


def _tensors(op: FusibleOp) -> Iterator[SSAValue]:
    yield from (*op.operands, *op.results)
    if isinstance(op, FusedOp):
        for member in op.members:
            yield from (*member.operands, *member.results)


def fuse(
    root: ContractionOp, op: FusibleOp, job: JobOp, overwritten: Overwritten
) -> None:
    """Replace both ops by one, where the elementwise op stood."""
    group = outline([root, op], op.results, overwritten, lead=root)
    if can_start(root, group, job):
        start_sums(root, group)


def can_start(root: ContractionOp, group: FusedOp, job: JobOp) -> bool:
    """Whether the sums of an op may start from what is added to them."""
    device = placement_of(group, job).single_device()
    return (
        device is not None
        and device.kind.data == "cpu"
        and root.can_start
        and tensor_type(root.results[0]).element_type in (f32, f64)
    )


def start_sums(root: ContractionOp, group: FusedOp) -> None:
    """Let sums start from a tensor of their type that is added to them, if one is."""
    made = root.results[0]
    if (found := added_to(made)) is None:
        return
    added, start = found
    group.starts = UnitAttr()
    if made in added.operands:
        return
    sums = AddOp.of(made, start)
    sums.location = added.location
    carry(added, sums)
    Rewriter.insert_op(sums, InsertPoint.after(root))
    made.replace_uses_with_if(sums.result, lambda use: use.operation is not sums)
    (before,) = (value for value in added.operands if value is not start)
    Rewriter.replace_op(added, [], [before])


def added_to(made: SSAValue) -> tuple[AddOp, BlockArgument] | None:
    """
    The op that adds an operand of the type of the sums `made` to these, or to what
    others were added to, and that operand.
    """
    value = made
    while value.has_one_use():
        (use,) = value.uses
        added = use.operation
        if not isinstance(added, AddOp) or added.result.type != made.type:
            break
        other = added.operands[1 - use.index]
        if (
            isinstance(other, BlockArgument)
            and other.type == made.type
            and readers_of_elements(other) == [added]
        ):
            return added, other
        value = added.result
    return None


def readers_of_elements(value: SSAValue) -> list[Operation]:
    """The ops of a group but for the contraction that read a value, each time."""
    users = [use.operation for use in value.uses]
    return [op for op in users if not isinstance(op, ContractionOp)]


def fuse_job(job: JobOp) -> None:
    """Give each contraction of a job the elementwise op that follows it."""
    overwritten = Overwritten(job.body.block.ops)
    for op in tuple(job.body.block.ops):
        if is_elementwise(op) and (root := root_of(op, job, overwritten)):
            count("epilogues")
            fuse(root, op, job, overwritten)


@dataclass(frozen=True)
class OpFuseEpiloguesPass(ModulePass):
    """Compute elementwise ops in the kernels of the contractions that they follow."""

    name = "op-fuse-epilogues"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for job in outermost(op, JobOp):
            fuse_job(job)
