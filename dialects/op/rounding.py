"""The ops of the op dialect that take whole numbers and signs from floats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects import math
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition

from penstock.dialects.op.elementwise import UnaryOp

if TYPE_CHECKING:
    from penstock.dialects.interfaces import Array
    from penstock.dialects.kernel import KernelBuilder


@irdl_op_definition
class RoundOp(UnaryOp):
    """
    The whole number nearest to each element; of two as near, the even one.

    ```mlir
    %r = op.round %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.round"

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        return k.insert(math.RoundEvenOp(operands[0]))

    def compute(self, *operands: Array) -> Array:
        import numpy as np

        return np.rint(operands[0])


@irdl_op_definition
class Log1pOp(UnaryOp):
    """
    The natural logarithm of one more than each element, without the loss of small
    ones.

    ```mlir
    %r = op.log1p %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.log1p"

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        return k.insert(math.Log1pOp(operands[0]))

    def compute(self, *operands: Array) -> Array:
        import numpy as np

        return np.log1p(operands[0])
