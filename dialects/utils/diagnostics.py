"""
Diagnostics: places in source text, of IR and of plug-ins' Python, and failures of
passes and verifiers with a place.
"""

import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import getsourcefile, getsourcelines
from typing import NamedTuple, TypeAlias

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import PassFailedException, VerifyException

from penstock.dialects.utils.hints import isa
from penstock.plugins import OURS, line_of_plugin
from penstock.plugins import told as told

Finding: TypeAlias = tuple[Operation, str]
"""A diagnostic: an op, and a message about it."""


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


def nodes_of(op: Operation) -> tuple[str, ...]:
    """The names of the nodes of a model that an op was made of, by its location."""
    return tuple(dict.fromkeys(_names_in(op.location)))


def _names_in(location: Attribute) -> Iterator[str]:
    match location:
        case NameLoc():
            yield location.desc.data
        case CallSiteLoc():
            yield from _names_in(location.callee)
        case FusedLoc():
            for part in _parts_of(location):
                yield from _names_in(part)
        case _:
            pass


def named_location(nodes: Sequence[str], place: FileLineColLoc | NoneAttr) -> Attribute:
    """
    The location of an op that was made of nodes of a model, the first of them at a
    place; `place` alone if there are none.
    """
    if not nodes:
        return place
    first, *others = (StringAttr(name) for name in nodes)
    named = [NameLoc(first, place), *(NameLoc(name, NoneAttr()) for name in others)]
    return named[0] if len(named) == 1 else FusedLoc(tuple(named), NoneAttr())


def fused_location(ops: Iterable[Operation]) -> LocationAttr:
    """The location of an op that takes the place of several, the first one's first."""
    found = [*dict.fromkeys(part for op in ops for part in _leaves(op.location))]
    is_one = len(found) < 2
    return (*found, UNKNOWN_LOC)[0] if is_one else FusedLoc(tuple(found), NoneAttr())


def _leaves(location: Attribute) -> Iterator[LocationAttr]:
    match location:
        case FusedLoc():
            for part in _parts_of(location):
                yield from _leaves(part)
        case CallSiteLoc() | FileLineColLoc() | NameLoc():
            yield location
        case _:
            pass


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


def user_place(error: BaseException) -> Place | None:
    """
    Say which line of a plug-in an exception came through last: of code that belongs
    neither to Penstock, nor to its libraries, nor to Python.
    """
    found = line_of_plugin(error)
    return None if found is None else Place(*found)


def definition_of(cls: type) -> Place | None:
    """Say where a class that is not ours is defined; None for one that is."""
    if cls.__module__.partition(".")[0] in OURS | sys.stdlib_module_names:
        return None
    try:
        file, (_, line) = getsourcefile(cls), getsourcelines(cls)
    except (OSError, TypeError):
        return None
    return None if file is None else Place(file, line, 1)


class LocatedPassFailure(PassFailedException):
    """
    A pass cannot go on because of the given operations.

    Each pair is an operation and a message. A driver prints one `file:line:col: error:
    pass-name: message` per pair, so a pass should gather all that is wrong before it
    raises.
    """

    findings: tuple[Finding, ...]

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        if not self.findings:
            raise ValueError("a located pass failure needs at least one finding")
        super().__init__("\n".join(message for _, message in self.findings))


class LocatedVerifyException(VerifyException):
    """
    The verifier of an operation complains about operations inside of it: pairs of one
    and what is wrong with it.
    """

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(message for _, message in self.findings))


@contextmanager
def verifying(op: Operation) -> Generator[None]:
    """Attribute a verifier's errors to `op`, which is inside of its own."""
    try:
        yield
    except LocatedVerifyException:
        raise
    except VerifyException as error:
        raise LocatedVerifyException([(op, str(error))]) from error


def refuse_if_any(findings: Iterable[Finding]) -> None:
    """Raise a `LocatedVerifyException` when there is at least one finding."""
    if found := tuple(findings):
        raise LocatedVerifyException(found)


def fail_if_any(findings: Iterable[Finding]) -> None:
    """Raise a `LocatedPassFailure` when there is at least one finding."""
    if found := tuple(findings):
        raise LocatedPassFailure(found)


def _warn_in_python(op: Operation, message: str) -> None:
    place = place_of(op)
    warnings.warn(message if place is None else f"{place}: {message}", stacklevel=3)


_listener: ContextVar[Callable[[Operation, str], None]] = ContextVar(
    "listener", default=_warn_in_python
)
"""The consumer of warnings about IR in the current context."""


def warn(op: Operation, message: str) -> None:
    """
    Say that something about an op is most likely a mistake, though it is accepted. A
    driver prints `file:line:col: warning: pass-name: message`; where there is none, it
    is a warning of Python.
    """
    _listener.get()(op, message)


@contextmanager
def listening(listener: Callable[[Operation, str], None]) -> Generator[None]:
    """Hear the warnings of what runs meanwhile."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
