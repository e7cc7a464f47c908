"""
Trigonometric functions of `f64` as LLVM code, for numbers and for vectors.

The argument reduction subtracts the nearest whole number of quarter turns, as a sum of
two floats; polynomials give the functions of the rest. Angles beyond 2**30, which need
more digits of pi, go to the C library: one lane after the other, and only where a
vector has such a lane.

The largest errors that were found, in units in the last place (ulp) of the result:
`sin` 0.9, `cos` 0.9, `tan` 0.9.
"""

# llvmlite carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false, reportReturnType=false

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from llvmlite import ir
from numba.core import cgutils

from penstock.runtime.kernels.math.f32 import DOUBLE, Floats, LlvmValue, polynomial

MAGIC = 6755399441055744.0
"""1.5 * 2**52: a float near it has steps of 1, and the whole number in its low bits."""

LIMIT = 2.0**30
"""The largest angle whose quarter turns are taken off here."""

QUARTER = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
"""A quarter turn as the sum of three floats."""

SIN_FIRST = -0.16666666666666666
SIN = (
    -7.595215528039299e-13,
    1.605868306278609e-10,
    -2.505210722995531e-08,
    2.755731922231269e-06,
    -0.00019841269841268955,
    0.008333333333333333,
)
COS = (
    4.745809482337876e-14,
    -1.1470459827734685e-11,
    2.0876755784387464e-09,
    -2.755731922138354e-07,
    2.480158730158462e-05,
    -0.0013888888888888887,
    0.041666666666666664,
)
"""Polynomials of the square of an angle, the highest power first."""


class Sum(NamedTuple):
    """A number as the sum of two, of which the second is at most a few last places."""

    high: Floats
    low: Floats


def _reduced(x: Floats) -> tuple[Sum, LlvmValue]:
    """An angle less the nearest whole number of quarter turns, and this number."""
    shifted = x.times_plus(2 / math.pi, MAGIC)
    n = shifted - MAGIC
    # The first difference is exact; what the next ones lose is kept.
    first = n.times_plus(-QUARTER[0], x)
    product = n * QUARTER[1]
    lost = n.times_plus(QUARTER[1], -product)
    high = first - product
    back = first - high
    left = (back - product) + (first - (high + back))
    low = n.times_plus(-QUARTER[2], left - lost)
    total = high + low
    return Sum(total, (high - total) + low), shifted.bits()


def _sine(angle: Sum) -> Sum:
    """The sine of an angle of an eighth turn at most."""
    x, less = angle
    square = x * x
    cube = square * x
    rest = polynomial(square, SIN)
    inner = square * (less * 0.5 - cube * rest) - less
    return Sum(x, -(inner - cube * SIN_FIRST))


def _cosine(angle: Sum) -> Sum:
    """The cosine of an angle of an eighth turn at most."""
    x, less = angle
    square = x * x
    half = square * 0.5
    high = x.number(1.0) - half
    lost = (x.number(1.0) - high) - half
    more = square * (square * polynomial(square, COS)) - x * less
    # The rounding error of the square counts, too.
    return Sum(high, lost + more - x.times_plus(x, -square) * 0.5)


def _chosen(condition: LlvmValue, yes: Sum, no: Sum) -> Sum:
    """One of two sums for each lane."""
    return Sum(*(b.where(condition, a) for a, b in zip(yes, no, strict=True)))


def _has_bit(x: Floats, number: LlvmValue, bit: int) -> LlvmValue:
    """Whether an integer has a bit."""
    masked = x.builder.and_(number, x.whole_number(bit))
    return x.builder.icmp_unsigned("!=", masked, x.whole_number(0))


def _turned(x: Floats, quarters: int) -> Floats:
    """The sine of an angle and so many quarter turns."""
    angle, number = _reduced(x)
    number = x.builder.add(number, x.whole_number(quarters))
    is_odd = _has_bit(x, number, 1)
    high, low = _chosen(is_odd, _cosine(angle), _sine(angle))
    value = high + low
    return value.where(_has_bit(x, number, 2), -value)


def _quotient(above: Sum, below: Sum) -> Floats:
    """A quotient of sums, rounded nearly once."""
    (a, a_low), (b, b_low) = map(_normal, (above, below))
    first = a / b
    rest = (first.times_plus(-b, a) + a_low) - first * b_low
    return first + rest / b


def _normal(value: Sum) -> Sum:
    """The same sum, the first as near to it as can be."""
    total = value.high + value.low
    return Sum(total, (value.high - total) + value.low)


def _tangent(x: Floats) -> Floats:
    """The tangent of an angle."""
    angle, number = _reduced(x)
    sine, cosine = _sine(angle), _cosine(angle)
    is_odd = _has_bit(x, number, 1)
    negative = Sum(-cosine.high, -cosine.low)
    above = _chosen(is_odd, negative, sine)
    below = _chosen(is_odd, sine, cosine)
    return _quotient(above, below)


def _small_or(x: Floats, value: Floats) -> Floats:
    """An angle itself, with the sign of a zero, where it is too small for a step."""
    return value.where(x.size().compared("<", 2.0**-27), x)


################################################################################
# Large angles                                                                 #
################################################################################


def _with_large(x: Floats, value: Floats, name: str) -> Floats:
    """The C library's value where an angle is beyond the limit."""
    builder = x.builder
    is_large = x.size().compared(">", LIMIT)
    before = builder.block
    with builder.if_then(_any(builder, is_large), likely=False):
        slow = builder.call(_library(x, name), [x.value])
        mixed = builder.select(is_large, slow, value.value)
        inside = builder.block
    result = builder.phi(x.value.type)
    result.add_incoming(value.value, before)
    result.add_incoming(mixed, inside)
    return x.made(result)


def _any(builder: ir.IRBuilder, condition: LlvmValue) -> LlvmValue:
    """Whether a condition holds in any lane."""
    if not isinstance(condition.type, ir.VectorType):
        return condition
    bits = ir.IntType(condition.type.count)
    return builder.icmp_unsigned("!=", builder.bitcast(condition, bits), bits(0))


def _library(x: Floats, name: str) -> ir.Function:
    """A function of the C library, for numbers or vectors."""
    module, type = x.builder.module, x.value.type
    one = cgutils.get_or_insert_function(
        module, ir.FunctionType(DOUBLE, [DOUBLE]), name
    )
    if not isinstance(type, ir.VectorType):
        return one
    full = f"penstock.large.{name}.v{type.count}"
    function = cgutils.get_or_insert_function(
        module, ir.FunctionType(type, [type]), full
    )
    if function.is_declaration:
        _define(function, one)
    return function


def _define(function: ir.Function, one: ir.Function) -> None:
    """Give a function of vectors its lanes, one after the other."""
    function.linkage = "internal"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    (vector,) = function.args
    result = vector
    for lane in range(vector.type.count):
        place = ir.Constant(ir.IntType(32), lane)
        value = builder.call(one, [builder.extract_element(vector, place)])
        result = builder.insert_element(result, value, place)
    builder.ret(result)


def sin(x: Floats) -> Floats:
    """The sine of x."""
    return _with_large(x, _small_or(x, _turned(x, 0)), "sin")


def cos(x: Floats) -> Floats:
    """The cosine of x."""
    return _with_large(x, _turned(x, 1), "cos")


def tan(x: Floats) -> Floats:
    """The tangent of x."""
    return _with_large(x, _small_or(x, _tangent(x)), "tan")


FUNCTIONS: Mapping[str, Callable[..., Floats]] = {
    function.__name__: function for function in (cos, sin, tan)
}
"""All functions by their name."""
