"""`op.local_response_norm`: local response normalization across channels."""

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

from penstock.dialects.kernel.builder import KernelBuilder, memref_type
from penstock.dialects.kernel.windows import Window
from penstock.dialects.op.axes import I64Attr
from penstock.dialects.op.elementwise import FLOATS
from penstock.dialects.op.sbp import SbpSignature, signature
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.utils.gradients import only
from penstock.dialects.utils.tensors import element_count, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array

F64Attr = FloatAttr.constr(eq(f64))

MAX_CARRIED = 16
"""The channels of a window whose elements are carried along."""


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
        squares = images * prod(extents) * self.window.count_taps(channels)
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

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        g, x, window = only(grads), self.input, self.window
        beta, factor = self.beta.value.data, self.alpha.value.data / window.taps
        squares = self._sum_around(o, o.square(x), window.before, window.after)
        sums = o.add(o.mul(squares, factor), self.bias.value.data)
        scaled = o.mul(g, o.pow(sums, -beta))
        # An element scales those whose windows it is in.
        parts = o.mul(scaled, o.div(x, sums))
        others = self._sum_around(o, parts, window.after, window.before)
        return [o.sub(scaled, o.mul(o.mul(x, others), 2 * beta * factor))]

    def _sum_around(
        self, o: GradientBuilder, value: SSAValue, before: int, after: int
    ) -> SSAValue:
        """The sums of so many channels before and after each, and of its own."""
        shape = o.shape(value)
        first, last = ([0, n] + [0] * (len(shape) - 2) for n in (before, after))
        padded, channels = o.pad(value, first, last), shape[1]
        total = o.slice(padded, 1, 0, channels)
        for start in range(1, before + after + 1):
            total = o.add(total, o.slice(padded, 1, start, start + channels))
        return total

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        images, channels, *extents = memref_type(ins[0]).get_shape()
        shape = [images, channels, prod(extents)]
        input, out = k.view(ins[0], shape), k.view(outs[0], shape)
        if self._is_by_columns:
            self._build_columns(k, input, out)
        else:
            self._build_each(k, input, out)

    @property
    def _is_by_columns(self) -> bool:
        return self.window.taps <= MAX_CARRIED

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        # A channel is written after the last one that needs it has been loaded.
        return (InPlacePair(0, 0),) if self._is_by_columns else ()

    def _build_each(self, k: KernelBuilder, input: SSAValue, out: SSAValue) -> None:
        """Each element on its own."""

        def body(k: KernelBuilder, place: Sequence[SSAValue]) -> None:
            squares = self._build_squares(k, input, place)
            result = self._build_result(k, k.load(input, place), squares)
            k.store(result, out, place)

        k.parallel(memref_type(out).get_shape(), body)

    def _build_columns(self, k: KernelBuilder, input: SSAValue, out: SSAValue) -> None:
        """
        All channels of a place one after the other. The elements of a window are
        carried along, but for its last one, which is loaded.
        """
        images, channels, places = memref_type(out).get_shape()
        after = min(self.window.after, channels)

        def body(k: KernelBuilder, place: Sequence[SSAValue]) -> None:
            image, index = place
            zero = k.constant(0, memref_type(out).element_type)

            def load(k: KernelBuilder, channel: SSAValue) -> SSAValue:
                return k.load(input, [image, channel, index])

            def step(
                k: KernelBuilder,
                channel: SSAValue,
                window: Sequence[SSAValue],
            ) -> Sequence[SSAValue]:
                result = self._build_scaled(k, window)
                k.store(result, out, [image, channel, index])
                return window[1:]

            carried = [zero] * self.window.before
            carried += [load(k, k.index(channel)) for channel in range(after)]
            carried += [zero] * (self.window.taps - 1 - len(carried))
            carried = k.loop(
                k.index(0),
                k.index(channels - after),
                carried,
                lambda k, channel, carried: step(
                    k, channel, [*carried, load(k, k.add(channel, k.index(after)))]
                ),
            )
            for channel in range(channels - after, channels):
                carried = step(k, k.index(channel), [*carried, zero])

        k.parallel([images, places], body)

    def _build_scaled(self, k: KernelBuilder, window: Sequence[SSAValue]) -> SSAValue:
        """Scale the element of a window that it is for."""
        squares = reduce(k.add, [k.mul(x, x) for x in window])
        return self._build_result(k, window[self.window.before], squares)

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
