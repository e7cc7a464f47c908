"""
Choose an alternative for each kernel, and note which one and why.

Each alternative (`penstock.lowering.launch.autotune.registry`: ours, and those of
plug-ins) refuses a kernel or offers variants of itself. Of what the kernel database has
measured, for the same kernel, parts, vectors and machine, the fastest is taken; where
it has nothing, or there is no database, that of the highest priority, of these the one
with the least modelled time, of these the first by name. Unless a plug-in has a higher
priority, that is `rules`, and schedules are those of `launch-schedule-contractions`,
which comes after.

A kernel of an actor that writes over a variable (`updates`), or comes after one, gets
nothing that can fail: the variables of a job have new values all, or none.

Actors that call a kernel which can fail now, as it has a source of its own, say so
(`can_fail`). The attribute `selected` of a kernel is then `"<alternative>: <why>"`; one
that says so before is left alone. An error tells of each kernel that nothing can
compute, and what refuses it why.

Example: `test/lowering/launch/launch-select-kernels-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.launch import KernelOp, ProgramOp
from penstock.dialects.launch.packed_layout import PANELS
from penstock.dialects.utils.diagnostics import fail_if_any
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.constant_arguments import called_kernels
from penstock.lowering.codegen.cpu.vector_width import (
    checked_vector_bytes,
    has_matrices_here,
)
from penstock.lowering.kernel_times.database import DatabaseError, KernelDatabase
from penstock.lowering.kernel_times.keys import machine_here
from penstock.lowering.launch.autotune.registry import alternatives
from penstock.lowering.launch.autotune.selection import (
    SELECTED,
    Selector,
    certain_kernels,
    note_failing,
)


def is_among(kernel: KernelOp, named: Mapping[ProgramOp, Collection[str]]) -> bool:
    """Whether a kernel is one of those that are named of its program."""
    program = kernel.parent_op()
    if not isinstance(program, ProgramOp):
        return False
    return kernel.sym_name.data in named.get(program, ())


@dataclass(frozen=True)
class LaunchSelectKernelsPass(ModulePass):
    """
    Choose an alternative for each kernel, by what was measured, its priority, or a
    model, and note which one and why.
    """

    name = "launch-select-kernels"

    database: str | None = None
    """The kernel database to read; without it nothing counts as measured."""

    gpu: str = ""
    """
    The device of kernels for `cuda`, as the kernel database calls it; without it
    nothing of them counts as measured.
    """

    parts: int = 1
    """The number of threads that may share the work of a kernel."""

    vector_bytes: int | None = None
    """The bytes of a vector: 16, 32 or 64. By default those of this CPU."""

    panels: bool = True
    """
    Whether variables may lie in panels: not if others find them by their address.
    """

    refusals: bool = False
    """Whether to note on each kernel, as `refused`, what does not take it and why."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self._check()
        try:
            with ExitStack() as stack:
                selector = self._selector(stack)
                certain = {x: certain_kernels(x) for x in outermost(op, ProgramOp)}
                for kernel, constants in [*called_kernels(op)]:
                    if SELECTED not in kernel.attributes:
                        can = self.panels and PANELS not in kernel.attributes
                        selector.try_to_select(
                            kernel,
                            constants if can else {},
                            is_certain=is_among(kernel, certain),
                        )
        except DatabaseError as error:
            raise PassFailedException(str(error)) from error
        fail_if_any(selector.findings)
        for program in outermost(op, ProgramOp):
            note_failing(program)

    def _check(self) -> None:
        if self.parts < 1:
            raise PassFailedException(f"parts must be at least 1, got {self.parts}")

    def _selector(self, stack: ExitStack) -> Selector:
        width = checked_vector_bytes(self.vector_bytes)
        matrices = self.vector_bytes is None and has_matrices_here()
        if self.database is None:
            return Selector(
                alternatives(),
                width,
                self.parts,
                show_refusals=self.refusals,
                matrices=matrices,
            )
        database = stack.enter_context(KernelDatabase(Path(self.database)))
        found = alternatives(), width, self.parts, machine_here(), database
        return Selector(*found, self.refusals, self.gpu, matrices)
