"""
The source of matmuls on groups of terms: loops over micro-kernel calls, as for floats.

The micro-kernels on vectors are in `penstock.runtime.kernels.cpu.matmul.groups`, those
on AMX tile registers in `penstock.runtime.kernels.cpu.matmul.amx`.
"""

from __future__ import annotations

from penstock.dialects.launch.schedules.cpu_matmul import SIDE
from penstock.lowering.codegen.cpu.matmul import MatmulPrinter


class GroupMatmulPrinter(MatmulPrinter):
    """Prints a matmul: its micro-kernels, and the loops that call them."""

    _function = "group_micro_kernel"

    def _steps(self, terms: int) -> int:
        return -(-terms // self.contraction.group)

    def _counted(self, count: str) -> str:
        if count.isdigit():
            return str(self._steps(int(count)))
        group = self.contraction.group
        return f"({count} + {group - 1}) // {group}"

    @property
    def _last(self) -> list[str]:
        """The fact that functions are told of the terms of a last group, if any."""
        last = self.terms % self.contraction.group
        return [f"last={last}"] if last else []

    def _copied_rows(self) -> str:
        rows, _, lanes = self.schedule.tile
        facts = [str(self.contraction.factors), str(rows), str(lanes)]
        facts += [f"a={self.contraction.a_steps}", f"rest={self.rows % rows}"]
        return self._definition("pack_group_rows", "rows", False, [*facts, *self._last])

    def _micro_kernel(self, tail: bool) -> list[str]:
        rows, vectors, lanes = self.schedule.tile
        vectors = self._tail_vectors() if tail else vectors
        is_packed = self.schedule.packed
        width = vectors * lanes if is_packed else self._width(tail)
        facts = [str(self.contraction.factors), *map(str, (rows, vectors, lanes))]
        facts += [f"b={width}"]
        facts += self._common_facts(tail)
        lines = [self._definition(self._function, "micro_kernel", tail, facts)]
        if is_packed:
            lines.append(self._packed_columns(tail, vectors))
        return lines

    def _packed_columns(self, tail: bool, vectors: int) -> str:
        """The definition of what copies columns to a panel."""
        found, masked = self.contraction, ["masked=True"] * self._is_masked(tail)
        facts = [str(found.factors), str(vectors), str(self.schedule.tile[2])]
        if not self._packs_windows:
            facts += [str(found.b_steps), *masked, *self._last]
            if not tail:
                facts.append("ahead=True")
            return self._definition("pack_groups", "pack", tail, facts)
        loops = (*map(found.windows, (found.terms, found.columns)),)
        facts += [str(loops), *masked]
        if self.schedule.matrices:
            facts.append(f"whole={SIDE}")
        return self._definition("pack_group_windows", "pack", tail, facts)


class AmxMatmulPrinter(GroupMatmulPrinter):
    """Prints a matmul whose tiles are registers of matrices."""

    _function = "amx_micro_kernel"

    @property
    def _packs_windows(self) -> bool:
        # Panels end in zeros, so that registers are full.
        return True

    def _copied_rows(self) -> str:
        rows, depth = self.schedule.tile[0], self.schedule.block[1]
        facts = [str(rows), str(depth), f"a={self.contraction.a_steps}"]
        facts += [f"rest={self.rows % rows}"]
        return self._definition("pack_amx", "rows", False, facts)
