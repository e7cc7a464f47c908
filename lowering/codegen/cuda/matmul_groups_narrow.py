"""
`f16` and `bf16` contractions without a schedule: GPUs accumulate them in `f32` too, and
round once.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Operation

from penstock.dialects.utils.half_precision import is_half
from penstock.lowering.codegen.body.contraction import factors_of


def summed_in_f32(op: Operation) -> LinalgStructuredOperation | None:
    """
    A copy of a sum of products of floats of 16 bits whose body goes on from the sum so
    far as it is, without rounding it; None for any other op.
    """
    if not isinstance(op, LinalgStructuredOperation) or len(op.outputs) != 1:
        return None
    if not is_half(op.body.block.args[-1].type) or factors_of(op) is None:
        return None
    copy = op.clone()
    so_far, last = copy.body.block.args[-1], copy.body.block.last_op
    assert last is not None, "a linalg body ends in linalg.yield"
    rounded = last.operands[0].owner
    extended = [use.operation for use in so_far.uses]
    assert isinstance(rounded, arith.TruncFOp), "what is stored has 16 bits"
    last.operands[0] = rounded.input
    for cast in (rounded, *extended):
        if isinstance(cast, arith.ExtFOp):
            cast.result.replace_all_uses_with(so_far)
        cast.detach()
        cast.erase()
    return copy
