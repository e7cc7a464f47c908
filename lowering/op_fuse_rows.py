"""
Compute elementwise ops together with the ops on rows that they feed or follow.

An op on rows of floats (a softmax, or a normalization along the last dimension) becomes
an `op.rows`

* with the elementwise op (or `op.fused`) that computes what it reads, if that has its
  type and static shape, runs in the same place, and asks for no `slots` of its own. If
  others use what it computes, that is a result as well: those that come before the
  whole, which stands where its last op stood, prevent this;
* and with the elementwise op that is the only user of its result, if that one keeps the
  type and runs in the same place.

What decides is the bytes that are moved. A tensor between two ops is written once and
read at least once; in one op it is not read again, and not written unless others use
it. Nothing else is read or computed more often, so that both steps always move less:
what is as above is fused, and anything else is not. On several devices, where ops say
how they are cut in parts, they stay apart. Ops that must write over an operand by a
hint (`in_place`), or whose operand another op must, do too; other hints go on to the
whole where the result and the operand they are about are still there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.in_place import IN_PLACE
from penstock.dialects.interfaces import ElementwiseOp, tensor_type
from penstock.dialects.job import JobOp, placement_of
from penstock.dialects.op.lines import RowOp
from penstock.dialects.op.rows import RowsOp, YieldRowsOp
from penstock.lowering.in_place_hints import (
    Member,
    Overwritten,
    carried,
    must_lie_over,
)
from penstock.lowering.job_layouts import OPERANDS, RESULTS

OF_THE_WHOLE = ("placement", "slots")
"""The attributes that say how an op runs, not what it computes."""

Positions = Mapping[Operation, int]
"""Where the ops of a job stand."""


def is_of_rows(op: Operation) -> bool:
    """Whether an op is one on rows that can be computed with others."""
    if not isinstance(op, RowOp) or not is_whole(op):
        return False
    type = tensor_type(op.results[0])
    return (
        isinstance(type.element_type, AnyFloat)
        and type.has_static_shape()
        and type.get_num_dims() > 1
        and op.is_of_rows()
    )


def is_whole(op: Operation) -> bool:
    """Whether an op says neither how it runs in parts nor what it must write over."""
    is_cut = OPERANDS in op.attributes or RESULTS in op.attributes
    return not is_cut and not must_lie_over(op)


def can_join(op: Operation, row: Operation, job: JobOp) -> bool:
    """Whether an op can be computed row by row with one on rows."""
    return (
        isinstance(op, ElementwiseOp)
        and is_whole(op)
        and op.results[0].type == row.results[0].type
        and placement_of(op, job) == placement_of(row, job)
    )


def op_after(row: Operation, job: JobOp, overwritten: Overwritten) -> Operation | None:
    """The elementwise op that is computed with the op on rows it follows, if any."""
    users = list(dict.fromkeys(use.operation for use in row.results[0].uses))
    if len(users) != 1 or not can_join(users[0], row, job) or "slots" in row.attributes:
        return None
    return None if overwritten.keeps_apart(row, users[0]) else users[0]


def op_before(
    row: Operation,
    after: Operation | None,
    job: JobOp,
    positions: Positions,
    overwritten: Overwritten,
) -> Operation | None:
    """The elementwise op that is computed with the op on rows it feeds, if any."""
    op = row.operands[0].owner
    if (
        not isinstance(op, Operation)
        or not can_join(op, row, job)
        or "slots" in op.attributes
        or overwritten.keeps_apart(op, after or row)
    ):
        return None
    last = positions[after or row]
    others = outside(op.results[0], (row, after))
    return op if all(positions.get(other, -1) > last for other in others) else None


def outside(value: SSAValue, ops: Sequence[Operation | None]) -> list[Operation]:
    """The users of a value but for some ops."""
    users = dict.fromkeys(use.operation for use in value.uses)
    return [user for user in users if user not in ops]


def fuse(
    members: Sequence[Operation], row: Operation, overwritten: Overwritten
) -> None:
    """Replace ops in their order by one, where the last of them stood."""
    last = members[-1]
    made = {value for op in members for value in op.results}
    ins = dict.fromkeys(
        value for op in members for value in op.operands if value not in made
    )
    results: list[SSAValue] = [last.results[0]]
    if row is not members[0] and outside(row.operands[0], members):
        results.append(row.operands[0])
    block = Block(arg_types=[value.type for value in ins])
    for value, arg in zip(ins, block.args, strict=True):
        arg.name_hint = value.name_hint
    rows = RowsOp.create(
        operands=[*ins],
        result_types=[value.type for value in results],
        attributes={k: a for k, a in last.attributes.items() if k in OF_THE_WHOLE},
        regions=[Region(block)],
        location=row.location,
    )
    makers = [Member(last, 0), *(Member(members[0], 1) for _ in results[1:])]
    if (hints := carried(makers, [*ins])) is not None:
        rows.attributes[IN_PLACE] = hints
    Rewriter.insert_op(rows, InsertPoint.before(last))
    for old, new in zip(results, rows.outs, strict=True):
        overwritten.rename(old, new)
        new.name_hint = old.name_hint
        old.replace_uses_with_if(new, lambda use: use.operation not in members)
    inside: dict[SSAValue, SSAValue] = dict(zip(ins, block.args, strict=True))
    for op in members:
        op.detach()
        op.operands = [inside.get(value, value) for value in op.operands]
        for key in (*OF_THE_WHOLE, IN_PLACE):
            op.attributes.pop(key, None)
        block.add_op(op)
    block.add_op(YieldRowsOp.create(operands=results))


def fuse_job(job: JobOp) -> None:
    """Compute each op on rows of a job with what is around it."""
    positions = {op: number for number, op in enumerate(job.body.block.ops)}
    overwritten = Overwritten(positions)
    for row in list(positions):
        if row.parent is not job.body.block or not is_of_rows(row):
            continue
        after = op_after(row, job, overwritten)
        before = op_before(row, after, job, positions, overwritten)
        members = [op for op in (before, row, after) if op is not None]
        if len(members) > 1:
            fuse(members, row, overwritten)
            assert isinstance(members[-1].parent_op(), RowsOp), "moved into it"
            positions[members[-1].parent_op() or row] = positions[members[-1]]


@dataclass(frozen=True)
class OpFuseRowsPass(ModulePass):
    """
    Compute elementwise ops in the kernels of the ops on rows that they feed or follow.
    """

    name = "op-fuse-rows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for job in op.walk():
            if isinstance(job, JobOp):
                fuse_job(job)
