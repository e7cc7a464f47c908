"""
The printers of structured ops of a target: those in the modules of a package, and
plug-ins of the kind `kernel-schedule`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules
from typing import ClassVar, Generic, TypeVar, cast

from xdsl.ir import Attribute
from xdsl.utils.exceptions import DiagnosticException

from penstock.dialects.kernel.interface import REFUSAL, SCHEDULE, StructuredOp
from penstock.dialects.kernel.sums import SumOp
from penstock.dialects.launch import KernelOp
from penstock.lowering.codegen.body.epilogue import Unfit
from penstock.lowering.codegen.body.scheduling import set_schedule
from penstock.lowering.codegen.body.sums_split import split_sums
from penstock.plugins import PlugIn, PluginError, line_of_plugin, plugins_of, told

KIND = "kernel-schedule"
"""The kind of plug-ins that are printers."""

T = TypeVar("T")


@dataclass(frozen=True)
class Facts:
    """The facts of where a kernel runs that a schedule may depend on."""

    parts: int = 1
    """The number of threads that may share the work of a kernel on a CPU."""
    vector_bytes: int = 16
    """The bytes of a vector of the CPU."""
    processors: int = 1
    """The multiprocessors of the GPU."""


class StagePrinter(ABC):
    """A class of printers of structured ops that have schedules of some classes."""

    OP: ClassVar[type[StructuredOp]]
    SCHEDULES: ClassVar[tuple[type[Attribute], ...]]

    @classmethod
    def schedule_of(cls, op: StructuredOp, facts: Facts) -> Attribute | str:
        """
        The schedule that suits an op, or why it has none: of a plug-in, where a pass
        writes those of ours.
        """
        raise NotImplementedError(f"{cls.__name__}.schedule_of")

    @classmethod
    @abstractmethod
    def misfit(cls, op: StructuredOp, schedule: Attribute) -> str | None:
        """The reason that the schedule cannot compute the op, if it cannot."""

    @classmethod
    def unfit(cls, op: StructuredOp) -> Unfit:
        """
        The start and the finish of sums that the schedule leaves to stages around them,
        with the reasons.
        """
        return Unfit()


P = TypeVar("P", bound=StagePrinter)


@dataclass(frozen=True)
class PrinterTable(Generic[P]):
    """The printers of a target."""

    printers: tuple[type[P], ...]
    """Our own."""
    base: type[P]
    """The class of all printers of the target, those of plug-ins too."""

    def printer_of(self, op: StructuredOp) -> type[P] | str:
        """
        The printer of an op, which has a schedule, or why there is none. Raises
        `PluginError` if one fails.
        """
        schedule = op.attributes[SCHEDULE]
        for plugin, printer in self._printers_of(op):
            return _called(plugin, partial(printer.misfit, op, schedule)) or printer
        return f"{op.name} cannot be computed by {schedule} here"

    def fitted(self, op: SumOp) -> SumOp:
        """
        Sums with a schedule that leave what it does not compute to stages around them;
        the op itself if all fits. Raises `PluginError` if a printer fails.
        """
        for plugin, printer in self._printers_of(op) if op.held is not None else ():
            return split_sums(op, _called(plugin, partial(printer.unfit, op)))
        return op

    def _printers_of(self, op: StructuredOp) -> Iterator[tuple[PlugIn | None, type[P]]]:
        """The printers for an op and its schedule, ours first."""
        for printer in self.printers:
            if _is_for(printer, op):
                yield None, printer
        for plugin, printer in self.plug_ins():
            if _is_for(printer, op):
                yield plugin, printer

    def schedule_kernel(self, kernel: KernelOp, facts: Facts) -> None:
        """
        Give the stages of a kernel that we have no schedules for those of plug-ins, or
        say why they have none: each stage has a schedule or a reason once the passes of
        its target have run. Raises `PluginError` if a plug-in fails.
        """
        for op in kernel.body.block.ops:
            if not isinstance(op, StructuredOp):
                continue
            if SCHEDULE in op.attributes or REFUSAL in op.attributes:
                continue
            if any(isinstance(op, printer.OP) for printer in self.printers):
                continue
            found = self._schedule(op, facts)
            set_schedule(op, found or f"{kernel.compiled_for} has no schedule of it")

    def _schedule(self, op: StructuredOp, facts: Facts) -> Attribute | str | None:
        """The first schedule of a plug-in, or why the first one has none."""
        refusal: str | None = None
        for plugin, printer in self.plug_ins():
            if not isinstance(op, printer.OP):
                continue
            found = _called(plugin, lambda p=printer: p.schedule_of(op, facts))
            if isinstance(found, printer.SCHEDULES):
                return found
            if not isinstance(found, str):
                known = ", ".join(each.__name__ for each in printer.SCHEDULES)
                plugin.refuse(f"gives {op.name} the schedule {found}, no {known}")
            refusal = refusal or found
        return refusal

    def plug_ins(self) -> Iterator[tuple[PlugIn, type[P]]]:
        """
        The printers that plug-ins have for the target. Raises `PluginError` for one
        that cannot be made or that is for nothing.
        """
        for plugin in plugins_of(KIND):
            printer = cast("type[P]", plugin.thing)
            if issubclass(printer, self.base):
                _check(plugin, printer)
                yield plugin, printer


def _is_for(printer: type[StagePrinter], op: StructuredOp) -> bool:
    schedule = op.attributes[SCHEDULE]
    return isinstance(op, printer.OP) and isinstance(schedule, printer.SCHEDULES)


def _check(plugin: PlugIn, printer: type[StagePrinter]) -> None:
    if isabstract(printer):
        missing: frozenset[str] = getattr(printer, "__abstractmethods__", frozenset())
        plugin.refuse(f"has no {' and no '.join(sorted(missing))}")
    op: object = getattr(printer, "OP", None)
    if not (isinstance(op, type) and issubclass(op, StructuredOp)):
        plugin.refuse("has no OP, the class of the ops that it prints")
    schedules: object = getattr(printer, "SCHEDULES", None)
    if not isinstance(schedules, tuple) or not schedules:
        plugin.refuse("has no SCHEDULES, a tuple of the classes of schedules")


def _called(plugin: PlugIn | None, action: Callable[[], T]) -> T:
    """
    The result of an action of a plug-in, or of ours. Raises `PluginError` if a plug-in
    fails.
    """
    try:
        return action()
    except (DiagnosticException, PluginError):
        raise
    except Exception as error:
        if plugin is None:
            raise
        raise PluginError(f"{plugin} fails: {told(error)}") from error


def blamed(error: Exception) -> PluginError | None:
    """
    An error of a printer as that of the plug-in in whose file it was raised, if it was
    in one.
    """
    place = line_of_plugin(error)
    for plugin in plugins_of(KIND) if place is not None else ():
        if place is not None and plugin.place.startswith(f"{place[0]}:"):
            return PluginError(f"{plugin} fails: {told(error)}")
    return None


def printers_in(package: str, base: type[P]) -> PrinterTable[P]:
    """The printers that derive from a class, in the modules of a package."""
    for module in iter_modules(import_module(package).__path__, f"{package}."):
        import_module(module.name)
    ours = (each for each in _leaves(base) if each.__module__.startswith(package))
    return PrinterTable(tuple(ours), base)


def _leaves(base: type[P]) -> Iterator[type[P]]:
    """The classes that derive from a class and can be made."""
    for derived in base.__subclasses__():
        yield from _leaves(derived)
    if not isabstract(base):
        yield base
