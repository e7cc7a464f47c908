"""Ops of ONNX on single elements that are made of several ops."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, pi

import numpy as np
from onnx import TensorProto
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


def softsign(node: Node) -> None:
    """x / (1 + |x|)."""
    ops, value = node.ops, node.value()
    node.give_value(ops.div(value, ops.add(ops.one(elementwise.AbsOp, value), 1)))


def mish(node: Node) -> None:
    """x * tanh(softplus(x))."""
    ops, value = node.ops, node.value()
    node.give_value(ops.mul(value, ops.one(activation.TanhOp, soft_plus(ops, value))))


def swish(node: Node) -> None:
    """x * sigmoid(alpha * x)."""
    ops, value = node.ops, node.value()
    alpha = node.float("alpha", 1.0)
    scaled = value if alpha == 1 else ops.mul(value, alpha)
    node.give_value(ops.mul(value, ops.one(activation.SigmoidOp, scaled)))


def exponential_unit(node: Node) -> None:
    """x, or alpha * (exp(x) - 1) where it is negative."""
    ops, value = node.ops, node.value()
    node.give_value(elu(ops, value, node.float("alpha", 1.0)))


def elu(ops: Ops, value: Value, alpha: float) -> Value:
    """x, or alpha * (exp(x) - 1) where it is negative."""
    below = ops.mul(ops.sub(ops.one(functions.ExpOp, value), 1), alpha)
    return ops.where(ops.two(comparison.GreaterOp, value, 0), value, below)


def selu(node: Node) -> None:
    """gamma times an exponential unit."""
    alpha = node.float("alpha", 1.67326319217681884765625)
    gamma = node.float("gamma", 1.05070102214813232421875)
    node.give_value(node.ops.mul(elu(node.ops, node.value(), alpha), gamma))


def celu(node: Node) -> None:
    """x, or alpha * (exp(x / alpha) - 1) where it is negative."""
    ops, value = node.ops, node.value()
    alpha = node.float("alpha", 1.0)
    grown = ops.one(functions.ExpOp, ops.div(value, alpha))
    below = ops.mul(ops.sub(grown, 1), alpha)
    above = ops.two(comparison.GreaterOp, value, 0)
    node.give_value(ops.where(above, value, below))


def hard_sigmoid(node: Node) -> None:
    """alpha * x + beta, between 0 and 1."""
    alpha, beta = node.float("alpha", 0.2), node.float("beta", 0.5)
    node.give_value(clipped_line(node.ops, node.value(), alpha, beta))


def clipped_line(ops: Ops, value: Value, alpha: float, beta: float) -> Value:
    """alpha * x + beta, between 0 and 1."""
    line = ops.add(ops.mul(value, alpha), beta)
    line = ops.two(elementwise.MaximumOp, line, 0)
    return ops.two(elementwise.MinimumOp, line, 1)


def hard_swish(node: Node) -> None:
    """x * (x / 6 + 1 / 2), where the factor is between 0 and 1."""
    ops, value = node.ops, node.value()
    node.give_value(ops.mul(value, clipped_line(ops, value, 1 / 6, 0.5)))


def thresholded_relu(node: Node) -> None:
    """x, or 0 where it is not above alpha."""
    ops, value = node.ops, node.value()
    above = ops.two(comparison.GreaterOp, value, node.float("alpha", 1.0))
    node.give_value(ops.where(above, value, 0))


def binarized(node: Node) -> None:
    """1 where x is above a threshold, 0 elsewhere."""
    ops, value = node.ops, node.value()
    above = ops.two(comparison.GreaterOp, value, node.float("threshold", 0.0))
    node.give_value(ops.cast(above, node.element()))


def shrink(node: Node) -> None:
    """x moved by `bias` toward 0, or 0 where it is within `lambd` of it."""
    ops, value = node.ops, node.value()
    bound, bias = node.float("lambd", 0.5), node.float("bias", 0.0)
    below = ops.two(comparison.LessOp, value, -bound)
    above = ops.two(comparison.GreaterOp, value, bound)
    inner = ops.where(above, ops.sub(value, bias), 0)
    node.give_value(ops.where(below, ops.add(value, bias), inner))


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


def window(*factors: float) -> Converter:
    """A window function: a sum of cosines, of a length that is known."""

    def convert(node: Node) -> None:
        element = element_type_of_onnx(node.int("output_datatype", TensorProto.FLOAT))
        size = node.known_ints(0, "the size")[0]
        period = size if node.int("periodic", 1) else size - 1
        angles = np.arange(size) * 2 * pi / max(1, period)
        values = np.zeros(size)
        for index, factor in enumerate(factors):
            values = values + factor * np.cos(index * angles)
        node.give_value(node.ops.cast(values, element))

    return convert


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
    "BlackmanWindow": window(0.42, -0.5, 0.08),
    "CastLike": cast_like,
    "Celu": celu,
    "Cos": single(trigonometry.CosOp),
    "Cosh": single(trigonometry.CoshOp),
    "Elu": exponential_unit,
    "HammingWindow": window(25 / 46, -21 / 46),
    "HannWindow": window(0.5, -0.5),
    "HardSigmoid": hard_sigmoid,
    "HardSwish": hard_swish,
    "IsInf": is_inf,
    "IsNaN": is_nan,
    "Mean": mean,
    "Mish": mish,
    "Mod": modulo,
    "PRelu": prelu,
    "Round": single(rounding.RoundOp),
    "Selu": selu,
    "Shrink": shrink,
    "Sign": sign,
    "Sin": single(trigonometry.SinOp),
    "Sinh": single(trigonometry.SinhOp),
    "Softplus": softplus,
    "Softsign": softsign,
    "Swish": swish,
    "Tan": single(trigonometry.TanOp),
    "ThresholdedRelu": thresholded_relu,
    "ai.onnx.ml.Binarizer": binarized,
}
"""How ops on single elements are converted."""
