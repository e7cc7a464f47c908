"""The printer of `kernel.contract` for CPUs: tiles in vector registers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import SCHEDULE, StructuredOp
from penstock.dialects.launch.schedules.cpu_matmul import ContractionAttr
from penstock.lowering.codegen.body.epilogue import Unfit
from penstock.lowering.codegen.body.statements import BodyPrinter
from penstock.lowering.codegen.cpu.matmul import (
    Group,
    MatmulPrinter,
    group_of,
    unfit_of_tiles,
)
from penstock.lowering.codegen.cpu.matmul_groups import (
    AmxMatmulPrinter,
    GroupMatmulPrinter,
)
from penstock.lowering.codegen.cpu.matmul_transposed import TransposedMatmulPrinter
from penstock.lowering.codegen.cpu.stage_printer import CpuStagePrinter


def printer_of(group: Group) -> type[MatmulPrinter]:
    """The printer of a group's source."""
    if group.schedule.is_grouped:
        return AmxMatmulPrinter if group.schedule.matrices else GroupMatmulPrinter
    return TransposedMatmulPrinter if group.schedule.is_transposed else MatmulPrinter


class ContractPrinter(CpuStagePrinter):
    """Prints a contraction in tiles, with what starts and finishes its sums."""

    OP = ContractOp
    SCHEDULES = (ContractionAttr,)

    def __init__(self, printer: BodyPrinter, op: StructuredOp, number: int):
        group = group_of(op, op.attributes[SCHEDULE])
        assert isinstance(group, Group), "asked by misfit"
        self._tiles = printer_of(group)(printer, group, number)
        self.names = self._tiles.names

    @classmethod
    def misfit(cls, op: StructuredOp, schedule: Attribute) -> str | None:
        found = group_of(op, schedule)
        return found if isinstance(found, str) else None

    @classmethod
    def unfit(cls, op: StructuredOp) -> Unfit:
        return unfit_of_tiles(op)

    @property
    def parts(self) -> int:
        return self._tiles.group.parts

    @property
    def is_shared(self) -> bool:
        return self._tiles.is_shared

    def definitions(self) -> Sequence[str]:
        return self._tiles.definitions()

    def print(self, is_split: bool) -> None:
        self._tiles.print_loops(is_split)
