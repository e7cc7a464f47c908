"""
Loops as copies of their bodies, one after the other: `op.loop` of at most `up-to`
iterations becomes the ops of all of them.

Iteration `i` reads the slices at place `i` of the tensors that the loop slices, which
are views, and the values that the iteration before it has made; values of which there
is one an iteration are stacked at the end. The number of an iteration is a constant.
The copies run where the loop did, and have its notes.

A loop with more iterations, or with extents that are not known, stays as it is.

Example: `test/lowering/op/op-unroll-loops-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.job import JobOp
from penstock.dialects.op.body import clone_body
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.loop import INDEX, LoopOp
from penstock.dialects.op.movement import ReshapeOp
from penstock.dialects.op.slicing import ConcatOp, SliceOp
from penstock.dialects.utils.attributes import carry
from penstock.dialects.utils.numpy_types import Elements, dense_of, dtype_of
from penstock.dialects.utils.pass_events import count
from penstock.dialects.utils.tensors import tensor_type
from penstock.dialects.utils.walk import outermost


def unroll_job(job: JobOp, up_to: int | None) -> None:
    """Unroll the loops of a job, those in bodies before the ones around them."""
    for loop in [op for op in job.walk(region_first=True) if isinstance(op, LoopOp)]:
        if is_known(loop) and (up_to is None or loop.count <= up_to):
            count("loops")
            unroll(loop)


def is_known(loop: LoopOp) -> bool:
    """Whether all that is sliced or stacked has a static shape."""
    return all(
        tensor_type(value).has_static_shape() for value in (*loop.slices, *loop.outs)
    )


def unroll(loop: LoopOp) -> None:
    """Replace a loop by copies of its body."""
    copies, state = Copies(loop), [*loop.carries]
    rows: dict[int, Sequence[SSAValue]] = {}
    for number in loop.order:
        made = copies.of_iteration(number, state)
        state, rows[number] = made[: len(state)], made[len(state) :]
    stacked = [
        copies.stacked([rows[number][column] for number in sorted(rows)], value)
        for column, value in enumerate(loop.outs[len(state) :])
    ]
    for old, new in zip(loop.outs, [*state, *stacked], strict=True):
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

    def of_iteration(
        self, number: int, state: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        """Copy the body for one iteration; the values that it yields."""
        loop, block = self.loop, self.loop.body.block
        index, *others = block.args
        slices = [self._slice(value, number) for value in loop.slices]
        given = [*state, *slices, *loop.reads]
        known: dict[SSAValue, SSAValue] = dict(zip(others, given, strict=True))
        if index.uses:
            numbers = DenseIntOrFPElementsAttr.from_list(INDEX, [number])
            known[index] = self._add(ConstantOp(numbers))
        made: list[Operation] = []
        yielded = clone_body(block, known, made)
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

    def _add(self, op: Operation) -> SSAValue:
        """Let an op run where the loop does; its first result."""
        if "placement" in self.loop.attributes:
            op.attributes.setdefault("placement", self.loop.attributes["placement"])
        carry(self.loop, op)
        self.ops.append(op)
        return op.results[0]


def nothing(type: TensorType) -> Elements:
    """The elements of a tensor that has none."""
    import numpy as np

    return dense_of(np.empty(type.get_shape(), dtype_of(type.element_type)))


@dataclass(frozen=True)
class OpUnrollLoopsPass(ModulePass):
    """
    Replace loops by copies of their bodies, one after the other.
    """

    name = "op-unroll-loops"

    up_to: int | None = None
    """The most iterations of a loop that is unrolled; without it, any number."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for job in outermost(op, JobOp):
            unroll_job(job, self.up_to)
