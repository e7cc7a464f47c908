"""Rounding, remainder and log1p."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.traits import Pure

from penstock.dialects.op.elementwise import BinaryOp, UnaryOp
from penstock.dialects.utils.gradients import only
from penstock.dialects.utils.signless import is_unsigned

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients


@irdl_op_definition
class RoundOp(UnaryOp):
    """
    The whole number nearest to each element; of two as near, the even one.

    ```mlir
    %r = op.round %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.round"
    NUMPY: ClassVar = "rint"
    SCALAR: ClassVar = math.RoundEvenOp

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [None]


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
    PRECISION: ClassVar = "black"
    NUMPY: ClassVar = "log1p"
    SCALAR: ClassVar = math.Log1pOp

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.div(only(grads), o.add(self.operand, 1))]


@irdl_op_definition
class RemOp(BinaryOp):
    """
    The remainder of each number by a divisor, with a quotient rounded toward zero: it
    is exact, and has the sign of the dividend. A float that is infinite, or by 0,
    leaves NaN; an integer by 0 leaves 0, as in NumPy.

    ```mlir
    %r = op.rem %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
    ```
    """

    name = "op.rem"
    NUMPY: ClassVar = "fmod"

    traits = traits_def(Pure())

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        # The arith dialect has that of floats, but not in xDSL.
        from xdsl.dialects.llvm import FRemOp

        a, b = operands
        if isinstance(a.type, AnyFloat):
            return k.insert(FRemOp(a, b))
        remainder = arith.RemUIOp if is_unsigned(a.type) else arith.RemSIOp
        return k.insert(remainder(a, b))

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        a, b, g = self.lhs, self.rhs, only(grads)
        # The quotient is whole: rounding takes away the error of the division.
        whole = o.one(RoundOp, o.div(o.sub(a, self.result), b))
        by_b = o.neg(o.mul(g, whole))
        return [o.unbroadcast(g, a), o.unbroadcast(by_b, b)]
