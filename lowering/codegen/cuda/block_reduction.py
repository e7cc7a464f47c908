"""
The source of block reductions: each output element is reduced by several threads of a
block through shared memory. The printer of CUDA kernels asks for it stage by stage.

A `linalg` op is one if it folds into its output by an op that may be applied in any
order, over at least 64 terms, and if it has too few elements for a thread each: sums
over dimensions other than the last one, matmuls of few rows. Neighbouring threads take
neighbouring elements, or terms, whichever are contiguous in an input. A block divides
the terms among its *slices*; their partial results come together in shared memory, in
an order that is always the same.

Where an input has no part in a loop over up to 16 elements, as a matrix that few rows
are multiplied with, a thread takes all of these, and reads the input once for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from xdsl.dialects.builtin import AnyFloat, MemRefType
from xdsl.ir import Operation

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.launch.schedules.cuda_matmul import WARP
from penstock.dialects.utils.hints import isa
from penstock.lowering.codegen.body.scalars import type_name
from penstock.lowering.codegen.body.statements import Computation
from penstock.lowering.codegen.cuda.device_limits import SIZES, STATIC_BYTES
from penstock.lowering.codegen.cuda.rows import NEUTRAL
from penstock.lowering.codegen.cuda.statements import DevicePrinter
from penstock.lowering.codegen.cuda.vector_access import ALONE, element_type

LEAST_TERMS = 64
MOST_ELEMENTS = 1 << 16
"""So many threads keep a large device busy."""
FEW_AND_LONG = (
    "rows whose points lie apart have a thread each unless they are few and long"
)
"""The reason that blocks do not divide the points of rows."""
THREADS, MANY_THREADS = 256, 1024
FEW_BLOCKS, MANY_TERMS = 132, 512
MOST_ROWS = 16


@dataclass(frozen=True)
class BlockReduction:
    """A fold for each turn of the loops that are no reductions."""

    computation: Computation
    fold: Operation
    """The op that folds."""
    width: int
    """The threads next to each other that have an element each: a power of 2."""
    row: int | None
    """The loop over elements that a thread has all of."""
    threads: int = THREADS
    """The threads of a block."""

    @property
    def rows(self) -> int:
        """The elements of a thread."""
        return 1 if self.row is None else self.computation.nest.extents[self.row]

    @property
    def terms(self) -> list[int]:
        """The loops that are folded, the outermost first."""
        reductions = self.computation.nest.reductions
        return [loop for loop, reduces in enumerate(reductions) if reduces]

    @property
    def outer(self) -> list[int]:
        """The loops over elements that threads share."""
        reductions = self.computation.nest.reductions
        loops = (loop for loop, reduces in enumerate(reductions) if not reduces)
        return [loop for loop in loops if loop != self.row]

    def extents(self, loops: Sequence[int]) -> list[int]:
        """The trip counts of loops."""
        return [self.computation.nest.extents[loop] for loop in loops]

    @property
    def items(self) -> int:
        """The blocks that have elements."""
        return -(-prod(self.extents(self.outer)) // self.width)

    def bytes(self, threads: int) -> int:
        """The bytes of the sums of the warps of so many threads."""
        return self.slots(threads) * SIZES[self.type]

    @property
    def type(self) -> str:
        """The type of accumulators: `f16` and `bf16` are reduced in `f32`."""
        return "f64" if type_name(self.fold.results[0].type) == "f64" else "f32"

    def slots(self, threads: int) -> int:
        """The sums that the warps of a block have together."""
        return threads // WARP * self.width * self.rows

    @property
    def slices(self) -> int:
        """The number of threads that reduce one element."""
        return self.threads // self.width


def block_reduction_of(computation: Computation) -> BlockReduction | None:
    """The folds of a stage, if they are few and long enough for blocks to divide."""
    fold = block_fold_of(computation)
    if fold is None:
        return None
    sums = BlockReduction(computation, fold, _width(computation), _row(computation))
    elements = prod(sums.extents(sums.outer)) * sums.rows
    if elements > MOST_ELEMENTS or prod(sums.extents(sums.terms)) < LEAST_TERMS:
        return None
    return replace(sums, threads=_threads(sums))


def scheduled_block_reduction(
    computation: Computation, threads: int, width: int, *, kept: bool
) -> BlockReduction | str:
    """
    The folds of a stage by so many threads, so many of which have an element side by
    side; `kept` where a thread has all elements of a loop. Or why blocks cannot compute
    them so.
    """
    fold = block_fold_of(computation)
    if fold is None:
        return "its folds are not those of blocks"
    row = _row(computation) if kept else None
    if kept and row is None:
        return "all operands vary from row to row"
    sums = BlockReduction(computation, fold, width, row, threads)
    return too_large(threads, sums.bytes(threads)) or sums


def block_fold_of(computation: Computation) -> Operation | None:
    """The op that folds, if blocks can compute it at all."""
    nest, op = computation.nest, computation.op
    if 0 in nest.extents or any(isinstance(i, ALONE) for i in op.body.walk()):
        return None
    are_floats = all(isinstance(element_type(v), AnyFloat) for v in op.operands)
    are_memrefs = all(isa(value.type, MemRefType) for value in op.operands)
    if nest.has_bounds or not are_floats or not are_memrefs:
        return None
    return fold_of(computation)


def _threads(sums: BlockReduction) -> int:
    """The threads of a block: many for few blocks with long sums."""
    threads = threads_of(sums.items, prod(sums.extents(sums.terms)))
    while too_large(threads, sums.bytes(threads)):
        threads //= 2
    return threads


def threads_of(blocks: int, terms: int) -> int:
    """The threads of each of so many blocks that have so many terms an element."""
    return MANY_THREADS if terms >= MANY_TERMS and blocks < FEW_BLOCKS else THREADS


def too_large(threads: int, size: int) -> str | None:
    """The reason that sums of so many bytes are not shared by threads, if any."""
    if size <= STATIC_BYTES:
        return None
    return f"the sums of {threads} threads take more than {STATIC_BYTES} bytes"


def fold_of(computation: Computation) -> Operation | None:
    """The op that folds into the output, if nothing else is done with that."""
    body = computation.body
    output, last = body.args[-1], body.last_op
    if not computation.has_reductions or last is None or len(list(output.uses)) != 1:
        return None
    fold = last.operands[0].owner
    if not isinstance(fold, Operation) or type(fold) not in NEUTRAL:
        return None
    used_once = len(list(fold.results[0].uses)) == 1
    return fold if used_once and list(fold.operands).count(output) == 1 else None


def _width(computation: Computation) -> int:
    """
    The number of neighbouring threads with an element each: a warp, unless terms of the
    largest input are contiguous.
    """
    nest, inputs = computation.nest, computation.op.inputs
    last = max(loop for loop, reduces in enumerate(nest.reductions) if reduces)
    sizes = [memref_type(value).element_count() for value in inputs]
    largest = sizes.index(max(sizes))
    if nest.accesses[largest].strides[last] == 1:
        return 1
    elements = prod(
        n
        for n, reduces in zip(nest.extents, nest.reductions, strict=True)
        if not reduces
    )
    return width_beside(elements)


def width_beside(elements: int) -> int:
    """The neighbouring threads that have an element each, a warp of them at most."""
    width = WARP
    while width // 2 >= elements:
        width //= 2
    return width


def _row(computation: Computation) -> int | None:
    """The loop over up to 16 elements that an input has no part in."""
    nest = computation.nest
    loops = [loop for loop, reduces in enumerate(nest.reductions) if not reduces]
    last = loops[-1:] if loops else []
    for loop in loops:
        shared = any(access.strides[loop] == 0 for access in nest.accesses[:-1])
        if shared and loop not in last and nest.extents[loop] <= MOST_ROWS:
            return loop
    return None


class BlockReductionPrinter:
    """Prints the folds of one stage."""

    def __init__(self, printer: DevicePrinter, sums: BlockReduction):
        self._printer, self._sums = printer, sums
        self._call, self._line = printer.scalars.call, printer.line
        self._i32, self._fold = printer.index, partial(printer.folded, sums.fold)
        self._type = sums.type
        self._loops = [printer.new_loop() for _ in sums.computation.nest.extents]
        if sums.row is not None:
            self._loops[sums.row] = "i"

    def _names(self, loops: Sequence[int]) -> list[str]:
        return [self._loops[loop] for loop in loops]

    def print(self, name: str) -> str:
        """Print the function of the stage; how it is listed."""
        printer, sums = self._printer, self._sums
        with printer.stage_function(name):
            self._print_arrays()
            with printer.blocks(sums.items):
                self._print_place()
                self._print_terms()
                self._print_joined()
                self._print_results()
                self._line("cuda.syncthreads()")
        return f"Stage({name}, {sums.items}, {sums.threads}, blockwise=True)"

    @property
    def _warps(self) -> int:
        return self._sums.threads // WARP

    def _print_arrays(self) -> None:
        sums = self._sums
        size = sums.slots(sums.threads)
        self._printer.print_shared_array("slots_0", size, self._type)
        self._printer.print_local_array("kept_0", sums.rows, self._type)
        self._line(f"at = {self._call('thread')}")
        self._line(f"warp = {self._i32('at >> 5')}")
        self._line(f"lane = {self._i32(f'at & {sums.width - 1}')}")
        self._line(f"line = {self._call('quotient', 'at', str(sums.width))}")

    def _print_place(self) -> None:
        """Print which element a thread has; those without one have the last again."""
        sums = self._sums
        count = prod(sums.extents(sums.outer))
        self._line(f"row = {self._i32(f'e * {sums.width} + lane')}")
        self._printer.print_edge("live", "row", count, sums.width, count - 1)
        self._printer.split("row", self._names(sums.outer), sums.extents(sums.outer))

    def _print_terms(self) -> None:
        """Print how a thread folds its terms."""
        sums, printer = self._sums, self._printer
        neutral = printer.scalars.float_constant(NEUTRAL[type(sums.fold)], self._type)
        count = prod(sums.extents(sums.terms))
        with printer.block(f"for i in range({sums.rows}):"):
            self._line(f"kept_0[i] = {neutral}")
        with printer.block(f"for j in range({-(-count // sums.slices)}):"):
            self._line(f"term = {self._i32(f'j * {sums.slices} + line')}")
            printer.print_edge("inside", "term", count, sums.slices)
            extents = sums.extents(sums.terms)
            printer.split("term", self._names(sums.terms), extents)
            self._print_inputs(with_row=False)
            with printer.block(f"for i in range({sums.rows}):"):
                self._print_inputs(with_row=True)
                computation = sums.computation
                new = printer.print_element(computation, self._loops, "kept_0[i]")
                if count % sums.slices:
                    new = self._call("select", "inside", new, "kept_0[i]")
                self._line(f"kept_0[i] = {new}")

    def _print_inputs(self, with_row: bool) -> None:
        """Print the loads of inputs that have a part in the loop over rows, or none."""
        sums, printer = self._sums, self._printer
        computation = sums.computation
        for operand, arg, access in zip(
            computation.op.inputs,
            computation.body.args,
            computation.nest.accesses,
            strict=False,
        ):
            has_row = sums.row is not None and access.strides[sums.row] != 0
            if has_row is with_row and arg.uses:
                value = printer.new_value()
                text = printer.loaded(operand, printer.element(access, self._loops))
                self._line(f"{value} = {text}")
                printer.set_loop(arg, value)

    def _print_joined(self) -> None:
        """Print how the slices of a block come together."""
        sums, printer = self._sums, self._printer
        width = sums.width
        with printer.block(f"for i in range({sums.rows}):"):
            self._line("taken = kept_0[i]")
            printer.print_fold_of_lanes("taken", self._fold, WARP, width)
            slot = f"(warp * {sums.rows} + i) * {width} + lane"
            first = f"(at & {WARP - 1}) < {width}"
            arguments = first, "slots_0", self._i32(slot), "taken"
            self._line(self._call("store_if", *arguments))
        self._line("cuda.syncthreads()")

    def _print_results(self) -> None:
        """Print that the first slice folds what all warps have into the output."""
        sums, printer = self._sums, self._printer
        width = sums.width
        output = sums.computation.op.outputs[0]
        access = sums.computation.nest.accesses[-1]
        with printer.block(f"for i in range({sums.rows}):"):
            place = self._call("u64", f"i * {width} + lane")
            self._line(f"taken = slots_0[{place}]")
            with printer.block(f"for n in range(1, {self._warps}):"):
                place = self._call("u64", f"(n * {sums.rows} + i) * {width} + lane")
                self._line(f"taken = {self._fold('taken', f'slots_0[{place}]')}")
            element = printer.element(access, self._loops)
            so_far = printer.loaded(output, element)
            condition = f"at < {width}"
            if prod(sums.extents(sums.outer)) % width:
                condition = f"live & ({condition})"
            value = self._fold(so_far, "taken")
            printer.store_if(condition, output, element, value)
