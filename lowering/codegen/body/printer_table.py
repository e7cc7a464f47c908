"""The printers of structured ops of a target, found in the modules of a package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules
from typing import ClassVar, Generic, TypeVar

from xdsl.ir import Attribute

from penstock.dialects.kernel.interface import SCHEDULE, StructuredOp


class StagePrinter(ABC):
    """A class of printers of structured ops that have schedules of some classes."""

    OP: ClassVar[type[StructuredOp]]
    SCHEDULES: ClassVar[tuple[type[Attribute], ...]]

    @classmethod
    @abstractmethod
    def misfit(cls, op: StructuredOp, schedule: Attribute) -> str | None:
        """The reason that the schedule cannot compute the op, if it cannot."""


P = TypeVar("P", bound=StagePrinter)


@dataclass(frozen=True)
class PrinterTable(Generic[P]):
    """The printers of a target."""

    printers: tuple[type[P], ...]

    def printer_of(self, op: StructuredOp) -> type[P] | str:
        """The printer of an op, which has a schedule, or why there is none."""
        schedule = op.attributes[SCHEDULE]
        for printer in self.printers:
            if isinstance(op, printer.OP) and isinstance(schedule, printer.SCHEDULES):
                return printer.misfit(op, schedule) or printer
        return f"{op.name} cannot be computed by {schedule} here"


def printers_in(package: str, base: type[P]) -> PrinterTable[P]:
    """The printers that derive from a class, in the modules of a package."""
    for module in iter_modules(import_module(package).__path__, f"{package}."):
        import_module(module.name)
    return PrinterTable(tuple(_leaves(base)))


def _leaves(base: type[P]) -> Iterator[type[P]]:
    """The classes that derive from a class and can be made."""
    for derived in base.__subclasses__():
        yield from _leaves(derived)
    if not isabstract(base):
        yield base
