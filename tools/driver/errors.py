"""
Errors of the tools. Raising, telling and catching them imports no library.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.runtime.errors import PenstockError
from penstock.runtime.errors import printable as printable

if TYPE_CHECKING:
    from penstock.dialects.utils.diagnostics import Place


class UsageError(PenstockError):
    """The command line, or a call, asks for something impossible."""


class FileError(UsageError):
    """
    A file that can be read does not hold what it should: the command line, or call, is
    right but for that.
    """


class InternalError(PenstockError):
    """
    A defect, shown by the exception that caused this one; `where` names its author, or
    is empty for ours. Of a defect in another process all that is known is what that
    has `said`.
    """

    def __init__(self, where: str, said: str | None = None) -> None:
        super().__init__(where)
        self.where, self.said = where, said

    def wording(self) -> str:
        if self.said is not None:
            return self.said
        cause = self.__cause__
        text = "no reason" if cause is None else f"{type(cause).__name__}: {cause}"
        where = f" in {self.where}" if self.where else ""
        return f"internal error{where}: {text}; please report it"


@dataclass(frozen=True)
class Diagnosis:
    """
    A diagnostic: a message with its place, further lines that explain it, and notes at
    other places.
    """

    place: Place | None
    message: str
    notes: tuple[str, ...] = ()
    severity: str = "error"
    """One of `error`, `warning`, `note` and `remark`."""
    related: tuple[Diagnosis, ...] = ()

    def render(self, fallback: str) -> str:
        """The text to print; `fallback` stands for an unknown place."""
        head = f"{self.place or fallback}: {self.severity}: {self.message}"
        related = (each.render(fallback) for each in self.related)
        return "\n".join((printable("\n".join((head, *self.notes))), *related))

    def describe(self, fallback: str | None = None) -> str:
        """
        The text of an exception; `fallback` stands for an unknown place, if it is
        known.
        """
        place = self.place or fallback
        head = self.message if place is None else f"{place}: {self.message}"
        related = (each.render(fallback or "") for each in self.related)
        return "\n".join((printable("\n".join((head, *self.notes))), *related))


class Rejected(PenstockError):
    """
    The input is not accepted, for all the reasons in `diagnoses`.

    The text has each of them from a new line on: its place, its message, and the lines
    of its notes. `file` is the input, the place of reasons that have none; None if it
    is no file.
    """

    def __init__(
        self, diagnoses: Sequence[Diagnosis], *, while_parsing: bool = False
    ) -> None:
        super().__init__(diagnoses)
        self.diagnoses = tuple(diagnoses)
        self.while_parsing = while_parsing
        self.file: str | None = None

    def wording(self) -> str:
        return "\n".join(found.describe(self.file) for found in self.diagnoses)


@contextmanager
def reading(file: str | Path) -> Generator[None]:
    """A context in which `Rejected` errors get the name of the file."""
    try:
        yield
    except Rejected as error:
        error.file = error.file or str(file)
        raise


@contextmanager
def needing_onnx() -> Generator[None]:
    """
    A context in which a missing `onnx` is a UsageError that says how to install it.
    """
    try:
        yield
    except ImportError as error:
        text = f"ONNX models need a package: pip install onnx ({error})"
        raise UsageError(text) from error


def explain_os_error(error: OSError) -> str:
    """The message of the operating system for an error, in lower case."""
    return (error.strerror or str(error)).lower()
