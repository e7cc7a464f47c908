"""
Compiling Python functions of words to C functions, with Numba.

Numba's own C functions call Python where an error may come. Ours raise none, and
without these calls their object files need nothing of Numba.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from typing import Any, cast

from llvmlite import binding
from numba import types
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import Flags, compile_extra

from penstock.runtime.jit.kernel_lowering import lowered
from penstock.runtime.jit.lean_compiler import LeanCompiler
from penstock.runtime.jit.object_file import ObjectCode

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


def compile_c_function(
    function: Callable[..., int],
    symbol: str,
    words: int,
    bits: int,
    parts: int = 1,
    text: ast.Module | None = None,
) -> ObjectCode:
    """
    The machine code of a function of so many words, with a result of 32 or 64 bits, as
    a C function of this name. `text` is that which defines it, if it may be printed.
    """
    module, machine = _linked(function, symbol, words, bits, text)
    externals = [
        declared.name
        for declared in module.functions
        if declared.is_declaration and not declared.name.startswith("llvm.")
    ]
    return ObjectCode(symbol, parts, externals, machine.emit_object(module))


def assembly_of(
    function: Callable[..., int],
    words: int,
    bits: int,
    machine: binding.TargetMachine | None = None,
    text: ast.Module | None = None,
) -> str:
    """
    The assembly text of the function of `compile_c_function`, for another machine if
    one is given.
    """
    module, here = _linked(function, "function", words, bits, text)
    if machine is not None:
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
    return (machine or here).emit_assembly(module)


def _linked(
    function: Callable[..., int],
    symbol: str,
    words: int,
    bits: int,
    text: ast.Module | None,
) -> tuple[binding.ModuleRef, binding.TargetMachine]:
    """The optimised module of a C function, and the machine that code is made for."""
    printed = None if text is None else lowered(function, text, symbol, words, bits)
    codegen = _codegen()
    builder = codegen._pass_builder()
    passes = builder.getModulePassManager()
    if printed is None:
        module = _lowered_by_numba(function, symbol, words, bits)
        module.verify()
        _hide_all_but(symbol, module)
        passes.run(module, builder)
    else:
        module, micro_kernels = map(_parsed, printed)
        passes.run(module, builder)
        _simplify(micro_kernels)
        module.link_in(micro_kernels)
        _hide_all_but(symbol, module)
    return module, cast("binding.TargetMachine", codegen._tm)


def _parsed(text: str) -> binding.ModuleRef:
    """A module of LLVM IR for this machine."""
    module = binding.parse_assembly(text)
    module.data_layout = str(_codegen().target_data)
    module.verify()
    return module


def _simplify(module: binding.ModuleRef) -> None:
    """
    Simplify functions that are emitted as they are to run. All optimisations of LLVM
    take more than twice as long, and make nothing faster of them.
    """
    builder = _codegen()._pass_builder(opt=1)
    passes = builder.getFunctionPassManager()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)


@cache
def _codegen() -> Any:
    """Numba's target machine, and its optimisations."""
    return JITCPUCodegen("penstock")


def _lowered_by_numba(
    function: Callable[..., int], symbol: str, words: int, bits: int
) -> binding.ModuleRef:
    """The module of a C function, with all functions that it calls."""
    compiled = _compiled(function, words, types.int64 if bits == 64 else types.int32)
    wrapper = _C_FUNCTION.format(
        inner=compiled.fndesc.llvm_func_name,
        words=", ".join(["i64"] * words),
        named=", ".join(f"i64 %word{i}" for i in range(words)),
        name=symbol,
        bits=bits,
    )
    # Numba's public names have no way to its modules.
    library = compiled.library
    module = library._final_module
    for called in dict.fromkeys(library._linking_libraries):
        module.link_in(called._get_module_for_linking(), preserve=True)
    module.link_in(binding.parse_assembly(wrapper))
    return module


def _hide_all_but(symbol: str, module: binding.ModuleRef) -> None:
    """
    Let other object files see one function alone. Numba's names end in a number that
    counts functions of a process: object files of two processes may define one name in
    two ways, of which a loader of both takes the first for both.
    """
    for defined in (*module.functions, *module.global_variables):
        if defined.name != symbol and not defined.is_declaration:
            defined.linkage = "internal"


class _Module(JITCodeLibrary):
    """
    Functions that are optimised as one module. Numba optimises each function before,
    and the module at a low level, so that it finds more references of objects to prune,
    of which there are none here. That took a quarter of LLVM's time.
    """

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = str(self.codegen.target_data)


def _compiled(function: Callable[..., int], words: int, result: object) -> Any:
    """The LLVM IR of a function, without wrappers for Python or C, as it is lowered."""
    flags: Any = Flags()
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
    flags.nrt, flags.error_model = False, "numpy"
    # It takes long to make, and printed kernels need none.
    from numba.core.registry import cpu_target

    # Numba's own stubs for these have no types.
    typing: Any = cpu_target.typing_context
    target: Any = cpu_target.target_context
    typing.refresh()
    target.refresh()
    return compile_extra(
        typing,
        target,
        function,
        (types.int64,) * words,
        result,
        flags,
        {},
        library=_Module(target.codegen(), function.__qualname__),
        pipeline_class=LeanCompiler,
    )
