"""
Converters of quantized ops, on numbers `(q - zero_point) * scale` of integers `q`.

Scales and zero points are one number, one for each place along an axis, or one for each
block of these. Integers are multiplied as such, with `i32` sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from onnx import TensorProto
from xdsl.dialects.builtin import DYNAMIC_INDEX, f32, i32
from xdsl.ir import Attribute, SSAValue

from penstock.dialects.op.comparison import EqualOp
from penstock.dialects.op.elementwise import INTEGERS, MaximumOp, MinimumOp
from penstock.dialects.op.linear import BYTES, MatmulOp
from penstock.dialects.op.reduction import ReduceMaxOp, ReduceMinOp, ReduceSumOp
from penstock.dialects.op.rounding import RoundOp
from penstock.dialects.op.verify import highest, lowest, normal_axis
from penstock.dialects.utils.signless import ui8
from penstock.tools.frontend.onnx.convolutions import convolved
from penstock.tools.frontend.onnx.graph import (
    Converter,
    Dequantized,
    Node,
    Unsupported,
    element_type_of_onnx,
)
from penstock.tools.frontend.onnx.ops import Ops, Value
from penstock.tools.frontend.onnx.windows import Steps, pads_of, per_axis


def spread(
    ops: Ops, value: Value, shape: Sequence[int], axis: int, block: int
) -> Value:
    """A scale or zero point in a shape that broadcasts to that of its tensor."""
    own = ops.shape(value)
    if own in ([], [1]):
        return ops.reshape(value, [])
    if block:
        axis = normal_axis(axis, len(shape))
        split = [*own[: axis + 1], 1, *own[axis + 1 :]]
        whole = [*own[: axis + 1], block, *own[axis + 1 :]]
        joined = [*own[:axis], own[axis] * block, *own[axis + 1 :]]
        blocks = ops.expand(ops.reshape(value, split), whole)
        return ops.slice(ops.reshape(blocks, joined), axis, 0, shape[axis])
    if len(own) > 1:
        return value
    axis = normal_axis(axis, len(shape))
    return ops.reshape(value, [*own, *[1] * (len(shape) - axis - 1)])


def quantized(ops: Ops, scaled: Value, zero: Value | None, to: Attribute) -> Value:
    """
    Numbers rounded, moved by the zero point, and clamped to the range of the type.
    """
    if to not in INTEGERS.types:
        raise Unsupported(f"numbers cannot be quantized to {to}")
    result = ops.one(RoundOp, scaled)
    if zero is not None:
        result = ops.add(result, ops.cast(zero, ops.element(scaled)))
    result = ops.two(MaximumOp, result, lowest(to))
    return ops.cast(ops.two(MinimumOp, result, highest(to)), to)


def quantize(node: Node) -> None:
    """Numbers divided by a scale and rounded."""
    ops, shape = node.ops, node.shape()
    axis, block = node.int("axis", 1), node.int("block_size", 0)
    zero = node.optional(2)
    to: Attribute = ui8
    if zero is not None:
        to = ops.element(zero)
        zero = spread(ops, zero, shape, axis, block)
    elif code := node.int("output_dtype", 0):
        to = element_type_of_onnx(code)
    scale = ops.cast(spread(ops, node.value(1), shape, axis, block), f32)
    scaled = ops.div(ops.cast(node.value(), f32), scale)
    node.give_value(quantized(ops, scaled, zero, to))


def dequantize(node: Node) -> None:
    """Integers less the zero point, times a scale."""
    ops, shape = node.ops, node.shape()
    axis, block = node.int("axis", 1), node.int("block_size", 0)
    scale = spread(ops, node.value(1), shape, axis, block)
    value = ops.cast(node.value(), f32)
    if (zero := node.optional(2)) is not None:
        value = ops.sub(value, ops.cast(spread(ops, zero, shape, axis, block), f32))
    code = node.int("output_dtype", TensorProto.UNDEFINED)
    to = element_type_of_onnx(code) if code else ops.element(scale)
    node.give_value(ops.cast(ops.mul(value, ops.cast(scale, f32)), to))
    if to == f32 and not block and are_bytes(ops, node.value()):
        given = Dequantized(node.value(), node.value(1), node.optional(2), axis)
        node.builder.dequantized[node.outputs[0]] = given


def dynamic_quantize(node: Node) -> None:
    """Numbers as bytes, with a scale and a zero point that suit the extreme ones."""
    ops, value = node.ops, node.value()
    flat = ops.reshape(value, [prod(node.shape())])
    largest, least = (
        ops.two(bound, ops.reduce(reduce, flat, [0], keepdims=False), 0)
        for bound, reduce in ((MaximumOp, ReduceMaxOp), (MinimumOp, ReduceMinOp))
    )
    scale = ops.div(ops.sub(largest, least), 255)
    # Zeros alone have no scale of their own; ONNX Runtime takes 1.
    scale = ops.where(ops.two(EqualOp, scale, 0), 1, scale)
    zero = quantized(ops, ops.div(ops.sub(0, least), scale), None, ui8)
    node.give_value(quantized(ops, ops.div(value, scale), zero, ui8))
    node.give_value(scale, 1)
    node.give_value(zero, 2)


################################################################################
# Products                                                                     #
################################################################################


def centred(ops: Ops, value: Value, zero: Value | None, axis: int) -> Value:
    """
    `i32` integers less their zero point, of which there may be one for each place along
    an axis.
    """
    wide = ops.cast(value, i32)
    if zero is None:
        return wide
    return ops.sub(wide, ops.cast(spread(ops, zero, ops.shape(value), axis, 0), i32))


def rows(ops: Ops, value: Value) -> int:
    """The axis of the rows of a left factor."""
    return max(0, len(ops.shape(value)) - 2)


class Factor(NamedTuple):
    """An operand of an int8 matmul, and its zero point unless that is 0."""

    value: Value
    zero: Value | None


def factor(ops: Ops, value: Value, zero: Value | None, axis: int) -> Factor:
    """
    A factor whose zero points are scalars or lie along an axis. Known bytes less their
    zero point are bytes without one, if these can hold them.
    """
    if zero is not None:
        zero = spread(ops, zero, ops.shape(value), axis, 0)
    if isinstance(zero, SSAValue) or zero is None:
        return Factor(value, zero)
    if not np.any(zero):
        return Factor(value, None)
    if isinstance(value, SSAValue):
        return Factor(value, zero)
    numbers = value.astype(np.int16) - zero.astype(np.int16)
    for dtype in (np.int8, np.uint8):
        limits = np.iinfo(dtype)
        if limits.min <= numbers.min(initial=0) <= numbers.max(initial=0) <= limits.max:
            return Factor(numbers.astype(dtype), None)
    return Factor(value, zero)


def are_bytes(ops: Ops, *values: Value) -> bool:
    """Whether products of some values may have wide sums."""
    return all(ops.element(value) in BYTES for value in values)


def product(
    ops: Ops, a: Value, zero_a: Value | None, b: Value, zero_b: Value | None
) -> Value:
    """
    A matmul of integers less their zero points, of which there may be one for each row
    of a and column of b.

    `(a - z) (b - w)` is `a b - z (the sums of the columns of b - k w) - w (the sums of
    the rows of a)` for k terms: bytes are multiplied as they are.
    """
    terms = ops.shape(a)[-1]
    shapes = [*ops.shape(a), *ops.shape(b)]
    ranks = len(ops.shape(a)), len(ops.shape(b))
    if min(ranks) < 2 or DYNAMIC_INDEX in shapes or not are_bytes(ops, a, b):
        left = centred(ops, a, zero_a, rows(ops, a))
        return ops.one(MatmulOp, left, centred(ops, b, zero_b, -1))
    left, right = factor(ops, a, zero_a, ranks[0] - 2), factor(ops, b, zero_b, -1)
    result = ops.one(MatmulOp, left.value, right.value, wide=True)
    ones = np.ones((1, terms), np.int8)
    if left.zero is not None:
        sums = ops.one(MatmulOp, ones, right.value, wide=True)
        if right.zero is not None:
            sums = ops.sub(sums, ops.mul(ops.cast(right.zero, i32), terms))
        result = ops.sub(result, ops.mul(ops.cast(left.zero, i32), sums))
    if right.zero is not None:
        sums = ops.one(MatmulOp, left.value, ones.T, wide=True)
        result = ops.sub(result, ops.mul(ops.cast(right.zero, i32), sums))
    return result


def matmul_integer(node: Node) -> None:
    """`MatMulInteger`: a matmul of integers."""
    zeros = node.optional(2), node.optional(3)
    node.give_value(product(node.ops, node.value(), zeros[0], node.value(1), zeros[1]))


def conv_integer(node: Node) -> None:
    """A convolution of integers, padded with the zero point."""
    zeros = node.optional(2), node.optional(3)
    node.give_value(convolution(node, node.value(), node.value(1), zeros, None))


MIN_OUTPUTS = 4
"""The out channels of a group whose products are worth packing windows."""


def weights_as_bytes(
    node: Node, x: Value, weights: Value, zero: Value | None
) -> Value | None:
    """
    The bytes that bytes are convolved with as they are, None if there are none: if the
    zero points of weights are in the way, shapes are open, or groups are small.
    """
    ops = node.ops
    if not are_bytes(ops, x, weights) or DYNAMIC_INDEX in ops.shape(x):
        return None
    if ops.shape(weights)[0] // node.int("group", 1) < MIN_OUTPUTS:
        return None
    found = factor(ops, weights, zero, 0)
    return found.value if found.zero is None else None


def convolution(
    node: Node,
    x: Value,
    weights: Value,
    zeros: tuple[Value | None, Value | None],
    bias: Value | None,
) -> Value:
    """
    A convolution as the attributes of a node say, of integers less their zero points;
    the bias is `i32`.

    Where bytes can be convolved as they are, the share of the image's zero point in
    each sum follows from the weights.
    """
    ops, groups = node.ops, node.int("group", 1)
    steps = steps_of(node, ops.shape(weights)[2:])
    own = weights_as_bytes(node, x, weights, zeros[1])
    if own is None:
        left, right = centred(ops, x, zeros[0], 0), centred(ops, weights, zeros[1], 0)
        return convolved(ops, left, right, bias, steps, groups)
    image = factor(ops, x, zeros[0], 0)
    if image.zero is None:
        return convolved(ops, x, own, bias, steps, groups)
    zero = ops.cast(image.zero, i32)
    if isinstance(image.zero, SSAValue):
        ones = np.ones([1, *ops.shape(x)[1:]], np.int8)
        sums = convolved(ops, ones, own, None, steps, groups)
        result = convolved(ops, x, own, bias, steps, groups)
        return ops.sub(result, ops.mul(zero, sums))
    pads = ([0, 0, *steps.before], [0, 0, *steps.after])
    padded = ops.pad(x, *pads, float(image.zero))
    axes = range(1, len(ops.shape(weights)))
    sums = ops.reduce(ReduceSumOp, ops.cast(own, i32), axes, keepdims=False)
    moved = ops.sub(0 if bias is None else bias, ops.mul(zero, sums))
    return convolved(ops, padded, own, moved, steps.unpadded(), groups)


def steps_of(node: Node, kernel: Sequence[int]) -> Steps:
    """The windows that the attributes of a node describe."""
    strides, dilations = (
        per_axis(node, name, len(kernel)) for name in ("strides", "dilations")
    )
    return Steps(strides, dilations, pads_of(node, kernel, strides, dilations))


def requantized(
    node: Node, product: Value, first: int, scale: Value, shape: Sequence[int]
) -> Value:
    """A product of integers of this scale in terms of the scale of the result."""
    ops = node.ops
    own = ops.cast(spread(ops, node.value(first), shape, 0, 0), f32)
    zero = node.value(first + 1)
    scaled = ops.mul(ops.cast(product, f32), ops.div(scale, own))
    moved = spread(ops, zero, shape, 0, 0)
    return quantized(ops, scaled, moved, ops.element(zero))


def linear_matmul(node: Node) -> None:
    """A product of quantized matrices, quantized."""
    ops, a, b = node.ops, node.value(), node.value(3)
    scale_a = spread(ops, node.value(1), ops.shape(a), rows(ops, a), 0)
    scale_b = spread(ops, node.value(4), ops.shape(b), -1, 0)
    scale = ops.mul(ops.cast(scale_a, f32), ops.cast(scale_b, f32))
    result = product(ops, a, node.value(2), b, node.value(5))
    shape = ops.shape(result)
    node.give_value(requantized(node, result, 6, scale, shape))


def linear_conv(node: Node) -> None:
    """A convolution of quantized numbers, quantized."""
    ops = node.ops
    zeros = node.value(2), node.value(5)
    x, weights, bias = node.value(), node.value(3), node.optional(8)
    result = convolution(node, x, weights, zeros, bias)
    shape = ops.shape(result)
    scales = spread(ops, node.value(4), shape, 1, 0)
    scale = ops.mul(ops.cast(node.value(1), f32), ops.cast(scales, f32))
    node.give_value(requantized(node, result, 6, scale, shape))


CONVERTERS: Mapping[str, Converter] = {
    "ConvInteger": conv_integer,
    "DequantizeLinear": dequantize,
    "DynamicQuantizeLinear": dynamic_quantize,
    "MatMulInteger": matmul_integer,
    "QLinearConv": linear_conv,
    "QLinearMatMul": linear_matmul,
    "QuantizeLinear": quantize,
}
"""The converters of quantized ops."""
