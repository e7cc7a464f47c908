"""`op.loop`: ops that run several times, each time on what the last one has made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntegerAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.interfaces import ConditionallySpeculatableInterface
from xdsl.ir import Block, Operation, Region, SSAValue
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
from xdsl.traits import IsolatedFromAbove, NoMemoryEffect, is_speculatable
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.body import FlowOp, verify_members, yield_of
from penstock.dialects.op.condition import CONDITION
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.group_form import evaluate_block
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.op.verify import may_equal
from penstock.dialects.utils.attributes import KnownAttributes
from penstock.dialects.utils.tensors import are_compatible, byte_count, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array

INDEX = TensorType(i64, [])
"""The type of the number of an iteration, and of a number of them."""

MOST_BYTES = (1 << 63) - 1
"""The bytes that a tensor has at most: offsets are `i64`."""


@irdl_op_definition
class LoopOp(FlowOp, ConditionallySpeculatableInterface):
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
        return self._ends_in_time and all(map(is_speculatable, self.body.block.ops))

    @property
    def _ends_in_time(self) -> bool:
        """Whether it is known before it runs that the maximum is enough."""
        if not self.is_bounded:
            return True
        owner = None if self.trips is None else self.trips.owner
        if not isinstance(owner, ConstantOp) or owner.splat is None:
            return False
        return 0 <= owner.splat <= self.count

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

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        raise VerifyException(
            "a loop has no kernel of its own: op-unroll-loops comes before"
        )


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
