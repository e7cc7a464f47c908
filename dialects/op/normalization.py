"""Softmax, layer normalization and other normalizations."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Sequence
from math import inf, prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import FloatAttr, TensorType, f64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    eq,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.body_ops import Fold
from penstock.dialects.kernel.builder import KernelBuilder, memref_type
from penstock.dialects.kernel.row_builder import all_reduce, build_row, keep
from penstock.dialects.op.elementwise import FLOATS
from penstock.dialects.op.row_ops import EPSILON, LineOp, ScaledRowsOp
from penstock.dialects.op.sbp import SbpSignature, signature
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.op.verify import (
    check_shape,
    same_element_type,
)
from penstock.dialects.utils.gradients import GradientBuilder, Gradients, in_f32, only
from penstock.dialects.utils.tensors import element_count, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.utils.tensors import Array


def type_of_channels(input: SSAValue) -> TensorType:
    """
    The type of floats [n, channels, ...]. Raises `VerifyException` if a value has
    another one.
    """
    type = tensor_type(input)
    FLOATS.verify(type)
    if type.get_num_dims() < 2:
        raise VerifyException(
            f"the input should have at least 2 dimensions, got {type}"
        )
    return type


def check_by_channel(
    type: TensorType, parameters: Iterable[tuple[str, SSAValue]]
) -> None:
    """Raise `VerifyException` unless named tensors have one number a channel."""
    for name, parameter in parameters:
        check_shape(f"the {name}", tensor_type(parameter), type.get_shape()[1:2])


@irdl_op_definition
class BatchNormOp(TensorOp):
    """
    Each channel of floats [n, channels, ...] moved and scaled by known statistics:
    `(input - mean) * (scale / sqrt(variance + epsilon)) + bias`, where all four are
    given one number a channel.

    ```mlir
    %y = op.batch_norm %x, %scale, %bias, %mean, %variance epsilon 1.000000e-03
      : tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
      -> tensor<2x8x4x4xf32>
    ```
    """

    name = "op.batch_norm"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = operand_def(TensorType)
    mean = operand_def(TensorType)
    variance = operand_def(TensorType)
    epsilon = prop_def(FloatAttr.constr(eq(f64)), default_value=FloatAttr(EPSILON, f64))
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$input `,` $scale `,` $bias `,` $mean `,` $variance (`epsilon` $epsilon^)? "
        "attr-dict `:` type($input) `,` type($scale) `,` type($bias) `,` type($mean) "
        "`,` type($variance) `->` type($result)"
    )

    def infer_types(self) -> Sequence[TensorType]:
        same_element_type(self.operands)
        type = type_of_channels(self.input)
        names = ("scale", "bias", "mean", "variance")
        check_by_channel(type, zip(names, self.operands[1:], strict=True))
        return (type,)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return [
            signature([axis, *[0 if axis == 1 else None] * 4], [axis])
            for axis in range(tensor_type(self.input).get_num_dims())
        ]

    def flops(self) -> int:
        # The three parts of the factor are worked out once for each channel of an
        # image, the rest for each element.
        images, channels, *_ = tensor_type(self.input).get_shape()
        return 3 * images * channels + 3 * element_count(self.input.type)

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        return (InPlacePair(0, 0),)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        input, *parameters = operands
        trailing = (1,) * (input.ndim - 2)
        scale, bias, mean, variance = (
            parameter.reshape(-1, *trailing) for parameter in parameters
        )
        epsilon = input.dtype.type(self.epsilon.value.data)
        factor = np.divide(scale, np.sqrt(np.add(variance, epsilon)))
        return (np.add(np.multiply(np.subtract(input, mean), factor), bias),)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        g, shape = only(grads), o.shape(self.input)
        sums = "op.batch_norm_gradient_sums"
        total, products = o.results(sums, self.input, g, self.mean)
        root = o.rsqrt(o.add(self.variance, self.epsilon.value.data))
        factor = o.mul(self.scale, root)
        of_scale = o.mul(products, root)
        of_variance = o.mul(o.mul(of_scale, factor), o.mul(root, -0.5))
        of_channel = o.reshape(factor, [shape[1], *[1] * (len(shape) - 2)])
        of_mean = o.neg(o.mul(total, factor))
        return [o.mul(g, of_channel), of_scale, total, of_mean, of_variance]

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        type = memref_type(ins[0])
        images, channels, *extents = type.get_shape()
        shape = [images, channels, prod(extents)]
        input, out = k.view(ins[0], shape), k.view(outs[0], shape)

        def point(k: KernelBuilder, args: Sequence[SSAValue]) -> Sequence[SSAValue]:
            value, scale, bias, mean, variance = args
            epsilon = k.constant(self.epsilon.value.data, type.element_type)
            factor = k.div(scale, k.sqrt(k.add(variance, epsilon)))
            return [k.add(k.mul(k.sub(value, mean), factor), bias)]

        identity = AffineMap.identity(3)
        of_channel = AffineMap(3, 0, (AffineExpr.dimension(1),))
        maps = [identity, *[of_channel] * 4, identity]
        build_row(k, [2], [input, *ins[1:]], [out], maps, point)


@irdl_op_definition
class LayerNormOp(ScaledRowsOp):
    """
    Floats moved and scaled so that all elements from one axis on have mean 0 and
    variance 1, then times a scale, plus a bias if there is one; both have the shape of
    these elements.

    The mean is found first and then the variance around it, both as sums in the
    element type, so that their error grows with the number of terms: at most like it,
    about like its square root for random terms.

    ```mlir
    %y = op.layer_norm %x, %scale, %bias axis 1 epsilon 1.000000e-06
      : tensor<4x2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32> -> tensor<4x2x8xf32>
    ```
    """

    name = "op.layer_norm"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = opt_operand_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$input `,` $scale (`,` $bias^)? (`axis` $axis^)? (`epsilon` $epsilon^)? "
        "attr-dict `:` type($input) `,` type($scale) (`,` type($bias)^)? `->` "
        "type($result)"
    )

    def flops(self) -> int:
        # An element takes 1 for the mean, 3 for the variance and 3 to be scaled.
        rows, columns = map(prod, self.split(tensor_type(self.input).get_shape()))
        return 5 * rows + (7 + (self.bias is not None)) * rows * columns

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        grad, input = only(grads), in_f32(o, self.input)
        rows, along = self.axes_of(o.shape(input))
        centered = o.sub(input, o.mean(input, along, keepdims=True))
        biases = [o.sum(grad, rows)] if self.bias is not None else []
        return [
            o.one(
                "op.layer_norm_gradient", self.input, grad, self.scale, **self.values
            ),
            self.scale_gradient(o, centered, grad),
            *biases,
        ]

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        input, scale, *bias = operands
        _, columns = self.split(input.shape)
        axes = tuple(range(-len(columns), 0))
        count = input.dtype.type(prod(columns))
        epsilon = input.dtype.type(self.epsilon.value.data)
        with np.errstate(invalid="ignore"):
            mean = np.divide(np.add.reduce(input, axes, keepdims=True), count)
            centered = np.subtract(input, mean)
            squares = np.add.reduce(np.square(centered), axes, keepdims=True)
            deviation = np.sqrt(np.add(np.divide(squares, count), epsilon))
        result = np.multiply(np.divide(centered, deviation), scale)
        for addend in bias:
            result = np.add(result, addend)
        return (result,)

    def build_point(
        self, k: KernelBuilder, values: Sequence[SSAValue], extent: int
    ) -> SSAValue:
        value, scale, *bias = values
        count = k.constant(extent, value.type)
        mean = k.div(all_reduce(k, Fold.ADD, value), count)
        centered = k.sub(value, mean)
        factor = self.factor_of(k, centered, extent)
        result = k.mul(k.mul(centered, factor), scale)
        for addend in bias:
            result = k.add(result, addend)
        return result


@irdl_op_definition
class RmsNormOp(ScaledRowsOp):
    """
    Floats scaled so that the mean of the squares of all elements from one axis on is 1,
    then times a scale that has the shape of these elements.

    The squares are summed in the element type, so that the error grows with their
    number: at most like it, about like its square root for random terms.

    ```mlir
    %y = op.rms_norm %x, %scale axis 1 epsilon 1.000000e-06
      : tensor<4x2x8xf32>, tensor<2x8xf32> -> tensor<4x2x8xf32>
    ```
    """

    name = "op.rms_norm"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$input `,` $scale (`axis` $axis^)? (`epsilon` $epsilon^)? "
        "attr-dict `:` type($input) `,` type($scale) `->` type($result)"
    )

    def flops(self) -> int:
        # An element takes 2 for the mean of squares and 2 to be scaled.
        rows, columns = map(prod, self.split(tensor_type(self.input).get_shape()))
        return 4 * rows + 4 * rows * columns

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        grad, input = only(grads), in_f32(o, self.input)
        operands = self.input, grad, self.scale
        return [
            o.one("op.rms_norm_gradient", *operands, **self.values),
            self.scale_gradient(o, input, grad),
        ]

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        input, scale = operands
        _, columns = self.split(input.shape)
        axes = tuple(range(-len(columns), 0))
        count = input.dtype.type(prod(columns))
        epsilon = input.dtype.type(self.epsilon.value.data)
        with np.errstate(invalid="ignore"):
            squares = np.add.reduce(np.square(input), axes, keepdims=True)
            root = np.sqrt(np.add(np.divide(squares, count), epsilon))
        return (np.multiply(np.divide(input, root), scale),)

    def build_point(
        self, k: KernelBuilder, values: Sequence[SSAValue], extent: int
    ) -> SSAValue:
        value, scale = values
        return k.mul(k.mul(value, self.factor_of(k, value, extent)), scale)


class SharesOp(LineOp, ABC):
    """
    The shares that powers of the elements of a line have in their sum, or what follows
    from these.
    """

    input = operand_def(TensorType)

    assembly_format = (
        "$input (`axis` $axis^)? attr-dict `:` type($input) `->` type($result)"
    )

    def centered(self, array: Array) -> Array:
        """The elements less the largest one of their line, in terms of NumPy."""
        import numpy as np

        axis = self.axis.value.data
        largest = np.max(array, axis=axis, keepdims=True, initial=-inf)
        with np.errstate(invalid="ignore"):
            return np.subtract(array, largest)

    def sums(self, array: Array) -> Array:
        """The sums of the lines, in terms of NumPy."""
        import numpy as np

        axis = self.axis.value.data
        return np.add.reduce(array, axis, dtype=array.dtype, keepdims=True)


@irdl_op_definition
class SoftmaxOp(SharesOp):
    """
    Along one axis, e to the power of each float, over the sum of these powers. The
    largest element is subtracted first, so that no power overflows.

    The sum is in the element type, so that its error grows with the number of terms at
    most.

    ```mlir
    %y = op.softmax %x axis 1 : tensor<4x8x2xf32> -> tensor<4x8x2xf32>
    ```
    """

    name = "op.softmax"

    traits = traits_def(Pure())

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        axis, grad = self.axis.value.data, only(grads)
        return [o.one("op.softmax_gradient", self.result, grad, axis=axis)]

    def flops(self) -> int:
        # A maximum, a difference, a power, a sum and a quotient.
        return 5 * element_count(self.input.type)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        powers = np.exp(self.centered(operands[0]))
        return (np.divide(powers, self.sums(powers)),)

    def build_point(
        self, k: KernelBuilder, values: Sequence[SSAValue], extent: int
    ) -> SSAValue:
        (value,) = values
        largest = all_reduce(k, Fold.MAXNUMF, value)
        power = keep(k, k.exp(k.sub(value, largest)))
        total = all_reduce(k, Fold.ADD, power)
        return k.mul(power, k.div(k.constant(1, value.type), total))


@irdl_op_definition
class LogSoftmaxOp(SharesOp):
    """
    The logarithm of `op.softmax`, without the loss of small values.

    ```mlir
    %y = op.log_softmax %x axis 1 : tensor<4x8x2xf32> -> tensor<4x8x2xf32>
    ```
    """

    name = "op.log_softmax"

    traits = traits_def(Pure())

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        axis, grad = self.axis.value.data, only(grads)
        return [o.one("op.log_softmax_gradient", self.result, grad, axis=axis)]

    def flops(self) -> int:
        # A maximum, a difference, a power, a sum and two differences; a logarithm of
        # each sum.
        elements = element_count(self.input.type)
        extent = tensor_type(self.input).get_shape()[self.axis.value.data]
        return 6 * elements + elements // max(1, extent)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        centered = self.centered(operands[0])
        return (np.subtract(centered, np.log(self.sums(np.exp(centered)))),)

    def build_point(
        self, k: KernelBuilder, values: Sequence[SSAValue], extent: int
    ) -> SSAValue:
        (value,) = values
        less = k.sub(value, all_reduce(k, Fold.MAXNUMF, value))
        return k.sub(less, k.log(all_reduce(k, Fold.ADD, k.exp(less))))
