"""
The dynamic scale of a loss whose gradients are computed in `f16`: a part of
`job-cast-amp`.

The smallest numbers of `f16` are far larger than many gradients. So gradients are those
of the loss times a factor, and are divided by it where they are used. The factor is as
large as it can be: it grows after some steps in a row whose gradients were finite, and
shrinks after one whose were not, by which no variable is updated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

from xdsl.dialects.builtin import StringAttr, TensorType, f32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.job import (
    AssignOp,
    GradientsOp,
    InitAttr,
    JobOp,
    UpdateOp,
    VariableOp,
    placement_of,
)
from penstock.dialects.job.training import rate_type
from penstock.dialects.op.op_builder import OpBuilder
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.analysis.op_devices import place_like

PASS, UPDATE = "pass", StringAttr("update")
"""The attribute that names the part of a training step of an op, and its value."""

SCALE, COUNT = TensorType(f32, []), TensorType(i64, [])
"""The types of the scale of a loss and of a number of steps."""

LARGEST, SMALLEST = 2.0**127, 2.0**-126
"""The largest scale to begin with, and the one that no scale shrinks below."""


@dataclass(frozen=True)
class ScaleRule:
    """The rule by which a scale changes: that of PyTorch's `GradScaler`."""

    initial: float
    """The scale to begin with."""
    growth: float
    """The factor after `interval` steps in a row with finite gradients."""
    backoff: float
    """The factor after a step with others."""
    interval: int
    """The number of those steps."""

    def findings(self) -> Iterator[str]:
        """The numbers that make no rule."""
        if not 0 < self.initial <= LARGEST:
            yield f"the loss scale should be above 0, up to 2^127, got {self.initial:g}"
        if not 1 < self.growth <= LARGEST:
            yield f"the growth should be above 1, up to 2^127, got {self.growth:g}"
        if not 0 < self.backoff < 1:
            yield f"the backoff should be between 0 and 1, got {self.backoff:g}"
        if self.interval < 1:
            yield f"the interval should be at least 1, got {self.interval}"

    def after(
        self, o: OpBuilder, scale: SSAValue, count: SSAValue, is_finite: SSAValue
    ) -> tuple[SSAValue, SSAValue]:
        """The scale and the number of good steps in a row after a step."""
        number = o.add(count, 1)
        grows = o.greater_equal(number, self.interval)
        grown = o.mul(scale, self.growth)
        grown = o.where(o.greater(float("inf"), grown), grown, scale)
        shrunk = o.maximum(o.mul(scale, self.backoff), SMALLEST)
        new = o.where(is_finite, o.where(grows, grown, scale), shrunk)
        return new, o.where(is_finite, o.where(grows, 0, number), 0)


class LossScaler:
    """The scaling of the losses of one job."""

    def __init__(self, job: JobOp, rule: ScaleRule):
        self._job, self._rule = job, rule
        self._block = job.body.block
        ops = list(self._block.ops)
        self._asked = [op for op in ops if isinstance(op, GradientsOp)]
        self._updates = [op for op in ops if isinstance(op, UpdateOp)]
        self._known = {op.port.data: op for op in ops if isinstance(op, VariableOp)}
        self._scaled = {value for op in self._asked for value in op.gradients}
        """The gradients that are those of a scaled loss."""

    def run(self) -> None:
        """Scale all losses, if variables are updated."""
        if not self._asked or not self._updates:
            return
        first = self._asked[0]
        count = self._variable(first, "good_steps", COUNT, 0)
        scale = self._variable(first, "loss_scale", SCALE, self._rule.initial)
        for op in self._asked:
            self._derive(op, scale)
        source = self._updates[0]
        o = OpBuilder(lambda op: self._put(op, source))
        flags = [self._is_finite(value) for value in self._gradients()]
        is_finite = reduce(o.both, flags)
        skip = o.one("op.logical_not", is_finite)
        for op in self._updates:
            self._update(op, scale, skip)
        news = self._rule.after(o, scale, count, is_finite)
        for old, new in zip((scale, count), news, strict=True):
            new.name_hint = f"{old.name_hint}_next"
            self._put(AssignOp(new, old), source)

    def _put(
        self, op: Operation, source: Operation, like: Operation | None = None
    ) -> None:
        """Put an op at the end of the job, that is made for another one."""
        op.location = source.location
        op.attributes[PASS] = UPDATE
        if like is not None:
            place_like(op, like)
        self._block.add_op(op)

    def _variable(
        self, before: Operation, name: str, type: TensorType, start: float
    ) -> SSAValue:
        """A variable of the job, put before an op unless it is there already."""
        whole = f"{self._job.sym_name.data}/{name}"
        if (known := self._known.get(whole)) is not None:
            if known.result.type != type:
                text = f"should be {type} for a scaled loss, got {known.result.type}"
                found = f"variable '{whole}' {text}"
                raise LocatedPassFailure([(known, found)])
            if known.result.name_hint is None:
                known.result.name_hint = name
            return known.result
        init = InitAttr("constant", {"value": start}) if start else InitAttr("zeros")
        made = VariableOp(whole, init, type)
        made.location = before.location
        made.attributes[PASS] = UPDATE
        made.result.name_hint = name
        first = self._block.first_op
        assert first is not None, "the job has ops"
        Rewriter.insert_op(made, InsertPoint.before(first))
        return made.result

    # Gradients

    def _derive(self, op: GradientsOp, scale: SSAValue) -> None:
        """
        Derive the product of a loss and the scale; readers of a gradient that are no
        updates get it without the scale.
        """

        def before(made: Operation) -> None:
            made.location = op.location
            Rewriter.insert_op(made, InsertPoint.before(op))

        o = OpBuilder(before)
        factor = o.cast(scale, tensor_type(op.loss).element_type)
        whole = factor if op.scale is None else o.mul(op.scale, factor)
        made = GradientsOp(op.loss, list(op.by), whole)
        made.attributes |= op.attributes
        before(made)
        after: Operation = op

        def behind(made: Operation) -> None:
            nonlocal after
            made.location = op.location
            Rewriter.insert_op(made, InsertPoint.after(after))
            after = made

        o = OpBuilder(behind)
        for old, new in zip(op.gradients, made.gradients, strict=True):
            new.name_hint = old.name_hint
            self._scaled.add(new)
            for use in list(old.uses):
                reader = use.operation
                if isinstance(reader, UpdateOp) and reader.gradient is old:
                    reader.operands[use.index] = new
            if not old.uses:
                continue
            plain = o.div(new, o.cast(scale, tensor_type(new).element_type))
            if (hint := old.name_hint) is not None:
                plain.name_hint = f"{hint}_unscaled"
            old.replace_all_uses_with(plain)
        Rewriter.erase_op(op)

    # Updates

    def _gradients(self) -> Sequence[tuple[SSAValue, UpdateOp]]:
        """The gradients that updates read, each once, with one of these."""
        found: dict[SSAValue, UpdateOp] = {}
        for op in self._updates:
            found.setdefault(op.gradient, op)
        return list(found.items())

    def _is_finite(self, gradient: tuple[SSAValue, UpdateOp]) -> SSAValue:
        """Whether a gradient is finite, found where its variable is."""
        value, op = gradient
        variable = op.target.owner
        assert isinstance(variable, Operation), "jobs have no arguments"
        o = OpBuilder(lambda made: self._put(made, op, variable))
        if placement_of(variable, self._job).single_device() is not None:
            return o.one("op.all_finite", value)
        # Each device counts those of its part, as numbers are added up over devices.
        shape = o.shape(value)
        counted = o.cast(o.greater(float("inf"), o.one("op.abs", value)), i64)
        return o.equal(o.sum(counted, range(len(shape))), prod(shape))

    def _update(self, op: UpdateOp, scale: SSAValue, skip: SSAValue) -> None:
        """Update a variable by an unscaled gradient, if all are finite."""
        o = OpBuilder(lambda made: self._put(made, op))
        divisor = op.scale
        if op.gradient in self._scaled:
            own = o.cast(scale, rate_type(op.target.type).element_type)
            divisor = own if op.scale is None else o.mul(op.scale, own)
        if op.skip is not None:
            skip = o.one("op.logical_or", op.skip, skip)
        made = UpdateOp(
            op.target, op.gradient, op.optimizer, rate=op.rate, scale=divisor, skip=skip
        )
        made.attributes |= op.attributes
        made.location = op.location
        self._block.add_op(made)
        Rewriter.erase_op(op)
