"""
The source of kernels for `cpu`: one C function over buffer addresses.

A phase is a nest of loops in the order of `penstock.lowering.numba.loops.loop_order`;
inputs are loaded as far outside as their loops allow. Part 0 of a kernel does all of
its work, the other parts none.
"""

from __future__ import annotations

from xdsl.dialects import scf

from penstock.dialects.launch import KernelOp
from penstock.lowering.numba.body import BodyPrinter, Computation, range_of
from penstock.lowering.numba.loops import loop_order
from penstock.lowering.numba.scalars import type_name


def cpu_source(kernel: KernelOp) -> str:
    """
    The module text of a kernel: a function `kernel(args, part, parts)`.

    Raises `LocatedPassFailure` with everything in the kernel that has no source.
    """
    return CpuPrinter(kernel).text()


class CpuPrinter(BodyPrinter):
    """Prints a kernel for `cpu`."""

    reorders_sums = True

    def text(self) -> str:
        """The module text."""
        self.scalars.names.add("c_kernel")
        self.line("@c_kernel")
        with self.block("def kernel(args, part, parts):"):
            with self.block("if part != 0:"):
                self.line("return 0")
            self._print_buffers()
            self.print_phases()
            self.line("return 0")
        self.finish()
        names = ", ".join(sorted(self.scalars.names))
        imports = f"from penstock.runtime.kernel_support import {names}"
        return "\n".join([imports, "", "", *self.lines, ""])

    def _print_buffers(self) -> None:
        types, count = self.kernel.arguments, len(self.arguments)
        for index, (name, type) in enumerate(zip(self.arguments, types, strict=True)):
            element = type_name(type.element_type)
            stored = "u8" if element == "i1" else element
            call = self.scalars.call(f"buffer_{stored}", "args", str(index), str(count))
            self.line(f"{name} = {call}")

    def print_failure(self, code: int) -> None:
        self.line(f"return {code}")

    def print_copy(self, source: str, target: str, elements: int) -> None:
        loop = self.new_loop()
        with self.block(f"for {loop} in range({elements}):"):
            self.line(f"{target}[{loop}] = {source}[{loop}]")

    def print_parallel(self, op: scf.ParallelOp) -> None:
        bounds = zip(op.lowerBound, op.upperBound, op.step, strict=True)
        with self.restoring_depth():
            for variable, ends in zip(op.body.block.args, bounds, strict=True):
                loop = self.new_loop()
                self.set_loop(variable, loop)
                ends = range_of(*(self.name(end) for end in ends))
                self.open(f"for {loop} in {ends}:")
            with self.or_pass():
                self.print_statements(op.body.block)

    def print_computation(self, computation: Computation) -> None:
        nest = computation.nest
        order = loop_order(nest)
        loops = [self.new_loop() for _ in nest.extents]
        inner = sum(nest.reductions) if order.in_register else 0
        split = len(order.loops) - inner
        with self.restoring_depth():
            self.open_loops(computation, loops, (), order.loops[:split])
            self.print_output(computation, loops, order.loops, split)
