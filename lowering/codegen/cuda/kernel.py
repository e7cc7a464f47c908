"""
The source of kernels for `cuda`: functions that a grid of threads runs.

A stage runs over its parallel elements with a stride of the whole grid; reductions run
inside, in a register. Buffers are indexed by one `i32`, so that the text works on
pointers as on arrays of one dimension. Contiguous elements are moved 16 bytes at once
(`penstock.lowering.codegen.cuda.vector_access`), which asks for buffers at multiples of
16 bytes; such a stage has a fallback for any others.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import linalg, memref, scf
from xdsl.dialects.builtin import AffineMapAttr, MemRefType
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.kernel.interface import StructuredOp
from penstock.dialects.kernel.loops import Access
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.schedules.cuda_rows import RowsAttr
from penstock.dialects.utils.hints import isa
from penstock.lowering.codegen.body.kernel_functions import cuda_import, used_names
from penstock.lowering.codegen.body.scalars import type_name
from penstock.lowering.codegen.body.statements import Computation
from penstock.lowering.codegen.body.vector_loop import number_of
from penstock.lowering.codegen.cuda.block_reduction import (
    BlockReduction,
    BlockReductionPrinter,
    block_reduction_of,
)
from penstock.lowering.codegen.cuda.fold_schedule import scheduled_fold
from penstock.lowering.codegen.cuda.stage_printer import printers
from penstock.lowering.codegen.cuda.statements import DevicePrinter
from penstock.lowering.codegen.cuda.vector_access import (
    Vectors,
    element_type,
    vectors_of,
)
from penstock.lowering.codegen.cuda.warp_reduction import (
    WarpReduction,
    WarpReductionPrinter,
    warp_reduction_of,
)

DTYPES = {
    **{
        "bf16": "uint16",
        "f16": "float16",
        "f32": "float32",
        "f64": "float64",
        "i1": "uint8",
    },
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
}
"""The names of element types in Numba; `bf16` is known to it as bits only."""
MOST_ELEMENTS = (1 << 31) - (1 << 20)
"""An index, and one a stride of the grid further, have 32 bits."""


def cuda_source(kernel: KernelOp) -> str:
    """
    The module text of a kernel: functions `stage_<n>(<arguments>, status)`, the dtypes
    of the arguments as `PARAMETERS`, and a list `STAGES` of
    `penstock.runtime.kernels.cuda.stages.Stage`. If libraries compute stages, a list
    `LIBRARY_CALLS` says so (`penstock.runtime.cuda.libraries.registry`).

    Raises `LocatedPassFailure` with everything in the kernel that has no source.
    """
    return CudaPrinter(kernel).text()


class CudaPrinter(DevicePrinter):
    """Prints a kernel for `cuda`."""

    def __init__(self, kernel: KernelOp):
        super().__init__(kernel)
        self._bodies = 0

    def text(self) -> str:
        """The module text."""
        self._check_sizes()
        self.print_stages()
        self.finish()
        lines: list[str] = []
        for function in self.functions:
            lines += ["", "", *function]
        types = [type_name(type.element_type) or "" for type in self.kernel.arguments]
        parameters = ", ".join(f'"{DTYPES[type]}"' for type in types)
        lines += ["", "", f"PARAMETERS = [{parameters}]", "STAGES = ["]
        lines += [*(f"    {stage}," for stage in self.stages), "]"]
        if self.calls:
            lines += [
                "LIBRARY_CALLS = [",
                *(f"    {call}," for call in self.calls),
                "]",
            ]
        used = {"Stage", *(self.scalars.names & used_names(lines))}
        return "\n".join([cuda_import(used), *lines, ""])

    def _check_sizes(self) -> None:
        for name, type in zip(self.arguments, self.kernel.arguments, strict=True):
            element = type.element_type
            if type_name(element) not in (None, "index", *DTYPES):
                self.complain(self.kernel, f"elements of {element} have no source")
            if type.element_count() > MOST_ELEMENTS:
                self.complain(
                    self.kernel,
                    f"{name} has more than {MOST_ELEMENTS} elements: {type}",
                )

    # Stages

    def print_failure(self, code: int) -> None:
        self.line(f"status[0] = {code}")
        self.line("return")

    def print_stage(self, op: Operation) -> None:
        if isinstance(op, StructuredOp):
            printer = printers().printer_of(op)
            if isinstance(printer, str):
                self.complain(op, printer)
            else:
                printer(self, op).print()
            return
        if isinstance(op, memref.CopyOp):
            copying = as_computation(op)
            super().print_stage(copying)
            copying.erase()
        else:
            super().print_stage(op)

    def print_copy(self, source: str, target: str, elements: int) -> None:
        raise AssertionError("copies are printed as computations")

    def print_parallel(self, op: scf.ParallelOp) -> None:
        if (bounds := bounds_of(op)) is None:
            self.complain(op, "the bounds of scf.parallel should be constants")
            return
        self.add_stage(self.print_iterations(self.next_stage, op, bounds))

    def print_iterations(
        self, name: str, op: scf.ParallelOp, bounds: Sequence[range]
    ) -> str:
        loops, extents = [self.new_loop() for _ in bounds], [len(i) for i in bounds]
        with self.elements(name, loops, extents):
            self.name_places(op, loops, bounds)
            self.print_statements(op.body.block)
        return f"Stage({name}, {prod(extents)})"

    def print_computation(self, computation: Computation) -> None:
        fold = warp_reduction_of(computation) or block_reduction_of(computation)
        if fold is not None:
            self._print_shared(fold)
            return
        name, vectors = self.next_stage, vectors_of(computation)
        if vectors is None:
            self.add_stage(self._print_plain(name, computation))
            return
        body = self._define_body(computation)
        items = self._print_vectors(name, computation, vectors, body)
        fallback = self._print_plain(f"{name}_plain", computation)
        self.add_stage(f"Stage({name}, {items}, fallback={fallback})")

    def print_fold(self, computation: Computation, schedule: RowsAttr) -> None:
        fold = scheduled_fold(computation, schedule)
        assert not isinstance(fold, str), "has been asked whether it fits"
        self._print_shared(fold)

    def _print_shared(self, fold: WarpReduction | BlockReduction) -> None:
        """Print a stage of folds that threads share."""
        name, computation = self.next_stage, fold.computation
        if isinstance(fold, BlockReduction):
            self.add_stage(BlockReductionPrinter(self, fold).print(name))
            self._forget(computation)
            return
        entry = WarpReductionPrinter(self, fold).print(name)
        self._forget(computation)
        if fold.width > 1:
            fallback = self._print_plain(f"{name}_plain", computation)
            entry += f", fallback={fallback}"
        self.add_stage(f"{entry})")

    def _print_plain(self, name: str, computation: Computation) -> str:
        """Print a stage that moves element by element; how it is listed."""
        nest = computation.nest
        loops = range(len(nest.extents))
        names = [self.new_loop() for _ in loops]
        outer = [loop for loop in loops if not nest.reductions[loop]]
        inner = [loop for loop in loops if nest.reductions[loop]]
        extents = [nest.extents[loop] for loop in outer]
        with self.elements(name, [names[loop] for loop in outer], extents):
            self.load_inputs(computation, names, set(outer))
            self.print_output(computation, names, [*outer, *inner], len(outer))
        self._forget(computation)
        return f"Stage({name}, {prod(extents)})"

    # Vectors

    def _forget(self, computation: Computation) -> None:
        """Let the inputs of a body be loaded anew."""
        for arg in computation.body.args:
            self._names.pop(arg, None)

    def _define_body(self, computation: Computation) -> str:
        """
        Print a function that computes an element of what a body uses; the name of it,
        or nothing if that is an argument as it is.
        """
        args = [arg for arg in computation.body.args if arg.uses]
        is_copy = computation.nest.outputs == 1
        if is_copy and isinstance(computation.body.first_op, linalg.ops.YieldOp):
            return ""
        name = f"body_{self._bodies}"
        self._bodies += 1
        with self.device_function(name, [f"p{n}" for n in range(len(args))]):
            self._names |= {arg: f"p{n}" for n, arg in enumerate(args)}
            so_far = self._names.get(computation.body.args[-1])
            if computation.nest.outputs > 1:
                self.line(f"return {', '.join(self.print_elements(computation, ()))}")
            else:
                element = self.print_element(computation, (), so_far)
                self.line(f"return {element}")
        self._forget(computation)
        return name

    def _print_vectors(
        self, name: str, computation: Computation, vectors: Vectors, body: str
    ) -> int:
        """Print a stage that moves vectors; the number of its items."""
        nest, width = computation.nest, vectors.width
        loops = [self.new_loop() for _ in nest.extents]
        extents = list(nest.extents)
        rest = extents[vectors.loop] % width
        extents[vectors.loop] //= width
        with self.stage_function(name):
            with self.items(prod(extents)):
                self.split("e", loops, extents)
                along = loops[vectors.loop]
                self.line(f"{along} = {self.index(f'{along} * {width}')}")
                self._print_vector(computation, vectors, loops, body)
            if rest:
                with self.items(rest):
                    start = nest.extents[vectors.loop] - rest
                    self.line(f"{loops[0]} = {self.index(f'e + {start}')}")
                    self.load_inputs(computation, loops, {0})
                    self.print_output(computation, loops, [0], 1)
                self._forget(computation)
        return prod(extents)

    def _print_vector(
        self,
        computation: Computation,
        vectors: Vectors,
        loops: Sequence[str],
        body: str,
    ) -> None:
        """Print how a vector is computed at given indices."""
        width, accesses = vectors.width, computation.nest.accesses
        names: list[tuple[str, bool]] = []
        for arg, operand, access, along in zip(
            computation.body.args,
            computation.op.operands,
            accesses,
            vectors.is_along,
            strict=True,
        ):
            if arg.uses:
                name = self._vector(operand, access, along, width, loops)
                names.append((name, along))
        assert computation.body.last_op is not None, (
            "a linalg body ends in linalg.yield"
        )
        yielded = computation.body.last_op.operands
        outputs = computation.op.outputs
        parts: list[Sequence[str]] = []
        for part in range(width):
            given = [f"{name}[{part}]" if along else name for name, along in names]
            if body:
                parts.append([self.new_value() for _ in outputs])
                self.line(f"{', '.join(parts[-1])} = {body}({', '.join(given)})")
            else:
                parts.append(given or [self.name(value) for value in yielded])
        written = zip(outputs, computation.nest.written, strict=True)
        for (output, access), elements in zip(
            written, zip(*parts, strict=True), strict=True
        ):
            self._store_vector(output, self.element(access, loops), elements)

    def _store_vector(
        self, output: SSAValue, element: str, parts: Sequence[str]
    ) -> None:
        """Print how the elements of a vector are written, from one on."""
        if type_name(element_type(output)) == "i1":
            parts = [self.scalars.call("u8", part) for part in parts]
        self.print_vector_store("", output, element, parts)

    def _vector(
        self,
        operand: SSAValue,
        access: Access,
        along: bool,
        width: int,
        loops: Sequence[str],
    ) -> str:
        """Print a load; the name of the vector, or of the element all share."""
        if not isa(operand.type, MemRefType):
            return self.name(operand)
        element, value = self.element(access, loops), self.new_value()
        if not along:
            self.line(f"{value} = {self.loaded(operand, element)}")
            return value
        load = self.scalars.call(f"load_{width}", self.name(operand), element)
        self.line(f"{value} = {load}")
        return value


def as_computation(op: memref.CopyOp) -> linalg.ops.GenericOp:
    """A copy as an op on each element."""
    type = memref_type(op.source)
    block = Block(arg_types=[type.element_type] * 2)
    block.add_op(linalg.ops.YieldOp(block.args[0]))
    rank = type.get_num_dims()
    identity = AffineMapAttr(AffineMap.identity(rank))
    parallel = IteratorTypeAttr(IteratorType.PARALLEL)
    return linalg.ops.GenericOp(
        [op.source], [op.destination], Region(block), [identity] * 2, [parallel] * rank
    )


def bounds_of(op: scf.ParallelOp) -> list[range] | None:
    """The indices of each loop, or None if they are not constant."""
    found: list[range] = []
    for bounds in zip(op.lowerBound, op.upperBound, op.step, strict=True):
        lower, upper, step = map(number_of, bounds)
        if lower is None or upper is None or step is None:
            return None
        found.append(range(lower, upper, step))
    return found
