"""The compiled core as one C function, and the edges: what `entries` compiles."""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llvmlite import binding
from numba import types
from numba.core.compiler import Flags, compile_extra
from numba.core.registry import cpu_target

from penstock.runtime.edge_kernels import copy, feed, fetch
from penstock.runtime.jit import externals_of
from penstock.runtime.objects import ObjectCode
from penstock.runtime.workers import (
    attend,
    begin,
    halt,
    leave_all_seats,
    take_all_seats,
    take_part,
)


def core(verb: int, tables: int, first: int, second: int) -> int:
    """Do what `penstock.runtime.entries` has a function for, by its number there."""
    if verb == 0:
        attend(tables, first)
    elif verb == 1:
        begin(tables, first, second != 0)
    elif verb == 2:
        return int(take_part(tables, first, second))
    elif verb == 3:
        halt(tables, first)
    elif verb == 4:
        return int(take_all_seats(tables))
    elif verb == 5:
        leave_all_seats(tables)
    return 0


_MAKERS: dict[str, tuple[Callable[[], Callable[..., int]], int, int]] = {
    "core": (lambda: core, 4, 64),
    "feed": (lambda: feed, 3, 32),
    "fetch": (lambda: fetch, 3, 32),
    "copy": (lambda: copy, 3, 32),
}
"""By name: what makes the function, its number of words, and the bits of its result."""

_C_FUNCTION = """
declare i32 @"{inner}"(ptr, ptr, {words})
define i{bits} @"{name}"({named}) {{
  %result = alloca i{bits}
  %error = alloca ptr
  store i{bits} 0, ptr %result
  %status = call i32 @"{inner}"(ptr %result, ptr %error, {named})
  %value = load i{bits}, ptr %result
  ret i{bits} %value
}}
"""
"""What Numba makes for C calls Python where an error may come, which never does."""


def compile_entry(name: str) -> ObjectCode:
    """The machine code of the function of that name, as a C function."""
    make, words, bits = _MAKERS[name]
    compiled = _compiled(make(), words, types.int64 if bits == 64 else types.int32)
    symbol = f"penstock_{name}"
    named = ", ".join(f"i64 %word{i}" for i in range(words))
    text = _C_FUNCTION.format(
        inner=compiled.fndesc.llvm_func_name,
        words=", ".join(["i64"] * words),
        named=named,
        name=symbol,
        bits=bits,
    )
    library = compiled.library
    module = binding.parse_bitcode(library._final_module.as_bitcode())
    module.link_in(binding.parse_assembly(text))
    code = cast("bytes", library._codegen._tm.emit_object(module))
    return ObjectCode(symbol, 1, externals_of(module), code)


def _compiled(function: Callable[..., int], words: int, result: object) -> Any:
    """What Numba makes of a function of words, without what Python calls it by."""
    flags: Any = Flags()
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.nrt, flags.error_model = False, "numpy"
    # Numba's own types for these do not know what they are.
    typing: Any = cpu_target.typing_context
    target: Any = cpu_target.target_context
    typing.refresh()
    target.refresh()
    arguments = (types.int64,) * words
    return compile_extra(typing, target, function, arguments, result, flags, {})
