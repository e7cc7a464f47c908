"""
The source of contractions in transposed tiles: loops over panels of rows.

    for i0 in range(<units> * part // parts, <units> * (part + 1) // parts):
        ...where unit i0 begins: other loops, rows, columns...
        micro_kernel_0(...)

A unit is the rows of one panel, along the columns of one block. Columns are cut into
tiles by `penstock.lowering.codegen.cpu.transposed_tiles`; the micro-kernel is in
`penstock.runtime.kernels.cpu.matmul.transposed_tile`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.lowering.codegen.body.epilogue import is_trivial
from penstock.lowering.codegen.cpu.matmul import (
    Addresses,
    MatmulPrinter,
    Places,
    input_facts,
)
from penstock.lowering.codegen.cpu.transposed_tiles import Lines, lines_of


class TransposedMatmulPrinter(MatmulPrinter):
    """
    Prints a group: definitions of its micro-kernels, and the loops that call them.
    """

    def _lines(self) -> Lines:
        found = lines_of(self.contraction, self.schedule.tile[0])
        assert found is not None, "checked by misfit"
        return found

    def _kinds(self) -> list[bool]:
        """
        The kinds of micro-kernel calls: of whole panels, and of the last rows (True).
        """
        whole, rest = divmod(self.rows, self.schedule.columns)
        return [False] * bool(whole) + [True] * bool(rest)

    def _micro_kernel(self, tail: bool) -> list[str]:
        _, vectors, lanes = self.schedule.tile
        if tail:
            vectors = self.rows % self.schedule.columns // lanes
        found = self._lines()
        # A sum of one term has no loop.
        terms = self.contraction.windows(self.contraction.terms) or ((1, 0),)
        facts = [
            *(f'"{self.contraction.element}"', str(vectors), str(lanes)),
            f"terms={terms}",
            f"tiles={found.tiles}",
            f"steps={found.steps}",
            f"turn={found.turn}",
            f"c={self.contraction.stride(-1, self.contraction.row)}",
        ]
        if found.tail[0]:
            facts.append(f"tail={found.tail}")
        if not is_trivial(self.group.finish):
            facts += input_facts(self.group.finish, self.number)
        return [
            self._definition("transposed_micro_kernel", "micro_kernel", tail, facts)
        ]

    def _print_unit(self, places: Places, tail: bool, addresses: Addresses) -> None:
        found, schedule = self._lines(), self.schedule
        of_outer = self._outer_steps(places)
        height, length = schedule.columns, schedule.block[0]
        panel, block = places.panel, places.block
        in_a = [*of_outer(self.contraction.a), (panel, height * self.terms)]
        a = self._sum(addresses.a, in_a, self._offset(self.contraction.a))
        in_b = (block, length // found.columns * found.turn)
        steps = [*of_outer(self.contraction.b), in_b]
        b = self._sum(addresses.b, steps, self._offset(self.contraction.b))
        row = self.contraction.stride(-1, self.contraction.row)
        in_c = [*of_outer(-1), (panel, height * row), (block, length)]
        c = self._sum(addresses.c, in_c, self._offset(-1))
        rest = [
            self._sum(
                name,
                [
                    *zip(places.outer, input.outer, strict=True),
                    (panel, height * input.row),
                    (block, length * input.column),
                ],
                input.offset,
            )
            for name, input in zip(
                addresses.inputs, self.group.finish.places, strict=True
            )
        ]
        comma = "," if len(rest) == 1 else ""
        arguments = a, b, c, *self._ends_of(found, block), f"({', '.join(rest)}{comma})"
        self.printer.line(f"{self._name('micro_kernel', tail)}({', '.join(arguments)})")

    def _outer_steps(
        self, places: Places
    ) -> Callable[[int], Sequence[tuple[str, int]]]:
        """Where the other loops are, and what a turn of each adds to an operand."""

        def steps(operand: int) -> Sequence[tuple[str, int]]:
            access = self.contraction.nest.accesses[operand]
            strides = self.contraction.outer_strides(access)
            return [*zip(places.outer, strides, strict=True)]

        return steps

    def _offset(self, operand: int) -> int:
        return self.contraction.nest.accesses[operand].offset

    def _ends_of(self, found: Lines, block: str) -> tuple[str, str]:
        """The turns of a unit, and whether the tail is part of it."""
        turns = self.schedule.block[0] // found.columns
        has_tail = int(found.tail[0] > 0)
        if block == "0":
            return str(found.turns), str(has_tail)
        count = str(turns)
        if self.group.blocks * turns != found.turns:
            count = f"min({turns}, {found.turns} - {block} * {turns})"
        last = self.group.blocks - 1
        return count, f"{block} == {last}" if has_tail else "0"
