"""
Scalar and memory functions of CUDA kernels as LLVM and PTX instructions.

Each has the exact type of its arguments, so that nothing is computed with more bits
than the kernel says. Buffers are raw pointers or arrays of one dimension. GPUs have to
be of compute capability 8.0 or later.
"""

# Numba and llvmlite carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportMissingTypeStubs=false
# pyright: reportUnknownLambdaType=false, reportAttributeAccessIssue=false
# pyright: reportMissingImports=false, reportUntypedFunctionDecorator=false
# pyright: reportCallIssue=false

from __future__ import annotations

from llvmlite import ir
from numba import cuda
from numba.cuda import cgutils, types
from numba.cuda.extending import intrinsic

from penstock.runtime.kernels.cuda import trig_f32 as cuda_angles

I16, I32, I64 = (ir.IntType(bits) for bits in (16, 32, 64))
HALF = ir.HalfType()
WARP_LANES = 32
GLOBAL, SHARED = 1, 3
"""The address spaces of what buffers lie in, and of what a block shares."""


def on_device(function):
    """A function that kernels may call."""
    return cuda.jit(device=True)(function)


# Where a thread is


def _register(name):
    """A function that reads a special register, as an `int32`."""

    @intrinsic
    def read(typingctx):
        def code(context, builder, signature, args):
            type = ir.FunctionType(I32, [])
            name_of = f"llvm.nvvm.read.ptx.sreg.{name}"
            function = cgutils.get_or_insert_function(builder.module, type, name_of)
            return builder.call(function, [])

        return types.int32(), code

    return read


thread, threads = _register("tid.x"), _register("ntid.x")
block, blocks = _register("ctaid.x"), _register("nctaid.x")


@on_device
def first_item():
    """The first item of a thread's work."""
    return types.int32(block() * threads() + thread())


@on_device
def item_step():
    """From an item of a thread's work to the next."""
    return types.int32(blocks() * threads())


# Floats


def _float_function(stem, count, single=None):
    """
    A function of libdevice on `float32` or `float64`; `single` is what makes the code
    for `float32` instead.
    """

    def code(context, builder, signature, args):
        if single is not None and signature.return_type == types.float32:
            return single(builder, *args)
        type = context.get_value_type(signature.return_type)
        suffix = "f" if signature.return_type == types.float32 else ""
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(type, [type] * count),
            f"__nv_{stem}{suffix}",
        )
        return builder.call(function, args)

    if count == 1:

        @intrinsic
        def unary(typingctx, a):
            return (a(a), code) if isinstance(a, types.Float) else None

        return unary

    @intrinsic
    def binary(typingctx, a, b):
        return (a(a, b), code) if isinstance(a, types.Float) and a == b else None

    return binary


fabs, sqrt, cbrt = (_float_function(name, 1) for name in ("fabs", "sqrt", "cbrt"))
floor, ceil, trunc = (_float_function(name, 1) for name in ("floor", "ceil", "trunc"))
round_even, round_away = _float_function("rint", 1), _float_function("round", 1)
exp, exp2, expm1 = (_float_function(name, 1) for name in ("exp", "exp2", "expm1"))
log, log2 = _float_function("log", 1), _float_function("log2", 1)
log10, log1p = _float_function("log10", 1), _float_function("log1p", 1)
sin, cos, tan = (
    _float_function(name, 1, getattr(cuda_angles, name))
    for name in ("sin", "cos", "tan")
)
asin, acos, atan = (_float_function(name, 1) for name in ("asin", "acos", "atan"))
sinh, cosh, tanh = (_float_function(name, 1) for name in ("sinh", "cosh", "tanh"))
asinh, acosh = _float_function("asinh", 1), _float_function("acosh", 1)
atanh, erf = _float_function("atanh", 1), _float_function("erf", 1)
pow, atan2 = _float_function("pow", 2), _float_function("atan2", 2)
copysign, fmod = _float_function("copysign", 2), _float_function("fmod", 2)
maxnum, minnum = _float_function("fmax", 2), _float_function("fmin", 2)


def _extreme(name):
    """The larger or smaller of two floats; a NaN if either is one."""

    def code(context, builder, signature, args):
        type = context.get_value_type(signature.return_type)
        is_single = signature.return_type == types.float32
        letter, bits = ("f", "NaN.f32") if is_single else ("d", "f64")
        text = f"{name}.{bits} $0, $1, $2;"
        assembly = ir.FunctionType(type, [type, type])
        found = builder.asm(assembly, text, f"={letter},{letter},{letter}", args, False)
        if is_single:
            return found
        unordered = builder.fcmp_unordered("uno", *args)
        return builder.select(unordered, builder.fadd(*args), found)

    @intrinsic
    def extreme(typingctx, a, b):
        return (a(a, b), code) if isinstance(a, types.Float) and a == b else None

    return extreme


maximum, minimum = _extreme("max"), _extreme("min")


@intrinsic
def fma(typingctx, a, b, c):
    """`a * b + c`, rounded once."""

    def code(context, builder, signature, args):
        return builder.fma(*args)

    is_float = isinstance(a, types.Float) and a == b == c
    return (a(a, b, c), code) if is_float else None


@intrinsic
def round_f16(typingctx, value):
    """The nearest 16-bit float, as a `float32`."""

    def code(context, builder, signature, args):
        return builder.fpext(builder.fptrunc(args[0], HALF), ir.FloatType())

    return (types.float32(value), code) if isinstance(value, types.Float) else None


def _widened_bf16(builder, bits):
    """A `bfloat16`, or a vector of them, given as bits, as `float32`."""
    is_vector = isinstance(bits.type, ir.VectorType)
    count = bits.type.count if is_vector else 1
    wide, single = I32, ir.FloatType()
    amount = I32(16)
    if is_vector:
        amount = ir.Constant(ir.VectorType(I32, count), [16] * count)
        wide, single = ir.VectorType(I32, count), ir.VectorType(single, count)
    return builder.bitcast(builder.shl(builder.zext(bits, wide), amount), single)


def _rounded_to_bf16(builder, value):
    """The bits of the nearest `bfloat16`."""
    if isinstance(value.type, ir.DoubleType):
        value = _rounded_to_odd(builder, value)
    type = ir.FunctionType(I16, [value.type])
    return builder.asm(type, "cvt.rn.bf16.f32 $0, $1;", "=h,f", [value], False)


def _rounded_to_odd(builder, value):
    """A `float32` which, rounded further, is what the number rounded once is."""
    single, one = builder.fptrunc(value, ir.FloatType()), I32(1)
    back = builder.fpext(single, value.type)
    bits = builder.bitcast(single, I32)
    sizes = [
        builder.and_(builder.bitcast(v, I64), ir.Constant(I64, (1 << 63) - 1))
        for v in (back, value)
    ]
    is_larger = builder.icmp_unsigned(">", *sizes)
    bits = builder.select(is_larger, builder.sub(bits, one), bits)
    is_off = builder.fcmp_unordered("!=", back, value)
    bits = builder.select(is_off, builder.or_(bits, one), bits)
    return builder.bitcast(bits, ir.FloatType())


@intrinsic
def from_bf16(typingctx, bits):
    """A `bfloat16` that is kept as `uint16`, as a `float32`."""

    def code(context, builder, signature, args):
        return _widened_bf16(builder, args[0])

    return types.float32(types.uint16), code


@intrinsic
def to_bf16(typingctx, value):
    """The bits of the nearest `bfloat16`."""

    def code(context, builder, signature, args):
        return _rounded_to_bf16(builder, args[0])

    return (types.uint16(value), code) if isinstance(value, types.Float) else None


@intrinsic
def round_bf16(typingctx, value):
    """The nearest `bfloat16`, as a `float32`."""

    def code(context, builder, signature, args):
        return _widened_bf16(builder, _rounded_to_bf16(builder, args[0]))

    return (types.float32(value), code) if isinstance(value, types.Float) else None


# Integers


@intrinsic
def select(typingctx, condition, a, b):
    """`a` where the condition holds, else `b`."""

    def code(context, builder, signature, args):
        return builder.select(builder.trunc(args[0], ir.IntType(1)), *args[1:])

    type = typingctx.unify_types(types.unliteral(a), types.unliteral(b))
    return type(types.boolean, type, type), code


def _integer_function(build):
    """A function of two integers of one type, given what builds its instructions."""

    def code(context, builder, signature, args):
        return build(builder, signature.return_type.signed, *args)

    @intrinsic
    def function(typingctx, a, b):
        type = typingctx.unify_types(types.unliteral(a), types.unliteral(b))
        return (type(type, type), code) if isinstance(type, types.Integer) else None

    return function


def _quotient(builder, signed, a, b):
    """`a / b` rounded toward zero, 0 if `b` is 0; and what it leaves."""
    zero, one = ir.Constant(a.type, 0), ir.Constant(a.type, 1)
    is_zero = builder.icmp_unsigned("==", b, zero)
    if not signed:
        divided = builder.udiv(a, builder.select(is_zero, one, b))
    else:
        # The least number divided by -1 has no meaning in LLVM.
        is_minus = builder.icmp_signed("==", b, ir.Constant(a.type, -1))
        safe = builder.select(builder.or_(is_zero, is_minus), one, b)
        divided = builder.select(is_minus, builder.neg(a), builder.sdiv(a, safe))
    quotient = builder.select(is_zero, zero, divided)
    left = builder.sub(a, builder.mul(quotient, b))
    return quotient, builder.select(is_zero, zero, left)


def _rounded(builder, signed, a, b, up):
    """`a / b` rounded up or down; 0 if `b` is 0."""
    quotient, left = _quotient(builder, signed, a, b)
    zero, one = ir.Constant(a.type, 0), ir.Constant(a.type, 1)
    is_off = builder.icmp_signed("!=", left, zero)
    if signed:
        signs = builder.icmp_signed("<", builder.xor(left, b), zero)
        is_off = builder.and_(is_off, builder.not_(signs) if up else signs)
    elif not up:
        return quotient
    moved = builder.add(quotient, one) if up else builder.sub(quotient, one)
    return builder.select(is_off, moved, quotient)


def _shifted(builder, signed, a, b, left):
    """`a` shifted by `b`, also by as many bits as there are or more."""
    zero, last = ir.Constant(a.type, 0), ir.Constant(a.type, a.type.width - 1)
    fits = builder.icmp_unsigned("<=", b, last)
    if left:
        return builder.select(fits, builder.shl(a, builder.select(fits, b, zero)), zero)
    if signed:
        return builder.ashr(a, builder.select(fits, b, last))
    shifted = builder.lshr(a, builder.select(fits, b, zero))
    return builder.select(fits, shifted, zero)


div_trunc = _integer_function(lambda *args: _quotient(*args)[0])
rem_trunc = _integer_function(lambda *args: _quotient(*args)[1])
div_floor = _integer_function(lambda *args: _rounded(*args, up=False))
div_ceil = _integer_function(lambda *args: _rounded(*args, up=True))
shl = _integer_function(lambda *args: _shifted(*args, left=True))
shr = _integer_function(lambda *args: _shifted(*args, left=False))


def _index_function(name):
    """A function of an index that is not negative and a positive number."""

    def code(context, builder, signature, args):
        return getattr(builder, name)(*args)

    @intrinsic
    def function(typingctx, a, b):
        return types.int32(types.int32, types.int32), code

    return function


quotient, remainder = _index_function("udiv"), _index_function("urem")


# Memory


def place_of(context, builder, type, buffer, index, space=GLOBAL):
    """The address of an element in a kind of memory."""
    if not isinstance(type, types.CPointer):
        buffer = context.make_array(type)(context, builder, value=buffer).data
    place = builder.gep(buffer, [index])
    element = place.type.pointee
    return builder.addrspacecast(place, ir.PointerType(element, space))


def element_of(type):
    """The type of a buffer's elements, or None if it is none."""
    if isinstance(type, types.CPointer | types.Array):
        return type.dtype
    return None


def _load(count, space=GLOBAL):
    """
    A function that loads so many elements at once. Floats of 16 bits, of which
    `bfloat16` is kept as `uint16`, become `float32`.
    """

    @intrinsic
    def load(typingctx, buffer, index):
        if (element := element_of(buffer)) is None:
            return None
        is_half = element == types.float16
        is_narrow = is_half or element == types.uint16
        result = types.UniTuple(types.float32 if is_narrow else element, count)

        def code(context, builder, signature, args):
            place = place_of(context, builder, signature.args[0], *args, space)
            stored = HALF if is_half else place.type.pointee
            vector = ir.VectorType(stored, count)
            place = builder.bitcast(place, ir.PointerType(vector, space))
            size = context.get_abi_sizeof(context.get_value_type(element))
            loaded = builder.load(place, align=size * count)
            if is_half:
                loaded = builder.fpext(loaded, ir.VectorType(ir.FloatType(), count))
            elif is_narrow:
                loaded = _widened_bf16(builder, loaded)
            parts = [builder.extract_element(loaded, I32(k)) for k in range(count)]
            return cgutils.pack_array(builder, parts)

        return result(buffer, types.int32), code

    return load


def _store(count):
    """A function that stores so many elements at once; `_load` says of which types."""

    @intrinsic
    def store(typingctx, buffer, index, values):
        if (element := element_of(buffer)) is None:
            return None
        is_half = element == types.float16
        is_narrow = is_half or element == types.uint16
        kept = types.UniTuple(types.float32 if is_narrow else element, count)

        def code(context, builder, signature, args):
            place = place_of(context, builder, signature.args[0], *args[:2])
            parts = [builder.extract_value(args[2], k) for k in range(count)]
            if is_narrow and not is_half:
                parts = [_rounded_to_bf16(builder, part) for part in parts]
            vector = ir.Constant(ir.VectorType(parts[0].type, count), ir.Undefined)
            for k, part in enumerate(parts):
                vector = builder.insert_element(vector, part, I32(k))
            if is_half:
                vector = builder.fptrunc(vector, ir.VectorType(HALF, count))
            place = builder.bitcast(place, ir.PointerType(vector.type, GLOBAL))
            size = context.get_abi_sizeof(context.get_value_type(element))
            builder.store(vector, place, align=size * count)
            return context.get_dummy_value()

        return types.void(buffer, types.int32, kept), code

    return store


shared_2, shared_4 = _load(2, SHARED), _load(4, SHARED)
load_2, load_4, load_8, load_16 = map(_load, (2, 4, 8, 16))
store_2, store_4, store_8, store_16 = map(_store, (2, 4, 8, 16))


def _store_if(store):
    """A function that stores several elements where a condition holds."""

    @on_device
    def store_if(condition, buffer, index, values):
        if condition:
            store(buffer, index, values)

    return store_if


store_2_if, store_4_if = _store_if(store_2), _store_if(store_4)
store_8_if, store_16_if = _store_if(store_8), _store_if(store_16)


@intrinsic
def align_shared(typingctx):
    """Let all shared memory begin at multiples of 16 bytes."""

    def code(context, builder, signature, args):
        for value in builder.module.global_values:
            if isinstance(value, ir.GlobalVariable) and value.addrspace == SHARED:
                value.align = 16
        return context.get_dummy_value()

    return types.void(), code


@intrinsic
def is_aligned(typingctx, buffer):
    """Whether a buffer begins at a multiple of 16 bytes."""

    def code(context, builder, signature, args):
        first = ir.Constant(I32, 0)
        place = place_of(context, builder, signature.args[0], args[0], first)
        address = builder.ptrtoint(place, ir.IntType(64))
        low = builder.and_(address, ir.Constant(address.type, 15))
        return builder.icmp_unsigned("==", low, ir.Constant(address.type, 0))

    is_buffer = element_of(buffer) is not None
    return (types.boolean(buffer), code) if is_buffer else None


@on_device
def take_4(buffer, index):
    """Four elements from a multiple of four on, at once if the buffer is aligned."""
    if is_aligned(buffer):
        return load_4(buffer, index)
    return buffer[index], buffer[index + 1], buffer[index + 2], buffer[index + 3]


@on_device
def take_2(buffer, index):
    """Two elements from a multiple of two on, at once if the buffer is aligned."""
    if is_aligned(buffer):
        return load_2(buffer, index)
    return buffer[index], buffer[index + 1]


def _put(count, store):
    """A function that writes so many elements where a condition holds."""

    @on_device
    def put(condition, buffer, index, values):
        if condition:
            if is_aligned(buffer):
                store(buffer, index, values)
            else:
                for k in range(count):
                    buffer[index + k] = values[k]

    return put


put_2, put_4 = _put(2, store_2), _put(4, store_4)


@on_device
def load_if(condition, buffer, index, other):
    """An element of a buffer where the condition holds, else a number of its type."""
    if condition:
        return buffer[index]
    return other


@on_device
def store_if(condition, buffer, index, value):
    """Write an element of a buffer where the condition holds."""
    if condition:
        buffer[index] = value


# Threads of a warp


@intrinsic
def shuffle_xor(typingctx, value, mask):
    """The value that the lane has whose number differs in the bits of the mask."""

    def code(context, builder, signature, args):
        value, mask = args
        bits = context.get_abi_sizeof(value.type) * 8
        whole = ir.IntType(bits)
        word = builder.bitcast(value, whole)
        parts = [
            builder.trunc(builder.lshr(word, ir.Constant(whole, start)), I32)
            for start in range(0, bits, 32)
        ]
        type = ir.FunctionType(I32, [I32, I32])
        text = "shfl.sync.bfly.b32 $0, $1, $2, 31, -1;"
        parts = [builder.asm(type, text, "=r,r,r", [p, mask], True) for p in parts]
        word = builder.zext(parts[0], whole)
        for start, part in enumerate(parts[1:], start=1):
            high = builder.shl(
                builder.zext(part, whole), ir.Constant(whole, 32 * start)
            )
            word = builder.or_(word, high)
        return builder.bitcast(word, value.type)

    is_known = isinstance(value, types.Float | types.Integer) and value.bitwidth >= 32
    return (value(value, types.int32), code) if is_known else None
