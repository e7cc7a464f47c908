"""
The source of the gradients of attention for GPUs, in two stages, one for each side of
scores.

    for each block of queries:                  # the gradient by queries
        bring them, and the gradient, to shared memory
        for all keys, some at once:
            bring keys and values to shared memory
            make shares, and the gradients of sums, which all threads need
            add up the keys, weighted with these
        store the result
    for each block of keys:                     # those by keys and by values
        the same with keys and queries the other way round

Nothing is added to memory, so that results do not depend on the order of blocks. If
attention is causal, a block goes through what its own lines see, or are seen by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Attribute

from penstock.dialects.kernel.attention_gradient import AttentionGradientOp
from penstock.dialects.kernel.interface import SCHEDULE, StructuredOp
from penstock.dialects.launch.schedules.cuda_attention import SIDE, GradientTilesAttr
from penstock.lowering.codegen.body.attention_gradient import (
    AttentionGradient,
    attention_gradient_of,
)
from penstock.lowering.codegen.body.scalars import HALVES
from penstock.lowering.codegen.body.statements import sum_of
from penstock.lowering.codegen.cuda.attention import print_score_function
from penstock.lowering.codegen.cuda.device_limits import SIZES, STATIC_BYTES, VECTORS
from penstock.lowering.codegen.cuda.stage_printer import CudaStagePrinter
from penstock.lowering.codegen.cuda.staging import Tile, TilePrinter, all_of
from penstock.lowering.codegen.cuda.statements import DevicePrinter

TILES = ((32, 32), (16, 16))
"""The queries and keys of a block, the best first."""
PAD = 1
"""The elements after each line of shared memory, which take it to other banks."""
LETTERS = {
    "q": "q",
    "k": "k",
    "v": "v",
    "grad": "g",
    "lse": "l",
    "delta": "d",
    "q_grad": "x",
    "k_grad": "x",
    "v_grad": "y",
}
"""The ends of the names of where operands begin."""


@dataclass(frozen=True)
class Side:
    """The results whose lines a block computes, and the lines that it goes through."""

    own: str
    """The lines of results: `row` or `key`."""
    results: tuple[str, ...]
    own_tiles: tuple[str, str]
    """The operands of the block's lines that scores, and products, are made of."""
    other_tiles: tuple[str, str]

    @property
    def has_rows(self) -> bool:
        """Whether lines of results are rows."""
        return self.own == "row"


SIDES = (
    Side("row", ("q_grad",), ("q", "grad"), ("k", "v")),
    Side("key", ("k_grad", "v_grad"), ("k", "v"), ("q", "grad")),
)


def device_gradient_of(op: AttentionGradientOp) -> AttentionGradient | str:
    """The facts of gradients, or why they have no blocks."""
    found = attention_gradient_of(op)
    if isinstance(found, str):
        return found
    if found.kept not in (*VECTORS, *HALVES):
        return f"elements are {found.kept}"
    if not found.has_elements:
        return "there are no elements"
    if found.missing["k_grad"] != found.missing["v_grad"]:
        return "gradients by keys and by values are added up over other loops"
    return found


def gradient_tiles(op: AttentionGradientOp) -> GradientTilesAttr | str:
    """The schedule of gradients, or why they have none."""
    found = device_gradient_of(op)
    if isinstance(found, str):
        return found
    for queries, keys in TILES:
        if fits(found, queries, keys):
            return GradientTilesAttr(queries, keys)
    return "blocks of queries and keys do not fit into shared memory and registers"


def shared_sizes(
    found: AttentionGradient, schedule: GradientTilesAttr, side: Side
) -> Sequence[int]:
    """The elements of shared memory of a stage: tiles, gradients of sums, shares."""
    own, other = schedule.queries, schedule.keys
    if not side.has_rows:
        own, other = other, own
    lengths = found.terms, found.depth
    tiles = [length * (size + PAD) for size in (own, other) for length in lengths]
    return [*tiles, *[other * (own + PAD)] * len(side.results)]


def fits(found: AttentionGradient, queries: int, keys: int) -> bool:
    """Whether tiles fit into shared memory, and those of threads into registers."""
    schedule = GradientTilesAttr(queries, keys)
    size = SIZES[found.element]
    columns = -(-found.terms // SIDE), -(-found.depth // SIDE)
    registers = keys // SIDE * sum(columns)
    elements = max(sum(shared_sizes(found, schedule, side)) for side in SIDES)
    return elements * size <= STATIC_BYTES and registers * size <= 4 * 64


class AttentionGradientStage(CudaStagePrinter):
    """Prints the gradients of attention."""

    OP = AttentionGradientOp
    SCHEDULES = (GradientTilesAttr,)

    def __init__(self, printer: DevicePrinter, op: StructuredOp):
        self.printer, self.op = printer, op

    @classmethod
    def misfit(cls, op: StructuredOp, schedule: Attribute) -> str | None:
        assert isinstance(op, AttentionGradientOp), "found by its op"
        assert isinstance(schedule, GradientTilesAttr), "found by its schedule"
        found = device_gradient_of(op)
        if isinstance(found, str):
            return found
        if not fits(found, schedule.queries, schedule.keys):
            return f"{schedule} does not fit into shared memory and registers"
        return None

    def print(self) -> None:
        assert isinstance(self.op, AttentionGradientOp), "found by its op"
        schedule = self.op.attributes[SCHEDULE]
        assert isinstance(schedule, GradientTilesAttr), "found by its schedule"
        found = device_gradient_of(self.op)
        assert isinstance(found, AttentionGradient), "no misfit"
        finish = self.printer.next_stage.replace("stage", "finish")
        print_score_function(self.printer, finish, found.scores)
        for side in SIDES:
            name = self.printer.next_stage
            printer = _SidePrinter(self.printer, found, schedule, side, finish)
            self.printer.add_stage(printer.print(name))


class _SidePrinter(TilePrinter):
    """Prints the stage of one side."""

    threads = SIDE * SIDE

    def __init__(
        self,
        printer: DevicePrinter,
        found: AttentionGradient,
        schedule: GradientTilesAttr,
        side: Side,
        finish: str,
    ):
        super().__init__(printer)
        self.found, self.schedule, self.side = found, schedule, side
        self.finish, self.type = finish, found.element
        self.own, self.other = schedule.queries, schedule.keys
        self.own_lines, self.other_lines = found.rows, found.keys
        if not side.has_rows:
            self.own, self.other = self.other, self.own
            self.own_lines, self.other_lines = self.other_lines, self.own_lines
        self.height, self.width = self.own // SIDE, self.other // SIDE
        self.rest = found.missing[side.results[0]]
        """The loops of the stack that results are added up over."""

    @property
    def _blocks(self) -> int:
        """The blocks of lines of a stack."""
        return -(-self.own_lines // self.own)

    def _columns(self, result: str) -> int:
        """The elements of a row of a result."""
        return self.found.depth if result == "v_grad" else self.found.terms

    def _of_thread(self, result: str) -> int:
        """The columns of a result of a thread."""
        return -(-self._columns(result) // SIDE)

    def print(self, name: str) -> str:
        """Print the function of the stage; how it is listed."""
        stack = self.found.stack
        kept = [loop for loop in range(len(stack)) if loop not in self.rest]
        items = prod(stack[loop] for loop in kept) * self._blocks
        with self.printer.stage_function(name):
            self._print_arrays()
            with self.printer.blocks(items):
                loops = {loop: self.printer.new_loop() for loop in kept}
                extents = [*(stack[loop] for loop in kept), self._blocks]
                self.printer.split("e", [*loops.values(), "first_own"], extents)
                self.line(f"first_own = {self.i32(f'first_own * {self.own}')}")
                for number, result in enumerate(self.side.results):
                    size = self.height * self._of_thread(result)
                    self.print_filled(f"kept_{4 + number}", size, 0.0)
                with self.printer.restoring_depth():
                    for loop in self.rest:
                        loops[loop] = self.printer.new_loop()
                        self.printer.open(f"for {loops[loop]} in range({stack[loop]}):")
                    self._print_sums([loops[loop] for loop in range(len(stack))])
                self._print_results([loops.get(n, "0") for n in range(len(stack))])
                self.line("cuda.syncthreads()")
        return f"Stage({name}, {items}, {self.threads}, blockwise=True)"

    def _print_arrays(self) -> None:
        self.print_shared(shared_sizes(self.found, self.schedule, self.side))
        scores = self.height * self.width
        sums = [self.height * self._of_thread(name) for name in self.side.results]
        longest = max(map(self._of_thread, self.side.results))
        lines = max(self.height, self.width, longest)
        self.print_local((scores, scores, lines, lines, *sums))
        self.line(f"at = {self.call('thread')}")
        self.line(f"row = {self.i32('at >> 4')}")
        self.line(f"column = {self.i32(f'at & {SIDE - 1}')}")

    # Places

    def _place(self, name: str, line: str, column: str) -> str:
        """The number of an element of an operand, given its line and column."""
        operand = self.found.operands[name]
        step = operand.key if name in ("k", "v", "k_grad", "v_grad") else operand.row
        steps = sum_of([(line, step), (column, operand.column)])
        return self.i32(f"from_{LETTERS[name]} + {steps}")

    def _tile(self, name: str, first: str, *, is_own: bool) -> Tile:
        """The lines of an operand that are brought to shared memory."""
        operand = self.found.operands[name]
        terms = self.found.depth if name in ("v", "grad") else self.found.terms
        extent = self.own_lines if is_own else self.other_lines
        return Tile(
            name,
            operand.memref,
            self._place(name, "line", "term"),
            first,
            extent,
            self.own if is_own else self.other,
            terms,
            by_terms=operand.column == 1,
            by_lines=False,
            pad=PAD,
        )

    def _print_brought(self, tile: Tile, slots: str) -> None:
        """Print how lines come to shared memory: zeros past the last one."""
        with self.pieces(tile):
            self.line(f"slot = {self.i32(tile.slot('line', 'term'))}")
            self.line(f"line = {self.i32(f'{tile.first} + line')}")
            edges = self.print_edge(
                "there", "line", tile.extent, tile.size, tile.extent - 1
            )
            values = self.loaded_piece(tile)
            if edges:
                zero = self.number(0.0)
                values = [self.call("select", "there", x, zero) for x in values]
            self.print_brought(tile, slots, "slot", values)

    # Steps

    def _print_sums(self, loops: Sequence[str]) -> None:
        """Print how all lines are gone through that the block's own belong to."""
        found, side = self.found, self.side
        for name, operand in found.operands.items():
            if name not in ("q_grad", "k_grad", "v_grad"):
                self.print_offset(f"from_{LETTERS[name]}", loops, operand.outer)
        for number, (_, operand) in enumerate(found.inputs):
            self.print_offset(f"line_{number}", loops, operand.outer)
        for number, name in enumerate(side.own_tiles):
            self._print_brought(
                self._tile(name, "first_own", is_own=True), f"slots_{number}"
            )
        first, end = self._print_ends()
        with self.block(f"for j in range({first}, {end}):"):
            self.line(f"first_other = {self.i32(f'j * {self.other}')}")
            for number, name in enumerate(side.other_tiles, 2):
                self._print_brought(
                    self._tile(name, "first_other", is_own=False), f"slots_{number}"
                )
            self.line("cuda.syncthreads()")
            for number, length in enumerate((found.terms, found.depth)):
                self._print_products_of_lines(number, length)
            self._print_shares()
            self.line("cuda.syncthreads()")
            for number, result in enumerate(side.results):
                self._print_products(number, result)
            self.line("cuda.syncthreads()")

    def _print_ends(self) -> tuple[str, str]:
        """Print the first step and the end of those that count."""
        steps, offset = -(-self.other_lines // self.other), self.found.offset
        if offset is None:
            return "0", str(steps)
        if self.side.has_rows:
            most = self.own + offset + self.other - 1
            end = self.call("quotient", f"(first_own + {most})", str(self.other))
            self.line(f"total = {self.i32(end)}")
            self.printer.print_choice("total", f"total < {steps}", str(steps))
            return "0", "total"
        self.line(f"total = {self.i32(f'first_own - {offset}')}")
        self.printer.print_choice("total", "total > 0", "0")
        self.line(f"total = {self.call('quotient', 'total', str(self.other))}")
        return "total", str(steps)

    def _print_products_of_lines(self, number: int, length: int) -> None:
        """Print how lines of the block are multiplied with the other ones."""
        sums = f"kept_{number}"
        self.print_filled(sums, self.height * self.width, 0.0)
        own, other = f"slots_{number}", f"slots_{number + 2}"
        with self.block(f"for k in range({length}):"):
            self._print_taken("kept_2", own, self.own, "k", "row", self.height)
            self._print_taken("kept_3", other, self.other, "k", "column", self.width)
            self.print_products(sums, "kept_2", "kept_3", self.height, self.width)

    def _print_taken(
        self, kept: str, slots: str, size: int, line: str, own: str, count: int
    ) -> None:
        """Print that a thread loads each 16th element of a line of shared memory."""
        place = f"{line} * {size + PAD} + i * {SIDE} + {own}"
        self.print_taken(kept, slots, place, count, 1)

    def _print_shares(self) -> None:
        """Print how scores become shares, and products the gradients of sums."""
        found = self.found
        with (
            self.block(f"for i in range({self.height}):"),
            self.block(f"for n in range({self.width}):"),
        ):
            self.line(f"own = {self.i32(f'first_own + i * {SIDE} + row')}")
            self.print_edge("live", "own", self.own_lines, self.own)
            self.line(f"other = {self.i32(f'first_other + n * {SIDE} + column')}")
            row, key = ("own", "other") if self.side.has_rows else ("other", "own")
            edges = self.print_edge("inside", "other", self.other_lines, self.other)
            if found.offset is not None:
                edges.append(f"{key} <= {row} + {found.offset}")
            sum = f"kept_0[i * {self.width} + n]"
            product = f"kept_1[i * {self.width} + n]"
            self.line(f"pair = {self._score(sum, row, key)}")
            lse, delta = (
                self.printer.loaded(
                    found.operands[name].memref, self._place(name, row, "0")
                )
                for name in ("lse", "delta")
            )
            self.line(f"share = {self.call('exp', f'pair[0] - {lse}')}")
            self.line(f"product = share * ({product} - {delta}) * pair[1]")
            if edges:
                self.line(f"inside = {all_of(edges)}")
            for number, name in enumerate(("product", "share")):
                if number == len(self.side.results):
                    break
                value = name
                if edges:
                    value = self.call("select", "inside", name, self.number(0.0))
                text = f"(n * {SIDE} + column) * {self.own + PAD} + i * {SIDE} + row"
                self.line(f"slots_{4 + number}[{self.call('u64', text)}] = {value}")

    def _score(self, sum: str, row: str, key: str) -> str:
        """The score of an accumulator, and its derivative."""
        given = [sum]
        for number, (_, operand) in enumerate(self.found.inputs):
            text = sum_of([(row, operand.row), (key, operand.key)])
            place = self.i32(f"line_{number} + {text}")
            given.append(self.printer.loaded(operand.memref, place))
        return f"{self.finish}({', '.join(given)})"

    def _print_products(self, number: int, result: str) -> None:
        """Print how lines are added to a result, weighted with what shares became."""
        weights = f"slots_{4 + number}"
        # Products are with queries or keys, shares with the gradient.
        lines, count = f"slots_{2 + number}", self._of_thread(result)
        with self.block(f"for k in range({self.other}):"):
            self._print_taken("kept_2", weights, self.own, "k", "row", self.height)
            with self.block(f"for i in range({count}):"):
                self.line(f"term = {self.i32(f'i * {SIDE} + column')}")
                self.print_edge("inside", "term", self._columns(result), SIDE)
                slot = self.call("u64", f"term * {self.other + PAD} + k")
                self.line(f"kept_3[i] = {lines}[{slot}]")
            self.print_products(
                f"kept_{4 + number}", "kept_2", "kept_3", self.height, count
            )

    def _print_results(self, loops: Sequence[str]) -> None:
        """Print how results are stored."""
        for number, result in enumerate(self.side.results):
            operand, count = self.found.operands[result], self._of_thread(result)
            letter = LETTERS[result]
            self.print_offset(f"from_{letter}", loops, operand.outer)
            with (
                self.block(f"for i in range({self.height}):"),
                self.block(f"for n in range({count}):"),
            ):
                self.line(f"line = {self.i32(f'first_own + i * {SIDE} + row')}")
                edges = self.print_edge(
                    "live", "line", self.own_lines, self.own, self.own_lines - 1
                )
                self.line(f"term = {self.i32(f'n * {SIDE} + column')}")
                edges += self.print_edge("inside", "term", self._columns(result), SIDE)
                place = self._place(result, "line", "term")
                value = f"kept_{4 + number}[i * {count} + n]"
                self.printer.store_if(" & ".join(edges), operand.memref, place, value)
