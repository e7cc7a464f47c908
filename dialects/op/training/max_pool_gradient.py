"""`op.max_pool2d_gradient`: where the gradient of a largest element goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from xdsl.dialects.builtin import TensorType, UnitAttr, i1
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.kernel.windows import Window, check_pads, window_view
from penstock.dialects.op.axes import I64List, int_list
from penstock.dialects.op.elementwise import FLOATS
from penstock.dialects.op.sbp import SbpSignature, signature
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import check_rank, check_shape, same_element_type
from penstock.dialects.op.windows.window_numbers import windows_of
from penstock.dialects.utils.tensors import tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array


@irdl_op_definition
class MaxPool2dGradientOp(TensorOp):
    """
    The gradient of `op.max_pool2d` by its images [n, channels, h, w], given these, the
    largest element of each window and its gradient. It goes to the first tap of the
    window, row by row, that is equal to the largest element; to the first NaN where
    this is one. A window of padding alone has none.

    Sums are in the element type, over the few windows that an element is part of.

    ```mlir
    %d = op.max_pool2d_gradient %x, %y, %g kernel [3, 3] strides [2, 2] ceil_mode
      : tensor<1x8x16x16xf32>, tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>
      -> tensor<1x8x16x16xf32>
    ```
    """

    name = "op.max_pool2d_gradient"
    NO_GRADIENT: ClassVar[str] = "there are no second derivatives of pools"

    input = operand_def(TensorType)
    largest = operand_def(TensorType)
    grad = operand_def(TensorType)
    kernel = prop_def(I64List)
    strides = prop_def(I64List, default_value=int_list([1, 1]))
    pads = prop_def(I64List, default_value=int_list([0, 0, 0, 0]))
    dilations = prop_def(I64List, default_value=int_list([1, 1]))
    ceil_mode = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$input `,` $largest `,` $grad `kernel` $kernel (`strides` $strides^)? "
        "(`pads` $pads^)? (`dilations` $dilations^)? (`ceil_mode` $ceil_mode^)? "
        "attr-dict `:` type($input) `,` type($largest) `,` type($grad) "
        "`->` type($result)"
    )

    @property
    def windows(self) -> tuple[Window, Window]:
        """The windows down and across an image."""
        return windows_of(
            self.kernel.get_values(),
            self.strides,
            self.pads,
            self.dilations,
            self.ceil_mode is not None,
        )

    def infer_types(self) -> Sequence[TensorType]:
        same_element_type(self.operands)
        type = tensor_type(self.input)
        FLOATS.verify(type)
        check_rank("the input", type, 4)
        check_pads(self.windows)
        images, channels, *extents = type.get_shape()
        counts = [w.count(e) for w, e in zip(self.windows, extents, strict=True)]
        for name, value in (
            ("result of the pool", self.largest),
            ("gradient", self.grad),
        ):
            check_shape(f"the {name}", tensor_type(value), [images, channels, *counts])
        return (type,)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return [signature([axis] * 3, [axis]) for axis in range(2)]

    def flops(self) -> int:
        images, channels, *extents = tensor_type(self.input).get_shape()
        taps = (
            window.count_taps(extent)
            for window, extent in zip(self.windows, extents, strict=True)
        )
        return images * channels * prod(taps)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        input, largest, grad = operands
        down, across = self.windows
        # Padding is no tap: no element is equal to a NaN, and 0 says it is none itself.
        taps = window_view(input, self.windows, 0)
        inside = window_view(np.ones_like(input, np.bool_), self.windows, 0)
        wanted = largest[..., None, None]
        hits = inside & ((taps == wanted) | np.isnan(taps))
        hits = hits.reshape(*grad.shape, down.taps * across.taps)
        tap = np.argmax(hits, -1)
        found = np.take_along_axis(hits, tap[..., None], -1)[..., 0]
        image, channel, row, column = np.nonzero(found)
        at = tap[image, channel, row, column]
        rows = row * down.stride - down.before + at // across.taps * down.dilation
        columns = (
            column * across.stride - across.before + at % across.taps * across.dilation
        )
        result = np.zeros_like(input)
        np.add.at(result, (image, channel, rows, columns), grad[found])
        return (result,)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        type = memref_type(ins[0])
        images, channels, height, width = type.get_shape()
        *_, rows, columns = memref_type(ins[1]).get_shape()
        planes = images * channels
        input, out = (
            k.view(value, [planes, height, width]) for value in (ins[0], outs[0])
        )
        largest, grad = (k.view(value, [planes, rows, columns]) for value in ins[1:])

        zero = k.constant(0, type.element_type)
        arrays = _Arrays(input, largest, grad, out)

        def body(k: KernelBuilder, place: Sequence[SSAValue]) -> None:
            (plane,) = place

            def window(k: KernelBuilder, row: SSAValue, column: SSAValue) -> None:
                self._build_window(k, arrays, [plane, row, column])

            each_of(k, height, width, lambda k, y, x: k.store(zero, out, [plane, y, x]))
            each_of(k, rows, columns, window)

        k.parallel([planes], body)

    def _build_window(
        self, k: KernelBuilder, arrays: _Arrays, place: Sequence[SSAValue]
    ) -> None:
        """Add the gradient of a window to the first of its taps that is the largest."""
        plane, *index = place
        extents = memref_type(arrays.input).get_shape()[1:]
        bounds = [
            window.build_taps(k, at, extent)
            for window, at, extent in zip(self.windows, index, extents, strict=True)
        ]
        largest, grad = k.load(arrays.largest, place), k.load(arrays.grad, place)

        def tap(k: KernelBuilder, at: Sequence[SSAValue], found: SSAValue) -> SSAValue:
            position = [plane]
            for window, taps, own in zip(self.windows, bounds, at, strict=True):
                position.append(window.build_position(k, taps.start, own))
            value = k.load(arrays.input, position)
            is_nan = k.compare("ne", value, value)
            hit = k.maximum(k.compare("eq", value, largest), is_nan)

            def give(k: KernelBuilder) -> None:
                total = k.add(k.load(arrays.out, position), grad)
                k.store(total, arrays.out, position)

            k.when(k.select(found, k.constant(0, i1), hit), give)
            return k.maximum(found, hit)

        ranges = [(taps.lower, taps.upper) for taps in bounds]
        k.accumulate(ranges, k.constant(0, i1), tap)


class _Arrays(NamedTuple):
    """The memrefs of a kernel: planes of lines."""

    input: SSAValue
    largest: SSAValue
    grad: SSAValue
    out: SSAValue


def each_of(
    k: KernelBuilder,
    rows: int,
    columns: int,
    body: Callable[[KernelBuilder, SSAValue, SSAValue], None],
) -> None:
    """Two sequential loops, one in the other, that carry nothing."""
    k.each(rows, lambda k, y: k.each(columns, lambda k, x: body(k, y, x)))
