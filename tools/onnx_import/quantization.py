"""
Ops of ONNX on quantized numbers: `(q - zero_point) * scale`, where `q` is an integer.

Scales and zero points are one number, one for each place along an axis, or one for each
block of these. Integers are multiplied as such, with sums of 32 bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from onnx import TensorProto
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Attribute

from penstock.dialects.op.checks import highest, lowest, normal_axis
from penstock.dialects.op.comparison import EqualOp
from penstock.dialects.op.elementwise import INTEGERS, MaximumOp, MinimumOp
from penstock.dialects.op.reduction import ReduceMaxOp, ReduceMinOp
from penstock.dialects.op.rounding import RoundOp
from penstock.dialects.signless import ui8
from penstock.tools.onnx_import.convolutions import convolved
from penstock.tools.onnx_import.graph import (
    Converter,
    Node,
    Unsupported,
    element_type_of_onnx,
)
from penstock.tools.onnx_import.ops import Ops, Value
from penstock.tools.onnx_import.windows import Steps, pads_of, per_axis


def spread(
    ops: Ops, value: Value, shape: Sequence[int], axis: int, block: int
) -> Value:
    """A scale or zero point in a shape that broadcasts to that of what it is for."""
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
    """Numbers rounded, moved by the zero point, and cut to what the type can hold."""
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
    Integers of 32 bits less their zero point, of which there may be one for each place
    along an axis.
    """
    wide = ops.cast(value, i32)
    if zero is None:
        return wide
    return ops.sub(wide, ops.cast(spread(ops, zero, ops.shape(value), axis, 0), i32))


def rows(ops: Ops, value: Value) -> int:
    """The axis of the rows of a left factor."""
    return max(0, len(ops.shape(value)) - 2)


def matmul_integer(node: Node) -> None:
    """A product of matrices of integers."""
    ops, a, b = node.ops, node.value(), node.value(1)
    left = centred(ops, a, node.optional(2), rows(ops, a))
    right = centred(ops, b, node.optional(3), -1)
    node.give_value(ops.matmul(left, right))


def conv_integer(node: Node) -> None:
    """A convolution of integers. What lies outside is the zero point."""
    ops = node.ops
    left = centred(ops, node.value(), node.optional(2), 0)
    right = centred(ops, node.value(1), node.optional(3), 0)
    node.give_value(convolution(node, left, right, None))


def convolution(node: Node, x: Value, weights: Value, bias: Value | None) -> Value:
    """A convolution as the attributes of a node say."""
    kernel = node.ops.shape(weights)[2:]
    strides, dilations = (
        per_axis(node, name, len(kernel)) for name in ("strides", "dilations")
    )
    steps = Steps(strides, dilations, pads_of(node, kernel, strides, dilations))
    return convolved(node.ops, x, weights, bias, steps, node.int("group", 1))


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
    left = centred(ops, a, node.value(2), rows(ops, a))
    right = centred(ops, b, node.value(5), -1)
    scale_a = spread(ops, node.value(1), ops.shape(a), rows(ops, a), 0)
    scale_b = spread(ops, node.value(4), ops.shape(b), -1, 0)
    scale = ops.mul(ops.cast(scale_a, f32), ops.cast(scale_b, f32))
    product = ops.matmul(left, right)
    shape = ops.shape(product)
    node.give_value(requantized(node, product, 6, scale, shape))


def linear_conv(node: Node) -> None:
    """A convolution of quantized numbers, quantized."""
    ops, x, weights = node.ops, node.value(), node.value(3)
    left = centred(ops, x, node.value(2), 0)
    right = centred(ops, weights, node.value(5), 0)
    product = convolution(node, left, right, node.optional(8))
    shape = ops.shape(product)
    scales = spread(ops, node.value(4), shape, 1, 0)
    scale = ops.mul(ops.cast(node.value(1), f32), ops.cast(scales, f32))
    node.give_value(requantized(node, product, 6, scale, shape))


CONVERTERS: Mapping[str, Converter] = {
    "ConvInteger": conv_integer,
    "DequantizeLinear": dequantize,
    "DynamicQuantizeLinear": dynamic_quantize,
    "MatMulInteger": matmul_integer,
    "QLinearConv": linear_conv,
    "QLinearMatMul": linear_matmul,
    "QuantizeLinear": quantize,
}
"""How ops on quantized numbers are converted."""
