"""
Numba's compiler with those of its passes alone that plain code needs: loops, numbers,
arrays and calls.

The others, for closures, `with`, `literal_unroll` and the like, find nothing to do in
such code. Nor is the end of each variable noted, at which Numba gives back references
of objects. Signatures of built-in functions are found once a process, and uses of
variables once a function: Numba looks for them before each of its steps.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportIncompatibleMethodOverride=false
# pyright: reportUntypedBaseClass=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core import typed_passes, untyped_passes
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.ir_utils import build_definitions
from numba.core.registry import CPUDispatcher
from numba.core.rewrites.registry import rewrite_registry
from numba.core.ssa import reconstruct_ssa
from numba.core.transforms import canonicalize_cfg
from numba.core.typeinfer import register_dispatcher

from penstock.runtime.jit.first_start import first_start
from penstock.runtime.jit.known_signatures import known_signatures


@register_pass(mutates_CFG=True, analysis_only=False)
class _Rename(untyped_passes.ReconstructSSA):
    """
    Numba's rewrites before types are known, such as indices that are constants, and a
    variable for each assignment. Numba looks for all uses of variables after each of
    these steps, which only the lowering asks for.
    """

    _name = "rename"

    def run_pass(self, state: Any) -> bool:
        """Bring a function into the form that types are found in."""
        function = state.func_ir
        blocks = function.blocks = canonicalize_cfg(function.blocks)
        for each in rewrite_registry.rewrites["before-inference"]:
            rewrite = each(state)
            for label in list(blocks):
                while rewrite.match(function, blocks[label], None, None):
                    blocks[label] = rewrite.apply()
        state.func_ir = function = reconstruct_ssa(function)
        function._definitions = build_definitions(function.blocks)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _StripPhis(typed_passes.PreLowerStripPhis):
    """Assignments in place of phis. The pass behind it looks for uses of variables."""

    _name = "strip_phis_alone"

    def run_pass(self, state: Any) -> bool:
        """Replace the phis of a function."""
        state.func_ir = function = self._strip_phi_nodes(state.func_ir)
        function._definitions = build_definitions(function.blocks)
        return True


_PASSES: Any = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    _Rename,
    typed_passes.NopythonTypeInference,
    _StripPhis,
)


class LeanCompiler(Compiler):
    """Numba's compiler without the passes that plain code does not need."""

    lowering: Any = typed_passes.NativeLowering

    def _compile_core(self) -> Any:
        with global_compiler_lock, known_signatures():
            return super()._compile_core()

    def define_pipelines(self) -> list[PassManager]:
        """The passes, in their order."""
        manager = PassManager("lean")
        for each in (*_PASSES, self.lowering, typed_passes.NoPythonBackend):
            manager.add_pass(each, each.name())
        manager.finalize()
        return [manager]


@register_pass(mutates_CFG=True, analysis_only=False)
class _InnerLowering(typed_passes.NativeLowering):
    """
    Lowering to LLVM IR that other functions link in. It is optimised with the whole of
    those, and never made machine code of by itself.
    """

    _name = "inner_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower a function, and make it known to those that call it."""
        library: Any = state.targetctx.codegen().create_library(
            state.func_id.func_qualname
        )
        library._optimize_final_module = lambda: None
        library._finalize_final_module = lambda: setattr(library, "_finalized", True)
        state.library, state.flags.no_compile = library, True
        super().run_pass(state)
        # Numba finds the function of a call by its entry point, which none has here.
        lowered, entry = state["cr"], object()
        state.targetctx.insert_user_function(entry, lowered.fndesc, [library])
        state["cr"] = lowered._replace(cfunc=entry)
        return True


class _InnerCompiler(LeanCompiler):
    """The compiler of inner functions."""

    lowering: Any = _InnerLowering


class InnerFunction(CPUDispatcher):
    """
    A function of one signature that compiled code alone calls. It is compiled when the
    first function that calls it is, and becomes a part of each.
    """

    def __init__(
        self,
        function: Callable[..., object],
        signature: Any,
        options: dict[str, object],
    ):
        super().__init__(function, {}, {"nopython": True, **options}, _InnerCompiler)
        self._signature = signature

    def add_overload(self, cres: Any) -> None:
        """Note the compiled function for those that call it, but not for Python."""
        self.overloads[tuple(cres.signature.args)] = cres

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Numba's description of a call with arguments of these types."""
        if not self.overloads:
            first_start.begin(self.py_func.__qualname__)
            try:
                with register_dispatcher(self):
                    self.compile(self._signature)
            finally:
                first_start.end()
            self.disable_compile()
        return super().get_call_template(args, kws)
