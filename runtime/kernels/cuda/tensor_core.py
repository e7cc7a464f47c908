"""
Tensor-core functions: asynchronous copies to shared memory, matrices that a warp loads
and multiplies, and `f16`/`bf16` as bits.

Shared memory for it has elements of `uint16` whatever they mean; `bf16` is kept as
`uint16` everywhere.
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
from numba.cuda import cgutils, types
from numba.cuda.extending import intrinsic

from penstock.runtime.kernels.cuda.intrinsics import (
    GLOBAL,
    I32,
    SHARED,
    element_of,
    on_device,
    place_of,
)

F32, I16, I64, VOID = ir.FloatType(), ir.IntType(16), ir.IntType(64), ir.VoidType()
FOUR_F32, FOUR_U32 = (types.UniTuple(t, 4) for t in (types.float32, types.uint32))


def _assembled(builder, result, text, constraints, args, effect):
    """A call of assembly, given what it makes and what it is made of."""
    type = ir.FunctionType(result, [arg.type for arg in args])
    return builder.asm(type, text, constraints, args, effect)


# Copies that run on their own


@intrinsic
def copy_async(typingctx, slots, place, buffer, index, inside):
    """
    Begin to copy 16 bytes to shared memory; zeros where they are not `inside`.
    """

    def code(context, builder, signature, args):
        slots, place, buffer, index, inside = args
        kinds = signature.args
        target = place_of(context, builder, kinds[0], slots, place, SHARED)
        source = place_of(context, builder, kinds[2], buffer, index, GLOBAL)
        is_inside = builder.trunc(inside, ir.IntType(1))
        _assembled(
            builder,
            VOID,
            "cp.async.cg.shared.global [$0], [$1], 16, $2;",
            "r,l,r,~{memory}",
            [
                builder.ptrtoint(target, I32),
                builder.ptrtoint(source, I64),
                builder.select(is_inside, I32(16), I32(0)),
            ],
            True,
        )
        return context.get_dummy_value()

    is_known = element_of(slots) is not None and element_of(buffer) is not None
    kinds = slots, types.int32, buffer, types.int32, types.boolean
    return (types.void(*kinds), code) if is_known else None


@on_device
def copy_async_if(condition, slots, place, buffer, index, inside):
    """The same where a condition holds."""
    if condition:
        copy_async(slots, place, buffer, index, inside)


@intrinsic
def commit_copies(typingctx):
    """Make a group of all copies that were begun since the last one."""

    def code(context, builder, signature, args):
        _assembled(builder, VOID, "cp.async.commit_group;", "~{memory}", [], True)
        return context.get_dummy_value()

    return types.void(), code


@intrinsic
def await_copies(typingctx, groups):
    """Wait until so many groups of a thread's copies at most are on their way."""
    if not isinstance(groups, types.IntegerLiteral):
        return None
    text = f"cp.async.wait_group {groups.literal_value};"

    def code(context, builder, signature, args):
        _assembled(builder, VOID, text, "~{memory}", [], True)
        return context.get_dummy_value()

    return types.void(groups), code


@intrinsic
def copy_back(typingctx, buffer, index, slots, place):
    """Copy 16 bytes of shared memory to a buffer."""

    def code(context, builder, signature, args):
        buffer, index, slots, place = args
        kinds = signature.args
        found = place_of(context, builder, kinds[2], slots, place, SHARED)
        target = place_of(context, builder, kinds[0], buffer, index, GLOBAL)
        words = ir.VectorType(I32, 4)
        found = builder.bitcast(found, ir.PointerType(words, SHARED))
        target = builder.bitcast(target, ir.PointerType(words, GLOBAL))
        builder.store(builder.load(found, align=16), target, align=16)
        return context.get_dummy_value()

    is_known = element_of(slots) is not None and element_of(buffer) is not None
    kinds = buffer, types.int32, slots, types.int32
    return (types.void(*kinds), code) if is_known else None


@on_device
def copy_back_if(condition, buffer, index, slots, place):
    """The same where a condition holds."""
    if condition:
        copy_back(buffer, index, slots, place)


@intrinsic
def put_word(typingctx, slots, place, word):
    """Store two elements of shared memory, at an even place, as a word."""

    def code(context, builder, signature, args):
        target = place_of(context, builder, signature.args[0], *args[:2], SHARED)
        target = builder.bitcast(target, ir.PointerType(I32, SHARED))
        builder.store(args[2], target, align=4)
        return context.get_dummy_value()

    kinds = slots, types.int32, types.uint32
    return (types.void(*kinds), code) if element_of(slots) is not None else None


# Matrices


def _load_matrices(turned):
    """A function that loads four matrices of 8 rows of 8 elements."""
    kind = ".trans" if turned else ""
    text = f"ldmatrix.sync.aligned.m8n8.x4{kind}.shared.b16 {{$0, $1, $2, $3}}, [$4];"

    @intrinsic
    def load(typingctx, slots, place):
        def code(context, builder, signature, args):
            row = place_of(context, builder, signature.args[0], *args, SHARED)
            parts = _assembled(
                builder,
                ir.LiteralStructType([I32] * 4),
                text,
                "=r,=r,=r,=r,r,~{memory}",
                [builder.ptrtoint(row, I32)],
                True,
            )
            return _tuple_of(builder, parts)

        is_known = element_of(slots) is not None
        return (FOUR_U32(slots, types.int32), code) if is_known else None

    return load


def _tuple_of(builder, parts):
    return cgutils.pack_array(
        builder, [builder.extract_value(parts, k) for k in range(4)]
    )


load_matrices, load_matrices_transposed = _load_matrices(False), _load_matrices(True)


def _multiply(name):
    """A function that adds the product of 16 by 16 and 16 by 8 elements to sums."""
    text = (
        f"mma.sync.aligned.m16n8k16.row.col.f32.{name}.{name}.f32 {{$0, $1, $2, $3}}, "
        "{$8, $9, $10, $11}, {$12, $13}, {$4, $5, $6, $7};"
    )
    single, word = types.float32, types.uint32

    @intrinsic
    def multiply(typingctx, s0, s1, s2, s3, a0, a1, a2, a3, b0, b1):
        def code(context, builder, signature, args):
            parts = _assembled(
                builder,
                ir.LiteralStructType([F32] * 4),
                text,
                "=f,=f,=f,=f,f,f,f,f,r,r,r,r,r,r",
                args,
                False,
            )
            return _tuple_of(builder, parts)

        return FOUR_F32(*[single] * 4, *[word] * 6), code

    return multiply


multiply_f16, multiply_bf16 = _multiply("f16"), _multiply("bf16")


# Floats of 16 bits


@intrinsic
def bits_of(typingctx, buffer, index):
    """An element of 16 bits as it is in memory."""

    def code(context, builder, signature, args):
        place = place_of(context, builder, signature.args[0], *args, GLOBAL)
        return builder.load(builder.bitcast(place, ir.PointerType(I16, GLOBAL)))

    is_known = element_of(buffer) is not None
    return (types.uint16(buffer, types.int32), code) if is_known else None


@on_device
def bits_if(condition, buffer, index):
    """An element of 16 bits where a condition holds, else a zero."""
    if condition:
        return bits_of(buffer, index)
    return types.uint16(0)


def _pack(name):
    """A function that makes a word of two numbers, the first in its low bits."""

    @intrinsic
    def pack(typingctx, low, high):
        def code(context, builder, signature, args):
            text = f"cvt.rn.{name}x2.f32 $0, $2, $1;"
            return _assembled(builder, I32, text, "=r,f,f", args, False)

        return types.uint32(types.float32, types.float32), code

    return pack


pack_f16, pack_bf16 = _pack("f16"), _pack("bf16")
