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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.hints import isa

from penstock.dialects.job import JobOp, SbpAttr, placement_of
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.fused import FusedOp, YieldOp
from penstock.dialects.op.in_place import IN_PLACE
from penstock.dialects.op.sbp import PARTIAL
from penstock.dialects.op.tensor_op import ElementwiseOp
from penstock.dialects.utils.attributes import carry
from penstock.dialects.utils.diagnostics import fused_location
from penstock.dialects.utils.pass_events import count
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.in_place_hints import (
    Member,
    Overwritten,
    carried,
    must_lie_over,
    never_over,
)
from penstock.lowering.analysis.op_layouts import OPERANDS, RESULTS

Group: TypeAlias = list[Operation]
"""Ops to be computed together, from the last one, whose result is the group's."""

Splats: TypeAlias = Mapping[SSAValue, ConstantOp]
"""The constants all of whose elements are the same, by their result."""

OF_THE_GROUP = ("placement", "sbp", "slots")
"""The attributes that say how an op runs, not what it computes."""


def find_groups(job: JobOp, max_ops: int) -> list[Group]:
    """Sort the elementwise ops of a job into groups, the last group first."""
    overwritten = Overwritten(job.body.block.ops)
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


def operands_of(group: Group, splats: Splats) -> list[SSAValue]:
    """
    The operands of a group, each value once, in order; splat constants are part of it.
    """
    made = {op.results[0] for op in group}
    read = dict.fromkeys(value for op in reversed(group) for value in op.operands)
    return [value for value in read if value not in made and value not in splats]


def fuse(group: Group, splats: Splats) -> None:
    """Replace the ops of a group by one `op.fused`, where the last one stood."""
    last = group[0]
    ins = operands_of(group, splats)
    block = Block(arg_types=[value.type for value in ins])
    fused = FusedOp.create(
        operands=ins,
        result_types=[last.results[0].type],
        attributes={
            key: attr for key, attr in last.attributes.items() if key in OF_THE_GROUP
        },
        regions=[Region(block)],
        location=fused_location(group),
    )
    carry(last, fused)
    if (hints := carried([Member(last, 0)], ins)) is not None:
        fused.attributes[IN_PLACE] = hints
    Rewriter.insert_op(fused, InsertPoint.before(last))
    last.results[0].replace_all_uses_with(fused.result)
    for value, arg in zip(ins, block.args, strict=True):
        arg.name_hint = value.name_hint
    inside: dict[SSAValue, SSAValue] = dict(zip(ins, block.args, strict=True))
    for op in reversed(group):
        move_into(block, op, inside, splats)
    block.add_op(YieldOp.create(operands=last.results))


def move_into(
    block: Block,
    op: Operation,
    inside: dict[SSAValue, SSAValue],
    splats: Splats,
) -> None:
    """Move an op to the end of a fused body, after clones of its splat constants."""
    for value in op.operands:
        if value not in inside and (constant := splats.get(value)) is not None:
            clone = constant.clone()
            add_without_placement(block, clone)
            inside[value] = clone.result
    op.detach()
    op.operands = [inside.get(value, value) for value in op.operands]
    add_without_placement(block, op)


def add_without_placement(block: Block, op: Operation) -> None:
    """Put an op at the end of a fused body, which is placed as a whole."""
    for key in (*OF_THE_GROUP, IN_PLACE):
        op.attributes.pop(key, None)
    block.add_op(op)


def erase_unused(constants: Iterable[ConstantOp]) -> None:
    """Remove the constants that have no uses left."""
    for constant in constants:
        if not constant.result.uses:
            Rewriter.erase_op(constant)


def fuse_job(job: JobOp, max_ops: int) -> None:
    """Group the elementwise ops of a job."""
    splats = splats_of(job)
    used = [op for value, op in splats.items() if value.uses]
    for group in find_groups(job, max_ops):
        has_splats = any(value in splats for op in group for value in op.operands)
        if len(group) > 1 or has_splats:
            count("groups")
            count("ops fused", len(group))
            fuse(group, splats)
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
