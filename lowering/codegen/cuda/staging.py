"""
Staging through shared memory on GPUs: what the printers of stages have in common whose
blocks of threads compute tiles.

    for each item of a block:
        for each tile of an operand that it needs:
            for each piece of a thread, some contiguous elements:
                find its line and term, and those of another piece past an edge
                load it and write it to shared memory, or begin to copy it there
        load what each thread needs of a tile into registers, and multiply it
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.ir import SSAValue

from penstock.dialects.launch.schedules.cuda_matmul import WARP
from penstock.lowering.codegen.body.statements import sum_of
from penstock.lowering.codegen.cuda.device_limits import STATIC_BYTES
from penstock.lowering.codegen.cuda.statements import DevicePrinter

LOW, EIGHTH, FAR = "(lane & 7)", "((lane >> 3) & 1) * 8", "(lane >> 4) * 8"
"""
The line of a lane in one of four 8 x 8 matrices that are loaded at once, and the place
of that matrix among the four, in both directions.
"""


@dataclass(frozen=True)
class Tile:
    """A part of an operand that a block brings to shared memory."""

    name: str
    """The suffix of its names."""
    buffer: SSAValue
    place: str
    """The number of the element at `line` and `term` of the operand."""
    first: str
    """The name of the first line."""
    extent: int
    """The lines of the operand."""
    size: int
    """The lines of the tile."""
    terms: int
    """The elements of a line of the tile."""
    by_terms: bool
    """Whether neighbouring threads bring terms of one line; else one term of lines."""
    by_lines: bool = True
    """Whether lines of shared memory are those of the tile; else its terms are."""
    pad: int = 0
    """The elements after each line of shared memory, which take it to other banks."""
    together: int = 1
    """The elements of a piece: they are contiguous."""
    is_copied: bool = False
    """Whether the device copies it on its own."""
    start: int = 0
    """Where it is in its stage of shared memory."""

    @property
    def pieces(self) -> int:
        """The number of pieces."""
        return self.size * self.terms // self.together

    @property
    def width(self) -> int:
        """From a line of shared memory to the next."""
        return (self.terms if self.by_lines else self.size) + self.pad

    @property
    def elements(self) -> int:
        """The elements of shared memory that it takes."""
        return (self.size if self.by_lines else self.terms) * self.width

    @property
    def step(self) -> int:
        """From an element of a piece to the next one in shared memory."""
        return 1 if self.by_terms is self.by_lines else self.width

    def slot(self, line: str, term: str, further: int = 0) -> str:
        """Where an element is in shared memory."""
        names = (line, term) if self.by_lines else (term, line)
        return sum_of([(names[0], self.width), (names[1], 1)], further)


class TilePrinter:
    """Prints a stage whose blocks bring tiles to shared memory."""

    threads: int
    """The threads of a block."""
    type: str
    """The type of accumulators."""

    def __init__(self, printer: DevicePrinter):
        self.printer = printer
        self.call, self.line = printer.scalars.call, printer.line
        self.block, self.i32 = printer.block, printer.index
        self.print_edge = printer.print_edge

    def number(self, value: float) -> str:
        """A number of the type of accumulators."""
        return self.printer.scalars.float_constant(value, self.type)

    # Where a thread is

    def print_lane(self) -> None:
        """Print the number of a thread in its block, its warp, and its lane there."""
        self.line(f"at = {self.call('thread')}")
        self.line(f"lane = {self.i32(f'at & {WARP - 1}')}")
        self.line(f"warp = {self.i32('at >> 5')}")

    def print_offset(
        self, name: str, outer: Sequence[str], strides: Sequence[int], offset: int = 0
    ) -> None:
        """Print where the outer loops are in an operand."""
        text = sum_of(zip(outer, strides, strict=True), offset)
        self.line(f"{name} = {self.i32(text)}")

    # Arrays

    def print_local(self, sizes: Sequence[int]) -> None:
        """Print arrays of registers."""
        for number, size in enumerate(sizes):
            self.printer.print_local_array(f"kept_{number}", size, self.type)

    def print_shared(self, sizes: Sequence[int]) -> None:
        """Print arrays of shared memory."""
        for number, size in enumerate(sizes):
            self.printer.print_shared_array(f"slots_{number}", size, self.type)
        self.line(self.call("align_shared"))

    def print_slots(self, size: int) -> None:
        """Print shared memory of so many bytes for elements of 16 bits."""
        elements = 0 if size > STATIC_BYTES else size // 2
        self.printer.print_shared_array("slots_0", elements, "u16")
        self.line(self.call("align_shared"))

    def dynamic_shared(self, size: int) -> str:
        """The list entry of shared memory that is too large to declare, if it is."""
        return f", dynamic_shared={size}" if size > STATIC_BYTES else ""

    # Shared memory

    def turns(self, tile: Tile) -> int:
        """The pieces of a thread."""
        return -(-tile.pieces // self.threads)

    @contextmanager
    def pieces(self, tile: Tile, piece: str = "place") -> Generator[None]:
        """A loop over the pieces of a thread: the line and term of each in the tile."""
        with self.block(f"for i in range({self.turns(tile)}):"):
            self.line(f"{piece} = {self.i32(f'at + i * {self.threads}')}")
            if not tile.is_copied:
                # Threads past the last piece bring the first one, and keep nothing.
                self.printer.print_edge("live", piece, tile.pieces, self.threads)
            names = ("line", "term") if tile.by_terms else ("term", "line")
            across = tile.terms if tile.by_terms else tile.size
            inner = str(across // tile.together)
            self.line(f"{names[0]} = {self.call('quotient', piece, inner)}")
            rest = self.call("remainder", piece, inner)
            if tile.together > 1:
                rest = self.i32(f"{rest} * {tile.together}")
            self.line(f"{names[1]} = {rest}")
            yield

    def print_inside(self, conditions: Sequence[str]) -> str:
        """
        Print whether a piece is inside its operand; elsewhere the first one is taken
        for it. The name of the condition, `True` if there are none.
        """
        if not conditions:
            return "True"
        self.line(f"inside = {all_of(conditions)}")
        for name in ("line", "term"):
            self.printer.print_choice(name, "inside", "0")
        return "inside"

    def loaded_piece(self, tile: Tile) -> Sequence[str]:
        """Print the load of a piece; its elements."""
        if tile.together == 1:
            return [self.printer.loaded(tile.buffer, tile.place)]
        buffer = self.printer.name(tile.buffer)
        self.line(f"taken = {self.call(f'take_{tile.together}', buffer, tile.place)}")
        return [f"taken[{number}]" for number in range(tile.together)]

    def print_brought(
        self, tile: Tile, slots: str, slot: str, values: Sequence[str]
    ) -> None:
        """Print that the elements of a piece are written to shared memory."""
        for number, value in enumerate(values):
            place = self.call("u64", sum_of([(slot, 1)], number * tile.step))
            if tile.pieces % self.threads:
                self.line(self.call("store_if", "live", slots, place, value))
            else:
                self.line(f"{slots}[{place}] = {value}")

    def print_copy(self, tile: Tile, piece: str, slot: str, inside: str) -> None:
        """Print that a piece begins to be copied to shared memory."""
        buffer = self.printer.name(tile.buffer)
        arguments = "slots_0", slot, buffer, tile.place, inside
        if tile.pieces % self.threads:
            condition = f"{piece} < {tile.pieces}"
            self.line(self.call("copy_async_if", condition, *arguments))
        else:
            self.line(self.call("copy_async", *arguments))

    # Registers

    def print_filled(self, name: str, size: int, value: float) -> None:
        """Print that all elements of an array are one number."""
        with self.block(f"for i in range({size}):"):
            self.line(f"{name}[i] = {self.number(value)}")

    def print_taken(
        self, kept: str, slots: str, place: str, count: int, together: int
    ) -> None:
        """
        Print that a thread loads so many elements of shared memory, some contiguous
        ones at once, which are at a `place` that depends on `i`.
        """
        with self.block(f"for i in range({count // together}):"):
            if together == 1:
                self.line(f"{kept}[i] = {slots}[{self.call('u64', place)}]")
                return
            load = self.call(f"shared_{together}", slots, self.i32(place))
            self.line(f"taken = {load}")
            for part in range(together):
                self.line(f"{kept}[i * {together} + {part}] = taken[{part}]")

    def print_products(
        self, sums: str, a: str, b: str, height: int, width: int
    ) -> None:
        """Print that a thread adds the products of two vectors to its sums."""
        total = f"{sums}[i * {width} + n]"
        product = self.call("fma", f"{a}[i]", f"{b}[n]", total)
        with (
            self.block(f"for i in range({height}):"),
            self.block(f"for n in range({width}):"),
        ):
            self.line(f"{total} = {product}")

    def print_matrices(self, place: str, *, transposed: bool) -> None:
        """Print that a warp loads four matrices of shared memory."""
        function = "load_matrices_transposed" if transposed else "load_matrices"
        self.line(f"taken = {self.call(function, 'slots_0', self.i32(place))}")

    def print_matrix_product(
        self, result: str, element: str, sums: Sequence[str], factors: Sequence[str]
    ) -> None:
        """Print that a warp adds a product of matrices to its sums."""
        product = self.call(f"multiply_{element}", *sums, *factors)
        self.line(f"{result} = {product}")
        for part, sum in enumerate(sums):
            self.line(f"{sum} = {result}[{part}]")


def neighbours(count: int, most: int) -> int:
    """
    The elements that a thread has next to each other, of `count` along a tile: as many
    as are loaded at once.
    """
    return next(n for n in (4, 2, 1) if n <= most and count % n == 0)


def of_thread(own: str, number: str, count: int, size: int, most: int) -> str:
    """
    The line of a tile for a thread, given its number among the thread's own: some
    neighbours, then as many further on.
    """
    together = neighbours(count, most)
    if together == count:
        return f"{own} * {count} + {number}"
    step = size * together // count
    return (
        f"({number} // {together}) * {step} + {own} * {together} "
        f"+ {number} % {together}"
    )


def all_of(conditions: Sequence[str]) -> str:
    """The conjunction of conditions; nothing if there are none."""
    return " & ".join(f"({condition})" for condition in conditions)
