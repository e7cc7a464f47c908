"""The ops of the op dialect on the bits of integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import i8, i16, i32, i64
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.traits import Commutative, Pure

from penstock.dialects.op.elementwise import BinaryOp, Elements

if TYPE_CHECKING:
    from penstock.dialects.interfaces import Array
    from penstock.dialects.kernel import KernelBuilder

INTEGERS = Elements("integers", (i8, i16, i32, i64))


@irdl_op_definition
class BitAndOp(BinaryOp):
    """
    The bits that both elements have.

    ```mlir
    %r = op.bit_and %a, %b : tensor<4x8xi32>, tensor<8xi32> -> tensor<4x8xi32>
    ```
    """

    name = "op.bit_and"
    ELEMENTS: ClassVar[Elements] = INTEGERS

    traits = traits_def(Commutative(), Pure())

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        a, b = operands
        return k.insert(arith.AndIOp(a, b))

    def compute(self, *operands: Array) -> Array:
        import numpy as np

        return np.bitwise_and(*operands)


@irdl_op_definition
class BitOrOp(BinaryOp):
    """
    The bits that at least one of two elements has.

    ```mlir
    %r = op.bit_or %a, %b : tensor<4x8xi32>, tensor<8xi32> -> tensor<4x8xi32>
    ```
    """

    name = "op.bit_or"
    ELEMENTS: ClassVar[Elements] = INTEGERS

    traits = traits_def(Commutative(), Pure())

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        a, b = operands
        return k.insert(arith.OrIOp(a, b))

    def compute(self, *operands: Array) -> Array:
        import numpy as np

        return np.bitwise_or(*operands)


@irdl_op_definition
class BitXorOp(BinaryOp):
    """
    The bits that just one of two elements has.

    ```mlir
    %r = op.bit_xor %a, %b : tensor<4x8xi32>, tensor<8xi32> -> tensor<4x8xi32>
    ```
    """

    name = "op.bit_xor"
    ELEMENTS: ClassVar[Elements] = INTEGERS

    traits = traits_def(Commutative(), Pure())

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        a, b = operands
        return k.insert(arith.XOrIOp(a, b))

    def compute(self, *operands: Array) -> Array:
        import numpy as np

        return np.bitwise_xor(*operands)
