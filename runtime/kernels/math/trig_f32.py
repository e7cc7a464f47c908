"""
Trigonometric functions of `f32` as LLVM code, for numbers and vectors, of any size (see
`penstock.runtime.kernels.math.f32`).

Sines and cosines of angles below 32768 are computed in 32 bits: whole quarter turns are
subtracted in three parts, and what is left is a sum of two numbers. Where an angle, or
one of a vector, is larger, all of them are computed in 64 bits, as tangents are; that
is the only branch.

There the argument reduction multiplies an angle with 2 / pi, and only the fraction of a
turn counts. So those bits of 2 / pi are selected that do not make whole turns of the
angle, in three parts: its products with the first two are exact in 64 bits, the third
is short.

The largest errors over all floats, in units in the last place (ulp) of the result:
`sin` 0.9, `cos` 0.9, `tan` 0.55.
"""

# llvmlite carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false, reportReturnType=false

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from penstock.runtime.kernels.math.f32 import (
    Floats,
    LlvmValue,
    all_or_any,
    polynomial,
    whole_part,
)

TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041
"""The first 192 bits of 2 / pi behind the point."""
BITS = 192

PART = 29
"""The bits of a part: with the 24 of a float they fit into 53."""

RANGES = (40, 68, 96)
"""The powers of two from which on other bits of 2 / pi are taken."""

SIN = (
    -2.4788483013389766e-08,
    2.7555799266034336e-06,
    -0.0001984126626112866,
    0.008333333330380693,
    -0.1666666666666277,
)
COS = (
    2.0650803508416593e-09,
    -2.755564431842976e-07,
    2.4801581574172194e-05,
    -0.001388888888003292,
    0.04166666666661658,
    -0.49999999999999956,
)
"""Polynomials of the square of an angle, the highest power first."""


NEAR = 32768.0
"""The angles that are computed in 32 bits are below it."""
QUARTER = 1.57079637050628662109375, -4.37113900018624283e-08, -1.71512449e-15
"""A quarter turn in three floats."""
NEAR_SIN = 2.7182123e-06, -0.00019839325, 0.008333329, -0.16666667
NEAR_COS = 2.4382438e-05, -0.0013886669, 0.04166662
"""
Polynomials of the square of an angle of 32 bits, the highest power first. That of the
cosine is for what 1 less half of the square leaves.
"""


def parts_of(exponent: int) -> tuple[float, float, float]:
    """
    The bits of 2 / pi in three parts for angles from `2**exponent` to `2**(exponent +
    28)`: without those that make multiples of four quarter turns of each such angle.
    """
    first = max(exponent - 25, 0)
    found: list[float] = []
    for begin, count in ((first, PART), (first + PART, PART), (first + 2 * PART, 53)):
        bits = TWO_OVER_PI >> BITS - begin - count & (1 << count) - 1
        found.append(math.ldexp(bits, -begin - count))
    return found[0], found[1], found[2]


def _factors(size: Floats) -> list[Floats]:
    """The three parts of 2 / pi for angles of a size."""
    factors = [size.number(part) for part in parts_of(0)]
    for exponent in RANGES:
        is_above = size.compared(">=", 2.0**exponent)
        parts = parts_of(exponent)
        factors = [
            factor.where(is_above, part)
            for factor, part in zip(factors, parts, strict=True)
        ]
    return factors


def _reduced(x: Floats) -> tuple[Floats, LlvmValue]:
    """
    The angle less the nearest whole number of quarter turns, and this number modulo 4,
    of an angle in 64 bits that fits into 32.
    """
    first, second, third = (x * factor for factor in _factors(x.size()))
    turns, more = first.whole(), second.whole()
    first, second = first - turns, second - more
    # Modulo 4, so that the sum is small enough to be an integer.
    turns = turns - (turns * 0.25).whole() * 4.0
    more = more - (more * 0.25).whole() * 4.0
    total = first + second
    part = total - first
    lost = (first - (total - part)) + (second - part)
    nearest = total.whole()
    rest = (total - nearest) + (lost + third)
    quarters = turns + more + nearest + 1.5 * 2.0**52
    return rest * (math.pi / 2), quarters.bits()


def _sine(x: Floats, square: Floats) -> Floats:
    """The sine of a small angle."""
    return (polynomial(square, SIN) * square).times_plus(x, x)


def _cosine(x: Floats, square: Floats) -> Floats:
    """The cosine of a small angle."""
    return polynomial(square, COS).times_plus(square, 1.0)


def _has_bit(x: Floats, number: LlvmValue, bit: int) -> LlvmValue:
    """Whether an integer has a bit."""
    masked = x.builder.and_(number, x.whole_number(bit))
    return x.builder.icmp_unsigned("!=", masked, x.whole_number(0))


def _near_turned(x: Floats, quarters: int) -> Floats:
    """The sine of an angle below `NEAR` and so many quarter turns, in 32 bits."""
    builder = x.builder
    turns, number = whole_part(x, 2 / math.pi)
    rest = turns.times_plus(-QUARTER[0], x)
    more = turns * QUARTER[1]
    angle = rest - more
    # The losses of rounding, of the difference and of the product.
    taken = angle - rest
    lost = (rest - (angle - taken)) - (more + taken)
    low = lost - turns.times_plus(QUARTER[1], -more)
    low = turns.times_plus(-QUARTER[2], low)
    square = angle * angle
    cubic = (polynomial(square, NEAR_SIN) * square).times_plus(angle, low)
    half = square * 0.5
    first = x.number(1.0) - half
    # The rests of the angle, of its square, and of what is taken from 1.
    rest = angle.times_plus(low, angle.times_plus(angle, -square) * 0.5)
    rest = (x.number(1.0) - first - half) - rest
    cosine = first + (polynomial(square, NEAR_COS) * square).times_plus(square, rest)
    number = builder.add(number, x.whole_number(quarters))
    value = (angle + cubic).where(_has_bit(x, number, 1), cosine)
    sign = builder.shl(builder.and_(number, x.whole_number(2)), x.whole_number(30))
    return x.from_bits(builder.xor(value.bits(), sign))


def _near_or_far(
    x: Floats, near: Callable[[Floats], Floats], far: Callable[[Floats], Floats]
) -> Floats:
    """The value of a function of small angles, or of another one if any is large."""
    is_near = x.size().compared("<", NEAR)
    return all_or_any(is_near, x, lambda: near(x), lambda: far(x))


def _turned(x: Floats, quarters: int) -> Floats:
    """The sine of an angle and so many quarter turns."""
    return _near_or_far(
        x, lambda x: _near_turned(x, quarters), lambda x: _far_turned(x, quarters)
    )


def _far_turned(x: Floats, quarters: int) -> Floats:
    """The sine of an angle and so many quarter turns, in 64 bits."""
    angle, number = _reduced(x.wide())
    square = angle * angle
    number = angle.builder.add(number, angle.whole_number(quarters))
    is_odd = _has_bit(angle, number, 1)
    value = _sine(angle, square).where(is_odd, _cosine(angle, square))
    return value.where(_has_bit(angle, number, 2), -value).narrow()


def sin(x: Floats) -> Floats:
    """The sine of x."""
    # Of so small an angle it is the angle, with the sign of a zero.
    return _turned(x, 0).where(x.size().compared("<", 2.0**-12), x)


def cos(x: Floats) -> Floats:
    """The cosine of x."""
    return _turned(x, 1)


def tan(x: Floats) -> Floats:
    """The tangent of x."""
    angle, number = _reduced(x.wide())
    square = angle * angle
    sine, cosine = _sine(angle, square), _cosine(angle, square)
    is_odd = _has_bit(angle, number, 1)
    above, below = sine.where(is_odd, -cosine), cosine.where(is_odd, sine)
    return (above / below).narrow().where(x.size().compared("<", 2.0**-12), x)


FUNCTIONS: Mapping[str, Callable[..., Floats]] = {
    function.__name__: function for function in (cos, sin, tan)
}
"""All functions by their name."""
