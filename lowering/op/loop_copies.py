"""Copies of the bodies of loops: the ops that take the place of a loop."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.op.body import clone_body
from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.comparison import (
    GreaterEqualOp,
    LessEqualOp,
    LessOp,
    LogicalAndOp,
    LogicalNotOp,
    WhereOp,
)
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.elementwise import AddOp
from penstock.dialects.op.loop import INDEX, LoopOp
from penstock.dialects.op.movement import ReshapeOp
from penstock.dialects.op.requirement import RequireOp
from penstock.dialects.op.slicing import ConcatOp, SliceOp
from penstock.dialects.utils.attributes import ask_for_slots, carry
from penstock.dialects.utils.numpy_types import Elements, dense_of, dtype_of
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.op import unwanted
from penstock.lowering.op.unwanted import can_be_spared, spare

NO_UNROLL = "no_unroll"
"""The reason why a loop stays: an attribute of it."""


def failing_in(loop: LoopOp) -> Operation | None:
    """
    An op that may fail in an iteration that is not to be made, and cannot be kept from
    that, if there is one.
    """
    found = unwanted.failing_in(loop) if loop.is_bounded else ()
    return next((x for x in found if not can_be_spared(x)), None)


def is_known(loop: LoopOp) -> bool:
    """Whether all that is sliced or stacked has a static shape."""
    return all(
        tensor_type(value).has_static_shape() for value in (*loop.slices, *loop.outs)
    )


class Copies:
    """The ops that take the place of a loop."""

    def __init__(self, loop: LoopOp) -> None:
        self.loop = loop
        self.ops: list[Operation] = []

    def after_iteration(
        self, number: int, state: Sequence[SSAValue]
    ) -> tuple[list[SSAValue], Sequence[SSAValue]]:
        """Copy the body for one iteration; what is carried on, and what is stacked."""
        yielded = [*self.of_iteration(number, state)]
        return yielded[: len(state)], yielded[len(state) :]

    def made(self) -> Sequence[SSAValue]:
        """The number of iterations that are made, if the loop has it as a result."""
        return ()

    def of_iteration(
        self,
        number: int,
        state: Sequence[SSAValue],
        running: SSAValue | None = None,
    ) -> Sequence[SSAValue]:
        """
        Copy the body for one iteration; the values that it yields. Where it is not
        `running` nothing is required.
        """
        loop, block = self.loop, self.loop.body.block
        index, *others = block.args
        slices = [self._slice(value, number) for value in loop.slices]
        given = [*state, *slices, *self._reads()]
        known: dict[SSAValue, SSAValue] = dict(zip(others, given, strict=True))
        if index.uses:
            known[index] = self._number(number)
        made: list[Operation] = []
        yielded = clone_body(block, known, made)
        if running is not None:
            made = [each for op in made for each in spare(op, running)]
        for op in made:
            self._add_member(op)
        return yielded

    def _add_member(self, op: Operation) -> None:
        """Let an op of the body run where it says, or where the loop does."""
        self._note(op)

    def _reads(self) -> Sequence[SSAValue]:
        """The values that each iteration reads."""
        return self.loop.reads

    def _slice(self, value: SSAValue, number: int) -> SSAValue:
        """The slice of a tensor at a place of its first axis."""
        shape = tensor_type(value).get_shape()
        starts, ends = [number, *[0] * len(shape[1:])], [number + 1, *shape[1:]]
        part = self._add(SliceOp(value, starts, ends, [1] * len(shape)))
        return self._add(ReshapeOp(part, shape[1:]))

    def stacked(self, rows: Sequence[SSAValue], result: SSAValue) -> SSAValue:
        """The values of all iterations in one tensor."""
        type = tensor_type(result)
        if not rows:
            return self._add(ConstantOp(nothing(type)))
        shape = [1, *type.get_shape()[1:]]
        return self._add(ConcatOp([self._add(ReshapeOp(x, shape)) for x in rows], 0))

    def _number(self, number: int) -> SSAValue:
        """The number of an iteration."""
        return self._constant(number)

    def _constant(self, number: int) -> SSAValue:
        value = DenseIntOrFPElementsAttr.from_list(INDEX, [number])
        return self._add(ConstantOp(value))

    def take_place(self, values: Sequence[SSAValue]) -> None:
        """Let the ops stand where the loop did, and these values be its results."""
        own = set(self.ops)
        for old, new in zip(self.loop.outs, values, strict=True):
            old.replace_all_uses_with(new)
            if not isinstance(new.owner, Operation) or new.owner not in own:
                continue
            ask_for_slots(self.loop, new.owner)
            if old.name_hint:
                new.name_hint = old.name_hint
        Rewriter.insert_op(self.ops, InsertPoint.before(self.loop))
        self.loop.detach()
        self.loop.erase()

    def _add(self, op: Operation) -> SSAValue:
        """Let an op run where the loop does; its first result."""
        self._note(op)
        return op.results[0]

    def _note(self, op: Operation) -> None:
        if "placement" in self.loop.attributes:
            op.attributes.setdefault("placement", self.loop.attributes["placement"])
        carry(self.loop, op)
        self.ops.append(op)


class MaskedCopies(Copies):
    """Those of a loop of which only a maximum of iterations is known."""

    def __init__(self, loop: LoopOp):
        super().__init__(loop)
        self._running: list[SSAValue] = []
        self._trips: SSAValue | None = loop.trips and self._checked(loop.trips)
        self._last = loop.order[-1] if loop.trips is None else None
        """The number of the iteration after which the condition must not hold."""

    def after_iteration(
        self, number: int, state: Sequence[SSAValue]
    ) -> tuple[list[SSAValue], Sequence[SSAValue]]:
        running = self._is_running(number, state)
        yielded = self.of_iteration(number, state, running)
        if self._last is not None:
            running = self._checked_end(number, running, yielded[0])
        self._running.append(running)
        kept = [
            self._add(WhereOp.of(running, new, old))
            for new, old in zip(yielded, state, strict=False)
        ]
        rows = [
            self._add(WhereOp.of(running, row, self._zero(row)))
            for row in yielded[len(kept) :]
        ]
        return kept, rows

    def made(self) -> Sequence[SSAValue]:
        if self.loop.made is None:
            return ()
        ones = [self._add(CastOp(running, i64)) for running in self._running]
        total = ones[0]
        for one in ones[1:]:
            total = self._add(AddOp.of(total, one))
        return [total]

    def _checked(self, trips: SSAValue) -> SSAValue:
        """The count, which is required to be one that is allowed."""
        lowest, highest = self._constant(0), self._constant(self.loop.count)
        above = self._add(GreaterEqualOp.of(trips, lowest))
        below = self._add(LessEqualOp.of(trips, highest))
        fits = self._add(LogicalAndOp.of(above, below))
        return self._add(RequireOp.of(fits, trips, message=self.loop.too_many))

    def _is_running(self, number: int, state: Sequence[SSAValue]) -> SSAValue:
        """Whether an iteration is to be made."""
        going = None if self.loop.going is None else state[0]
        if self._trips is None:
            assert going is not None, "checked by the verifier"
            return going
        counted = self._add(LessOp.of(self._number(number), self._trips))
        return counted if going is None else self._add(LogicalAndOp.of(counted, going))

    def _checked_end(self, number: int, running: SSAValue, again: SSAValue) -> SSAValue:
        """Whether an iteration is made; none may follow after the last one."""
        return self._ended(running, again) if number == self._last else running

    def _ended(self, running: SSAValue, again: SSAValue) -> SSAValue:
        """Whether an iteration is made after which none may follow."""
        follows = self._add(LogicalAndOp.of(running, again))
        ends = self._add(LogicalNotOp.of(follows))
        return self._add(RequireOp.of(ends, running, message=self.loop.too_long))

    def _zero(self, row: SSAValue) -> SSAValue:
        element = tensor_type(row).element_type
        return self._add(ConstantOp(zeros(TensorType(element, []))))


def nothing(type: TensorType) -> Elements:
    """The elements of a tensor that has none."""
    import numpy as np

    return dense_of(np.empty(type.get_shape(), dtype_of(type.element_type)))


def zeros(type: TensorType) -> Elements:
    """The elements of a tensor of zeros."""
    import numpy as np

    return dense_of(np.zeros(type.get_shape(), dtype_of(type.element_type)))
