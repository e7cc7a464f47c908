"""Converters of elementwise ops."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np
from xdsl.dialects.builtin import AnyFloat, i1

from penstock.dialects.op import (
    activation,
    bits,
    comparison,
    elementwise,
    rounding,
    trigonometry,
)
from penstock.dialects.op import unary_math as functions
from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.verify import highest
from penstock.dialects.utils.signless import is_unsigned, ui8
from penstock.tools.frontend.onnx.graph import (
    Converter,
    Node,
    Unsupported,
    element_type_of_onnx,
)
from penstock.tools.frontend.onnx.ops import Ops, Value


def is_nan(node: Node) -> None:
    """Whether elements are no numbers: only those differ from themselves."""
    value = node.value()
    node.give_value(node.ops.one(comparison.NotEqualOp, value, value))


def is_inf(node: Node) -> None:
    """Whether elements are infinite, of the signs that are asked for."""
    ops, value = node.ops, node.value()
    positive, negative = node.int("detect_positive", 1), node.int("detect_negative", 1)
    if positive and negative:
        value = ops.one(elementwise.AbsOp, value)
    elif not positive and not negative:
        node.give_value(np.zeros(node.shape(), np.bool_))
        return
    node.give_value(ops.two(comparison.EqualOp, value, inf if positive else -inf))


def sign(node: Node) -> None:
    """-1, 0 or 1; a NaN stays."""
    ops, value = node.ops, node.value()
    below = ops.two(comparison.LessOp, value, 0)
    above = ops.two(comparison.GreaterOp, value, 0)
    element = node.element()
    result = ops.sub(ops.cast(above, element), ops.cast(below, element))
    if isinstance(element, AnyFloat):
        same = ops.one(comparison.EqualOp, value, value)
        result = ops.where(same, result, value)
    node.give_value(result)


def softplus(node: Node) -> None:
    """log(1 + exp(x)), which does not overflow: max(x, 0) + log(1 + exp(-|x|))."""
    node.give_value(soft_plus(node.ops, node.value()))


def soft_plus(ops: Ops, value: Value) -> Value:
    """log(1 + exp(x))."""
    small = ops.one(elementwise.NegOp, ops.one(elementwise.AbsOp, value))
    rest = ops.one(rounding.Log1pOp, ops.one(functions.ExpOp, small))
    return ops.add(ops.one(activation.ReluOp, value), rest)


def mish(node: Node) -> None:
    """x * tanh(softplus(x))."""
    ops, value = node.ops, node.value()
    node.give_value(ops.mul(value, ops.one(activation.TanhOp, soft_plus(ops, value))))


def binarized(node: Node) -> None:
    """1 where x is above a threshold, 0 elsewhere."""
    ops, value = node.ops, node.value()
    above = ops.two(comparison.GreaterOp, value, node.float("threshold", 0.0))
    node.give_value(ops.cast(above, node.element()))


def prelu(node: Node) -> None:
    """x, or a slope times it where it is negative."""
    ops, value = node.ops, node.value()
    below = ops.mul(value, node.value(1))
    node.give_value(ops.where(ops.two(comparison.LessOp, value, 0), below, value))


def mean(node: Node) -> None:
    """The mean of several tensors."""
    ops = node.ops
    total, *others = [node.value(index) for index in range(len(node.inputs))]
    for other in others:
        total = ops.add(total, other)
    node.give_value(ops.div(total, 1 + len(others)) if others else total)


def modulo(node: Node) -> None:
    """The remainder of a division, with the sign of the divisor, or the dividend."""
    ops, a, b = node.ops, node.value(), node.value(1)
    element = node.element()
    if isinstance(element, AnyFloat):
        node.give_value(
            float_remainder(ops, a, b, by_dividend=node.int("fmod", 0) == 1)
        )
        return
    rest = ops.sub(a, ops.mul(ops.div(a, b), b))
    if not node.int("fmod", 0) and not is_unsigned(element):
        # With the sign of the divisor, where ours has that of the dividend.
        signs = ops.one(bits.BitXorOp, rest, b)
        differ = ops.two(comparison.LessOp, signs, 0)
        some = ops.two(comparison.NotEqualOp, rest, 0)
        moved = ops.one(comparison.LogicalAndOp, differ, some)
        rest = ops.where(moved, ops.add(rest, b), rest)
    node.give_value(rest)


def float_remainder(ops: Ops, a: Value, b: Value, *, by_dividend: bool) -> Value:
    """The remainder of floats, with the sign of the dividend, else the divisor."""
    rest = ops.one(rounding.RemOp, a, b)
    if by_dividend:
        return rest
    negative, turned = (ops.two(comparison.LessOp, value, 0) for value in (rest, b))
    differ = ops.one(comparison.LogicalXorOp, negative, turned)
    moved = ops.where(differ, ops.add(rest, b), rest)
    zero = ops.where(turned, ops.like(-0.0, rest), ops.like(0.0, rest))
    return ops.where(ops.two(comparison.EqualOp, rest, 0), zero, moved)


def bit_not(node: Node) -> None:
    """All bits turned."""
    ones = int(highest(element)) if is_unsigned(element := node.element()) else -1
    node.give_value(node.ops.two(bits.BitXorOp, node.value(), ones))


def bit_shift(node: Node) -> None:
    """The bits moved up or down."""
    is_left = node.text("direction", "") == "LEFT"
    op = bits.ShiftLeftOp if is_left else bits.ShiftRightOp
    node.give_value(node.ops.one(op, node.value(), node.value(1)))


def bit_cast(node: Node) -> None:
    """The same bits as numbers of another type."""
    ops, value, to = node.ops, node.value(), element_type_of_onnx(node.int("to", 0))
    if ops.element(value) == i1:
        # A boolean is a byte that is 0 or 1.
        value = ops.one(CastOp, value, to=ui8)
    if to == i1:
        raise Unsupported("not all bytes are booleans")
    node.give_value(ops.one(bits.BitcastOp, value, to=to))


def cast_like(node: Node) -> None:
    """The same numbers in the type of another tensor."""
    node.give_value(node.ops.cast(node.value(), node.element(1)))


def single(op: type[elementwise.ArrayOp]) -> Converter:
    """An op on as many elements, which has no properties."""

    def convert(node: Node) -> None:
        operands = [node.value(index) for index in range(len(node.inputs))]
        node.give_value(node.ops.one(op, *operands))

    return convert


CONVERTERS: Mapping[str, Converter] = {
    "Acos": single(trigonometry.AcosOp),
    "Acosh": single(trigonometry.AcoshOp),
    "Asin": single(trigonometry.AsinOp),
    "Asinh": single(trigonometry.AsinhOp),
    "Atan": single(trigonometry.AtanOp),
    "Atanh": single(trigonometry.AtanhOp),
    "BitCast": bit_cast,
    "BitShift": bit_shift,
    "BitwiseAnd": single(bits.BitAndOp),
    "BitwiseNot": bit_not,
    "BitwiseOr": single(bits.BitOrOp),
    "BitwiseXor": single(bits.BitXorOp),
    "CastLike": cast_like,
    "Cos": single(trigonometry.CosOp),
    "Cosh": single(trigonometry.CoshOp),
    "IsInf": is_inf,
    "IsNaN": is_nan,
    "Mean": mean,
    "Mish": mish,
    "Mod": modulo,
    "PRelu": prelu,
    "Round": single(rounding.RoundOp),
    "Sign": sign,
    "Sin": single(trigonometry.SinOp),
    "Sinh": single(trigonometry.SinhOp),
    "Softplus": softplus,
    "Tan": single(trigonometry.TanOp),
    "ai.onnx.ml.Binarizer": binarized,
}
"""The converters of elementwise ops."""
