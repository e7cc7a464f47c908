"""
The interface of printers of structured ops that have a schedule for `cuda`.

A printer stands in a module of this package, next to no table: `printers` finds those
of all modules.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cache

from penstock.dialects.kernel.interface import StructuredOp
from penstock.lowering.codegen.body.printer_table import (
    PrinterTable,
    StagePrinter,
    printers_in,
)
from penstock.lowering.codegen.cuda.statements import DevicePrinter


class CudaStagePrinter(StagePrinter):
    """Prints a structured op as its schedule says."""

    @abstractmethod
    def __init__(self, printer: DevicePrinter, op: StructuredOp): ...

    @abstractmethod
    def print(self) -> None:
        """Print the functions of the stage, and list it among stages or calls."""


@cache
def printers() -> PrinterTable[CudaStagePrinter]:
    """The printers of this package, by ops and schedules."""
    return printers_in("penstock.lowering.codegen.cuda", CudaStagePrinter)
