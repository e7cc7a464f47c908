"""Group normalization: the channels of an image in groups, a row each."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DYNAMIC_INDEX, FloatAttr, TensorType, f64
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
from penstock.dialects.kernel.row_builder import all_reduce, build_row
from penstock.dialects.op.axes import I64Attr
from penstock.dialects.op.normalization import check_by_channel, type_of_channels
from penstock.dialects.op.row_ops import EPSILON
from penstock.dialects.op.sbp import SbpSignature, signature
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.op.verify import same_element_type
from penstock.dialects.utils.gradients import GradientBuilder, Gradients, in_f32, only
from penstock.dialects.utils.tensors import element_count, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.utils.tensors import Array


@irdl_op_definition
class GroupNormOp(TensorOp):
    """
    Floats [n, channels, ...] moved and scaled so that the elements of each group of
    channels of an image have mean 0 and variance 1, then times a scale, plus a bias if
    there is one; both have one number a channel. Groups are channels that follow each
    other, as many in each; with one group a channel it is an instance normalization.

    The mean is found first and then the variance around it, both as sums in the
    element type, so that their error grows with the number of terms: at most like it,
    about like its square root for random terms.

    ```mlir
    %y = op.group_norm %x, %scale, %bias groups 2 epsilon 1.000000e-03
      : tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32> -> tensor<2x8x4x4xf32>
    ```
    """

    name = "op.group_norm"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    groups = prop_def(I64Attr)
    epsilon = prop_def(FloatAttr.constr(eq(f64)), default_value=FloatAttr(EPSILON, f64))
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$input `,` $scale (`,` $bias^)? `groups` $groups (`epsilon` $epsilon^)? "
        "attr-dict `:` type($input) `,` type($scale) (`,` type($bias)^)? `->` "
        "type($result)"
    )

    def infer_types(self) -> Sequence[TensorType]:
        same_element_type(self.operands)
        type = type_of_channels(self.input)
        channels, groups = type.get_shape()[1], self.groups.value.data
        if groups < 1:
            raise VerifyException(f"there should be at least one group, got {groups}")
        if channels != DYNAMIC_INDEX and channels % groups:
            raise VerifyException(f"{channels} channels do not make {groups} groups")
        parameters = zip(("scale", "bias"), self.operands[1:], strict=False)
        check_by_channel(type, parameters)
        return (type,)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        # Parts of the channels would have fewer groups than the op says.
        return [signature([0, *[None] * (len(self.operands) - 1)], [0])]

    def _extents(self, shape: Sequence[int]) -> tuple[int, int, int, int]:
        """Images, groups, the channels of a group and the elements of a channel."""
        images, channels, *others = shape
        groups = self.groups.value.data
        return images, groups, channels // groups, prod(others)

    def flops(self) -> int:
        # An element takes 1 for the mean, 3 for the variance and 3 to be scaled.
        images, groups, *_ = self._extents(tensor_type(self.input).get_shape())
        elements = element_count(self.input.type)
        return 5 * images * groups + (7 + (self.bias is not None)) * elements

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        return (InPlacePair(0, 0),)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        shape = o.shape(self.input)
        images, groups, *group = self._extents(shape)
        input, grad = in_f32(o, self.input), in_f32(o, only(grads))
        of_channel = [-1, *[1] * (len(shape) - 2)]
        weighted = o.mul(grad, o.reshape(in_f32(o, self.scale), of_channel))
        rows = o.reshape(input, [images * groups, prod(group)])
        centered = o.sub(rows, o.mean(rows, [1], keepdims=True))
        square = o.mean(o.square(centered), [1], keepdims=True)
        factor = o.rsqrt(o.add(square, self.epsilon.value.data))
        normal = o.reshape(o.mul(centered, factor), shape)
        found = o.one(
            "op.layer_norm_gradient",
            rows,
            o.reshape(weighted, o.shape(rows)),
            o.filled(1, [prod(group)], rows),
            epsilon=self.epsilon.value.data,
        )
        axes = [axis for axis in range(len(shape)) if axis != 1]
        sums = [o.sum(o.mul(grad, normal), axes), o.sum(grad, axes)]
        gradients = [o.reshape(found, shape), *sums[: len(self.operands) - 1]]
        element = o.element(self.input)
        return [o.cast(value, element) for value in gradients]

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        input, *parameters = operands
        extents = self._extents(input.shape)
        count = input.dtype.type(prod(extents[2:]))
        epsilon = input.dtype.type(self.epsilon.value.data)
        rows = np.reshape(input, extents)
        with np.errstate(invalid="ignore"):
            mean = np.divide(np.add.reduce(rows, (2, 3), keepdims=True), count)
            centered = np.subtract(rows, mean)
            squares = np.add.reduce(np.square(centered), (2, 3), keepdims=True)
            deviation = np.sqrt(np.add(np.divide(squares, count), epsilon))
        result = np.reshape(np.divide(centered, deviation), input.shape)
        scale, *biases = (
            np.reshape(each, (-1, *[1] * (input.ndim - 2))) for each in parameters
        )
        result = np.multiply(result, scale)
        for bias in biases:
            result = np.add(result, bias)
        return (result,)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        images, groups, channels, elements = self._extents(
            memref_type(ins[0]).get_shape()
        )
        of_channel = [channels] if channels != 1 else []
        shape = [images, groups, *of_channel]
        if elements != 1 or not of_channel:
            shape.append(elements)
        input, out = k.view(ins[0], shape), k.view(outs[0], shape)
        parameters = [k.view(value, [groups, *of_channel]) for value in ins[1:]]
        identity = AffineMap.identity(len(shape))
        dims = [AffineExpr.dimension(1 + n) for n in range(1 + len(of_channel))]
        of_parameter = AffineMap(len(shape), 0, tuple(dims))
        maps = [identity, *[of_parameter] * len(parameters), identity]

        def point(k: KernelBuilder, args: Sequence[SSAValue]) -> Sequence[SSAValue]:
            value, *parameters = args
            return [self._point(k, value, parameters, channels * elements)]

        along = range(2, len(shape))
        build_row(k, along, [input, *parameters], [out], maps, point)

    def _point(
        self,
        k: KernelBuilder,
        value: SSAValue,
        parameters: Sequence[SSAValue],
        extent: int,
    ) -> SSAValue:
        """Build an element of a row of so many points."""
        type = value.type
        count = k.constant(extent, type)
        centered = k.sub(value, k.div(all_reduce(k, Fold.ADD, value), count))
        squares = all_reduce(k, Fold.ADD, k.mul(centered, centered))
        epsilon = k.constant(self.epsilon.value.data, type)
        root = k.sqrt(k.add(k.div(squares, count), epsilon))
        scale, *biases = parameters
        result = k.mul(k.mul(centered, k.div(k.constant(1, type), root)), scale)
        for bias in biases:
            result = k.add(result, bias)
        return result
