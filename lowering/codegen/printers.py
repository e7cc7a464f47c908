"""The schedules that targets have printers for: those of ours, as a list shows them."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.lowering.codegen.body.printer_table import StagePrinter
from penstock.lowering.codegen.cpu.stage_printer import printers as cpu_printers
from penstock.lowering.codegen.cuda.stage_printer import printers as cuda_printers


def _named() -> dict[str, type[StagePrinter]]:
    tables = {"cpu": cpu_printers().printers, "cuda": cuda_printers().printers}
    return {
        f"{target}:{printer.OP.name}:{schedule.name}": printer
        for target, printers in tables.items()
        for printer in printers
        for schedule in printer.SCHEDULES
    }


BUILT_IN: Mapping[str, type[StagePrinter]] = _named()
"""Our own, by target, op and schedule."""
