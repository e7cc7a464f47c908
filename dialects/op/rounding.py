"""The ops of the op dialect on whole and other parts of floats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects import math
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.traits import Pure

from penstock.dialects.op.elementwise import FLOATS, BinaryOp, Elements, UnaryOp

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


@irdl_op_definition
class RemOp(BinaryOp):
    """
    What is left of each float when as many whole divisors as fit are taken away: it is
    exact, and has the sign of the dividend. Of an infinity, and by 0, it is NaN.

    ```mlir
    %r = op.rem %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
    ```
    """

    name = "op.rem"
    ELEMENTS: ClassVar[Elements] = FLOATS

    traits = traits_def(Pure())

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        # The arith dialect has it, but not in xDSL.
        from xdsl.dialects.llvm import FRemOp

        a, b = operands
        return k.insert(FRemOp(a, b))

    def compute(self, *operands: Array) -> Array:
        import numpy as np

        return np.fmod(*operands)
