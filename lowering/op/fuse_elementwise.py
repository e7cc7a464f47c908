"""
Group elementwise ops of a job into `op.fused`, so that no tensors lie between them.

From the last op of the job to the first, an elementwise op joins the group of the ops
that use its result if *all* its uses are in that one group (so nothing is computed
twice), its result has the shape of the group's result (so nothing is computed more
often), it runs in the same place and in the same parts, it asks for no `slots` of its
own, and the group has fewer than `max_ops` members; else it is the last op of a new
group. No cycles can come of this: a group stands where its last op stood, and only that
one's result leaves it.

Constants all of whose elements are the same are cloned into the groups that use them,
whatever their shape. A group of one op without such constants stays as it is, and so do
ops with regions, among them `op.fused`, ops whose result has no static shape, and on
several devices those that make terms of a sum (`P`), or whose operands do not lie yet
as they are used (`job-insert-boxing`).

Hints (`in_place`) go on to the group where the result and the operand they are about
are still there. A hint `must` keeps both: such an op is the last one of its group, the
op that makes the operand is in another group, and so are other readers of the operand,
unless they are in the same one.

Example: `test/lowering/op/op-fuse-elementwise-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.hints import isa

from penstock.dialects.job import JobOp, SbpAttr, placement_of
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.sbp import PARTIAL
from penstock.dialects.op.tensor_op import ElementwiseOp
from penstock.dialects.utils.pass_events import count
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.in_place_hints import (
    Overwritten,
    must_lie_over,
    never_over,
)
from penstock.lowering.analysis.op_layouts import OPERANDS, RESULTS
from penstock.lowering.op.outline import Splats, outline

Group: TypeAlias = list[Operation]
"""Ops to be computed together, from the last one, whose result is the group's."""


def find_groups(job: JobOp, max_ops: int, overwritten: Overwritten) -> list[Group]:
    """Sort the elementwise ops of a job into groups, the last group first."""
    groups: list[Group] = []
    group_of: dict[Operation, Group] = {}
    for op in reversed(job.body.block.ops):
        if not is_fusible(op):
            continue
        group = group_of_users(op, group_of)
        if (
            group is None
            or not can_join(op, group, job, max_ops)
            or overwritten.keeps_apart(op, group[0])
        ):
            groups.append(group := [])
        group.append(op)
        group_of[op] = group
    return groups


def is_fusible(op: Operation) -> bool:
    """Whether an op may be in a group at all."""
    return (
        isinstance(op, ElementwiseOp)
        and not op.regions
        and shape_of(op.results[0]) is not None
        and OPERANDS not in op.attributes
        and not makes_terms(op)
        and not reads_oddly(op)
    )


def reads_oddly(op: Operation) -> bool:
    """
    Whether an op must write over a constant, which groups have none of, or over what it
    is never to lie over under another number: an error that is told later.
    """
    musts = must_lie_over(op)
    constant = any(isinstance(value.owner, ConstantOp) for value in musts)
    return constant or any(value in musts for value in never_over(op))


def makes_terms(op: Operation) -> bool:
    """Whether the result of an op is partial on several devices."""
    sbp = op.attributes.get(RESULTS)
    return isinstance(sbp, SbpAttr) and PARTIAL in sbp.dims.data


def shape_of(value: SSAValue) -> tuple[int, ...] | None:
    """The shape of a tensor, or None if an extent of it is not known."""
    if not isa(type := value.type, TensorType) or not type.has_static_shape():
        return None
    return type.get_shape()


def group_of_users(op: Operation, group_of: dict[Operation, Group]) -> Group | None:
    """The group that all uses of an op's result are in, if there is one."""
    common: Group | None = None
    for use in op.results[0].uses:
        group = group_of.get(use.operation)
        if group is None or (common is not None and group is not common):
            return None
        common = group
    return common


def can_join(op: Operation, group: Group, job: JobOp, max_ops: int) -> bool:
    """Whether an op that only a group uses can be computed as part of it."""
    last = group[0]
    return (
        len(group) < max_ops
        and "slots" not in op.attributes
        and shape_of(op.results[0]) == shape_of(last.results[0])
        and placement_of(op, job) == placement_of(last, job)
        and op.attributes.get(RESULTS) == last.attributes.get(RESULTS)
    )


def splats_of(job: JobOp) -> Splats:
    """The constants of a job all of whose elements are the same."""
    return {
        op.result: op
        for op in job.body.block.ops
        if isinstance(op, ConstantOp) and op.splat is not None
    }


def erase_unused(constants: Iterable[ConstantOp]) -> None:
    """Remove the constants that have no uses left."""
    for constant in constants:
        if not constant.result.uses:
            Rewriter.erase_op(constant)


def fuse_job(job: JobOp, max_ops: int) -> None:
    """Group the elementwise ops of a job."""
    splats = splats_of(job)
    used = [op for value, op in splats.items() if value.uses]
    overwritten = Overwritten(job.body.block.ops)
    for group in find_groups(job, max_ops, overwritten):
        has_splats = any(value in splats for op in group for value in op.operands)
        if len(group) > 1 or has_splats:
            count("groups")
            count("ops fused", len(group))
            last, members = group[0], group[::-1]
            outline(members, last.results, overwritten, lead=last, splats=splats)
    erase_unused(used)


@dataclass(frozen=True)
class OpFuseElementwisePass(ModulePass):
    """
    Group elementwise ops into `op.fused`, where no op is then computed more often.
    """

    name = "op-fuse-elementwise"

    max_ops: int = 64
    """A group has no more ops than this, constants not counted."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.max_ops < 1:
            raise PassFailedException(f"max_ops must be at least 1, got {self.max_ops}")
        for job in outermost(op, JobOp):
            fuse_job(job, self.max_ops)
