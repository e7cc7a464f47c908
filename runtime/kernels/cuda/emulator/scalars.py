"""
Scalar functions of CUDA kernels in Python: for Numba's simulator, thread by thread, and
for the lock-step emulator.

They have the names and meanings of those in `penstock.runtime.kernels.cuda.intrinsics`,
on NumPy's scalars, so that types are the same.
"""

# numba.cuda carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from penstock.runtime.kernels.cuda.emulator.warp import from_bf16, to_bf16

f32, f64 = np.float32, np.float64
i32, i64 = np.int32, np.int64

Function = TypeVar("Function", bound=Callable[..., object])


def on_device(function: Function) -> Function:
    """A function that kernels may call."""
    return function


maximum, minimum, maxnum, minnum = np.maximum, np.minimum, np.fmax, np.fmin
fabs, copysign, sqrt = np.fabs, np.copysign, np.sqrt
floor, ceil, trunc, round_even = np.floor, np.ceil, np.trunc, np.rint
exp, exp2, expm1 = np.exp, np.exp2, np.expm1
log, log2, log10, log1p = np.log, np.log2, np.log10, np.log1p
sin, cos, tan = np.sin, np.cos, np.tan
asin, acos, atan, atan2 = np.arcsin, np.arccos, np.arctan, np.arctan2
sinh, cosh, tanh = np.sinh, np.cosh, np.tanh
asinh, acosh, atanh = np.arcsinh, np.arccosh, np.arctanh
cbrt, pow, fmod = np.cbrt, np.power, np.fmod


def erf(value):
    """The error function."""
    return type(value)(math.erf(value))


def fma(a, b, c):
    """`a * b + c`, rounded once, but for numbers too small to be normal."""
    if np.result_type(a, b, c) != f64:
        return _odd_sum(f64(a) * f64(b), f64(c)).astype(c.dtype)
    # After S. Boldo and G. Melquiond, "Emulation of FMA and correctly rounded sums".
    high, low = _exact_product(a, b)
    sum, rest = _exact_sum(c, low)
    whole, left = _exact_sum(high, sum)
    found = whole + _odd_sum(rest, left)
    return np.where(np.isfinite(found), found, a * b + c)[()]


def _exact_sum(a, b):
    """The sum of two floats, and what rounding it has lost."""
    sum = a + b
    part = sum - a
    return sum, (a - (sum - part)) + (b - part)


def _exact_product(a, b):
    """The product of two `float64`, and what rounding it has lost."""
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    product = a * b
    rest = a_high * b_high - product + a_high * b_low + a_low * b_high
    return product, rest + a_low * b_low


def _halves(value):
    """Two floats of half as many digits that are a number together."""
    scaled = value * f64(134217729.0)
    high = scaled - (scaled - value)
    return high, value - high


def _odd_sum(a, b):
    """The sum of two `float64`; if it is not exact, the odd one of its neighbours."""
    sum, lost = _exact_sum(np.asarray(a, f64), np.asarray(b, f64))
    bits = sum.view(i64)
    moved = bits + np.where((lost > 0) == (sum > 0), 1, -1)
    is_moved = np.isfinite(lost) & (lost != 0) & (bits & 1 == 0)
    return np.where(is_moved, moved, bits).view(f64)[()]


def round_away(value):
    """The nearest whole number, away from zero if there are two."""
    return np.copysign(np.floor(np.fabs(value) + f32(0.5)), value)


def select(condition, a, b):
    """`a` where the condition holds, else `b`; both are of one type."""
    return a if condition else b


def round_f16(value):
    """The nearest 16-bit float, as a `float32`."""
    return f32(np.float16(value))


def round_bf16(value):
    """The nearest `bfloat16`, as a `float32`."""
    return from_bf16(to_bf16(value))


def div_trunc(a, b):
    """`a / b` rounded toward zero; 0 if `b` is 0."""
    if b == 0:
        return type(a)(0)
    quotient = a // b
    if quotient < 0 and quotient * b != a:
        quotient += type(a)(1)
    return type(a)(quotient)


def div_floor(a, b):
    """`a / b` rounded down; 0 if `b` is 0."""
    if b == 0:
        return type(a)(0)
    return type(a)(a // b)


def div_ceil(a, b):
    """`a / b` rounded up; 0 if `b` is 0."""
    if b == 0:
        return type(a)(0)
    quotient = a // b
    if quotient * b != a:
        quotient += type(a)(1)
    return type(a)(quotient)


def rem_trunc(a, b):
    """The remainder of `div_trunc`, with the sign of `a`; 0 if `b` is 0."""
    if b == 0:
        return type(a)(0)
    rest = a % b
    if rest != 0 and (rest < 0) != (a < 0):
        rest -= b
    return type(a)(rest)


def shl(a, b):
    """`a` shifted left; 0 for a shift by as many bits as there are or more."""
    amount = i64(b)
    if amount < 0 or amount > 63:
        return type(a)(0)
    return type(a)(i64(a) << amount)


def shr(a, b):
    """`a` shifted right; its sign for a shift by as many bits as there are or more."""
    amount = i64(b)
    if amount < 0 or amount > 63:
        return type(a)(-1) if a < 0 else type(a)(0)
    return type(a)(a >> type(a)(amount))


def quotient(a, b):
    """`a / b` rounded down, of an index and a positive number."""
    return i32(a // b)


def remainder(a, b):
    """The remainder of `quotient`."""
    return i32(a % b)
