"""
Loops over several devices as ops that act as often as there are iterations.

A loop of n iterations that is placed on several devices, or whose ops are placed on
others than it is, becomes the ops of its body, once, which act n times in a launch:

* the tensors that it slices are unpacked (`op.unpack`), and the values that it reads
  repeated (`op.repeat`);
* a value that it carries is the first one in the first iteration, and then what the
  iteration before has made: it goes from act to act by a `job.state`, which lies where
  the value is made, as far as an op of the body says where that is;
* carried results are the last values of all acts (`op.last`), and stacked results are
  packed (`op.pack`).

Ops of the body lie as they say, or as the loop does. All that is done to a job at
several rates is done to it: `job-infer-sbp` chooses how its values lie, and each of its
tasks is an actor. The devices do not decide how often they act, so they cannot
disagree.

All iterations of a loop `up to` a maximum are made: a count or a condition becomes one
`i1` an iteration, which goes to all devices that need it, and says which values are
kept (`op.where`). That the maximum is enough is required (`op.require`). As in
op-unroll-loops, other ops that can fail must not be computed in vain: the loop stays,
and says so: `no_unroll = "op.gather can fail"`.

Loops in bodies follow once these are ops of the job. A loop on one device stays as it
is.

Example: `test/lowering/op/op-spread-loops-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from penstock.dialects.job import AssignOp, JobOp, StateOp, is_there_always
from penstock.dialects.op.body import yield_of
from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.comparison import (
    EqualOp,
    LogicalAndOp,
    LogicalNotOp,
    WhereOp,
)
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.elementwise import AddOp
from penstock.dialects.op.loop import LoopOp
from penstock.dialects.op.movement import ExpandOp, ReshapeOp
from penstock.dialects.op.multirate import LastOp, PackOp, RepeatOp, UnpackOp
from penstock.dialects.op.requirement import RequireOp
from penstock.dialects.op.slicing import SliceOp
from penstock.dialects.utils.pass_events import count
from penstock.dialects.utils.tensors import tensor_type
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.body_jobs import is_spread
from penstock.lowering.op.loop_copies import (
    NO_UNROLL,
    Copies,
    MaskedCopies,
    failing_in,
    is_known,
)

PLACEMENT = "placement"

LOOP = "op.loop"
"""
The attribute of the numbers of iterations: which loop of the job they are of. Those of
two loops, which may act at different rates, are not the same.
"""


class Spread(Copies):
    """The ops of a loop that act once in each iteration."""

    def __init__(self, loop: LoopOp, number: int) -> None:
        super().__init__(loop)
        self._repeated: dict[tuple[SSAValue, Attribute | None], SSAValue] = {}
        self._source: dict[SSAValue, SSAValue] = {}
        """The values that repeated ones are of."""
        self._loop_number = number
        self._states: list[SSAValue] = []

    def replace(self) -> None:
        """Let the ops take the place of the loop."""
        loop = self.loop
        ends = yield_of(loop.body.block).values
        places = [placement_of_maker(value) for value in ends]
        firsts = zip(loop.carried, places, strict=False)
        state = [self._carried(value, place) for value, place in firsts]
        # All iterations are one.
        after, rows = self.after_iteration(loop.order[0], state)
        last = [*map(self._carried_on, after, self._states)]
        pairs = zip(rows, loop.stacks, strict=True)
        stacks = [self.stacked([row], result) for row, result in pairs]
        self.take_place([*last, *stacks, *self.made()])

    def _add_member(self, op: Operation) -> None:
        # It reads values that are repeated where it is, so that one piece goes there.
        place = op.attributes.get(PLACEMENT)
        if place is not None and place != self.loop.attributes.get(PLACEMENT):
            for index, value in enumerate(op.operands):
                if (source := self._source.get(value)) is not None:
                    op.operands[index] = self._repeat(source, place)
        super()._add_member(op)

    def _carried(self, first: SSAValue, place: Attribute | None) -> SSAValue:
        """A value that is carried, before each iteration."""
        state = StateOp(tensor_type(first))
        state.result.name_hint = first.name_hint
        self._states.append(self._add_on(state, place))
        given = self._repeat(first, place)
        chosen = WhereOp.of(self._is_first, given, self._states[-1])
        return self._add_on(chosen, place)

    def _carried_on(self, after: SSAValue, state: SSAValue) -> SSAValue:
        """Take a value to the next iteration; the last one of all iterations."""
        place = placement_of_maker(state)
        self._put(AssignOp(after, state), place)
        if is_there_always(after):
            return after
        return self._add_on(LastOp.of(after, count=self.loop.count), place)

    def _reads(self) -> Sequence[SSAValue]:
        place = self.loop.attributes.get(PLACEMENT)
        return [self._repeat(value, place) for value in self.loop.reads]

    def _repeat(self, value: SSAValue, place: Attribute | None) -> SSAValue:
        """A value of the launch in each iteration; variables are there as they are."""
        if is_there_always(value):
            return value
        if (known := self._repeated.get((value, place))) is None:
            known = self._add_on(RepeatOp.of(value, count=self.loop.count), place)
            self._repeated[value, place] = known
            self._source[known] = value
        return known

    @cached_property
    def _is_first(self) -> SSAValue:
        """Whether an iteration is the first one."""
        first = self._constant(self.loop.order[0])
        return self._add(EqualOp.of(self._index, first))

    @cached_property
    def _index(self) -> SSAValue:
        """The number of each iteration."""
        numbers = [*self.loop.order]
        type = TensorType(i64, [len(numbers)])
        all_of_them = DenseIntOrFPElementsAttr.from_list(type, numbers)
        before = len(self.ops)
        value = self._unpacked(self._add(ConstantOp(all_of_them)))
        for op in self.ops[before:]:
            if isinstance(op, UnpackOp):
                op.attributes[LOOP] = IntegerAttr(self._loop_number, i64)
        return value

    def _number(self, number: int) -> SSAValue:
        return self._index

    def _slice(self, value: SSAValue, number: int) -> SSAValue:
        return self._unpacked(self._in_order(value))

    def _unpacked(self, value: SSAValue) -> SSAValue:
        part = self._add(UnpackOp.of(value, count=self.loop.count))
        return self._add(ReshapeOp(part, tensor_type(value).get_shape()[1:]))

    def _in_order(self, value: SSAValue) -> SSAValue:
        """A tensor of slices, the other way round if the loop goes so."""
        if self.loop.backward is None:
            return value
        count, *shape = tensor_type(value).get_shape()
        starts, ends = [-1, *[0] * len(shape)], [-count - 1, *shape]
        return self._add(SliceOp(value, starts, ends, [-1, *[1] * len(shape)]))

    def stacked(self, rows: Sequence[SSAValue], result: SSAValue) -> SSAValue:
        (row,) = rows
        if is_there_always(row):
            return self._add(ExpandOp.of(row, shape=tensor_type(result).get_shape()))
        part = self._add(ReshapeOp(row, [1, *tensor_type(row).get_shape()]))
        return self._in_order(self._add(PackOp.of(part, count=self.loop.count)))

    def _add_on(self, op: Operation, place: Attribute | None) -> SSAValue:
        """Let an op run on a placement, if there is one; its result."""
        self._put(op, place)
        return op.results[0]

    def _put(self, op: Operation, place: Attribute | None) -> None:
        if place is not None:
            op.attributes[PLACEMENT] = place
        self._note(op)


class MaskedSpread(Spread, MaskedCopies):
    """Those of a loop of which only a maximum of iterations is known."""

    def __init__(self, loop: LoopOp, number: int) -> None:
        super().__init__(loop, number)
        if self._trips is not None:
            self._trips = self._repeat(self._trips, loop.attributes.get(PLACEMENT))

    def _checked_end(self, number: int, running: SSAValue, again: SSAValue) -> SSAValue:
        last = self._constant(self.loop.order[-1])
        is_last = self._add(EqualOp.of(self._index, last))
        follows = self._add(LogicalAndOp.of(running, again))
        too_long = self._add(LogicalAndOp.of(follows, is_last))
        ends = self._add(LogicalNotOp.of(too_long))
        return self._add(RequireOp.of(ends, running, message=self.loop.too_long))

    def made(self) -> Sequence[SSAValue]:
        if self.loop.made is None:
            return ()
        (running,) = self._running
        total = self._carried(self._constant(0), None)
        after = self._add(AddOp.of(total, self._add(CastOp(running, i64))))
        return [self._carried_on(after, self._states[-1])]


def placement_of_maker(value: SSAValue) -> Attribute | None:
    """Where an op that makes a value says that it runs."""
    owner = value.owner
    return owner.attributes.get(PLACEMENT) if isinstance(owner, Operation) else None


def spread_loops(job: JobOp) -> None:
    """Spread the loops of a job, and then those of their bodies."""
    stays: set[Operation] = set()
    number = 0
    while loops := [
        op
        for op in job.body.block.ops
        if isinstance(op, LoopOp) and op not in stays and is_spread(op, job)
    ]:
        for loop in loops:
            failing = failing_in(loop)
            if failing is not None:
                loop.attributes[NO_UNROLL] = StringAttr(f"{failing.name} can fail")
            if failing is not None or not is_known(loop) or loop.count == 0:
                stays.add(loop)
                continue
            count("loops")
            kind = MaskedSpread if loop.is_bounded else Spread
            kind(loop, number).replace()
            number += 1


@dataclass(frozen=True)
class OpSpreadLoopsPass(ModulePass):
    """
    Replace loops over several devices by ops that act once an iteration.
    """

    name = "op-spread-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for job in outermost(op, JobOp):
            spread_loops(job)
