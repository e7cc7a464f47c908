"""`op.conv2d_filter_gradient`: the gradient of a convolution by its weights."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, TensorType, i64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.views import PaddedOp
from penstock.dialects.kernel.windows import Window, window_view
from penstock.dialects.op.axes import I64Attr, I64List, int_list
from penstock.dialects.op.elementwise import FLOATS
from penstock.dialects.op.sbp import PARTIAL, Part, SbpSignature, signature
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import check_rank, same_element_type
from penstock.dialects.op.windows.window_numbers import windows_of
from penstock.dialects.utils.tensors import tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array


@irdl_op_definition
class Conv2dFilterGradientOp(TensorOp):
    """
    The gradient of `op.conv2d` by its weights [out channels, channels / groups, taps
    down, taps across], given its images [n, channels, h, w] and the gradient of its
    result [n, out channels, rows, columns]: for each tap the sum of the products over
    all windows. There may be windows behind those that have a gradient.

    Sums are in the element type, so that the error grows with the number of windows: at
    most like it, about like its square root for random terms.

    ```mlir
    %w = op.conv2d_filter_gradient %x, %g kernel [3, 3] strides [2, 2] pads [1, 1, 0, 0]
      groups 2 : tensor<1x4x8x8xf32>, tensor<1x6x4x4xf32> -> tensor<6x2x3x3xf32>
    ```
    """

    name = "op.conv2d_filter_gradient"
    NO_GRADIENT: ClassVar[str] = "there are no second derivatives of convolutions"

    input = operand_def(TensorType)
    grad = operand_def(TensorType)
    kernel = prop_def(I64List)
    strides = prop_def(I64List, default_value=int_list([1, 1]))
    pads = prop_def(I64List, default_value=int_list([0, 0, 0, 0]))
    dilations = prop_def(I64List, default_value=int_list([1, 1]))
    groups = prop_def(I64Attr, default_value=IntegerAttr(1, i64))
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$input `,` $grad `kernel` $kernel (`strides` $strides^)? (`pads` $pads^)? "
        "(`dilations` $dilations^)? (`groups` $groups^)? "
        "attr-dict `:` type($input) `,` type($grad) `->` type($result)"
    )

    @property
    def windows(self) -> tuple[Window, Window]:
        """The windows of the weights down and across an image."""
        kernel = self.kernel.get_values()
        return windows_of(kernel, self.strides, self.pads, self.dilations)

    def infer_types(self) -> Sequence[TensorType]:
        same_element_type(self.operands)
        input, grad = tensor_type(self.input), tensor_type(self.grad)
        FLOATS.verify(input)
        check_rank("the input", input, 4)
        check_rank("the gradient", grad, 4)
        self._check_windows(input.get_shape(), grad.get_shape())
        channels, outputs = input.get_shape()[1], grad.get_shape()[1]
        groups = self.groups.value.data
        if groups < 1:
            raise VerifyException(f"groups should be at least 1, got {groups}")
        for name, count in (("", channels), ("out ", outputs)):
            if count != DYNAMIC_INDEX and count % groups:
                raise VerifyException(
                    f"{count} {name}channels do not divide into {groups} groups"
                )
        of_group = channels if channels == DYNAMIC_INDEX else channels // groups
        shape = [outputs, of_group, *self.kernel.get_values()]
        return (TensorType(input.element_type, shape),)

    def _check_windows(self, input: Sequence[int], grad: Sequence[int]) -> None:
        images = input[0], grad[0]
        if DYNAMIC_INDEX not in images and images[0] != images[1]:
            raise VerifyException(
                f"{images[0]} images should have as many gradients, got {images[1]}"
            )
        for window, extent, own in zip(self.windows, input[2:], grad[2:], strict=True):
            count = window.count(extent)
            if DYNAMIC_INDEX not in (count, own) and own > count:
                raise VerifyException(
                    f"an extent of {extent} has {count} windows, got gradients of {own}"
                )

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        groups = self.groups.value.data
        found = [signature([0, 0], [PARTIAL])]
        if groups == 1:
            found += [signature([None, 1], [0]), signature([1, None], [1])]
        elif groups % devices == 0:
            found.append(signature([1, 1], [0]))
        return found

    def part(
        self, operands: Sequence[SSAValue], parts: Sequence[Part]
    ) -> Conv2dFilterGradientOp:
        # Channels of several groups are cut between groups.
        groups, whole = self.groups.value.data, tensor_type(self.input).get_shape()[1]
        if groups > 1 and whole:
            groups = groups * tensor_type(operands[0]).get_shape()[1] // whole
        properties = {**self.properties, "groups": IntegerAttr(groups, i64)}
        return self.remade(operands, parts, properties)

    def flops(self) -> int:
        images, _, *extents = tensor_type(self.input).get_shape()
        outputs, channels, *_ = tensor_type(self.result).get_shape()
        taps = (
            window.count_taps(extent)
            for window, extent in zip(self.windows, extents, strict=True)
        )
        return 2 * images * outputs * channels * prod(taps)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        input, grad = operands
        groups = self.groups.value.data
        images, outputs, rows, columns = grad.shape
        patches = window_view(input, self.windows, 0)[:, :, :rows, :columns]
        _, channels, _, _, *taps = patches.shape
        split = images, groups, channels // groups, rows, columns, *taps
        count = images * rows * columns
        terms = patches.reshape(split).transpose(1, 0, 3, 4, 2, 5, 6)
        own = grad.reshape(images, groups, outputs // groups, rows, columns)
        result = np.matmul(
            own.transpose(1, 2, 0, 3, 4).reshape(groups, outputs // groups, count),
            terms.reshape(groups, count, channels // groups * prod(taps)),
        )
        return (result.reshape(outputs, channels // groups, *taps),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        groups = self.groups.value.data
        axes = [1, 1, 0]
        values = [*ins, *outs]
        if groups > 1:
            values = [
                split_axis(k, value, axis, groups)
                for value, axis in zip(values, axes, strict=True)
            ]
        count = 7 + (groups > 1)
        loops = [AffineExpr.dimension(loop) for loop in range(count)]
        group = loops[:-7]
        output, channel, *taps, image, row, column = loops[-7:]
        places = [
            place * window.stride + tap * window.dilation
            for place, tap, window in zip(
                (row, column), taps, self.windows, strict=True
            )
        ]
        maps = [
            AffineMap(count, 0, tuple(exprs))
            for exprs in (
                [image, *group, output, row, column],
                [image, *group, channel, *places],
                [*group, output, channel, *taps],
            )
        ]
        input, grad, result = values
        k.effect(ContractOp((grad, self._padded(k, input)), [result], maps))

    def _padded(self, k: KernelBuilder, input: SSAValue) -> SSAValue:
        """The images, with the pads around them."""
        if not any(self.pads.iter_values()):
            return input
        top, left, bottom, right = self.pads.get_values()
        others = [0] * (memref_type(input).get_num_dims() - 2)
        return k.insert(PaddedOp(input, [*others, top, left], [*others, bottom, right]))


def split_axis(k: KernelBuilder, value: SSAValue, axis: int, groups: int) -> SSAValue:
    """A view of a memref, one of whose dimensions is cut into groups."""
    shape = list(memref_type(value).get_shape())
    shape[axis : axis + 1] = groups, shape[axis] // groups
    return k.view(value, shape)
