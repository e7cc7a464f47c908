"""
Trigonometric functions of `f32` on a GPU as LLVM code, without a stack and without
64-bit numbers but integers.

libdevice keeps the digits of 2 / pi for large angles in an array, which costs each
thread local memory. Here they are constants, selected by comparisons. Up to `LARGE`
quarter turns are taken off in three parts of pi / 2; beyond, an angle is multiplied by
those bits of 2 / pi that do not make whole turns of it.

The largest errors of all angles, in units in the last place (ulp) of the result: `sin`
1.5, `cos` 1.5, `tan` 3.21.
"""

# llvmlite carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportMissingTypeStubs=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
import struct
from fractions import Fraction

from llvmlite import ir

from penstock.runtime.kernels.math.trig_f32 import BITS, COS, SIN, TWO_OVER_PI

I32, I64, F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
QUARTER = Fraction(314159265358979323846264338327950288, 2 * 10**35)
"""pi / 2."""
LARGE = 2.0**15
"""From this angle on pi / 2 is needed with more than three parts."""
ROUNDING = 1.5 * 2.0**23
"""Added to a small float, it leaves the nearest integer in the last bits."""
ZEROS = 64
"""The bits before those of 2 / pi, for angles that are not large enough to lose any."""
WORDS = tuple(
    (TWO_OVER_PI << 9 * 32 - ZEROS - BITS) >> 32 * (8 - place) & 0xFFFFFFFF
    for place in range(9)
)
"""These and 2 / pi in words, from the first."""


def _parts() -> tuple[float, float, float]:
    """pi / 2 as a sum of three `float32`."""
    found: list[float] = []
    rest = QUARTER
    for _ in range(3):
        (part,) = struct.unpack("f", struct.pack("f", float(rest)))
        found.append(part)
        rest -= Fraction(part)
    return found[0], found[1], found[2]


def _float(value):
    """A constant, rounded to a `float32`."""
    (rounded,) = struct.unpack("f", struct.pack("f", value))
    return ir.Constant(F32, rounded)


def _reduced(builder, size):
    """
    A positive angle less the nearest whole number of quarter turns, and that number, of
    which the last two bits count.
    """
    is_large = builder.fcmp_ordered(">=", size, _float(LARGE))
    with builder.if_else(is_large) as (then, otherwise):
        with then:
            large = *_reduced_large(builder, size), builder.block
        with otherwise:
            small = *_reduced_small(builder, size), builder.block
    found = []
    for place, type in enumerate((F32, I32)):
        value = builder.phi(type)
        for branch in (large, small):
            value.add_incoming(branch[place], branch[2])
        found.append(value)
    return found


def _reduced_small(builder, size):
    turns = builder.fma(size, _float(1 / float(QUARTER)), _float(ROUNDING))
    number = builder.bitcast(turns, I32)
    turns = builder.fsub(turns, _float(ROUNDING))
    for part in _parts():
        size = builder.fma(turns, _float(-part), size)
    return size, number


def _reduced_large(builder, size):
    bits = builder.bitcast(size, I32)
    fraction = builder.and_(bits, I32((1 << 23) - 1))
    digits = builder.zext(builder.or_(fraction, I32(1 << 23)), I64)
    # Of the bits of 2 / pi, those before this one make multiples of four quarter turns.
    exponent = builder.lshr(bits, I32(23))
    first = builder.sub(exponent, I32(127 + 25 - ZEROS))
    shift = builder.zext(builder.and_(first, I32(31)), I64)
    words = _chosen(builder, builder.lshr(first, I32(5)))
    high, middle, low = (
        _shifted(builder, words[place], words[place + 1], shift) for place in range(3)
    )
    # The product modulo 2**96, but for its last 32 bits: two bits before the point.
    product = builder.lshr(builder.mul(digits, low), I64(32))
    product = builder.add(product, builder.mul(digits, middle))
    product = builder.add(product, builder.shl(builder.mul(digits, high), I64(32)))
    number = builder.lshr(builder.add(product, I64(1 << 61)), I64(62))
    # With the sign that it has behind the nearest number, and room to be rounded.
    rest = builder.ashr(builder.shl(product, I64(2)), I64(1))
    rounded = builder.sitofp(rest, F32)
    lost = builder.sub(rest, builder.fptosi(rounded, I64))
    first, second, _ = (_float(math.ldexp(part, -63)) for part in _parts())
    more = builder.fmul(builder.sitofp(lost, F32), first)
    more = builder.fma(rounded, second, more)
    return builder.fma(rounded, first, more), builder.trunc(number, I32)


def _chosen(builder, place):
    """Four of the words that follow each other, from a place on."""
    found = [I64(word) for word in WORDS[:4]]
    for start in range(1, len(WORDS) - 3):
        is_there = builder.icmp_unsigned("==", place, I32(start))
        found = [
            builder.select(is_there, I64(word), so_far)
            for word, so_far in zip(WORDS[start : start + 4], found, strict=True)
        ]
    return found


def _shifted(builder, word, following, shift):
    """The 32 bits of two words from a bit of the first one on, in 64."""
    both = builder.or_(builder.shl(word, I64(32)), following)
    return builder.lshr(builder.shl(both, shift), I64(32))


def _polynomial(builder, x, factors):
    """The value of a polynomial, whose factors come highest power first."""
    value = _float(factors[0])
    for factor in factors[1:]:
        value = builder.fma(value, x, _float(factor))
    return value


def _waves(builder, angle):
    """The sine and the cosine of a small angle."""
    square = builder.fmul(angle, angle)
    cube = builder.fmul(square, angle)
    sine = builder.fma(_polynomial(builder, square, SIN), cube, angle)
    cosine = builder.fma(_polynomial(builder, square, COS), square, _float(1.0))
    return sine, cosine


def _has_bit(builder, number, bit):
    masked = builder.and_(number, I32(bit))
    return builder.icmp_unsigned("!=", masked, I32(0))


def _size(builder, x):
    """A float without its sign."""
    bits = builder.and_(builder.bitcast(x, I32), I32((1 << 31) - 1))
    return builder.bitcast(bits, F32)


def _with_sign(builder, value, number):
    """A float whose sign is changed by the second last bit of an integer."""
    sign = builder.shl(builder.and_(number, I32(2)), I32(30))
    return builder.bitcast(builder.xor(builder.bitcast(value, I32), sign), F32)


def _as_sign_of(builder, value, x):
    """A float whose sign is changed if another one has one."""
    sign = builder.and_(builder.bitcast(x, I32), I32(1 << 31))
    return builder.bitcast(builder.xor(builder.bitcast(value, I32), sign), F32)


def _if_finite(builder, value, x):
    """A value, or no number if the angle is none."""
    none = builder.fsub(x, x)
    is_finite = builder.fcmp_ordered("==", none, _float(0.0))
    return builder.select(is_finite, value, none)


def sin(builder, x):
    """The sine of a `float32`."""
    angle, number = _reduced(builder, _size(builder, x))
    sine, cosine = _waves(builder, angle)
    value = builder.select(_has_bit(builder, number, 1), cosine, sine)
    value = _as_sign_of(builder, _with_sign(builder, value, number), x)
    return _if_finite(builder, value, x)


def cos(builder, x):
    """The cosine of a `float32`."""
    angle, number = _reduced(builder, _size(builder, x))
    sine, cosine = _waves(builder, angle)
    number = builder.add(number, I32(1))
    value = builder.select(_has_bit(builder, number, 1), cosine, sine)
    return _if_finite(builder, _with_sign(builder, value, number), x)


def tan(builder, x):
    """The tangent of a `float32`."""
    angle, number = _reduced(builder, _size(builder, x))
    sine, cosine = _waves(builder, angle)
    is_odd = _has_bit(builder, number, 1)
    minus = builder.fsub(_float(-0.0), cosine)
    above = builder.select(is_odd, minus, sine)
    below = builder.select(is_odd, sine, cosine)
    value = _as_sign_of(builder, builder.fdiv(above, below), x)
    return _if_finite(builder, value, x)
