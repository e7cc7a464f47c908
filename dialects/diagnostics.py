"""
Errors that say where: places in source text, and failures of passes and verifiers with
a place.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import NamedTuple

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    NameLoc,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import PassFailedException, VerifyException
from xdsl.utils.hints import isa


class Place(NamedTuple):
    """A position in a text; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


def place_of(op: Operation) -> Place | None:
    """
    Say where `op` was written: the place of its own location or, for an operation
    that a pass made without one, of the nearest enclosing operation that has one.
    """
    ancestor: Operation | None = op
    while ancestor is not None:
        if (place := _place_in(ancestor.location)) is not None:
            return place
        ancestor = ancestor.parent_op()
    return None


def _place_in(location: Attribute) -> Place | None:
    match location:
        case FileLineColLoc():
            line, column = location.line.data, location.column.data
            return Place(location.filename.data, line, column)
        case NameLoc():
            return _place_in(location.location)
        case CallSiteLoc():
            return _place_in(location.callee)
        case FusedLoc():
            parts = map(_place_in, _parts_of(location))
            return next((place for place in parts if place is not None), None)
        case _:
            return None


def _parts_of(location: FusedLoc) -> Iterable[Attribute]:
    parts = location.locations
    return parts if isa(parts, ArrayAttr[Attribute]) else ()


class LocatedPassFailure(PassFailedException):
    """
    A pass cannot go on because of the given operations.

    Each pair is an operation and what is wrong with it. A driver prints one
    `file:line:col: error: pass-name: message` per pair, so a pass should gather all
    that is wrong before it raises.
    """

    complaints: tuple[tuple[Operation, str], ...]

    def __init__(self, complaints: Iterable[tuple[Operation, str]]) -> None:
        self.complaints = tuple(complaints)
        if not self.complaints:
            raise ValueError("a located pass failure needs at least one complaint")
        super().__init__("\n".join(message for _, message in self.complaints))


class LocatedVerifyException(VerifyException):
    """
    The verifier of an operation complains about operations inside of it: pairs of one
    and what is wrong with it.
    """

    def __init__(self, complaints: Iterable[tuple[Operation, str]]) -> None:
        self.complaints = tuple(complaints)
        super().__init__("\n".join(message for _, message in self.complaints))


@contextmanager
def verifying(op: Operation) -> Generator[None]:
    """Let what a verifier complains about be about `op`, which is inside of its own."""
    try:
        yield
    except LocatedVerifyException:
        raise
    except VerifyException as error:
        raise LocatedVerifyException([(op, str(error))]) from error


def refuse_if_any(complaints: Iterable[tuple[Operation, str]]) -> None:
    """Raise a `LocatedVerifyException` when there is at least one complaint."""
    if found := tuple(complaints):
        raise LocatedVerifyException(found)


def fail_if_any(complaints: Iterable[tuple[Operation, str]]) -> None:
    """Raise a `LocatedPassFailure` when there is at least one complaint."""
    if found := tuple(complaints):
        raise LocatedPassFailure(found)
