"""The form of `op.loop`: its parts, the types of its body, and the rules for both."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, TensorType, UnitAttr, i64
from xdsl.ir import BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.irdl import (
    AtLeast,
    eq,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import is_speculatable
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.body import FlowOp, verify_members, yield_of
from penstock.dialects.op.condition import CONDITION
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.flow_edits import resize
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import may_equal
from penstock.dialects.utils.tensors import are_compatible, byte_count, tensor_type

INDEX = TensorType(i64, [])
"""The type of the number of an iteration, and of a number of them."""

SLICES = 3
"""The segment of operands that are sliced."""

MOST_BYTES = (1 << 63) - 1
"""The bytes that a tensor has at most: offsets are `i64`."""


class LoopForm(FlowOp, ABC):
    """The parts of `op.loop`, and what its body is given and yields."""

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
        stacked = [stacked_type(type, times) for type in yielded[kept:]]
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
        taken = [slice_type(tensor_type(value), self.count) for value in self.slices]
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
        stacked = [stacked_type(type, self.count) for type in yielded[len(kept) :]]
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

    def slice_also(self, tensor: SSAValue) -> BlockArgument:
        """
        Take slices of one more tensor; the argument of the body that is one of them.
        """
        type = slice_type(tensor_type(tensor), self.count)
        number = 1 + len(self.carried) + len(self.slices)
        arg = self.body.block.insert_arg(type, number)
        place = len(self.operands) - len(self.reads)
        self.operands = [*self.operands[:place], tensor, *self.operands[place:]]
        resize(self, SLICES, 1)
        return arg

    def keep(self, values: Sequence[SSAValue], *, made: bool) -> Sequence[SSAValue]:
        """
        Stack some values of an iteration, as further results, and give the number of
        the iterations that were made if that is asked for; the stacks.
        """
        end = yield_of(self.body.block)
        end.operands = [*end.operands, *values]
        types = [stacked_type(tensor_type(value), self.count) for value in values]
        stacks = [OpResult(type, self, 0) for type in types]
        has_made = self.made is not None
        results = [*self.results[: len(self.outs) - has_made], *stacks]
        if has_made:
            results.append(self.results[-1])
        elif made:
            results.append(OpResult(INDEX, self, 0))
            self.made = UnitAttr()
        for number, result in enumerate(results):
            result.index = number
        self.results = type(self.results)(results)
        return stacks


def slice_type(type: TensorType, times: int) -> TensorType:
    """The type of a slice of a tensor along its first axis."""
    shape = type.get_shape()
    if not shape or not may_equal(shape[0], times):
        raise VerifyException(f"there are no {times} slices of {type}")
    return TensorType(type.element_type, shape[1:])


def stacked_type(type: TensorType, times: int) -> TensorType:
    return TensorType(type.element_type, [times, *type.get_shape()])


def _verify_bytes(stacked: Sequence[TensorType], count: int) -> None:
    """Raise `VerifyException` for results that no memory holds."""
    known = [type for type in stacked if type.has_static_shape()]
    if (total := sum(map(byte_count, known))) > MOST_BYTES:
        raise VerifyException(
            f"the stacked results of {count} iterations take {total} bytes, more than "
            f"the {MOST_BYTES} of any memory"
        )
