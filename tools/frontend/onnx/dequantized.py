"""
Int8 matmuls and convolutions of operands that `DequantizeLinear` makes.

The bytes are multiplied, and the `i32` sums then scaled: this equals the product of the
floats, rounded less often.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX, f32

from penstock.dialects.op.verify import normal_axis
from penstock.tools.frontend.onnx.graph import Converter, Dequantized, Node
from penstock.tools.frontend.onnx.ops import Ops, Value
from penstock.tools.frontend.onnx.quantization import (
    convolution,
    product,
    spread,
    weights_as_bytes,
)

Conversion: TypeAlias = Callable[[Node], "Value | None"]
"""Makes the output of a node, or nothing if it is left to another one."""


def first_of(conversion: Conversion, usual: Converter) -> Converter:
    """
    The converter that gives the result of a conversion, if there is one, else of the
    usual one.
    """

    def convert(node: Node) -> None:
        if (found := conversion(node)) is None:
            usual(node)
        else:
            node.give_value(found)

    return convert


def scale_along(ops: Ops, given: Dequantized, axis: int) -> Value | None:
    """
    The scale of bytes as it broadcasts with them, None unless it is one number or lies
    along an axis.
    """
    if ops.shape(given.scale) not in ([], [1]):
        rank = len(ops.shape(given.value))
        is_along = normal_axis(given.axis, rank) == normal_axis(axis, rank)
        if len(ops.shape(given.scale)) > 1 or not is_along:
            return None
    return spread(ops, given.scale, ops.shape(given.value), axis, 0)


def product_of_bytes(node: Node, transpose_b: bool) -> Value | None:
    """The product of two matrices of floats by that of the bytes they are made of."""
    ops, a, b = node.ops, node.dequantized(0), node.dequantized(1)
    shapes = node.shape(), node.shape(1)
    if a is None or b is None or min(map(len, shapes)) < 2:
        return None
    along = -2 if transpose_b else -1
    left, right = scale_along(ops, a, -2), scale_along(ops, b, along)
    if left is None or right is None or DYNAMIC_INDEX in (*shapes[0], *shapes[1]):
        return None
    weights = b.value
    if transpose_b:
        weights = ops.transpose(weights, [1, 0])
        right = ops.reshape(right, ops.shape(b.scale))
    sums = product(ops, a.value, a.zero, weights, b.zero)
    return ops.mul(ops.cast(sums, f32), ops.mul(left, right))


def matmul(node: Node) -> Value | None:
    """The int8 form of `MatMul`."""
    return product_of_bytes(node, transpose_b=False)


def gemm(node: Node) -> Value | None:
    """The int8 form of `Gemm`."""
    if node.int("transA", 0):
        return None
    ops, result = node.ops, product_of_bytes(node, node.int("transB", 0) == 1)
    if result is None:
        return None
    if (alpha := node.float("alpha", 1.0)) != 1:
        result = ops.mul(result, alpha)
    if (addend := node.optional(2)) is None:
        return result
    beta = node.float("beta", 1.0)
    return ops.add(result, addend if beta == 1 else ops.mul(addend, beta))


def conv(node: Node) -> Value | None:
    """A convolution, if its bytes can be convolved as they are."""
    ops, x, weights = node.ops, node.dequantized(0), node.dequantized(1)
    if x is None or weights is None or ops.shape(x.scale) not in ([], [1]):
        return None
    if weights_as_bytes(node, x.value, weights.value, weights.zero) is None:
        return None
    scale = scale_along(ops, weights, 0)
    if scale is None:
        return None
    zeros = x.zero, weights.zero
    sums = convolution(node, x.value, weights.value, zeros, None)

    def by_channel(value: Value) -> Value:
        shape = [*ops.shape(value)[:1], *[1] * (len(ops.shape(sums)) - 2)]
        return ops.reshape(value, shape if ops.shape(value) else [])

    factor = ops.mul(ops.reshape(x.scale, []), by_channel(scale))
    result = ops.mul(ops.cast(sums, f32), factor)
    bias = node.optional(2)
    return result if bias is None else ops.add(result, by_channel(bias))
