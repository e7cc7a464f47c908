"""
The library of generated CPU source: buffers and scalar functions.

A kernel is a C function `int32(int64 args, int64 part, int64 parts)`. `args` is the
address of a row of words: one buffer address an argument, then numbers. Element access
compiles to one load or store that LLVM knows to touch no other buffer, so that loops
vectorise without checks at run time.

Integer operations wrap, division by zero gives zero as in NumPy, and no function
raises. Functions that NumPy or Python have too are computed in the type of their
operands: in `f32` with one rounding of the result, not through `f64`.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportUntypedClassDecorator=false, reportUntypedBaseClass=false
# pyright: reportUnknownLambdaType=false, reportOptionalCall=false

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.extending import register_model
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.core.typing.templates import signature as typed
from numba.extending import intrinsic, lower_builtin

from penstock.runtime.kernels.cpu.halves import from_f16, to_f16
from penstock.runtime.kernels.math.f32 import Floats
from penstock.runtime.kernels.math.registry import own_function

inf, nan = math.inf, math.nan
f32, f64 = np.float32, np.float64
i8, i16, i32, i64 = np.int8, np.int16, np.int32, np.int64
u8, u16, u32, u64 = np.uint8, np.uint16, np.uint32, np.uint64

Function = TypeVar("Function", bound=Callable[..., object])


def c_kernel(function: Function) -> Function:
    """Say of a function of arguments, part and parts that it is the kernel."""
    return function


################################################################################
# Buffers                                                                      #
################################################################################

_ELEMENTS = {
    "bf16": (types.float32, ir.IntType(16)),
    "f16": (types.float32, ir.HalfType()),
    "f32": (types.float32, ir.FloatType()),
    "f64": (types.float64, ir.DoubleType()),
    "u8": (types.uint8, ir.IntType(8)),
    "i8": (types.int8, ir.IntType(8)),
    "i16": (types.int16, ir.IntType(16)),
    "i32": (types.int32, ir.IntType(32)),
    "i64": (types.int64, ir.IntType(64)),
}
"""
The types of an element in compiled code and in memory. `f16` and `bf16` are computed in
`f32`, whose value fits into 16 bits.
"""


class Buffer(types.Type):
    """
    The address of an array of elements, argument `number` of `count` of a kernel.

    `buffer[i]` and `buffer[i] = x` touch element `i` without any check, and are taken
    not to touch the elements of any other argument. So an operand that shares its bytes
    with a result must be read, element by element, only to compute the element of the
    result that takes its place.
    """

    def __init__(self, element: str, number: int, count: int):
        self.element, self.number, self.count = element, number, count
        self.scalar, self.stored = _ELEMENTS[element]
        super().__init__(name=f"Buffer({element}, {number}, {count})")


@register_model(Buffer)
class BufferModel(models.PrimitiveModel):
    """A buffer is a pointer to its first element."""

    def __init__(self, manager, buffer):
        super().__init__(manager, buffer, buffer.stored.as_pointer())


@infer_global(operator.getitem)
class BufferGetItem(AbstractTemplate):
    """The type of `buffer[i]`."""

    def generic(self, args, kws):
        buffer, index = args
        if isinstance(buffer, Buffer) and isinstance(index, types.Integer):
            return typed(buffer.scalar, buffer, types.int64)
        return None


@infer_global(operator.setitem)
class BufferSetItem(AbstractTemplate):
    """The type of `buffer[i] = x`."""

    def generic(self, args, kws):
        buffer, index, _ = args
        if isinstance(buffer, Buffer) and isinstance(index, types.Integer):
            return typed(types.none, buffer, types.int64, buffer.scalar)
        return None


@lower_builtin(operator.getitem, Buffer, types.Integer)
def _get_item(context, builder, signature, args):
    return load_element(builder, signature.args[0], *args)


@lower_builtin(operator.setitem, Buffer, types.Integer, types.Any)
def _set_item(context, builder, signature, args):
    store_element(builder, signature.args[0], *args)
    return context.get_dummy_value()


def load_element(builder, buffer, pointer, index):
    """Emit the load of an element of a buffer of this type, at a pointer."""
    value = builder.load(builder.gep(pointer, [index], inbounds=True))
    _touches_only(builder, value, buffer)
    if buffer.element == "bf16":
        return _from_upper_half(builder, value)
    return from_f16(builder, value) if buffer.element == "f16" else value


def store_element(builder, buffer, pointer, index, value):
    """Emit the store of an element of a buffer of this type, at a pointer."""
    if buffer.element == "f16":
        value = to_f16(builder, value)
    if buffer.element == "bf16":
        value = _upper_half(builder, value)
    store = builder.store(value, builder.gep(pointer, [index], inbounds=True))
    _touches_only(builder, store, buffer)


def _upper_half(builder, value):
    """The upper bits of a `float32` that fits into 16 bits."""
    word = builder.bitcast(value, ir.IntType(32))
    upper = builder.lshr(word, ir.Constant(word.type, 16))
    return builder.trunc(upper, ir.IntType(16))


def _from_upper_half(builder, upper):
    """The `float32` with these upper bits."""
    word = builder.zext(upper, ir.IntType(32))
    whole = builder.shl(word, ir.Constant(word.type, 16))
    return builder.bitcast(whole, ir.FloatType())


def _touches_only(builder, instruction, buffer):
    """Tell LLVM that an access to a buffer touches no other one."""
    module = builder.module
    domain = module.add_metadata(["penstock"])
    scopes = [
        module.add_metadata([f"argument {number}", domain])
        for number in range(buffer.count)
    ]
    own = scopes.pop(buffer.number)
    instruction.set_metadata("alias.scope", module.add_metadata([own]))
    if scopes:
        instruction.set_metadata("noalias", module.add_metadata(scopes))


def _buffer_of(element):
    @intrinsic(prefer_literal=True)
    def buffer(_typing, args, number, count):
        if not isinstance(number, types.IntegerLiteral):
            return None
        type = Buffer(element, number.literal_value, count.literal_value)

        def generate(context, builder, signature, values):
            offset = ir.Constant(ir.IntType(64), 8 * type.number)
            word = builder.inttoptr(
                builder.add(values[0], offset), ir.IntType(64).as_pointer()
            )
            return builder.inttoptr(builder.load(word), type.stored.as_pointer())

        return type(types.int64, number, count), generate

    return buffer


buffer_bf16 = _buffer_of("bf16")
buffer_f16 = _buffer_of("f16")
buffer_f32 = _buffer_of("f32")
buffer_f64 = _buffer_of("f64")
buffer_u8 = _buffer_of("u8")
buffer_i8 = _buffer_of("i8")
buffer_i16 = _buffer_of("i16")
buffer_i32 = _buffer_of("i32")
buffer_i64 = _buffer_of("i64")


@intrinsic(prefer_literal=True)
def number(_typing, args, place):
    """The word at a place in the row of arguments: an extent, stride or offset."""
    if not isinstance(place, types.IntegerLiteral):
        return None

    def generate(context, builder, signature, values):
        word = ir.IntType(64)
        offset = ir.Constant(word, 8 * place.literal_value)
        pointer = builder.inttoptr(builder.add(values[0], offset), word.as_pointer())
        return builder.load(pointer)

    return types.int64(types.int64, place), generate


################################################################################
# Scalars                                                                      #
################################################################################


def _function(arity, generate):
    """A function of `arity` numbers of one type, whose result has that type too."""

    def typing(_typing, *args):
        def code(context, builder, signature, values):
            return generate(builder, *values)

        return args[0](*args[:1] * len(args)), code

    if arity == 1:
        return intrinsic(lambda _typing, a: typing(_typing, a))
    if arity == 2:
        return intrinsic(lambda _typing, a, b: typing(_typing, a, b))
    return intrinsic(lambda _typing, a, b, c: typing(_typing, a, b, c))


def _llvm_call(builder, name, *values, fastmath=()):
    type = values[0].type
    suffix = "f64" if isinstance(type, ir.DoubleType) else "f32"
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(type, [type] * len(values)),
        f"llvm.{name}.{suffix}",
    )
    return builder.call(function, values, fastmath=fastmath)


def _llvm(arity, name):
    """The intrinsic function `llvm.<name>` on floats."""
    return _function(arity, lambda builder, *v: _llvm_call(builder, name, *v))


def _libm_call(builder, name, *values):
    """A call of the C library's `name` for `float64`, of `<name>f` for `float32`."""
    type = values[0].type
    suffix = "" if isinstance(type, ir.DoubleType) else "f"
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(type, [type] * len(values)), name + suffix
    )
    function.attributes.add("readnone")
    function.attributes.add("nounwind")
    return builder.call(function, values)


def _own(arity, name):
    """Our function `name` for the types we have one for, else that of the C library."""

    def generate(builder, *values):
        ours = own_function(name, values[0].type)
        if ours is None:
            return _libm_call(builder, name, *values)
        return ours(*(Floats(builder, value) for value in values)).value

    return _function(arity, generate)


# With a NaN the result is one; -0 is less than +0.
maximum, minimum = _llvm(2, "maximum"), _llvm(2, "minimum")
# With one NaN the result is the other operand.
maxnum, minnum = _llvm(2, "maxnum"), _llvm(2, "minnum")

fabs, copysign = _llvm(1, "fabs"), _llvm(2, "copysign")
floor, ceil, trunc = _llvm(1, "floor"), _llvm(1, "ceil"), _llvm(1, "trunc")
round_even, round_away = _llvm(1, "roundeven"), _llvm(1, "round")
sqrt, fma = _llvm(1, "sqrt"), _llvm(3, "fma")

exp, exp2, expm1 = _own(1, "exp"), _own(1, "exp2"), _own(1, "expm1")
log, log2 = _own(1, "log"), _own(1, "log2")
log10, log1p = _own(1, "log10"), _own(1, "log1p")
sin, cos, tan = _own(1, "sin"), _own(1, "cos"), _own(1, "tan")
asin, acos, atan = _own(1, "asin"), _own(1, "acos"), _own(1, "atan")
sinh, cosh, tanh = _own(1, "sinh"), _own(1, "cosh"), _own(1, "tanh")
asinh, acosh, atanh = _own(1, "asinh"), _own(1, "acosh"), _own(1, "atanh")
erf, cbrt = _own(1, "erf"), _own(1, "cbrt")
pow, atan2, fmod = _own(2, "pow"), _own(2, "atan2"), _own(2, "fmod")


def _to_odd_f32(builder, value):
    """
    A 64-bit float cut to 32 bits, with the last bit set if that lost anything. Rounded
    once more to fewer bits it is what the 64-bit float would be.
    """
    bits = ir.IntType(32)
    nearest = builder.fptrunc(value, ir.FloatType())
    back = builder.fpext(nearest, value.type)
    word = builder.bitcast(nearest, bits)
    size = _llvm_call(builder, "fabs", value), _llvm_call(builder, "fabs", back)
    away = builder.fcmp_ordered(">", size[1], size[0])
    below = builder.sub(word, builder.zext(away, bits))
    odd = builder.or_(below, ir.Constant(bits, 1))
    inexact = builder.fcmp_ordered("!=", back, value)
    return builder.bitcast(builder.select(inexact, odd, word), ir.FloatType())


@intrinsic
def round_f16(_typing, value):
    """The nearest 16-bit float, as a `float32`."""

    def generate(context, builder, signature, args):
        number = args[0]
        # Processors have no conversion from 64 bits, nor has Numba's library.
        if isinstance(number.type, ir.DoubleType):
            number = _to_odd_f32(builder, number)
        return from_f16(builder, to_f16(builder, number))

    return types.float32(value), generate


@intrinsic
def round_bf16(_typing, value):
    """The nearest float of 16 bits with the exponent of a `float32`, as one."""

    def generate(context, builder, signature, args):
        number = args[0]
        if isinstance(number.type, ir.DoubleType):
            number = _to_odd_f32(builder, number)
        return _rounded_to_bf16(builder, number)

    return types.float32(value), generate


def _rounded_to_bf16(builder, number):
    """The upper half of the bits, the nearest one, and of two as near the even one."""
    bits = ir.IntType(32)
    word = builder.bitcast(number, bits)
    last = builder.and_(builder.lshr(word, ir.Constant(bits, 16)), ir.Constant(bits, 1))
    half = builder.add(last, ir.Constant(bits, 0x7FFF))
    upper = ir.Constant(bits, 0xFFFF0000)
    rounded = builder.and_(builder.add(word, half), upper)
    # A NaN stays one, whatever its lower bits were.
    quiet = builder.and_(builder.or_(word, ir.Constant(bits, 0x00400000)), upper)
    is_nan = builder.fcmp_unordered("uno", number, number)
    return builder.bitcast(builder.select(is_nan, quiet, rounded), ir.FloatType())


@intrinsic
def select(_typing, condition, a, b):
    """`a` where the condition holds, else `b`; both are of one type."""

    def generate(context, builder, signature, args):
        return builder.select(*args)

    return a(types.boolean, a, a), generate


# A step of a sum whose steps LLVM may do in any order, so that it vectorises.
add_reordered = _function(2, lambda builder, *v: builder.fadd(*v, flags=("reassoc",)))
fma_reordered = _function(
    3, lambda builder, *v: _llvm_call(builder, "fmuladd", *v, fastmath=("reassoc",))
)


################################################################################
# Integers                                                                     #
################################################################################


def _integers(generate):
    """
    A function of two integers of one type, whose result has that type too.

    `generate(builder, signed, a, b)` is told whether the type is signed.
    """

    @intrinsic
    def operation(_typing, a, b):
        def code(context, builder, signature, args):
            return generate(builder, a.signed, *args)

        return a(a, a), code

    return operation


def _guarded(divide):
    """
    A division that gives 0 for a divisor of 0.

    The one number whose quotient by -1 does not fit wraps to itself.
    """

    def generate(builder, signed, a, b):
        zero, one = ir.Constant(a.type, 0), ir.Constant(a.type, 1)
        is_zero = builder.icmp_unsigned("==", b, zero)
        unsafe = is_zero
        if signed:
            least = ir.Constant(a.type, -1 << a.type.width - 1)
            minus = ir.Constant(a.type, -1)
            overflows = builder.and_(
                builder.icmp_unsigned("==", a, least),
                builder.icmp_unsigned("==", b, minus),
            )
            unsafe = builder.or_(is_zero, overflows)
        result = divide(builder, signed, a, builder.select(unsafe, one, b))
        return builder.select(is_zero, zero, result)

    return _integers(generate)


def _quotient(builder, signed, a, b):
    return builder.sdiv(a, b) if signed else builder.udiv(a, b)


def _remainder(builder, signed, a, b):
    return builder.srem(a, b) if signed else builder.urem(a, b)


def _rounded(step, adjusts):
    """
    A quotient to which `step` is added if it is not exact and `adjusts(builder, signs)`
    holds, where `signs` is negative if the operands have different signs.
    """

    def divide(builder, signed, a, b):
        zero = ir.Constant(a.type, 0)
        quotient = _quotient(builder, signed, a, b)
        rest = builder.sub(a, builder.mul(quotient, b))
        changes = builder.icmp_unsigned("!=", rest, zero)
        if signed:
            signs = builder.xor(a, b)
            changes = builder.and_(changes, adjusts(builder, signs, zero))
        changed = builder.add(quotient, ir.Constant(a.type, step))
        return builder.select(changes, changed, quotient)

    return divide


def _differ(builder, signs, zero):
    return builder.icmp_signed("<", signs, zero)


def _agree(builder, signs, zero):
    return builder.icmp_signed(">=", signs, zero)


div_trunc, rem_trunc = _guarded(_quotient), _guarded(_remainder)
div_floor = _guarded(_rounded(-1, _differ))
div_ceil = _guarded(_rounded(1, _agree))


def _shift(direction):
    """A shift that by as many bits as there are or more shifts all of them out."""

    def generate(builder, signed, a, b):
        bits, zero = a.type.width, ir.Constant(a.type, 0)
        fits = builder.icmp_unsigned("<", b, ir.Constant(a.type, bits))
        amount = builder.select(fits, b, ir.Constant(a.type, bits - 1))
        if direction == "right" and signed:
            return builder.ashr(a, amount)
        shift = builder.lshr if direction == "right" else builder.shl
        return builder.select(fits, shift(a, amount), zero)

    return _integers(generate)


shl, shr = _shift("left"), _shift("right")
