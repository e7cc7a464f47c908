"""Trigonometric and hyperbolic ops."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects import math
from xdsl.irdl import irdl_op_definition

from penstock.dialects.op.elementwise import UnaryOp


@irdl_op_definition
class SinOp(UnaryOp):
    """
    The sine of each element, an angle in radians.

    ```mlir
    %r = op.sin %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.sin"
    SCALAR: ClassVar = math.SinOp
    NUMPY: ClassVar = "sin"


@irdl_op_definition
class CosOp(UnaryOp):
    """
    The cosine of each element, an angle in radians.

    ```mlir
    %r = op.cos %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.cos"
    SCALAR: ClassVar = math.CosOp
    NUMPY: ClassVar = "cos"


@irdl_op_definition
class TanOp(UnaryOp):
    """
    The tangent of each element, an angle in radians.

    ```mlir
    %r = op.tan %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.tan"
    SCALAR: ClassVar = math.TanOp
    NUMPY: ClassVar = "tan"


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
    SCALAR: ClassVar = math.AsinOp
    NUMPY: ClassVar = "arcsin"


@irdl_op_definition
class AcosOp(UnaryOp):
    """
    The angle between 0 and pi whose cosine each element is; a NaN outside of -1..1.

    ```mlir
    %r = op.acos %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.acos"
    SCALAR: ClassVar = math.AcosOp
    NUMPY: ClassVar = "arccos"


@irdl_op_definition
class AtanOp(UnaryOp):
    """
    The angle between -pi/2 and pi/2 whose tangent each element is.

    ```mlir
    %r = op.atan %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.atan"
    SCALAR: ClassVar = math.AtanOp
    NUMPY: ClassVar = "arctan"


@irdl_op_definition
class SinhOp(UnaryOp):
    """
    The hyperbolic sine of each element.

    ```mlir
    %r = op.sinh %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.sinh"
    SCALAR: ClassVar = math.SinhOp
    NUMPY: ClassVar = "sinh"


@irdl_op_definition
class CoshOp(UnaryOp):
    """
    The hyperbolic cosine of each element.

    ```mlir
    %r = op.cosh %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.cosh"
    SCALAR: ClassVar = math.CoshOp
    NUMPY: ClassVar = "cosh"


@irdl_op_definition
class AsinhOp(UnaryOp):
    """
    The number whose hyperbolic sine each element is.

    ```mlir
    %r = op.asinh %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.asinh"
    SCALAR: ClassVar = math.AsinhOp
    NUMPY: ClassVar = "arcsinh"


@irdl_op_definition
class AcoshOp(UnaryOp):
    """
    The number from 0 on whose hyperbolic cosine each element is; a NaN below 1.

    ```mlir
    %r = op.acosh %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.acosh"
    SCALAR: ClassVar = math.AcoshOp
    NUMPY: ClassVar = "arccosh"


@irdl_op_definition
class AtanhOp(UnaryOp):
    """
    The number whose hyperbolic tangent each element is; a NaN outside of -1..1.

    ```mlir
    %r = op.atanh %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.atanh"
    SCALAR: ClassVar = math.AtanhOp
    NUMPY: ClassVar = "arctanh"
