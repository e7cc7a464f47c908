"""
The source of kernels for `cuda`: one device function a phase.

A phase runs over its parallel elements with a stride of the whole grid; reductions run
inside, in a register. Buffers are indexed by one number, so that the text works on
pointers as on arrays with one dimension.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from math import prod

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from penstock.dialects.launch import KernelOp
from penstock.lowering.numba.body import BodyPrinter, Computation


def cuda_source(kernel: KernelOp) -> str:
    """
    The module text of a kernel: functions `phase_<n>(<arguments>, status)` and a list
    `PHASES` of pairs of a function and the number of its parallel elements.

    Raises `LocatedPassFailure` with everything in the kernel that has no source.
    """
    return CudaPrinter(kernel).text()


class CudaPrinter(BodyPrinter):
    """Prints a kernel for `cuda`."""

    def __init__(self, kernel: KernelOp):
        super().__init__(kernel)
        self._elements: list[int] = []

    def text(self) -> str:
        """The module text."""
        self.print_phases()
        self.finish()
        imports = ["from numba import cuda"]
        if names := ", ".join(sorted(self.scalars.names)):
            imports += ["", f"from penstock.runtime.cuda_support import {names}"]
        phases = ", ".join(
            f"(phase_{number}, {elements})"
            for number, elements in enumerate(self._elements)
        )
        return "\n".join([*imports, *self.lines, "", "", f"PHASES = [{phases}]", ""])

    @contextmanager
    def _phase(self, loops: Sequence[str], extents: Sequence[int]) -> Generator[None]:
        """A phase with a thread for each combination of the loops' indices."""
        elements = prod(extents)
        number = len(self._elements)
        self._elements.append(elements)
        self.lines += ["", "", "@cuda.jit"]
        arguments = ", ".join([*self.arguments, "status"])
        grid = f"range(cuda.grid(1), {elements}, cuda.gridsize(1))"
        thread = loops[0] if len(loops) == 1 else "e"
        with (
            self.block(f"def phase_{number}({arguments}):"),
            self.block(f"for {thread} in {grid}:"),
        ):
            if len(loops) > 1:
                self._split_element(loops, extents)
            yield

    def _split_element(self, loops: Sequence[str], extents: Sequence[int]) -> None:
        """Print the indices of all loops in terms of the number of the element."""
        for position, (loop, extent) in enumerate(zip(loops, extents, strict=True)):
            inner = prod(extents[position + 1 :])
            text = f"e // {inner}" if inner > 1 else "e"
            self.line(f"{loop} = {text} % {extent}" if position else f"{loop} = {text}")

    def print_failure(self, code: int) -> None:
        self.line(f"status[0] = {code}")
        self.line("return")

    def print_copy(self, source: str, target: str, elements: int) -> None:
        loop = self.new_loop()
        with self._phase([loop], [elements]):
            self.line(f"{target}[{loop}] = {source}[{loop}]")

    def print_parallel(self, op: scf.ParallelOp) -> None:
        lower, upper, step = (
            [number_of(value) for value in values]
            for values in (op.lowerBound, op.upperBound, op.step)
        )
        extents: list[int] = []
        for a, b, c in zip(lower, upper, step, strict=True):
            if a is None or b is None or c is None:
                self.complain(op, "the bounds of scf.parallel should be constants")
                return
            extents.append(len(range(a, b, c)))
        loops = [self.new_loop() for _ in extents]
        with self._phase(loops, extents):
            for loop, variable, a, c in zip(
                loops, op.body.block.args, lower, step, strict=True
            ):
                if a == 0 and c == 1:
                    self.set_loop(variable, loop)
                else:
                    index = self.new_value()
                    self.line(f"{index} = {loop} * {c} + {a}")
                    self.set_loop(variable, index)
            self.print_statements(op.body.block)

    def print_computation(self, computation: Computation) -> None:
        nest = computation.nest
        names = [self.new_loop() for _ in nest.extents]
        loops = range(len(names))
        outer = [loop for loop in loops if not nest.reductions[loop]]
        inner = [loop for loop in loops if nest.reductions[loop]]
        with self._phase(
            [names[loop] for loop in outer], [nest.extents[loop] for loop in outer]
        ):
            self.load_inputs(computation, names, set(outer))
            self.print_output(computation, names, [*outer, *inner], len(outer))


def number_of(value: SSAValue) -> int | None:
    """The number that an index is, or None if it is not constant."""
    owner = value.owner
    if not isinstance(owner, arith.ConstantOp):
        return None
    return owner.value.value.data if isinstance(owner.value, IntegerAttr) else None
