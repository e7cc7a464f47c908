"""
Hyperbolic functions of `f32`, their inverses, and those of sines, cosines and tangents,
as LLVM code for numbers and vectors (see `penstock.runtime.kernels.math.f32`).

All are computed in 64 bits, where one division or root and a short polynomial are near
enough, and rounded once. The largest errors over all floats, in units in the last place
(ulp) of the result: `acos` 0.51, `acosh` 0.51, `asin` 0.51, `asinh` 0.51, `atan` 0.51,
`atan2` 0.51, `atanh` 0.51, `cosh` 0.51, `sinh` 0.51.
"""

# llvmlite carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false, reportReturnType=false

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from llvmlite import ir

from penstock.runtime.kernels.math.f32 import (
    LOG2_E,
    WIDE_LOG,
    Floats,
    below,
    like,
    polynomial,
    splat_constant,
    wide_exp2,
    wide_log1p,
)

SINH = (
    2.806290439900211e-06,
    0.00019838100441746227,
    0.008333339681641145,
    0.16666666646810369,
)
ASIN = (
    0.031096758837067768,
    0.010483869033137742,
    0.02363694381916823,
    0.030265929921876333,
    0.044647848714169845,
    0.07499992016279435,
    0.16666666687399995,
)
ATAN = (
    0.05054009507238061,
    -0.08627212217576138,
    0.1107174883746072,
    -0.14284174939661037,
    0.1999997777418461,
    -0.33333333281053523,
)
"""
Polynomials of the square, the highest power first, through the exact values at the
places of Chebyshev: up to 1, 1/4, and the square of `EIGHTH`.
"""

EIGHTH = math.tan(math.pi / 8)
"""The tangent of an eighth of a half turn: 1 over it is 2 more."""


def _odd(x: Floats, coefficients: tuple[float, ...]) -> Floats:
    """`x + x**3 p(x**2)`."""
    square = x * x
    return (polynomial(square, coefficients) * square).times_plus(x, x)


################################################################################
# Hyperbolic functions                                                         #
################################################################################


def _exponential(size: Floats) -> Floats:
    """e to the power of a number that is not negative, up to 90, in 64 bits."""
    return wide_exp2(size.at_most(90.0) * LOG2_E)


def sinh(x: Floats) -> Floats:
    """The hyperbolic sine of x."""
    size = x.size().wide()
    power = _exponential(size)
    far = (power - power.number(1.0) / power) * 0.5
    return far.where(below(size, 1.0), _odd(size, SINH)).narrow().with_sign_of(x)


def cosh(x: Floats) -> Floats:
    """The hyperbolic cosine of x."""
    size = x.size()
    power = _exponential(size.wide())
    result = (power + power.number(1.0) / power) * 0.5
    return result.narrow().where(below(size, 0.0), x)


def asinh(x: Floats) -> Floats:
    """The inverse hyperbolic sine of x."""
    size = x.size()
    wide = size.wide()
    root = (wide * wide + 1.0).root()
    result = wide_log1p(wide + (root - 1.0)).narrow()
    result = result.where(size.compared("==", math.inf), math.inf)
    # Its cube does not count, and the root has lost its bits.
    return result.where(below(size, 2.0**-13), size).with_sign_of(x)


def acosh(x: Floats) -> Floats:
    """The inverse hyperbolic cosine of x."""
    wide = x.wide()
    above = wide - 1.0
    result = wide_log1p(above + (above * (wide + 1.0)).root()).narrow()
    result = result.where(x.compared("==", math.inf), math.inf)
    return result.where(below(x, 1.0), math.nan)


def atanh(x: Floats) -> Floats:
    """The inverse hyperbolic tangent of x."""
    builder, size = x.builder, x.size().wide()
    above, under = size + 1.0, size.number(1.0) - size
    # Half the logarithm of their quotient; bits count as a logarithm to the base 2.
    distance = builder.sub(above.bits(), under.bits())
    rounded = builder.add(distance, size.whole_number(1 << 51))
    power = builder.and_(rounded, size.whole_number(-1 << 52))
    scaled = under.from_bits(builder.add(under.bits(), power))
    narrow = like(size.value.type, ir.IntType(32))
    upper = builder.trunc(builder.lshr(power, size.whole_number(32)), narrow)
    exponent = builder.ashr(upper, splat_constant(narrow, 20))
    n = size.made(builder.sitofp(exponent, size.value.type))
    rest = _odd((above - scaled) / (above + scaled), WIDE_LOG)
    result = n.times_plus(math.log(2.0) / 2, rest)
    result = result.where(size.compared("==", 1.0), math.inf)
    result = result.where(size.compared(">", 1.0), math.nan).narrow().with_sign_of(x)
    # Its cube does not count, and the sums have lost its bits.
    return result.where(x.size().compared("<", 2.0**-13), x)


################################################################################
# Angles                                                                       #
################################################################################


def _arc(size: Floats) -> tuple[Floats, ir.Value]:
    """
    The angle whose sine is `size` up to 1/2, or half of that whose cosine is a larger
    one, and whether it is larger.
    """
    is_far = size.compared(">", 0.5)
    half = size.times_plus(-0.5, 0.5)
    return _odd(size.where(is_far, half.root()), ASIN), is_far


def asin(x: Floats) -> Floats:
    """The angle from -pi/2 to pi/2 whose sine is x."""
    angle, is_far = _arc(x.size().wide())
    result = angle.where(is_far, angle.times_plus(-2.0, math.pi / 2))
    return result.narrow().with_sign_of(x)


def acos(x: Floats) -> Floats:
    """The angle from 0 to pi whose cosine is x."""
    angle, is_far = _arc(x.size().wide())
    is_negative = x.compared("<", 0.0)
    start, factor = angle.number(0.0).where(is_negative, math.pi), angle.number(2.0)
    start = angle.number(math.pi / 2).where(is_far, start)
    factor = angle.number(-1.0).where(is_far, factor)
    return angle.times_plus(factor.where(is_negative, -factor), start).narrow()


def _direction(side: Floats, base: Floats) -> Floats:
    """The angle from 0 to pi/2 whose tangent is `side / base`, of one division."""
    is_low = side.compared("<=", base * EIGHTH)
    is_high = side.compared(">", base * (EIGHTH + 2.0))
    above = (side - base).where(is_low, side).where(is_high, -base)
    below = (side + base).where(is_low, base).where(is_high, side)
    start = side.number(math.pi / 4).where(is_low, 0.0).where(is_high, math.pi / 2)
    return start + _odd(above / below, ATAN)


def atan(x: Floats) -> Floats:
    """The angle from -pi/2 to pi/2 whose tangent is x."""
    size = x.size().wide()
    return _direction(size, size.number(1.0)).narrow().with_sign_of(x)


def atan2(y: Floats, x: Floats) -> Floats:
    """The angle from -pi to pi of a point in the plane."""
    builder, side, base = y.builder, y.size().wide(), x.size().wide()
    # Quotients that are no numbers are those of points that have a direction, too.
    both_infinite = builder.and_(
        side.compared("==", math.inf), base.compared("==", math.inf)
    )
    side, base = side.where(both_infinite, 1.0), base.where(both_infinite, 1.0)
    result = _direction(side, base).where(side.compared("==", 0.0), 0.0)
    is_left = x.number(1.0).with_sign_of(x).compared("<", 0.0)
    result = result.where(is_left, result.number(math.pi) - result)
    any_nan = builder.fcmp_unordered("uno", y.value, x.value)
    return result.narrow().with_sign_of(y).where(any_nan, math.nan)


FUNCTIONS: Mapping[str, Callable[..., Floats]] = {
    function.__name__: function
    for function in (acos, acosh, asin, asinh, atan, atan2, atanh, cosh, sinh)
}
"""All functions by their name."""
