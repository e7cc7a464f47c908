"""The op of the op dialect that scales elements by those of neighbouring channels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import FloatAttr, TensorType, f64
from xdsl.dialects.math import PowFOp
from xdsl.ir import SSAValue
from xdsl.irdl import (
    eq,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.interfaces import TensorOp, element_count, tensor_type
from penstock.dialects.kernel import KernelBuilder, memref_type
from penstock.dialects.op.axes import I64Attr
from penstock.dialects.op.elementwise import FLOATS
from penstock.dialects.op.windows import Window
from penstock.dialects.sbp import SbpSignature, signature

if TYPE_CHECKING:
    from penstock.dialects.interfaces import Array

F64Attr = FloatAttr.constr(eq(f64))

MAX_UNROLLED = 16
"""The channels whose squares are added without a loop."""
MIN_LINE = 4
"""The places that are worth a loop of their own."""


@irdl_op_definition
class LocalResponseNormOp(TensorOp):
    """
    Each float of a tensor [n, channels, ...] divided by a power of the squares around
    it: `input / (bias + alpha / size * squares) ^ beta`, where `squares` is their sum
    over `size` channels at the same place, of which `(size - 1) / 2`, rounded down,
    come before that of the float. Channels that are not there count as 0.

    The sum is in the element type.

    ```mlir
    %y = op.local_response_norm %x size 5 alpha 2.000000e-04 beta 5.000000e-01
      : tensor<2x8x4x4xf32> -> tensor<2x8x4x4xf32>
    ```
    """

    name = "op.local_response_norm"

    input = operand_def(TensorType)
    size = prop_def(I64Attr)
    alpha = prop_def(F64Attr, default_value=FloatAttr(1e-4, f64))
    beta = prop_def(F64Attr, default_value=FloatAttr(0.75, f64))
    bias = prop_def(F64Attr, default_value=FloatAttr(1.0, f64))
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$input `size` $size (`alpha` $alpha^)? (`beta` $beta^)? (`bias` $bias^)? "
        "attr-dict `:` type($input) `->` type($result)"
    )

    @property
    def window(self) -> Window:
        """The channels that an element is scaled by."""
        size = self.size.value.data
        before = (size - 1) // 2
        return Window(size, 1, before, size - 1 - before)

    def infer_types(self) -> Sequence[TensorType]:
        type = tensor_type(self.input)
        FLOATS.verify(type)
        if type.get_num_dims() < 2:
            raise VerifyException(
                f"the input should have at least 2 dimensions, got {type}"
            )
        if (size := self.size.value.data) < 1:
            raise VerifyException(f"the size should be at least 1, got {size}")
        return (type,)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        rank = tensor_type(self.input).get_num_dims()
        return [signature([axis], [axis]) for axis in range(rank) if axis != 1]

    def flops(self) -> int:
        # A multiply-add for each square; then a factor, a sum, a power and a quotient.
        images, channels, *extents = tensor_type(self.input).get_shape()
        squares = images * prod(extents) * sum(self.window.taps_inside(channels))
        return 2 * squares + 4 * element_count(self.input.type)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        (input,) = operands
        window, kind = self.window, input.dtype.type
        padding = [(0, 0)] * input.ndim
        padding[1] = window.before, window.after
        padded = np.pad(np.square(input), padding)
        view = np.lib.stride_tricks.sliding_window_view(padded, window.taps, 1)
        squares = np.add.reduce(view, -1, dtype=input.dtype)
        factor = kind(self.alpha.value.data / window.taps)
        with np.errstate(invalid="ignore", divide="ignore"):
            sums = np.add(np.multiply(squares, factor), kind(self.bias.value.data))
            scale = np.power(sums, kind(self.beta.value.data))
            return (np.divide(input, scale),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        images, channels, *extents = memref_type(ins[0]).get_shape()
        shape = [images, channels, prod(extents)]
        input, out = k.view(ins[0], shape), k.view(outs[0], shape)
        if self.window.taps > MAX_UNROLLED or shape[2] < MIN_LINE:
            self._build_each(k, input, out)
        else:
            self._build_lines(k, input, out)

    def _build_each(self, k: KernelBuilder, input: SSAValue, out: SSAValue) -> None:
        """Each element on its own."""

        def body(k: KernelBuilder, place: Sequence[SSAValue]) -> None:
            squares = self._build_squares(k, input, place)
            result = self._build_result(k, k.load(input, place), squares)
            k.store(result, out, place)

        k.parallel(memref_type(out).get_shape(), body)

    def _build_lines(self, k: KernelBuilder, input: SSAValue, out: SSAValue) -> None:
        """The places of a channel in a loop, with the squares of one in a turn."""
        type = memref_type(out)
        images, channels, places = type.get_shape()

        def body(k: KernelBuilder, indices: Sequence[SSAValue]) -> None:
            image, channel = indices
            taps = [
                self.window.build_tap(k, channel, tap, channels, type.element_type)
                for tap in range(self.window.taps)
            ]

            def write(k: KernelBuilder, place: SSAValue) -> None:
                terms = list[SSAValue]()
                for tap in taps:
                    x = k.load(input, [image, tap.position, place])
                    terms.append(tap.build_term(k, k.mul(x, x)))
                element = k.load(input, [image, channel, place])
                result = self._build_result(k, element, reduce(k.add, terms))
                k.store(result, out, [image, channel, place])

            k.each(places, write)

        k.parallel([images, channels], body)

    def _build_result(
        self, k: KernelBuilder, element: SSAValue, squares: SSAValue
    ) -> SSAValue:
        """Scale an element by a sum of squares."""
        factor, bias = (
            k.constant(number, element.type)
            for number in (
                self.alpha.value.data / self.window.taps,
                self.bias.value.data,
            )
        )
        sums = k.add(k.mul(squares, factor), bias)
        return k.div(element, self._build_power(k, sums))

    def _build_power(self, k: KernelBuilder, sums: SSAValue) -> SSAValue:
        """Raise to `beta`; with roots where that takes one or two."""
        match self.beta.value.data:
            case 0.5:
                return k.sqrt(sums)
            case 0.75:
                root = k.sqrt(sums)
                return k.mul(root, k.sqrt(root))
            case beta:
                return k.insert(PowFOp(sums, k.constant(beta, sums.type)))

    def _build_squares(
        self, k: KernelBuilder, input: SSAValue, place: Sequence[SSAValue]
    ) -> SSAValue:
        """The sum of squares that an element is scaled by."""
        type = memref_type(input)
        image, channel, index = place
        taps = self.window.build_taps(k, channel, type.get_shape()[1])

        def add_square(
            k: KernelBuilder, tap: Sequence[SSAValue], total: SSAValue
        ) -> SSAValue:
            x = k.load(input, [image, k.add(taps.start, tap[0]), index])
            return k.add_term(total, k.mul(x, x))

        bounds = [(taps.lower, taps.upper)]
        return k.accumulate(bounds, k.constant(0, type.element_type), add_square)
