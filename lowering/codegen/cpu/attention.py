"""
The source of attention that has a schedule: loops over blocks of queries and keys.

    for i0 in range(<units> * part // parts, <units> * (part + 1) // parts):
        pack_0(...)                        # queries, so that SIMD lanes run along them
        for i1 in range(0, <keys>, <block>):
            micro_kernel_0(...)            # scores: queries times keys
            turn_0(...)                    # their exponentials, and the running totals
            micro_kernel_1(...)            # values, added to the rows of the result
        logarithms_0(...)                  # of the totals, if they are wanted

If attention is causal, the loop over keys ends with the last one that a query of the
block sees, and exponentials of those that only some of them see are 0 for the others.

A unit is a block of queries for one iteration of all other loops. Units write different
rows, so any part of a kernel may compute any of them at any time. The called functions
are in `penstock.runtime.kernels.cpu.matmul.tile`,
`penstock.runtime.kernels.cpu.matmul.packing` and
`penstock.runtime.kernels.cpu.attention`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.ir import Attribute, SSAValue

from penstock.dialects.kernel.attention import AttentionOp
from penstock.dialects.kernel.interface import SCHEDULE, StructuredOp
from penstock.dialects.launch.schedules.cpu_attention import AttentionAttr
from penstock.lowering.codegen.body.attention import (
    Attention,
    Operand,
    Scores,
    attention_of,
    kept_as,
)
from penstock.lowering.codegen.body.statements import sum_of
from penstock.lowering.codegen.cpu.attention_pieces import Piece, pieces_of, tiles_of
from penstock.lowering.codegen.cpu.stage_printer import CpuStagePrinter
from penstock.lowering.codegen.cpu.vector_loop import InnerLoopScalars

if TYPE_CHECKING:
    from penstock.lowering.codegen.body.statements import BodyPrinter

BYTES = {"f32": 4, "f64": 8}
KEPT = 4
"""The numbers that are kept of each row between blocks of keys."""
DECAY, SHARE = 2, 3
"""The two of them that the epilogue of tiles uses."""
WORK_OF_A_PART = 400_000
"""Scalar operations that are worth a part of their own."""
MAX_INPUTS = 8
MAX_ROWS = 8
MAX_STACK_BYTES = 1 << 18
"""
The bytes that all panels of a block may take. Any thread may run a kernel: some systems
give those that are not the first 512 KiB for all they do.
"""
AT_ONCE = 4
"""The vectors of scores of a row that are looked at at once."""


@dataclass(frozen=True)
class AttentionGroup:
    """Attention with a schedule."""

    attention: Attention
    schedule: AttentionAttr

    @property
    def queries(self) -> int:
        """The rows of a block of queries."""
        return queries_of(self.attention, self.schedule)

    @property
    def blocks(self) -> int:
        """The blocks that the rows are divided into."""
        return -(-self.attention.rows // self.queries)

    @property
    def units(self) -> int:
        """The pieces of work that are independent."""
        return prod(self.attention.outer) * self.blocks

    @property
    def parts(self) -> int:
        """The number of parts that the work is worth."""
        return max(1, min(self.units, self.attention.work // WORK_OF_A_PART))


def cpu_attention_of(op: AttentionOp) -> Attention | str:
    """The facts of attention, or why no schedule at all can be used for it."""
    found = attention_of(op)
    if isinstance(found, str):
        return found
    if (kept := kept_as(op)) != found.element:
        return f"elements are {kept or 'of several types'}, scores {found.element}"
    return unfit(found) or found


def attention_misfit(attention: Attention, schedule: AttentionAttr) -> str | None:
    """Why a schedule cannot be used for attention, or None if it can."""
    if (why := unfit(attention)) is not None:
        return why
    elements = sum(panels_of(attention, schedule).values())
    if (size := elements * BYTES[attention.element]) > MAX_STACK_BYTES:
        return (
            f"{size} bytes of panels are more than the stack allows: {MAX_STACK_BYTES}"
        )
    if schedule.is_columns:
        return None
    if attention.rows > MAX_ROWS:
        return f"{attention.rows} rows are more than {MAX_ROWS}"
    columns = attention.q.column, attention.k.column
    if attention.terms > 1 and columns != (1, 1):
        return "the terms of keys do not follow each other"
    return None


def unfit(attention: Attention) -> str | None:
    """Why no schedule at all can be used for attention, or None if one can."""
    extents = (*attention.outer, attention.rows, attention.terms, attention.depth)
    if 0 in extents or not attention.keys:
        return "there are no elements"
    columns = attention.v.column, attention.out.column
    if attention.depth > 1 and columns != (1, 1):
        return "the elements of values do not follow each other"
    if len(attention.inputs) > MAX_INPUTS:
        return f"scores are made of more than {MAX_INPUTS} inputs"
    return None


def is_packed(operand: Operand) -> bool:
    """Whether an input of scores along queries is brought in their order first."""
    return operand.row not in (0, 1)


def queries_of(attention: Attention, schedule: AttentionAttr) -> int:
    """The rows of a block of queries."""
    if not schedule.is_columns:
        return attention.rows
    _, vectors, lanes = schedule.tile
    return vectors * lanes


def panels_of(attention: Attention, schedule: AttentionAttr) -> dict[int, int]:
    """The elements of panels: of queries, scores, what is kept, and inputs."""
    rows, keys = queries_of(attention, schedule), schedule.keys
    if not schedule.is_columns:
        return {1: keys * rows, 2: KEPT * rows}
    keys = min(keys, attention.keys)
    packed = {
        3 + number: keys * rows
        for number, (_, operand) in enumerate(attention.inputs)
        if is_packed(operand)
    }
    return {0: attention.terms * rows, 1: keys * rows, 2: KEPT * rows, **packed}


class AttentionPrinter(CpuStagePrinter):
    """Prints attention: the definitions of what is called, and the loops."""

    OP = AttentionOp
    SCHEDULES = (AttentionAttr,)
    NUMBERS = MAX_INPUTS + 4

    def __init__(self, printer: BodyPrinter, op: StructuredOp, number: int):
        schedule = op.attributes[SCHEDULE]
        assert isinstance(op, AttentionOp), "found by its op"
        assert isinstance(schedule, AttentionAttr), "found by its schedule"
        attention = cpu_attention_of(op)
        assert isinstance(attention, Attention), "no misfit"
        self.printer, self.number = printer, number
        self.group = AttentionGroup(attention, schedule)
        self.attention, self.schedule = attention, schedule
        self.element = self.attention.element
        self.size = BYTES[self.element]
        self.names = set()

    @classmethod
    def misfit(cls, op: StructuredOp, schedule: Attribute) -> str | None:
        assert isinstance(op, AttentionOp), "found by its op"
        assert isinstance(schedule, AttentionAttr), "found by its schedule"
        found = cpu_attention_of(op)
        why = found if isinstance(found, str) else attention_misfit(found, schedule)
        return None if why is None else f"{schedule} does not fit {op.name}: {why}"

    @property
    def parts(self) -> int:
        return self.group.parts

    @property
    def is_once(self) -> bool:
        """Whether one block has all keys."""
        return self.attention.keys <= self.schedule.keys

    @property
    def _panels(self) -> tuple[int, int]:
        """The number of tiles in a row of the result, and the vectors of each."""
        _, _, lanes = self.schedule.tile
        return tiles_of(self.attention.depth, lanes, self.schedule.mix[1])

    def _pieces(self) -> list[Piece]:
        """The kinds of blocks: whole ones, and that of what is left."""
        _, vectors, lanes = self.schedule.tile
        return pieces_of(self.attention.rows, self.group.queries, vectors, lanes)

    # Definitions

    def definitions(self) -> list[str]:
        lines = ["", "", *self._score(), ""]
        for piece in self._pieces():
            if self.schedule.is_columns:
                lines += self._columns(piece)
            else:
                lines += self._rows(piece)
            lines.append(self._mix(piece))
            if (lse := self.attention.lse) is not None:
                facts = [str(self._kept(piece)), str(lse.row)]
                lines.append(
                    self._definition("kept_logarithms", "logarithms", 0, piece, facts)
                )
        return lines

    def _kept(self, piece: Piece) -> int:
        """The numbers that are kept of each fact of rows."""
        return piece.width if self.schedule.is_columns else piece.queries

    def _score(self) -> list[str]:
        """The function that makes a score of an accumulator."""
        name = f"finish_{self.number}"
        return score_function(self.printer, name, self.attention.scores)

    def _columns(self, piece: Piece) -> list[str]:
        q, k = self.attention.q, self.attention.k
        width, lanes = piece.width, piece.lanes
        lines = [self._pack(piece, 0, (q.column, q.row))]
        facts = [str(self.schedule.tile[0]), str(piece.vectors), str(lanes)]
        facts += [f"a={(k.key, k.column)}", f"b={width}", f"c={width}"]
        facts.append(f"rest={self.attention.keys % self.schedule.tile[0]}")
        lines.append(
            self._definition("outer_micro_kernel", "micro_kernel", 0, piece, facts)
        )
        steps: list[tuple[int, int]] = []
        for number, (_, operand) in enumerate(self.attention.inputs):
            if is_packed(operand):
                steps.append((width, 1))
                line = self._pack(piece, 1 + number, (operand.key, operand.row))
                lines.append(line)
            else:
                steps.append((operand.key, operand.row))
        facts = [str(piece.vectors), str(lanes), f"finish_{self.number}"]
        facts += [f"inputs={steps}", f"queries={piece.queries}", *self._causal]
        lines.append(self._definition("column_shares", "turn", 0, piece, facts))
        return lines

    def _pack(self, piece: Piece, number: int, steps: tuple[int, int]) -> str:
        facts = [str(piece.vectors), str(piece.lanes), str(steps)]
        if piece.queries % piece.lanes:
            facts.append("masked=True")
        return self._definition("pack", "pack", number, piece, facts)

    def _rows(self, piece: Piece) -> list[str]:
        q, k = self.attention.q, self.attention.k
        tile, _, lanes = self.schedule.tile
        facts = [str(tile), "1", str(lanes), f"a={k.key}", f"b={q.row}", "c=1"]
        facts.append(f"rest={self.attention.keys % tile}")
        kernel = "inner_micro_kernel"
        lines = [self._definition(kernel, "micro_kernel", 0, piece, facts)]
        steps = [(operand.key, operand.row) for _, operand in self.attention.inputs]
        facts = [str(AT_ONCE), str(lanes), f"finish_{self.number}", f"inputs={steps}"]
        facts += [f"rows={piece.queries}", f"width={self.schedule.keys}"]
        facts += self._causal
        lines.append(self._definition("row_shares", "turn", 0, piece, facts))
        return lines

    def _mix(self, piece: Piece) -> str:
        v, out = self.attention.v, self.attention.out
        rows, lanes = self.schedule.mix[0], piece.lanes
        of_powers = (1, piece.width) if self.schedule.is_columns else self._line
        facts = [str(rows), str(self._panels[1]), str(lanes), f"a={of_powers}"]
        facts += [f"b={v.key}", f"c={out.row}", f"rest={piece.queries % rows}"]
        if self.attention.depth % lanes:
            facts.append("masked=True")
        name = "mixed_once" if self.is_once else "mixed"
        inputs = [(1, 0)] if self.is_once else [(out.row, 1), (1, 0), (1, 0)]
        facts += [f"inputs={inputs}", f"finish={name}"]
        self.names.add(name)
        return self._definition("outer_micro_kernel", "micro_kernel", 1, piece, facts)

    @property
    def _causal(self) -> list[str]:
        """The facts that limit shares to the keys that a query sees."""
        return [] if self.attention.offset is None else ["causal=True"]

    @property
    def _line(self) -> tuple[int, int]:
        """From a row of scores, and from a score, to the next in the form `rows`."""
        return self.schedule.keys, 1

    def _definition(
        self, function: str, name: str, offset: int, piece: Piece, facts: Sequence[str]
    ) -> str:
        self.names.add(function)
        text = ", ".join((f'"{self.element}"', *facts))
        return f"{self._name(name, offset, piece)} = {function}({text})"

    def _name(self, name: str, offset: int, piece: Piece) -> str:
        return f"{name}_{self.number + offset}{piece.suffix}"

    # Loops

    def print(self, is_split: bool) -> None:
        out, units = self.printer, self.group.units
        self.names.update(("address_of", "scratch"))
        addresses = self._addresses()
        self._print_scratch()
        unit = out.new_loop()
        ends = f"{units} * part // parts, {units} * (part + 1) // parts"
        with out.block(f"for {unit} in range({ends if is_split else units}):"):
            outer, block = self._places(unit)
            pieces = self._pieces()
            if len(pieces) == 1:
                self._print_unit(pieces[0], addresses, outer, block)
                return
            with out.block(f"if {block} < {self.group.blocks - 1}:"):
                self._print_unit(pieces[0], addresses, outer, block)
            with out.block("else:"):
                self._print_unit(pieces[1], addresses, outer, block)

    def _operands(self) -> list[Operand]:
        found = self.attention
        inputs = [operand for _, operand in found.inputs]
        sums = [] if found.lse is None else [found.lse]
        return [found.q, found.k, found.v, found.out, *inputs, *sums]

    def _addresses(self) -> list[str]:
        """The addresses of queries, keys, values, the result and inputs of scores."""
        known: dict[SSAValue, str] = {}
        for operand in self._operands():
            if operand.memref not in known:
                name = known[operand.memref] = self.printer.new_value()
                buffer = self.printer.name(operand.memref)
                self.printer.line(f"{name} = address_of({buffer})")
        return [known[operand.memref] for operand in self._operands()]

    def _print_scratch(self) -> None:
        """Print where panels lie."""
        panels = panels_of(self.attention, self.schedule)
        for number, elements in panels.items():
            self.printer.line(
                f"{self._panel(number)} = scratch({elements * self.size})"
            )

    def _panel(self, number: int) -> str:
        return f"panel_{self.number + number}"

    def _places(self, unit: str) -> tuple[Sequence[str], str]:
        """Print where a unit is: the turns of the other loops, and its block."""
        counts, names, left = [*self.attention.outer, self.group.blocks], [""], unit
        names.clear()
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
        block, *outer = names
        return tuple(reversed(outer)), block

    def _print_unit(
        self, piece: Piece, addresses: Sequence[str], outer: Sequence[str], block: str
    ) -> None:
        out, attention = self.printer, self.attention
        starts = [
            self._start(name, operand, outer, block)
            for name, operand in zip(addresses, self._operands(), strict=True)
        ]
        if self.schedule.is_columns:
            used = str(piece.used)
            parts = starts[0], self._panel(0), used, str(attention.terms)
            out.line(f"{self._name('pack', 0, piece)}({', '.join(parts)})")
        with out.restoring_depth():
            seen = self._seen(piece, block)
            key, count, ends = "0", seen, ["1", "1"]
            if not self.is_once:
                block_keys = self.schedule.keys
                key, count = out.new_loop(), out.new_value()
                out.open(f"for {key} in range(0, {seen}, {block_keys}):")
                out.line(f"{count} = min({block_keys}, {seen} - {key})")
                first, last = out.new_value(), out.new_value()
                out.line(f"{first} = 1 if {key} == 0 else 0")
                out.line(f"{last} = 1 if {key} + {block_keys} >= {seen} else 0")
                ends = [first, last]
            if attention.offset is not None:
                ends.append(self._shown(block, key))
            moved = [
                self._moved(start, operand, key)
                for start, operand in zip(starts, self._operands(), strict=True)
            ]
            self._print_scores(piece, starts[0], moved[1], count)
            inputs = moved[4 : 4 + len(attention.inputs)]
            self._print_shares(piece, inputs, count, ends)
            self._print_mixing(piece, moved[2], starts[3], count)
        if attention.lse is not None:
            name = self._name("logarithms", 0, piece)
            out.line(f"{name}({self._panel(2)}, {starts[-1]}, {piece.queries})")

    def _seen(self, piece: Piece, block: str) -> str:
        """
        The number of keys that a block of queries reads: those that its last one sees,
        and the others of their tile.
        """
        keys, tile = self.attention.keys, self.schedule.tile[0]
        if self.attention.offset is None:
            return str(keys)
        most = piece.queries + self.attention.offset + tile - 1
        text = sum_of([(block, self.group.queries)], most)
        name = self.printer.new_value()
        self.printer.line(f"{name} = min({keys}, ({text}) // {tile} * {tile})")
        return name

    def _shown(self, block: str, key: str) -> str:
        """
        The number of keys from one on that the first query of a block sees; or less
        than 0.
        """
        assert self.attention.offset is not None, "attention is causal"
        text = sum_of([(block, self.group.queries)], self.attention.offset + 1)
        return text if key == "0" else f"{text} - {key}"

    def _start(
        self, address: str, operand: Operand, outer: Sequence[str], block: str
    ) -> str:
        """Print the address of an operand where a unit begins."""
        terms = [
            *zip(outer, operand.outer, strict=True),
            (block, operand.row * self.group.queries),
        ]
        text = sum_of((name, step * self.size) for name, step in terms)
        if text == "0":
            return address
        name = self.printer.new_value()
        self.printer.line(f"{name} = {address} + {text}")
        return name

    def _moved(self, address: str, operand: Operand, key: str) -> str:
        """The address where a block of keys begins."""
        if key == "0" or not operand.key:
            return address
        return f"{address} + {key} * {operand.key * self.size}"

    def _print_scores(self, piece: Piece, q: str, k: str, count: str) -> None:
        """Print what makes the sums of products of a block."""
        out, terms = self.printer, str(self.attention.terms)
        name = self._name("micro_kernel", 0, piece)
        if self.schedule.is_columns:
            parts = k, self._panel(0), self._panel(1), count, str(piece.lanes), terms
            out.line(f"{name}({', '.join(parts)}, 1, 1, ())")
            return
        for row in range(piece.queries):
            here = f"{q} + {row * self.attention.q.row * self.size}" if row else q
            offset = row * self.schedule.keys * self.size
            there = f"{self._panel(1)} + {offset}" if row else self._panel(1)
            out.line(f"{name}({k}, {here}, {there}, {count}, 1, {terms}, 1, 1, ())")

    def _print_shares(
        self, piece: Piece, inputs: Sequence[str], count: str, ends: Sequence[str]
    ) -> None:
        """Print what makes powers of the scores of a block."""
        out, given = self.printer, list(inputs)
        used = str(piece.used)
        for number, (_, operand) in enumerate(self.attention.inputs):
            if self.schedule.is_columns and is_packed(operand):
                panel, name = (
                    self._panel(3 + number),
                    self._name("pack", 1 + number, piece),
                )
                out.line(f"{name}({given[number]}, {panel}, {used}, {count})")
                given[number] = panel
        parts = self._panel(1), self._panel(2), count, *ends, tuple_of(given)
        out.line(f"{self._name('turn', 0, piece)}({', '.join(parts)})")

    def _print_mixing(self, piece: Piece, v: str, target: str, count: str) -> None:
        """Print what adds the values of a block to the rows of the result."""
        out, lanes = self.printer, piece.lanes
        panels, vectors = self._panels
        kept = self._kept(piece) * self.size
        facts = [f"{self._panel(2)} + {fact * kept}" for fact in (DECAY, SHARE)]
        for panel in range(panels):
            offset = panel * vectors * lanes * self.size
            here, there = (
                f"{name} + {offset}" if panel else name for name in (v, target)
            )
            used = lanes
            if panel == panels - 1 and self.attention.depth % lanes:
                used = self.attention.depth % lanes
            given = facts[1:] if self.is_once else [there, *facts]
            parts = self._panel(1), here, there, str(piece.queries), str(used), count
            name = self._name("micro_kernel", 1, piece)
            out.line(f"{name}({', '.join(parts)}, 1, 1, {tuple_of(given)})")


def score_function(printer: BodyPrinter, name: str, scores: Scores) -> list[str]:
    """The function that makes what a region yields, of vectors."""
    scalars = InnerLoopScalars()
    names: dict[SSAValue, str] = {scores.sum: "s"}
    inputs = [f"p{number}" for number in range(len(scores.inputs))]
    names.update(zip(scores.inputs, inputs, strict=True))

    def add_constants(values: Sequence[SSAValue]) -> None:
        for value in values:
            if isinstance(owner := value.owner, arith.ConstantOp):
                names[value] = scalars.constant(owner.value) or ""

    lines = [f"def {name}({', '.join(('x', 's', *inputs))}):"]
    for number, op in enumerate(scores.changes):
        add_constants(op.operands)
        text = scalars.expression(op, [names[value] for value in op.operands])
        assert text is not None, "there is an op for vectors"
        names[op.results[0]] = f"v{number}"
        lines.append(f"    v{number} = {text}")
    add_constants(scores.made)
    lines.append(f"    return {', '.join(names[value] for value in scores.made)}")
    printer.scalars.names |= scalars.names - {"compared", "both", "either"}
    return lines


def tuple_of(texts: Sequence[str]) -> str:
    """A tuple in Python."""
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
