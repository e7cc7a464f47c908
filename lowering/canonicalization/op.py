"""Canonicalization patterns of the op dialect. Each one keeps every bit of a value."""

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.utils.hints import isa

from penstock.dialects.op.axes import int_list
from penstock.dialects.op.movement import ExpandOp, ReshapeOp, TransposeOp
from penstock.dialects.op.padding import PadOp
from penstock.dialects.op.parts import ConcatOp, SliceOp, SplitOp


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
