"""Simpler forms of loops: the canonicalization patterns of `op.loop`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, UnitAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.traits import is_speculatable

from penstock.dialects.op.body import YieldOp, yield_of
from penstock.dialects.op.canonicalization import OpPattern, is_filled
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.flow_edits import (
    add_before,
    drop_operands,
    drop_reads,
    filled_before,
    inline,
    may_change,
    merge_reads,
    unread,
)
from penstock.dialects.op.linear import GemmOp, MatmulOp
from penstock.dialects.op.loop.form import INDEX, SLICES, LoopForm
from penstock.dialects.op.movement import ReshapeOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.attributes import ask_for_slots, carry, replace_op
from penstock.dialects.utils.tensors import byte_count, tensor_type


class NoIteration(OpPattern["LoopForm"]):
    """
    A loop without iterations is what it carries at first, and zeros: there are none, or
    the condition is known not to hold.
    """

    def rewrite(self, op: LoopForm, rewriter: PatternRewriter) -> None:
        stops = op.going is not None and is_filled(op.going, 0)
        is_empty = op.known_count == 0 or (stops and op.allows_count)
        types = [tensor_type(value) for value in op.outs[len(op.carried) :]]
        if is_empty and all(type.has_static_shape() for type in types):
            zeros = [filled_before(op, type, rewriter) for type in types]
            replace_op(op, [], [*op.carried, *zeros], rewriter=rewriter)


class OneIteration(OpPattern["LoopForm"]):
    """
    A loop of one iteration is its ops, on the only slices.
    """

    def rewrite(self, op: LoopForm, rewriter: PatternRewriter) -> None:
        types = [tensor_type(value) for value in (*op.slices, *op.stacks)]
        if op.count != 1 or op.is_bounded or not may_change(op):
            return
        if not all(type.has_static_shape() for type in types):
            return
        kept, number = len(op.carried), filled_before(op, INDEX, rewriter)
        slices = [
            add_before(op, ReshapeOp(x, tensor_type(x).get_shape()[1:]), rewriter)
            for x in op.slices
        ]
        first = [number, *op.carried, *slices, *op.reads]
        yielded = inline(op, op.body.block, first, rewriter)
        rows = [ReshapeOp(x, [1, *tensor_type(x).get_shape()]) for x in yielded[kept:]]
        ask_for_slots(op, *rows)
        stacks = [add_before(op, row, rewriter) for row in rows]
        replace_op(op, [], [*yielded[:kept], *stacks], rewriter=rewriter)


class KnownCount(OpPattern["LoopForm"]):
    """
    A count that is a constant is that of the loop, where nothing has the extent of
    another maximum.
    """

    def rewrite(self, op: LoopForm, rewriter: PatternRewriter) -> None:
        count = op.known_count
        if not op.is_bounded or op.going is not None or count is None:
            return
        if (op.slices or op.stacks) and count != op.count:
            return
        if op.made is not None:
            number = DenseIntOrFPElementsAttr.from_list(INDEX, [count])
            constant = add_before(op, ConstantOp(number), rewriter)
            rewriter.replace_all_uses_with(op.outs[-1], constant)
        stacks = range(len(op.stacks))
        loop = rebuild(op, range(len(op.carried)), stacks, False, rewriter)
        drop_operands(loop, {0}, 0, rewriter)
        loop.times, loop.up_to = IntegerAttr(count, i64), None


class UnchangedValues(OpPattern["LoopForm"]):
    """
    A carried value that no iteration changes is one that is read.
    """

    def rewrite(self, op: LoopForm, rewriter: PatternRewriter) -> None:
        same = [i for i in range(len(op.carried)) if self._stays(op, i)]
        if not same or not may_change(op):
            return
        for number in same:
            rewriter.replace_all_uses_with(op.outs[number], op.carried[number])
        kept = [i for i in range(len(op.carried)) if i not in same]
        has_made = op.made is not None
        rebuild(op, kept, range(len(op.stacks)), has_made, rewriter)

    def _stays(self, op: LoopForm, number: int) -> bool:
        """Whether an iteration yields a value as it was before."""
        if op.going is not None and number == 0:
            return False
        if op.carried[number].type != op.outs[number].type:
            return False
        after, args = yield_of(op.body.block).values[number], op.body.block.args
        values: dict[SSAValue, SSAValue] = dict(
            zip(op.read_args, op.reads, strict=True)
        )
        same = values.get(after) is op.carried[number]
        return after is args[1 + number] or same


class StackedSlices(OpPattern["LoopForm"]):
    """
    Slices that are stacked again are the tensor that they are of, and a value that is
    stacked twice is one result.
    """

    def rewrite(self, op: LoopForm, rewriter: PatternRewriter) -> None:
        known: dict[SSAValue, SSAValue] = {}
        if not op.is_bounded:
            known.update(zip(op.slice_args, op.slices, strict=True))
        yielded = yield_of(op.body.block).values[len(op.carried) :]
        for value, result in zip(yielded, op.stacks, strict=True):
            tensor = known.setdefault(value, result)
            is_other = tensor is not result and tensor.type == result.type
            if is_other and result.first_use:
                rewriter.replace_all_uses_with(result, tensor)


class UnreadResults(OpPattern["LoopForm"]):
    """
    Values that no result needs are neither carried nor stacked.
    """

    def rewrite(self, op: LoopForm, rewriter: PatternRewriter) -> None:
        stacks = [i for i, result in enumerate(op.stacks) if result.first_use]
        carried = sorted(needed(op, stacks))
        made = op.made is not None and op.outs[-1].first_use is not None
        found = len(carried) + len(stacks) + made
        if (
            found < len(op.outs)
            and may_change(op)
            and any(x.first_use for x in op.outs)
        ):
            rebuild(op, carried, stacks, made, rewriter)


class UnreadValues(OpPattern["LoopForm"]):
    """
    A value that no iteration reads or slices is no operand, and one that is read or
    sliced twice is one.
    """

    def rewrite(self, op: LoopForm, rewriter: PatternRewriter) -> None:
        if not may_change(op) or merge_reads(op, rewriter):
            return
        if found := unread(op):
            drop_reads(op, found, rewriter)
            return
        first: dict[SSAValue, SSAValue] = {}
        for value, arg in zip(op.slices, op.slice_args, strict=True):
            if (known := first.setdefault(value, arg)) is not arg:
                arg.replace_all_uses_with(known)
        args = op.slice_args
        if gone := [i for i, arg in enumerate(args) if not arg.first_use]:
            start = len(op.operands) - len(op.reads) - len(args)
            for number in reversed(gone):
                op.body.block.erase_arg(args[number])
            drop_operands(op, {start + i for i in gone}, SLICES, rewriter)


class InvariantOps(OpPattern["LoopForm"]):
    """
    Ops that do the same in each iteration run once, before the loop. Those that compute
    nothing and make more bytes than they read, such as `op.expand`, do so only for
    others that leave with them: their results would take room for all of the loop.
    """

    def rewrite(self, op: LoopForm, rewriter: PatternRewriter) -> None:
        known = given(op.read_args, op.reads)
        found: list[TensorOp] = []
        for member in op.members if may_change(op) else ():
            if is_invariant(op, member, known):
                found.append(member)
                known.update((value, value) for value in member.results)
        found = without_room(found)
        for member in found:
            move_out(op, member, known, rewriter)
        if found:
            results = [value for member in found for value in member.results]
            op.read_also([value for value in results if value.first_use])
            rewriter.notify_op_modified(op)


def given(
    args: Sequence[SSAValue], values: Sequence[SSAValue]
) -> dict[SSAValue, SSAValue]:
    """The values of arguments."""
    return dict(zip(args, values, strict=True))


def is_invariant(
    op: LoopForm, member: TensorOp, known: Mapping[SSAValue, SSAValue]
) -> bool:
    """Whether a member may run before its loop, where these values are known."""
    if isinstance(member, ConstantOp) or not member.operands:
        return False
    runs = is_speculatable(member) or (op.count > 0 and not op.is_bounded)
    return runs and all(
        value in known or isinstance(value.owner, ConstantOp)
        for value in member.operands
    )


def without_room(found: Sequence[TensorOp]) -> list[TensorOp]:
    """The ops, in order, but for those that take room and that none of them reads."""
    kept: list[TensorOp] = []
    read = set[SSAValue]()
    for member in reversed(found):
        if read.isdisjoint(member.results) and only_takes_room(member):
            continue
        kept.append(member)
        read.update(member.operands)
    return kept[::-1]


def only_takes_room(member: TensorOp) -> bool:
    """Whether an op makes more bytes than it reads, without computing anything."""
    read, made = (
        [tensor_type(value) for value in values]
        for values in (dict.fromkeys(member.operands), member.results)
    )
    if not all(type.has_static_shape() for type in (*read, *made)):
        return False
    is_larger = sum(map(byte_count, made)) > sum(map(byte_count, read))
    return is_larger and member.flops() == 0


def move_out(
    op: LoopForm,
    member: Operation,
    known: Mapping[SSAValue, SSAValue],
    rewriter: PatternRewriter,
) -> None:
    """Let a member run before its loop, on the values that it is known to be given."""
    operands: list[SSAValue] = []
    for value in member.operands:
        if value in known:
            operands.append(known[value])
            continue
        constant = value.owner
        assert isinstance(constant, ConstantOp), "it is invariant"
        operands.append(add_before(op, constant.clone(), rewriter))
    member.detach()
    member.operands = operands
    add_before(op, member, rewriter)


class ProductsOfSlices(OpPattern["LoopForm"]):
    """
    Products of slices with a matrix that all iterations read are slices of one product,
    of all of them.
    """

    def rewrite(self, op: LoopForm, rewriter: PatternRewriter) -> None:
        if op.is_bounded or op.count < 2 or not may_change(op):
            return
        tensors: dict[SSAValue, SSAValue] = dict(
            zip(op.slice_args, op.slices, strict=True)
        )
        values: dict[SSAValue, SSAValue] = dict(
            zip(op.read_args, op.reads, strict=True)
        )
        for member in op.members:
            if not isinstance(member, MatmulOp | GemmOp) or member.a not in tensors:
                continue
            others = [values.get(value) for value in member.operands[1:]]
            known = [value for value in others if value is not None]
            if len(known) == len(others) and multiplies_rows(member):
                product = product_of_all(op, member, tensors[member.a], known, rewriter)
                slice_also(op, product, member, rewriter)


def multiplies_rows(product: MatmulOp | GemmOp) -> bool:
    """Whether each row of the first factor makes a row, in the same way."""
    a, b, *rest = map(tensor_type, product.operands)
    # An addend of one row is added to all of them.
    is_same = all(type.get_num_dims() < 2 for type in rest)
    ranks = a.get_num_dims() in (1, 2) and b.get_num_dims() == 2
    is_known = a.has_static_shape() and b.has_static_shape()
    return is_same and ranks and is_known and product.transpose_a is None


def product_of_all(
    op: LoopForm,
    member: MatmulOp | GemmOp,
    tensor: SSAValue,
    others: Sequence[SSAValue],
    rewriter: PatternRewriter,
) -> SSAValue:
    """The products of all slices of a tensor, made before their loop."""
    count, *rows, width = op.count, *tensor_type(member.a).get_shape()
    if rows:
        tensor = add_before(op, ReshapeOp(tensor, [count * rows[0], width]), rewriter)
    made = type(member).inferred([tensor, *others], member.properties)
    carry(member, made)
    product = add_before(op, made, rewriter)
    if not rows:
        return product
    shape = [count, *tensor_type(member.result).get_shape()]
    return add_before(op, ReshapeOp(product, shape), rewriter)


def slice_also(
    op: LoopForm, tensor: SSAValue, member: Operation, rewriter: PatternRewriter
) -> None:
    """Let the slices of one more tensor be the result of a member."""
    arg = op.slice_also(tensor)
    arg.name_hint = member.results[0].name_hint
    replace_op(member, [], [arg], rewriter=rewriter)
    rewriter.notify_op_modified(op)


def needed(op: LoopForm, stacks: Sequence[int]) -> set[int]:
    """The numbers of the carried values that results, and these stacks, are made of."""
    ends = yield_of(op.body.block).values
    args: dict[SSAValue, int] = {
        arg: i for i, arg in enumerate(op.body.block.args[1 : 1 + len(op.carried)])
    }
    found = {i for i, result in enumerate(op.ends) if result.first_use}
    found |= {0} if op.going is not None else set()
    waiting = [ends[i] for i in found] + [ends[len(args) + i] for i in stacks]
    seen: set[SSAValue] = set()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value.owner, Operation):
            waiting += value.owner.operands
        elif value in args:
            found.add(args[value])
            waiting.append(ends[args[value]])
    return found


def rebuild(
    op: LoopForm,
    carried: Sequence[int],
    stacks: Sequence[int],
    made: bool,
    rewriter: PatternRewriter,
) -> LoopForm:
    """
    The loop that carries and stacks only some of its values; the others that it has
    carried are read. Results that are left out have no uses.
    """
    firsts, block = op.carried, op.body.block
    gone = [i for i in range(len(firsts)) if i not in carried]
    for number in gone:
        fresh = block.insert_arg(firsts[number].type, len(block.args))
        fresh.name_hint = block.args[1 + number].name_hint
        block.args[1 + number].replace_all_uses_with(fresh)
    for number in reversed(gone):
        block.erase_arg(block.args[1 + number])
    wanted = [*carried, *(len(firsts) + number for number in stacks)]
    end = yield_of(block)
    replace_op(end, YieldOp(*(end.values[i] for i in wanted)), rewriter=rewriter)
    if made:
        wanted.append(len(op.outs) - 1)
    rest = [firsts[i] for i in carried if op.going is None or i > 0]
    reads = [*op.reads, *(firsts[i] for i in gone)]
    loop = type(op).build(
        operands=[op.trips, op.going, rest, op.slices, reads],
        result_types=[[op.outs[i].type for i in wanted]],
        properties={
            "up_to": op.up_to,
            "times": op.times,
            "backward": op.backward,
            "made": UnitAttr() if made else None,
        },
        attributes=op.attributes,
        regions=[rewriter.move_region_contents_to_new_regions(op.body)],
    )
    loop.location = op.location
    results: list[SSAValue | None] = [None] * len(op.outs)
    for number, result in zip(wanted, loop.outs, strict=True):
        results[number] = result
    replace_op(op, loop, results, rewriter=rewriter)
    return loop
