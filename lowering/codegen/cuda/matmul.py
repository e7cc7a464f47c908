"""
The source of tiled contractions for GPUs, see
`penstock.lowering.codegen.cuda.matmul_groups`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import gcd

from penstock.dialects.kernel.loops import row_major
from penstock.dialects.launch.schedules.cuda_matmul import PADDING
from penstock.lowering.codegen.body.epilogue import (
    Input,
    epilogue_lines,
    is_trivial,
)
from penstock.lowering.codegen.body.statements import sum_of
from penstock.lowering.codegen.cuda.device_limits import VECTORS
from penstock.lowering.codegen.cuda.matmul_groups import FoldedScalars, TiledMatmul
from penstock.lowering.codegen.cuda.staging import (
    Tile,
    TilePrinter,
    of_thread,
)
from penstock.lowering.codegen.cuda.statements import DevicePrinter

MOST_FINISHED = 16
"""
The sums that one loop finishes. Compilers do not unroll a loop whose turns are long
together, as 64 of `gelu` are, and what a loop counts through is then in local memory.
"""
SLOTS = {"a": "slots_0", "b": "slots_1"}
"""The shared memory of factors."""


class TiledMatmulPrinter(TilePrinter):
    """Prints one contraction, with the stages that are folded in it."""

    def __init__(self, printer: DevicePrinter, group: TiledMatmul):
        super().__init__(printer)
        self.group, self.schedule = group, group.schedule
        self.contraction = group.contraction
        self.threads = self.schedule.threads
        self.rows, self.columns, self.terms = self.contraction.extents
        self.type = self.contraction.element
        self.wide = VECTORS.get(self.type, 1)
        self.results = group.results
        self.finish = ""
        """The name of the function that makes elements of results of a sum, if any."""
        self.tiles = self.factors()

    def print(self, name: str) -> str:
        """Print the function of the stage; how it is listed."""
        self.define_finish(name)
        return f"{self.print_function(name)})"

    def define_finish(self, name: str) -> None:
        """Print the function that makes of a sum what is stored, unless they equal."""
        finish = self.group.finish
        if is_trivial(finish):
            return
        self.finish = name.replace("stage", "finish")
        inputs = [f"p{number}" for number in range(len(finish.inputs))]
        scalars = FoldedScalars(self.printer.scalars)
        with self.printer.device_function(self.finish, ["s", *inputs]):
            for line in epilogue_lines(finish, scalars):
                self.line(line)

    def print_function(self, name: str) -> str:
        """Print the function of all tiles; how it is listed, but for its end."""
        with self.printer.stage_function(name):
            self.print_arrays()
            with self.printer.blocks(self.group.tiles):
                self._print_start()
                self.print_sums()
                self.print_finish()
        return f"Stage({name}, {self.group.tiles}, {self.threads}, blockwise=True"

    # Where a thread is

    def print_arrays(self) -> None:
        """Print what threads have, and where they are in their block."""
        rows, columns, terms = self.schedule.block
        height, width = self.schedule.tile
        self.print_shared([2 * tile.elements for tile in self.tiles])
        fetched = (size * terms // self.threads for size in (rows, columns))
        self.print_local((height * width, height, width, *fetched))
        self.line(f"at = {self.call('thread')}")
        self.print_own("at")

    def print_own(self, number: str) -> None:
        """Print the row and the column of a thread, or of a warp, in its block."""
        across = str(self.schedule.block[1] // self.schedule.tile[1])
        self.line(f"row = {self.call('quotient', number, across)}")
        self.line(f"column = {self.call('remainder', number, across)}")

    def _print_start(self) -> None:
        """Print where a tile begins: its first row and column, and other loops."""
        contraction = self.contraction
        outer = [self.printer.new_loop() for _ in contraction.outer]
        firsts = "first_row", "first_column"
        extents = [*contraction.outer_extents, *self.group.grid]
        self.printer.split("e", [*outer, *firsts], extents)
        for name, size in zip(firsts, self.schedule.block, strict=False):
            self.line(f"{name} = {self.i32(f'{name} * {size}')}")
        for name, number in (("a", contraction.a), ("b", contraction.b)):
            access = contraction.nest.accesses[number]
            strides = contraction.outer_strides(access)
            self.print_offset(f"from_{name}", outer, strides, access.offset)
        for number, result in enumerate(self.results):
            self.print_offset(first_of(number), outer, result.outer, result.offset)
        for number, input in enumerate(self.group.finish.inputs):
            self.print_offset(f"line_{number}", outer, input.outer, input.offset)

    # Factors

    def factors(self) -> tuple[Tile, Tile]:
        """The tiles of both factors."""
        contraction, inputs = self.contraction, self.group.op.operands
        rows, columns, terms = self.schedule.block
        row, term_of_a = contraction.a_steps
        term_of_b, column = contraction.b_steps
        steps = sum_of([("line", row), ("term", term_of_a)])
        place = self.i32(f"from_a + {steps}")
        a = Tile(
            *("a", inputs[contraction.a], place, "first_row", self.rows, rows, terms),
            by_terms=term_of_a == 1,
        )
        b = Tile(
            *("b", inputs[contraction.b], self._place_of_b(), "first_column"),
            *(self.columns, columns, terms),
            by_terms=term_of_b == 1 and column != 1,
        )
        return (
            self.staged(a, self._alignment(a, contraction.a, row, term_of_a)),
            self.staged(b, self._alignment(b, contraction.b, column, term_of_b)),
        )

    def staged(self, tile: Tile, alignment: int) -> Tile:
        """
        The tile of a factor as it is brought to shared memory, given the contiguous
        elements that always begin at a multiple of as many.
        """
        pieces = tile.pieces // self.threads
        is_wide = alignment % self.wide == 0 and pieces >= self.wide
        together = self.wide if is_wide else 1
        return replace(tile, by_lines=False, pad=PADDING, together=together)

    def _alignment(self, tile: Tile, operand: int, line: int, term: int) -> int:
        """
        The number of contiguous elements of a factor that always begin at a multiple of
        as many, given how far apart its lines and terms are.
        """
        windows = tile.name == "b" and self.contraction.has_windows
        if windows or 1 not in (line, term):
            return 1
        access = self.contraction.nest.accesses[operand]
        along = (self.terms, line) if tile.by_terms else (tile.extent, term)
        return gcd(*along, *self.contraction.outer_strides(access), access.offset)

    def _place_of_b(self) -> str:
        contraction = self.contraction
        parts = (
            self._unrolled("line", contraction.windows(contraction.columns)),
            self._unrolled("term", contraction.windows(contraction.terms)),
        )
        return self.i32(" + ".join(["from_b", *(part for part in parts if part)]))

    def _unrolled(self, name: str, windows: Sequence[tuple[int, int]]) -> str:
        """Where the turn of loops, given by its number, is in a factor."""
        extents = [extent for extent, _ in windows]
        parts: list[str] = []
        for position, ((extent, stride), inner) in enumerate(
            zip(windows, row_major(extents), strict=True)
        ):
            text = name
            if inner > 1:
                text = self.call("quotient", name, str(inner))
            if position:
                text = self.call("remainder", text, str(extent))
            if stride:
                parts.append(f"{text} * {stride}")
        return " + ".join(parts)

    # Sums

    def print_sums(self) -> None:
        """Print how the products of all terms are added up."""
        height, width = self.schedule.tile
        steps, block = self.group.steps, self.block
        self.print_filled("kept_0", height * width, 0.0)
        self.print_fetches("0")
        self.print_puts("0")
        self.line("cuda.syncthreads()")
        with block(f"for j in range({steps}):"):
            if steps > 1:
                with block(f"if j + 1 < {steps}:"):
                    self.print_fetches("(j + 1)")
            self.print_terms()
            if steps > 1:
                with block(f"if j + 1 < {steps}:"):
                    self.print_puts("(j + 1)")
            self.line("cuda.syncthreads()")

    def print_piece_of(self, tile: Tile, step: str) -> None:
        """Print where a piece of a tile is in its operand."""
        self.line(f"line = {self.i32(f'{tile.first} + line')}")
        self.line(f"term = {self.i32(f'{step} * {tile.terms} + term')}")

    def print_fetches(self, step: str) -> None:
        """Print how the terms of a step are fetched into registers."""
        for tile in self.tiles:
            with self.pieces(tile):
                self.print_piece_of(tile, step)
                # Products of lines past the edge are not stored.
                last = tile.extent - (1 if tile.by_terms else tile.together)
                if tile.extent % tile.size:
                    inside = f"line < {tile.extent}"
                    self.printer.print_choice("line", inside, str(last))
                self._print_fetch(tile)

    def _print_fetch(self, tile: Tile) -> None:
        """Print that a piece is fetched: zeros where there are no terms."""
        has_edge = self.print_edge("inside", "term", self.terms, tile.terms)
        for kept, value in zip(self.kept(tile), self.loaded_piece(tile), strict=True):
            if has_edge:
                value = self.call("select", "inside", value, self.number(0.0))
            self.line(f"{kept} = {value}")

    @property
    def fetched(self) -> Sequence[Tile]:
        """The tiles that go through registers."""
        return [tile for tile in self.tiles if not tile.is_copied]

    def kept(self, tile: Tile) -> Sequence[str]:
        """The registers that a piece goes through."""
        number = [fetched.name for fetched in self.fetched].index(tile.name)
        kept, together = f"kept_{3 + number}", tile.together
        if together == 1:
            return [f"{kept}[i]"]
        return [f"{kept}[i * {together} + {number}]" for number in range(together)]

    def slots(self, tile: Tile, step: str) -> tuple[str, str]:
        """The shared memory of a tile, and where it begins in that in a step."""
        start = "0" if step == "0" else f"({step} & 1) * {tile.elements}"
        return SLOTS[tile.name], start

    def print_puts(self, step: str) -> None:
        """Print how what has been fetched comes to shared memory."""
        for tile in self.fetched:
            slots, start = self.slots(tile, step)
            slot = f"{start} + {tile.slot('line', 'term', tile.start)}"
            with self.pieces(tile):
                self.print_brought(tile, slots, slot, self.kept(tile))

    def print_terms(self) -> None:
        """Print how the products of the terms in shared memory are added."""
        terms, (height, width) = self.schedule.block[2], self.schedule.tile
        with self.block(f"for k in range({terms}):"):
            for tile, kept, count, own in zip(
                self.tiles,
                ("kept_1", "kept_2"),
                (height, width),
                ("row", "column"),
                strict=True,
            ):
                together = self.wide if count % self.wide == 0 else 1
                number = "i" if together == 1 else f"(i * {together})"
                line = of_thread(own, number, count, tile.size, self.wide)
                place = f"((j & 1) * {terms} + k) * {tile.width} + {line}"
                self.print_taken(kept, SLOTS[tile.name], place, count, together)
            self.print_products("kept_0", "kept_1", "kept_2", height, width)

    # Results

    def are_together(self, result: Input, count: int) -> bool:
        """
        Whether so many neighbours in a row of a result begin at a multiple of as many.
        """
        places = self.columns, result.row, result.offset, *result.outer
        return result.column == 1 and gcd(*places) % count == 0

    def are_all_together(self, count: int) -> bool:
        """Whether so many neighbours are in all results."""
        return all(self.are_together(result, count) for result in self.results)

    def print_finish(self) -> None:
        """Print how the sums of a thread are finished and stored."""
        rows, columns, _ = self.schedule.block
        height, width = self.schedule.tile
        is_wide = width % self.wide == 0 and self.are_all_together(self.wide)
        together = self.wide if is_wide else 1
        number = "n" if together == 1 else f"(n * {together})"
        for _ in self.finishing(height, width):
            place = of_thread("row", "i", height, rows, self.wide)
            self.line(f"line = {self.i32(f'first_row + {place}')}")
            edges = self.print_edge("live", "line", self.rows, rows, self.rows - 1)
            with self.block(f"for n in range({width // together}):"):
                place = of_thread("column", number, width, columns, self.wide)
                self.line(f"term = {self.i32(f'first_column + {place}')}")
                edges += self.print_column_edge(together)
                self._print_results(" & ".join(edges), together)

    def print_column_edge(self, together: int) -> list[str]:
        """Print that so many columns are some that there are, and the condition."""
        columns, last = self.schedule.block[1], self.columns - together
        return self.print_edge("inside", "term", self.columns, columns, last)

    def finishing(self, count: int, each: int) -> Iterator[None]:
        """
        Print the loops over `count` rows of a thread, of so many sums each: one, or
        where sums are changed, several that finish a few of them. Yields in each.
        """
        rows = count
        if self.finish:
            rows = min(count, max(1, MOST_FINISHED // each))
        for first in range(0, count, rows):
            bounds = f"{first}, {first + rows}" if first else f"{rows}"
            with self.block(f"for i in range({bounds}):"):
                yield

    def _print_results(self, condition: str, together: int) -> None:
        """Print how some contiguous elements of each result are made and stored."""
        width = self.schedule.tile[1]
        if together == 1:
            self.print_element(f"kept_0[i * {width} + n]", condition)
            return
        sums = [f"kept_0[i * {width} + n * {together} + {k}]" for k in range(together)]
        made = self.printed_elements(sums)
        for number, (result, parts) in enumerate(zip(self.results, made, strict=True)):
            values = f"({', '.join(parts)})"
            arguments = self.printer.name(result.buffer), self.place(number), values
            self.line(self.call(f"put_{together}", condition or "True", *arguments))

    def print_element(self, sum: str, condition: str) -> None:
        """Print that the element of each result that a sum becomes is stored."""
        if len(self.results) == 1:
            values = [self.finished(sum, 0)]
        else:
            values = [value for (value,) in self.printed_elements([sum])]
        for number, (result, value) in enumerate(
            zip(self.results, values, strict=True)
        ):
            place = self.place(number)
            self.printer.store_if(condition, result.buffer, place, value)

    def place(self, number: int) -> str:
        """The number of the element of a result at `line` and `term`."""
        result = self.results[number]
        text = sum_of([("line", result.row), ("term", result.column)])
        return self.i32(f"{first_of(number)} + {text}")

    def printed_elements(self, sums: Sequence[str]) -> Sequence[Sequence[str]]:
        """
        Print the elements that contiguous accumulators become; their names, for each
        result.
        """
        parts = [[self.printer.new_value() for _ in self.results] for _ in sums]
        for number, (names, sum) in enumerate(zip(parts, sums, strict=True)):
            self.line(f"{', '.join(names)} = {self.finished(sum, number)}")
        return [*zip(*parts, strict=True)]

    def finished(self, sum: str, number: int) -> str:
        """
        The element that an accumulator becomes, so many columns after `term`; where
        there are several results, a tuple of one for each.
        """
        if not self.contraction.starts:
            # The sums go on from what is there.
            held = self.results[0]
            text = sum_of([("line", held.row), ("term", 1)], number)
            place = self.i32(f"{first_of(0)} + {text}")
            sum = f"{self.printer.loaded(held.buffer, place)} + {sum}"
        if not self.finish:
            return sum
        given = [sum]
        for index, input in enumerate(self.group.finish.inputs):
            steps = [("line", input.row), ("term", input.column)]
            text = sum_of(steps, number * input.column)
            place = self.i32(f"line_{index} + {text}")
            given.append(self.printer.loaded(input.buffer, place))
        return f"{self.finish}({', '.join(given)})"


def first_of(number: int) -> str:
    """The name of the place of the first element of a tile in a result."""
    return f"from_{number}" if number else "from_o"
