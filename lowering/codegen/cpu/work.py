"""
The modelled work of a body in scalar operations: loads and stores count 2, divisions
and roots 8, and other functions 12, about what they take in vectors.
"""

from __future__ import annotations

from xdsl.dialects import arith, memref, scf
from xdsl.ir import Block, Operation

from penstock.lowering.codegen.body.vector_loop import number_of

WEIGHTS = {
    **{"arith.divf": 8, "math.sqrt": 8, "math.rsqrt": 16},
    **{f"math.{name}": 1 for name in ("absf", "ceil", "copysign", "floor", "fma")},
}
FUNCTION_WEIGHT, ACCESS_WEIGHT = 12, 2


def weight(block: Block) -> int:
    """The modelled work of a block's ops, those of loops times their trip counts."""
    return sum(_weight(op) for op in block.ops)


def _weight(op: Operation) -> int:
    match op:
        case scf.ForOp():
            lower, upper, step = map(number_of, (op.lb, op.ub, op.step))
            if lower is None or upper is None or step is None:
                return weight(op.body.block)
            return len(range(lower, upper, step)) * weight(op.body.block)
        case memref.LoadOp() | memref.StoreOp():
            return ACCESS_WEIGHT
        case arith.ConstantOp():
            return 0
        case _ if not op.results and not op.regions:
            return 0
        case _ if op.regions:
            return max(
                (weight(block) for region in op.regions for block in region.blocks),
                default=0,
            )
        case _:
            usual = FUNCTION_WEIGHT if op.name.startswith("math.") else 1
            return WEIGHTS.get(op.name, usual)
