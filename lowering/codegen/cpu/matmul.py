"""
The source of contractions that have a schedule: loops over micro-kernel calls.

    for i0 in range(<units> * part // parts, <units> * (part + 1) // parts):
        ...where unit i0 begins: other loops, columns, rows...
        for i1 in range(0, <terms>, <depth>):
            pack_0(...)
            micro_kernel_0(...)

A unit is the columns of one tile, down the rows of one block, for one iteration of all
other loops; or, where a packed copy of these rows is reused, of several tiles in turn.
Units write different elements, so any part of a kernel may compute any of them at any
time. The micro-kernels are in `penstock.runtime.kernels.cpu.matmul.tile`, the packing
in `penstock.runtime.kernels.cpu.matmul.packing`.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Generator,
    Hashable,
    Iterator,
    Mapping,
    Sequence,
)
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from xdsl.ir import Attribute, SSAValue

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import StructuredOp
from penstock.dialects.kernel.views import root_of
from penstock.dialects.launch.schedules.cpu_matmul import (
    ContractionAttr,
    panel_bytes,
    reused_bytes,
)
from penstock.lowering.codegen.body.contraction import (
    Contraction,
    contraction_of,
    result_of,
)
from penstock.lowering.codegen.body.epilogue import (
    Epilogue,
    Unfit,
    VectorScalars,
    epilogue_in,
    epilogue_lines,
    is_trivial,
)
from penstock.lowering.codegen.body.numbers import LEAST, is_digits
from penstock.lowering.codegen.cpu.fixed_loops import (
    fixed_loops_of,
    unfixable,
)
from penstock.lowering.codegen.cpu.packed_operands import (
    element_count,
    misfit,
    misstored,
    reads_windows,
)

if TYPE_CHECKING:
    from penstock.lowering.codegen.body.statements import BodyPrinter

BYTES = {"f32": 4, "f64": 8, "i32": 4, "i64": 8}
LINE = 64
"""The bytes of a line of a cache."""
FAR_BYTES = 1 << 20
"""The bytes of results that do not stay in the caches of one CPU core."""
WORK_OF_A_PART = 400_000
"""Scalar operations that are worth a part of their own."""
LOADED = 8
"""Scalar operations that take as long as an element that comes from L2."""
LEAST_STRIDE = 2
"""The least number that is an argument: loads of the same element, and of elements that
follow each other, are others than those of any other stride."""


@dataclass(frozen=True)
class Group:
    """A contraction with a schedule, and what is computed with it."""

    op: ContractOp
    contraction: Contraction
    schedule: ContractionAttr
    finish: Epilogue

    @property
    def sides(self) -> tuple[int, int]:
        """
        The extent that is divided into panels, and the one divided into blocks: columns
        and rows.
        """
        rows, columns, _ = self.contraction.extents
        return (rows, columns) if self.schedule.is_transposed else (columns, rows)

    @property
    def panels(self) -> int:
        """
        The micro-kernel calls that the columns (of upright tiles: the rows) are divided
        into.
        """
        return -(-self.sides[0] // self.schedule.columns)

    @property
    def blocks(self) -> int:
        """The blocks that the rows (of upright tiles: the columns) are divided into."""
        return -(-self.sides[1] // self.schedule.block[0])

    @property
    def groups(self) -> int:
        """
        The groups of micro-kernel calls that reuse a copy of rows, or the single micro-
        kernel calls.
        """
        return -(-self.panels // max(1, self.schedule.reuse))

    @property
    def is_by_blocks(self) -> bool:
        """
        Whether threads share blocks, and each reads all panels. So they do of upright
        tiles and where panels reuse a copy. Else blocks are rows: if there is more of
        `a` than of `b`, as late in networks for images, each thread reads its share of
        the weights and all pixels; if not, it reads the pixels which it wrote in the
        kernel before, and all weights.
        """
        if self.schedule.is_transposed or self.schedule.reuse > 0:
            return True
        numbers = self.contraction.a, self.contraction.b
        a, b = (element_count(root_of(self.op.operands[n])) for n in numbers)
        return a > b

    @property
    def units(self) -> int:
        """The pieces of work that are independent."""
        return prod(self.contraction.outer_extents) * self.groups * self.blocks

    @property
    def work(self) -> int:
        """
        The parts that the work is worth, however few pieces it has. Of few rows, or few
        columns, most is that the elements of the other matrix are loaded.
        """
        rows, columns, terms = self.contraction.extents
        work = max(2 * rows * columns, LOADED * (rows + columns)) * terms
        return work * prod(self.contraction.outer_extents) // WORK_OF_A_PART

    @property
    def parts(self) -> int:
        """The number of parts that the work is worth."""
        return max(1, min(self.units, self.work))


def group_of(op: StructuredOp, schedule: Attribute) -> Group | str:
    """The contraction of an op with a schedule, or why it cannot be computed so."""
    assert isinstance(op, ContractOp), "no other op has this printer"
    assert isinstance(schedule, ContractionAttr), "no other schedule has it"
    found = contraction_of(op)
    if not isinstance(found, Contraction):
        return f"no tiles compute {op.name}: {found}"
    if (why := misfit(found, schedule) or misstored(op, found, schedule)) is not None:
        return f"{schedule} does not fit {op.name}: {why}"
    if (why := unfixable(op)) is not None:
        return why
    if reads_windows(found, schedule):
        found = found.in_lines
    finish, unfit = epilogue_in(op, found)
    why = unfit.start or unfit.finish
    return why or Group(op, found, schedule, finish)


def unfit_of_tiles(op: StructuredOp) -> Unfit:
    """The start and finish of sums that tiles leave to stages before and after them."""
    found = contraction_of(op)
    if not isinstance(op, ContractOp) or not isinstance(found, Contraction):
        return Unfit()
    return epilogue_in(op, found)[1]


def listed(parts: Sequence[str]) -> str:
    """The text of a tuple."""
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


class MatmulPrinter:
    """
    Prints a group: definitions of its micro-kernels, and the loops that call them.

    Numbers that follow from extents alone are arguments of the kernel. Strides
    of 0 and 1, tiles, their remainders and the taps of windows are in the code.
    """

    def __init__(self, printer: BodyPrinter, group: Group, number: int):
        self.printer, self.group, self.number = printer, group, number
        self.contraction, self.schedule = group.contraction, group.schedule
        self.size = BYTES[self.contraction.element]
        self.factor_size = self.size // self.contraction.group
        self.rows, self.columns, self.terms = self.contraction.extents
        self.names: set[str] = set()
        """
        The functions of `penstock.runtime.kernels.cpu.matmul.tile` and `panels` that
        are used.
        """
        self._told: dict[str, list[str]] = {}
        """The numbers that calls give to each function, by its name."""
        self._fixed = fixed_loops_of(group.op, self.contraction.nest)
        self._is_fixed = len(self._fixed) == len(self.contraction.nest.extents)

    @property
    def is_blocked(self) -> bool:
        """Whether a sum takes several calls."""
        return self.schedule.block[1] < self.terms or not self.contraction.starts

    @property
    def parts(self) -> int:
        """The number of parts that the work is worth."""
        return self.group.parts

    @property
    def is_shared(self) -> bool:
        """
        Whether the loops are those of a part of the kernel: where there is work for
        several, also if it is in one piece.
        """
        return self.group.parts > 1 if self._is_fixed else self.group.work > 1

    # Numbers

    def _number(
        self, value: int, side: str, *role: Hashable, least: int = LEAST_STRIDE
    ) -> str:
        """
        The text of a number that follows from the loops of a side, in some role: the
        name of an argument, or digits if it is small or these loops are in the code.
        """
        if self._loops_of(side) <= self._fixed:
            return str(value)
        return self.printer.number(value, self.number, side, *role, least=least)

    def _count(self, value: int, side: str, *role: Hashable, least: int = 0) -> str:
        """The text of a trip count or an extent, none of which is a case of its own."""
        return self._number(value, side, *role, least=least)

    def _loops_of(self, side: str) -> AbstractSet[int]:
        """The loops of the rows, the columns, the terms, or all."""
        found = self.contraction
        match side:
            case "rows":
                return set() if found.row is None else {found.row}
            case "columns":
                return {*found.columns}
            case "terms":
                return {*found.terms}
            case _:
                return {*range(len(found.nest.extents))}

    def _bytes(
        self, steps: int, side: str, *role: Hashable, size: int | None = None
    ) -> str:
        """The text of so many elements in bytes."""
        least = LEAST_STRIDE * (size := size or self.size)
        return self._number(steps * size, side, "bytes", *role, least=least)

    def _scaled(
        self,
        stride: int,
        count: int,
        side: str,
        *role: Hashable,
        size: int | None = None,
    ) -> str:
        """The text of strides in bytes, whose number is in the code."""
        if stride < LEAST_STRIDE:
            return str(stride * count * (size or self.size))
        return self._bytes(stride * count, side, *role, size=size)

    def _fact(self, function: str, value: int, side: str, *role: Hashable) -> str:
        """A number that a function is made with: digits, or that calls give it."""
        text = self._number(value, side, *role)
        if is_digits(text):
            return text
        numbers = self._told.setdefault(function, [])
        if text not in numbers:
            numbers.append(text)
        self.names.add("Argument")
        return f"Argument({numbers.index(text)})"

    def _print_called(self, function: str, *arguments: str) -> None:
        """Print the call of a function, with the numbers that it was told of last."""
        numbers = self._told.get(function)
        last = [listed(numbers)] if numbers else []
        self.printer.line(f"{function}({', '.join((*arguments, *last))})")

    # Definitions

    def definitions(self) -> list[str]:
        """The lines that make the functions which the loops call."""
        with self.printer.taking_numbers():
            return self._definitions()

    def _definitions(self) -> list[str]:
        lines: list[str] = []
        if not is_trivial(self.group.finish):
            names = [f"p{n}" for n in range(len(self.group.finish.inputs))]
            header = ", ".join(("x", "s", *names))
            lines += ["", "", f"def finish_{self.number}({header}):"]
            scalars = VectorScalars()
            lines += [
                f"    {line}" for line in epilogue_lines(self.group.finish, scalars)
            ]
            lines.append("")
            self.printer.scalars.names |= scalars.names
        lines.append("")
        for tail in self._kinds():
            lines += self._micro_kernel(tail)
        if self.schedule.reuse:
            lines.append(self._copied_rows())
        return lines

    def _copied_rows(self) -> str:
        """The definition of what copies rows."""
        rows, _, lanes = self.schedule.tile
        facts = [f'"{self.contraction.element}"', str(rows), str(lanes)]
        facts += [f"a={self._steps_of_a('rows')}", f"rest={self.rows % rows}"]
        return self._definition("pack_rows", "rows", False, facts)

    def _steps_of_a(self, kind: str, tail: bool = False) -> str:
        """The steps from a row and from a term of a to the next, as a function's."""
        function = self._name(kind, tail)
        steps = zip(("rows", "terms"), self.contraction.a_steps, strict=True)
        return listed([self._fact(function, step, side, "a") for side, step in steps])

    def _kinds(self) -> list[bool]:
        """
        The kinds of micro-kernel calls: of whole tiles, and of the remainder (True).
        """
        whole, rest = divmod(self.columns, self.schedule.columns)
        kinds = [False] if whole else []
        is_same = self._tail_vectors() == self.schedule.tile[1] and not (
            self.schedule.edge or self.schedule.panels == "b"
        )
        if rest and not (whole and is_same):
            kinds.append(True)
        return kinds

    def _tail_vectors(self) -> int:
        """The vectors that the last columns take."""
        rest = self.columns % self.schedule.columns
        return -(-rest // (self.schedule.tile[2] if self.schedule.is_outer else 1))

    def _is_masked(self, tail: bool) -> bool:
        """Whether a micro-kernel has a vector that is not full."""
        if not self.schedule.is_outer:
            return False
        rest = self.columns % self.schedule.columns
        shares = self._kinds() == [False] and bool(rest)
        return tail or (shares and bool(rest % self.schedule.tile[2]))

    def _micro_kernel(self, tail: bool) -> list[str]:
        """The definitions of a micro-kernel, and of how its panel is packed."""
        rows, vectors, lanes = self.schedule.tile
        vectors = self._tail_vectors() if tail else vectors
        name = self._name("micro_kernel", tail)
        element, form = self.contraction.element, self.schedule.form
        facts = [f'"{element}"', str(rows), str(vectors), str(lanes)]
        of_column = self.contraction.b_steps[1]
        if form == "outer":
            is_stored = self.schedule.panels == "a" or self.schedule.reuse
            if is_stored:
                facts.append("stored=True")
            else:
                facts.append(f"a={self._steps_of_a('micro_kernel', tail)}")
            facts.append(f"b={self._width_of_b(tail, vectors * lanes)}")
            if (window := self._window_of_b(name)) is not None:
                facts.append(f"window={window}")
            if (edge := self._edge(tail)) is not None:
                place = self._fact(name, edge[1], "terms", "edge")
                step = self._fact(name, edge[2], "terms", "edge step")
                facts.append(f"edge=({edge[0]}, {place}, {step})")
        else:
            side, column = "columns", of_column
            if self.schedule.panels == "b":
                side, column = "terms", self.terms
            facts.append(
                f"a={self._fact(name, self.contraction.a_steps[0], 'rows', 'a')}"
            )
            facts.append(f"b={self._fact(name, column, side, 'b')}")
        facts += self._common_facts(tail)
        lines = [self._definition(f"{form}_micro_kernel", "micro_kernel", tail, facts)]
        if self.schedule.packed:
            lines += self._packing(tail, vectors)
        return lines

    def _width_of_b(self, tail: bool, panel: int) -> str:
        """The step from a term of b to the next, as a micro-kernel's."""
        name = self._name("micro_kernel", tail)
        if self.schedule.panels == "b":
            width = self._width(tail)
            return self._fact(name, width, "columns", "width") if tail else str(width)
        if self.schedule.packed:
            return str(panel)
        found = self.contraction
        outermost = found.terms[0] if found.terms else None
        return self._fact(name, found.stride(found.b, outermost), "terms", "b")

    def _window_of_b(self, function: str) -> str | None:
        """The loops in the outermost one of terms, of windows that are not packed."""
        inner = self.contraction.terms[1:]
        if self.schedule.packed or not inner:
            return None
        return self._loops_of_b(function, "terms", inner, LEAST)

    def _packing(self, tail: bool, vectors: int) -> list[str]:
        """The definitions of what copies columns, and those of an edge, to a panel."""
        element, lanes = self.contraction.element, self.schedule.tile[2]
        kind = "pack_windows" if self.contraction.has_windows else "pack"
        made = [("pack", vectors, lanes)]
        if (edge := self._edge(tail)) is not None:
            made.append(("edge", edge[0], 1))
        lines: list[str] = []
        for name, count, wide in made:
            facts = [f'"{element}"', str(count), str(wide)]
            facts.append(self._steps_of_b(self._name(name, tail)))
            if self._is_masked(tail) and name == "pack":
                facts.append("masked=True")
            if self.schedule.reuse and not tail and kind == "pack":
                facts.append("ahead=True")
            if self.contraction.bounds:
                facts.append(f"bounds={self._bounds(self._name(name, tail))}")
            lines.append(self._definition(kind, name, tail, facts))
        return lines

    def _steps_of_b(self, function: str) -> str:
        """The steps of b as `pack` takes them, or the loops as `pack_windows` does."""
        found = self.contraction
        if not found.has_windows:
            term, column = found.b_steps
            steps = ("terms", term), ("columns", column)
            return listed([self._fact(function, n, side, "b") for side, n in steps])
        outermost = found.terms[0] if found.terms else None
        step = found.stride(found.b, outermost)
        first = self._fact(function, step, "terms", "b", outermost)
        rest = self._loops_of_b(function, "terms", found.terms[1:], LEAST)
        columns = self._loops_of_b(function, "columns", found.columns, LEAST_STRIDE)
        return f"({first}, {rest}, {columns})"

    def _loops_of_b(
        self, function: str, side: str, loops: Sequence[int], least: int
    ) -> str:
        """
        The loops of windows: their extents, if not below the least one that may be an
        argument, and their strides. Those of neighbours are in the code.
        """
        texts: list[str] = []
        for loop, (extent, stride) in zip(
            loops, self.contraction.windows(loops), strict=True
        ):
            is_near = loop == loops[-1] and stride < LEAST
            turns = str(extent)
            if extent >= least:
                turns = self._fact(function, extent, side, "extent", loop)
            step = str(stride)
            if not is_near:
                step = self._fact(function, stride, side, "b", loop)
            texts.append(f"({turns}, {step})")
        return listed(texts)

    def _bounds(self, function: str) -> str:
        """Out of which elements of b are zero, as `pack_windows` takes it."""
        terms, columns = self.contraction.terms, self.contraction.columns
        texts: list[str] = []
        for number, bound in enumerate(self.contraction.bounds):
            extent = self._fact(function, bound.extent, "all", "bound", number)
            offset = self._fact(function, bound.offset, "all", "pad", number)
            steps = (
                listed([str(bound.strides[loop]) for loop in loops])
                for loops in (terms, columns)
            )
            texts.append(f"({extent}, {offset}, {', '.join(steps)})")
        return f"[{', '.join(texts)}]"

    def _common_facts(self, tail: bool) -> list[str]:
        """The facts that micro-kernels of all forms are told."""
        name = self._name("micro_kernel", tail)
        step = self.contraction.stride(-1, self.contraction.row)
        facts = [f"c={self._fact(name, step, 'rows', 'c')}"]
        facts += [f"rest={self.rows % self.schedule.tile[0]}"]
        if self._is_masked(tail):
            facts.append("masked=True")
        if self.is_blocked:
            facts.append("blocked=True")
        if self.is_blocked or self._is_far():
            facts.append("fetch=True")
        if (ahead := self._ahead(tail)) is not None:
            distance, lines = ahead
            far = self._fact(name, distance, "terms", "ahead")
            facts.append(f"ahead=({far}, {self._fact(name, lines, 'all', 'lines')})")
        if self.schedule.prefetch:
            facts.append(f"prefetch={self.schedule.prefetch}")
        return facts + self._input_facts(name)

    def _input_facts(self, function: str) -> list[str]:
        """The facts that a micro-kernel is told of the function that finishes sums."""
        finish = self.group.finish
        if is_trivial(finish):
            return []
        steps: list[str] = []
        for number, place in enumerate(finish.places):
            of_row = self._fact(function, place.row, "rows", "input", number)
            steps.append(f"({of_row}, {place.column})")
        facts = [f"inputs=[{', '.join(steps)}]", f"finish=finish_{self.number}"]
        return facts + ([f"results={count}"] if (count := len(finish.results)) else [])

    def _is_far(self) -> bool:
        """Whether the result is larger than the caches of one CPU core."""
        return element_count(result_of(self.group.op)) * self.size > FAR_BYTES

    def _ahead(self, tail: bool) -> tuple[int, int] | None:
        """
        The distance to the next panel, if one follows, and the share of a tile in it.
        """
        if tail or not (self.schedule.reuse and self.schedule.panels == "b"):
            return None
        height, depth = self.schedule.block
        tiles = max(1, min(height, self.rows) // self.schedule.tile[0])
        lines = -(-self.schedule.columns * depth * self.factor_size // LINE)
        return self._steps(self.schedule.columns * self.terms), -(-lines // tiles)

    def _steps(self, terms: int) -> int:
        """The terms of products that a micro-kernel call adds at once as one."""
        return terms

    def _width(self, tail: bool) -> int:
        """The columns of a panel."""
        width = self.schedule.columns
        return self.columns % width if tail else width

    def _edge(self, tail: bool) -> tuple[int, int, int] | None:
        """
        The columns besides vectors, if any, where they begin in b or in a panel, and
        how far apart terms are there.
        """
        count = self.schedule.edge
        if tail or not count:
            return None
        _, vectors, lanes = self.schedule.tile
        if not self.schedule.packed:
            return count, vectors * lanes, self.contraction.b_steps[0]
        return count, self.schedule.block[1] * vectors * lanes, count

    def _definition(
        self, function: str, kind: str, tail: bool, facts: Sequence[str]
    ) -> str:
        self.names.add(function)
        return f"{self._name(kind, tail)} = {function}({', '.join(facts)})"

    def _name(self, kind: str, tail: bool) -> str:
        return f"{kind}_{self.number}{'_tail' if tail else ''}"

    # Loops

    def print_loops(self, is_split: bool) -> None:
        """Print the loops; in parts of the kernel, or all of them at once."""
        with self.printer.taking_numbers():
            self._print_loops(is_split)

    def _print_loops(self, is_split: bool) -> None:
        out = self.printer
        self.names.add("address_of")
        addresses = self._addresses()
        units = self._count(self.group.units, "all", "units")
        ends = f"{units} * part // parts, {units} * (part + 1) // parts"
        unit = out.new_loop()
        with out.block(f"for {unit} in range({ends if is_split else units}):"):
            places = self._places(unit)
            if self.schedule.reuse:
                self._print_reusing(places, addresses)
            else:
                self._print_kinds(places, addresses)

    def _scratch(self, kind: str, size: int) -> str:
        """Print the name of so many bytes on the stack; nothing, if there are none."""
        if not size:
            return ""
        self.names.add("scratch")
        name = f"{kind}_{self.number}"
        self.printer.line(
            f"{name} = scratch({self._number(size, 'all', 'scratch', kind)})"
        )
        return name

    def _print_kinds(self, places: Places, addresses: Addresses) -> None:
        """Print what computes a unit: the columns of one tile, or those left."""
        for tail in self._printed_kinds(places):
            self._print_unit(places, tail, addresses)

    def _print_unit(self, places: Places, tail: bool, addresses: Addresses) -> None:
        """Print what computes the columns of one tile."""
        with self._each_block() as terms:
            a = self._at_a(addresses.a, places, *terms)
            self._print_call(places, tail, replace(addresses, a=a), terms)

    def _print_reusing(self, places: Places, addresses: Addresses) -> None:
        """Print what computes a unit: the columns of as many tiles as reuse rows."""
        out, panels = self.printer, self.group.panels
        with self._each_block() as terms:
            source = self._at(addresses.a, places, self.contraction.a, terms[0])
            rows, height = self._name("rows", False), self._height(places)
            self._print_called(rows, source, addresses.rows, height, terms[1])
            first, end = "0", self._count(panels, "columns", "panels")
            if self.group.groups > 1:
                count = self._count(self.schedule.reuse, "columns", "reuse")
                first = f"{places.panel} * {count}"
                end = f"min({end}, {first} + {count})"
            panel = out.new_loop()
            with out.block(f"for {panel} in range({first}, {end}):"):
                places = replace(places, panel=panel)
                for tail in self._printed_kinds(places):
                    copied = replace(addresses, a=addresses.rows)
                    self._print_call(places, tail, copied, terms)

    def _printed_kinds(self, places: Places) -> Iterator[bool]:
        """Print what tells whole tiles from what is left (True), around each."""
        out, kinds = self.printer, self._kinds()
        if len(kinds) < 2:
            yield kinds[0]
            return
        count = self.group.sides[0] // self.schedule.columns
        whole = self._count(count, "columns", "whole")
        with out.block(f"if {places.panel} < {whole}:"):
            yield False
        with out.block("else:"):
            yield True

    @contextmanager
    def _each_block(self) -> Generator[tuple[str, str]]:
        """Print the loop over blocks of terms: the first of a block, and how many."""
        out, terms = self.printer, self._count(self.terms, "terms", "extent")
        with out.restoring_depth():
            if not self.is_blocked:
                yield "0", terms
                return
            term, count = out.new_loop(), out.new_value()
            depth = self._count(self.schedule.block[1], "terms", "block")
            out.open(f"for {term} in range(0, {terms}, {depth}):")
            out.line(f"{count} = min({depth}, {terms} - {term})")
            yield term, count

    def _addresses(self) -> Addresses:
        """The addresses of a, b, the result and the inputs of what follows."""
        op, out = self.group.op, self.printer
        buffers = [
            op.operands[self.contraction.a],
            op.operands[self.contraction.b],
            result_of(op),
            *(place.buffer for place in self.group.finish.places),
        ]
        names: list[str] = []
        known: dict[SSAValue, str] = {}
        for buffer in map(root_of, buffers):
            if buffer not in known:
                known[buffer] = out.new_value()
                out.line(f"{known[buffer]} = address_of({out.name(buffer)})")
            names.append(known[buffer])
        a, b, c, *inputs = names
        panel = self._scratch("panel", panel_bytes(self.schedule, self.factor_size))
        rows = self._scratch("copy", reused_bytes(self.schedule, self.factor_size))
        return Addresses(a, b, c, inputs, panel, rows)

    def _places(self, unit: str) -> Places:
        """
        Print where a unit is, loop by loop, the last one first. Threads have a range of
        units each.
        """
        inner = [self.group.groups, self.group.blocks]
        is_by_blocks = self.group.is_by_blocks
        if is_by_blocks:
            inner.reverse()
        counts = [*self.contraction.outer_extents, *inner]
        names: list[str] = []
        left = unit
        for index in reversed(range(len(counts))):
            if counts[index] == 1:
                names.append("0")
            elif prod(counts[:index]) == 1:
                names.append(left)
            else:
                name, rest = self.printer.new_value(), self.printer.new_value()
                count = self._count(counts[index], "all", "count", index)
                self.printer.line(f"{name} = {left} % {count}")
                self.printer.line(f"{rest} = {left} // {count}")
                names.append(name)
                left = rest
        block, panel, *outer = names
        if is_by_blocks:
            block, panel = panel, block
        if self.group.units == 1 and not self._is_fixed:
            # A panel alone has the form of several.
            panel = unit
        return Places(tuple(reversed(outer)), panel, block)

    def _print_call(
        self,
        places: Places,
        tail: bool,
        addresses: Addresses,
        terms: tuple[str, str],
    ) -> None:
        """
        Print the call of a micro-kernel, whose rows of `a` begin at their address.
        """
        (term, count), panel = terms, addresses.panel
        c = self._at(addresses.c, places, -1, "0")
        used = self._used(places, tail)
        if panel:
            b = panel
            self._print_packing(addresses.b, panel, places, terms, tail)
        else:
            b = self._at(addresses.b, places, self.contraction.b, term, tail)
        ends = self._ends(term, count)
        rest = [
            self._input_at(name, number, places)
            for number, name in enumerate(addresses.inputs)
        ]
        height, steps = self._height(places), self._counted(count)
        parts = (addresses.a, b, c, height, used, steps, *ends, listed(rest))
        self._print_called(self._name("micro_kernel", tail), *parts)

    def _counted(self, count: str) -> str:
        """The number of products that a micro-kernel call adds for so many terms."""
        return count

    def _print_packing(
        self,
        address: str,
        panel: str,
        places: Places,
        terms: tuple[str, str],
        tail: bool,
    ) -> None:
        """Print what copies columns to a panel, and those of an edge behind them."""
        term, count = terms
        source, *more = self._packed(address, places, term)
        call = source, panel, self._used(places, tail), count, *more
        self._print_called(self._name("pack", tail), *call)
        if (edge := self._edge(tail)) is None:
            return
        first = self.schedule.columns - edge[0]
        source, *more = self._packed(address, places, term, first)
        place = f"{panel} + {self._bytes(edge[1], 'terms', 'edge')}"
        self._print_called(self._name("edge", tail), source, place, "1", count, *more)

    @property
    def _packs_windows(self) -> bool:
        """Whether what packs columns is told their number."""
        return self.contraction.has_windows

    def _packed(
        self, address: str, places: Places, term: str, first: int = 0
    ) -> tuple[str, ...]:
        """
        Where a panel is copied from, from its column `first` on: the address; and for
        windows the address of the first one, and the numbers of the first column and
        term.
        """
        if not self._packs_windows:
            source = self._at(address, places, self.contraction.b, term)
            if not first:
                return (source,)
            of_column = self.contraction.b_steps[1]
            return (f"{source} + {self._scaled(of_column, first, 'columns', 'edge')}",)
        column = places.panel
        if column != "0":
            column = f"{column} * {self.schedule.columns}"
        if first:
            column = str(first) if column == "0" else f"{column} + {first}"
        begin = Places(places.outer, "0", "0")
        return self._at(address, begin, self.contraction.b, "0"), column, term

    def _height(self, places: Places) -> str:
        """The rows of a unit."""
        rows = self._count(self.rows, "rows", "extent")
        if places.block == "0":
            return rows
        height = self._count(self.schedule.block[0], "rows", "block")
        return f"min({height}, {rows} - {places.block} * {height})"

    def _used(self, places: Places, tail: bool) -> str:
        """The columns in use of the last vector of a unit."""
        lanes = self.schedule.tile[2]
        if not self._is_masked(tail):
            return str(lanes)
        columns = self.columns % self.schedule.columns % lanes or lanes
        used = self._count(columns, "columns", "used")
        if tail:
            return used
        last = self._count(self.group.panels - 1, "columns", "last")
        return f"{used} if {places.panel} == {last} else {lanes}"

    def _ends(self, term: str, count: str) -> tuple[str, str]:
        """Whether a call is the first for a sum, and whether it is the last."""
        if not self.is_blocked:
            return "1", "1"
        # Sums that go on with what the result holds have no first call.
        never = 0 if self.contraction.starts else -1
        first = self._count(never, "terms", "first", least=-1)
        terms = self._count(self.terms, "terms", "extent")
        return f"{term} == {first}", f"{term} + {count} == {terms}"

    def _at_a(self, address: str, places: Places, term: str, count: str) -> str:
        """The address where the terms of a unit begin in a."""
        if self.schedule.panels != "a":
            return self._at(address, places, self.contraction.a, term)
        rows = f"{places.block} * {count}" if places.block != "0" else "0"
        steps = {
            term: partial(self._bytes, self.rows, "all", "panel"),
            rows: partial(self._bytes, self.schedule.block[0], "rows", "panel"),
        }
        return self._sum(address, places, self.contraction.a, steps)

    def _at(
        self,
        address: str,
        places: Places,
        operand: int,
        term: str,
        tail: bool = False,
    ) -> str:
        """The address where a unit begins in an operand."""
        found, stored = self.contraction, self.schedule.panels
        columns, (height, _) = self.schedule.columns, self.schedule.block
        size = self.size if operand == -1 else self.factor_size
        column, row, depth = (
            found.stride(operand, loop)
            for loop in (found.column, found.row, found.term)
        )
        panel = partial(self._scaled, column, columns, "columns", operand, size=size)
        inner = partial(self._scaled, depth, 1, "terms", operand, size=size)
        if stored == "b" and operand == found.b:
            width = 1 if self.schedule.is_inner else self._width(tail)
            whole = columns * self.terms
            panel = partial(self._bytes, whole, "all", operand, size=size)
            inner = partial(str, width * size)
            if tail:
                inner = partial(self._bytes, width, "columns", "width", size=size)
        block = partial(self._bytes, row * height, "rows", operand, size=size)
        steps = {places.panel: panel, places.block: block, term: inner}
        return self._sum(address, places, operand, steps)

    def _sum(
        self,
        address: str,
        places: Places,
        operand: int,
        steps: Mapping[str, Callable[[], str]],
    ) -> str:
        """The address where a unit begins in an operand, given steps of its loops."""
        access = self.contraction.nest.accesses[operand]
        size = self.size if operand == -1 else self.factor_size
        outer = self.contraction.outer_strides(access)
        around = self._outer_steps(places, outer, operand, size=size)
        return self._summed(address, {**around, **steps}, access.offset * size, operand)

    def _outer_steps(
        self,
        places: Places,
        strides: Sequence[int],
        *role: Hashable,
        size: int | None = None,
    ) -> dict[str, Callable[[], str]]:
        """The bytes that a turn of each of the other loops is, by where it is."""
        return {
            name: partial(self._bytes, stride, "all", *role, loop, size=size)
            for loop, (name, stride) in enumerate(
                zip(places.outer, strides, strict=True)
            )
        }

    def _input_at(self, address: str, number: int, places: Places) -> str:
        """The address where a unit begins in an input."""
        input, role = self.group.finish.places[number], ("input", number)
        columns, (height, _) = self.schedule.columns, self.schedule.block
        steps = self._outer_steps(places, input.outer, *role) | {
            places.panel: partial(
                self._scaled, input.column, columns, "columns", *role
            ),
            places.block: partial(self._bytes, input.row * height, "rows", *role),
        }
        return self._summed(address, steps, input.offset * self.size, *role)

    def _summed(
        self,
        address: str,
        steps: Mapping[str, Callable[[], str]],
        offset: int,
        *role: Hashable,
    ) -> str:
        """
        A place some bytes after an address, and so many steps, by how often each is
        taken. Where that is never, the text of the step is not asked for.
        """
        texts = [(name, step()) for name, step in steps.items() if name != "0"]
        parts = [f"{name} * {step}" for name, step in texts if step != "0"]
        if offset:
            parts.append(self._number(offset, "all", "offset", *role, least=offset))
        return " + ".join((address, *parts)).replace("+ -", "- ")


@dataclass(frozen=True)
class Places:
    """Names of where a unit is: in the other loops, the columns and the rows."""

    outer: tuple[str, ...]
    panel: str
    block: str


@dataclass(frozen=True)
class Addresses:
    """Names of addresses that all units of work have in common."""

    a: str
    b: str
    c: str
    inputs: Sequence[str]
    panel: str
    """Of columns of `b`, or nothing."""
    rows: str
    """Of the copy of rows of `a`, or nothing."""
