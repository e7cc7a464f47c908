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
from dataclasses import replace
from functools import partial
from math import gcd

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from penstock.dialects.launch.schedules.cuda_attention import SIDE
from penstock.lowering.codegen.body.attention import Operand, Scores
from penstock.lowering.codegen.body.statements import sum_of
from penstock.lowering.codegen.cuda.attention_groups import (
    CudaAttention,
    padded,
    shared_parts,
)
from penstock.lowering.codegen.cuda.device_limits import VECTORS
from penstock.lowering.codegen.cuda.matmul_groups import FoldedScalars
from penstock.lowering.codegen.cuda.staging import (
    Tile,
    TilePrinter,
    all_of,
    neighbours,
    of_thread,
)
from penstock.lowering.codegen.cuda.statements import DevicePrinter


class CudaAttentionPrinter(TilePrinter):
    """The printer of statements that all forms of attention share."""

    threads = SIDE * SIDE
    counts = "inside"
    """The condition that a key counts for a query."""

    def __init__(self, printer: DevicePrinter, group: CudaAttention):
        super().__init__(printer)
        self.group = group
        self.attention, self.schedule = group.attention, group.schedule
        self.type = group.attention.element
        self.queries, self.keys = self.schedule.queries, self.schedule.keys
        self.depth = padded(self.attention.depth)
        self.finish = ""
        """The name of the function that makes of a sum a score, if any."""
        self.operands: dict[str, Operand] = {
            "q": self.attention.q,
            "k": self.attention.k,
            "v": self.attention.v,
            "o": self.attention.out,
        }
        if self.attention.lse is not None:
            self.operands["l"] = self.attention.lse

    def print(self, name: str) -> str:
        """Print the function of the stage; how it is listed."""
        self._define_score(name)
        items = self.group.items
        with self.printer.stage_function(name):
            self.print_arrays()
            with self.printer.blocks(items):
                self._print_start()
                self.print_block()
                self.line("cuda.syncthreads()")
        return f"Stage({name}, {items}, {self.threads}, blockwise=True)"

    def print_arrays(self) -> None:
        """Print what threads have, and where they are in their block."""
        raise NotImplementedError

    def print_block(self) -> None:
        """Print how a block of queries is computed."""
        raise NotImplementedError

    # Places

    def _print_start(self) -> None:
        """Print where a block begins: its first query, and other loops."""
        outer = [self.printer.new_loop() for _ in self.attention.outer]
        extents = [*self.attention.outer, self.group.blocks]
        self.printer.split("e", [*outer, "first_row"], extents)
        if self.queries > 1:
            self.line(f"first_row = {self.i32(f'first_row * {self.queries}')}")
        for name, operand in self.operands.items():
            self.print_offset(f"from_{name}", outer, operand.outer)
        for number, (_, operand) in enumerate(self.attention.inputs):
            self.print_offset(f"line_{number}", outer, operand.outer)

    def place(self, name: str, line: str, column: str) -> str:
        """The number of an element of an operand, given its query or key."""
        operand = self.operands[name]
        step = operand.row if name in "qol" else operand.key
        steps = sum_of([(line, step), (column, operand.column)])
        return self.i32(f"from_{name} + {steps}")

    def loaded(self, name: str, line: str, column: str) -> str:
        """An element of an operand."""
        place = self.place(name, line, column)
        return self.printer.loaded(self.operands[name].memref, place)

    def tile(self, name: str, terms: int) -> Tile:
        """The queries, keys or values of a block, with so many terms a line."""
        first, extent, size = (
            ("first_row", self.attention.rows, self.queries)
            if name == "q"
            else ("first_column", self.attention.keys, self.keys)
        )
        place = self.place(name, "line", "term")
        buffer = self.operands[name].memref
        return Tile(name, buffer, place, first, extent, size, terms, by_terms=True)

    def length(self, name: str) -> int:
        """The terms that a line of an operand has; its tile may have more."""
        return self.attention.depth if name == "v" else self.attention.terms

    # Keys

    def print_steps(self, keys: int) -> str:
        """Print how often a block looks at so many keys at once; that number."""
        attention = self.attention
        all = -(-attention.keys // keys)
        if attention.offset is None:
            return str(all)
        most = self.queries + attention.offset
        end = self.call("quotient", f"(first_row + {most + keys - 1})", str(keys))
        self.line(f"steps = {self.i32(end)}")
        self.printer.print_choice("steps", f"steps < {all}", str(all))
        return "steps"

    def print_key(self, name: str, text: str, query: str, keys: int) -> bool:
        """
        Print which key it is, one that there is. Whether it may not count for a query,
        where so many `keys` at once may be more than there are.
        """
        attention = self.attention
        self.line(f"{name} = {self.i32(text)}")
        edges = [f"{name} < {attention.keys}"] * bool(attention.keys % keys)
        if attention.offset is not None:
            edges.append(f"{name} <= {query} + {attention.offset}")
        if edges:
            self.line(f"{self.counts} = {all_of(edges)}")
            self.printer.print_choice(name, self.counts, str(attention.keys - 1))
        return bool(edges)

    # Scores

    def _define_score(self, name: str) -> None:
        """Print the function that makes scores of sums, unless they are the same."""
        scores = self.attention.scores
        if scores.made == (scores.sum,):
            return
        self.finish = name.replace("stage", "finish")
        print_score_function(self.printer, self.finish, scores)

    def score(self, sum: str, query: str, key: str, *, may_not_count: bool) -> str:
        """The score that an accumulator becomes: -inf if its key does not count."""
        score = sum
        if self.finish:
            given = [sum]
            for number, (_, operand) in enumerate(self.attention.inputs):
                text = sum_of([(query, operand.row), (key, operand.key)])
                place = self.i32(f"line_{number} + {text}")
                given.append(self.printer.loaded(operand.memref, place))
            score = f"{self.finish}({', '.join(given)})"
        if may_not_count:
            score = self.call("select", self.counts, score, self.number(float("-inf")))
        return score

    def print_score(self, sum: str, key: str) -> None:
        """Print that an accumulator becomes the score of a key, and the largest one."""
        may_not_count = self.print_key("term", key, "line", self.keys)
        score = self.score(sum, "line", "term", may_not_count=may_not_count)
        self.line(f"{sum} = {score}")
        self.line(f"largest = {self.call('maxnum', 'largest', sum)}")

    def print_base(self, base: str, largest: str) -> None:
        """Print what is subtracted from scores: nothing from those that are -inf."""
        is_nothing = f"{largest} == {self.number(float('-inf'))}"
        chosen = self.call("select", is_nothing, self.number(0.0), largest)
        self.line(f"{base} = {chosen}")

    def print_largest(self, lanes: int) -> None:
        """Print how lanes come to have the largest of what each has."""
        fold = partial(self.call, "maxnum")
        self.printer.print_fold_of_lanes("largest", fold, lanes)

    def print_total(self, name: str, lanes: int) -> None:
        """Print how lanes come to have the sum of what each has."""
        self.printer.print_fold_of_lanes(name, "{} + {}".format, lanes)

    # Results

    def print_query(self, text: str) -> list[str]:
        """Print which query it is, one that there is; the condition that it is that."""
        self.line(f"line = {self.i32(text)}")
        rows = self.attention.rows
        return self.print_edge("live", "line", rows, self.queries, rows - 1)

    def print_weight(
        self, total: str, largest: str, lanes: int, lane: str, edges: Sequence[str]
    ) -> None:
        """
        Print what results are multiplied with: 1 by the sum of all powers; one of the
        lanes of a row stores its logarithm, if that is wanted.
        """
        self.line(f"total = {total}")
        self.print_total("total", lanes)
        self.print_logarithm("line", largest, [*edges, f"({lane} == 0)"])
        self.line(f"total = {self.number(1.0)} / total")

    def print_logarithm(self, query: str, largest: str, edges: Sequence[str]) -> None:
        """Print that the logarithm of the sum of a query is stored, if it is wanted."""
        if (lse := self.attention.lse) is None:
            return
        value = f"{largest} + {self.call('log', 'total')}"
        place = self.place("l", query, "0")
        self.printer.store_if(" & ".join(edges), lse.memref, place, value)

    def print_column(self, text: str, edges: Sequence[str]) -> str:
        """Print which column it is, one that there is; the condition to store it."""
        self.line(f"term = {self.i32(text)}")
        edge = self.print_edge("inside", "term", self.attention.depth, SIDE)
        return " & ".join([*edges, *edge])


def print_score_function(printer: DevicePrinter, name: str, scores: Scores) -> None:
    """Print the function that makes what a region yields."""
    inputs = [f"p{number}" for number in range(len(scores.inputs))]
    names: dict[SSAValue, str] = {scores.sum: "s"}
    names.update(zip(scores.inputs, inputs, strict=True))
    scalars = FoldedScalars(printer.scalars)

    def add_constants(values: Sequence[SSAValue]) -> None:
        for value in values:
            if isinstance(owner := value.owner, arith.ConstantOp):
                names[value] = scalars.constant(owner.value) or ""

    with printer.device_function(name, ["s", *inputs]):
        for number, op in enumerate(scores.changes):
            add_constants(op.operands)
            text = scalars.expression(op, [names[value] for value in op.operands])
            assert text is not None, "only ops of vectors change scores"
            names[op.results[0]] = f"v{number}"
            printer.line(f"v{number} = {text}")
        add_constants(scores.made)
        printer.line(f"return {', '.join(names[value] for value in scores.made)}")


class AttentionTilePrinter(CudaAttentionPrinter):
    """Prints the form `tiles`."""

    def __init__(self, printer: DevicePrinter, group: CudaAttention):
        super().__init__(printer, group)
        self.height, self.width = self.queries // SIDE, self.keys // SIDE
        self.columns = self.depth // SIDE
        self.wide = VECTORS[self.type]

    def print_arrays(self) -> None:
        self.print_shared(shared_parts(self.attention, self.queries, self.keys))
        height, width, columns = self.height, self.width, self.columns
        longest = max(width, columns)
        sizes = height * columns, height * width, height, longest, height, height
        self.print_local(sizes)
        self.line(f"at = {self.call('thread')}")
        self.line(f"row = {self.i32('at >> 4')}")
        self.line(f"column = {self.i32(f'at & {SIDE - 1}')}")

    def print_block(self) -> None:
        self.print_filled("kept_0", self.height * self.columns, 0.0)
        self.print_filled("kept_4", self.height, float("-inf"))
        self.print_filled("kept_5", self.height, 0.0)
        self._print_brought("q")
        steps = self.print_steps(self.keys)
        with self.block(f"for j in range({steps}):"):
            self.line(f"first_column = {self.i32(f'j * {self.keys}')}")
            self._print_brought("k")
            self.line("cuda.syncthreads()")
            self._print_scores()
            self._print_powers()
            self.line("cuda.syncthreads()")
            self._print_brought("v")
            self.line("cuda.syncthreads()")
            self._print_mixing()
            self.line("cuda.syncthreads()")
        self._print_results()

    # Shared memory

    def _print_brought(self, name: str) -> None:
        """Print how the queries, keys or values of a block come to shared memory."""
        tile, length = self._tile(name), self.length(name)
        with self.pieces(tile):
            self.line(f"slot = {self.i32(tile.slot('line', 'term'))}")
            self.line(f"line = {self.i32(f'{tile.first} + line')}")
            # Lines past the end count for nothing, but have to be numbers.
            edges = self.print_edge(
                "there", "line", tile.extent, tile.size, tile.extent - 1
            )
            if tile.terms != length:
                self.printer.print_choice("term", f"term < {length}", "0")
            slots = "slots_0" if name == "q" else "slots_1"
            values = self.loaded_piece(tile)
            if edges and name == "v":
                # Infinite values would be no numbers, multiplied with nothing.
                zero = self.number(0.0)
                values = [self.call("select", "there", x, zero) for x in values]
            self.print_brought(tile, slots, "slot", values)

    def _tile(self, name: str) -> Tile:
        """The queries, keys or values of a block, as they are in shared memory."""
        operand, attention = self.operands[name], self.attention
        terms = self.depth if name == "v" else attention.terms
        by_terms = operand.column == 1
        numbers = operand.row, operand.key, attention.terms, attention.depth
        alignment = gcd(*operand.outer, *numbers)
        is_wide = by_terms and self.group.kept in VECTORS and alignment % self.wide == 0
        return replace(
            self.tile(name, terms),
            by_terms=by_terms,
            by_lines=name == "v",
            pad=self.wide,
            together=self.wide if is_wide else 1,
        )

    def _print_taken(self, factors: Sequence[tuple[str, str, str, int, int]]) -> None:
        """
        Print how a thread loads what it needs of lines of shared memory: as many
        neighbours as are loaded at once, then as many further on.
        """
        for kept, slots, own, count, size in factors:
            together = neighbours(count, self.wide)
            step = f"(i * {size * together // count})" if count > together else "0"
            place = f"k * {size + self.wide} + {step} + {own} * {together}"
            self.print_taken(kept, slots, place, count, together)

    def _of_thread(self, number: str, own: str, count: int, size: int) -> str:
        """The row or column of a thread, given its number among the thread's own."""
        return of_thread(own, number, count, size, self.wide)

    # Steps

    def _print_scores(self) -> None:
        """Print how the queries of a thread are multiplied with its keys."""
        height, width = self.height, self.width
        self.print_filled("kept_1", height * width, 0.0)
        with self.block(f"for k in range({self.attention.terms}):"):
            queries = "kept_2", "slots_0", "row", height, self.queries
            keys = "kept_3", "slots_1", "column", width, self.keys
            self._print_taken((queries, keys))
            self.print_products("kept_1", "kept_2", "kept_3", height, width)

    def _print_powers(self) -> None:
        """Print how scores become powers, which all threads need."""
        width = self.width
        query = self._of_thread("i", "row", self.height, self.queries)
        key = self._of_thread("n", "column", width, self.keys)
        with self.block(f"for i in range({self.height}):"):
            self.print_query(f"first_row + {query}")
            score = f"kept_1[i * {width} + n]"
            self.line("largest = kept_4[i]")
            with self.block(f"for n in range({width}):"):
                self.print_score(score, f"first_column + {key}")
            self.print_largest(SIDE)
            self.print_base("taken", "largest")
            self.line(f"decay = {self.call('exp', 'kept_4[i] - taken')}")
            self.line("kept_4[i] = largest")
            self.line("total = kept_5[i] * decay")
            with self.block(f"for n in range({self.columns}):"):
                sum = f"kept_0[i * {self.columns} + n]"
                self.line(f"{sum} = {sum} * decay")
            with self.block(f"for n in range({width}):"):
                self.line(f"{score} = {self.call('exp', f'{score} - taken')}")
                self.line(f"total = total + {score}")
                text = f"({key}) * {self.queries + self.wide} + {query}"
                self.line(f"slots_2[{self.call('u64', text)}] = {score}")
            self.line("kept_5[i] = total")

    def _print_mixing(self) -> None:
        """Print how values are added up."""
        height, columns = self.height, self.columns
        with self.block(f"for k in range({self.keys}):"):
            powers = "kept_2", "slots_2", "row", height, self.queries
            values = "kept_3", "slots_1", "column", columns, self.depth
            self._print_taken((powers, values))
            self.print_products("kept_0", "kept_2", "kept_3", height, columns)

    def _print_results(self) -> None:
        """Print how what was added up is divided by the sum of powers, and stored."""
        columns = self.columns
        query = self._of_thread("i", "row", self.height, self.queries)
        column = self._of_thread("n", "column", columns, self.depth)
        with self.block(f"for i in range({self.height}):"):
            edges = self.print_query(f"first_row + {query}")
            self.print_weight("kept_5[i]", "kept_4[i]", SIDE, "column", edges)
            with self.block(f"for n in range({columns}):"):
                condition = self.print_column(column, edges)
                value = f"kept_0[i * {columns} + n] * total"
                place, out = self.place("o", "line", "term"), self.attention.out
                self.printer.store_if(condition, out.memref, place, value)
