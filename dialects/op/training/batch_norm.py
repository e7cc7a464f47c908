"""
Batch normalization in training: statistics of channels, and the sums of its gradient.

`op.batch_norm` with these statistics normalizes; the gradients of both ops together are
those of batch normalization.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from penstock.dialects.kernel.body_ops import Fold
from penstock.dialects.kernel.builder import KernelBuilder, memref_type
from penstock.dialects.kernel.row_builder import Point, all_reduce, build_row
from penstock.dialects.op.normalization import check_by_channel, type_of_channels
from penstock.dialects.op.sbp import PARTIAL, SbpSignature, signature
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import check_shape, same_element_type
from penstock.dialects.utils.tensors import element_count, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array


class ChannelSumsOp(TensorOp, ABC):
    """
    An op whose first operand are floats [n, channels, ...], with two results of one
    number a channel.
    """

    def infer_types(self) -> Sequence[TensorType]:
        same_element_type(self.operands)
        type = type_of_channels(self.operands[0])
        return (TensorType(type.element_type, type.get_shape()[1:2]),) * 2

    def build_channels(
        self,
        k: KernelBuilder,
        arrays: Sequence[SSAValue],
        others: Sequence[tuple[SSAValue, AffineMap]],
        outs: Sequence[SSAValue],
        point: Point,
    ) -> None:
        """
        Build a kernel from the elements of arrays [n, channels, ...], and others with a
        map of the loops over images, channels and elements of a channel.
        """
        images, channels, *extents = memref_type(arrays[0]).get_shape()
        shape = [images, channels, prod(extents)]
        views = [k.view(array, shape) for array in arrays]
        maps = [AffineMap.identity(3)] * len(views)
        maps += [map for _, map in others] + [OF_CHANNEL] * len(outs)
        ins = [*views, *(value for value, _ in others)]
        build_row(k, [0, 2], ins, outs, maps, point)


OF_CHANNEL = AffineMap(3, 0, (AffineExpr.dimension(1),))
"""The index of a number a channel, by the loops over images, channels and elements."""

FIRST = AffineMap(
    3, 0, (AffineExpr.constant(0), AffineExpr.dimension(1), AffineExpr.constant(0))
)
"""The index of the first element of a channel."""


@irdl_op_definition
class BatchNormStatisticsOp(ChannelSumsOp):
    """
    The mean and the variance of each channel of floats [n, channels, ...], over all
    images and places: the sum of the squares about the mean, over their number.

    Both are found in one pass, from sums about the first element of the channel, in the
    element type: their error grows with the number of terms, and with the square of the
    distance from that element to the mean in units of the deviation.

    ```mlir
    %m, %v = op.batch_norm_statistics %x
      : tensor<2x8x4x4xf32> -> tensor<8xf32>, tensor<8xf32>
    ```
    """

    name = "op.batch_norm_statistics"

    input = operand_def(TensorType)
    mean = result_def(TensorType)
    variance = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$input attr-dict `:` type($input) `->` type($mean) `,` type($variance)"
    )

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return [signature([1], [0, 0])]

    def flops(self) -> int:
        return 4 * element_count(self.input.type)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        (input,) = operands
        axes = (0, *range(2, input.ndim))
        with np.errstate(invalid="ignore"):
            count = input.dtype.type(self._count(input.shape))
            mean = np.divide(np.add.reduce(input, axes, keepdims=True), count)
            squares = np.square(np.subtract(input, mean))
            variance = np.divide(np.add.reduce(squares, axes), count)
        return np.reshape(mean, -1), variance

    @staticmethod
    def _count(shape: Sequence[int]) -> int:
        """The elements of a channel."""
        return shape[0] * prod(shape[2:])

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        images, channels, *extents = memref_type(ins[0]).get_shape()
        shape = [images, channels, prod(extents)]
        count = self._count(memref_type(ins[0]).get_shape())
        if not count:
            for out in outs:
                k.fill(out, float("nan"))
            return

        def point(k: KernelBuilder, args: Sequence[SSAValue]) -> Sequence[SSAValue]:
            value, first = args
            number = k.constant(count, value.type)
            moved = k.sub(value, first)
            offset = k.div(all_reduce(k, Fold.ADD, moved), number)
            square = k.div(all_reduce(k, Fold.ADD, k.mul(moved, moved)), number)
            variance = k.sub(square, k.mul(offset, offset))
            least = k.maximum(variance, k.constant(0, value.type))
            return [k.add(first, offset), least]

        self.build_channels(k, ins, [(k.view(ins[0], shape), FIRST)], outs, point)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        of_mean, of_variance = grads
        shape = o.shape(self.input)
        count = self._count(shape)
        total = None
        if of_variance is not None:
            moved = o.sub(self.input, by_channel(o, self.mean, shape))
            total = o.mul(moved, by_channel(o, o.mul(of_variance, 2 / count), shape))
        if of_mean is not None:
            share = by_channel(o, o.mul(of_mean, 1 / count), shape)
            total = o.expand(share, shape) if total is None else o.add(total, share)
        return [total]


@irdl_op_definition
class BatchNormGradientSumsOp(ChannelSumsOp):
    """
    The sums of each channel of gradients [n, channels, ...], over all images and
    places, and of their products with the floats of the same places less a number: what
    the gradients of a batch normalization by all its parameters are made of.

    Both are found in one pass, in the element type, so that the error grows with the
    number of terms: at most like it, about like its square root for random terms.

    ```mlir
    %s, %p = op.batch_norm_gradient_sums %x, %g, %mean
      : tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<8xf32>
      -> tensor<8xf32>, tensor<8xf32>
    ```
    """

    name = "op.batch_norm_gradient_sums"
    NO_GRADIENT: ClassVar[str] = "there are no second derivatives of normalizations"

    input = operand_def(TensorType)
    grad = operand_def(TensorType)
    mean = operand_def(TensorType)
    sums = result_def(TensorType)
    products = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$input `,` $grad `,` $mean attr-dict `:` type($input) `,` type($grad) `,` "
        "type($mean) `->` type($sums) `,` type($products)"
    )

    def infer_types(self) -> Sequence[TensorType]:
        types = super().infer_types()
        type = tensor_type(self.input)
        check_shape("the gradient", tensor_type(self.grad), type.get_shape())
        check_by_channel(type, [("mean", self.mean)])
        return types

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        rank = tensor_type(self.input).get_num_dims()
        others = [
            signature([axis, axis, None], [PARTIAL, PARTIAL])
            for axis in range(rank)
            if axis != 1
        ]
        return [*others, signature([1, 1, 0], [0, 0])]

    def flops(self) -> int:
        return 4 * element_count(self.input.type)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        input, grad, mean = operands
        axes = (0, *range(2, input.ndim))
        moved = np.subtract(input, mean.reshape(-1, *[1] * (input.ndim - 2)))
        products = np.add.reduce(np.multiply(grad, moved), axes)
        return np.add.reduce(grad, axes), products

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        def point(k: KernelBuilder, args: Sequence[SSAValue]) -> Sequence[SSAValue]:
            value, grad, mean = args
            product = k.mul(grad, k.sub(value, mean))
            return [all_reduce(k, Fold.ADD, grad), all_reduce(k, Fold.ADD, product)]

        self.build_channels(k, ins[:2], [(ins[2], OF_CHANNEL)], outs, point)


def by_channel(o: GradientBuilder, value: SSAValue, shape: Sequence[int]) -> SSAValue:
    """One number a channel, as it is broadcast to a shape [n, channels, ...]."""
    return o.reshape(value, [shape[1], *[1] * (len(shape) - 2)])
