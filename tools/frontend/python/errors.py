"""The error of a traced function, with its place in the source."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from os.path import dirname
from types import CodeType

import numpy as np
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.utils.diagnostics import Place
from penstock.runtime.errors import PenstockError

_NOT_THE_USERS = (dirname(__file__), dirname(np.__file__), contextlib.__file__)


class TraceError(PenstockError):
    """
    A function cannot be traced. `place` is the line of it that asks for what cannot be,
    with which the text begins; None if it is no line in particular.
    """

    def __init__(self, message: str, place: Place | None = None):
        super().__init__(message if place is None else f"{place}: {message}")
        self.place = place


def source_place() -> Place | None:
    """The expression of the user's source that is being evaluated."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage] -- no other way
    while frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        if frame.f_back is None:
            return None
        frame = frame.f_back
    columns = _columns(frame.f_code)
    column = columns[frame.f_lasti // 2] if columns else 0
    return Place(frame.f_code.co_filename, frame.f_lineno, column + 1)


@lru_cache(256)
def _columns(code: CodeType) -> tuple[int, ...]:
    """The column, from 0, in which each instruction's expression starts."""
    return tuple(start or 0 for _, _, start, _ in islice(code.co_positions(), None))


def location_of(place: Place) -> FileLineColLoc:
    """A place as the location of an op."""
    file, line, column = place
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))


def refuse(message: str) -> TraceError:
    """The error that the expression which is being evaluated cannot be."""
    return TraceError(message, source_place())


@contextmanager
def refusing(what: str) -> Generator[None]:
    """Name `what`, and the user's line, in what NumPy and verifiers complain about."""
    try:
        yield
    except (VerifyException, TypeError, ValueError, OverflowError) as error:
        raise refuse(f"{what}: {first_line(error)}") from None


def first_line(error: Exception) -> str:
    """The first line of an error's text, as our messages are written."""
    text = str(error).partition("\n")[0].rstrip(".")
    return text[:1].lower() + text[1:]
