"""
Loops as copies of their bodies, one after the other: `op.loop` of at most `up-to`
iterations becomes the ops of all of them.

Iteration `i` reads the slices at place `i` of the tensors that the loop slices, which
are views, and the values that the iteration before it has made; values of which there
is one an iteration are stacked at the end. The number of an iteration is a constant.
The copies run where the loop did, and have its notes.

Of a loop `up to` a maximum all iterations of the maximum are copied. Each is computed
whether it is to be made or not, and its values are selected where it is
(`op.where`); that the maximum is enough is required (`op.require`). Loops up to a
maximum in such a body make no iterations where they are not to. Other ops that can
fail, such as a gather whose indices are checked, must not be computed in vain: the loop
stays, and says so: `no_unroll = "op.gather can fail"`.

A loop with more iterations, or with extents that are not known, stays as it is.

Example: `test/lowering/op/op-unroll-loops-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ModuleOp,
    StringAttr,
)
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from penstock.dialects.job import JobOp
from penstock.dialects.op.loop import LoopOp
from penstock.dialects.utils.pass_events import count
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.body_jobs import is_spread, runs_bodies
from penstock.lowering.op.loop_copies import (
    NO_UNROLL,
    Copies,
    MaskedCopies,
    failing_in,
    is_known,
)


def unroll_job(job: JobOp, up_to: int | None, device: str | None = None) -> None:
    """Unroll the loops of a job, those in bodies before the ones around them."""
    for loop in [op for op in job.walk(region_first=True) if isinstance(op, LoopOp)]:
        stays = runs_bodies(loop, job, device) or is_spread(loop, job)
        limit = up_to if stays else None
        if not is_known(loop) or (limit is not None and loop.count > limit):
            continue
        if (failing := failing_in(loop)) is not None:
            loop.attributes[NO_UNROLL] = StringAttr(f"{failing.name} can fail")
            continue
        count("loops")
        unroll(loop)


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
    copies.take_place([*state, *stacked, *copies.made()])


@dataclass(frozen=True)
class OpUnrollLoopsPass(ModulePass):
    """
    Replace loops by copies of their bodies, one after the other.
    """

    name = "op-unroll-loops"

    up_to: int | None = None
    """
    The most iterations of a loop that is unrolled, if it runs in another way, too;
    without it, any number.
    """

    device: str | None = None
    """The kind of device that `job-place` will move jobs to, if it will."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for job in outermost(op, JobOp):
            unroll_job(job, self.up_to, self.device)
