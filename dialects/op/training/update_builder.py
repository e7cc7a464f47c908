"""`UpdateBuilder` and `RowUpdateBuilder`: make the ops that update one variable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import AnyFloat, f32, f64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from penstock.dialects.op.body import YieldOp
from penstock.dialects.op.groups.fused import FusedOp
from penstock.dialects.op.op_builder import OpBuilder
from penstock.dialects.op.training.update_rows import UpdateRowsOp, rows_of
from penstock.dialects.utils.half_precision import is_half
from penstock.dialects.utils.tensors import tensor_type

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
        old: Values,
    ) -> Values:
        """
        The results of a rule as one group of ops on elements. Floats of 16 bits are
        computed in f32. Its first results are new values of the `old` tensors, of their
        types, which stay as they are where the update is skipped.
        """
        extra = [x for x in (self._factor, self._skip) if x is not None]
        ins = self._ordered([*operands, *old, *extra], old)
        block = Block(arg_types=[self._inside(value, old) for value in ins])
        for arg, value in zip(block.args, ins, strict=True):
            arg.name_hint = value.name_hint
        o = OpBuilder(block.add_op)
        given = dict(zip(ins, block.args, strict=True))
        wide = {value: widened(o, arg) for value, arg in given.items()}
        if self._gradient in wide:
            wide[self._gradient] = self._true(o, wide[self._gradient], wide)
        found = list(rule(o, [wide[value] for value in operands]))
        for index, value in enumerate(old):
            found[index] = self._kept(o, given, value, found[index])
        block.add_op(YieldOp(*found))
        made = self._made(ins, old, Region(block))
        self._insert(made)
        return made.results

    def _ordered(self, values: Values, old: Values) -> Values:
        """The operands of a group, each once."""
        return list(dict.fromkeys(values))

    def _inside(self, value: SSAValue, old: Values) -> Attribute:
        """The type that an operand has inside a group."""
        return value.type

    def _made(self, ins: Values, old: Values, body: Region) -> Operation:
        """The op of a group."""
        return FusedOp(ins, body)

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


class RowUpdateBuilder(UpdateBuilder):
    """
    The functions for an update by a gradient that has a row for each of some `indices`:
    these rows of the variable and of its states are updated, and others are not looked
    at. Indices differ, but for those that are out of range.
    """

    def __init__(
        self,
        insert: Callable[[Operation], object],
        gradient: SSAValue,
        *,
        indices: SSAValue,
        factor: SSAValue | None = None,
        limit: float = 0.0,
        skip: SSAValue | None = None,
    ):
        super().__init__(insert, gradient, factor=factor, limit=limit, skip=skip)
        self._indices = indices

    def _ordered(self, values: Values, old: Values) -> Values:
        return list(dict.fromkeys((*old, *values)))

    def _inside(self, value: SSAValue, old: Values) -> Attribute:
        if value not in old:
            return value.type
        return rows_of(tensor_type(value), self.shape(self._indices))

    def _made(self, ins: Values, old: Values, body: Region) -> Operation:
        count = len(old)
        return UpdateRowsOp(self._indices, ins[:count], ins[count:], body)


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
