"""
Canonicalization patterns of the op dialect.

Each one keeps every bit of a value, but for the one that makes a NaN signal.
"""

from math import copysign

from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.utils.hints import isa

from penstock.dialects.op.axes import int_list
from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.elementwise import AddOp, DivOp, MulOp, SubOp
from penstock.dialects.op.movement import ExpandOp, ReshapeOp, TransposeOp
from penstock.dialects.op.padding import PadOp
from penstock.dialects.op.slicing import ConcatOp, SliceOp, SplitOp


def same_static_type(a: SSAValue, b: SSAValue) -> bool:
    """Whether two values are tensors of one type without unknown extents."""
    return a.type == b.type and isa(a.type, TensorType) and a.type.has_static_shape()


class ReshapeToSameType(RewritePattern):
    """
    reshape(x) = x if the shape is x's own.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter) -> None:
        if same_static_type(op.source, op.result):
            rewriter.replace(op, [], [op.source])


class ReshapeOfReshape(RewritePattern):
    """
    reshape(reshape(x, a), b) = reshape(x, b).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter) -> None:
        if not isinstance(inner := op.source.owner, ReshapeOp):
            return
        outer = ReshapeOp.create(
            operands=[inner.source],
            result_types=[op.result.type],
            properties=op.properties,
            attributes=op.attributes,
        )
        rewriter.replace(op, outer)


class IdentityTranspose(RewritePattern):
    """
    transpose(x, [0, 1, ...]) = x.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter) -> None:
        permutation = op.permutation.get_values()
        if permutation != tuple(range(len(permutation))):
            return
        if op.source.type == op.result.type:
            rewriter.replace(op, [], [op.source])


class TransposeOfTranspose(RewritePattern):
    """
    transpose(transpose(x, p), q) = transpose(x, [p[q[0]], p[q[1]], ...]).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter) -> None:
        if not isinstance(inner := op.source.owner, TransposeOp):
            return
        axes = inner.permutation.get_values()
        permutation = [axes[axis] for axis in op.permutation.get_values()]
        outer = TransposeOp.create(
            operands=[inner.source],
            result_types=[op.result.type],
            properties={"permutation": int_list(permutation)},
            attributes=op.attributes,
        )
        rewriter.replace(op, outer)


class ExpandToSameType(RewritePattern):
    """
    expand(x) = x if the shape is x's own.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ExpandOp, rewriter: PatternRewriter) -> None:
        if same_static_type(op.source, op.result):
            rewriter.replace(op, [], [op.source])


class ConcatOfOne(RewritePattern):
    """
    concat(x) = x.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConcatOp, rewriter: PatternRewriter) -> None:
        if len(op.ins) == 1 and op.ins[0].type == op.result.type:
            rewriter.replace(op, [], [op.ins[0]])


class SplitIntoOne(RewritePattern):
    """
    split(x, [n]) = x.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SplitOp, rewriter: PatternRewriter) -> None:
        if len(op.parts) == 1 and op.parts[0].type == op.source.type:
            rewriter.replace(op, [], [op.source])


class SliceOfEverything(RewritePattern):
    """
    slice(x) = x if every element is taken, in x's own order.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SliceOp, rewriter: PatternRewriter) -> None:
        if any(step != 1 for step in op.steps.get_values()):
            return
        if same_static_type(op.source, op.result):
            rewriter.replace(op, [], [op.source])


class PadByNothing(RewritePattern):
    """
    pad(x) = x if nothing is added on any axis.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: PadOp, rewriter: PatternRewriter) -> None:
        if any(before or after for before, after in op.pads):
            return
        if op.source.type == op.result.type:
            rewriter.replace(op, [], [op.source])


class CastToSameType(RewritePattern):
    """
    cast(x) = x if the type is x's own.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CastOp, rewriter: PatternRewriter) -> None:
        if op.operand.type == op.result.type:
            rewriter.replace(op, [], [op.operand])


class AddZero(RewritePattern):
    """
    x + 0 = 0 + x = x, where the zero of floats is -0.0: 0.0 would make 0.0 of -0.0.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddOp, rewriter: PatternRewriter) -> None:
        zero = -0.0 if has_floats(op.result) else 0
        if is_filled(op.rhs, zero):
            keep_operand(op, op.lhs, rewriter)
        elif is_filled(op.lhs, zero):
            keep_operand(op, op.rhs, rewriter)


class SubtractZero(RewritePattern):
    """
    x - 0 = x, where the zero of floats is 0.0: -0.0 would make 0.0 of -0.0.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SubOp, rewriter: PatternRewriter) -> None:
        if is_filled(op.rhs, 0):
            keep_operand(op, op.lhs, rewriter)


class MultiplyByOne(RewritePattern):
    """
    x * 1 = 1 * x = x.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MulOp, rewriter: PatternRewriter) -> None:
        if is_filled(op.rhs, 1):
            keep_operand(op, op.lhs, rewriter)
        elif is_filled(op.lhs, 1):
            keep_operand(op, op.rhs, rewriter)


class DivideByOne(RewritePattern):
    """
    x / 1 = x.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DivOp, rewriter: PatternRewriter) -> None:
        if is_filled(op.rhs, 1):
            keep_operand(op, op.lhs, rewriter)


def has_floats(value: SSAValue) -> bool:
    """Whether a value is a tensor of floats."""
    return isa(value.type, TensorType) and isinstance(value.type.element_type, AnyFloat)


def is_filled(value: SSAValue, number: float) -> bool:
    """Whether a value is a constant all of whose elements are this number."""
    if not isinstance(constant := value.owner, ConstantOp):
        return False
    if (splat := constant.splat) is None or splat != number:
        return False
    return copysign(1, splat) == copysign(1, number)


def keep_operand(op: Operation, operand: SSAValue, rewriter: PatternRewriter) -> None:
    """Replace an op by its operand, unless the operand is broadcast."""
    if same_static_type(operand, op.results[0]):
        rewriter.replace(op, [], [operand])
