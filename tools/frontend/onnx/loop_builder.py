"""
The builder of `op.loop`, whose values may be of as many elements as data says.

An extent of the state that is a count, and that iterations change, is carried beside
it. A state that grows has room for the most iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.body import YieldOp, isolate, values_outside
from penstock.dialects.op.comparison import LessEqualOp
from penstock.dialects.op.condition import CONDITION
from penstock.dialects.op.loop import INDEX, LoopOp
from penstock.dialects.op.requirement import RequireOp
from penstock.dialects.utils.tensors import tensor_type
from penstock.tools.frontend.onnx.graph import JobBuilder
from penstock.tools.frontend.onnx.ops import Array, Value
from penstock.tools.frontend.onnx.sizes import is_same


class Iteration(NamedTuple):
    """The values that the body of a loop is given."""

    number: SSAValue | Array
    state: Sequence[Value]
    slices: Sequence[Value]


class Made(NamedTuple):
    """
    The values of an iteration, those that it carries on and others that are stacked; or
    of a loop, its last state and what it has stacked.
    """

    state: Sequence[Value]
    rows: Sequence[Value]


class Bound(NamedTuple):
    """
    The most iterations of a loop, the number that is asked for, and the condition of
    the first one; without a condition there is none after an iteration either.
    """

    most: int
    trips: Value | None = None
    going: Value | None = None


Body: TypeAlias = Callable[[Iteration], Made]

MOST_READINGS = 6
"""The most readings of a body until the room for its state is known."""

OUT_OF_ROOM = "an iteration needs more room than the loop has for its state"


@dataclass(frozen=True)
class _Room:
    """
    The shape that a value of the state has in all iterations. Along an axis its count
    is one from outside that all of them keep, or is carried beside it: then the extent
    grows by a number at most in an iteration.
    """

    shape: Sequence[int]
    counts: Mapping[int, SSAValue | int]

    @property
    def carried(self) -> Sequence[int]:
        """The axes whose counts are carried."""
        return [axis for axis, count in self.counts.items() if isinstance(count, int)]

    def with_count(self, axis: int, extent: int, step: int) -> _Room:
        """The same, but for an axis along which it has so much room."""
        shape = [*self.shape]
        shape[axis] = extent
        return _Room(shape, {**self.counts, axis: step})


class _Changed(Exception):
    """Iterations need other room than that which they were given."""

    def __init__(self, rooms: Sequence[_Room]):
        super().__init__("iterations change extents of the state")
        self.rooms = rooms


def add_loop(
    builder: JobBuilder,
    count: int | Bound,
    state: Sequence[Value],
    slices: Sequence[Value],
    body: Body,
    *,
    backward: bool = False,
) -> Made:
    """
    Add a loop of `count` iterations, whose body is read once; the last state, and what
    its iterations have stacked along a new first axis. Where the number of iterations
    follows from data, as where slices are counted, such an axis is counted by those
    that were made. The state of a loop with a condition is what an iteration makes
    after that. Raises `VerifyException` where an iteration changes the type of its
    state.
    """
    bound = Bound(count) if isinstance(count, int) else count
    for value in slices:
        if (trips := builder.extents.of(value).get(0)) is not None:
            if bound.trips is not None and bound.trips is not trips:
                raise VerifyException("slices have different counts")
            bound = bound._replace(trips=trips)
    loop = _Loop(builder, bound, state, slices, body, backward)
    rooms: Sequence[_Room] = [
        _Room(builder.ops.shape(value), builder.extents.of(value)) for value in state
    ]
    for _ in range(MOST_READINGS):
        try:
            with builder.trial():
                return loop.add(rooms)
        except _Changed as change:
            rooms = change.rooms
    raise VerifyException("iterations change extents of the state without end")


@dataclass
class _Loop:
    """A loop, which is added once the room for its state is known."""

    builder: JobBuilder
    bound: Bound
    state: Sequence[Value]
    slices: Sequence[Value]
    body: Body
    backward: bool

    def add(self, rooms: Sequence[_Room]) -> Made:
        """Add it. Raises `_Changed` if its state needs other room."""
        builder, (most, trips, going) = self.builder, self.bound
        lead, kept = int(going is not None), len(rooms)
        carries = self._carries(rooms)
        with builder.body() as block:
            made = self.body(self._given(block, rooms, carries))
            # The condition is the first value that is made.
            condition, after = made.state[:lead], made.state[lead:]
            found = [*map(self._room, rooms, self.state, after)]
            if found != [*rooms]:
                raise _Changed(found)
            last = self._last_counts(block, made.rows)
            ends = [*condition, *self._ends(rooms, after), *last, *made.rows]
            block.add_op(YieldOp(*map(builder.as_tensor, ends)))
        for place in range(len(last)):
            block.insert_arg(INDEX, 1 + lead + len(carries) + place)
        reads = values_outside([block])
        isolate(block, reads)
        op = LoopOp(
            most,
            carries + [builder.as_tensor(np.asarray(0))] * len(last),
            [*map(builder.as_tensor, self.slices)],
            reads,
            Region(block),
            backward=self.backward,
            trips=None if trips is None else builder.as_tensor(trips),
            going=None if going is None else builder.as_tensor(going),
            made=self._is_bounded and bool(made.rows),
        )
        try:
            op.infer_types()
        except VerifyException:
            op.erase()
            raise
        results = [*builder.insert(op)[lead:]]
        number = results.pop() if op.made is not None else None
        state, counts = results[:kept], results[kept : len(carries)]
        self._count(state, rooms, counts)
        of_rows = results[len(carries) : len(carries) + len(last)]
        rows = results[len(carries) + len(last) :]
        self._count_rows(rows, made.rows, dict(zip(last, of_rows, strict=True)))
        if number is not None:
            for row in rows:
                builder.extents.set(row, 0, number)
        return Made(state, rows)

    @property
    def _is_bounded(self) -> bool:
        return self.bound.trips is not None or self.bound.going is not None

    def _carries(self, rooms: Sequence[_Room]) -> list[SSAValue]:
        """The first state, and the counts that are carried beside it."""
        builder, pairs = self.builder, [*zip(self.state, rooms, strict=True)]
        values = [builder.extents.fitted(value, room.shape) for value, room in pairs]
        values += [self._number(v, axis) for v, room in pairs for axis in room.carried]
        return [*map(builder.as_tensor, values)]

    def _number(self, value: Value, axis: int) -> Value:
        """The number of elements along an axis that are there."""
        count = self.builder.extents.of(value).get(axis)
        extent = self.builder.ops.shape(value)[axis]
        return np.asarray(extent) if count is None else count

    def _given(
        self, block: Block, rooms: Sequence[_Room], carries: Sequence[SSAValue]
    ) -> Iteration:
        """The arguments of the body, with their counts."""
        builder = self.builder

        def argument(type: TensorType) -> SSAValue:
            return block.insert_arg(type, len(block.args))

        number = argument(INDEX)
        if self.bound.going is not None:
            argument(CONDITION)
        kept = [argument(tensor_type(value)) for value in carries]
        state = kept[: len(rooms)]
        self._count(state, rooms, kept[len(rooms) :])
        slices: list[Value] = []
        for value in map(builder.as_tensor, self.slices):
            slices.append(part := argument(_slice_type(value)))
            for axis, count in builder.extents.of(value).items():
                if axis:
                    builder.extents.set(part, axis - 1, count, is_blank=False)
        return Iteration(number, state, slices)

    def _count(
        self,
        state: Sequence[SSAValue],
        rooms: Sequence[_Room],
        counts: Sequence[SSAValue],
    ) -> None:
        """Say how values of the state are counted, given the counts beside them."""
        left = iter(counts)
        for value, room in zip(state, rooms, strict=True):
            for axis, own in room.counts.items():
                count = next(left) if isinstance(own, int) else own
                self.builder.extents.set(value, axis, count, is_blank=False)

    def _room(self, room: _Room, first: Value, after: Value) -> _Room:
        """The room for a value of the state, by what an iteration makes of it."""
        ops, counts = self.builder.ops, self.builder.extents.of(after)
        shape, starts = ops.shape(after), ops.shape(first)
        if len(shape) != len(room.shape):
            return room  # Its types are refused.
        for axis, (before, extent) in enumerate(zip(room.shape, shape, strict=True)):
            own, count, grown = room.counts.get(axis), counts.get(axis), extent - before
            if isinstance(own, int):
                if grown > own:
                    room = room.with_count(axis, extent - own, own)
                continue
            is_kept = own is count or (own and count and is_same(own, count))
            if grown == 0 and is_kept:
                continue
            if self._is_bounded or own is not None or count is not None:
                step = max(0, grown)
                extent = starts[axis] + step * self.bound.most
                room = room.with_count(axis, extent, step)
        return room

    def _ends(self, rooms: Sequence[_Room], state: Sequence[Value]) -> list[Value]:
        """The state after an iteration, and the counts beside it."""
        ops, ends, counts = self.builder.ops, list[Value](), list[Value]()
        for value, room in zip(state, rooms, strict=True):
            for axis in room.carried:
                count, most = self._number(value, axis), room.shape[axis]
                if ops.shape(value)[axis] > most:
                    is_enough = ops.two(LessEqualOp, count, most)
                    count = ops.one(RequireOp, is_enough, count, message=OUT_OF_ROOM)
                counts.append(count)
            is_of_rank = len(ops.shape(value)) == len(room.shape)
            has_counts = bool(room.counts) and is_of_rank
            fit = self.builder.extents.fitted
            ends.append(fit(value, room.shape) if has_counts else value)
        return [*ends, *counts]

    def _last_counts(self, block: Block, rows: Sequence[Value]) -> list[SSAValue]:
        """The counts of rows that an iteration makes: that of the last one is kept."""
        counts = [x for row in rows for x in self.builder.extents.of(row).values()]
        return [x for x in dict.fromkeys(counts) if _is_of(x, block)]

    def _count_rows(
        self,
        rows: Sequence[SSAValue],
        made: Sequence[Value],
        last: Mapping[SSAValue, SSAValue],
    ) -> None:
        """Say how rows are counted along their own axes."""
        for row, value in zip(rows, made, strict=True):
            for axis, count in self.builder.extents.of(value).items():
                own = last.get(count, count)
                self.builder.extents.set(row, 1 + axis, own, is_blank=False)


def _is_of(value: SSAValue, block: Block) -> bool:
    owner = value.owner
    return (owner if isinstance(owner, Block) else owner.parent_block()) is block


def _slice_type(value: SSAValue) -> TensorType:
    type = tensor_type(value)
    return TensorType(type.element_type, type.get_shape()[1:])
