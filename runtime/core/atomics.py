"""Primitives of compiled code: atomics, raw memory, calls by address."""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, TypeAlias, TypeVar, cast, get_type_hints

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from penstock.runtime.core.object_key import folder_of_module
from penstock.runtime.jit.cached_functions import keep_function
from penstock.runtime.jit.lean_compiler import InnerFunction
from penstock.runtime.program.tables import Words

Integer: TypeAlias = int | np.int64
"""A word in compiled code."""

Arrays = TypeVar("Arrays", bound=tuple[Words, ...])
Function = TypeVar("Function", bound=Callable[..., object])

WORD = ir.IntType(64)

words = types.Array(types.int64, 1, "C")
"""The compiled type of `Words`."""

_COMPILED_TYPES: Mapping[object, Any] = {
    Integer: types.int64,
    int: types.int64,
    bool: types.boolean,
    NoneType: types.void,
    Words: words,
}


def compiled_type(annotation: object) -> Any:
    """
    The compiled type of an annotation: of a number, of `Words`, or of a named tuple of
    these or of such tuples.
    """
    if isinstance(annotation, type) and issubclass(annotation, tuple):
        fields = get_type_hints(annotation).values()
        kinds = [compiled_type(field) for field in fields]
        return types.BaseTuple.from_types(kinds, annotation)
    return _COMPILED_TYPES[annotation]


def compiled(
    *,
    inline: bool = True,
    for_python: bool = False,
    bound: Mapping[object, type] | None = None,
) -> Callable[[Function], Function]:
    """
    Compile a function for the types of its annotations, without the GIL. `bound` has
    the types that its type variables stand for.

    It may not allocate. Arrays are not counted as used while it runs, as the counts of
    arrays inside tuples take more time than the rest of the executor. `inline` is for
    functions that are called often. Functions `for_python` are compiled at once, and
    cached on disk under a key that covers the texts of all modules which take part;
    others when the first that calls them is.
    """
    options: dict[str, object] = {
        "nogil": True,
        "_nrt": False,
        "error_model": "numpy",
        "forceinline": inline,
        "no_cfunc_wrapper": True,
        "no_cpython_wrapper": not for_python,
    }

    def compile_it(function: Function) -> Function:
        signature = _signature_of(function, bound or {})
        if not for_python:
            return cast("Any", InnerFunction(function, signature, options))
        decorate = cast("Callable[..., Callable[[Function], Any]]", njit)
        made = decorate(**options)(function)
        keep_function(made, folder_of_module(function.__module__))
        made.compile(signature)
        made.disable_compile()
        return made

    return compile_it


def _signature_of(
    function: Callable[..., object], bound: Mapping[object, type]
) -> object:
    hints = [bound.get(hint, hint) for hint in get_type_hints(function).values()]
    *arguments, result = map(compiled_type, hints)
    return result(*arguments)


def _element(context, builder, signature, args):
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


def _pointer(builder, address):
    return builder.inttoptr(address, WORD.as_pointer())


@intrinsic
def _load_acquire(_typing, array, index):
    def generate(context, builder, signature, args):
        pointer = _element(context, builder, signature, args)
        return builder.load_atomic(pointer, "acquire", 8)

    return types.int64(array, types.int64), generate


@intrinsic
def _store_release(_typing, array, index, value):
    def generate(context, builder, signature, args):
        pointer = _element(context, builder, signature, args)
        builder.store_atomic(args[2], pointer, "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


@intrinsic
def _peek(_typing, array, index):
    def generate(context, builder, signature, args):
        return builder.load(_element(context, builder, signature, args))

    return types.int64(array, types.int64), generate


@intrinsic
def _poke(_typing, array, index, value):
    def generate(context, builder, signature, args):
        builder.store(args[2], _element(context, builder, signature, args))
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


@intrinsic
def _fetch_add(_typing, array, index, value):
    def generate(context, builder, signature, args):
        pointer = _element(context, builder, signature, args)
        return builder.atomic_rmw("add", pointer, args[2], "seq_cst")

    return types.int64(array, types.int64, types.int64), generate


@intrinsic
def _fetch_min(_typing, array, index, value):
    def generate(context, builder, signature, args):
        pointer = _element(context, builder, signature, args)
        return builder.atomic_rmw("min", pointer, args[2], "seq_cst")

    return types.int64(array, types.int64, types.int64), generate


@intrinsic
def _fence(_typing):
    def generate(context, builder, signature, args):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def _replace(_typing, array, index, old, new):
    def generate(context, builder, signature, args):
        pointer = _element(context, builder, signature, args)
        result = builder.cmpxchg(pointer, args[2], args[3], "seq_cst", "seq_cst")
        return builder.extract_value(result, 1)

    return types.boolean(array, types.int64, types.int64, types.int64), generate


def arrays_at(arrays: type[Arrays]) -> Callable[[Integer], Arrays]:
    """
    A function for compiled code: the named tuple of `Words` that a table describes.

    The table at the address has two words for each array: its address and its size.
    This takes no time, where a tuple that Python passes takes 100 ns an array.
    """
    kind = compiled_type(arrays)

    @intrinsic
    def read(_typing, address):
        def generate(context, builder, signature, args):
            values = [
                _array_at(context, builder, builder.add(args[0], WORD(16 * i)))
                for i in range(len(kind))
            ]
            return context.make_tuple(builder, kind, values)

        return kind(types.int64), generate

    return cast("Callable[[Integer], Arrays]", read)


def _array_at(context, builder, entry):
    address = builder.load(_pointer(builder, entry))
    size = builder.load(_pointer(builder, builder.add(entry, WORD(8))))
    array = context.make_array(words)(context, builder)
    populate_array(
        array,
        data=_pointer(builder, address),
        shape=[size],
        strides=[WORD(8)],
        itemsize=WORD(8),
        meminfo=None,
    )
    return array._getvalue()


@intrinsic
def _address_of(_typing, array, index):
    def generate(context, builder, signature, args):
        return builder.ptrtoint(_element(context, builder, signature, args), WORD)

    return types.int64(array, types.int64), generate


@intrinsic
def _call_kernel(_typing, kernel, args, part, parts):
    def generate(context, builder, signature, args):
        function = ir.FunctionType(ir.IntType(32), [WORD, WORD, WORD])
        return builder.call(builder.inttoptr(args[0], function.as_pointer()), args[1:])

    return types.int32(types.int64, types.int64, types.int64, types.int64), generate


def _call_of(count):
    """The signature and the generator of a call of a function at an address."""

    def generate(context, builder, signature, args):
        function = ir.FunctionType(WORD, [WORD] * count)
        return builder.call(builder.inttoptr(args[0], function.as_pointer()), args[1:])

    return types.int64(*[types.int64] * (count + 1)), generate


@intrinsic
def _call_0(_typing, function):
    return _call_of(0)


@intrinsic
def _call_1(_typing, function, first):
    return _call_of(1)


@intrinsic
def _call_2(_typing, function, first, second):
    return _call_of(2)


@intrinsic
def _call_3(_typing, function, first, second, third):
    return _call_of(3)


@intrinsic
def _load_word(_typing, address):
    def generate(context, builder, signature, args):
        return builder.load(_pointer(builder, args[0]))

    return types.int64(types.int64), generate


@intrinsic
def _load_byte(_typing, address):
    def generate(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        return builder.zext(builder.load(pointer), WORD)

    return types.int64(types.int64), generate


@intrinsic
def _store_word(_typing, address, value):
    def generate(context, builder, signature, args):
        builder.store(args[1], _pointer(builder, args[0]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def _prefetch(_typing, address):
    def generate(context, builder, signature, args):
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, *[number] * 3])
        name = "llvm.prefetch.p0"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        # To be read, into the nearest cache, as data.
        facts = [number(fact) for fact in (0, 3, 1)]
        builder.call(function, [builder.inttoptr(args[0], byte), *facts])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def _copy_bytes(_typing, destination, source, size):
    def generate(context, builder, signature, args):
        byte = ir.IntType(8).as_pointer()
        destination, source = (builder.inttoptr(arg, byte) for arg in args[:2])
        cgutils.raw_memcpy(builder, destination, source, args[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


peek = cast("Callable[[Words, Integer], int]", _peek)
"""`array[index]` for an index that is not negative, which Numba would look at."""

poke = cast("Callable[[Words, Integer, Integer], None]", _poke)
"""`array[index] = value` for an index that is not negative."""

load_acquire = cast("Callable[[Words, Integer], int]", _load_acquire)
"""`array[index]`, and all writes of its writer before it stored this value."""

store_release = cast("Callable[[Words, Integer, Integer], None]", _store_release)
"""`array[index] = value`, visible with all earlier writes of this thread."""

fetch_add = cast("Callable[[Words, Integer, Integer], int]", _fetch_add)
"""Add a value to `array[index]` at once; its value before."""

fetch_min = cast("Callable[[Words, Integer, Integer], int]", _fetch_min)
"""Set `array[index]` to a value if that is less, at once; its value before."""

fence = cast("Callable[[], None]", _fence)
"""Order all writes before this before all reads after it."""

replace = cast("Callable[[Words, Integer, Integer, Integer], bool]", _replace)
"""Set `array[index]` from `old` to `new` at once; False if it was not `old`."""

address_of = cast("Callable[[Words, Integer], int]", _address_of)
"""The address of `array[index]`."""

call_kernel = cast("Callable[[Integer, Integer, Integer, Integer], int]", _call_kernel)
"""The code returned by the kernel at an address for a row, a part and all parts."""

call_0 = cast("Callable[[Integer], int]", _call_0)
"""The word returned by the function at an address; any if it returns none."""

call_1 = cast("Callable[[Integer, Integer], int]", _call_1)
"""The word returned by the function at an address for one word."""

call_2 = cast("Callable[[Integer, Integer, Integer], int]", _call_2)
"""The word returned by the function at an address for two words."""

call_3 = cast("Callable[[Integer, Integer, Integer, Integer], int]", _call_3)
"""The word returned by the function at an address for three words."""

load_word = cast("Callable[[Integer], int]", _load_word)
"""The word at an address."""

load_byte = cast("Callable[[Integer], int]", _load_byte)
"""The byte at an address."""

store_word = cast("Callable[[Integer, Integer], None]", _store_word)
"""Write a word at an address."""

prefetch = cast("Callable[[Integer], None]", _prefetch)
"""Begin to fetch the line at an address, if there is one, into the nearest cache."""

copy_bytes = cast("Callable[[Integer, Integer, Integer], None]", _copy_bytes)
"""Copy to an address from an address a number of bytes; the two do not overlap."""
