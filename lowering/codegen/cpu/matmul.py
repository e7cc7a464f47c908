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

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import SCHEDULE
from penstock.dialects.kernel.views import root_of
from penstock.dialects.launch.schedules.cpu_matmul import (
    ContractionAttr,
    panel_bytes,
    reused_bytes,
)
from penstock.lowering.codegen.body.contraction import (
    Contraction,
    ContractionLike,
    contraction_of,
    result_of,
)
from penstock.lowering.codegen.body.epilogue import (
    Epilogue,
    VectorScalars,
    epilogue_in,
    epilogue_lines,
    epilogue_of,
    is_trivial,
)
from penstock.lowering.codegen.cpu.packed_operands import (
    element_count,
    misfit,
    misstored,
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


@dataclass(frozen=True)
class Group:
    """A contraction with a schedule, and what is computed with it."""

    op: ContractionLike
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
    def parts(self) -> int:
        """The number of parts that the work is worth."""
        loops = prod(self.contraction.outer_extents)
        work = 2 * prod(self.contraction.extents) * loops
        return max(1, min(self.units, work // WORK_OF_A_PART))


def group_of(op: Operation, stages: Sequence[Operation]) -> Group | str | None:
    """
    The contraction of an op that has a schedule, None for one without, or why it cannot
    be computed so.
    """
    schedule = op.attributes.get(SCHEDULE)
    if schedule is None:
        return None
    if not isinstance(schedule, ContractionAttr):
        return f"{schedule} is no schedule for CPUs"
    found = contraction_of(op)
    if found is None:
        return f"{op.name} is no sum of products, which {schedule} is for"
    if isinstance(found, str):
        return f"no tiles compute {op.name}: {found}"
    assert isinstance(op, ContractionLike), "a contraction is one"
    if (why := misfit(found, schedule) or misstored(op, found, schedule)) is not None:
        return f"{schedule} does not fit {op.name}: {why}"
    if isinstance(op, ContractOp):
        finish, unfit = epilogue_in(op, found)
        why = unfit.start or unfit.finish
        return why or Group(op, found, schedule, finish)
    found = replace(found, starts=schedule.folds[0] > 0)
    finish = epilogue_of(found, stages, stages.index(op), schedule.folds)
    if finish is None:
        before, after = schedule.folds
        return f"{before} stages before and {after} after cannot be folded in {op.name}"
    return Group(op, found, schedule, finish)


def input_facts(finish: Epilogue, number: int) -> list[str]:
    """The facts that a micro-kernel is told of the function that finishes sums."""
    steps = [(place.row, place.column) for place in finish.places]
    facts = [f"inputs={steps}", f"finish=finish_{number}"]
    return facts + ([f"results={count}"] if (count := len(finish.results)) else [])


class MatmulPrinter:
    """
    Prints a group: definitions of its micro-kernels, and the loops that call them.
    """

    def __init__(self, printer: BodyPrinter, group: Group, number: int):
        self.printer, self.group, self.number = printer, group, number
        self.contraction, self.schedule = group.contraction, group.schedule
        self.size = BYTES[self.contraction.element]
        self.factor_size = self.size if self.contraction.signs is None else 1
        self.rows, self.columns, self.terms = self.contraction.extents
        self.names: set[str] = set()
        """
        The functions of `penstock.runtime.kernels.cpu.matmul.tile` and `panels` that
        are used.
        """

    @property
    def is_blocked(self) -> bool:
        """Whether a sum takes several calls."""
        return self.schedule.block[1] < self.terms or not self.contraction.starts

    # Definitions

    def definitions(self) -> list[str]:
        """The lines that make the functions which the loops call."""
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
        facts += [f"a={self.contraction.a_steps}", f"rest={self.rows % rows}"]
        return self._definition("pack_rows", "rows", False, facts)

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
        return (tail or shares) and bool(rest % self.schedule.tile[2])

    def _micro_kernel(self, tail: bool) -> list[str]:
        """The definitions of a micro-kernel, and of how its panel is packed."""
        rows, vectors, lanes = self.schedule.tile
        vectors = self._tail_vectors() if tail else vectors
        a, b = self.contraction.a_steps, self.contraction.b_steps
        if self.contraction.has_windows:
            columns, terms = self.contraction.columns, self.contraction.terms
            b = tuple(map(self.contraction.windows, (terms, columns)))
        element, form = self.contraction.element, self.schedule.form
        facts = [f'"{element}"', str(rows), str(vectors), str(lanes)]
        if form == "outer":
            width = vectors * lanes if self.schedule.packed else b[0]
            if self.schedule.panels == "b":
                width = self._width(tail)
            is_stored = self.schedule.panels == "a" or self.schedule.reuse
            facts.append("stored=True" if is_stored else f"a={a}")
            facts.append(f"b={width}")
            if (edge := self._edge(tail)) is not None:
                facts.append(f"edge={edge}")
        else:
            column = self.terms if self.schedule.panels == "b" else b[1]
            facts += [f"a={a[0]}", f"b={column}"]
        facts += self._common_facts(tail)
        lines = [self._definition(f"{form}_micro_kernel", "micro_kernel", tail, facts)]
        if self.schedule.packed:
            facts = [f'"{element}"', str(vectors), str(lanes), str(b)]
            bounds = [f"bounds={found}"] if (found := self._bounds()) else []
            if self._is_masked(tail):
                facts.append("masked=True")
            kind = "pack_windows" if self.contraction.has_windows else "pack"
            lines.append(self._definition(kind, "pack", tail, facts + bounds))
            if (edge := self._edge(tail)) is not None:
                facts = [f'"{element}"', str(edge[0]), "1", str(b), *bounds]
                lines.append(self._definition(kind, "edge", tail, facts))
        return lines

    def _bounds(self) -> list[tuple[int, int, tuple[int, ...], tuple[int, ...]]]:
        """Out of which elements of b are zero, as `pack_windows` takes it."""
        terms, columns = self.contraction.terms, self.contraction.columns
        return [
            (
                bound.extent,
                bound.offset,
                tuple(bound.strides[loop] for loop in terms),
                tuple(bound.strides[loop] for loop in columns),
            )
            for bound in self.contraction.bounds
        ]

    def _common_facts(self, tail: bool) -> list[str]:
        """The facts that micro-kernels of all forms are told."""
        facts = [f"c={self.contraction.stride(-1, self.contraction.row)}"]
        facts += [f"rest={self.rows % self.schedule.tile[0]}"]
        if self._is_masked(tail):
            facts.append("masked=True")
        if self.is_blocked:
            facts.append("blocked=True")
        if self.is_blocked or self._is_far():
            facts.append("fetch=True")
        if (ahead := self._ahead(tail)) is not None:
            facts.append(f"ahead={ahead}")
        if self.schedule.prefetch:
            facts.append(f"prefetch={self.schedule.prefetch}")
        if not is_trivial(self.group.finish):
            facts += input_facts(self.group.finish, self.number)
        return facts

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
        out = self.printer
        self.names.add("address_of")
        addresses = self._addresses()
        units = self.group.units
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
        self.printer.line(f"{name} = scratch({size})")
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
            height, rows = self._height(places), self._name("rows", False)
            out.line(f"{rows}({source}, {addresses.rows}, {height}, {terms[1]})")
            count = self.schedule.reuse
            first, end = "0", str(panels)
            if self.group.groups > 1:
                first = f"{places.panel} * {count}"
                end = f"{first} + {count}"
                if panels % count:
                    end = f"min({panels}, {end})"
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
        whole = self.group.sides[0] // self.schedule.columns
        with out.block(f"if {places.panel} < {whole}:"):
            yield False
        with out.block("else:"):
            yield True

    @contextmanager
    def _each_block(self) -> Generator[tuple[str, str]]:
        """Print the loop over blocks of terms: the first of a block, and how many."""
        out, depth = self.printer, self.schedule.block[1]
        with out.restoring_depth():
            if depth >= self.terms:
                yield "0", str(self.terms)
                return
            term = out.new_loop()
            out.open(f"for {term} in range(0, {self.terms}, {depth}):")
            if self.terms % depth == 0:
                yield term, str(depth)
                return
            count = out.new_value()
            out.line(f"{count} = min({depth}, {self.terms} - {term})")
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
                self.printer.line(f"{name} = {left} % {counts[index]}")
                self.printer.line(f"{rest} = {left} // {counts[index]}")
                names.append(name)
                left = rest
        block, panel, *outer = names
        if is_by_blocks:
            block, panel = panel, block
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
        out, (term, count), panel = self.printer, terms, addresses.panel
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
        tuple_text = f"({', '.join(rest)}{',' if len(rest) == 1 else ''})"
        height = self._height(places)
        steps = self._counted(count)
        parts = (addresses.a, b, c, height, used, steps, *ends, tuple_text)
        out.line(f"{self._name('micro_kernel', tail)}({', '.join(parts)})")

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
        out, (term, count) = self.printer, terms
        source, *more = self._packed(address, places, term)
        call = ", ".join((source, panel, self._used(places, tail), count, *more))
        out.line(f"{self._name('pack', tail)}({call})")
        if (edge := self._edge(tail)) is None:
            return
        first = self.schedule.columns - edge[0]
        source, *more = self._packed(address, places, term, first)
        place = f"{panel} + {edge[1] * self.size}"
        call = ", ".join((source, place, "1", count, *more))
        out.line(f"{self._name('edge', tail)}({call})")

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
            step = first * self.contraction.b_steps[1]
            return (self._sum(source, [], step),)
        column = places.panel
        if column != "0":
            column = f"{column} * {self.schedule.columns}"
        if first:
            column = str(first) if column == "0" else f"{column} + {first}"
        begin = Places(places.outer, "0", "0")
        return self._at(address, begin, self.contraction.b, "0"), column, term

    def _height(self, places: Places) -> str:
        """The rows of a unit."""
        height = self.schedule.block[0]
        if places.block == "0":
            return str(self.rows)
        if self.rows % height == 0:
            return str(height)
        return f"min({height}, {self.rows} - {places.block} * {height})"

    def _used(self, places: Places, tail: bool) -> str:
        """The columns in use of the last vector of a unit."""
        lanes = self.schedule.tile[2]
        if not self._is_masked(tail):
            return str(lanes)
        used = self.columns % self.schedule.columns % lanes
        if tail:
            return str(used)
        return f"{used} if {places.panel} == {self.group.panels - 1} else {lanes}"

    def _ends(self, term: str, count: str) -> tuple[str, str]:
        """Whether a call is the first for a sum, and whether it is the last."""
        first = str(int(self.contraction.starts))
        if term == "0":
            return first, "1"
        is_last = f"{term} + {count} == {self.terms}"
        return (f"{term} == 0" if first != "0" else "0", is_last)

    def _at_a(self, address: str, places: Places, term: str, count: str) -> str:
        """The address where the terms of a unit begin in a."""
        if self.schedule.panels != "a":
            return self._at(address, places, self.contraction.a, term)
        access = self.contraction.nest.accesses[self.contraction.a]
        outer = zip(places.outer, self.contraction.outer_strides(access), strict=True)
        rows = f"{places.block} * {count}" if places.block != "0" else "0"
        height = self.schedule.block[0]
        steps = [*outer, (term, self.rows), (rows, height)]
        return self._sum(address, steps, access.offset)

    def _at(
        self,
        address: str,
        places: Places,
        operand: int,
        term: str,
        tail: bool = False,
    ) -> str:
        """The address where a unit begins in an operand."""
        contraction, stored = self.contraction, self.schedule.panels
        columns, (height, _) = self.schedule.columns, self.schedule.block
        steps = [
            (places.panel, contraction.column, columns),
            (places.block, contraction.row, height),
            (term, contraction.term, 1),
        ]
        terms = [
            (name, contraction.stride(operand, loop) * count)
            for name, loop, count in steps
        ]
        if stored == "b" and operand == contraction.b:
            width = 1 if self.schedule.is_inner else self._width(tail)
            terms = [(places.panel, columns * self.terms), (term, width)]
        access = contraction.nest.accesses[operand]
        outer = zip(places.outer, contraction.outer_strides(access), strict=True)
        size = self.size if operand == -1 else self.factor_size
        return self._sum(address, [*outer, *terms], access.offset, size)

    def _input_at(self, address: str, number: int, places: Places) -> str:
        """The address where a unit begins in an input."""
        input = self.group.finish.places[number]
        terms = [
            *zip(places.outer, input.outer, strict=True),
            (places.panel, input.column * self.schedule.columns),
            (places.block, input.row * self.schedule.block[0]),
        ]
        return self._sum(address, terms, input.offset)

    def _sum(
        self,
        address: str,
        terms: Sequence[tuple[str, int]],
        offset: int,
        size: int | None = None,
    ) -> str:
        """A place from an address on, in elements of a size, or that of the result."""
        size = size or self.size
        parts = [
            f"{name} * {stride * size}"
            for name, stride in terms
            if stride and name != "0"
        ]
        if offset:
            parts.append(str(offset * size))
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
