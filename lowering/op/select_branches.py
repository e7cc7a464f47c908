"""
Conditions as selections: `op.if` becomes the ops of both of its bodies, and an
`op.where` for each result. Where the condition is a constant, one body is enough.

Ops compute what they are given whether it is used or not, so that nothing waits for the
condition; they must not fail. A body with an op that can, such as a gather whose
indices are checked, stays, and says so: `no_select = "op.gather can fail"`. Where the
body does not run, nothing is required (`op.require`), and a loop up to a maximum makes
no iterations. Conditions in bodies are replaced first.

Example: `test/lowering/op/op-select-branches-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.job import JobOp
from penstock.dialects.op.body import clone_body
from penstock.dialects.op.comparison import LogicalNotOp, WhereOp
from penstock.dialects.op.condition import IfOp
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.loop import LoopOp
from penstock.dialects.op.tensor_op import TensorOp, can_fail
from penstock.dialects.utils.attributes import ask_for_slots, carry
from penstock.dialects.utils.pass_events import count
from penstock.dialects.utils.tensors import tensor_type
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.body_jobs import runs_bodies
from penstock.lowering.op.unwanted import can_be_spared, spare

NO_SELECT = "no_select"
"""The reason why a condition stays: an attribute of it."""


def select_in(job: JobOp, up_to: int | None, device: str | None = None) -> None:
    """Replace the conditions of a job, and say where that is not done."""
    for op in [op for op in job.walk(region_first=True) if isinstance(op, IfOp)]:
        bodies = bodies_of(op)
        limit = up_to if runs_bodies(op, job, device) else None
        if len(bodies) > 1 and limit is not None and work_of(bodies) > limit:
            continue
        failing = [
            x
            for body in bodies
            for x in body.ops
            if can_fail(x) and not can_be_spared(x)
        ]
        if len(bodies) > 1 and failing:
            op.attributes[NO_SELECT] = StringAttr(f"{failing[0].name} can fail")
            continue
        count("conditions")
        select(op, bodies)


def work_of(bodies: Sequence[Block]) -> int:
    """
    The scalar operations of bodies, of which each element that is made is one, also in
    each iteration of a loop.
    """
    ops = [op for body in bodies for op in body.ops if isinstance(op, TensorOp)]
    made = (tensor_type(value) for op in ops for value in op.results)
    sizes = (prod(type.get_shape()) for type in made if type.has_static_shape())
    return sum(map(_work_inside, ops)) + sum(sizes)


def _work_inside(op: TensorOp) -> int:
    """The scalar operations of an op, without the elements of its results."""
    match op:
        case LoopOp():
            return op.count * work_of([op.body.block])
        case IfOp():
            return work_of([op.then.block, op.otherwise.block])
        case _:
            return op.flops()


def bodies_of(op: IfOp) -> Sequence[Block]:
    """The bodies that may run: one where the condition is known."""
    if isinstance(constant := op.condition.owner, ConstantOp):
        assert constant.splat is not None, "it has one element"
        return [(op.then if constant.splat else op.otherwise).block]
    return [op.then.block, op.otherwise.block]


def select(op: IfOp, bodies: Sequence[Block]) -> None:
    """Replace a condition by the ops of bodies, and selections of what they yield."""
    made: list[Operation] = []
    yielded: list[Sequence[SSAValue]] = []
    for number, block in enumerate(bodies):
        ops: list[Operation] = []
        known: dict[SSAValue, SSAValue] = dict(zip(block.args, op.reads, strict=True))
        yielded.append(clone_body(block, known, ops))
        made += ops if len(bodies) == 1 else spared(ops, op.condition, number)
    own = set(made)
    columns = list(zip(*yielded, strict=True))
    for old, values in zip(op.outs, columns, strict=True):
        new = values[0]
        if len(values) > 1:
            where = WhereOp.of(op.condition, *values)
            made.append(where)
            own.add(where)
            new = where.results[0]
            new.name_hint = old.name_hint
        if isinstance(new.owner, Operation) and new.owner in own:
            ask_for_slots(op, new.owner)
        old.replace_all_uses_with(new)
    for new in made:
        if "placement" in op.attributes:
            new.attributes.setdefault("placement", op.attributes["placement"])
        carry(op, new)
    Rewriter.insert_op(made, InsertPoint.before(op))
    op.detach()
    op.erase()


def spared(
    ops: Sequence[Operation], condition: SSAValue, number: int
) -> Sequence[Operation]:
    """The ops of a body, which require nothing unless the condition chooses it."""
    if not any(map(can_fail, ops)):
        return ops
    before: list[Operation] = []
    chosen = condition
    if number:
        before.append(LogicalNotOp.of(condition))
        chosen = before[0].results[0]
    return [*before, *(each for op in ops for each in spare(op, chosen))]


@dataclass(frozen=True)
class OpSelectBranchesPass(ModulePass):
    """
    Compute both bodies of conditions, and select.
    """

    name = "op-select-branches"

    up_to: int | None = None
    """The most scalar operations of both bodies together, of which each element that is
    made is one, if they run on one CPU or GPU; without it, any number."""

    device: str | None = None
    """The kind of device that `job-place` will move jobs to, if it will."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for job in outermost(op, JobOp):
            select_in(job, self.up_to, self.device)
