"""Errors about the source of a kernel that cannot be compiled or run."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from traceback import walk_tb

from penstock.runtime.errors import KernelError, PenstockError

MODULE = "penstock_kernel_"
"""The prefix of the names of modules as which sources of kernels are run."""

_LINE = re.compile(r"\.py(?:\", line | \()(\d+)")
"""The pattern by which Numba names a line of the source that it compiles."""


@contextmanager
def compiling(kernel: str) -> Generator[None]:
    """Raise failures of the source of a kernel as a KernelError that names it."""
    try:
        yield
    except (MemoryError, OSError, PenstockError):
        raise
    except Exception as error:
        raise KernelError(kernel, _reason_of(error), _line_of(error)) from error


def _reason_of(error: Exception) -> str:
    """The first line of an exception, after the step that Numba names before it."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    lines = str(error).splitlines()
    if len(lines) > 1 and lines[0].startswith("Failed in "):
        return lines[1]
    return ": ".join([type(error).__name__, *lines[:1]])


def _line_of(error: Exception) -> int | None:
    """The line of a source that an exception is about, if it is known."""
    if isinstance(error, SyntaxError):
        return error.lineno
    lines = [
        line
        for frame, line in walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).startswith(MODULE)
    ]
    lines += map(int, _LINE.findall(str(error)))
    return lines[-1] if lines else None
