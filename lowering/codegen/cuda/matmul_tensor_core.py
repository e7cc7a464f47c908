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
from dataclasses import dataclass

from penstock.dialects.launch.schedules.cuda_matmul import MATRIX, NARROW_PADDING, WARP
from penstock.lowering.codegen.body.statements import sum_of
from penstock.lowering.codegen.cuda.matmul import TiledMatmulPrinter
from penstock.lowering.codegen.cuda.matmul_groups import TiledMatmul
from penstock.lowering.codegen.cuda.statements import DevicePrinter

CHUNK = 8
"""The elements of 16 bytes."""
SHARING_THREADS = 256
"""
The threads of blocks of which a multiprocessor should have room for two, so that one
computes while the other one waits: that leaves 128 registers a thread. Unless it is
asked, the compiler takes 132 for 128 x 128 sums of `bf16` on `sm_90`, and 120 if it is,
without spills. Fallbacks, which fetch through registers, take up to 158.
"""
STATIC_BYTES = 48 * 1024
"""The shared memory that functions can declare."""


@dataclass(frozen=True)
class Side:
    """The staging of a factor to shared memory, and from there to matrices."""

    name: str
    """The suffix of its names: `a` or `b`."""
    buffer: str
    first: str
    """The first row or column of the tile."""
    extent: int
    """All rows or columns."""
    size: int
    """Those of a tile."""
    own: int
    """Those of a warp."""
    terms: int
    """Those of a tile."""
    by_terms: bool
    """Whether terms are contiguous in shared memory; else rows or columns do."""
    place: str
    """The number of the element at `line` and `term`."""
    is_copied: bool
    """Whether the device copies it on its own."""
    start: int
    """Where it is in a stage."""

    @property
    def width(self) -> int:
        """From a line of shared memory to the next."""
        return (self.terms if self.by_terms else self.size) + NARROW_PADDING

    @property
    def elements(self) -> int:
        """The number of elements of the factor in a stage."""
        return (self.size if self.by_terms else self.terms) * self.width

    @property
    def together(self) -> int:
        """The elements that are brought at once."""
        return CHUNK if self.is_copied else 1

    def at(self, line: str, term: str) -> Sequence[tuple[str, int]]:
        """Where an element is in shared memory."""
        names = (line, term) if self.by_terms else (term, line)
        return [(names[0], self.width), (names[1], 1)]


class TensorCorePrinter(TiledMatmulPrinter):
    """Prints one contraction for tensor cores, with the phases folded in it."""

    def __init__(self, printer: DevicePrinter, group: TiledMatmul):
        super().__init__(printer, group)
        self._aligned = True
        self._finish = ""

    def print(self, name: str) -> str:
        """Print the functions of the phase; how it is listed."""
        self._finish = self._define_finish(name)
        self._aligned = False
        fallback = self._print_function(f"{name}_plain")
        self._aligned = True
        if not (any(side.is_copied for side in self._both) or self._pairs):
            self._printer.functions.pop()
            return f"{self._print_function(name)})"
        return f"{self._print_function(name)}, fallback={fallback}))"

    def _print_function(self, name: str) -> str:
        printer, group = self._printer, self._group
        with printer.phase_function(name):
            self._print_arrays()
            self._line(f"e = {self._call('block')}")
            with printer.block(f"while e < {group.tiles}:"):
                self._print_tile()
                self._print_sums()
                self._print_finish(self._finish)
                step = self._call("blocks")
                self._line(f"e = {self._i32(f'e + {step}')}")
        threads = self._schedule.threads
        text = f"Phase({name}, {group.tiles}, {threads}, blockwise=True"
        if self._bytes > STATIC_BYTES:
            text += f", dynamic_shared={self._bytes}"
        if self._aligned and threads == SHARING_THREADS:
            text += ", least_blocks=2"
        return text

    # Shared memory

    @property
    def _both(self) -> tuple[Side, Side]:
        contraction, (rows, columns, terms) = self._contraction, self._schedule.block
        height, width = self._schedule.tile
        by_terms_of_a = contraction.a_steps[1] == 1
        by_terms_of_b = contraction.b_steps[0] == 1 and contraction.b_steps[1] != 1
        a = Side(
            *("a", self._a, "first_row", self._rows, rows, height, terms),
            *(by_terms_of_a, self._line_of_a(), self._is_copied_a, 0),
        )
        b = Side(
            *("b", self._b, "first_column", self._columns, columns, width, terms),
            *(by_terms_of_b, self._line_of_b(), self._is_copied_b, a.elements),
        )
        return a, b

    @property
    def _is_copied_a(self) -> bool:
        row, term = self._contraction.a_steps
        extents = (self._terms, row) if term == 1 else (self._rows, term)
        return 1 in (row, term) and self._are_chunks(self._contraction.a, extents)

    @property
    def _is_copied_b(self) -> bool:
        term, column = self._contraction.b_steps
        extents = (self._columns, term) if column == 1 else (self._terms, column)
        if self._contraction.has_windows or 1 not in (term, column):
            return False
        return self._are_chunks(self._contraction.b, extents)

    def _are_chunks(self, operand: int, numbers: Sequence[int]) -> bool:
        """Whether all that is copied at once begins at a multiple of 16 bytes."""
        access = self._contraction.nest.accesses[operand]
        strides = self._contraction.outer_strides(access)
        all_numbers = (*numbers, *strides, access.offset)
        return self._aligned and not any(number % CHUNK for number in all_numbers)

    @property
    def _stage(self) -> int:
        """The elements of a stage."""
        return sum(side.elements for side in self._both)

    @property
    def _bytes(self) -> int:
        return 2 * self._schedule.stages * self._stage

    def _print_arrays(self) -> None:
        height, width = self._schedule.tile
        cuda, u16, u32 = map(self._printer.support, ("cuda", "u16", "u32"))
        elements = 0 if self._bytes > STATIC_BYTES else self._bytes // 2
        self._line(f"slots_0 = {cuda}.shared.array({elements}, {u16})")
        self._line(self._call("align_shared"))
        f32 = self._printer.support("f32")
        arrays = [(height * width // WARP, f32)]
        arrays += [(height // 4, u32), (width // 4, u32)]
        fetched = [side for side in self._both if not side.is_copied]
        arrays += [(self._turns(side), u16) for side in fetched]
        for number, (size, dtype) in enumerate(arrays):
            self._line(f"kept_{number} = {cuda}.local.array({size}, {dtype})")
        self._print_place()

    def _kept(self, side: Side) -> str:
        """The registers that a factor goes through."""
        a, _ = self._both
        return "kept_3" if side.name == "a" or a.is_copied else "kept_4"

    def _print_place(self) -> None:
        """Print where a thread is among the warps, and where its matrices begin."""
        _, width = self._schedule.tile
        across = self._schedule.block[1] // width
        self._line(f"at = {self._call('thread')}")
        self._line(f"lane = {self._i32(f'at & {WARP - 1}')}")
        self._line(f"warp = {self._i32('at >> 5')}")
        self._line(f"row = {self._call('quotient', 'warp', str(across))}")
        self._line(f"column = {self._call('remainder', 'warp', str(across))}")
        for side, own in zip(self._both, ("row", "column"), strict=True):
            eighth, low = "((lane >> 3) & 1) * 8", "(lane & 7)"
            far = "(lane >> 4) * 8"
            # The matrices of `a` go down its rows first, those of `b` along terms.
            line, term = (eighth, far) if side.name == "a" else (far, eighth)
            parts = (
                (f"{line} + {low}", term)
                if side.by_terms
                else (
                    line,
                    f"{term} + {low}",
                )
            )
            line = f"({own} * {side.own} + {parts[0]})"
            text = sum_of(side.at(line, f"({parts[1]})"), side.start)
            self._line(f"own_{side.name} = {self._i32(text)}")

    # Sums

    def _print_sums(self) -> None:
        height, width = self._schedule.tile
        block, stages, steps = (
            self._printer.block,
            self._schedule.stages,
            self._group.steps,
        )
        with block(f"for i in range({height * width // WARP}):"):
            zero = self._printer.scalars.float_constant(0.0, "f32")
            self._line(f"kept_0[i] = {zero}")
        ahead = min(stages - 1, steps)
        with block(f"for j in range({ahead}):"):
            self._print_fetches("j")
            self._print_puts("j")
            self._line(self._call("commit_copies"))
        for _ in range(stages - 1 - ahead):
            self._line(self._call("commit_copies"))
        next_step = f"(j + {stages - 1})"
        with block(f"for j in range({steps}):"):
            self._line(self._call("await_copies", str(stages - 2)))
            self._line("cuda.syncthreads()")
            with block(f"if j + {stages - 1} < {steps}:"):
                self._print_fetches(next_step)
            self._line(self._call("commit_copies"))
            self._print_products()
            if any(not side.is_copied for side in self._both):
                with block(f"if j + {stages - 1} < {steps}:"):
                    self._print_puts(next_step)
        self._line(self._call("await_copies", "0"))
        self._line("cuda.syncthreads()")

    def _turns(self, side: Side) -> int:
        """The number of copies of a thread in a step."""
        pieces = side.size * side.terms // side.together
        return -(-pieces // self._schedule.threads)

    def _in_stage(self, step: str) -> str:
        return f"({step} & {self._schedule.stages - 1}) * {self._stage}"

    def _print_fetches(self, step: str) -> None:
        """Print how the terms of a step are fetched, or begin to be copied."""
        for side in self._both:
            with self._printer.block(f"for i in range({self._turns(side)}):"):
                self._print_piece(side)
                slot = sum_of(side.at("line", "term"), side.start)
                if side.is_copied:
                    text = f"{self._in_stage(step)} + {slot}"
                    self._line(f"slot = {self._i32(text)}")
                self._print_fetched(side, step)

    def _print_piece(self, side: Side) -> None:
        """Print which elements of a tile a thread brings: their line and term."""
        self._line(f"place = {self._i32(f'at + i * {self._schedule.threads}')}")
        inner = (side.terms if side.by_terms else side.size) // side.together
        names = ("line", "term") if side.by_terms else ("term", "line")
        self._line(f"{names[0]} = {self._call('quotient', 'place', str(inner))}")
        rest = self._call("remainder", "place", str(inner))
        if side.together > 1:
            rest = self._i32(f"{rest} * {side.together}")
        self._line(f"{names[1]} = {rest}")

    def _print_fetched(self, side: Side, step: str) -> None:
        self._line(f"line = {self._i32(f'{side.first} + line')}")
        self._line(f"term = {self._i32(f'{step} * {side.terms} + term')}")
        conditions: list[str] = []
        if side.extent % side.size:
            conditions.append(f"(line < {side.extent})")
        if self._terms % side.terms:
            conditions.append(f"(term < {self._terms})")
        inside = "True"
        if conditions:
            inside = "inside"
            self._line(f"inside = {' & '.join(conditions)}")
            for name in ("line", "term"):
                self._print_clamped(name, "inside", 0)
        place = self._i32(side.place)
        if not side.is_copied:
            text = self._call("bits_if", inside, side.buffer, place)
            self._line(f"{self._kept(side)}[i] = {text}")
            return
        arguments = "slots_0", "slot", side.buffer, place, inside
        pieces = side.size * side.terms // CHUNK
        if pieces % self._schedule.threads:
            text = self._call("copy_async_if", f"place < {pieces}", *arguments)
        else:
            text = self._call("copy_async", *arguments)
        self._line(text)

    def _print_puts(self, step: str) -> None:
        """Print how what has been fetched into registers comes to shared memory."""
        for side in self._both:
            if side.is_copied:
                continue
            with self._printer.block(f"for i in range({self._turns(side)}):"):
                self._print_piece(side)
                slot = sum_of(side.at("line", "term"), side.start)
                place = self._call("u64", f"{self._in_stage(step)} + {slot}")
                self._line(f"slots_0[{place}] = {self._kept(side)}[i]")

    def _print_products(self) -> None:
        height, width = self._schedule.tile
        block, terms = self._printer.block, self._schedule.block[2]
        with block(f"for k in range({terms // MATRIX}):"):
            for side, kept, number in zip(
                self._both, ("kept_1", "kept_2"), ("i", "n"), strict=True
            ):
                with block(f"for {number} in range({side.own // MATRIX}):"):
                    self._print_matrices(side, kept, number)
            columns = width // CHUNK
            with (
                block(f"for i in range({height // MATRIX}):"),
                block(f"for n in range({columns}):"),
            ):
                self._print_product(columns)

    def _print_matrices(self, side: Side, kept: str, number: str) -> None:
        """Print that matrices are loaded: lines of `a`, and of `b` its columns."""
        steps = side.at(f"({number} * {MATRIX})", f"(k * {MATRIX})")
        text = f"{self._in_stage('j')} + own_{side.name} + {sum_of(steps)}"
        function = "load_matrices" if side.by_terms else "load_matrices_transposed"
        self._line(f"taken = {self._call(function, 'slots_0', self._i32(text))}")
        for part in range(4):
            self._line(f"{kept}[{number} * 4 + {part}] = taken[{part}]")

    def _print_product(self, columns: int) -> None:
        first = f"(i * {columns} + n) * 4"
        sums = [f"kept_0[{first} + {part}]" for part in range(4)]
        a = [f"kept_1[i * 4 + {part}]" for part in range(4)]
        b = [f"kept_2[n * 2 + {part}]" for part in range(2)]
        function = f"multiply_{self._contraction.element}"
        self._line(f"taken = {self._call(function, *sums, *a, *b)}")
        for part, sum in enumerate(sums):
            self._line(f"{sum} = taken[{part}]")

    # Results

    @property
    def _pairs(self) -> bool:
        """Whether two neighbours in a row are made at once."""
        return self._are_together(2)

    @property
    def _in_chunks(self) -> bool:
        """Whether results are stored by way of shared memory, 16 bytes at once."""
        rows = self._schedule.block[0]
        room = self._schedule.stages * self._stage
        return self._are_together(CHUNK) and rows * self._result_width <= room

    @property
    def _result_width(self) -> int:
        """From a row of the results in shared memory to the next."""
        return self._schedule.block[1] + NARROW_PADDING

    def _are_together(self, count: int) -> bool:
        """Whether so many neighbours in a row begin at a multiple of as many."""
        contraction = self._contraction
        step, access = (
            contraction.stride(-1, contraction.row),
            contraction.nest.accesses[-1],
        )
        numbers = (
            self._columns,
            step,
            access.offset,
            *contraction.outer_strides(access),
        )
        along = contraction.stride(-1, contraction.column)
        return self._aligned and along == 1 and not any(n % count for n in numbers)

    def _print_finish(self, finish: str) -> None:
        """Print how the sums of a thread are finished and stored."""
        rows = self._schedule.block[0]
        height, width = self._schedule.tile
        block = self._printer.block
        for _ in self._finishing(height // CHUNK, width // CHUNK * 2):
            edges: list[str] = []
            text = f"first_row + row * {height} + i * {CHUNK} + (lane >> 2)"
            self._line(f"line = {self._i32(text)}")
            if self._rows % rows:
                edges.append("live")
                self._print_edge("live", "line", self._rows, 1)
            with block(f"for n in range({width // CHUNK}):"):
                text = f"first_column + column * {width} + n * {CHUNK} + (lane & 3) * 2"
                self._line(f"place = {self._i32(text)}")
                if self._pairs:
                    self._print_pair(finish, edges)
                else:
                    for number in range(2):
                        self._print_one(finish, edges, number)
        if self._in_chunks:
            self._print_chunks()

    def _print_pair(self, finish: str, edges: Sequence[str]) -> None:
        self._line("term = place")
        edges = self._print_column_edge(edges, 2)
        parts = [self._printer.new_value() for _ in range(2)]
        for number, part in enumerate(parts):
            self._line(f"{part} = {self._element(finish, number, number)}")
        if self._in_chunks:
            height, width = self._schedule.tile
            row = f"(row * {height} + i * {CHUNK} + (lane >> 2))"
            column = f"column * {width} + n * {CHUNK} + (lane & 3) * 2"
            slot = self._i32(f"{row} * {self._result_width} + {column}")
            word = self._call(f"pack_{self._contraction.element}", *parts)
            self._line(self._call("put_word", "slots_0", slot, word))
            return
        arguments = self._out, self._place_of_result, f"({', '.join(parts)})"
        if edges:
            text = self._call("store_2_if", " & ".join(edges), *arguments)
        else:
            text = self._call("store_2", *arguments)
        self._line(text)

    def _print_chunks(self) -> None:
        """Print how results come from shared memory to where they are stored."""
        rows, columns, _ = self._schedule.block
        threads = self._schedule.threads
        self._line("cuda.syncthreads()")
        turns = rows * columns // CHUNK // threads
        with self._printer.block(f"for i in range({turns}):"):
            self._line(f"place = {self._i32(f'at + i * {threads}')}")
            across = str(columns // CHUNK)
            self._line(f"line = {self._call('quotient', 'place', across)}")
            rest = self._call("remainder", "place", across)
            self._line(f"term = {self._i32(f'{rest} * {CHUNK}')}")
            text = f"line * {self._result_width} + term"
            self._line(f"slot = {self._i32(text)}")
            self._line(f"line = {self._i32('first_row + line')}")
            self._line(f"term = {self._i32('first_column + term')}")
            edges = [f"line < {self._rows}"] if self._rows % rows else []
            edges += [f"term < {self._columns}"] if self._columns % columns else []
            arguments = self._out, self._place_of_result, "slots_0", "slot"
            if edges:
                inside = " & ".join(f"({edge})" for edge in edges)
                self._line(self._call("copy_back_if", inside, *arguments))
            else:
                self._line(self._call("copy_back", *arguments))
        # The next tile is brought to where the results are.
        self._line("cuda.syncthreads()")

    def _print_one(self, finish: str, edges: Sequence[str], number: int) -> None:
        self._line(f"term = {self._i32(f'place + {number}')}")
        edges = self._print_column_edge(edges, 1)
        value, output = self._element(finish, number, 0), self._group.op.outputs[0]
        self._printer.store_if(" & ".join(edges), output, self._place_of_result, value)

    def _print_column_edge(self, edges: Sequence[str], together: int) -> Sequence[str]:
        if not self._columns % self._schedule.block[1]:
            return edges
        self._print_edge("inside", "term", self._columns, together)
        return [*edges, "inside"]

    @property
    def _place_of_result(self) -> str:
        step = self._contraction.stride(-1, self._contraction.row)
        along = self._contraction.stride(-1, self._contraction.column)
        return self._i32(f"from_o + {sum_of([('line', step), ('term', along)])}")

    def _element(self, finish: str, number: int, further: int) -> str:
        """An element of the result: a sum of a thread, so many after the first."""
        columns = self._schedule.tile[1] // CHUNK
        value = f"kept_0[((i // 2) * {columns} + n) * 4 + (i % 2) * 2 + {number}]"
        if not self._group.schedule.folds[0]:
            # The sums go on from what is there.
            step = self._contraction.stride(-1, self._contraction.row)
            text = sum_of([("line", step), ("term", 1)], further)
            place = self._i32(f"from_o + {text}")
            before = self._printer.loaded(self._group.op.outputs[0], place)
            value = f"{before} + {value}"
        return self._finished(finish, value, further)
