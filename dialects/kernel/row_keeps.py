"""
The choice of values that a row keeps from one pass to the next (`kernel.keep`).

A value that several passes need at each point is kept where a result has room for it,
if it takes a power, a root or a quotient to compute it anew, or elements of several
operands: one load and a few sums cost no more than what was kept. Of values that are
made of each other the last is kept that both passes have.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.body_ops import AllReduceOp, KeepOp, YieldOp
from penstock.dialects.kernel.row import RowOp
from penstock.dialects.kernel.row_passes import (
    RowPass,
    RowPasses,
    passes_of,
    shared_values,
)


def add_keeps(row: RowOp) -> RowPasses:
    """
    Keep the values of a row that are worth it, from the first to the last, where there
    is room, and those that are said to be kept before others; its passes then.
    """
    try:
        derived = passes_of(row)
    except VerifyException:
        said = [op for op in row.body.block.ops if isinstance(op, KeepOp)]
        values = [op.value for op in said]
        for op in said:
            _compute_anew(op)
        _keep_with_room(row, values)
        derived = passes_of(row)
    _keep_with_room(row, [*_candidates(row, derived.passes)])
    return passes_of(row)


def _keep_with_room(row: RowOp, values: Sequence[SSAValue]) -> None:
    """Keep each of some values for which a result has room then."""
    for value in values:
        kept = _keep(value)
        try:
            passes_of(row)
        except VerifyException:
            _compute_anew(kept)


def _compute_anew(kept: KeepOp) -> None:
    """Let all users of a kept value compute it themselves."""
    kept.result.replace_all_uses_with(kept.value)
    Rewriter.erase_op(kept)


def _keep(value: SSAValue) -> KeepOp:
    """Let all users of a value read it from where it is kept."""
    kept = KeepOp(value)
    Rewriter.insert_op(kept, InsertPoint.after(_owner(value)))
    value.replace_uses_with_if(kept.result, lambda use: use.operation is not kept)
    return kept


def _candidates(row: RowOp, passes: Sequence[RowPass]) -> Iterator[SSAValue]:
    """The values that a pass and a later one compute, and others are made of there."""
    shared = shared_values(row)
    for op in row.body.block.ops:
        if len(op.results) != 1 or isinstance(op, AllReduceOp | KeepOp):
            continue
        (value,) = op.results
        computing = [n for n, each in enumerate(passes) if op in each.ops]
        if len(computing) < 2 or value in shared:
            continue
        first = {*passes[computing[0]].ops}
        users = {use.operation for use in value.uses}
        later = {op for n in computing[1:] for op in passes[n].ops} - first
        is_last = bool(users & later) or any(isinstance(u, YieldOp) for u in users)
        is_kept = any(isinstance(user, KeepOp) for user in users)
        if is_last and not is_kept and _is_costly(value, shared):
            yield value


def _is_costly(value: SSAValue, shared: Container[SSAValue]) -> bool:
    """Whether a value is worth being kept."""
    loads, pending, seen = 0, [value], set[SSAValue]()
    while pending:
        each = pending.pop()
        if each in seen or each in shared:
            continue
        seen.add(each)
        owner = each.owner
        if isinstance(owner, Block):
            loads += 1
        elif isinstance(owner, KeepOp):
            return False
        elif isinstance(owner, arith.DivfOp) or owner.name.startswith("math."):
            return True
        else:
            pending += owner.operands
    return loads > 1


def _owner(value: SSAValue) -> Operation:
    assert isinstance(value.owner, Operation), "no argument is computed anew"
    return value.owner
