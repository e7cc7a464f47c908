"""
Compute elementwise ops together with the ops on rows that they feed or follow.

An op on rows of floats (a softmax, or a normalization along the last dimension) becomes
an `op.fused`

* with the elementwise op (or `op.fused`) that computes its operand, if that has its
  type and static shape, runs in the same place, and asks for no `slots` of its own. If
  others use this operand, it is a result as well: users that come before the whole,
  which stands where its last op stood, prevent this;
* and with the elementwise op that is the only user of its result, if that one keeps the
  type and runs in the same place.

Another op on rows joins it that reads the last result, if it has the same type and runs
in the same place, with the elementwise op that is the only user of its result, and so
on. Its operand may have other users if they come after the whole and nothing is added
to it then: the whole keeps only the operand of its last op on rows. An op on rows that
could not join the one before says why: `no_rows`.

A reduction along the last axes (`op.reduce_sum` and so on), of at least `min_rows`
rows, becomes one with the elementwise op that computes its operand, if nothing else
uses that, and if operands of that one have its shape, or one element.

Fusion saves bytes that are moved. A tensor between two ops is written once and read at
least once; in one op it is not read again, and not written unless others use it.
Nothing else is read or computed more often, so that both steps always move less: all
ops as above are fused, and no others. On several devices, where ops say how they are
cut in parts, they stay apart. Ops that must write over an operand by a hint
(`in_place`), or whose operand another op must, do too; other hints go on to the whole
where the result and the operand they are about are still there.

Example: `test/lowering/op/op-fuse-rows-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from penstock.dialects.job import JobOp, placement_of
from penstock.dialects.op.fused import FusedOp
from penstock.dialects.op.reduction import ReduceOp
from penstock.dialects.op.row_ops import RowOp
from penstock.dialects.op.tensor_op import is_elementwise
from penstock.dialects.utils.pass_events import count
from penstock.dialects.utils.tensors import element_count, tensor_type
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.in_place_hints import (
    Overwritten,
    must_lie_over,
)
from penstock.lowering.analysis.op_layouts import OPERANDS, RESULTS
from penstock.lowering.op.outline import NO_ROWS, outline

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
        is_elementwise(op)
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
    chain: Chain, job: JobOp, positions: Positions, overwritten: Overwritten
) -> Operation | None:
    """The elementwise op that is computed with the ops on rows it feeds, if any."""
    op, last = chain.rows[0].operands[0].owner, chain.members[-1]
    if (
        not isinstance(op, Operation)
        or not can_join(op, chain.rows[0], job)
        or "slots" in op.attributes
        or overwritten.keeps_apart(op, last)
    ):
        return None
    others = outside(op.results[0], chain.members)
    if others and len(chain.rows) > 1:
        return None
    return op if all(comes_after(other, last, positions) for other in others) else None


def comes_after(op: Operation, last: Operation, positions: Positions) -> bool:
    """Whether an op stands behind another one."""
    return positions.get(op, -1) > positions[last]


@dataclass
class Chain:
    """Ops on rows that are computed together, with elementwise ops behind each."""

    rows: list[Operation]
    members: list[Operation]
    keeps: bool = False
    """Whether what the last op on rows reads has other users."""


def chain_of(
    row: Operation, job: JobOp, positions: Positions, overwritten: Overwritten
) -> Chain:
    """An op on rows with all that can follow it. One that cannot says why."""
    chain = Chain([row], [row])
    if (after := op_after(row, job, overwritten)) is not None:
        chain.members.append(after)
    while not chain.keeps and (found := next_row(chain)) is not None:
        after = op_after(found, job, overwritten)
        tail = chain.members[-1]
        added = [found] if after is None else [found, after]
        others = outside(tail.results[0], [*chain.members, *added])
        if after is not None and tail in makers_of(after) and not others:
            # It would read what is gone by then, or else is kept.
            added, others = [found], [after]
        reason = refusal(chain, added, others, job, positions, overwritten)
        if reason is not None:
            found.attributes[NO_ROWS] = StringAttr(reason)
            break
        found.attributes.pop(NO_ROWS, None)
        chain.rows.append(found)
        chain.members += added
        chain.keeps = bool(others)
    return chain


def next_row(chain: Chain) -> Operation | None:
    """The op on rows that reads what a chain makes last, if there is one."""
    value = chain.members[-1].results[0]
    found = dict.fromkeys(
        use.operation
        for use in value.uses
        if use.index == 0 and isinstance(use.operation, RowOp)
    )
    return next((op for op in found if is_of_rows(op)), None)


def makers_of(op: Operation) -> list[Operation | Block]:
    """The ops and blocks that make the operands of an op."""
    return [value.owner for value in op.operands]


def refusal(
    chain: Chain,
    added: Sequence[Operation],
    others: Sequence[Operation],
    job: JobOp,
    positions: Positions,
    overwritten: Overwritten,
) -> str | None:
    """Why ops cannot join a chain whose last result has other users, if so."""
    tail, found, last = chain.members[-1], added[0], added[-1]
    if tail in makers_of(found)[1:]:
        return f"parameters: {tail.name} makes them as well"
    if placement_of(found, job) != placement_of(tail, job):
        return f"place: {tail.name} runs in another place"
    if any("slots" in op.attributes for op in chain.members):
        return f"slots: {tail.name} asks for them"
    if overwritten.keeps_apart(found, last) or any(
        overwritten.keeps_apart(op, last) for op in chain.members
    ):
        return "in place: something has to be written over"
    if any(not comes_after(other, last, positions) for other in others):
        return f"order: others read what {tail.name} makes before"
    return None


def outside(value: SSAValue, ops: Sequence[Operation]) -> list[Operation]:
    """The users of a value but for some ops."""
    users = dict.fromkeys(use.operation for use in value.uses)
    return [user for user in users if user not in ops]


def fuse(
    members: Sequence[Operation], row: Operation, overwritten: Overwritten
) -> FusedOp:
    """
    Replace ops in their order, of which `row` is the last one on rows, by one where the
    last of them stood.
    """
    results: list[SSAValue] = [members[-1].results[0]]
    if row is not members[0] and outside(row.operands[0], members):
        results.append(row.operands[0])
    reasons = [op.attributes[NO_ROWS] for op in members if NO_ROWS in op.attributes]
    group = outline(members, results, overwritten, lead=row)
    for reason in reasons:
        group.attributes[NO_ROWS] = reason
    return group


def op_combined(
    root: ReduceOp, job: JobOp, min_rows: int, overwritten: Overwritten
) -> Operation | None:
    """The elementwise op that is computed while a reduction combines it, if any."""
    op, type = root.operand.owner, tensor_type(root.operand)
    if not is_elementwise(op) or not root.is_of_rows or not type.has_static_shape():
        return None
    rows = element_count(root.result.type)
    alike = (
        tensor_type(value).get_shape() == type.get_shape()
        or element_count(value.type) == 1
        for value in op.operands
    )
    is_free = (
        is_whole(op)
        and is_whole(root)
        and "slots" not in op.attributes
        and placement_of(op, job) == placement_of(root, job)
        and not outside(op.results[0], [root])
        and not overwritten.keeps_apart(op, root)
    )
    return op if is_free and rows >= min_rows and op.operands and all(alike) else None


def fuse_job(job: JobOp, min_rows: int) -> None:
    """Compute each op on rows of a job, and each reduction, with what is around it."""
    positions = {op: number for number, op in enumerate(job.body.block.ops)}
    overwritten = Overwritten(positions)
    for row in list(positions):
        if isinstance(row, ReduceOp):
            op = op_combined(row, job, min_rows, overwritten)
            if op is not None:
                count("groups")
                count("ops fused", 2)
                outline([op, row], row.results, overwritten, lead=row)
            continue
        if row.parent is not job.body.block or not is_of_rows(row):
            continue
        chain = chain_of(row, job, positions, overwritten)
        before = op_before(chain, job, positions, overwritten)
        members = ([] if before is None else [before]) + chain.members
        if len(members) > 1:
            count("groups")
            count("ops fused", len(members))
            place = positions[members[-1]]
            positions[fuse(members, chain.rows[-1], overwritten)] = place


@dataclass(frozen=True)
class OpFuseRowsPass(ModulePass):
    """
    Compute elementwise ops in the kernels of the ops on rows that they feed or follow.
    """

    name = "op-fuse-rows"

    min_rows: int = 16
    """
    The least results of a reduction that is computed with what it combines. Those of
    fewer are computed by few threads, and the op before it by many.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for job in outermost(op, JobOp):
            fuse_job(job, self.min_rows)
