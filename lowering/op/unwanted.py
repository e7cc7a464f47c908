"""
Ops that can fail, where nothing may come of it: they are computed whether their results
are wanted or not.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.op.comparison import (
    LogicalAndOp,
    LogicalNotOp,
    LogicalOrOp,
    WhereOp,
)
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.loop import INDEX, LoopOp
from penstock.dialects.op.requirement import RequireOp
from penstock.dialects.op.tensor_op import can_fail


def can_be_spared(op: Operation) -> bool:
    """
    Whether an op that can fail can be made one that does not where its results are not
    wanted: what is required, and loops that need not begin or have only such ops.
    """
    if isinstance(op, LoopOp):
        return op.is_bounded or all(map(can_be_spared, failing_in(op)))
    return isinstance(op, RequireOp)


def failing_in(loop: LoopOp) -> Sequence[Operation]:
    """The ops of an iteration that can fail."""
    return [member for member in loop.members if can_fail(member)]


def spare(op: Operation, wanted: SSAValue) -> Sequence[Operation]:
    """
    Ops that do as an op does, but do not fail where its results are not wanted, one
    `i1`; the last one is the op, which is changed.
    """
    if isinstance(op, RequireOp):
        unwanted = LogicalNotOp.of(wanted)
        either = LogicalOrOp.of(op.condition, unwanted)
        op.operands[0] = either.results[0]
        return unwanted, either, op
    if not isinstance(op, LoopOp) or not can_fail(op):
        return (op,)
    if not op.is_bounded:
        spare_members(op, wanted)
        return (op,)
    if op.trips is None:
        begins = LogicalAndOp.of(op.operands[0], wanted)
        op.operands[0] = begins.results[0]
        return begins, op
    none = ConstantOp(DenseIntOrFPElementsAttr.from_list(INDEX, [0]))
    count = WhereOp.of(wanted, op.trips, none.results[0])
    op.operands[0] = count.results[0]
    return none, count, op


def spare_members(loop: LoopOp, wanted: SSAValue) -> None:
    """Let no op of an iteration fail where the loop is not wanted."""
    loop.read_also([wanted])
    inside = loop.read_args[-1]
    for member in failing_in(loop):
        *before, _ = spare(member, inside)
        Rewriter.insert_op(before, InsertPoint.before(member))
