"""
Elementary functions of `f64` as straight LLVM code, like those of
`penstock.runtime.kernels.math.f32`: no calls, no branches, no tables, so that loops
around them vectorise, and the same for numbers and vectors.

The largest errors that were found, in units in the last place (ulp) of the result:

| function | ulp | function | ulp | function | ulp |
|---|---|---|---|---|---|
| `exp` | 1.0 | `log` | 0.7 | `tanh` | 1.4 |
| `exp2` | 1.0 | `log2` | 0.8 | `erf` | 1.2 |
| `expm1` | 1.2 | `log10` | 0.7 | | |
| | | `log1p` | 0.7 | | |

Infinities, zeros of both signs and NaN give what the C library gives. Powers, roots,
hyperbolic sines and cosines, and all inverse functions are those of the C library;
trigonometric functions are in `penstock.runtime.kernels.math.trig_f64`.
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
    Floats,
    LlvmValue,
    below,
    has_scaling,
    like,
    log_ends,
    polynomial,
    scaled,
    splat_constant,
)

MAGIC = 6755399441055744.0
"""1.5 * 2**52: a float near it has steps of 1, and the whole number in its low bits."""

LOG2_E, LOG2_E_LOW = 1.4426950408889634, 2.0355273740931033e-17
LOG10_E, LOG10_E_LOW = 0.4342944819032518, 1.098319650216765e-17
LN2_HIGH, LN2_LOW = 0.6931467056274414, 4.7493250390316726e-07
LOG10_2_HIGH, LOG10_2_LOW = 0.30102992057800293, 7.508597826552624e-08
"""
Numbers in two parts; the first of the last two have so few bits that their multiples
are exact.
"""

EXP = (
    2.0914686968086876e-09,
    2.5105217004720745e-08,
    2.75572736431103e-07,
    2.7557255400206422e-06,
    2.4801587325547743e-05,
    0.00019841269874820627,
    0.0013888888888883748,
    0.008333333333326136,
    0.04166666666666667,
    0.1666666666666667,
    0.5,
)
EXPM1 = (
    1.1512854389790144e-11,
    1.6126432806978262e-10,
    2.087661446877803e-09,
    2.5051880288085798e-08,
    2.7557319455449833e-07,
    2.755731959444932e-06,
    2.4801587301404586e-05,
    0.00019841269840977397,
    0.001388888888888895,
    0.008333333333333432,
    0.041666666666666664,
    0.16666666666666666,
    0.5,
)
EXP2 = (
    1.3716972592177838e-12,
    2.57335903859786e-11,
    4.445530302729252e-10,
    7.054894372547497e-09,
    1.0178086021199822e-07,
    1.3215486816031034e-06,
    1.5252733804051115e-05,
    0.00015403530393362725,
    0.0013333558146428445,
    0.009618129107628484,
    0.05550410866482158,
    0.24022650695910072,
    0.6931471805599453,
)
LOG = (
    0.14617807153417325,
    0.15331611722055008,
    0.1818289243253687,
    0.22222211089379496,
    0.28571428626253836,
    0.3999999999989889,
    0.666666666666667,
)
TANH = (
    -2.438400399382581e-06,
    1.2208951562613946e-05,
    -3.708011585592229e-05,
    9.604055445314602e-05,
    -0.00023888925486752704,
    0.000589981770846713,
    -0.0014558283927967681,
    0.0035921275068775014,
    -0.008863235499755191,
    0.02186948853513144,
    -0.05396825396823587,
    0.13333333333333322,
    -0.3333333333333333,
)
ERF_NEAR = (
    2.8064546261347745e-13,
    -6.196562036141373e-12,
    9.323671002925106e-11,
    -1.2277725188835041e-09,
    1.480602607137073e-08,
    -1.636576856367511e-07,
    1.6462110777293664e-06,
    -1.4925650236783229e-05,
    0.00012055332978874488,
    -0.0008548327023402909,
    0.005223977625441673,
    -0.026866170645131218,
    0.11283791670955126,
    -0.37612638903183754,
    0.1283791670955126,
)
ERF_FAR = (
    -2.029332055901924e-07,
    -2.682275521420964e-07,
    1.2461862653067232e-06,
    2.11217573302358e-06,
    -7.977828378573156e-06,
    -1.2859323495227516e-05,
    6.405659921668335e-05,
    4.5255201253355865e-05,
    -0.0005970619547884931,
    0.0007077464434761383,
    0.004269136333139501,
    -0.024392499318786412,
    0.07166583719797218,
    -0.1501159365007759,
    0.24560380171233093,
    -0.3262335600430372,
    0.17900115118138996,
)
"""Polynomials, the highest power first, through the exact values at some places."""
ERF_CENTER, NEAR = 3.0, 0.52


################################################################################
# Exponentials                                                                 #
################################################################################


def _whole_part(x: Floats, factor: float) -> tuple[Floats, LlvmValue]:
    """The whole number nearest to `x * factor`, as float and integer of 32 bits."""
    shifted = x.times_plus(factor, MAGIC)
    narrow = like(x.value.type, ir.IntType(32))
    return shifted - MAGIC, x.builder.trunc(shifted.bits(), narrow)


def _times_power(x: Floats, exponent: LlvmValue) -> Floats:
    """`x * 2**exponent`, rounded once; x is near 1, the exponent in -1080...1030."""
    builder = x.builder
    half = builder.ashr(exponent, splat_constant(exponent.type, 1))
    for part in (half, builder.sub(exponent, half)):
        x = x * _power(x, part)
    return x


def _power(x: Floats, exponent: LlvmValue) -> Floats:
    """2 to the power of an integer of 32 bits from -1022 to 1023."""
    builder = x.builder
    biased = builder.add(exponent, splat_constant(exponent.type, 1023))
    wide = builder.zext(biased, x.whole_number(0).type)
    return x.from_bits(builder.shl(wide, x.whole_number(52)))


def _exp_parts(
    x: Floats, less: Floats | None = None
) -> tuple[Floats, Floats, LlvmValue]:
    """
    `p` and `n` such that e**(x - less) is `(1 + p) * 2**n`, with a small `less`, and
    `n` as an integer, too.
    """
    n, integer = _whole_part(x, LOG2_E)
    rest = n.times_plus(-LN2_LOW, n.times_plus(-LN2_HIGH, x))
    if less is not None:
        rest = rest - less
    return (polynomial(rest, EXP) * rest).times_plus(rest, rest), n, integer


def exp(x: Floats, scaling: bool | None = None) -> Floats:
    """e to the power of x."""
    if has_scaling() if scaling is None else scaling:
        p, whole, n = _exp_parts(x.at_least(-746.0).at_most(710.0))
        return scaled(p + 1.0, whole, n)
    # A product that rounds to 0 takes many times as long as others.
    is_zero = x.compared("<", -746.0)
    p, _, n = _exp_parts(x.where(is_zero, 0.0).at_most(710.0))
    return _times_power(p + 1.0, n).where(is_zero, 0.0)


def share(x: Floats) -> Floats:
    """e to the power of x up to 709, but 0 for x below -708, as of 32 bits."""
    p, _, n = _exp_parts(x)
    return ((p + 1.0) * _power(x, n)).where(x.compared("<", -708.0), 0.0)


def exp2(x: Floats, scaling: bool | None = None) -> Floats:
    """2 to the power of x."""
    x = x.at_least(-1076.0).at_most(1025.0)
    n, integer = _whole_part(x, 1.0)
    rest = x - n
    p = polynomial(rest, EXP2).times_plus(rest, 1.0)
    if has_scaling() if scaling is None else scaling:
        return scaled(p, n, integer)
    return _times_power(p, integer)


def _expm1_of(x: Floats) -> Floats:
    """e to the power of x from -38 to 710, less 1."""
    n, integer = _whole_part(x, LOG2_E)
    # Near 0 a power would cost more than the longer polynomial does.
    is_near = x.size().compared("<", NEAR)
    n = n.where(is_near, 0.0)
    none = splat_constant(integer.type, 0)
    integer = x.builder.select(is_near, none, integer)
    rest = n.times_plus(-LN2_LOW, n.times_plus(-LN2_HIGH, x))
    p = (polynomial(rest, EXPM1) * rest).times_plus(rest, rest)
    one = splat_constant(integer.type, 1)
    half = _power(x, x.builder.sub(integer, one))
    # Half of the power is a float where the power is not.
    return half.times_plus(p, half - 0.5) * 2.0


def expm1(x: Floats) -> Floats:
    """e to the power of x, less 1."""
    result = _expm1_of(x.at_least(-38.0).at_most(710.0))
    # Its own sign for a zero, and no step in what is too small for one.
    return result.where(x.size().compared("<", 2.0**-54), x)


################################################################################
# Logarithms                                                                   #
################################################################################


def _log_parts(x: Floats) -> tuple[Floats, Floats]:
    """`m - 1` and `n` such that x is `m * 2**n`, with m from sqrt(1/2) to sqrt(2)."""
    builder = x.builder
    is_small = x.compared("<", 2.0**-1022)
    scaled = x.where(is_small, x * 2.0**54)
    root = x.whole_number(0x3FE6A09E667F3BCD)
    distance = builder.sub(scaled.bits(), root)
    # The upper half has the exponent: fewer processors shift 64 bits with their sign.
    narrow = like(x.value.type, ir.IntType(32))
    upper = builder.trunc(builder.lshr(distance, x.whole_number(32)), narrow)
    exponent = builder.ashr(upper, splat_constant(narrow, 20))
    fraction = builder.and_(distance, x.whole_number((1 << 52) - 1))
    m = x.from_bits(builder.add(fraction, root))
    n = x.made(builder.sitofp(exponent, x.value.type))
    return m - 1.0, n.where(is_small, n - 54.0)


def _log_of_fraction(f: Floats) -> tuple[Floats, Floats]:
    """The logarithm of 1 + f in two parts, of which the second is smaller."""
    s = f / (f + 2.0)
    square = s * s
    half = f * 0.5
    product = half * f
    high = f - product
    # Rounding errors of the product and the difference count, too.
    lost = (f - high) - product - half.times_plus(f, -product)
    rest = s * polynomial(square, LOG).times_plus(square, product)
    return high, lost + rest


def log(x: Floats) -> Floats:
    """The natural logarithm of x."""
    f, n = _log_parts(x)
    high, low = _log_of_fraction(f)
    return log_ends(x, _joined(n * LN2_HIGH, high, n.times_plus(LN2_LOW, low)))


def _joined(large: Floats, high: Floats, low: Floats) -> Floats:
    """The sum of a number that is 0 or larger than `high`, of that, and the rest."""
    total = large + high
    lost = (large - total) + high
    return total + (lost + low)


def _scaled_log(
    x: Floats, base: tuple[float, float], power: tuple[float, float]
) -> Floats:
    """A logarithm: that of e and that of 2 to its base are given in two parts."""
    f, n = _log_parts(x)
    high, low = _log_of_fraction(f)
    scaled = high * base[0]
    lost = high.times_plus(base[0], -scaled)
    rest = high.times_plus(base[1], low.times_plus(base[0], lost))
    rest = n.times_plus(power[1], rest)
    return log_ends(x, _joined(n * power[0], scaled, rest))


def log2(x: Floats) -> Floats:
    """The logarithm of x to the base 2."""
    return _scaled_log(x, (LOG2_E, LOG2_E_LOW), (1.0, 0.0))


def log10(x: Floats) -> Floats:
    """The logarithm of x to the base 10."""
    return _scaled_log(x, (LOG10_E, LOG10_E_LOW), (LOG10_2_HIGH, LOG10_2_LOW))


def log1p(x: Floats) -> Floats:
    """The natural logarithm of 1 + x."""
    total = x + 1.0
    kept = total - 1.0
    lost = (x.number(1.0) - (total - kept)) + (x - kept)
    f, n = _log_parts(total)
    is_near = n.compared("==", 0.0)
    high, low = _log_of_fraction(f.where(is_near, x))
    more = (lost / total).where(is_near, 0.0)
    result = _joined(n * LN2_HIGH, high, n.times_plus(LN2_LOW, low) + more)
    result = result.where(x.compared("==", math.inf), math.inf)
    result = result.where(below(x, -1.0), math.nan)
    result = result.where(x.compared("==", -1.0), -math.inf)
    return result.where(x.size().compared("<", 2.0**-54), x)


################################################################################
# Hyperbolic tangent and error function                                        #
################################################################################


def tanh(x: Floats) -> Floats:
    """The hyperbolic tangent of x."""
    size = x.size().at_most(20.0)
    square = size * size
    near = (polynomial(square, TANH) * square).times_plus(size, size)
    p, _, n = _exp_parts(size + size)
    far = x.number(1.0) - x.number(2.0) / ((p + 1.0) * _power(x, n) + 1.0)
    return far.where(below(size, 0.625), near).with_sign_of(x)


def erf(x: Floats) -> Floats:
    """The error function of x."""
    size = x.size().at_most(5.95)
    square = size * size
    near = polynomial(square, ERF_NEAR).times_plus(size, size)
    # The remainder is a power times a polynomial of a fraction.
    lost = size.times_plus(size, -square)
    p, _, n = _exp_parts(-square, lost)
    place = (size - ERF_CENTER) / (size + ERF_CENTER)
    rest = (p + 1.0) * _power(x, n) * polynomial(place, ERF_FAR)
    far = x.number(1.0) - rest
    return far.where(below(size, 1.0), near).with_sign_of(x)


FUNCTIONS: Mapping[str, Callable[..., Floats]] = {
    function.__name__: function
    for function in (erf, exp, exp2, expm1, log, log10, log1p, log2, tanh)
}
"""All functions by their name."""
