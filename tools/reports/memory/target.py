"""The target `memory-report`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException
from xdsl.utils.target import Target

from penstock.tools.reports.memory.as_json import json_of, json_text
from penstock.tools.reports.memory.model import OWNERS
from penstock.tools.reports.memory.reports import NO_PLACES, reports_of
from penstock.tools.reports.memory.text import text_of

FORMATS = ("text", "json")


@dataclass(frozen=True)
class MemoryReportTarget(Target):
    """The target `memory-report`: the owners of the bytes of plans, and their times."""

    name: ClassVar[str] = "memory-report"

    format: str = "text"
    top: int = OWNERS
    """The number of registers in each table of the text."""

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            known = ", ".join(FORMATS)
            raise ValueError(f"unknown format '{self.format}', known are: {known}")
        if self.top < 1:
            raise ValueError(f"top must be at least 1, got {self.top}")

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        if not (reports := reports_of(module)):
            raise DiagnosticException(NO_PLACES)
        if self.format == "json":
            output.write(json_text(json_of(reports)) + "\n")
        else:
            output.write("\n".join(text_of(report, self.top) for report in reports))
