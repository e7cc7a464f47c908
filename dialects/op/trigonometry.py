"""The ops of the op dialect that apply a function of an angle, or of its kind."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects import math
from xdsl.dialects.math import FloatingPointLikeUnaryMathOperation as FloatFunction
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition

from penstock.dialects.op.elementwise import UnaryOp

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.op.tensor_op import Array


class FunctionOp(UnaryOp, ABC):
    """An op that applies a function of floats for which there is one scalar op."""

    SCALAR: ClassVar[type[FloatFunction]]
    UFUNC: ClassVar[str]
    """The name of the function in NumPy."""

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        return k.insert(self.SCALAR(operands[0]))

    def compute(self, *operands: Array) -> Array:
        import numpy as np

        return getattr(np, self.UFUNC)(operands[0])


@irdl_op_definition
class SinOp(FunctionOp):
    """
    The sine of each element, an angle in radians.

    ```mlir
    %r = op.sin %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.sin"
    SCALAR: ClassVar[type[FloatFunction]] = math.SinOp
    UFUNC: ClassVar[str] = "sin"


@irdl_op_definition
class CosOp(FunctionOp):
    """
    The cosine of each element, an angle in radians.

    ```mlir
    %r = op.cos %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.cos"
    SCALAR: ClassVar[type[FloatFunction]] = math.CosOp
    UFUNC: ClassVar[str] = "cos"


@irdl_op_definition
class TanOp(FunctionOp):
    """
    The tangent of each element, an angle in radians.

    ```mlir
    %r = op.tan %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.tan"
    SCALAR: ClassVar[type[FloatFunction]] = math.TanOp
    UFUNC: ClassVar[str] = "tan"


@irdl_op_definition
class AsinOp(FunctionOp):
    """
    The angle between -pi/2 and pi/2 whose sine each element is; a NaN outside of
    -1..1.

    ```mlir
    %r = op.asin %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.asin"
    SCALAR: ClassVar[type[FloatFunction]] = math.AsinOp
    UFUNC: ClassVar[str] = "arcsin"


@irdl_op_definition
class AcosOp(FunctionOp):
    """
    The angle between 0 and pi whose cosine each element is; a NaN outside of -1..1.

    ```mlir
    %r = op.acos %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.acos"
    SCALAR: ClassVar[type[FloatFunction]] = math.AcosOp
    UFUNC: ClassVar[str] = "arccos"


@irdl_op_definition
class AtanOp(FunctionOp):
    """
    The angle between -pi/2 and pi/2 whose tangent each element is.

    ```mlir
    %r = op.atan %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.atan"
    SCALAR: ClassVar[type[FloatFunction]] = math.AtanOp
    UFUNC: ClassVar[str] = "arctan"


@irdl_op_definition
class SinhOp(FunctionOp):
    """
    The hyperbolic sine of each element.

    ```mlir
    %r = op.sinh %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.sinh"
    SCALAR: ClassVar[type[FloatFunction]] = math.SinhOp
    UFUNC: ClassVar[str] = "sinh"


@irdl_op_definition
class CoshOp(FunctionOp):
    """
    The hyperbolic cosine of each element.

    ```mlir
    %r = op.cosh %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.cosh"
    SCALAR: ClassVar[type[FloatFunction]] = math.CoshOp
    UFUNC: ClassVar[str] = "cosh"


@irdl_op_definition
class AsinhOp(FunctionOp):
    """
    The number whose hyperbolic sine each element is.

    ```mlir
    %r = op.asinh %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.asinh"
    SCALAR: ClassVar[type[FloatFunction]] = math.AsinhOp
    UFUNC: ClassVar[str] = "arcsinh"


@irdl_op_definition
class AcoshOp(FunctionOp):
    """
    The number from 0 on whose hyperbolic cosine each element is; a NaN below 1.

    ```mlir
    %r = op.acosh %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.acosh"
    SCALAR: ClassVar[type[FloatFunction]] = math.AcoshOp
    UFUNC: ClassVar[str] = "arccosh"


@irdl_op_definition
class AtanhOp(FunctionOp):
    """
    The number whose hyperbolic tangent each element is; a NaN outside of -1..1.

    ```mlir
    %r = op.atanh %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.atanh"
    SCALAR: ClassVar[type[FloatFunction]] = math.AtanhOp
    UFUNC: ClassVar[str] = "arctanh"
