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

from functools import partial

from penstock.lowering.codegen.cpu.matmul import (
    Addresses,
    MatmulPrinter,
    Places,
    listed,
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
        facts += self._input_facts(self._name("micro_kernel", tail))
        return [
            self._definition("transposed_micro_kernel", "micro_kernel", tail, facts)
        ]

    def _print_unit(self, places: Places, tail: bool, addresses: Addresses) -> None:
        found, schedule = self._lines(), self.schedule
        height, length = schedule.columns, schedule.block[0]
        row = self.contraction.stride(-1, self.contraction.row)
        operands = (
            (addresses.a, self.contraction.a, height * self.terms, 0),
            (
                addresses.b,
                self.contraction.b,
                0,
                length // found.columns * found.turn,
            ),
            (addresses.c, -1, height * row, length),
        )
        begins = [
            self._sum(
                address,
                places,
                operand,
                {
                    places.panel: partial(self._bytes, of_panel, "all", operand),
                    places.block: partial(self._bytes, of_block, "all", operand),
                },
            )
            for address, operand, of_panel, of_block in operands
        ]
        rest = [
            self._input_along(name, number, places)
            for number, name in enumerate(addresses.inputs)
        ]
        ends = self._ends_of(found, places.block)
        name = self._name("micro_kernel", tail)
        self._print_called(name, *begins, *ends, listed(rest))

    def _input_along(self, address: str, number: int, places: Places) -> str:
        """The address where the columns of a unit begin in an input."""
        input, role = self.group.finish.places[number], ("input", number)
        height, length = self.schedule.columns, self.schedule.block[0]
        steps = self._outer_steps(places, input.outer, *role) | {
            places.panel: partial(self._bytes, height * input.row, "all", *role),
            places.block: partial(self._bytes, length * input.column, "all", *role),
        }
        return self._summed(address, steps, input.offset * self.size, *role)

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
