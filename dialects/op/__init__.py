"""
The op dialect: what is computed, op by op, on tensors with value semantics.

Each op is defined in one place, its class: operands, properties and syntax, and what
`penstock.dialects.interfaces.TensorOp` asks for: type inference, cost, in-place pairs,
its meaning in NumPy and its kernel body. `op.fused` holds elementwise ops that are
computed together.
"""

from xdsl.ir import Dialect

from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.elementwise import AddOp, ReluOp
from penstock.dialects.op.fused import FusedOp, YieldOp

Op = Dialect(
    "op",
    [
        AddOp,
        ConstantOp,
        FusedOp,
        ReluOp,
        YieldOp,
    ],
    [],
)
