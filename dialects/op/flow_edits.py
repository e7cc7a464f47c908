"""Edits of ops with bodies, of which canonicalization patterns are made."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.dialects.builtin import DenseArrayBase, TensorType, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from penstock.dialects.op.body import SEGMENTS, FlowOp, clone_body
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.utils.attributes import ask_for_slots, carry
from penstock.dialects.utils.numpy_types import dense_of, dtype_of

OF_SINGLE_VALUES = {"in_place", "layouts", "max_shape", "operand_sbp", "sbp"}
"""Attributes that count the operands or results of an op."""


def may_change(op: Operation) -> bool:
    """Whether an op may have other operands and results: no attribute counts them."""
    return not OF_SINGLE_VALUES & op.attributes.keys()


def add_before(op: Operation, made: Operation, rewriter: PatternRewriter) -> SSAValue:
    """Let an op run where, and just before, another one does; its first result."""
    if "placement" in op.attributes:
        made.attributes.setdefault("placement", op.attributes["placement"])
    carry(op, made)
    made.location = op.location
    rewriter.insert(made, InsertPoint.before(op))
    return made.results[0]


def inline(
    op: Operation, block: Block, given: Sequence[SSAValue], rewriter: PatternRewriter
) -> Sequence[SSAValue]:
    """Copy the ops of a body before its op; the values that they yield."""
    made: list[Operation] = []
    known: dict[SSAValue, SSAValue] = dict(zip(block.args, given, strict=True))
    yielded = clone_body(block, known, made)
    for member in made:
        add_before(op, member, rewriter)
    own = set(made)
    for value in yielded:
        if isinstance(value.owner, Operation) and value.owner in own:
            ask_for_slots(op, value.owner)
    return yielded


def filled_before(
    op: Operation, type: TensorType, rewriter: PatternRewriter
) -> SSAValue:
    """A constant of zeros before an op."""
    import numpy as np

    zeros = np.zeros(type.get_shape(), dtype_of(type.element_type))
    return add_before(op, ConstantOp(dense_of(zeros)), rewriter)


def drop_operands(
    op: FlowOp, numbers: Collection[int], segment: int, rewriter: PatternRewriter
) -> None:
    """Leave out operands of one segment, counted over all of them."""
    op.operands = [x for i, x in enumerate(op.operands) if i not in numbers]
    resize(op, segment, -len(numbers))
    rewriter.notify_op_modified(op)


def resize(op: FlowOp, segment: int, more: int) -> None:
    """Let a segment have some more operands, or less."""
    sizes = op.properties.get(SEGMENTS)
    if isinstance(sizes, DenseArrayBase):
        counts = [*map(int, sizes.get_values())]
        counts[segment] += more
        op.properties[SEGMENTS] = DenseArrayBase.from_list(i32, counts)


def drop_reads(op: FlowOp, numbers: Collection[int], rewriter: PatternRewriter) -> None:
    """Leave out some of the operands that are the last ones, and their arguments."""
    for region in op.regions:
        block = region.block
        before = len(block.args) - len(op.read_values)
        for number in sorted(numbers, reverse=True):
            block.erase_arg(block.args[before + number])
    first = len(op.operands) - len(op.read_values)
    drop_operands(op, {first + number for number in numbers}, -1, rewriter)


def unread(op: FlowOp) -> set[int]:
    """The numbers of operands that each iteration or branch may read, and none does."""
    count = len(op.read_values)
    columns = [list(region.block.args)[-count:] for region in op.regions if count]
    return {
        number
        for number in range(count)
        if not any(args[number].first_use for args in columns)
    }


def merge_reads(op: FlowOp, rewriter: PatternRewriter) -> bool:
    """Let values that an op reads several times be one argument of its bodies."""
    first: dict[SSAValue, int] = {}
    again: dict[int, int] = {}
    for number, value in enumerate(op.read_values):
        if (known := first.setdefault(value, number)) != number:
            again[number] = known
    for region in op.regions if again else ():
        args = list(region.block.args)[-len(op.read_values) :]
        for number, known in again.items():
            args[number].replace_all_uses_with(args[known])
    if again:
        drop_reads(op, again, rewriter)
    return bool(again)
