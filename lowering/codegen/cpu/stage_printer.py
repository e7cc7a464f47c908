"""
The interface of printers of structured ops that have a schedule for `cpu`.

A printer stands in a module of this package, next to no table: `printers` finds those
of all modules.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import ClassVar

from penstock.dialects.kernel.interface import StructuredOp
from penstock.lowering.codegen.body.printer_table import (
    PrinterTable,
    StagePrinter,
    printers_in,
)
from penstock.lowering.codegen.body.statements import BodyPrinter


class CpuStagePrinter(StagePrinter):
    """Prints a structured op as its schedule says."""

    NUMBERS: ClassVar[int] = 1
    """The numbers that its functions and buffers take of those of the kernel."""

    names: set[str]
    """The functions of the support modules that it uses."""

    @abstractmethod
    def __init__(self, printer: BodyPrinter, op: StructuredOp, number: int): ...

    @property
    @abstractmethod
    def parts(self) -> int:
        """The number of parts at most into which the work can be usefully cut."""

    @property
    def is_shared(self) -> bool:
        """Whether it is printed as the share of a part: of several parts, or of one."""
        return self.parts > 1

    @abstractmethod
    def definitions(self) -> Sequence[str]:
        """The lines of functions that stand before the kernel."""

    @abstractmethod
    def print(self, is_split: bool) -> None:
        """Print the stage, or the share of a part of it."""


@cache
def printers() -> PrinterTable[CpuStagePrinter]:
    """The printers of this package, by ops and schedules."""
    return printers_in("penstock.lowering.codegen.cpu", CpuStagePrinter)
