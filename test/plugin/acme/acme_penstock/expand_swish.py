"""
Write `acme.swish` in terms of the `op` dialect: the operand times its sigmoid.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from acme_penstock.dialect import SwishOp
from penstock.dialects.op import MulOp, SigmoidOp


class ExpandSwish(RewritePattern):
    """swish(x) = x * sigmoid(x)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SwishOp, rewriter: PatternRewriter) -> None:
        """Replace one op by two."""
        sigmoid = SigmoidOp(op.operand)
        product = MulOp.inferred([op.operand, sigmoid.result])
        rewriter.replace(op, [sigmoid, product])


@dataclass(frozen=True)
class AcmeExpandSwishPass(ModulePass):
    """
    Write `acme.swish` in terms of the `op` dialect.
    """

    name = "acme-expand-swish"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite all of them."""
        PatternRewriteWalker(ExpandSwish(), apply_recursively=False).rewrite_module(op)
