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

LlvmValue: TypeAlias = ir.Value

HALF, FLOAT = ir.HalfType(), ir.FloatType()
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
        return builder.fpext(value, _like(value, FLOAT))
    bits = builder.bitcast(value, _like(value, HALF_BITS))
    words = builder.zext(bits, _like(value, FLOAT_BITS))
    size = builder.and_(words, _same(words, 0x7FFF))
    sign = builder.shl(builder.xor(words, size), _same(words, 16))
    size = builder.shl(size, _same(words, _DROPPED))
    normal = builder.add(size, _same(words, _biased(127 - 15)))
    # Infinities and NaNs have the largest exponent of each type.
    special = builder.add(size, _same(words, _biased(255 - 31)))
    # Without the leading one: 2^-14 with the same fraction, less 2^-14.
    floats = builder.bitcast(
        builder.add(size, _same(words, _biased(128 - 15))), _like(value, FLOAT)
    )
    small = builder.bitcast(builder.fsub(floats, _same(floats, 2.0**-14)), words.type)
    is_special = builder.icmp_unsigned(">=", size, _same(words, _INFINITY << _DROPPED))
    is_small = builder.icmp_unsigned("<", size, _same(words, _biased(1)))
    found = builder.select(is_special, special, normal)
    found = builder.select(is_small, small, found)
    return builder.bitcast(builder.or_(found, sign), floats.type)


def to_f16(builder: ir.IRBuilder, value: LlvmValue) -> LlvmValue:
    """The nearest `f16` of an `f32`, or of each of a vector; a NaN stays one."""
    if processor_here().converts_f16:
        return builder.fptrunc(value, _like(value, HALF))
    words = builder.bitcast(value, _like(value, FLOAT_BITS))
    size = builder.and_(words, _same(words, 0x7FFFFFFF))
    sign = builder.lshr(builder.xor(words, size), _same(words, 16))
    # Half of the last bit that stays, and a bit more where that makes it even.
    odd = builder.and_(builder.lshr(size, _same(words, _DROPPED)), _same(words, 1))
    half = builder.add(odd, _same(words, 0xFFF - _biased(127 - 15)))
    normal = builder.lshr(builder.add(size, half), _same(words, _DROPPED))
    # The last bit of the sum is 2^-24, as the least number is.
    floats = builder.fadd(builder.bitcast(size, value.type), _same(value, 0.5))
    small = builder.sub(builder.bitcast(floats, words.type), _same(words, _biased(126)))
    is_nan = builder.fcmp_unordered("uno", value, value)
    special = builder.select(is_nan, _same(words, _NAN), _same(words, _INFINITY))
    is_special = builder.icmp_unsigned(">=", size, _same(words, _biased(127 + 16)))
    is_small = builder.icmp_unsigned("<", size, _same(words, _biased(127 - 14)))
    found = builder.select(is_special, special, normal)
    found = builder.select(is_small, small, found)
    bits = builder.trunc(builder.or_(found, sign), _like(value, HALF_BITS))
    return builder.bitcast(bits, _like(value, HALF))


def _like(value: LlvmValue, scalar: ir.Type) -> ir.Type:
    """The type of as many of a type as there are in a value."""
    type = value.type
    if isinstance(type, ir.VectorType):
        return ir.VectorType(scalar, type.count)
    return scalar


def _same(value: LlvmValue, number: float) -> ir.Constant:
    """A number as a constant of the type of a value, in all lanes."""
    type = value.type
    if isinstance(type, ir.VectorType):
        return ir.Constant(type, [number] * type.count)
    return ir.Constant(type, number)
