"""Elementwise functions of floats."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects import math
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition

from penstock.dialects.op.elementwise import UnaryOp
from penstock.dialects.utils.gradients import only

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array


@irdl_op_definition
class ExpOp(UnaryOp):
    """
    e to the power of each element.

    ```mlir
    %r = op.exp %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.exp"
    PRECISION: ClassVar = "black"
    NUMPY: ClassVar = "exp"
    SCALAR: ClassVar = "exp"

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.mul(only(grads), self.result)]


@irdl_op_definition
class LogOp(UnaryOp):
    """
    The natural logarithm of each element.

    ```mlir
    %r = op.log %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.log"
    PRECISION: ClassVar = "black"
    NUMPY: ClassVar = "log"
    SCALAR: ClassVar = "log"

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.div(only(grads), self.operand)]


@irdl_op_definition
class SqrtOp(UnaryOp):
    """
    The square root of each element.

    ```mlir
    %r = op.sqrt %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.sqrt"
    PRECISION: ClassVar = "black"
    NUMPY: ClassVar = "sqrt"
    SCALAR: ClassVar = "sqrt"

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.div(o.mul(only(grads), 0.5), self.result)]


@irdl_op_definition
class RsqrtOp(UnaryOp):
    """
    One divided by the square root of each element.

    ```mlir
    %r = op.rsqrt %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.rsqrt"
    PRECISION: ClassVar = "black"
    FLOPS: ClassVar = 2

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        return k.div(k.constant(1, operands[0].type), k.sqrt(operands[0]))

    def compute(self, *operands: Array) -> Array:
        import numpy as np

        return np.reciprocal(np.sqrt(operands[0]))

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        cube = o.mul(self.result, o.square(self.result))
        return [o.mul(o.mul(only(grads), -0.5), cube)]


@irdl_op_definition
class ErfOp(UnaryOp):
    """
    The error function of each element: 2/sqrt(pi) times the integral of exp(-t*t)
    from 0 to the element.

    ```mlir
    %r = op.erf %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.erf"
    PRECISION: ClassVar = "black"
    SCALAR: ClassVar = math.ErfOp

    def compute(self, *operands: Array) -> Array:
        return erf(operands[0])

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        slope = o.mul(o.exp(o.neg(o.square(self.operand))), 2 / sqrt(pi))
        return [o.mul(only(grads), slope)]


@irdl_op_definition
class FloorOp(UnaryOp):
    """
    The largest whole number that is not above each element.

    ```mlir
    %r = op.floor %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.floor"
    NUMPY: ClassVar = "floor"
    SCALAR: ClassVar = math.FloorOp

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [None]


@irdl_op_definition
class CeilOp(UnaryOp):
    """
    The smallest whole number that is not below each element.

    ```mlir
    %r = op.ceil %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.ceil"
    NUMPY: ClassVar = "ceil"
    SCALAR: ClassVar = math.CeilOp

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [None]


def erf(array: Array) -> Array:
    """The error function in terms of NumPy, in double precision and then rounded."""
    from math import erf

    import numpy as np

    exact = np.vectorize(erf, otypes=[np.float64])
    return np.asarray(exact(array)).astype(array.dtype)
