"""
Conversions between `f16` and `f32`, of numbers and of vectors.

Where the processor has none, LLVM calls functions of a library that no process loads
for it. There the bits are computed, by instructions that each processor has.
"""

# llvmlite carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportReturnType=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import TypeAlias

from llvmlite import ir

from penstock.runtime.kernels.cpu_features import processor_here
from penstock.runtime.kernels.math.f32 import FLOAT, like, splat_constant

LlvmValue: TypeAlias = ir.Value

HALF = ir.HalfType()
HALF_BITS, FLOAT_BITS = ir.IntType(16), ir.IntType(32)

_DROPPED = 13
"""The bits of a fraction that `f32` has more."""
_INFINITY, _NAN = 0x7C00, 0x7E00
"""Of `f16`."""


def _biased(exponent: int) -> int:
    """A number that adds this to the exponent of an `f32`, added to its bits."""
    return exponent << 23


def from_f16(builder: ir.IRBuilder, value: LlvmValue) -> LlvmValue:
    """The `f32` of an `f16`, or a vector of them."""
    if processor_here().converts_f16:
        return builder.fpext(value, like(value.type, FLOAT))
    bits = builder.bitcast(value, like(value.type, HALF_BITS))
    words = builder.zext(bits, like(value.type, FLOAT_BITS))
    size = builder.and_(words, splat_constant(words.type, 0x7FFF))
    sign = builder.shl(builder.xor(words, size), splat_constant(words.type, 16))
    size = builder.shl(size, splat_constant(words.type, _DROPPED))
    normal = builder.add(size, splat_constant(words.type, _biased(127 - 15)))
    # Infinities and NaNs have the largest exponent of each type.
    special = builder.add(size, splat_constant(words.type, _biased(255 - 31)))
    # Without the leading one: 2^-14 with the same fraction, less 2^-14.
    floats = builder.bitcast(
        builder.add(size, splat_constant(words.type, _biased(128 - 15))),
        like(value.type, FLOAT),
    )
    small = builder.bitcast(
        builder.fsub(floats, splat_constant(floats.type, 2.0**-14)), words.type
    )
    is_special = builder.icmp_unsigned(
        ">=", size, splat_constant(words.type, _INFINITY << _DROPPED)
    )
    is_small = builder.icmp_unsigned("<", size, splat_constant(words.type, _biased(1)))
    found = builder.select(is_special, special, normal)
    found = builder.select(is_small, small, found)
    return builder.bitcast(builder.or_(found, sign), floats.type)


def to_f16(builder: ir.IRBuilder, value: LlvmValue) -> LlvmValue:
    """The nearest `f16` of an `f32`, or of each of a vector; a NaN stays one."""
    if processor_here().converts_f16:
        return builder.fptrunc(value, like(value.type, HALF))
    words = builder.bitcast(value, like(value.type, FLOAT_BITS))
    size = builder.and_(words, splat_constant(words.type, 0x7FFFFFFF))
    sign = builder.lshr(builder.xor(words, size), splat_constant(words.type, 16))
    # Half of the last bit that stays, and a bit more where that makes it even.
    odd = builder.and_(
        builder.lshr(size, splat_constant(words.type, _DROPPED)),
        splat_constant(words.type, 1),
    )
    half = builder.add(odd, splat_constant(words.type, 0xFFF - _biased(127 - 15)))
    normal = builder.lshr(builder.add(size, half), splat_constant(words.type, _DROPPED))
    # The last bit of the sum is 2^-24, as the least number is.
    floats = builder.fadd(
        builder.bitcast(size, value.type), splat_constant(value.type, 0.5)
    )
    small = builder.sub(
        builder.bitcast(floats, words.type), splat_constant(words.type, _biased(126))
    )
    is_nan = builder.fcmp_unordered("uno", value, value)
    special = builder.select(
        is_nan, splat_constant(words.type, _NAN), splat_constant(words.type, _INFINITY)
    )
    is_special = builder.icmp_unsigned(
        ">=", size, splat_constant(words.type, _biased(127 + 16))
    )
    is_small = builder.icmp_unsigned(
        "<", size, splat_constant(words.type, _biased(127 - 14))
    )
    found = builder.select(is_special, special, normal)
    found = builder.select(is_small, small, found)
    bits = builder.trunc(builder.or_(found, sign), like(value.type, HALF_BITS))
    return builder.bitcast(bits, like(value.type, HALF))
