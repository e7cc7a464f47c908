"""
The source of the gradients of attention that has a schedule: loops over blocks of keys
and queries, as in FlashAttention-2.

    for i0 in range(<units> * part // parts, <units> * (part + 1) // parts):
        for i1 in range(<blocks of keys>):
            for i2 in range(<blocks of queries>):
                for i3 in range(<panels of queries>):
                    pack_0(...)             # queries, and pack_1 of the gradient
                    micro_kernel_0(...)     # scores: keys times queries
                    micro_kernel_1(...)     # gradients of shares: values times gradient
                    turn_0(...)             # shares, and the gradients of sums
                micro_kernel_2(...)         # shares times gradient, added to those by v
                micro_kernel_3(...)         # gradients of sums times q, to those by k
                micro_kernel_4(...)         # and times k, to those by q

A unit is one iteration of the loops of the stack that all results have; units write
different elements. If attention is causal, the loop over queries begins with the first
one that sees a key of the block. The first block that adds to a result writes it, so
that nothing is cleared before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.ir import Attribute, SSAValue

from penstock.dialects.kernel.attention_gradient import AttentionGradientOp
from penstock.dialects.kernel.interface import SCHEDULE, StructuredOp
from penstock.dialects.launch.schedules.cpu_attention import AttentionGradientAttr
from penstock.lowering.codegen.body.attention import Operand
from penstock.lowering.codegen.body.attention_gradient import (
    RESULTS,
    AttentionGradient,
    attention_gradient_of,
)
from penstock.lowering.codegen.body.statements import sum_of
from penstock.lowering.codegen.cpu.attention import (
    BYTES,
    MAX_INPUTS,
    MAX_STACK_BYTES,
    WORK_OF_A_PART,
    is_packed,
    score_function,
    tuple_of,
)
from penstock.lowering.codegen.cpu.attention_pieces import Piece, pieces_of, tiles_of
from penstock.lowering.codegen.cpu.stage_printer import CpuStagePrinter

if TYPE_CHECKING:
    from penstock.lowering.codegen.body.statements import BodyPrinter

QUERIES, GRADIENT, SHARES, SUMS, INPUTS = range(5)
"""
The panels: of queries, of the gradient, of shares, of the gradients of sums, and from
the last one on of inputs of scores.
"""
PRODUCTS = {"v_grad": 2, "k_grad": 3, "q_grad": 4}
"""The micro-kernel that adds to each result, in the order in which they are called."""
MISSING = (
    ("q", "the terms of queries"),
    ("k", "the terms of keys"),
    ("grad", "the columns of the gradient"),
    ("q_grad", "the terms of the gradient by queries"),
    ("k_grad", "the terms of the gradient by keys"),
    ("v_grad", "the columns of the gradient by values"),
)
"""The operands that vectors are read from, or stored to."""


def cpu_gradient_of(op: AttentionGradientOp) -> AttentionGradient | str:
    """The facts of gradients, or why no schedule at all can be used for them."""
    found = attention_gradient_of(op)
    if isinstance(found, str):
        return found
    if found.kept != found.element:
        return f"elements are {found.kept}, scores {found.element}"
    if not found.has_elements:
        return "there are no elements"
    for name, told in MISSING:
        if found.operands[name].column not in (0, 1):
            return f"{told} do not follow each other"
    if any(found.operands[name].row not in (0, 1) for name in ("lse", "delta")):
        return "the numbers of rows do not follow each other"
    if len(found.inputs) > MAX_INPUTS:
        return f"scores are made of more than {MAX_INPUTS} inputs"
    return found


def gradient_misfit(
    found: AttentionGradient, schedule: AttentionGradientAttr
) -> str | None:
    """Why a schedule cannot be used for gradients, or None if it can."""
    size = sum(panels_of(found, schedule).values()) * BYTES[found.element]
    if size > MAX_STACK_BYTES:
        return (
            f"{size} bytes of panels are more than the stack allows: {MAX_STACK_BYTES}"
        )
    return None


def panels_of(
    found: AttentionGradient, schedule: AttentionGradientAttr
) -> dict[int, int]:
    """The elements of each panel."""
    shares = schedule.keys * schedule.queries
    return {
        QUERIES: found.terms * schedule.width,
        GRADIENT: found.depth * schedule.width,
        SHARES: shares,
        SUMS: shares,
        **{
            INPUTS + number: schedule.keys * schedule.width
            for number, (_, operand) in enumerate(found.inputs)
            if is_packed(operand)
        },
    }


class AttentionGradientPrinter(CpuStagePrinter):
    """Prints gradients of attention: the definitions of what is called, and loops."""

    OP = AttentionGradientOp
    SCHEDULES = (AttentionGradientAttr,)
    NUMBERS = MAX_INPUTS + 5

    def __init__(self, printer: BodyPrinter, op: StructuredOp, number: int):
        schedule = op.attributes[SCHEDULE]
        assert isinstance(op, AttentionGradientOp), "found by its op"
        assert isinstance(schedule, AttentionGradientAttr), "found by its schedule"
        found = cpu_gradient_of(op)
        assert isinstance(found, AttentionGradient), "no misfit"
        self.printer, self.number = printer, number
        self.found, self.schedule = found, schedule
        self.element, self.size = found.element, BYTES[found.element]
        self.names = set()

    @classmethod
    def misfit(cls, op: StructuredOp, schedule: Attribute) -> str | None:
        assert isinstance(op, AttentionGradientOp), "found by its op"
        assert isinstance(schedule, AttentionGradientAttr), "found by its schedule"
        found = cpu_gradient_of(op)
        why = found if isinstance(found, str) else gradient_misfit(found, schedule)
        return None if why is None else f"{schedule} does not fit {op.name}: {why}"

    @property
    def units(self) -> int:
        """The pieces of work that are independent."""
        return prod(self.found.stack[loop] for loop in self.found.common)

    @property
    def parts(self) -> int:
        return max(1, min(self.units, self.found.work // WORK_OF_A_PART))

    @property
    def _blocks(self) -> tuple[int, int]:
        """The blocks of keys, and those of queries."""
        found, schedule = self.found, self.schedule
        return -(-found.keys // schedule.keys), -(-found.rows // schedule.queries)

    def _pieces(self) -> list[Piece]:
        """The kinds of panels: whole ones, and that of what is left."""
        _, vectors, lanes = self.schedule.tile
        return pieces_of(self.found.rows, self.schedule.width, vectors, lanes)

    def _tiles(self, name: str) -> tuple[int, int]:
        """The tiles in a row of a result, and the vectors of each."""
        lanes = self.schedule.tile[2]
        extent = self.found.depth if name == "v_grad" else self.found.terms
        return tiles_of(extent, lanes, self.schedule.mix[1])

    # Definitions

    def definitions(self) -> list[str]:
        name = f"finish_{self.number}"
        lines = ["", "", *score_function(self.printer, name, self.found.scores), ""]
        for piece in self._pieces():
            lines += self._of_panel(piece)
        return [*lines, *map(self._of_result, PRODUCTS)]

    def _of_panel(self, piece: Piece) -> list[str]:
        """The functions that make shares of a panel of queries."""
        operands, height = self.found.operands, self.schedule.tile[0]
        lines: list[str] = []
        for number, name in enumerate(("q", "grad")):
            operand = operands[name]
            lines.append(self._pack(piece, number, (operand.column, operand.row)))
        for number, name in enumerate(("k", "v")):
            a = operands[name].key, operands[name].column
            facts = [str(height), str(piece.vectors), str(piece.lanes), f"a={a}"]
            facts += [f"b={piece.width}", f"c={self.schedule.queries}"]
            facts.append(f"rest={self.found.keys % height}")
            lines.append(
                self._definition(
                    "outer_micro_kernel", "micro_kernel", number, facts, piece.suffix
                )
            )
        steps: list[tuple[int, int]] = []
        for number, (_, operand) in enumerate(self.found.inputs):
            if is_packed(operand):
                steps.append((piece.width, 1))
                pair = operand.key, operand.row
                lines.append(self._pack(piece, 2 + number, pair))
            else:
                steps.append((operand.key, operand.row))
        facts = [str(piece.vectors), str(piece.lanes), f"finish_{self.number}"]
        facts += [f"inputs={steps}", f"queries={piece.queries}"]
        facts.append(f"step={self.schedule.queries}")
        if self.found.offset is not None:
            facts.append("causal=True")
        lines.append(
            self._definition("gradient_shares", "turn", 0, facts, piece.suffix)
        )
        return lines

    def _pack(self, piece: Piece, number: int, steps: tuple[int, int]) -> str:
        facts = [str(piece.vectors), str(piece.lanes), str(steps)]
        if piece.queries % piece.lanes:
            facts.append("masked=True")
        return self._definition("pack", "pack", number, facts, piece.suffix)

    def _of_result(self, name: str) -> str:
        """The micro-kernel that adds to a result."""
        operands, queries = self.found.operands, self.schedule.queries
        height, lanes = self.schedule.mix[0], self.schedule.tile[2]
        factor = {"v_grad": "grad", "k_grad": "q", "q_grad": "k"}[name]
        result = operands[name]
        facts = [str(height), str(self._tiles(name)[1]), str(lanes)]
        if name == "q_grad":
            facts += [f"a={(1, queries)}", f"b={operands[factor].key}"]
            facts += [f"c={result.row}", f"rest={self.found.rows % height}"]
        else:
            facts += [f"a={(queries, 1)}", f"b={operands[factor].row}"]
            facts += [f"c={result.key}", f"rest={self.found.keys % height}"]
        facts.append("blocked=True")
        if self._extent(name) % lanes:
            facts.append("masked=True")
        number = PRODUCTS[name]
        return self._definition("outer_micro_kernel", "micro_kernel", number, facts)

    def _extent(self, name: str) -> int:
        """The elements of a row of a result."""
        return self.found.depth if name == "v_grad" else self.found.terms

    def _definition(
        self,
        function: str,
        name: str,
        offset: int,
        facts: Sequence[str],
        suffix: str = "",
    ) -> str:
        self.names.add(function)
        text = ", ".join((f'"{self.element}"', *facts))
        return f"{self._name(name, offset, suffix)} = {function}({text})"

    def _name(self, name: str, offset: int, suffix: str = "") -> str:
        return f"{name}_{self.number + offset}{suffix}"

    # Loops

    def print(self, is_split: bool) -> None:
        out, found, units = self.printer, self.found, self.units
        self.names.update(("address_of", "scratch"))
        self._print_addresses()
        for number, elements in panels_of(found, self.schedule).items():
            out.line(f"{self._panel(number)} = scratch({elements * self.size})")
        unit = out.new_loop()
        ends = f"{units} * part // parts, {units} * (part + 1) // parts"
        with out.block(f"for {unit} in range({ends if is_split else units}):"):
            places = self._places(unit)
            with out.restoring_depth():
                for loop in found.rest:
                    places[loop] = out.new_loop()
                    out.open(f"for {places[loop]} in range({found.stack[loop]}):")
                self._print_unit(places)

    def _print_addresses(self) -> None:
        """Print the address of each operand."""
        known: dict[SSAValue, str] = {}
        operands = {**self.found.operands, **self._inputs()}
        self.addresses: dict[str, str] = {}
        for name, operand in operands.items():
            if operand.memref not in known:
                text = known[operand.memref] = self.printer.new_value()
                buffer = self.printer.name(operand.memref)
                self.printer.line(f"{text} = address_of({buffer})")
            self.addresses[name] = known[operand.memref]

    def _inputs(self) -> dict[str, Operand]:
        return {
            f"input_{number}": operand
            for number, (_, operand) in enumerate(self.found.inputs)
        }

    def _panel(self, number: int) -> str:
        return f"panel_{self.number + number}"

    def _places(self, unit: str) -> dict[int, str]:
        """Print where a unit is: the turn of each loop of the stack that it is of."""
        out, left = self.printer, unit
        found: dict[int, str] = {}
        common = self.found.common
        for index in reversed(range(len(common))):
            loop, count = common[index], self.found.stack[common[index]]
            before = prod(self.found.stack[other] for other in common[:index])
            if count == 1:
                found[loop] = "0"
            elif before == 1:
                found[loop] = left
            else:
                found[loop], rest = out.new_value(), out.new_value()
                out.line(f"{found[loop]} = {left} % {count}")
                out.line(f"{rest} = {left} // {count}")
                left = rest
        return found

    def _print_unit(self, places: dict[int, str]) -> None:
        """Print the loops over blocks of keys and queries."""
        out, found, schedule = self.printer, self.found, self.schedule
        order = [places[loop] for loop in range(len(found.stack))]
        operands = {**found.operands, **self._inputs()}
        starts = {
            name: self._advanced(
                self.addresses[name], zip(order, operand.outer, strict=True)
            )
            for name, operand in operands.items()
        }
        of_keys, of_queries = self._blocks
        key, query = out.new_loop(), out.new_loop()
        with out.block(f"for {key} in range({of_keys}):"):
            count = out.new_value()
            left = f"{found.keys} - {key} * {schedule.keys}"
            out.line(f"{count} = min({schedule.keys}, {left})")
            first = self._first(key)
            with out.block(f"for {query} in range({first}, {of_queries}):"):
                rows = out.new_value()
                left = f"{found.rows} - {query} * {schedule.queries}"
                out.line(f"{rows} = min({schedule.queries}, {left})")
                self._print_panels(starts, key, query, count, rows)
                for name in PRODUCTS:
                    begins = (
                        f"{key} == 0" if name == "q_grad" else f"{query} == {first}"
                    )
                    zero = [f"{places[n]} == 0" for n in found.missing[name]]
                    flag = out.new_value()
                    out.line(f"{flag} = 1 if {' and '.join((begins, *zero))} else 0")
                    self._print_product(name, starts, key, query, count, rows, flag)

    def _first(self, key: str) -> str:
        """
        The first block of queries that sees a key of a block; the last one if none
        does, which writes zeros then.
        """
        found, schedule = self.found, self.schedule
        if found.offset is None or self._blocks[1] == 1:
            return "0"
        name = self.printer.new_value()
        row = f"{key} * {schedule.keys} - {found.offset}"
        block = f"max(0, {row}) // {schedule.queries}"
        self.printer.line(f"{name} = min({self._blocks[1] - 1}, {block})")
        return name

    def _advanced(self, address: str, terms: Iterable[tuple[str, int]]) -> str:
        """Print an address some steps of elements further on."""
        text = sum_of((name, step * self.size) for name, step in terms)
        if text == "0":
            return address
        name = self.printer.new_value()
        self.printer.line(f"{name} = {address} + {text}")
        return name

    def _print_panels(
        self, starts: Mapping[str, str], key: str, query: str, count: str, rows: str
    ) -> None:
        """Print what makes the shares of a block, a panel of queries at a time."""
        out, width = self.printer, self.schedule.width
        whole = out.new_value()
        out.line(f"{whole} = {rows} // {width}")
        for piece in self._pieces():
            if piece.is_whole:
                panel = out.new_loop()
                with out.block(f"for {panel} in range({whole}):"):
                    self._print_panel(piece, starts, key, query, panel, count)
                continue
            with out.block(f"if {query} == {self._blocks[1] - 1}:"):
                self._print_panel(piece, starts, key, query, whole, count)

    def _print_panel(
        self,
        piece: Piece,
        starts: Mapping[str, str],
        key: str,
        query: str,
        panel: str,
        count: str,
    ) -> None:
        """Print what makes the shares of a panel of queries."""
        out, found, schedule = self.printer, self.found, self.schedule
        row = [(query, schedule.queries), (panel, schedule.width)]
        inputs = self._inputs()
        here = {
            name: self._advanced(
                starts[name],
                [
                    *((at, count * operand.row) for at, count in row),
                    (key, operand.key * schedule.keys),
                ],
            )
            for name, operand in {**found.operands, **inputs}.items()
            if name not in RESULTS
        }
        shares, sums = (
            self._advanced(self._panel(number), [(panel, schedule.width)])
            for number in (SHARES, SUMS)
        )
        for number, (name, length) in enumerate(
            (("q", found.terms), ("grad", found.depth))
        ):
            call = self._name("pack", number, piece.suffix)
            there = self._panel(number)
            out.line(f"{call}({here[name]}, {there}, {piece.used}, {length})")
        for number, (name, length, to) in enumerate(
            (("k", found.terms, shares), ("v", found.depth, sums))
        ):
            call = self._name("micro_kernel", number, piece.suffix)
            parts = here[name], self._panel(number), to, count
            ends = f"{piece.lanes}, {length}, 1, 1, ()"
            out.line(f"{call}({', '.join(parts)}, {ends})")
        given: list[str] = []
        for number, (name, operand) in enumerate(inputs.items()):
            given.append(here[name])
            if is_packed(operand):
                call = self._name("pack", 2 + number, piece.suffix)
                given[-1] = there = self._panel(INPUTS + number)
                out.line(f"{call}({here[name]}, {there}, {piece.used}, {count})")
        parts = [shares, sums, here["lse"], here["delta"], count]
        if found.offset is not None:
            seen = sum_of(row, found.offset + 1)
            parts.append(f"{seen} - {key} * {schedule.keys}")
        call = self._name("turn", 0, piece.suffix)
        out.line(f"{call}({', '.join(parts)}, {tuple_of(given)})")

    def _print_product(
        self,
        name: str,
        starts: Mapping[str, str],
        key: str,
        query: str,
        count: str,
        rows: str,
        flag: str,
    ) -> None:
        """Print what adds the products of a block with shares to a result."""
        out, found, schedule = self.printer, self.found, self.schedule
        factor = {"v_grad": "grad", "k_grad": "q", "q_grad": "k"}[name]
        steps = [(key, schedule.keys), (query, schedule.queries)]
        source, target = (
            self._advanced(
                starts[which],
                [
                    (steps[0][0], operand.key * steps[0][1]),
                    (steps[1][0], operand.row * steps[1][1]),
                ],
            )
            for which in (factor, name)
            for operand in (found.operands[which],)
        )
        lanes = schedule.tile[2]
        tiles, vectors = self._tiles(name)
        lines, depth = (rows, count) if name == "q_grad" else (count, rows)
        panel = self._panel(SHARES if name == "v_grad" else SUMS)
        call = self._name("micro_kernel", PRODUCTS[name])
        for tile in range(tiles):
            offset = tile * vectors * lanes * self.size
            ends = [
                f"{place} + {offset}" if tile else place for place in (source, target)
            ]
            used = lanes
            if tile == tiles - 1 and self._extent(name) % lanes:
                used = self._extent(name) % lanes
            parts = panel, *ends, lines, str(used), depth, flag, "1", "()"
            out.line(f"{call}({', '.join(parts)})")
