"""
Trigonometric functions of `f32` as straight LLVM code, for numbers and vectors, of any
size (see `penstock.runtime.kernels.math.f32`).

The argument reduction multiplies an angle with 2 / pi, and only the fraction of a turn
counts. So those bits of 2 / pi are selected that do not make whole turns of the angle,
in three parts: its products with the first two are exact in 64 bits, the third is
short.

The largest errors over all floats, in units in the last place (ulp) of the result:
`sin` 0.52, `cos` 0.52, `tan` 0.55.
"""

# llvmlite carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false, reportReturnType=false

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from penstock.runtime.kernels.math.f32 import Floats, LlvmValue, polynomial

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


def _turned(x: Floats, quarters: int) -> Floats:
    """The sine of an angle and so many quarter turns."""
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
