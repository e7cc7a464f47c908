"""
The functions that generated source may call: those that `runtime/kernels` defines.

They are read from the text of these files, as code generation does not import the
runtime. A name that no file defines cannot be imported, which is found when the source
is printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path

_KERNELS = Path(__file__).parents[3] / "runtime" / "kernels"

CPU_MODULES = (
    *("cpu.attention", "cpu.outer_vector_loop", "cpu.depthwise", "cpu.support"),
    *("cpu.support_members", "cpu.vector_loop", "cpu.matmul.amx"),
    *("cpu.matmul.packing", "cpu.pooling", "cpu.matmul.groups", "cpu.matmul.tile"),
    *("cpu.winograd", "cpu.matmul.transposed_tile", "cpu.transposition"),
    "cpu.simd",
)
"""The modules that source for the CPU imports, in this order."""

CUDA_MODULES = (
    *("cuda.support", "cuda.stages", "cuda.intrinsics", "cuda.tensor_core"),
    "cuda.trig_f32",
)
"""The modules whose functions `cuda.support` offers to source for CUDA."""


@cache
def cpu_functions() -> Mapping[str, str]:
    """The module of each name that source for the CPU may import."""
    return _functions_of(CPU_MODULES)


@cache
def cuda_functions() -> Mapping[str, str]:
    """The module of each name that source for CUDA may import."""
    # Numba's `cuda` is handed on as it is.
    return {**_functions_of(CUDA_MODULES), "cuda": "cuda.support"}


def cpu_imports(used: AbstractSet[str]) -> list[str]:
    """The lines that import these names, a module each."""
    modules = {name: cpu_functions()[name] for name in used}
    return [
        f"from penstock.runtime.kernels.{module} import "
        + ", ".join(sorted(name for name in used if modules[name] == module))
        for module in CPU_MODULES
        if module in modules.values()
    ]


def cuda_import(used: AbstractSet[str]) -> str:
    """The line that imports these names."""
    names = sorted(name for name in used if cuda_functions()[name])
    return f"from penstock.runtime.kernels.cuda.support import {', '.join(names)}"


def _functions_of(modules: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for module in modules:
        path = _KERNELS.joinpath(*module.split(".")).with_suffix(".py")
        for name in public_names(path.read_text(encoding="utf-8")):
            found.setdefault(name, module)
    return found


def used_names(lines: Iterable[str]) -> set[str]:
    """The names in lines of source that are no attributes and stand in no text."""
    return {name for line in lines for name in _NAME.findall(line)}


_NAME = re.compile(r"""(?<![\w."'])[A-Za-z_]\w*""")


def public_names(text: str) -> Iterator[str]:
    """The names that a module defines for others, read from the starts of its lines."""
    for function, names in _DEFINITION.findall(text):
        found = [function] if function else re.findall(r"\w+", names)
        yield from (name for name in found if not name.startswith("_"))


# To parse the modules took a tenth of the time in which a small model is loaded.
_DEFINITION = re.compile(
    r"^(?:(?:def|class) (\w+)|((?:\w+(?:, \w+)* = )+|\w+(?=: .*=)))", re.MULTILINE
)
