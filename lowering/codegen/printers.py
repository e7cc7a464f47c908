"""The schedules that targets have printers for: those of ours, as a list shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.lowering.codegen.body.printer_table import PrinterTable, StagePrinter
from penstock.lowering.codegen.cpu.stage_printer import printers as cpu_printers
from penstock.lowering.codegen.cuda.stage_printer import printers as cuda_printers


def printers_for(target: str) -> PrinterTable[Any] | None:
    """The printers of a target; None of one that is not ours."""
    tables = {"cpu": cpu_printers, "cuda": cuda_printers}
    return tables[target]() if target in tables else None


def _named() -> dict[str, type[StagePrinter]]:
    tables = {"cpu": cpu_printers(), "cuda": cuda_printers()}
    return {
        f"{target}:{printer.OP.name}:{schedule.name}": printer
        for target, table in tables.items()
        for printer in table.printers
        for schedule in printer.SCHEDULES
    }


BUILT_IN: Mapping[str, type[StagePrinter]] = _named()
"""Our own, by target, op and schedule."""
