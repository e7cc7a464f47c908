"""
The source of `f16`/`bf16` contractions for tensor cores.

    for each tile of the result:
        begin to copy the first terms to shared memory, in all stages but one
        for all terms, some at once:
            wait for their stage; begin to copy those that the free stage is for
            load rows and columns of the stage as matrices, and multiply them
        apply the epilogue to the sums, which are in registers, and store them: by way
            of shared memory, 16 bytes at once, if rows are multiples of 16 bytes

A factor with contiguous elements at multiples of 16 bytes is copied asynchronously
(`cp.async`), as it lies: matrices are transposed when they are loaded. Any other one,
as windows of a convolution, goes through registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.dialects.launch.schedules.cuda_matmul import MATRIX, NARROW_PADDING, WARP
from penstock.lowering.codegen.body.epilogue import Input
from penstock.lowering.codegen.cuda.device_limits import CHUNK
from penstock.lowering.codegen.cuda.matmul import TiledMatmulPrinter
from penstock.lowering.codegen.cuda.matmul_groups import TiledMatmul
from penstock.lowering.codegen.cuda.staging import (
    EIGHTH,
    FAR,
    LOW,
    Tile,
    all_of,
)
from penstock.lowering.codegen.cuda.statements import DevicePrinter

SHARING_THREADS = 256
"""
The threads of blocks of which a multiprocessor should have room for two, so that one
computes while the other one waits: that leaves 128 registers a thread. Unless it is
asked, the compiler takes 132 for 128 x 128 sums of `bf16` on `sm_90`, and 120 if it is,
without spills. Fallbacks, which fetch through registers, take up to 158.
"""


class TensorCorePrinter(TiledMatmulPrinter):
    """Prints one contraction for tensor cores, with the stages folded in it."""

    _aligned = True
    """Whether buffers begin at multiples of 16 bytes."""

    def __init__(self, printer: DevicePrinter, group: TiledMatmul):
        super().__init__(printer, group)
        self.type = "f32"

    def print(self, name: str) -> str:
        """Print the functions of the stage; how it is listed."""
        self.define_finish(name)
        self._align(False)
        fallback = self.print_function(f"{name}_plain")
        self._align(True)
        if not (any(tile.is_copied for tile in self.tiles) or self.are_all_together(2)):
            self.printer.functions.pop()
            return f"{self.print_function(name)})"
        return f"{self.print_function(name)}, fallback={fallback}))"

    def _align(self, aligned: bool) -> None:
        self._aligned = aligned
        self.tiles = self.factors()

    def print_function(self, name: str) -> str:
        text = super().print_function(name) + self.dynamic_shared(self._bytes)
        shares = self._aligned and self.threads == SHARING_THREADS
        return f"{text}, least_blocks=2" if shares else text

    # Shared memory

    def factors(self) -> tuple[Tile, Tile]:
        a, b = super().factors()
        return a, replace(b, start=a.elements)

    def staged(self, tile: Tile, alignment: int) -> Tile:
        is_copied = self._aligned and alignment % CHUNK == 0
        return replace(
            tile,
            by_lines=tile.by_terms,
            pad=NARROW_PADDING,
            together=CHUNK if is_copied else 1,
            is_copied=is_copied,
        )

    @property
    def _stage(self) -> int:
        """The elements of a stage."""
        return sum(tile.elements for tile in self.tiles)

    @property
    def _bytes(self) -> int:
        return 2 * self.schedule.stages * self._stage

    def slots(self, tile: Tile, step: str) -> tuple[str, str]:
        return "slots_0", f"({step} & {self.schedule.stages - 1}) * {self._stage}"

    def print_arrays(self) -> None:
        height, width = self.schedule.tile
        self.print_slots(self._bytes)
        arrays = [(height * width // WARP, "f32")]
        arrays += [(height // 4, "u32"), (width // 4, "u32")]
        arrays += [(self.turns(tile), "u16") for tile in self.fetched]
        for number, (size, dtype) in enumerate(arrays):
            self.printer.print_local_array(f"kept_{number}", size, dtype)
        self.print_lane()
        self.print_own("warp")
        for tile, own, size in zip(
            self.tiles, ("row", "column"), self.schedule.tile, strict=True
        ):
            self._print_first_matrix(tile, f"{own} * {size}")

    def _print_first_matrix(self, tile: Tile, own: str) -> None:
        """Print which line of its first matrices a lane gives the address of."""
        # The matrices of `a` go down its rows first, those of `b` along terms.
        line, term = (EIGHTH, FAR) if tile.name == "a" else (FAR, EIGHTH)
        if tile.by_terms:
            line = f"{line} + {LOW}"
        else:
            term = f"{term} + {LOW}"
        text = tile.slot(f"({own} + {line})", f"({term})", tile.start)
        self.line(f"own_{tile.name} = {self.i32(text)}")

    # Sums

    def print_sums(self) -> None:
        height, width = self.schedule.tile
        stages, steps = self.schedule.stages, self.group.steps
        self.print_filled("kept_0", height * width // WARP, 0.0)
        ahead = min(stages - 1, steps)
        with self.block(f"for j in range({ahead}):"):
            self.print_fetches("j")
            self.print_puts("j")
            self.line(self.call("commit_copies"))
        for _ in range(stages - 1 - ahead):
            self.line(self.call("commit_copies"))
        next_step = f"(j + {stages - 1})"
        with self.block(f"for j in range({steps}):"):
            self.line(self.call("await_copies", str(stages - 2)))
            self.line("cuda.syncthreads()")
            with self.block(f"if j + {stages - 1} < {steps}:"):
                self.print_fetches(next_step)
            self.line(self.call("commit_copies"))
            self.print_terms()
            if self.fetched:
                with self.block(f"if j + {stages - 1} < {steps}:"):
                    self.print_puts(next_step)
        self.line(self.call("await_copies", "0"))
        self.line("cuda.syncthreads()")

    def print_fetches(self, step: str) -> None:
        for tile in self.tiles:
            _, stage = self.slots(tile, step)
            with self.pieces(tile):
                if tile.is_copied:
                    slot = f"{stage} + {tile.slot('line', 'term', tile.start)}"
                    self.line(f"slot = {self.i32(slot)}")
                self.print_piece_of(tile, step)
                self._print_fetch(tile)

    def _print_fetch(self, tile: Tile) -> None:
        """Print that a piece begins to be copied, or that its bits are fetched."""
        conditions = [f"line < {tile.extent}"] * bool(tile.extent % tile.size)
        conditions += [f"term < {self.terms}"] * bool(self.terms % tile.terms)
        inside = self.print_inside(conditions)
        if tile.is_copied:
            self.print_copy(tile, "place", "slot", inside)
            return
        buffer, (kept,) = self.printer.name(tile.buffer), self.kept(tile)
        self.line(f"{kept} = {self.call('bits_if', inside, buffer, tile.place)}")

    def print_terms(self) -> None:
        height, width = self.schedule.tile
        columns = width // CHUNK
        with self.block(f"for k in range({self.schedule.block[2] // MATRIX}):"):
            for tile, kept, number, size in zip(
                *(self.tiles, ("kept_1", "kept_2"), ("i", "n"), (height, width)),
                strict=True,
            ):
                with self.block(f"for {number} in range({size // MATRIX}):"):
                    self._print_matrices(tile, kept, number)
            with (
                self.block(f"for i in range({height // MATRIX}):"),
                self.block(f"for n in range({columns}):"),
            ):
                first = f"(i * {columns} + n) * 4"
                sums = [f"kept_0[{first} + {part}]" for part in range(4)]
                factors = [f"kept_1[i * 4 + {part}]" for part in range(4)]
                factors += [f"kept_2[n * 2 + {part}]" for part in range(2)]
                element = self.contraction.element
                self.print_matrix_product("taken", element, sums, factors)

    def _print_matrices(self, tile: Tile, kept: str, number: str) -> None:
        """Print that matrices are loaded: lines of `a`, and of `b` its columns."""
        _, stage = self.slots(tile, "j")
        step = tile.slot(f"({number} * {MATRIX})", f"(k * {MATRIX})")
        place = f"{stage} + own_{tile.name} + {step}"
        self.print_matrices(place, transposed=not tile.by_terms)
        for part in range(4):
            self.line(f"{kept}[{number} * 4 + {part}] = taken[{part}]")

    # Results

    def are_together(self, result: Input, count: int) -> bool:
        return self._aligned and super().are_together(result, count)

    def _result_tiles(self) -> Sequence[Tile | None]:
        """
        The tile of each result that is stored by way of shared memory, 16 bytes at
        once, beside those of the results before it.
        """
        rows, columns, _ = self.schedule.block
        found: list[Tile | None] = []
        start, most = 0, self.schedule.stages * self._stage
        if not self.are_all_together(2):
            most = 0
        for number, result in enumerate(self.results):
            tile = Tile(
                *("o", result.buffer, self.place(number), "first_row", self.rows, rows),
                *(columns, True),
                pad=NARROW_PADDING,
                together=CHUNK,
                start=start,
            )
            end = start + tile.elements
            is_wide = end <= most and self.are_together(result, CHUNK)
            found.append(tile if is_wide else None)
            start = end if is_wide else start
        return found

    def print_finish(self) -> None:
        height, width = self.schedule.tile
        tiles = self._result_tiles()
        for _ in self.finishing(height // CHUNK, width // CHUNK * 2):
            row = f"row * {height} + i * {CHUNK} + (lane >> 2)"
            self.line(f"line = {self.i32(f'first_row + {row}')}")
            rows = self.schedule.block[0]
            edges = self.print_edge("live", "line", self.rows, rows, self.rows - 1)
            with self.block(f"for n in range({width // CHUNK}):"):
                column = f"column * {width} + n * {CHUNK} + (lane & 3) * 2"
                self.line(f"place = {self.i32(f'first_column + {column}')}")
                if self.are_all_together(2):
                    self._print_pair(tiles, edges, row, column)
                else:
                    for number in range(2):
                        self._print_one(edges, number)
        self._print_chunks([tile for tile in tiles if tile is not None])

    def _print_pair(
        self,
        tiles: Sequence[Tile | None],
        edges: Sequence[str],
        row: str,
        column: str,
    ) -> None:
        """
        Print two neighbours in a row of each result, given where they are in its tile.
        """
        self.line("term = place")
        condition = " & ".join([*edges, *self.print_column_edge(2)])
        made = self.printed_elements([self._sum(number) for number in range(2)])
        for number, (tile, parts) in enumerate(zip(tiles, made, strict=True)):
            if tile is None:
                buffer, place = self.results[number].buffer, self.place(number)
                self.printer.print_vector_store(condition, buffer, place, parts)
                continue
            slot = self.i32(tile.slot(f"({row})", column, tile.start))
            word = self.call(f"pack_{self.contraction.element}", *parts)
            self.line(self.call("put_word", "slots_0", slot, word))

    def _print_one(self, edges: Sequence[str], number: int) -> None:
        self.line(f"term = {self.i32(f'place + {number}')}")
        condition = " & ".join([*edges, *self.print_column_edge(1)])
        self.print_element(self._sum(number), condition)

    def _sum(self, number: int) -> str:
        """An accumulator of a thread: the first or second of two in a row."""
        columns = self.schedule.tile[1] // CHUNK
        return f"kept_0[((i // 2) * {columns} + n) * 4 + (i % 2) * 2 + {number}]"

    def _print_chunks(self, tiles: Sequence[Tile]) -> None:
        """Print how results come from shared memory to where they are stored."""
        if not tiles:
            return
        self.line("cuda.syncthreads()")
        for tile in tiles:
            with self.pieces(tile):
                self.line(f"slot = {self.i32(tile.slot('line', 'term', tile.start))}")
                for name, first in (("line", tile.first), ("term", "first_column")):
                    self.line(f"{name} = {self.i32(f'{first} + {name}')}")
                self._print_chunk(tile)
        # The next tile is brought to where the results are.
        self.line("cuda.syncthreads()")

    def _print_chunk(self, tile: Tile) -> None:
        """Print that 16 bytes of a result are stored."""
        edges = [f"line < {self.rows}"] * bool(self.rows % tile.size)
        edges += [f"term < {self.columns}"] * bool(self.columns % tile.terms)
        arguments = self.printer.name(tile.buffer), tile.place, "slots_0", "slot"
        if edges:
            self.line(self.call("copy_back_if", all_of(edges), *arguments))
        else:
            self.line(self.call("copy_back", *arguments))
