"""
What the source of a CUDA kernel is written in: scalar functions.

They have the names and meanings of those in `penstock.runtime.kernel_support`. On a
device they are Numba's device functions; in its simulator, where kernels are ordinary
Python, they are NumPy's on scalars, so that types are the same.
"""

# numba.cuda carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportAttributeAccessIssue=false
# pyright: reportAssignmentType=false, reportRedeclaration=false, reportCallIssue=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numba import cuda
from numba.core import config

inf, nan = math.inf, math.nan
f32, f64 = np.float32, np.float64
i8, i16, i32, i64 = np.int8, np.int16, np.int32, np.int64
u8, u16, u32, u64 = np.uint8, np.uint16, np.uint32, np.uint64

Function = TypeVar("Function", bound=Callable[..., object])

SIMULATED = bool(getattr(config, "ENABLE_CUDASIM"))  # noqa: B009
"""Whether kernels run in Numba's simulator."""


def on_device(function: Function) -> Function:
    """A function that kernels may call, on a device and in the simulator."""
    if SIMULATED:
        return function
    return cast("Callable[[Function], Function]", cuda.jit(device=True))(function)


@on_device
def select(condition, a, b):
    """`a` where the condition holds, else `b`; both are of one type."""
    return a if condition else b


@on_device
def round_f16(value):
    """The nearest 16-bit float, as a `float32`."""
    return f32(np.float16(value))


@on_device
def div_trunc(a, b):
    """`a / b` rounded toward zero; 0 if `b` is 0."""
    if b == 0:
        return type(a)(0)
    quotient = a // b
    if quotient < 0 and quotient * b != a:
        quotient += type(a)(1)
    return type(a)(quotient)


@on_device
def div_floor(a, b):
    """`a / b` rounded down; 0 if `b` is 0."""
    if b == 0:
        return type(a)(0)
    return type(a)(a // b)


@on_device
def div_ceil(a, b):
    """`a / b` rounded up; 0 if `b` is 0."""
    if b == 0:
        return type(a)(0)
    quotient = a // b
    if quotient * b != a:
        quotient += type(a)(1)
    return type(a)(quotient)


@on_device
def rem_trunc(a, b):
    """What `div_trunc` leaves, with the sign of `a`; 0 if `b` is 0."""
    if b == 0:
        return type(a)(0)
    rest = a % b
    if rest != 0 and (rest < 0) != (a < 0):
        rest -= b
    return type(a)(rest)


@on_device
def shl(a, b):
    """`a` shifted left; 0 for a shift by as many bits as there are or more."""
    amount = i64(b)
    if amount < 0 or amount > 63:
        return type(a)(0)
    return type(a)(i64(a) << amount)


@on_device
def shr(a, b):
    """`a` shifted right; its sign for a shift by as many bits as there are or more."""
    amount = i64(b)
    if amount < 0 or amount > 63:
        return type(a)(-1) if a < 0 else type(a)(0)
    return type(a)(a >> type(a)(amount))


if SIMULATED:
    maximum, minimum, maxnum, minnum = np.maximum, np.minimum, np.fmax, np.fmin
    fabs, copysign, sqrt = np.fabs, np.copysign, np.sqrt
    floor, ceil, trunc, round_even = np.floor, np.ceil, np.trunc, np.rint
    exp, exp2, expm1 = np.exp, np.exp2, np.expm1
    log, log2, log10, log1p = np.log, np.log2, np.log10, np.log1p
    sin, cos, tan = np.sin, np.cos, np.tan
    asin, acos, atan, atan2 = np.arcsin, np.arccos, np.arctan, np.arctan2
    sinh, cosh, tanh = np.sinh, np.cosh, np.tanh
    asinh, acosh, atanh = np.arcsinh, np.arccosh, np.arctanh
    cbrt, pow = np.cbrt, np.power

    def erf(value):
        """The error function."""
        return type(value)(math.erf(value))

    def fma(a, b, c):
        """`a * b + c`, for `float32` rounded once, or nearly always so."""
        return type(a)(f64(a) * f64(b) + f64(c))

    def round_away(value):
        """The nearest whole number, away from zero if there are two."""
        return np.copysign(np.floor(np.fabs(value) + type(value)(0.5)), value)

else:
    from numba.cuda import libdevice

    fabs, copysign, sqrt = math.fabs, math.copysign, math.sqrt
    exp, expm1 = math.exp, math.expm1
    log, log2, log10, log1p = math.log, math.log2, math.log10, math.log1p
    sin, cos, tan = math.sin, math.cos, math.tan
    asin, acos, atan, atan2 = math.asin, math.acos, math.atan, math.atan2
    sinh, cosh, tanh = math.sinh, math.cosh, math.tanh
    asinh, acosh, atanh = math.asinh, math.acosh, math.atanh
    erf, pow = math.erf, math.pow

    @on_device
    def cbrt(value):
        """The cube root."""
        return cuda.cbrt(value)

    @on_device
    def fma(a, b, c):
        """`a * b + c`, rounded once."""
        return cuda.fma(a, b, c)

    @on_device
    def maximum(a, b):
        """The larger of two floats; a NaN if either is one."""
        if a != a or b != b:
            return a + b
        return a if a > b or (a == b and math.copysign(f64(1.0), f64(b)) < 0) else b

    @on_device
    def minimum(a, b):
        """The smaller of two floats; a NaN if either is one."""
        if a != a or b != b:
            return a + b
        return a if a < b or (a == b and math.copysign(f64(1.0), f64(b)) > 0) else b

    @on_device
    def maxnum(a, b):
        """The larger of two floats, or the one that is no NaN."""
        return a if b != b or a > b else b

    @on_device
    def minnum(a, b):
        """The smaller of two floats, or the one that is no NaN."""
        return a if b != b or a < b else b

    @on_device
    def floor(value):
        """The nearest whole number below."""
        return type(value)(libdevice.floor(f64(value)))

    @on_device
    def ceil(value):
        """The nearest whole number above."""
        return type(value)(libdevice.ceil(f64(value)))

    @on_device
    def trunc(value):
        """The nearest whole number toward zero."""
        return type(value)(libdevice.trunc(f64(value)))

    @on_device
    def round_even(value):
        """The nearest whole number, the even one if there are two."""
        return type(value)(libdevice.rint(f64(value)))

    @on_device
    def round_away(value):
        """The nearest whole number, away from zero if there are two."""
        return type(value)(libdevice.round(f64(value)))

    @on_device
    def exp2(value):
        """2 to the power of a float."""
        return type(value)(libdevice.exp2(f64(value)))
