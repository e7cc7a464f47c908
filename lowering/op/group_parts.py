"""
Parts of a group: the ops of an `op.fused` around one of them, each part an op of its
own. Their measured times decide whether the group stays one (`op-split-groups`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import JobOp, placement_of
from penstock.dialects.op.body import YieldOp
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.elementwise import AddOp
from penstock.dialects.op.groups.fused import FusedOp
from penstock.dialects.op.in_place import IN_PLACE
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.attributes import carry
from penstock.dialects.utils.diagnostics import fused_location
from penstock.lowering.analysis.op_layouts import OPERANDS, RESULTS

WHOLE = (IN_PLACE, OPERANDS, RESULTS, "slots")
"""The attributes of a group that say how it runs as a whole: such a group stays one."""


def kind_of(group: FusedOp, job: JobOp) -> str | None:
    """The kind of the one device that a group runs on, None if it has to stay one."""
    if any(name in group.attributes for name in WHOLE):
        return None
    device = placement_of(group, job).single_device()
    return None if device is None else device.kind.data


@dataclass(frozen=True)
class Split:
    """
    The parts of a group around one of its ops: ops in no block, which read the operands
    of the group.
    """

    group: FusedOp
    alone: TensorOp
    """The part for that op."""
    parts: Sequence[TensorOp]
    values: Mapping[SSAValue, SSAValue]
    """The values of the group's body outside of it, as parts make them."""

    def drop(self) -> None:
        """Remove parts that are not used."""
        for part in reversed(self.parts):
            part.erase()

    def put_in(self) -> None:
        """Replace the group by the parts."""
        group = self.group
        carry(group, self.parts[-1])
        for part in self.parts:
            Rewriter.insert_op(part, InsertPoint.before(group))
        for old, value in zip(group.outs, group.yielded, strict=True):
            new = self.values[value]
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        Rewriter.erase_op(group)


def splits_of(group: FusedOp, kind: str) -> Iterator[Split]:
    """
    The splits of a group around each of its ops: the ops that this one needs, the op
    alone, and all others, as far as there are any, where a device of this kind computes
    each part by one kernel. The caller puts one in, or drops it.
    """
    members = [op for op in group.members if not isinstance(op, ConstantOp)]
    for member in members if len(members) > 1 else ():
        before = _needed(member)
        first = [op for op in members if op in before]
        rest = [op for op in members if op not in before and op is not member]
        split = _split(group, member, [ops for ops in (first, [member], rest) if ops])
        if all(_is_sound(part, kind) for part in split.parts):
            yield split
        else:
            split.drop()


def _needed(member: TensorOp) -> set[Operation]:
    """The ops of a group that an op needs, constants among them."""
    found: set[Operation] = set()
    left = [value.owner for value in member.operands]
    while left:
        owner = left.pop()
        if isinstance(owner, Operation) and owner not in found:
            found.add(owner)
            left += [value.owner for value in owner.operands]
    return found


def _results(ops: Sequence[TensorOp]) -> list[SSAValue]:
    """The values of a part that others use, or that leave the group."""
    made = (value for op in ops for value in op.results)
    return [x for x in made if any(use.operation not in ops for use in x.uses)]


def _split(
    group: FusedOp, member: TensorOp, parts: Sequence[Sequence[TensorOp]]
) -> Split:
    args = zip(group.body.block.args, group.ins, strict=True)
    outside: dict[SSAValue, SSAValue] = dict(args)
    found: list[TensorOp] = []
    alone = member
    for ops in parts:
        made, results = _part(group, ops, outside)
        if (placement := group.attributes.get("placement")) is not None:
            made.attributes["placement"] = placement
        outside.update(zip(results, made.results, strict=True))
        for inner, value in zip(results, made.results, strict=True):
            value.name_hint = inner.name_hint
        found.append(made)
        alone = made if ops == [member] else alone
    return Split(group, alone, found, outside)


def _part(
    group: FusedOp, ops: Sequence[TensorOp], outside: Mapping[SSAValue, SSAValue]
) -> tuple[TensorOp, Sequence[SSAValue]]:
    """The op for a part of a group, and the values of the group that it makes."""
    read = dict.fromkeys(value for op in ops for value in op.operands)
    constants = [x.owner for x in read if isinstance(x.owner, ConstantOp)]
    if len(ops) == 1 and not constants:
        return ops[0].clone(dict(outside)), ops[0].results
    results = _results(ops)
    ins = [value for value in read if value in outside]
    body = Block(arg_types=[value.type for value in ins])
    inside: dict[SSAValue, SSAValue] = dict(zip(ins, body.args, strict=True))
    for value in ins:
        inside[value].name_hint = value.name_hint
    body.add_ops([op.clone(inside) for op in (*constants, *ops)])
    body.add_op(YieldOp(*(inside[value] for value in results)))
    part = FusedOp([outside[value] for value in ins], Region(body))
    part.location = fused_location(ops)
    if group.starts is not None and _has_start(part):
        part.starts = UnitAttr()
    return part, results


def _has_start(part: FusedOp) -> bool:
    """Whether a part of a group that starts its sums has what they start from."""
    uses = (use for root in part.roots for value in root.results for use in value.uses)
    return any(isinstance(use.operation, AddOp) for use in uses)


def _is_sound(part: TensorOp, kind: str) -> bool:
    """Whether a part can be computed by one kernel."""
    if not isinstance(part, FusedOp):
        return True
    if kind != "cpu" and part.roots and len(part.outs) > 1:
        return False
    try:
        part.verify()
    except VerifyException:
        return False
    return True
