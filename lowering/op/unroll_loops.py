"""
Loops as copies of their bodies, one after the other: `op.loop` of at most `up-to`
iterations becomes the ops of all of them.

Iteration `i` reads the slices at place `i` of the tensors that the loop slices, which
are views, and the values that the iteration before it has made; values of which there
is one an iteration are stacked at the end. The number of an iteration is a constant.
The copies run where the loop did, and have its notes.

Of a loop `up to` a maximum all iterations of the maximum are copied. Each is computed
whether it is to be made or not, and its values are selected where it is
(`op.where`); that the maximum is enough is required (`op.require`). Other ops that can
fail, such as a gather whose indices are checked, must not be computed in vain: the loop
stays, and says so: `no_unroll = "op.gather can fail"`.

A loop with more iterations that runs on one CPU or GPU, or with extents that are not
known, stays as it is. On several devices loops do not run in any other way, nor on a
GPU if slices of them do not start at multiples of 16 bytes.

Example: `test/lowering/op/op-unroll-loops-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.job import JobOp
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
from penstock.dialects.op.requirement import RequireOp, spare
from penstock.dialects.op.slicing import ConcatOp, SliceOp
from penstock.dialects.op.tensor_op import can_fail
from penstock.dialects.utils.attributes import carry
from penstock.dialects.utils.numpy_types import Elements, dense_of, dtype_of
from penstock.dialects.utils.pass_events import count
from penstock.dialects.utils.tensors import tensor_type
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.body_jobs import runs_bodies

NO_UNROLL = "no_unroll"
"""The reason why a loop stays: an attribute of it."""


def unroll_job(job: JobOp, up_to: int | None, device: str | None = None) -> None:
    """Unroll the loops of a job, those in bodies before the ones around them."""
    for loop in [op for op in job.walk(region_first=True) if isinstance(op, LoopOp)]:
        limit = up_to if runs_bodies(loop, job, device) else None
        if not is_known(loop) or (limit is not None and loop.count > limit):
            continue
        if (failing := failing_in(loop)) is not None:
            loop.attributes[NO_UNROLL] = StringAttr(f"{failing.name} can fail")
            continue
        count("loops")
        unroll(loop)


def failing_in(loop: LoopOp) -> Operation | None:
    """An op that may fail in an iteration that is not to be made, if there is one."""
    if not loop.is_bounded:
        return None
    failing = (x for x in loop.members if can_fail(x) and not isinstance(x, RequireOp))
    return next(failing, None)


def is_known(loop: LoopOp) -> bool:
    """Whether all that is sliced or stacked has a static shape."""
    return all(
        tensor_type(value).has_static_shape() for value in (*loop.slices, *loop.outs)
    )


def unroll(loop: LoopOp) -> None:
    """Replace a loop by copies of its body."""
    copies = MaskedCopies(loop) if loop.is_bounded else Copies(loop)
    state = list(loop.carried)
    rows: dict[int, Sequence[SSAValue]] = {}
    for number in loop.order:
        state, rows[number] = copies.after_iteration(number, state)
    stacked = [
        copies.stacked([rows[number][column] for number in sorted(rows)], value)
        for column, value in enumerate(loop.stacks)
    ]
    news = [*state, *stacked, *copies.made()]
    for old, new in zip(loop.outs, news, strict=True):
        old.replace_all_uses_with(new)
        if old.name_hint and new.owner in copies.ops:
            new.name_hint = old.name_hint
    Rewriter.insert_op(copies.ops, InsertPoint.before(loop))
    loop.detach()
    loop.erase()


@dataclass
class Copies:
    """The ops that take the place of a loop."""

    loop: LoopOp
    ops: list[Operation] = field(default_factory=list[Operation])

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
        given = [*state, *slices, *loop.reads]
        known: dict[SSAValue, SSAValue] = dict(zip(others, given, strict=True))
        if index.uses:
            known[index] = self._number(number)
        made: list[Operation] = []
        yielded = clone_body(block, known, made)
        if running is not None:
            made = [each for op in made for each in spare(op, running)]
        for op in made:
            self._add(op)
        return yielded

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
        value = DenseIntOrFPElementsAttr.from_list(INDEX, [number])
        return self._add(ConstantOp(value))

    def _add(self, op: Operation) -> SSAValue:
        """Let an op run where the loop does; its first result."""
        if "placement" in self.loop.attributes:
            op.attributes.setdefault("placement", self.loop.attributes["placement"])
        carry(self.loop, op)
        self.ops.append(op)
        return op.results[0]


class MaskedCopies(Copies):
    """Those of a loop of which only a maximum of iterations is known."""

    def __init__(self, loop: LoopOp):
        super().__init__(loop)
        self._running: list[SSAValue] = []
        self._trips = loop.trips and self._checked(loop.trips)
        self._last = loop.order[-1] if loop.trips is None else None
        """The number of the iteration after which the condition must not hold."""

    def after_iteration(
        self, number: int, state: Sequence[SSAValue]
    ) -> tuple[list[SSAValue], Sequence[SSAValue]]:
        running = self._is_running(number, state)
        yielded = self.of_iteration(number, state, running)
        if number == self._last:
            running = self._ended(running, yielded[0])
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
        lowest, highest = self._number(0), self._number(self.loop.count)
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

    def _ended(self, running: SSAValue, again: SSAValue) -> SSAValue:
        """Whether the last iteration is made, after which none may follow."""
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


@dataclass(frozen=True)
class OpUnrollLoopsPass(ModulePass):
    """
    Replace loops by copies of their bodies, one after the other.
    """

    name = "op-unroll-loops"

    up_to: int | None = None
    """
    The most iterations of a loop that is unrolled, if it runs on one CPU or GPU;
    without it, any number.
    """

    device: str | None = None
    """The kind of device that `job-place` will move jobs to, if it will."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for job in outermost(op, JobOp):
            unroll_job(job, self.up_to, self.device)
