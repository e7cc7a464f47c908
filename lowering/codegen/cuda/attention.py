"""
The source of attention for GPUs in the form `tiles`, see
`penstock.dialects.launch.schedules.cuda_attention`.

    for each block of queries:
        bring them to shared memory
        for all keys, some at once:
            bring them to shared memory, and multiply queries with them
            make exponentials of the scores; rescale the result so far
            bring values to shared memory, and add them up, weighted
        divide the result by the total, and store it

If attention is causal, a block goes through the keys that its last query sees, and no
others.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from penstock.dialects.launch.schedules.cuda_attention import SIDE
from penstock.lowering.codegen.body.attention import Operand
from penstock.lowering.codegen.body.statements import sum_of
from penstock.lowering.codegen.cuda.attention_groups import (
    WIDE,
    CudaAttention,
    padded,
    shared_parts,
)
from penstock.lowering.codegen.cuda.matmul_groups import FoldedScalars
from penstock.lowering.codegen.cuda.statements import DevicePrinter

THREADS = SIDE * SIDE


class CudaAttentionPrinter:
    """The printer of statements that all forms of attention share."""

    threads = THREADS

    def __init__(self, printer: DevicePrinter, group: CudaAttention):
        self.printer, self.group = printer, group
        self.attention, self.schedule = group.attention, group.schedule
        self.type = group.attention.element
        self.call, self.line, self.block = (
            printer.scalars.call,
            printer.line,
            printer.block,
        )
        self.finish = ""
        self.operands: dict[str, Operand] = {
            "q": self.attention.q,
            "k": self.attention.k,
            "v": self.attention.v,
            "o": self.attention.out,
        }

    def print(self, name: str) -> str:
        """Print the function of the phase; how it is listed."""
        self.finish = self._define_score(name)
        with self.printer.phase_function(name):
            self.print_arrays()
            self.line(f"e = {self.call('block')}")
            with self.block(f"while e < {self.group.items}:"):
                self._print_places()
                self.print_block()
                self.line("cuda.syncthreads()")
                step = self.call("blocks")
                self.line(f"e = {self.i32(f'e + {step}')}")
        return f"Phase({name}, {self.group.items}, {self.threads}, blockwise=True)"

    def print_arrays(self) -> None:
        """Print what threads have, and where they are in their block."""
        raise NotImplementedError

    def print_block(self) -> None:
        """Print how a block of queries is computed."""
        raise NotImplementedError

    # Text

    def i32(self, text: str) -> str:
        """An index as `i32`."""
        return self.printer.index(text)

    def number(self, value: float) -> str:
        """A number of the type that is computed in."""
        return self.printer.scalars.float_constant(value, self.type)

    def print_local(self, sizes: Sequence[int]) -> None:
        """Print arrays of registers."""
        cuda, dtype = map(self.printer.support, ("cuda", self.type))
        for number, size in enumerate(sizes):
            self.line(f"kept_{number} = {cuda}.local.array({size}, {dtype})")

    def print_shared(self, sizes: Sequence[int]) -> None:
        """Print arrays of shared memory."""
        cuda, dtype = map(self.printer.support, ("cuda", self.type))
        for number, size in enumerate(sizes):
            self.line(f"slots_{number} = {cuda}.shared.array({size}, {dtype})")
        self.line(self.call("align_shared"))

    def chosen(self, name: str, condition: str, other: str) -> None:
        """Print that a number is another one where a condition does not hold."""
        text = self.call("select", condition, name, other)
        self.line(f"{name} = {self.call('i32', text)}")

    def print_folded(self, name: str, function: str, lanes: int) -> None:
        """Print how lanes come to have the fold of what each has."""
        mask = lanes // 2
        while mask:
            other = self.call("shuffle_xor", name, str(mask))
            folded = f"{name} + {other}"
            if function != "+":
                folded = self.call(function, name, other)
            self.line(f"{name} = {folded}")
            mask //= 2

    # Places

    def _print_places(self) -> None:
        """Print where a block begins: its first query, and other loops."""
        outer = [self.printer.new_loop() for _ in self.attention.outer]
        extents = [*self.attention.outer, self.group.blocks]
        self.printer.split("e", [*outer, "first_row"], extents)
        if self.schedule.queries > 1:
            text = self.i32(f"first_row * {self.schedule.queries}")
            self.line(f"first_row = {text}")
        for name, operand in self.operands.items():
            text = sum_of(zip(outer, operand.outer, strict=True))
            self.line(f"from_{name} = {self.i32(text)}")
        for number, (_, operand) in enumerate(self.attention.inputs):
            text = sum_of(zip(outer, operand.outer, strict=True))
            self.line(f"line_{number} = {self.i32(text)}")

    def place(self, name: str, row: str, key: str, column: str) -> str:
        """The number of an element of an operand."""
        operand = self.operands[name]
        steps = [(row, operand.row), (key, operand.key), (column, operand.column)]
        return self.i32(f"from_{name} + {sum_of(steps)}")

    def loaded(self, name: str, row: str, key: str, column: str) -> str:
        """An element of an operand."""
        place = self.place(name, row, key, column)
        return self.printer.loaded(self.operands[name].memref, place)

    # Keys

    def print_steps(self, keys: int) -> str:
        """Print how often a block looks at so many keys at once; that number."""
        attention = self.attention
        if attention.offset is None:
            return str(-(-attention.keys // keys))
        most = self.schedule.queries + attention.offset
        end = self.call("quotient", f"(first_row + {most + keys - 1})", str(keys))
        self.line(f"steps = {self.i32(end)}")
        all = -(-attention.keys // keys)
        self.chosen("steps", f"steps < {all}", str(all))
        return "steps"

    def edge(self, keys: int, row: str = "line", key: str = "term") -> str | None:
        """
        Whether a key counts for a query, where so many `keys` at once may be more than
        there are; None if all do.
        """
        attention = self.attention
        edges = [f"{key} < {attention.keys}"] * bool(attention.keys % keys)
        if attention.offset is not None:
            edges.append(f"{key} <= {row} + {attention.offset}")
        return " & ".join(f"({edge})" for edge in edges) or None

    # Scores

    def _define_score(self, name: str) -> str:
        """Print what makes scores of sums; nothing if they are the same."""
        attention = self.attention
        if attention.changed is attention.score:
            return ""
        function = name.replace("phase", "finish")
        inputs = [f"p{number}" for number in range(len(attention.inputs))]
        names: dict[SSAValue, str] = {attention.score: "s"}
        for (value, _), input in zip(attention.inputs, inputs, strict=True):
            names[value] = input
        scalars = FoldedScalars(self.printer.scalars)
        with self.printer.function(f"def {function}({', '.join(['s', *inputs])}):"):
            for number, op in enumerate(attention.changes):
                for value in op.operands:
                    if isinstance(owner := value.owner, arith.ConstantOp):
                        names[value] = scalars.constant(owner.value) or ""
                text = scalars.expression(op, [names[value] for value in op.operands])
                assert text is not None, "only ops of vectors change scores"
                names[op.results[0]] = f"v{number}"
                self.line(f"v{number} = {text}")
            self.line(f"return {names[attention.changed]}")
        on_device = self.printer.support("on_device")
        self.printer.functions[-1].insert(0, f"@{on_device}")
        return function

    def score(self, sum: str, row: str, key: str) -> str:
        """The score that an accumulator becomes."""
        if not self.finish:
            return sum
        given = [sum]
        for number, (_, operand) in enumerate(self.attention.inputs):
            text = sum_of([(row, operand.row), (key, operand.key)])
            place = self.i32(f"line_{number} + {text}")
            given.append(self.printer.loaded(operand.memref, place))
        return f"{self.finish}({', '.join(given)})"

    def print_base(self, base: str, largest: str) -> None:
        """Print what is subtracted from scores: nothing from those that are -inf."""
        is_nothing = f"{largest} == {self.number(float('-inf'))}"
        chosen = self.call("select", is_nothing, self.number(0.0), largest)
        self.line(f"{base} = {chosen}")


class AttentionTilePrinter(CudaAttentionPrinter):
    """Prints the form `tiles`."""

    def __init__(self, printer: DevicePrinter, group: CudaAttention):
        super().__init__(printer, group)
        self.queries, self.keys = self.schedule.queries, self.schedule.keys
        self.height, self.width = self.queries // SIDE, self.keys // SIDE
        self.depth = padded(self.attention.depth)
        self.columns = self.depth // SIDE
        self.wide = WIDE[self.type]

    def print_arrays(self) -> None:
        attention = self.attention
        self.print_shared(shared_parts(attention, self.queries, self.keys))
        height = self.height
        self.print_local(
            (
                *(height * self.columns, height * self.width),
                *(height, max(self.width, self.columns), height, height),
            )
        )
        self.line(f"at = {self.call('thread')}")
        self.line(f"row = {self.i32('at >> 4')}")
        self.line(f"column = {self.i32(f'at & {SIDE - 1}')}")

    def print_block(self) -> None:
        height, columns = self.height, self.columns
        for name, size, value in (
            ("kept_0", height * columns, 0.0),
            ("kept_4", height, float("-inf")),
            ("kept_5", height, 0.0),
        ):
            with self.block(f"for i in range({size}):"):
                self.line(f"{name}[i] = {self.number(value)}")
        self._print_brought("q", self.queries, self.attention.rows, "first_row")
        steps = self.print_steps(self.keys)
        with self.block(f"for j in range({steps}):"):
            self.line(f"first_column = {self.i32(f'j * {self.keys}')}")
            self._print_brought("k", self.keys, self.attention.keys, "first_column")
            self.line("cuda.syncthreads()")
            self._print_scores()
            self._print_powers()
            self.line("cuda.syncthreads()")
            self._print_brought("v", self.keys, self.attention.keys, "first_column")
            self.line("cuda.syncthreads()")
            self._print_mixing()
            self.line("cuda.syncthreads()")
        self._print_results()

    # Shared memory

    def _print_brought(self, name: str, size: int, extent: int, first: str) -> None:
        """Print how a block of rows of an operand comes to shared memory."""
        length = self.attention.depth if name == "v" else self.attention.terms
        stored = self.depth if name == "v" else length
        slots = "slots_0" if name == "q" else "slots_1"
        together = self._together(name, stored)
        pieces = size * stored // together
        with self.block(f"for i in range({-(-pieces // THREADS)}):"):
            self.line(f"place = {self.i32(f'at + i * {THREADS}')}")
            if pieces % THREADS:
                # Threads past the last piece bring the first one, and keep nothing.
                self.line(f"live = place < {pieces}")
                self.chosen("place", "live", "0")
            along = self._is_along(name)
            names = ("line", "term") if along else ("term", "line")
            inner = stored // together if along else size
            self.line(f"{names[0]} = {self.call('quotient', 'place', str(inner))}")
            rest = self.call("remainder", "place", str(inner))
            if together > 1:
                rest = self.i32(f"{rest} * {together}")
            self.line(f"{names[1]} = {rest}")
            further = 1
            if name == "v":
                slot = sum_of([("line", self.depth + self.wide), ("term", 1)])
            else:
                further = size + self.wide
                slot = sum_of([("term", further), ("line", 1)])
            self.line(f"slot = {self.i32(slot)}")
            self.line(f"line = {self.i32(f'{first} + line')}")
            if extent % size:
                # Lines past the end count for nothing, but have to be numbers.
                self.chosen("line", f"line < {extent}", str(extent - 1))
            if stored != length:
                self.chosen("term", f"term < {length}", "0")
            row, key = ("line", "0") if name == "q" else ("0", "line")
            values = [self.loaded(name, row, key, "term")]
            if together > 1:
                place = self.place(name, row, key, "term")
                buffer = self.printer.name(self.operands[name].memref)
                self.line(f"taken = {self.call(f'take_{together}', buffer, place)}")
                values = [f"taken[{number}]" for number in range(together)]
            for number, value in enumerate(values):
                text = sum_of([("slot", 1)], number * further)
                place = self.call("u64", text)
                if pieces % THREADS:
                    arguments = "live", slots, place, value
                    self.line(self.call("store_if", *arguments))
                else:
                    self.line(f"{slots}[{place}] = {value}")

    def _together(self, name: str, stored: int) -> int:
        """The elements of a row that are brought at once."""
        operand = self.operands[name]
        numbers = (*operand.outer, operand.row, operand.key, self.attention.terms)
        if operand.column != 1 or self.group.kept not in WIDE:
            return 1
        if any(n % self.wide for n in (*numbers, self.attention.depth, stored)):
            return 1
        return self.wide

    def _is_along(self, name: str) -> bool:
        """Whether elements of a row of an operand are contiguous."""
        return self.operands[name].column == 1

    def _print_taken(
        self, kept: str, slots: str, start: str, own: str, count: int, size: int
    ) -> None:
        """
        Print how a thread loads what it needs of a line of shared memory: as many
        neighbours as are loaded at once, then as many further on.
        """
        together = next(n for n in (4, 2, 1) if n <= self.wide and count % n == 0)
        number = "i" if together == 1 else f"i * {together}"
        step = f"(i * {size * together // count})" if count > together else "0"
        text = f"{start} + {step} + {own} * {together}"
        with self.block(f"for i in range({count // together}):"):
            if together == 1:
                place = self.call("u64", text)
                self.line(f"{kept}[{number}] = {slots}[{place}]")
                return
            load = self.call(f"shared_{together}", slots, self.i32(text))
            self.line(f"taken = {load}")
            for part in range(together):
                self.line(f"{kept}[{number} + {part}] = taken[{part}]")

    def _of_thread(self, number: str, own: str, count: int, size: int) -> str:
        """The row or column of a thread, given its number among the thread's own."""
        together = next(n for n in (4, 2, 1) if n <= self.wide and count % n == 0)
        if together == count:
            return f"{own} * {count} + {number}"
        step = size * together // count
        return (
            f"({number} // {together}) * {step} + {own} * {together} "
            f"+ {number} % {together}"
        )

    # Steps

    def _print_scores(self) -> None:
        """Print how the queries of a thread are multiplied with its keys."""
        height, width = self.height, self.width
        with self.block(f"for i in range({height * width}):"):
            self.line(f"kept_1[i] = {self.number(0.0)}")
        with self.block(f"for k in range({self.attention.terms}):"):
            for kept, slots, own, count, size in (
                ("kept_2", "slots_0", "row", height, self.queries),
                ("kept_3", "slots_1", "column", width, self.keys),
            ):
                start = f"k * {size + self.wide}"
                self._print_taken(kept, slots, start, own, count, size)
            self._print_products("kept_1", width)

    def _print_products(self, sums: str, width: int) -> None:
        total = f"{sums}[i * {width} + n]"
        product = self.call("fma", "kept_2[i]", "kept_3[n]", total)
        with (
            self.block(f"for i in range({self.height}):"),
            self.block(f"for n in range({width}):"),
        ):
            self.line(f"{total} = {product}")

    def _print_powers(self) -> None:
        """Print how scores become powers, which all threads need."""
        width, attention = self.width, self.attention
        with self.block(f"for i in range({self.height}):"):
            self._print_row()
            score = f"kept_1[i * {width} + n]"
            self.line("largest = kept_4[i]")
            with self.block(f"for n in range({width}):"):
                text = self._of_thread("n", "column", width, self.keys)
                self.line(f"term = {self.i32(f'first_column + {text}')}")
                edge = self.edge(self.keys)
                if edge:
                    self.line(f"inside = {edge}")
                    self.chosen("term", "inside", str(attention.keys - 1))
                value = self.score(score, "line", "term")
                if edge:
                    lowest = self.number(float("-inf"))
                    value = self.call("select", "inside", value, lowest)
                self.line(f"{score} = {value}")
                self.line(f"largest = {self.call('maxnum', 'largest', score)}")
            self.print_folded("largest", "maxnum", SIDE)
            self.print_base("taken", "largest")
            decay = self.call("exp", "kept_4[i] - taken")
            self.line(f"decay = {decay}")
            self.line("kept_4[i] = largest")
            self.line("total = kept_5[i] * decay")
            with self.block(f"for n in range({self.columns}):"):
                sum = f"kept_0[i * {self.columns} + n]"
                self.line(f"{sum} = {sum} * decay")
            with self.block(f"for n in range({width}):"):
                self.line(f"{score} = {self.call('exp', f'{score} - taken')}")
                self.line(f"total = total + {score}")
                line = self._of_thread("n", "column", width, self.keys)
                own = self._of_thread("i", "row", self.height, self.queries)
                text = f"({line}) * {self.queries + self.wide} + {own}"
                place = self.call("u64", text)
                self.line(f"slots_2[{place}] = {score}")
            self.line("kept_5[i] = total")

    def _print_row(self) -> None:
        """Print which query a thread has, one that there is."""
        own = self._of_thread("i", "row", self.height, self.queries)
        self.line(f"line = {self.i32(f'first_row + {own}')}")
        if self.attention.rows % self.queries:
            self.line(f"live = line < {self.attention.rows}")
            self.chosen("line", "live", str(self.attention.rows - 1))

    def _print_mixing(self) -> None:
        """Print how values are added up."""
        with self.block(f"for k in range({self.keys}):"):
            for kept, slots, own, count, size in (
                ("kept_2", "slots_2", "row", self.height, self.queries),
                ("kept_3", "slots_1", "column", self.columns, self.depth),
            ):
                start = f"k * {size + self.wide}"
                self._print_taken(kept, slots, start, own, count, size)
            self._print_products("kept_0", self.columns)

    def _print_results(self) -> None:
        """Print how what was added up is divided by the sum of powers, and stored."""
        columns, depth = self.columns, self.attention.depth
        with self.block(f"for i in range({self.height}):"):
            self._print_row()
            self.line("total = kept_5[i]")
            self.print_folded("total", "+", SIDE)
            self.line(f"total = {self.number(1.0)} / total")
            with self.block(f"for n in range({columns}):"):
                text = self._of_thread("n", "column", columns, self.depth)
                self.line(f"term = {self.i32(text)}")
                edges = ["live"] if self.attention.rows % self.queries else []
                if self.depth != depth:
                    self.line(f"inside = term < {depth}")
                    self.chosen("term", "inside", "0")
                    edges.append("inside")
                self.printer.store_if(
                    " & ".join(edges),
                    self.attention.out.memref,
                    self.place("o", "line", "0", "term"),
                    f"kept_0[i * {columns} + n] * total",
                )
