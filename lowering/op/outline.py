"""
Outlining: some ops of a job become one `op.fused`, whose body they move into.

The group stands where the last of its ops stood, runs where that one ran, and has its
notes. Operands are those that the ops read from outside, each once, in order; groups
among the ops are dissolved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.job import AssignOp, OutputOp
from penstock.dialects.op.body import YieldOp
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.groups.fused import FusedOp
from penstock.dialects.op.in_place import IN_PLACE
from penstock.dialects.utils.attributes import carry
from penstock.dialects.utils.diagnostics import fused_location
from penstock.lowering.analysis.in_place_hints import Member, Overwritten, carried

Splats: TypeAlias = Mapping[SSAValue, ConstantOp]
"""The constants all of whose elements are the same, by their result."""

MOVABLE = AssignOp | OutputOp
"""Ops without results, which may stand anywhere behind what they use."""

OF_THE_GROUP = ("placement", "sbp", "slots")
"""The attributes that say how an op runs, not what it computes."""

NO_ROWS = "no_rows"
"""Why an op on rows is not computed with the one before: an attribute of it."""


def outline(
    members: Sequence[Operation],
    results: Sequence[SSAValue],
    overwritten: Overwritten,
    *,
    lead: Operation,
    splats: Splats | None = None,
) -> FusedOp:
    """
    Replace ops, in the order of their block, by a group with some of their results.

    The place of `lead` is that of the group. The constants `splats` that ops read are
    cloned into the group.
    """
    last = members[-1]
    ins = operands_of(members, splats or {})
    group = FusedOp.create(
        operands=ins,
        result_types=[value.type for value in results],
        attributes={k: a for k, a in last.attributes.items() if k in OF_THE_GROUP},
        regions=[Region(block := Block(arg_types=[value.type for value in ins]))],
        location=fused_location([lead, *members]),
    )
    carry(last, group)
    makers = [
        Member(_owner(value), number, _owner(value).results.index(value))
        for number, value in enumerate(results)
    ]
    if (hints := carried(makers, ins)) is not None:
        group.attributes[IN_PLACE] = hints
    Rewriter.insert_op(group, InsertPoint.before(last))
    for old, new in zip(results, group.outs, strict=True):
        overwritten.rename(old, new)
        new.name_hint = old.name_hint
        old.replace_uses_with_if(new, lambda use: use.operation not in members)
    for value, arg in zip(ins, block.args, strict=True):
        arg.name_hint = value.name_hint
    inside: dict[SSAValue, SSAValue] = dict(zip(ins, block.args, strict=True))
    for op in members:
        _move(op, block, inside, splats or {})
    block.add_op(YieldOp(*(inside.get(value, value) for value in results)))
    return group


def move_behind(group: Operation, positions: dict[Operation, int], at: int) -> None:
    """
    Let what has no result, but uses one of a group, stand behind it, where that is at
    this position, and all such ops between them, which keep their order.
    """
    users = {use.operation for value in group.results for use in value.uses}
    early = {op for op in users if isinstance(op, MOVABLE) and positions[op] < at}
    op = group.prev_op
    while early and op is not None:
        before, op = op, op.prev_op
        if isinstance(before, MOVABLE):
            early.discard(before)
            positions[before] = at
            before.detach()
            Rewriter.insert_op(before, InsertPoint.after(group))


def _owner(value: SSAValue) -> Operation:
    assert isinstance(value.owner, Operation), "the result of a member"
    return value.owner


def operands_of(members: Sequence[Operation], splats: Splats) -> list[SSAValue]:
    """The values that ops read of others, each once, in order, but for `splats`."""
    made = {value for op in members for value in op.results}
    read = dict.fromkeys(value for op in members for value in op.operands)
    return [value for value in read if value not in made and value not in splats]


def _move(
    op: Operation, block: Block, inside: dict[SSAValue, SSAValue], splats: Splats
) -> None:
    """Move an op to the end of a group's body, after clones of its constants."""
    for value in op.operands:
        if value not in inside and (constant := splats.get(value)) is not None:
            _add(block, clone := constant.clone())
            inside[value] = clone.result
    op.detach()
    op.operands = [inside.get(value, value) for value in op.operands]
    if isinstance(op, FusedOp):
        _dissolve(op, block, inside)
    else:
        _add(block, op)


def _dissolve(group: FusedOp, block: Block, inside: dict[SSAValue, SSAValue]) -> None:
    """Move the ops of a group to the end of the body of another one."""
    for arg, value in zip(group.body.block.args, group.ins, strict=True):
        arg.replace_all_uses_with(value)
    inside.update(zip(group.outs, group.yielded, strict=True))
    for op in group.members:
        op.detach()
        block.add_op(op)
    for old, new in zip(group.outs, group.yielded, strict=True):
        old.replace_all_uses_with(new)
    group.erase()


def _add(block: Block, op: Operation) -> None:
    """Put an op at the end of a body, which runs as a whole."""
    for key in (*OF_THE_GROUP, IN_PLACE, NO_ROWS):
        op.attributes.pop(key, None)
    block.add_op(op)
