"""
Reverse-mode differentiation: replace `job.gradients` by the ops that compute them.

For each `job.gradients` of a job, in order, the ops that lead from the values derived
by (`by`) to the loss are visited from the last one to the first. Each says the
gradients of its operands by those of its results (`Differentiable.gradient`), unless
one of the `rules` of plug-ins does; those of a value that several ops read are added,
those of later readers first. Values that do
not depend on those derived by, or that the loss does not depend on, get no ops at all.
A gradient that is zero everywhere is not computed: only one that is asked for becomes a
constant.

New ops stand in place of the `job.gradients`. They have the attribute
`pass = "backward"`, the location and the `placement` of the op whose gradient they
compute, and the names of values with `_grad`. A sum of gradients is placed where its
value is made. The gradient by a variable on several devices lies as the variable does,
whole if that says nothing (`sbp`), as OneFlow casts gradients
([OF-51](sources.md#of-51)): else sums that are not added up yet would reach the update.

An op on the way that has to keep more for its gradient is replaced by one that does:
`op.attention` by one with the logarithms of the sums of its rows.

`op.stop_gradient` ends the way back, and is replaced by its operand at the end.

All ops without a gradient are reported at once, as are a loss that does not depend on a
value derived by, the ops that no gradient passes where it does by them alone, and
extents on the way that are not known.

Example: `test/lowering/job/job-add-gradients-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.job import GradientsOp, JobOp, VariableOp, placement_of
from penstock.dialects.op.backward import BackwardWalk, Path, keeping_more
from penstock.dialects.op.canonicalization import has_floats
from penstock.dialects.op.movement import ReshapeOp
from penstock.dialects.op.op_builder import OpBuilder
from penstock.dialects.op.sbp import BROADCAST, sbp_of
from penstock.dialects.op.training.gradient_rules import (
    OWN,
    GradientRule,
    gradient_rule,
)
from penstock.dialects.op.training.stop_gradient import StopGradientOp
from penstock.dialects.utils.attributes import replace_op
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.tensors import tensor_type
from penstock.dialects.utils.value_names import name_value
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.op_devices import place_like

PASS, BACKWARD = "pass", StringAttr("backward")
"""The attribute of ops of a part of a training step."""


class BackwardPass(BackwardWalk):
    """The ops of one `job.gradients`, put in front of it."""

    def __init__(
        self, job: JobOp, op: GradientsOp, path: Path, rules: Sequence[GradientRule]
    ):
        self._job = job
        self._op = op
        self._of: Operation = op
        """The op whose gradients are being made."""
        self._made: dict[Operation, None] = {}
        self._builder = OpBuilder(self._insert, rules)
        super().__init__(self._builder, path)

    def add(self) -> Sequence[SSAValue]:
        """
        Add all ops; the result has the gradients. Where ops are missing they are not
        complete.
        """
        op, loss = self._op, self._op.loss
        self.seed(loss, self._builder.scalar(1, loss) if op.scale is None else op.scale)
        self.go()
        return [self._gradient_by(value) for value in op.by]

    def drop_unused(self) -> None:
        """Erase the ops whose results are gradients of values that need none."""
        for op in reversed(self._made):
            if not any(result.uses for result in op.results):
                Rewriter.erase_op(op)

    def begin(self, op: Operation) -> None:
        self._of = op

    def added(self, value: SSAValue, total: SSAValue) -> None:
        if total.owner in self._made and total.name_hint is None:
            name_value(total, f"{value.name_hint or 'value'}_grad")

    def _insert(self, op: Operation) -> None:
        op.attributes[PASS] = BACKWARD
        op.location = self._of.location
        place_like(op, self._of)
        Rewriter.insert_op(op, InsertPoint.before(self._op))
        self._made[op] = None

    def _gradient_by(self, value: SSAValue) -> SSAValue:
        """The gradient by a value that was asked for, which lies as the value does."""
        self.begin(value.owner if isinstance(value.owner, Operation) else self._op)
        grad = self.gradient_of(value)
        if grad is None:
            grad = self._builder.zeros(value)
        owner = value.owner
        if not isinstance(owner, VariableOp) or (sbp := self._sbp_of(owner)) is None:
            return grad
        # An op of its own, whose layout is nobody else's.
        lying = ReshapeOp(grad, tensor_type(value).get_shape())
        self._insert(lying)
        lying.attributes["sbp"] = sbp
        lying.result.name_hint = grad.name_hint
        return lying.result

    def _sbp_of(self, variable: VariableOp) -> Attribute | None:
        """The layout of a variable on several devices; None on one."""
        placement = placement_of(variable, self._job)
        if placement.single_device() is not None:
            return None
        whole = sbp_of(*[BROADCAST] * len(placement.shape))
        return variable.attributes.get("sbp", whole)


def path_to(op: GradientsOp) -> Path:
    """The ops of a job between the values derived by and the loss."""
    return Path.between(ops_before(op), op.by, [op.loss])


def ops_before(op: GradientsOp) -> Sequence[Operation]:
    """The ops of a job before one."""
    block = op.parent
    assert block is not None, "it stands in a job"
    return [*takewhile(lambda other: other is not op, block.ops)]


def keep_more(path: Path) -> bool:
    """Let ops keep what their gradients are made of; whether one has to be told."""
    changed = False
    for op in path.ops:
        if (new := keeping_more(op)) is not None:
            replace_op(op, new, [*new.results][: len(op.results)])
            changed = True
    return changed


def unreached(op: GradientsOp, path: Path) -> Iterator[Finding]:
    """The values derived by that the loss does not depend on, or not by floats."""
    ended: dict[Operation, list[str]] = {}
    unrelated: list[str] = []
    for value in op.by:
        if value in path.reached:
            continue
        ends = ends_between(op, value)
        for end in ends:
            ended.setdefault(end, []).append(name_of(value))
        if not ends:
            unrelated.append(name_of(value))
    if len(unrelated) == len(op.by):
        yield op, "the loss depends on none of the values derived by"
        return
    for name in unrelated:
        yield op, f"the loss does not depend on {name}"
    for end, names in ended.items():
        yield (
            end,
            f"no gradient passes '{end.name}', through which the loss depends on "
            f"{', '.join(names)}",
        )


def ends_between(op: GradientsOp, value: SSAValue) -> Sequence[Operation]:
    """
    The ops between a value derived by and the loss that no gradient passes, as they
    stop it or make integers.
    """
    before = ops_before(op)
    leads: set[SSAValue] = {op.loss}
    for other in reversed(before):
        if not leads.isdisjoint(other.results):
            leads.update(other.operands)
    needs: set[SSAValue] = {value}
    found: list[Operation] = []
    for other in before:
        if needs.isdisjoint(other.operands):
            continue
        stops = isinstance(other, StopGradientOp)
        passed = {x for x in other.results if has_floats(x) and not stops}
        if not leads.isdisjoint({*other.results} - passed):
            found.append(other)
        needs.update(passed)
    return found


def name_of(value: SSAValue) -> str:
    """The name of a value in a diagnostic."""
    if isinstance(value.owner, VariableOp):
        return f"variable '{value.owner.port.data}'"
    return f"%{value.name_hint}" if value.name_hint else "a value derived by"


def add_gradients(job: JobOp, rules: Sequence[GradientRule]) -> Iterator[Finding]:
    """Replace each `job.gradients` of a job, and yield what has no gradient."""
    for op in [op for op in job.body.block.ops if isinstance(op, GradientsOp)]:
        path = path_to(op)
        found = [*unreached(op, path)]
        if keep_more(path):
            path = path_to(op)
        backward = BackwardPass(job, op, path, rules)
        gradients = backward.add()
        found += [
            (member, f"'{member.name}' has no gradient: {reason}")
            for member, reason in backward.missing
        ]
        yield from found
        if not found:
            replace_op(op, [], gradients)
            backward.drop_unused()


def drop_stops(job: JobOp) -> None:
    """Replace each `op.stop_gradient` of a job and of its loops by its operand."""
    for op in list(job.walk()):
        if isinstance(op, StopGradientOp):
            replace_op(op, [], [op.operand])


@dataclass(frozen=True)
class JobAddGradientsPass(ModulePass):
    """
    Replace `job.gradients` by the ops that compute them.
    """

    name = "job-add-gradients"

    rules: tuple[str, ...] = (OWN,)
    """
    Rules that are asked for the gradient of each op, in order: those of plug-ins, and
    `own`, what the op says itself, which is asked last in any case.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rules = [gradient_rule(name) for name in self.rules]
        jobs = list(outermost(op, JobOp))
        fail_if_any([finding for job in jobs for finding in add_gradients(job, rules)])
        for job in jobs:
            drop_stops(job)
