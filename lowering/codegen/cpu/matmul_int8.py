"""
The source of int8 matmuls: loops over micro-kernel calls, as for floats.

The micro-kernels on vectors are in `penstock.runtime.kernels.cpu.matmul.int8`, those on
AMX tile registers in `penstock.runtime.kernels.cpu.matmul.amx`. Columns are always
packed as windows are.
"""

from __future__ import annotations

from penstock.dialects.launch.schedules.cpu_matmul import GROUP, SIDE
from penstock.lowering.codegen.cpu.matmul import MatmulPrinter


class Int8MatmulPrinter(MatmulPrinter):
    """
    Prints a group: definitions of its micro-kernels, and the loops that call them.
    """

    _function = "int8_micro_kernel"

    @property
    def _packs_windows(self) -> bool:
        return True

    def _steps(self, terms: int) -> int:
        return -(-terms // GROUP)

    def _counted(self, count: str) -> str:
        if count.isdigit():
            return str(self._steps(int(count)))
        return f"({count} + {GROUP - 1}) // {GROUP}"

    def _copied_rows(self) -> str:
        rows, _, lanes = self.schedule.tile
        facts = [str(self.contraction.signs), str(rows), str(lanes)]
        facts += [str(self.schedule.block[1]), f"a={self.contraction.a_steps}"]
        facts += [f"rest={self.rows % rows}"]
        return self._definition("pack_int8_rows", "rows", False, facts)

    def _micro_kernel(self, tail: bool) -> list[str]:
        rows, vectors, lanes = self.schedule.tile
        vectors = self._tail_vectors() if tail else vectors
        is_packed = self.schedule.packed
        width = vectors * lanes if is_packed else self._width(tail)
        facts = [str(self.contraction.signs), *map(str, (rows, vectors, lanes))]
        facts += [f"b={width}"]
        facts += self._common_facts(tail)
        lines = [self._definition(self._function, "micro_kernel", tail, facts)]
        if is_packed:
            found = self.contraction
            loops = (*map(found.windows, (found.terms, found.columns)),)
            facts = [str(vectors), str(lanes), str(loops)]
            if self._is_masked(tail):
                facts.append("masked=True")
            if self.schedule.matrices:
                facts.append(f"whole={SIDE}")
            lines.append(self._definition("pack_int8", "pack", tail, facts))
        return lines


class AmxMatmulPrinter(Int8MatmulPrinter):
    """Prints a group whose tiles are registers of matrices."""

    _function = "amx_micro_kernel"

    def _copied_rows(self) -> str:
        rows, depth = self.schedule.tile[0], self.schedule.block[1]
        facts = [str(rows), str(depth), f"a={self.contraction.a_steps}"]
        facts += [f"rest={self.rows % rows}"]
        return self._definition("pack_amx", "rows", False, facts)
