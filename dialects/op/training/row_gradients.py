"""
Gradients of softmax and of norms, row by row: ops on rows that join groups, as the ops
themselves do.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, traits_def
from xdsl.traits import Pure

from penstock.dialects.kernel.body_ops import Fold
from penstock.dialects.kernel.row_builder import all_reduce
from penstock.dialects.op.row_ops import LineOp, ScaledRowsOp
from penstock.dialects.utils.gradients import NO_SECOND
from penstock.dialects.utils.tensors import tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array


class LineGradientOp(LineOp, ABC):
    """The gradient of an op along one axis, from its result and that one's gradient."""

    NO_GRADIENT: ClassVar = NO_SECOND
    FLOPS: ClassVar = 4

    output = operand_def(TensorType)
    grad = operand_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$output `,` $grad (`axis` $axis^)? attr-dict `:` type($output) `,` "
        "type($grad) `->` type($result)"
    )


@irdl_op_definition
class SoftmaxGradientOp(LineGradientOp):
    """
    The gradient of the operand of `op.softmax`, from its result and the gradient of
    that: `output * (grad - sum(output * grad))`, with a sum along one axis.

    ```mlir
    %r = op.softmax_gradient %y, %g axis 1
      : tensor<4x8x2xf32>, tensor<4x8x2xf32> -> tensor<4x8x2xf32>
    ```
    """

    name = "op.softmax_gradient"

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        output, grad = operands
        axis, type = self.axis.value.data, output.dtype
        with np.errstate(invalid="ignore", over="ignore"):
            shares = np.multiply(output, grad)
            total = np.add.reduce(shares, axis, dtype=type, keepdims=True)
            return (np.multiply(output, np.subtract(grad, total)),)

    def build_point(
        self, k: KernelBuilder, values: Sequence[SSAValue], extent: int
    ) -> SSAValue:
        output, grad = values
        total = all_reduce(k, Fold.ADD, k.mul(output, grad))
        return k.mul(output, k.sub(grad, total))


@irdl_op_definition
class LogSoftmaxGradientOp(LineGradientOp):
    """
    The gradient of the operand of `op.log_softmax`, from its result and the gradient of
    that: `grad - exp(output) * sum(grad)`, with a sum along one axis.

    ```mlir
    %r = op.log_softmax_gradient %y, %g axis 1
      : tensor<4x8x2xf32>, tensor<4x8x2xf32> -> tensor<4x8x2xf32>
    ```
    """

    name = "op.log_softmax_gradient"

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        output, grad = operands
        axis, type = self.axis.value.data, output.dtype
        with np.errstate(invalid="ignore", over="ignore"):
            total = np.add.reduce(grad, axis, dtype=type, keepdims=True)
            return (np.subtract(grad, np.multiply(np.exp(output), total)),)

    def build_point(
        self, k: KernelBuilder, values: Sequence[SSAValue], extent: int
    ) -> SSAValue:
        output, grad = values
        total = all_reduce(k, Fold.ADD, grad)
        return k.sub(grad, k.mul(k.exp(output), total))


class NormGradientOp(ScaledRowsOp, ABC):
    """The gradient of a norm's input, from it, the result's gradient and the scale."""

    NO_GRADIENT: ClassVar = NO_SECOND

    input = operand_def(TensorType)
    grad = operand_def(TensorType)
    scale = operand_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$input `,` $grad `,` $scale (`axis` $axis^)? (`epsilon` $epsilon^)? attr-dict "
        "`:` type($input) `,` type($grad) `,` type($scale) `->` type($result)"
    )

    @property
    def rows_read(self) -> int:
        return 2

    def mean_of_row(self, array: Array) -> Array:
        """The mean of each row, in the element type."""
        import numpy as np

        _, columns = self.split(array.shape)
        axes = tuple(range(-len(columns), 0))
        count = array.dtype.type(prod(columns))
        return np.divide(np.add.reduce(array, axes, keepdims=True), count)


@irdl_op_definition
class LayerNormGradientOp(NormGradientOp):
    """
    The gradient of the input of `op.layer_norm`, from that input, the gradient of the
    result and the scale. With `d` the input less its mean, `f` the factor that is one
    over its deviation, and `w = grad * scale`, it is
    `f * (w - mean(w) - d * f * f * mean(w * d))`, with means from one axis on.

    Means and deviations are computed anew. All sums are in the element type.

    ```mlir
    %r = op.layer_norm_gradient %x, %g, %scale axis 1 epsilon 1.000000e-06
      : tensor<4x2x8xf32>, tensor<4x2x8xf32>, tensor<2x8xf32> -> tensor<4x2x8xf32>
    ```
    """

    name = "op.layer_norm_gradient"

    def flops(self) -> int:
        # An element takes 1 for the mean, 3 for the variance, 4 for the means of what
        # is weighted and 4 to be made of these.
        rows, columns = map(prod, self.split(tensor_type(self.input).get_shape()))
        return 9 * rows + 12 * rows * columns

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        (input, grad, scale), mean = operands, self.mean_of_row
        epsilon = input.dtype.type(self.epsilon.value.data)
        with np.errstate(invalid="ignore"):
            centered = np.subtract(input, mean(input))
            deviation = np.sqrt(np.add(mean(np.square(centered)), epsilon))
            normal = np.divide(centered, deviation)
            weighted = np.multiply(grad, scale)
            common = np.multiply(normal, mean(np.multiply(weighted, normal)))
            rest = np.subtract(np.subtract(weighted, mean(weighted)), common)
        return (np.divide(rest, deviation),)

    def build_point(
        self, k: KernelBuilder, values: Sequence[SSAValue], extent: int
    ) -> SSAValue:
        value, grad, scale = values
        count = k.constant(extent, value.type)
        centered = k.sub(value, k.div(all_reduce(k, Fold.ADD, value), count))
        weighted = k.mul(grad, scale)
        mean = k.div(all_reduce(k, Fold.ADD, weighted), count)
        along = k.div(all_reduce(k, Fold.ADD, k.mul(weighted, centered)), count)
        factor = self.factor_of(k, centered, extent)
        share = k.mul(along, k.mul(factor, factor))
        rest = k.sub(k.sub(weighted, mean), k.mul(centered, share))
        return k.mul(rest, factor)


@irdl_op_definition
class RmsNormGradientOp(NormGradientOp):
    """
    The gradient of the input of `op.rms_norm`, from that input, the gradient of the
    result and the scale. With `f` one over the root of the mean square and
    `w = grad * scale`, it is `f * (w - input * f * f * mean(w * input))`, with means
    from one axis on. The root is computed anew. All sums are in the element type.

    ```mlir
    %r = op.rms_norm_gradient %x, %g, %scale axis 1 epsilon 1.000000e-06
      : tensor<4x2x8xf32>, tensor<4x2x8xf32>, tensor<2x8xf32> -> tensor<4x2x8xf32>
    ```
    """

    name = "op.rms_norm_gradient"

    def flops(self) -> int:
        # An element takes 2 for the mean of squares, 3 for that of what is weighted and
        # 3 to be made of these.
        rows, columns = map(prod, self.split(tensor_type(self.input).get_shape()))
        return 7 * rows + 8 * rows * columns

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        (input, grad, scale), mean = operands, self.mean_of_row
        epsilon = input.dtype.type(self.epsilon.value.data)
        with np.errstate(invalid="ignore"):
            root = np.sqrt(np.add(mean(np.square(input)), epsilon))
            normal, weighted = np.divide(input, root), np.multiply(grad, scale)
            common = np.multiply(normal, mean(np.multiply(weighted, normal)))
        return (np.divide(np.subtract(weighted, common), root),)

    def build_point(
        self, k: KernelBuilder, values: Sequence[SSAValue], extent: int
    ) -> SSAValue:
        value, grad, scale = values
        weighted, count = k.mul(grad, scale), k.constant(extent, value.type)
        along = k.div(all_reduce(k, Fold.ADD, k.mul(weighted, value)), count)
        factor = self.factor_of(k, value, extent)
        share = k.mul(along, k.mul(factor, factor))
        return k.mul(k.sub(weighted, k.mul(value, share)), factor)
