"""
Target `numba`: the Python source of the kernels of launch programs.

    penstock-opt program.mlir -t numba

The source of each kernel is a module of its own, see `kernel_source`; in the printed
text a comment line with the kernel's name precedes each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import IO, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.target import Target

from penstock.dialects.kernel.interface import SCHEDULE, StructuredOp
from penstock.dialects.kernel.reference import replace_by_loops
from penstock.dialects.launch import KernelOp, ProgramOp
from penstock.dialects.launch.schedules.cpu_vector_loops import VectorLoopsAttr
from penstock.dialects.utils.diagnostics import Finding, LocatedPassFailure, fail_if_any
from penstock.lowering.codegen.body.numbers import is_all_in_code, loops_in_code
from penstock.lowering.codegen.body.printer_table import blamed
from penstock.lowering.codegen.cpu.fixed_loops import keep_in_code
from penstock.lowering.codegen.cpu.kernel import cpu_source
from penstock.lowering.codegen.cpu.wave import MEMBERS, wave_source
from penstock.lowering.codegen.cuda.kernel import cuda_source
from penstock.plugins import PlugIn, PluginError, names_of, plugin_of

PRINTERS = {"cpu": cpu_source, "cuda": cuda_source}
BUILT_IN: Mapping[str, str] = {
    "cpu": "Modules for Numba, of which each kernel becomes a C function.",
    "cuda": "Modules for Numba's CUDA target.",
}
"""The kinds of devices that have a code generator of ours."""


def kernel_source(kernel: KernelOp, *, is_fixed: bool = False) -> str:
    """
    The module text of a kernel, in the form that its target asks for: its own, if it
    has one. If it is fixed, all numbers are in the code.

    Raises `LocatedPassFailure` with everything in the kernel that has no source.
    """
    if kernel.source is not None:
        return kernel.source
    target, name = kernel.compiled_for, kernel.sym_name.data
    if (printer := PRINTERS.get(target)) is None:
        if target in names_of("code-generator"):
            return generated(as_printed(kernel), plugin_of("code-generator", target))
        known = ", ".join(PRINTERS)
        message = f"kernel @{name}: unknown target '{target}', known are: {known}"
        raise LocatedPassFailure([(kernel, message)])
    if target == "cpu" and not is_fixed:
        is_fixed = any(map(is_all_in_code, structured_ops(kernel)))
    kernel = as_printed(kernel)
    try:
        if target == "cpu" and MEMBERS in kernel.attributes:
            return wave_source(kernel, partial(cpu_source, is_fixed=True))
        if target == "cpu":
            return cpu_source(kernel, is_fixed=is_fixed)
        return printer(kernel)
    except LocatedPassFailure:
        raise
    except Exception as error:
        if (told := blamed(error)) is None:
            raise
        raise LocatedPassFailure([(kernel, str(told))]) from error


def generated(kernel: KernelOp, plugin: PlugIn) -> str:
    """
    The source of a kernel by the code generator of a plug-in. Raises
    `LocatedPassFailure` if it fails, or returns no text.
    """
    try:
        text = plugin.call(kernel)
        if not isinstance(text, str) or not text.strip():
            plugin.refuse(f"returns no source but {text!r}")
    except PluginError as error:
        name = kernel.sym_name.data
        raise LocatedPassFailure([(kernel, f"kernel @{name}: {error}")]) from error
    return text


def as_printed(kernel: KernelOp) -> KernelOp:
    """
    A kernel whose structured ops all have printers: the kernel itself, or a copy with
    loops in place of those that have no schedule, or one that is about their loops.
    """
    if not any(is_loops(op, kernel) for op in structured_ops(kernel)):
        return kernel
    copy = kernel.clone()
    for op in structured_ops(copy):
        if is_loops(op, kernel):
            fixed = sorted(loops_in_code(op))
            _, reductions = op.loops()
            if beyond := [loop for loop in fixed if loop >= len(reductions)]:
                text = f"there are {len(reductions)} loops, got fixed {beyond}"
                message = f"kernel @{kernel.sym_name.data}: {text}"
                raise LocatedPassFailure([(op, message)])
            rows = [loop for loop, reduces in enumerate(reductions) if not reduces]
            for stage in replace_by_loops(op):
                keep_in_code(stage, fixed, rows)
    return copy


def is_loops(op: StructuredOp, kernel: KernelOp) -> bool:
    """Whether the source of a stage is that of the loops that it stands for."""
    schedule = op.attributes.get(SCHEDULE)
    is_vectors = isinstance(schedule, VectorLoopsAttr) and kernel.compiled_for == "cpu"
    return schedule is None or is_vectors


def structured_ops(kernel: KernelOp) -> list[StructuredOp]:
    """The stages of a kernel that are structured ops, in order."""
    return [op for op in kernel.body.block.ops if isinstance(op, StructuredOp)]


def title_of(name: str) -> str:
    """The comment above the source of a kernel: one line, whatever its name."""
    return f"# kernel {json.dumps(name, ensure_ascii=False)[1:-1]}"


@dataclass(frozen=True)
class NumbaTarget(Target):
    """Prints the source of all kernels of a module."""

    name: ClassVar[str] = "numba"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        if not any(isinstance(op, KernelOp | ProgramOp) for op in module.walk()):
            raise PassFailedException("no launch program: run a pipeline first")
        findings: list[Finding] = []
        texts: list[str] = []
        for op in module.walk():
            if not isinstance(op, KernelOp):
                continue
            try:
                title = title_of(op.sym_name.data)
                texts.append(f"{title}\n{kernel_source(op)}")
            except LocatedPassFailure as failure:
                findings += failure.findings
        fail_if_any(findings)
        output.write("\n".join(texts))
