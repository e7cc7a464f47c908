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
value derived by, and extents on the way that are not known.

Example: `test/lowering/job/job-add-gradients-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.job import GradientsOp, JobOp, VariableOp, placement_of
from penstock.dialects.op.canonicalization import has_floats
from penstock.dialects.op.movement import ReshapeOp
from penstock.dialects.op.op_builder import OpBuilder
from penstock.dialects.op.sbp import BROADCAST, sbp_of
from penstock.dialects.op.training.gradient_rules import (
    OWN,
    GradientRule,
    check_extents,
    check_own,
    gradient_rule,
)
from penstock.dialects.op.training.stop_gradient import StopGradientOp
from penstock.dialects.utils.attributes import replace_op
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.gradients import Differentiable, NoGradient
from penstock.dialects.utils.tensors import tensor_type
from penstock.dialects.utils.value_names import name_value
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.op_devices import place_like

PASS, BACKWARD = "pass", StringAttr("backward")
"""The attribute of ops of a part of a training step."""


class BackwardPass:
    """The ops of one `job.gradients`, put in front of it."""

    def __init__(self, job: JobOp, op: GradientsOp, rules: Sequence[GradientRule]):
        self._job = job
        self._op = op
        self._rules = rules
        self._of: Operation = op
        """The op whose gradients are being made."""
        self._made: dict[Operation, None] = {}
        self._terms: dict[SSAValue, list[SSAValue]] = {}
        self._sums: dict[SSAValue, SSAValue] = {}
        self._missing: set[SSAValue] = set()
        """The values whose gradients are not there as an op before has none."""
        self._builder = OpBuilder(self._insert, rules)
        self.findings: list[Finding] = []

    def add(self) -> Sequence[SSAValue]:
        """
        Add all ops; the result has the gradients. Where there are findings they are
        not complete.
        """
        path = self._path()
        if not self.findings and self._keep_more(path):
            path = self._path()
        op, o = self._op, self._builder
        loss = op.loss
        self._terms[loss] = [o.scalar(1, loss) if op.scale is None else op.scale]
        for member in reversed(path):
            self._add_gradients_of(member)
        return [self._gradient_by(value) for value in op.by]

    def drop_unused(self) -> None:
        """Erase the ops whose results are gradients of values that need none."""
        for op in reversed(self._made):
            if not any(result.uses for result in op.results):
                Rewriter.erase_op(op)

    def _insert(self, op: Operation) -> None:
        op.attributes[PASS] = BACKWARD
        op.location = self._of.location
        place_like(op, self._of)
        Rewriter.insert_op(op, InsertPoint.before(self._op))
        self._made[op] = None

    def _path(self) -> list[Operation]:
        """The ops between the values derived by and the loss, in order."""
        block = self._op.parent
        assert block is not None, "it stands in a job"
        needs = set(self._op.by)
        ahead: list[Operation] = []
        for op in block.ops:
            if op is self._op:
                break
            if isinstance(op, StopGradientOp) or needs.isdisjoint(op.operands):
                continue
            ahead.append(op)
            needs.update(result for result in op.results if has_floats(result))
        self._needs = needs
        self._check_reached(needs)
        back = {self._op.loss}
        path: list[Operation] = []
        for op in reversed(ahead):
            if not back.isdisjoint(op.results):
                path.append(op)
                back.update(value for value in op.operands if value in needs)
        self._check_by(back)
        return path[::-1]

    @staticmethod
    def _keep_more(path: Sequence[Operation]) -> bool:
        """Let ops keep what their gradients are made of; whether one has to be told."""
        changed = False
        for op in path:
            if not isinstance(op, Differentiable) or (new := op.with_kept()) is None:
                continue
            new.attributes |= op.attributes
            new.location = op.location
            hints = [result.name_hint for result in op.results]
            replace_op(op, new, [*new.results][: len(hints)])
            for result, hint in zip(new.results, hints, strict=False):
                result.name_hint = hint
            changed = True
        return changed

    def _check_reached(self, needs: set[SSAValue]) -> None:
        if self._op.loss not in needs:
            self.findings.append(
                (self._op, "the loss depends on none of the values derived by")
            )

    def _check_by(self, back: set[SSAValue]) -> None:
        """Report each value that is derived by and that the loss does not depend on."""
        if self.findings:
            return
        for value in self._op.by:
            if value not in back:
                name = name_of(value)
                self.findings.append((self._op, f"the loss does not depend on {name}"))

    def _add_gradients_of(self, op: Operation) -> None:
        """Add the gradients of the operands of an op, or report why there are none."""
        self._of = op
        grads = [self._gradient_of(result) for result in op.results]
        is_missing = not self._missing.isdisjoint(op.results)
        if not is_missing and all(grad is None for grad in grads):
            return
        try:
            if is_missing:
                # It is only to be found out that nothing else is wrong; rules are not
                # asked for gradients by those that are not there.
                check_extents(op)
                if not self._rules:
                    check_own(op)
                self._missing.update(op.operands)
                return
            found = self._builder.gradient_of(op, grads)
        except NoGradient as error:
            self.findings.append((op, f"'{op.name}' has no gradient: {error}"))
            self._missing.update(op.operands)
            return
        for operand, grad in zip(op.operands, found, strict=True):
            if grad is not None and operand in self._needs:
                self._check_type(op, operand, grad)
                self._terms.setdefault(operand, []).append(grad)

    @staticmethod
    def _check_type(op: Operation, operand: SSAValue, grad: SSAValue) -> None:
        if grad.type != operand.type:
            raise TypeError(
                f"the gradient of '{op.name}' by a {operand.type} is a {grad.type}"
            )

    def _gradient_of(self, value: SSAValue) -> SSAValue | None:
        """The sum of all gradients that reach a value; None if it is zero."""
        if value in self._sums:
            return self._sums[value]
        terms = self._terms.get(value)
        if not terms:
            return None
        total = terms[0]
        for term in terms[1:]:
            total = self._builder.add(total, term)
        if total.owner in self._made and total.name_hint is None:
            name_value(total, f"{value.name_hint or 'value'}_grad")
        self._sums[value] = total
        return total

    def _gradient_by(self, value: SSAValue) -> SSAValue:
        """The gradient by a value that was asked for, which lies as the value does."""
        self._of = value.owner if isinstance(value.owner, Operation) else self._op
        grad = self._gradient_of(value)
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


def name_of(value: SSAValue) -> str:
    """The name of a value in a diagnostic."""
    if isinstance(value.owner, VariableOp):
        return f"variable '{value.owner.port.data}'"
    return f"%{value.name_hint}" if value.name_hint else "a value derived by"


def add_gradients(job: JobOp, rules: Sequence[GradientRule]) -> Iterator[Finding]:
    """Replace each `job.gradients` of a job, and yield what has no gradient."""
    for op in [op for op in job.body.block.ops if isinstance(op, GradientsOp)]:
        backward = BackwardPass(job, op, rules)
        gradients = backward.add()
        if backward.findings:
            yield from backward.findings
        else:
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
