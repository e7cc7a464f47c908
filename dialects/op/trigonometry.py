"""Trigonometric and hyperbolic ops."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects import math
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition

from penstock.dialects.op.elementwise import UnaryOp
from penstock.dialects.utils.gradients import only

if TYPE_CHECKING:
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients


@irdl_op_definition
class SinOp(UnaryOp):
    """
    The sine of each element, an angle in radians.

    ```mlir
    %r = op.sin %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.sin"
    PRECISION: ClassVar = "black"
    SCALAR: ClassVar = math.SinOp
    NUMPY: ClassVar = "sin"

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.mul(only(grads), o.one(CosOp, self.operand))]


@irdl_op_definition
class CosOp(UnaryOp):
    """
    The cosine of each element, an angle in radians.

    ```mlir
    %r = op.cos %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.cos"
    PRECISION: ClassVar = "black"
    SCALAR: ClassVar = math.CosOp
    NUMPY: ClassVar = "cos"

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.mul(only(grads), o.neg(o.one(SinOp, self.operand)))]


@irdl_op_definition
class TanOp(UnaryOp):
    """
    The tangent of each element, an angle in radians.

    ```mlir
    %r = op.tan %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.tan"
    PRECISION: ClassVar = "black"
    SCALAR: ClassVar = math.TanOp
    NUMPY: ClassVar = "tan"

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.mul(only(grads), o.add(o.square(self.result), 1))]


@irdl_op_definition
class AsinOp(UnaryOp):
    """
    The angle between -pi/2 and pi/2 whose sine each element is; a NaN outside of
    -1..1.

    ```mlir
    %r = op.asin %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.asin"
    PRECISION: ClassVar = "black"
    SCALAR: ClassVar = math.AsinOp
    NUMPY: ClassVar = "arcsin"

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.mul(only(grads), o.rsqrt(_rest_of_square(o, self.operand)))]


@irdl_op_definition
class AcosOp(UnaryOp):
    """
    The angle between 0 and pi whose cosine each element is; a NaN outside of -1..1.

    ```mlir
    %r = op.acos %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.acos"
    PRECISION: ClassVar = "black"
    SCALAR: ClassVar = math.AcosOp
    NUMPY: ClassVar = "arccos"

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        slope = o.rsqrt(_rest_of_square(o, self.operand))
        return [o.neg(o.mul(only(grads), slope))]


@irdl_op_definition
class AtanOp(UnaryOp):
    """
    The angle between -pi/2 and pi/2 whose tangent each element is.

    ```mlir
    %r = op.atan %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.atan"
    PRECISION: ClassVar = "black"
    SCALAR: ClassVar = math.AtanOp
    NUMPY: ClassVar = "arctan"

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.div(only(grads), o.add(o.square(self.operand), 1))]


@irdl_op_definition
class SinhOp(UnaryOp):
    """
    The hyperbolic sine of each element.

    ```mlir
    %r = op.sinh %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.sinh"
    PRECISION: ClassVar = "black"
    SCALAR: ClassVar = math.SinhOp
    NUMPY: ClassVar = "sinh"

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.mul(only(grads), o.one(CoshOp, self.operand))]


@irdl_op_definition
class CoshOp(UnaryOp):
    """
    The hyperbolic cosine of each element.

    ```mlir
    %r = op.cosh %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.cosh"
    PRECISION: ClassVar = "black"
    SCALAR: ClassVar = math.CoshOp
    NUMPY: ClassVar = "cosh"

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.mul(only(grads), o.one(SinhOp, self.operand))]


@irdl_op_definition
class AsinhOp(UnaryOp):
    """
    The number whose hyperbolic sine each element is.

    ```mlir
    %r = op.asinh %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.asinh"
    PRECISION: ClassVar = "black"
    SCALAR: ClassVar = math.AsinhOp
    NUMPY: ClassVar = "arcsinh"

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.mul(only(grads), o.rsqrt(o.add(o.square(self.operand), 1)))]


@irdl_op_definition
class AcoshOp(UnaryOp):
    """
    The number from 0 on whose hyperbolic cosine each element is; a NaN below 1.

    ```mlir
    %r = op.acosh %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.acosh"
    PRECISION: ClassVar = "black"
    SCALAR: ClassVar = math.AcoshOp
    NUMPY: ClassVar = "arccosh"

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        square = o.neg(_rest_of_square(o, self.operand))
        return [o.mul(only(grads), o.rsqrt(square))]


@irdl_op_definition
class AtanhOp(UnaryOp):
    """
    The number whose hyperbolic tangent each element is; a NaN outside of -1..1.

    ```mlir
    %r = op.atanh %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.atanh"
    PRECISION: ClassVar = "black"
    SCALAR: ClassVar = math.AtanhOp
    NUMPY: ClassVar = "arctanh"

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.div(only(grads), _rest_of_square(o, self.operand))]


def _rest_of_square(o: GradientBuilder, x: SSAValue) -> SSAValue:
    """1 - x * x, without the loss of digits near to 1."""
    return o.mul(o.sub(1, x), o.add(x, 1))
