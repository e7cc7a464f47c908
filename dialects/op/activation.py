"""Activation ops."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, pi, sqrt
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, StringAttr, TensorType, f16, f32, f64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import eq, irdl_op_definition, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.elementwise import NUMBERS, Elements, UnaryOp
from penstock.dialects.op.number import Number
from penstock.dialects.op.unary_math import erf
from penstock.dialects.utils.gradients import only

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array

F64Attr = FloatAttr.constr(eq(f64))


@irdl_op_definition
class ReluOp(UnaryOp):
    """
    Each element, or zero where it is negative.

    ```mlir
    %r = op.relu %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.relu"
    PRECISION: ClassVar = "clear"
    ELEMENTS: ClassVar[Elements] = NUMBERS

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        return k.maximum(operands[0], k.constant(0, operands[0].type))

    def compute(self, *operands: Array) -> Array:
        import numpy as np

        return np.maximum(operands[0], operands[0].dtype.type(0))

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.where(o.greater(self.result, 0), only(grads), 0)]


@irdl_op_definition
class LeakyReluOp(UnaryOp):
    """
    Each element, or `alpha` times it where it is negative.

    ```mlir
    %r = op.leaky_relu %a alpha 0.01 : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.leaky_relu"
    PRECISION: ClassVar = "clear"
    FLOPS: ClassVar = 3

    alpha = prop_def(F64Attr)

    custom_directives = (Number,)

    assembly_format = (
        "$operand `alpha` custom<Number>($alpha) "
        "attr-dict `:` type($operand) `->` type($result)"
    )

    def __init__(self, operand: SSAValue | Operation, alpha: float = 0.01):
        self.call(operand, alpha=alpha)

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        a = operands[0]
        scaled = k.mul(a, k.constant(self.alpha.value.data, a.type))
        return k.select(k.compare("gt", a, k.constant(0, a.type)), a, scaled)

    def compute(self, *operands: Array) -> Array:
        import numpy as np

        a = operands[0]
        scaled = np.multiply(a, a.dtype.type(self.alpha.value.data))
        return np.where(np.greater(a, 0), a, scaled)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        g = only(grads)
        return [o.where(o.greater(self.operand, 0), g, o.mul(g, self.alpha.value.data))]


@irdl_op_definition
class ClipOp(UnaryOp):
    """
    Each element, or the nearer bound where it is outside the bounds; each bound may
    be left out, and `max` wins where it is below `min`.

    ```mlir
    %r = op.clip %a min 0.0 max 6.0 : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.clip"
    PRECISION: ClassVar = "clear"

    min = opt_prop_def(F64Attr)
    max = opt_prop_def(F64Attr)

    custom_directives = (Number,)

    assembly_format = (
        "$operand (`min` custom<Number>($min)^)? (`max` custom<Number>($max)^)? "
        "attr-dict `:` type($operand) `->` type($result)"
    )

    def __init__(
        self,
        operand: SSAValue | Operation,
        min: float | None = None,
        max: float | None = None,
    ):
        self.call(operand, min=min, max=max)

    def infer_types(self) -> Sequence[TensorType]:
        for bound in (self.min, self.max):
            if bound is not None and isnan(bound.value.data):
                raise VerifyException("a bound must be a number, got nan")
        return super().infer_types()

    def scalar_flops(self) -> int:
        return (self.min is not None) + (self.max is not None)

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        value = operands[0]
        if self.min is not None:
            value = k.maximum(value, k.constant(self.min.value.data, value.type))
        if self.max is not None:
            value = k.minimum(value, k.constant(self.max.value.data, value.type))
        return value

    def compute(self, *operands: Array) -> Array:
        import numpy as np

        value = operands[0]
        if self.min is not None:
            value = np.maximum(value, value.dtype.type(self.min.value.data))
        if self.max is not None:
            value = np.minimum(value, value.dtype.type(self.max.value.data))
        return value

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        # The result tells as much as the operand, which need not be kept then.
        g, y = only(grads), self.result
        if self.min is not None:
            g = o.where(o.greater(y, self.min.value.data), g, 0)
        if self.max is not None:
            g = o.where(o.greater(self.max.value.data, y), g, 0)
        return [g]


@irdl_op_definition
class SigmoidOp(UnaryOp):
    """
    The logistic function of each element: 1 / (1 + exp(-x)).

    ```mlir
    %r = op.sigmoid %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.sigmoid"
    FLOPS: ClassVar = 7

    # exp(x) / (1 + exp(x)) is the same function, and exp of no positive number
    # overflows.

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        a = operands[0]
        zero, one = k.constant(0, a.type), k.constant(1, a.type)
        exp = k.exp(k.insert(arith.NegfOp(k.insert(math.AbsFOp(a)))))
        dividend = k.select(k.compare("ge", a, zero), one, exp)
        return k.div(dividend, k.add(one, exp))

    def compute(self, *operands: Array) -> Array:
        import numpy as np

        a = operands[0]
        exp = np.exp(np.negative(np.abs(a)))
        dividend = np.where(np.greater_equal(a, 0), a.dtype.type(1), exp)
        return np.divide(dividend, np.add(1, exp))

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        y = self.result
        return [o.mul(only(grads), o.mul(y, o.sub(1, y)))]


@irdl_op_definition
class TanhOp(UnaryOp):
    """
    The hyperbolic tangent of each element.

    ```mlir
    %r = op.tanh %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.tanh"
    NUMPY: ClassVar = "tanh"
    SCALAR: ClassVar = math.TanhOp

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.mul(only(grads), o.sub(1, o.square(self.result)))]


GELU_SCALE = sqrt(2 / pi)
GELU_CUBIC = GELU_SCALE * 0.044715

NORMAL_TAIL = (
    *(2.0347965801192913e-07, -4.774462013301672e-06, 4.48379032604862e-05),
    *(-0.00018480757717043161, -0.00017008042777888477, 0.00712409894913435),
    *(-0.05254065990447998, -0.459195077419281, -1.151106357574463, -1.0),
)
"""
The polynomial p, the highest power first, such that 2 to the power of p(a) is the
chance that a standard normal variable is above `a`, as long as a is not negative and
below `NORMAL_END`, past which the chance is as good as 0.
"""
NORMAL_END = 9.5


def _times_chance(k: KernelBuilder, a: SSAValue) -> SSAValue:
    """
    An `f32` times the chance that a standard normal variable is below it.

    The difference of 1 and an error function cancels far below zero; this has small
    relative errors there, too, and is less work.
    """
    distance = k.insert(math.AbsFOp(a))
    power = _polynomial(k, distance, NORMAL_TAIL)
    zero, one = k.constant(0, a.type), k.constant(1, a.type)
    is_near = k.compare("lt", distance, k.constant(NORMAL_END, a.type))
    beyond = k.select(is_near, k.insert(math.Exp2Op(power)), zero)
    is_above = k.compare("ge", a, zero)
    return k.mul(a, k.select(is_above, k.sub(one, beyond), beyond))


def _polynomial(
    k: KernelBuilder, x: SSAValue, coefficients: Sequence[float]
) -> SSAValue:
    """A polynomial, the highest power first, in pairs of terms that do not wait."""
    terms = [k.constant(number, x.type) for number in reversed(coefficients)]
    while True:
        pairs = zip(terms[::2], terms[1::2], strict=False)
        left = terms[len(terms) // 2 * 2 :]
        terms = [k.insert(math.FmaOp(high, x, low)) for low, high in pairs] + left
        if len(terms) == 1:
            return terms[0]
        x = k.mul(x, x)


def _times_logistic(k: KernelBuilder, a: SSAValue, slope: SSAValue) -> SSAValue:
    """`0.5 * a * (1 + tanh(a * slope))` with one exponential."""
    power = k.exp(k.mul(k.mul(a, k.constant(-2, a.type)), slope))
    return k.div(a, k.add(k.constant(1, a.type), power))


@irdl_op_definition
class GeluOp(UnaryOp):
    """
    Each element times the chance that a standard normal variable is below it:
    0.5 * x * (1 + erf(x / sqrt(2))), or by the approximation
    0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x))).

    ```mlir
    %r = op.gelu %a approximate "tanh" : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.gelu"

    approximate = prop_def(StringAttr, default_value=StringAttr("none"))
    """`none` for the first formula, or `tanh`."""

    assembly_format = (
        "$operand (`approximate` $approximate^)? "
        "attr-dict `:` type($operand) `->` type($result)"
    )

    def __init__(self, operand: SSAValue | Operation, approximate: str = "none"):
        self.call(operand, approximate=approximate)

    @property
    def by_tanh(self) -> bool:
        """Whether the approximation by tanh is meant."""
        return self.approximate.data == "tanh"

    def infer_types(self) -> Sequence[TensorType]:
        if (kind := self.approximate.data) not in ("none", "tanh"):
            raise VerifyException(f"approximate is 'none' or 'tanh', got '{kind}'")
        return super().infer_types()

    def scalar_flops(self) -> int:
        return 8 if self.by_tanh else 5

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        a = operands[0]
        if self.by_tanh:
            slope = self._slope(k, a)
            if a.type != f16:
                return _times_logistic(k, a, slope)
            spread = k.insert(math.TanhOp(k.mul(a, slope)))
        elif a.type == f32:
            return _times_chance(k, a)
        else:
            spread = k.insert(math.ErfOp(k.mul(a, k.constant(sqrt(0.5), a.type))))
        half, one = (k.constant(number, a.type) for number in (0.5, 1))
        return k.mul(k.mul(a, half), k.add(one, spread))

    def _slope(self, k: KernelBuilder, a: SSAValue) -> SSAValue:
        """The argument of tanh in the approximation, over the element."""
        scale, cubic = (k.constant(x, a.type) for x in (GELU_SCALE, GELU_CUBIC))
        return k.add(scale, k.mul(cubic, k.mul(a, a)))

    def compute(self, *operands: Array) -> Array:
        import numpy as np

        a = operands[0]
        if self.by_tanh:
            slope = np.add(GELU_SCALE, np.multiply(GELU_CUBIC, np.square(a)))
            spread = np.tanh(np.multiply(a, slope))
        else:
            spread = erf(np.multiply(a, sqrt(0.5)))
        return np.multiply(np.multiply(a, 0.5), np.add(1, spread))

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        slope_of = self._slope_by_tanh if self.by_tanh else self._slope_by_chance
        return [o.mul(only(grads), slope_of(o, self.operand))]

    @staticmethod
    def _slope_by_tanh(o: GradientBuilder, x: SSAValue) -> SSAValue:
        """The derivative of the approximation."""
        square = o.square(x)
        inner = o.mul(x, o.add(o.mul(square, GELU_CUBIC), GELU_SCALE))
        spread = o.tanh(inner)
        steep = o.add(o.mul(square, 3 * GELU_CUBIC), GELU_SCALE)
        rest = o.mul(o.mul(x, steep), o.sub(1, o.square(spread)))
        return o.mul(o.add(o.add(spread, rest), 1), 0.5)

    @staticmethod
    def _slope_by_chance(o: GradientBuilder, x: SSAValue) -> SSAValue:
        """The chance that a normal variable is below, and its density times x."""
        chance = o.mul(o.add(o.erf(o.mul(x, sqrt(0.5))), 1), 0.5)
        density = o.mul(o.exp(o.mul(o.square(x), -0.5)), 1 / sqrt(2 * pi))
        return o.add(chance, o.mul(x, density))
