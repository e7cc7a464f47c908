"""
The source of tiled contractions for GPUs, see
`penstock.lowering.codegen.cuda.matmul_groups`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.dialects.kernel.loops import row_major
from penstock.dialects.launch.schedules.cuda_matmul import PADDING
from penstock.lowering.codegen.body.epilogue import epilogue_lines, is_trivial
from penstock.lowering.codegen.body.statements import sum_of
from penstock.lowering.codegen.cuda.matmul_groups import FoldedScalars, TiledMatmul
from penstock.lowering.codegen.cuda.statements import DevicePrinter

TOGETHER = {"f32": 4, "f64": 2}
"""The neighbours among the rows or columns of a thread: what is loaded at once."""
MOST_FINISHED = 16
"""
The sums that one loop finishes. Compilers do not unroll a loop whose turns are long
together, as 64 of `gelu` are, and what a loop counts through is then in local memory.
"""


class _Side(NamedTuple):
    """The staging of a factor to shared memory."""

    buffer: str
    start: str
    """Where the other loops are in it."""
    first: str
    """The first row or column of the tile."""
    extent: int
    """All rows or columns."""
    size: int
    """Those of a tile."""
    kept: str
    slots: str
    by_terms: bool
    """Whether threads next to each other bring terms of one row or column."""
    place: str
    """The number of the element at `line` and `term`."""
    together: int
    """The elements that are fetched at once: they are contiguous."""


class TiledMatmulPrinter:
    """Prints one contraction, with the phases that are folded in it."""

    def __init__(self, printer: DevicePrinter, group: TiledMatmul):
        self._printer, self._group = printer, group
        self._call, self._line = printer.scalars.call, printer.line
        contraction, self._schedule = group.contraction, group.schedule
        self._contraction = contraction
        self._rows, self._columns, self._terms = contraction.extents
        self._element_type = contraction.element
        self._wide = TOGETHER.get(contraction.element, 1)
        self._a = printer.name(group.op.inputs[contraction.a])
        self._b = printer.name(group.op.inputs[contraction.b])
        self._out = printer.name(group.op.outputs[0])

    def print(self, name: str) -> str:
        """Print the function of the phase; how it is listed."""
        printer, group = self._printer, self._group
        finish = self._define_finish(name)
        with printer.phase_function(name):
            self._print_arrays()
            self._line(f"e = {self._call('block')}")
            with printer.block(f"while e < {group.tiles}:"):
                self._print_tile()
                self._print_sums()
                self._print_finish(finish)
                step = self._call("blocks")
                self._line(f"e = {self._i32(f'e + {step}')}")
        threads = self._schedule.threads
        return f"Phase({name}, {group.tiles}, {threads}, blockwise=True)"

    def _i32(self, text: str) -> str:
        return self._printer.index(text)

    def _define_finish(self, name: str) -> str:
        """
        Print the function that makes of a sum what is stored; nothing if there is
        nothing to do."""
        finish = self._group.finish
        if is_trivial(finish):
            return ""
        function = name.replace("phase", "finish")
        inputs = [f"p{number}" for number in range(len(finish.inputs))]
        scalars = FoldedScalars(self._printer.scalars)
        with self._printer.function(f"def {function}({', '.join(['s', *inputs])}):"):
            for line in epilogue_lines(finish, scalars):
                self._line(line)
        on_device = self._printer.support("on_device")
        self._printer.functions[-1].insert(0, f"@{on_device}")
        return function

    # Where a thread is

    def _print_arrays(self) -> None:
        rows, columns, terms = self._schedule.block
        height, width = self._schedule.tile
        dtype, cuda = map(self._printer.support, (self._element_type, "cuda"))
        shared = {"slots_0": rows, "slots_1": columns}
        for name, size in shared.items():
            elements = 2 * terms * (size + PADDING)
            self._line(f"{name} = {cuda}.shared.array({elements}, {dtype})")
        self._line(self._call("align_shared"))
        threads = self._schedule.threads
        for number, size in enumerate(
            (
                height * width,
                height,
                width,
                rows * terms // threads,
                columns * terms // threads,
            )
        ):
            self._line(f"kept_{number} = {cuda}.local.array({size}, {dtype})")
        across = columns // width
        self._line(f"at = {self._call('thread')}")
        self._line(f"row = {self._call('quotient', 'at', str(across))}")
        self._line(f"column = {self._call('remainder', 'at', str(across))}")

    def _print_tile(self) -> None:
        """Print where a tile begins: its first row and column, and other loops."""
        group, contraction = self._group, self._contraction
        outer = [self._printer.new_loop() for _ in contraction.outer]
        loops = [*outer, "first_row", "first_column"]
        self._printer.split("e", loops, [*contraction.outer_extents, *group.grid])
        rows, columns, _ = self._schedule.block
        self._line(f"first_row = {self._i32(f'first_row * {rows}')}")
        self._line(f"first_column = {self._i32(f'first_column * {columns}')}")
        accesses = contraction.nest.accesses
        for name, number in (
            ("from_a", contraction.a),
            ("from_b", contraction.b),
            ("from_o", -1),
        ):
            strides = contraction.outer_strides(accesses[number])
            start = self._start(outer, strides, accesses[number].offset)
            self._line(f"{name} = {start}")
        for number, input in enumerate(self._group.finish.inputs):
            start = self._start(outer, input.outer, input.offset)
            self._line(f"line_{number} = {start}")

    def _start(self, outer: Sequence[str], strides: Sequence[int], offset: int) -> str:
        return self._i32(sum_of(zip(outer, strides, strict=True), offset))

    # Sums

    def _print_sums(self) -> None:
        height, width = self._schedule.tile
        block = self._printer.block
        with block(f"for i in range({height * width}):"):
            zero = self._printer.scalars.float_constant(0.0, self._element_type)
            self._line(f"kept_0[i] = {zero}")
        self._print_fetch("0")
        self._print_bring("0")
        self._line("cuda.syncthreads()")
        steps = self._group.steps
        with block(f"for j in range({steps}):"):
            if steps > 1:
                with block(f"if j + 1 < {steps}:"):
                    self._print_fetch("(j + 1)")
            self._print_products()
            if steps > 1:
                with block(f"if j + 1 < {steps}:"):
                    self._print_bring("(j + 1)")
            self._line("cuda.syncthreads()")

    @property
    def _sides(self) -> tuple[_Side, _Side]:
        """The staging of both factors to shared memory."""
        contraction, (rows, columns, _) = self._contraction, self._schedule.block
        along = contraction.stride(contraction.b, contraction.column)
        by_terms = along != 1 and contraction.b_steps[0] == 1
        return (
            _Side(
                *(self._a, "from_a", "first_row", self._rows, rows),
                *("kept_3", "slots_0", contraction.a_steps[1] == 1),
                self._line_of_a(),
                self._together_of_a(),
            ),
            _Side(
                *(self._b, "from_b", "first_column", self._columns, columns),
                *("kept_4", "slots_1", by_terms),
                self._line_of_b(),
                self._together_of_b(),
            ),
        )

    def _print_fetch(self, step: str) -> None:
        """Print how the terms of a step are fetched into registers."""
        for side in self._sides:
            self._print_fetch_of(side, step)

    def _together_of_a(self) -> int:
        contraction = self._contraction
        row, term = contraction.a_steps
        extents = (self._terms, row) if term == 1 else (self._rows, term)
        strides = contraction.outer_strides(contraction.nest.accesses[contraction.a])
        return self._together(
            self._schedule.block[0],
            1 in contraction.a_steps,
            (*extents, *strides, contraction.nest.accesses[contraction.a].offset),
        )

    def _together_of_b(self) -> int:
        contraction = self._contraction
        term, column = contraction.b_steps
        extents = (self._columns, term) if column == 1 else (self._terms, column)
        strides = contraction.outer_strides(contraction.nest.accesses[contraction.b])
        return self._together(
            self._schedule.block[1],
            not contraction.has_windows and 1 in contraction.b_steps,
            (*extents, *strides, contraction.nest.accesses[contraction.b].offset),
        )

    def _together(self, size: int, follow: bool, multiples: Sequence[int]) -> int:
        """
        The number of elements fetched at once: contiguous ones, if they begin at
        multiples of as many, and there are as many for each thread.
        """
        enough = size * self._schedule.block[2] >= self._wide * self._schedule.threads
        are_aligned = not any(number % self._wide for number in multiples)
        return self._wide if follow and enough and are_aligned else 1

    def _fetches(self, side: _Side) -> int:
        """The number of fetches of a thread in a step."""
        elements = side.size * self._schedule.block[2]
        return elements // (self._schedule.threads * side.together)

    def _print_split(self, side: _Side) -> None:
        """Print which element of a tile a thread brings first: its line and term."""
        self._line(f"place = {self._i32(f'at + i * {self._schedule.threads}')}")
        inner = self._schedule.block[2] if side.by_terms else side.size
        inner //= side.together
        names = ("line", "term") if side.by_terms else ("term", "line")
        self._line(f"{names[0]} = {self._call('quotient', 'place', str(inner))}")
        rest = self._call("remainder", "place", str(inner))
        if side.together > 1:
            rest = self._i32(f"{rest} * {side.together}")
        self._line(f"{names[1]} = {rest}")

    def _print_fetch_of(self, side: _Side, step: str) -> None:
        terms, together = self._schedule.block[2], side.together
        with self._printer.block(f"for i in range({self._fetches(side)}):"):
            self._print_split(side)
            self._line(f"line = {self._i32(f'{side.first} + line')}")
            self._line(f"term = {self._i32(f'{step} * {terms} + term')}")
            if side.extent % side.size:
                # Its products are not stored.
                last = side.extent - (1 if side.by_terms else together)
                self._print_clamped("line", f"line < {side.extent}", last)
            has_edge = bool(self._terms % terms)
            if has_edge:
                self._line(f"inside = term < {self._terms}")
                self._print_clamped("term", "inside", 0)
            place = self._i32(side.place)
            values = [f"{side.buffer}[{place}]"]
            if together > 1:
                call = self._call(f"take_{together}", side.buffer, place)
                self._line(f"taken = {call}")
                values = [f"taken[{number}]" for number in range(together)]
            zero = self._printer.scalars.float_constant(0.0, self._element_type)
            for number, value in enumerate(values):
                if has_edge:
                    value = self._call("select", "inside", value, zero)
                slot = "i" if together == 1 else f"i * {together} + {number}"
                self._line(f"{side.kept}[{slot}] = {value}")

    def _print_clamped(self, name: str, condition: str, other: int) -> None:
        """Print that a number is another one where a condition does not hold."""
        clamped = self._call("select", condition, name, str(other))
        self._line(f"{name} = {self._call('i32', clamped)}")

    def _line_of_a(self) -> str:
        steps = zip(("line", "term"), self._contraction.a_steps, strict=True)
        return f"from_a + {sum_of(steps)}"

    def _line_of_b(self) -> str:
        contraction = self._contraction
        parts = (
            self._unrolled("line", contraction.windows(contraction.columns)),
            self._unrolled("term", contraction.windows(contraction.terms)),
        )
        return " + ".join(["from_b", *(part for part in parts if part)])

    def _unrolled(self, name: str, windows: Sequence[tuple[int, int]]) -> str:
        """Where the turn of loops, given by its number, is in a factor."""
        extents = [extent for extent, _ in windows]
        parts: list[str] = []
        for position, ((extent, stride), inner) in enumerate(
            zip(windows, row_major(extents), strict=True)
        ):
            text = name
            if inner > 1:
                text = self._call("quotient", name, str(inner))
            if position:
                text = self._call("remainder", text, str(extent))
            if stride:
                parts.append(f"{text} * {stride}")
        return " + ".join(parts)

    def _print_bring(self, step: str) -> None:
        """Print how what has been fetched comes to shared memory."""
        terms = self._schedule.block[2]
        for side in self._sides:
            width = side.size + PADDING
            half = "0" if step == "0" else f"({step} & 1) * {terms * width}"
            with self._printer.block(f"for i in range({self._fetches(side)}):"):
                self._print_split(side)
                for number in range(side.together):
                    further = width * number if side.by_terms else number
                    text = sum_of([("term", width), ("line", 1)], further)
                    place = self._call("u64", f"{half} + {text}")
                    slot = f"i * {side.together} + {number}"
                    slot = "i" if side.together == 1 else slot
                    self._line(f"{side.slots}[{place}] = {side.kept}[{slot}]")

    def _print_products(self) -> None:
        rows, columns, terms = self._schedule.block
        height, width = self._schedule.tile
        block = self._printer.block
        with block(f"for k in range({terms}):"):
            for kept, slots, size, count, own in (
                ("kept_1", "slots_0", rows, height, "row"),
                ("kept_2", "slots_1", columns, width, "column"),
            ):
                start = f"((j & 1) * {terms} + k) * {size + PADDING}"
                self._print_shared(kept, slots, start, own, size, count)
            total = f"kept_0[i * {width} + n]"
            product = self._call("fma", "kept_1[i]", "kept_2[n]", total)
            with (
                block(f"for i in range({height}):"),
                block(f"for n in range({width}):"),
            ):
                self._line(f"{total} = {product}")

    def _print_shared(
        self, kept: str, slots: str, start: str, own: str, size: int, count: int
    ) -> None:
        """Print how a thread loads what it needs of a line of shared memory."""
        together = self._wide if count % self._wide == 0 else 1
        number = "i" if together == 1 else f"(i * {together})"
        place = f"{start} + {self._of_thread(own, number, size, count)}"
        with self._printer.block(f"for i in range({count // together}):"):
            if together == 1:
                element = f"{slots}[{self._call('u64', place)}]"
                self._line(f"{kept}[i] = {element}")
                return
            load = self._call(f"shared_{together}", slots, self._i32(place))
            self._line(f"taken = {load}")
            for part in range(together):
                self._line(f"{kept}[i * {together} + {part}] = taken[{part}]")

    def _of_thread(self, own: str, number: str, size: int, count: int) -> str:
        """
        The row or column of a tile for a thread, given its number among the thread's
        own: some contiguous ones, then as many further on.
        """
        together = min(self._wide, count)
        if together == count:
            return f"{own} * {count} + {number}"
        step = size * together // count
        return (
            f"({number} // {together}) * {step} + {own} * {together} "
            f"+ {number} % {together}"
        )

    # Results

    @property
    def _stored_together(self) -> int:
        """The number of elements of a row that are stored at once."""
        contraction, width = self._contraction, self._schedule.tile[1]
        access = contraction.nest.accesses[-1]
        step = contraction.stride(-1, contraction.row)
        numbers = (self._columns, step, access.offset, width)
        strides = contraction.outer_strides(access)
        return 1 if any(n % self._wide for n in (*numbers, *strides)) else self._wide

    def _print_finish(self, finish: str) -> None:
        """Print how the sums of a thread are finished and stored."""
        rows, columns, _ = self._schedule.block
        height, width = self._schedule.tile
        together, block = self._stored_together, self._printer.block
        for _ in self._finishing(height, width):
            edges: list[str] = []
            place = self._of_thread("row", "i", rows, height)
            self._line(f"line = {self._i32(f'first_row + {place}')}")
            if self._rows % rows:
                edges.append("live")
                self._print_edge("live", "line", self._rows, 1)
            with block(f"for n in range({width // together}):"):
                number = "n" if together == 1 else f"(n * {together})"
                place = self._of_thread("column", number, columns, width)
                self._line(f"term = {self._i32(f'first_column + {place}')}")
                if self._columns % columns:
                    edges.append("inside")
                    self._print_edge("inside", "term", self._columns, together)
                self._print_results(finish, " & ".join(edges), together)

    def _finishing(self, count: int, each: int) -> Iterator[None]:
        """
        Print the loops over `count` rows of a thread, of so many sums each: one, or
        where sums are changed, several that finish a few of them. Yields in each.
        """
        rows = count
        if not is_trivial(self._group.finish):
            rows = min(count, max(1, MOST_FINISHED // each))
        for first in range(0, count, rows):
            bounds = f"{first}, {first + rows}" if first else f"{rows}"
            with self._printer.block(f"for i in range({bounds}):"):
                yield

    def _print_edge(
        self, condition: str, name: str, extent: int, together: int
    ) -> None:
        """Print that threads past an edge do what is done at it, and store nothing."""
        self._line(f"{condition} = {name} < {extent}")
        self._print_clamped(name, condition, extent - together)

    def _print_results(self, finish: str, condition: str, together: int) -> None:
        """Print how some contiguous elements are made and stored."""
        step = self._contraction.stride(-1, self._contraction.row)
        place = self._i32(f"from_o + {sum_of([('line', step), ('term', 1)])}")
        values = [self._result(finish, n, together) for n in range(together)]
        if together > 1:
            parts = [self._printer.new_value() for _ in values]
            for part, value in zip(parts, values, strict=True):
                self._line(f"{part} = {value}")
            condition = condition or "True"
            values = f"({', '.join(parts)})"
            self._line(
                self._call(f"put_{together}", condition, self._out, place, values)
            )
        elif condition:
            self._line(self._call("store_if", condition, self._out, place, values[0]))
        else:
            self._line(f"{self._out}[{place}] = {values[0]}")

    def _result(self, finish: str, number: int, together: int) -> str:
        """An element of the result, so many after the first one that is stored."""
        width = self._schedule.tile[1]
        column = "n" if together == 1 else f"n * {together} + {number}"
        value = f"kept_0[i * {width} + {column}]"
        if not self._group.schedule.folds[0]:
            # The sums go on from what is there.
            step = self._contraction.stride(-1, self._contraction.row)
            text = sum_of([("line", step), ("term", 1)], number)
            value = f"{self._out}[{self._i32(f'from_o + {text}')}] + {value}"
        return self._finished(finish, value, number)

    def _finished(self, finish: str, value: str, number: int) -> str:
        """The stored value of an accumulator, so many columns after `term`."""
        if not finish:
            return value
        given = [value]
        for index, input in enumerate(self._group.finish.inputs):
            steps = [("line", input.row), ("term", input.column)]
            text = sum_of(steps, number * input.column)
            place = self._i32(f"line_{index} + {text}")
            given.append(self._printer.loaded(input.buffer, place))
        return f"{finish}({', '.join(given)})"
