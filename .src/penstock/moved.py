"""
The modules of 0.1 that documents named to writers of plug-ins, at their new places.

Their old names go on working until the release after 0.1: each has the objects of the
module at its new place, and warns when it is first imported. Nothing of Penstock's own
imports them.
"""

from __future__ import annotations

from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from warnings import warn

MOVED = {
    "penstock.dialects.diagnostics": "penstock.dialects.utils.diagnostics",
    "penstock.dialects.in_place": "penstock.dialects.op.in_place",
    "penstock.dialects.interfaces": "penstock.dialects.op.tensor_op",
    "penstock.dialects.sbp": "penstock.dialects.op.sbp",
    "penstock.lowering.constant_arguments": (
        "penstock.lowering.analysis.constant_arguments"
    ),
    "penstock.lowering.numba": "penstock.lowering.codegen",
    "penstock.lowering.numba.contractions": (
        "penstock.lowering.codegen.body.contraction"
    ),
    "penstock.lowering.numba.finishing": "penstock.lowering.codegen.body.epilogue",
    "penstock.lowering.numba_target": "penstock.lowering.codegen.target",
    "penstock.lowering.ordering": "penstock.lowering.algorithms.ordering",
    "penstock.lowering.packing": "penstock.lowering.algorithms.packing",
    "penstock.lowering.selection": "penstock.lowering.launch.autotune",
    "penstock.lowering.selection.database": "penstock.lowering.kernel_times.database",
    "penstock.lowering.selection.keys": "penstock.lowering.kernel_times.keys",
    "penstock.runtime.attention": "penstock.runtime.kernels.cpu.attention",
    "penstock.runtime.columns": "penstock.runtime.kernels.cpu.outer_vector_loop",
    "penstock.runtime.cuda_driver": "penstock.runtime.cuda.driver",
    "penstock.runtime.cuda_intrinsics": "penstock.runtime.kernels.cuda.intrinsics",
    "penstock.runtime.cuda_lanes": "penstock.runtime.testing.cuda_lockstep_emulator",
    "penstock.runtime.cuda_libraries": "penstock.runtime.cuda.libraries.registry",
    "penstock.runtime.cuda_phases": "penstock.runtime.kernels.cuda.stages",
    "penstock.runtime.cuda_products": "penstock.runtime.cuda.libraries.problems",
    "penstock.runtime.cuda_support": "penstock.runtime.kernels.cuda.support",
    "penstock.runtime.depthwise": "penstock.runtime.kernels.cpu.depthwise",
    "penstock.runtime.faults": "penstock.runtime.testing.fault_injection",
    "penstock.runtime.initializers": "penstock.runtime.loading.initializers",
    "penstock.runtime.kernel_support": "penstock.runtime.kernels.cpu.support",
    "penstock.runtime.kinds": "penstock.runtime.program.actor_kinds",
    "penstock.runtime.lines": "penstock.runtime.kernels.cpu.vector_loop",
    "penstock.runtime.matrices": "penstock.runtime.kernels.cpu.matmul.amx",
    "penstock.runtime.measures": "penstock.runtime.observe.metrics",
    "penstock.runtime.observers": "penstock.runtime.observe.observers",
    "penstock.runtime.panels": "penstock.runtime.kernels.cpu.matmul.packing",
    "penstock.runtime.pools": "penstock.runtime.kernels.cpu.pooling",
    "penstock.runtime.profiler": "penstock.runtime.observe.kernel_timer",
    "penstock.runtime.quads": "penstock.runtime.kernels.cpu.matmul.groups",
    "penstock.runtime.subject": "penstock.runtime.observe.program_info",
    "penstock.runtime.tiles": "penstock.runtime.kernels.cpu.matmul.tile",
    "penstock.runtime.trace": "penstock.runtime.observe.chrome_trace",
    "penstock.runtime.transforms": "penstock.runtime.kernels.cpu.winograd",
    "penstock.runtime.upright": ("penstock.runtime.kernels.cpu.matmul.transposed_tile"),
    "penstock.tools.checkpoint": "penstock.tools.session.checkpoint",
    "penstock.tools.compiler": "penstock.tools.driver.compiler",
    "penstock.tools.cuda_ordering": "penstock.runtime.testing.cuda_order_check",
    "penstock.tools.memory_report": "penstock.tools.reports.memory",
    "penstock.tools.onnx_import": "penstock.tools.frontend.onnx",
    "penstock.tools.opt": "penstock.tools.cli.opt",
    "penstock.tools.run": "penstock.tools.cli.run",
    "penstock.tools.tuning": "penstock.tools.session.tuning",
}
"""The new place of each; modules of a package that moved follow it."""

ALSO = {"penstock.dialects.interfaces": "penstock.dialects.utils.tensors"}
"""The second place of a module that was divided."""

SHADOWED = {
    "penstock.dialects.kernel": "penstock.dialects.kernel.builder",
    "penstock.tools.session": "penstock.tools.session.session",
}
"""Those where a package stands now, which asks `name_of` for what it does not have."""


def place_of(name: str) -> str:
    """Where a module stands now, given the name that it has or had."""
    parent, _, leaf = name.rpartition(".")
    return MOVED.get(name) or (f"{MOVED[parent]}.{leaf}" if parent in MOVED else name)


def spec_of(name: str) -> ModuleSpec | None:
    """How a module is imported by its old name; None if the name is not an old one."""
    if place_of(name) == name:
        return None
    return ModuleSpec(name, _Moved(), is_package=True)


class _Moved(Loader):
    """Gives a module of an old name all that the one at the new place has."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__
        new = place_of(old)
        _warn(old, new)
        for place in (new, ALSO.get(old, new)):
            have = vars(import_module(place))
            vars(module).update({x: have[x] for x in have if not x.startswith("__")})


def name_of(package: str, name: str) -> object:
    """What `__getattr__` gives of a package that stands where a module stood."""
    module = import_module(SHADOWED[package])
    if name.startswith("__") or not hasattr(module, name):
        raise AttributeError(f"module '{package}' has no attribute '{name}'")
    if package not in _TOLD:
        _TOLD.add(package)
        _warn(package, module.__name__)
    return getattr(module, name)


_TOLD: set[str] = set()


def _warn(old: str, new: str) -> None:
    message = f"{old} is {new} now; the old name goes with the release after 0.1"
    # Importing is left out of the count by Python: 3 is the line that imports.
    warn(message, DeprecationWarning, stacklevel=3 + (old in SHADOWED))
