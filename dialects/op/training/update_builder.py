"""`UpdateBuilder`: makes the ops that update one variable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import AnyFloat, f32, f64
from xdsl.ir import Block, Operation, Region, SSAValue

from penstock.dialects.op.body import YieldOp
from penstock.dialects.op.fused import FusedOp
from penstock.dialects.op.op_builder import OpBuilder
from penstock.dialects.utils.half_precision import is_half

Values: TypeAlias = Sequence[SSAValue]


class UpdateBuilder(OpBuilder):
    """
    The functions of the op dialect for the update of one variable: its gradient is
    scaled and cut where it is read, and where a condition holds nothing changes.
    """

    def __init__(
        self,
        insert: Callable[[Operation], object],
        gradient: SSAValue,
        *,
        factor: SSAValue | None = None,
        limit: float = 0.0,
        skip: SSAValue | None = None,
    ):
        super().__init__(insert)
        self._gradient = gradient
        self._factor = factor
        """The scalar that the gradient is multiplied by before all else."""
        self._limit = limit
        """The largest magnitude of its elements then; 0 for any."""
        self._skip = skip

    def group(
        self,
        rule: Callable[[OpBuilder, Values], Values],
        operands: Values,
        old: Sequence[SSAValue] | None = None,
    ) -> Values:
        """
        The results of a rule as one group of ops on elements. Floats of 16 bits are
        computed in f32. Its first results are new values of tensors, which stay as they
        are where the update is skipped: of `old`, or else of the first operand and of
        those behind the gradient. These have the type of the old ones.
        """
        olds = _replaced(operands, self._gradient) if old is None else old
        extra = [x for x in (self._factor, self._skip) if x is not None]
        ins = list(dict.fromkeys((*operands, *olds, *extra)))
        block = Block(arg_types=[value.type for value in ins])
        for arg, value in zip(block.args, ins, strict=True):
            arg.name_hint = value.name_hint
        o = OpBuilder(block.add_op)
        given = dict(zip(ins, block.args, strict=True))
        wide = {value: widened(o, arg) for value, arg in given.items()}
        if self._gradient in wide:
            wide[self._gradient] = self._true(o, wide[self._gradient], wide)
        found = list(rule(o, [wide[value] for value in operands]))
        for index, value in enumerate(olds[: len(found)]):
            found[index] = self._kept(o, given, value, found[index])
        block.add_op(YieldOp(*found))
        made = FusedOp(ins, Region(block))
        self._insert(made)
        return made.outs

    def norm(self, value: SSAValue) -> SSAValue:
        """The Euclidean norm of a tensor, an f64 scalar."""
        wide = widened(self, value)
        if value is self._gradient:
            factor = {} if self._factor is None else {self._factor: self._factor}
            wide = self._true(self, wide, factor)
        return self.sqrt(sum_of_squares(self, wide))

    def _true(
        self, o: OpBuilder, gradient: SSAValue, wide: dict[SSAValue, SSAValue]
    ) -> SSAValue:
        """The gradient, scaled and cut."""
        if self._factor is not None:
            gradient = o.mul(gradient, wide[self._factor])
        if self._limit:
            gradient = o.minimum(o.maximum(gradient, -self._limit), self._limit)
        return gradient

    def _kept(
        self,
        o: OpBuilder,
        given: Mapping[SSAValue, SSAValue],
        value: SSAValue,
        new: SSAValue,
    ) -> SSAValue:
        """A new value, or the old one where the update is skipped."""
        if o.element(new) != o.element(value):
            new = o.cast(new, o.element(value))
        if self._skip is None:
            return new
        return o.where(given[self._skip], given[value], new)


def _replaced(operands: Values, gradient: SSAValue) -> Values:
    """The operands of a rule that it makes new values of, in their order."""
    return [value for value in operands if value is not gradient]


def widened(o: OpBuilder, value: SSAValue) -> SSAValue:
    """A float of 16 bits as f32; any other value as it is."""
    return o.cast(value, f32) if is_half(o.element(value)) else value


def sum_of_squares(o: OpBuilder, value: SSAValue) -> SSAValue:
    """The sum of the squares of all elements, an f64 scalar."""
    axes = range(len(o.shape(value)))
    squares = o.mul(value, value)
    total = o.sum(squares, [*axes]) if axes else squares
    return total if o.element(total) == f64 else o.cast(total, f64)


def compute_type(o: OpBuilder, value: SSAValue) -> AnyFloat:
    """The element type in which the update of a variable is computed."""
    return f64 if o.element(value) == f64 else f32
