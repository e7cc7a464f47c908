"""
Max, average and global average pooling: ops of the `op` dialect, and their kernels.

The ONNX importer makes these ops. `kernel_body` calls `build_kernel`: the windows of a
max or average pool are a `kernel.pool`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects import kernel
from penstock.dialects.kernel.body_ops import Fold
from penstock.dialects.kernel.builder import KernelBuilder, memref_type
from penstock.dialects.kernel.pool import Pool
from penstock.dialects.kernel.row_builder import all_reduce, build_row
from penstock.dialects.kernel.windows import Window, window_view
from penstock.dialects.op.axes import I64List, int_list
from penstock.dialects.op.elementwise import ANY_ELEMENTS, FLOATS, UNARY_SUM
from penstock.dialects.op.sbp import SbpSignature, signature
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import lowest
from penstock.dialects.op.windows.transposed_convolution import (
    images_convolved,
    transposed,
)
from penstock.dialects.op.windows.window_numbers import (
    numbers_of,
    pooled_shape,
    pooled_taps,
    windows_of,
)
from penstock.dialects.utils.gradients import only
from penstock.dialects.utils.signless import UNSIGNED
from penstock.dialects.utils.tensors import element_count, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array


class PoolOp(TensorOp, ABC):
    """
    An op that combines the elements of each window of images [n, channels, h, w].

    `kernel` is the window's taps down and across, `pads` are at the top, left, bottom
    and right. With `ceil_mode` the last windows may end behind the pads, as long as
    they do not start behind the image.
    """

    input = operand_def(TensorType)
    kernel = prop_def(I64List)
    strides = prop_def(I64List, default_value=int_list([1, 1]))
    pads = prop_def(I64List, default_value=int_list([0, 0, 0, 0]))
    ceil_mode = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    KIND: ClassVar[Pool]
    """The kind of its pool in kernels."""

    @property
    @abstractmethod
    def windows(self) -> tuple[Window, Window]:
        """The windows down and across an image."""

    @property
    def counts_pads(self) -> bool:
        """Whether a mean counts zeros in the pads."""
        return False

    def infer_types(self) -> Sequence[TensorType]:
        type = tensor_type(self.input)
        return (TensorType(type.element_type, pooled_shape(type, self.windows)),)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return [signature([axis], [axis]) for axis in range(2)]

    def flops(self) -> int:
        return pooled_taps(tensor_type(self.input), self.windows)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        k.effect(
            kernel.PoolOp(
                self.KIND,
                ins[0],
                outs[0],
                self.windows,
                (2, 3),
                counted=self.counts_pads,
                unsigned=memref_type(ins[0]).element_type in UNSIGNED,
            )
        )


@irdl_op_definition
class MaxPool2dOp(PoolOp):
    """
    The largest element of each window of images [n, channels, h, w]; a NaN where there
    is one, and the lowest number of the element type where all taps are padding. Of 0.0
    and -0.0 either may be the largest.

    `kernel` is the window's taps down and across, `dilations` apart; `pads` are at the
    top, left, bottom and right. With `ceil_mode` the last windows may end behind the
    pads, as long as they do not start behind the image.

    ```mlir
    %y = op.max_pool2d %x kernel [3, 3] strides [2, 2] ceil_mode
      : tensor<1x8x16x16xf32> -> tensor<1x8x8x8xf32>
    ```
    """

    name = "op.max_pool2d"
    PRECISION: ClassVar = "clear"
    KIND: ClassVar[Pool] = Pool.MAX

    dilations = prop_def(I64List, default_value=int_list([1, 1]))

    traits = traits_def(Pure())

    assembly_format = (
        "$input `kernel` $kernel (`strides` $strides^)? (`pads` $pads^)? "
        "(`dilations` $dilations^)? (`ceil_mode` $ceil_mode^)? attr-dict "
        "`:` type($input) `->` type($result)"
    )

    @property
    def windows(self) -> tuple[Window, Window]:
        return windows_of(
            self.kernel.get_values(),
            self.strides,
            self.pads,
            self.dilations,
            self.ceil_mode is not None,
        )

    def infer_types(self) -> Sequence[TensorType]:
        ANY_ELEMENTS.verify(tensor_type(self.input))
        return super().infer_types()

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        padding = lowest(tensor_type(self.input).element_type)
        view = window_view(operands[0], self.windows, padding)
        return (np.max(view, axis=(-2, -1)),)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        operands = self.input, self.result, only(grads)
        numbers = {
            "kernel": self.kernel.get_values(),
            "ceil_mode": self.ceil_mode is not None,
            **numbers_of(self.windows),
        }
        return [o.one("op.max_pool2d_gradient", *operands, **numbers)]


@irdl_op_definition
class AveragePool2dOp(PoolOp):
    """
    The mean of each window of images [n, channels, h, w] of floats.

    `kernel` is the window's taps down and across, `pads` are at the top, left, bottom
    and right. A mean is that of the elements inside the image; with
    `count_include_pad` that of these elements and zeros in the pads. With `ceil_mode`
    the last windows may end behind the pads, as long as they do not start behind the
    image. Sums are in the element type, over the few taps of a window.

    ```mlir
    %y = op.average_pool2d %x kernel [2, 2] strides [2, 2] pads [1, 1, 1, 1]
      count_include_pad : tensor<1x8x6x6xf32> -> tensor<1x8x4x4xf32>
    ```
    """

    name = "op.average_pool2d"
    PRECISION: ClassVar = "grey"
    KIND: ClassVar[Pool] = Pool.MEAN

    count_include_pad = opt_prop_def(UnitAttr)

    traits = traits_def(Pure())

    assembly_format = (
        "$input `kernel` $kernel (`strides` $strides^)? (`pads` $pads^)? "
        "(`ceil_mode` $ceil_mode^)? (`count_include_pad` $count_include_pad^)? "
        "attr-dict `:` type($input) `->` type($result)"
    )

    @property
    def windows(self) -> tuple[Window, Window]:
        return windows_of(
            self.kernel.get_values(),
            self.strides,
            self.pads,
            ceil=self.ceil_mode is not None,
        )

    def infer_types(self) -> Sequence[TensorType]:
        FLOATS.verify(tensor_type(self.input))
        return super().infer_types()

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return (*super().sbp_signatures(devices), UNARY_SUM)

    def flops(self) -> int:
        return super().flops() + element_count(self.result.type)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        (array,) = operands
        down, across = self._counts()
        sums = np.add.reduce(
            window_view(array, self.windows, 0), axis=(-2, -1), dtype=array.dtype
        )
        counts = np.multiply.outer(down, across).astype(array.dtype)
        with np.errstate(invalid="ignore"):
            return (np.divide(sums, counts),)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        shape = o.shape(self.input)
        if 0 in shape:
            return [o.zeros(self.input)]
        g, rank = only(grads), len(shape)
        for axis, counts in enumerate(self._counts(), 2):
            extents = [1] * rank
            extents[axis] = len(counts)
            g = o.mul(g, o.reshape(shares(o, counts, g), extents))
        ones = o.filled(1, [shape[1], 1, *self.kernel.get_values()], g)
        facts = self.windows, shape[2:], shape[1], images_convolved(o)
        return [transposed(o, g, ones, *facts)]

    @property
    def counts_pads(self) -> bool:
        return self.count_include_pad is not None

    def _counts(self) -> tuple[list[int], list[int]]:
        """The number of taps of each window that count, for both dimensions."""
        extents = tensor_type(self.input).get_shape()[2:]
        down, across = (
            window.taps_inside(extent, self.counts_pads)
            for window, extent in zip(self.windows, extents, strict=True)
        )
        return down, across


def shares(o: GradientBuilder, counts: Sequence[int], like: SSAValue) -> SSAValue:
    """One over each count; 0 of a window without a tap, whose mean is no number."""
    runs = [(count, len([*run])) for count, run in groupby(counts)]
    parts = [o.filled(1 / n if n else 0, [times], like) for n, times in runs]
    return o.concat(parts, 0)


@irdl_op_definition
class GlobalAveragePoolOp(TensorOp):
    """
    The mean of each channel of floats [n, channels, ...]; all other extents become 1.

    Sums are in the element type, so that the error grows with the number of terms: at
    most like it, about like its square root for random terms.

    ```mlir
    %y = op.global_average_pool %x : tensor<1x8x6x6xf32> -> tensor<1x8x1x1xf32>
    ```
    """

    name = "op.global_average_pool"
    PRECISION: ClassVar = "grey"

    input = operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"

    def infer_types(self) -> Sequence[TensorType]:
        type = tensor_type(self.input)
        FLOATS.verify(type)
        if type.get_num_dims() < 3:
            raise VerifyException(
                f"the input should have at least 3 dimensions, got {type}"
            )
        images, channels, *extents = type.get_shape()
        shape = [images, channels, *[1] * len(extents)]
        return (TensorType(type.element_type, shape),)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return (*(signature([axis], [axis]) for axis in range(2)), UNARY_SUM)

    def flops(self) -> int:
        return element_count(self.input.type) + element_count(self.result.type)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        (array,) = operands
        axes = tuple(range(2, array.ndim))
        sums = np.add.reduce(array, axis=axes, dtype=array.dtype, keepdims=True)
        count = array.dtype.type(prod(array.shape[2:]))
        with np.errstate(invalid="ignore"):
            return (np.divide(sums, count),)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        shape = o.shape(self.input)
        share = o.mul(only(grads), 1 / max(1, prod(shape[2:])))
        return [o.expand(share, shape)]

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        images, channels, *extents = memref_type(ins[0]).get_shape()
        rows, columns = images * channels, prod(extents)
        place = AffineMap(2, 0, (AffineExpr.dimension(0),))

        def point(k: KernelBuilder, args: Sequence[SSAValue]) -> Sequence[SSAValue]:
            total = all_reduce(k, Fold.ADD, args[0])
            return [k.div(total, k.constant(columns, total.type))]

        input, out = k.view(ins[0], [rows, columns]), k.view(outs[0], [rows])
        build_row(k, [1], [input], [out], [AffineMap.identity(2), place], point)
