"""`op.loop`: ops that run several times, each time on what the last one has made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.interfaces import ConditionallySpeculatableInterface
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.irdl import (
    AtLeast,
    AttrSizedOperandSegments,
    eq,
    irdl_op_definition,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.traits import IsolatedFromAbove, NoMemoryEffect, is_speculatable
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.backward import (
    SumOfAll,
    erase_unused,
    gradients_of_body,
    has_floats,
    source_of,
    sums_of_all,
)
from penstock.dialects.op.body import (
    FlowOp,
    YieldOp,
    clone_body,
    verify_members,
    yield_of,
)
from penstock.dialects.op.canonicalization import CanonicalOp, OpPattern, is_filled
from penstock.dialects.op.condition import CONDITION
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.flow_edits import (
    add_before,
    drop_operands,
    drop_reads,
    filled_before,
    inline,
    may_change,
    merge_reads,
    resize,
    unread,
)
from penstock.dialects.op.group_form import evaluate_block
from penstock.dialects.op.linear import GemmOp, MatmulOp
from penstock.dialects.op.movement import ReshapeOp
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.op.verify import may_equal
from penstock.dialects.utils.attributes import KnownAttributes, carry
from penstock.dialects.utils.gradients import NoGradient
from penstock.dialects.utils.tensors import (
    are_compatible,
    byte_count,
    element_count,
    tensor_type,
)

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array

INDEX = TensorType(i64, [])
"""The type of the number of an iteration, and of a number of them."""

SLICES = 3
"""The segment of operands that are sliced."""

MOST_BYTES = (1 << 63) - 1
"""The bytes that a tensor has at most: offsets are `i64`."""


class NoIteration(OpPattern["LoopOp"]):
    """
    A loop without iterations is what it carries at first, and zeros: there are none, or
    the condition is known not to hold.
    """

    def rewrite(self, op: LoopOp, rewriter: PatternRewriter) -> None:
        stops = op.going is not None and is_filled(op.going, 0)
        is_empty = op.known_count == 0 or (stops and op.allows_count)
        types = [tensor_type(value) for value in op.outs[len(op.carried) :]]
        if is_empty and all(type.has_static_shape() for type in types):
            zeros = [filled_before(op, type, rewriter) for type in types]
            rewriter.replace(op, [], [*op.carried, *zeros])


class OneIteration(OpPattern["LoopOp"]):
    """
    A loop of one iteration is its ops, on the only slices.
    """

    def rewrite(self, op: LoopOp, rewriter: PatternRewriter) -> None:
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
        stacks = [
            add_before(op, ReshapeOp(x, [1, *tensor_type(x).get_shape()]), rewriter)
            for x in yielded[kept:]
        ]
        rewriter.replace(op, [], [*yielded[:kept], *stacks])


class KnownCount(OpPattern["LoopOp"]):
    """
    A count that is a constant is that of the loop, where nothing has the extent of
    another maximum.
    """

    def rewrite(self, op: LoopOp, rewriter: PatternRewriter) -> None:
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


class UnchangedValues(OpPattern["LoopOp"]):
    """
    A carried value that no iteration changes is one that is read.
    """

    def rewrite(self, op: LoopOp, rewriter: PatternRewriter) -> None:
        same = [i for i in range(len(op.carried)) if self._stays(op, i)]
        if not same or not may_change(op):
            return
        for number in same:
            rewriter.replace_all_uses_with(op.outs[number], op.carried[number])
        kept = [i for i in range(len(op.carried)) if i not in same]
        has_made = op.made is not None
        rebuild(op, kept, range(len(op.stacks)), has_made, rewriter)

    def _stays(self, op: LoopOp, number: int) -> bool:
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


class StackedSlices(OpPattern["LoopOp"]):
    """
    Slices that are stacked again are the tensor that they are of.
    """

    def rewrite(self, op: LoopOp, rewriter: PatternRewriter) -> None:
        tensors: dict[SSAValue, SSAValue] = dict(
            zip(op.slice_args, op.slices, strict=True)
        )
        yielded = yield_of(op.body.block).values[len(op.carried) :]
        for value, result in zip(yielded, op.stacks, strict=True):
            tensor = tensors.get(value) if not op.is_bounded else None
            if tensor is not None and result.first_use and tensor.type == result.type:
                rewriter.replace_all_uses_with(result, tensor)


class UnreadResults(OpPattern["LoopOp"]):
    """
    Values that no result needs are neither carried nor stacked.
    """

    def rewrite(self, op: LoopOp, rewriter: PatternRewriter) -> None:
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


class UnreadValues(OpPattern["LoopOp"]):
    """
    A value that no iteration reads or slices is no operand, and one that is read or
    sliced twice is one.
    """

    def rewrite(self, op: LoopOp, rewriter: PatternRewriter) -> None:
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


class InvariantOps(OpPattern["LoopOp"]):
    """
    Ops that do the same in each iteration run once, before the loop.
    """

    def rewrite(self, op: LoopOp, rewriter: PatternRewriter) -> None:
        known = given(op.read_args, op.reads)
        found: list[TensorOp] = []
        for member in op.members if may_change(op) else ():
            if is_invariant(op, member, known):
                found.append(member)
                known.update((value, value) for value in member.results)
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
    op: LoopOp, member: TensorOp, known: Mapping[SSAValue, SSAValue]
) -> bool:
    """Whether a member may run before its loop, where these values are known."""
    if isinstance(member, ConstantOp) or not member.operands:
        return False
    runs = is_speculatable(member) or (op.count > 0 and not op.is_bounded)
    return runs and all(
        value in known or isinstance(value.owner, ConstantOp)
        for value in member.operands
    )


def move_out(
    op: LoopOp,
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


class ProductsOfSlices(OpPattern["LoopOp"]):
    """
    Products of slices with a matrix that all iterations read are slices of one product,
    of all of them.
    """

    def rewrite(self, op: LoopOp, rewriter: PatternRewriter) -> None:
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
    op: LoopOp,
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
    op: LoopOp, tensor: SSAValue, member: Operation, rewriter: PatternRewriter
) -> None:
    """Let the slices of one more tensor be the result of a member."""
    (result,) = member.results
    number = 1 + len(op.carried) + len(op.slices)
    arg = op.body.block.insert_arg(result.type, number)
    arg.name_hint = result.name_hint
    place = len(op.operands) - len(op.reads)
    op.operands = [*op.operands[:place], tensor, *op.operands[place:]]
    resize(op, SLICES, 1)
    rewriter.replace(member, [], [arg])
    rewriter.notify_op_modified(op)


def needed(op: LoopOp, stacks: Sequence[int]) -> set[int]:
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
    op: LoopOp,
    carried: Sequence[int],
    stacks: Sequence[int],
    made: bool,
    rewriter: PatternRewriter,
) -> LoopOp:
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
    rewriter.replace(end, YieldOp(*(end.values[i] for i in wanted)))
    if made:
        wanted.append(len(op.outs) - 1)
    rest = [firsts[i] for i in carried if op.going is None or i > 0]
    reads = [*op.reads, *(firsts[i] for i in gone)]
    loop = LoopOp.build(
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
    rewriter.replace(op, loop, results)
    return loop


@irdl_op_definition
class LoopOp(FlowOp, ConditionallySpeculatableInterface, CanonicalOp):
    """
    Ops that run a number of `times`, each time on what they have made before.

    The arguments of the body are the number of the iteration; the values that it
    `carries`, which are the operands at first and what it yields after that; the
    elements of the tensors that it `slices` at that number on their first axis; and
    the values that it `reads` each time. It yields those that it carries, and then any
    number of others. The results are what it carries in the end, and the others of all
    iterations, stacked on a new first axis.

    ```mlir
    %h, %ys = op.loop 3 carries(%h0 : tensor<2xf32>) slices(%xs : tensor<3x2xf32>)
        reads(%w : tensor<2xf32>) -> tensor<2xf32>, tensor<3x2xf32> {
    ^bb0(%i: tensor<i64>, %h: tensor<2xf32>, %x: tensor<2xf32>, %v: tensor<2xf32>):
      %p = op.mul %h, %v : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
      %n = op.add %p, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
      %y = op.tanh %n : tensor<2xf32> -> tensor<2xf32>
      op.yield %n, %y : tensor<2xf32>, tensor<2xf32>
    }
    ```

    A loop that goes `backward` has the last number first: it takes slices, and stacks
    what it yields, from the end.

    A loop `up to` a maximum has a `count`, which is given at run time, a condition, or
    both. The condition after `while` is the first of the values that are carried: it is
    tested before each iteration, also the first one. The last result, if asked for, is
    the number of iterations that were `made`. Stacked results have the extent of the
    maximum; what lies beyond the iterations that were made is zeros.

    ```mlir
    %c, %h, %ys, %made = op.loop up to 100 count(%n) while(%c0)
        carries(%h0 : tensor<f32>) made
        -> tensor<i1>, tensor<f32>, tensor<100xf32>, tensor<i64> {
    ^bb0(%i: tensor<i64>, %going: tensor<i1>, %h: tensor<f32>):
      %y = op.sqrt %h : tensor<f32> -> tensor<f32>
      %again = op.greater %h, %y : tensor<f32>, tensor<f32> -> tensor<i1>
      op.yield %again, %y, %y : tensor<i1>, tensor<f32>, tensor<f32>
    }
    ```

    A count that is negative or greater than the maximum is an error when the op runs,
    and so is a condition that, without a count, still holds after the maximum.
    """

    name = "op.loop"
    PATTERNS: ClassVar = (
        NoIteration,
        OneIteration,
        KnownCount,
        UnchangedValues,
        StackedSlices,
        UnreadResults,
        UnreadValues,
        InvariantOps,
        ProductsOfSlices,
    )

    up_to = opt_prop_def(UnitAttr)
    times = prop_def(IntegerAttr.constr(eq(i64), value=AtLeast(0)))
    backward = opt_prop_def(UnitAttr)
    made = opt_prop_def(UnitAttr)
    trips = opt_operand_def(INDEX)
    going = opt_operand_def(CONDITION)
    carries = var_operand_def(TensorType)
    slices = var_operand_def(TensorType)
    reads = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    body = region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(
        KnownAttributes("no_unroll"), IsolatedFromAbove(), NoMemoryEffect()
    )

    assembly_format = (
        "(`up` `to` $up_to^)? $times (`count` `(` $trips^ `)`)? "
        "(`while` `(` $going^ `)`)? (`backward` $backward^)? "
        "(`carries` `(` $carries^ `:` type($carries) `)`)? "
        "(`slices` `(` $slices^ `:` type($slices) `)`)? "
        "(`reads` `(` $reads^ `:` type($reads) `)`)? "
        "(`made` $made^)? (`->` type($outs)^)? attr-dict-with-keyword $body"
    )

    def __init__(
        self,
        times: int,
        carries: Sequence[SSAValue | Operation],
        slices: Sequence[SSAValue | Operation],
        reads: Sequence[SSAValue | Operation],
        body: Region,
        *,
        backward: bool = False,
        trips: SSAValue | None = None,
        going: SSAValue | None = None,
        made: bool = False,
    ):
        yielded = [tensor_type(x) for x in yield_of(body.block).values]
        kept = len(carries) + (going is not None)
        stacked = [_stacked(type, times) for type in yielded[kept:]]
        is_bounded = trips is not None or going is not None
        super().__init__(
            operands=[trips, going, carries, slices, reads],
            result_types=[[*yielded[:kept], *stacked, *[INDEX] * made]],
            properties={
                "up_to": UnitAttr() if is_bounded else None,
                "times": IntegerAttr(times, i64),
                "backward": UnitAttr() if backward else None,
                "made": UnitAttr() if made else None,
            },
            regions=[body],
        )

    @property
    def read_values(self) -> Sequence[SSAValue]:
        return self.reads

    @property
    def count(self) -> int:
        """The number of iterations; of a loop `up to` a maximum, the maximum."""
        return self.times.value.data

    @property
    def is_bounded(self) -> bool:
        """Whether only a maximum of iterations is known before it runs."""
        return self.up_to is not None

    @property
    def carried(self) -> Sequence[SSAValue]:
        """The values carried at first; the condition, if there is one, is in front."""
        return [*(() if self.going is None else (self.going,)), *self.carries]

    @property
    def ends(self) -> Sequence[SSAValue]:
        """The results that are carried."""
        return self.outs[: len(self.carried)]

    @property
    def stacks(self) -> Sequence[SSAValue]:
        """The results of which each iteration has made a part."""
        last = len(self.outs) - (self.made is not None)
        return self.outs[len(self.carried) : last]

    @property
    def read_args(self) -> Sequence[BlockArgument]:
        """The arguments of the body that are the values that it reads."""
        args = self.body.block.args
        return args[len(args) - len(self.reads) :]

    @property
    def slice_args(self) -> Sequence[BlockArgument]:
        """The arguments of the body that are slices."""
        first = 1 + len(self.carried)
        return self.body.block.args[first : first + len(self.slices)]

    @property
    def known_count(self) -> int | None:
        """The number of iterations, unless a condition ends it, where it is known."""
        if self.trips is None:
            return None if self.is_bounded else self.count
        owner = self.trips.owner
        if not isinstance(owner, ConstantOp) or owner.splat is None:
            return None
        return int(owner.splat) if 0 <= owner.splat <= self.count else None

    @property
    def allows_count(self) -> bool:
        """Whether its count, if it has one, is known to be one that is allowed."""
        return self.trips is None or self.known_count is not None

    @property
    def title(self) -> str:
        """The loop in messages, by the name of its first result if that has one."""
        names = (value.name_hint for value in self.outs if value.name_hint)
        return f"loop '{name}'" if (name := next(names, None)) else "the loop"

    @property
    def order(self) -> range:
        """The numbers of the iterations, in the order in which they run."""
        return self.order_of(self.count)

    def order_of(self, count: int) -> range:
        """The numbers of so many iterations, in the order in which they run."""
        numbers = range(count)
        return numbers if self.backward is None else numbers[::-1]

    @property
    def members(self) -> list[TensorOp]:
        """The ops of an iteration, in order."""
        return [op for op in self.body.block.ops if isinstance(op, TensorOp)]

    def is_speculatable(self) -> bool:
        return self.known_count is not None and all(
            map(is_speculatable, self.body.block.ops)
        )

    def argument_types(self) -> Sequence[TensorType]:
        taken = [_taken(tensor_type(value), self.count) for value in self.slices]
        kept, read = (map(tensor_type, each) for each in (self.carried, self.reads))
        return [INDEX, *kept, *taken, *read]

    def infer_types(self) -> Sequence[TensorType]:
        self._verify_form()
        block = self.body.block
        verify_members(block, "of an iteration")
        wanted, given = self.argument_types(), [*map(tensor_type, block.args)]
        if len(wanted) != len(given) or not all(map(are_compatible, wanted, given)):
            texts = (", ".join(map(str, types)) for types in (wanted, given))
            raise VerifyException(
                "the body's arguments should be {}, got {}".format(*texts)
            )
        yielded = [tensor_type(value) for value in yield_of(block).values]
        kept = [tensor_type(value) for value in self.carried]
        if len(yielded) < len(kept):
            raise VerifyException(
                f"the loop carries {len(kept)} values, the body yields {len(yielded)}"
            )
        self._verify_carried(kept, yielded)
        stacked = [_stacked(type, self.count) for type in yielded[len(kept) :]]
        _verify_bytes(stacked, self.count)
        return [*kept, *stacked, *[INDEX] * (self.made is not None)]

    def _verify_form(self) -> None:
        """Raise `VerifyException` for parts of the form that do not go together."""
        may_end = self.trips is not None or self.going is not None
        if self.is_bounded and not may_end:
            raise VerifyException(
                f"a loop up to {self.count} should have a count or a condition"
            )
        if may_end and not self.is_bounded:
            raise VerifyException(
                f"a loop of {self.count} iterations has no count and no condition, "
                f"one up to {self.count} does"
            )
        if self.made is not None and not may_end:
            raise VerifyException(f"it is known that {self.count} iterations are made")
        if self.is_bounded and self.count == 0:
            raise VerifyException("the maximum of iterations should be at least 1")
        if self.going is not None and self.backward is not None:
            raise VerifyException(
                "a loop with a condition does not go backward: its last number is not "
                "known before"
            )

    def _verify_carried(
        self, kept: Sequence[TensorType], yielded: Sequence[TensorType]
    ) -> None:
        """Raise `VerifyException` if an iteration changes a type."""
        for number, (before, after) in enumerate(zip(kept, yielded, strict=False)):
            if not are_compatible(before, after):
                place = number - (self.going is not None)
                name = "the condition" if place < 0 else f"carried value {place}"
                raise VerifyException(
                    f"{name} is {before} before an iteration, {after} after it"
                )

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        """A carried value may lie where its first value did, which is read first."""
        first = 0 if self.trips is None else 1
        return [
            InPlacePair(first + number, number)
            for number, (before, after) in enumerate(
                zip(self.carried, self.ends, strict=True)
            )
            if before.type == after.type
        ]

    def flops(self) -> int:
        """Those of all iterations, or of the maximum of them."""
        return self.count * sum(member.flops() for member in self.members)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        """Raises `ValueError` where the maximum is not enough."""
        import numpy as np

        count = self.count if self.trips is None else self._allowed(operands[0])
        rest = operands[self.trips is not None :]
        kept, taken = len(self.carried), len(self.slices)
        state, slices = [*rest[:kept]], rest[kept : kept + taken]
        rows: dict[int, Sequence[Array]] = {}
        for number in self.order_of(count):
            if self.going is not None and not state[0]:
                break
            parts = (value[number] for value in slices)
            given = [np.asarray(number), *state, *parts, *rest[kept + taken :]]
            made = _yielded(self.body.block, given)
            state, rows[number] = made[:kept], made[kept:]
        if self.going is not None and self.trips is None and state[0]:
            raise ValueError(self.too_long)
        number = [np.asarray(len(rows))] * (self.made is not None)
        return [*state, *self._in_stacks(rows), *number]

    def _allowed(self, count: Array) -> int:
        """The number of iterations to make. Raises `ValueError` for a bad one."""
        if not 0 <= (number := int(count)) <= self.count:
            raise ValueError(f"{self.too_many}, {number}")
        return number

    @property
    def too_many(self) -> str:
        """The error of a count that is not one of those that are allowed."""
        return f"{self.title} is to make other than 0 to {self.count} iterations"

    @property
    def too_long(self) -> str:
        """The error of a condition that holds for too long."""
        return (
            f"the condition of {self.title} still holds after iteration "
            f"{self.count - 1}, the last of its maximum of {self.count}"
        )

    def _in_stacks(self, rows: Mapping[int, Sequence[Array]]) -> Sequence[Array]:
        """The parts that iterations have made, side by side, on zeros."""
        import numpy as np

        if not rows:
            return [_zeros(value) for value in self.stacks]
        stacks = [
            np.zeros((self.count, *row.shape), row.dtype)
            for row in next(iter(rows.values()))
        ]
        for number, each in rows.items():
            for stack, row in zip(stacks, each, strict=True):
                stack[number] = row
        return stacks

    def stack_starts(self) -> Sequence[SSAValue]:
        """Stack each carried value as it is before an iteration, as further results."""
        block, count = self.body.block, len(self.carried)
        starts = block.args[1 : 1 + count]
        end = yield_of(block)
        end.operands = [*end.operands, *starts]
        made = [
            OpResult(_stacked(tensor_type(arg), self.count), self, len(self.outs) + i)
            for i, arg in enumerate(starts)
        ]
        self.results = type(self.results)((*self.results, *made))
        return made

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        """
        A loop in the other order, which carries the gradients of what this one carries.
        Each iteration computes its ops anew, from what they were given. The gradients
        of what all iterations read are sums over them: where these are of products of
        matrices, one product after the loop; else they are carried.
        """
        if self.is_bounded:
            raise NoGradient("it is not known how many iterations it makes")
        return BackwardLoop(o, self, grads).gradients()

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        raise VerifyException(
            "a loop has no kernel of its own: op-unroll-loops comes before"
        )


class BackwardLoop:
    """The loop that makes the gradients of the operands of a `loop`."""

    def __init__(
        self, o: GradientBuilder, loop: LoopOp, grads: Sequence[SSAValue | None]
    ) -> None:
        self._o, self._loop = o, loop
        values = loop.carried, loop.slices, loop.reads
        self._carried, self._sliced, self._read = (
            [i for i, value in enumerate(x) if has_floats(value)] for x in values
        )
        by_carried, by_stacks = grads[: len(loop.carried)], grads[len(loop.carried) :]
        self._firsts = [
            self._or_zeros(o, loop.carried[i], by_carried[i]) for i in self._carried
        ]
        """The values that it carries at first."""
        given = {i: grad for i, grad in enumerate(by_stacks) if grad is not None}
        self._tensors = [*loop.stack_starts(), *loop.slices, *given.values()]
        """The tensors that it slices."""
        carried = [value.type for value in self._firsts]
        slices = [_taken(tensor_type(x), loop.count) for x in self._tensors]
        reads = [value.type for value in loop.reads]
        self._body = Block(arg_types=[INDEX, *carried, *slices, *reads])
        self._inner = o.within(self._body)
        self._derive(list(given))

    def _derive(self, given: Sequence[int]) -> None:
        """Make the ops of the body, where some stacked results have gradients."""
        loop, args = self._loop, iter(self._body.args[1:])
        after = [next(args) for _ in self._carried]
        starts, taken, by_stacks = (
            [next(args) for _ in x] for x in (loop.carried, loop.slices, given)
        )
        reads = [*args]
        slices: list[SSAValue] = [*starts, *taken, *by_stacks]
        self._tensor_of = dict(zip(slices, self._tensors, strict=True))
        ends, made = self._forwards([*starts, *taken, *reads])
        seeds = [(ends[i], g) for i, g in zip(self._carried, after, strict=True)]
        stacked = zip(given, by_stacks, strict=True)
        seeds += [(ends[len(starts) + i], g) for i, g in stacked]
        by = [*(starts[i] for i in self._carried), *(taken[i] for i in self._sliced)]
        found = gradients_of_body(
            self._inner, made, [*by, *(reads[i] for i in self._read)], seeds
        )
        self._by_reads = found[len(by) :]
        pairs = zip(by, found[: len(by)], strict=True)
        whole = [self._or_zeros(self._inner, *pair) for pair in pairs]
        self._yielded = whole[: len(self._carried)]
        self._stacked = whole[len(self._carried) :]

    @staticmethod
    def _or_zeros(
        o: GradientBuilder, value: SSAValue, grad: SSAValue | None
    ) -> SSAValue:
        return o.zeros(value) if grad is None else grad

    def _forwards(
        self, given: Sequence[SSAValue]
    ) -> tuple[Sequence[SSAValue], Sequence[Operation]]:
        """The ops of an iteration once more: the values that it yields, and the ops."""
        made = list[Operation]()
        block = self._loop.body.block
        number = self._body.args[0]
        known: dict[SSAValue, SSAValue] = dict(
            zip(block.args, [number, *given], strict=True)
        )
        ends = clone_body(block, known, made)
        for op in made:
            self._inner.insert(op)
        return ends, made

    def gradients(self) -> Gradients:
        """The gradients of the operands of the loop."""
        loop, sums = self._loop, dict[int, int | list[SumOfAll]]()
        for i, grad in zip(self._read, self._by_reads, strict=True):
            if grad is not None:
                sums[i] = self._sum(loop.reads[i], grad)
        self._body.add_op(YieldOp(*self._yielded, *self._stacked))
        erase_unused(self._body)
        made = LoopOp(
            loop.count,
            self._firsts,
            self._tensors,
            loop.reads,
            Region(self._body),
            backward=loop.backward is None,
        )
        self._o.insert(made)
        self._tensor_of.update(zip(self._stacked, made.stacks, strict=True))
        gradients: dict[int, SSAValue] = dict(
            zip(self._carried, made.ends, strict=False)
        )
        first = len(loop.carried)
        gradients |= {
            first + i: x for i, x in zip(self._sliced, made.stacks, strict=False)
        }
        first += len(loop.slices)
        for i, place in sums.items():
            is_carried = isinstance(place, int)
            gradients[first + i] = made.ends[place] if is_carried else self._all(place)
        return [gradients.get(i) for i in range(len(loop.operands))]

    def _sum(self, value: SSAValue, grad: SSAValue) -> int | list[SumOfAll]:
        """
        The sum over iterations of a gradient of what all of them read: the number of
        the carried value that it is, or what it is made of after the loop, where the
        factors that have to be stacked for it are smaller than it is.
        """
        terms = sums_of_all(self._body, grad)
        factors = {source_of(x): None for term in terms or () for x in term.factors}
        new = [
            x for x in factors if x not in self._tensor_of and x not in self._stacked
        ]
        room = element_count(tensor_type(value))
        if terms is None or sum(element_count(tensor_type(x)) for x in new) > room:
            total = self._body.insert_arg(value.type, 1 + len(self._firsts))
            self._firsts.append(self._o.zeros(value))
            self._yielded.append(self._inner.add(total, grad))
            return len(self._firsts) - 1
        self._stacked += new
        return terms

    def _all(self, terms: Sequence[SumOfAll]) -> SSAValue:
        """The sum of all terms of all iterations."""
        made = [
            term.of(self._o, [self._tensor_of[source_of(x)] for x in term.factors])
            for term in terms
        ]
        return reduce(self._o.add, made)


def _taken(type: TensorType, times: int) -> TensorType:
    """The type of a slice of a tensor along its first axis."""
    shape = type.get_shape()
    if not shape or not may_equal(shape[0], times):
        raise VerifyException(f"there are no {times} slices of {type}")
    return TensorType(type.element_type, shape[1:])


def _stacked(type: TensorType, times: int) -> TensorType:
    return TensorType(type.element_type, [times, *type.get_shape()])


def _verify_bytes(stacked: Sequence[TensorType], count: int) -> None:
    """Raise `VerifyException` for results that no memory holds."""
    known = [type for type in stacked if type.has_static_shape()]
    if (total := sum(map(byte_count, known))) > MOST_BYTES:
        raise VerifyException(
            f"the stacked results of {count} iterations take {total} bytes, more than "
            f"the {MOST_BYTES} of any memory"
        )


def _yielded(block: Block, given: Sequence[Array]) -> list[Array]:
    values = evaluate_block(block, dict(zip(block.args, given, strict=True)))
    return [values[value] for value in yield_of(block).values]


def _zeros(value: SSAValue) -> Array:
    """Zeros of the type of a tensor."""
    import numpy as np

    from penstock.dialects.utils.numpy_types import dtype_of

    type = tensor_type(value)
    assert DYNAMIC_INDEX not in type.get_shape(), "it is run with all extents known"
    return np.zeros(type.get_shape(), dtype_of(type.element_type))
