"""
The standard output of a command, which has its results alone: text that plug-ins print
would spoil IR or JSON there, and goes to standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from typing import TextIO

_reserved: ContextVar[TextIO | None] = ContextVar("reserved", default=None)


@contextmanager
def reserved_output() -> Generator[None]:
    """A context in which `print` goes to standard error, and `results` does not."""
    token = _reserved.set(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _reserved.reset(token)


def results() -> TextIO:
    """The stream of results."""
    return _reserved.get() or sys.stdout


def say(text: str) -> None:
    """Print a line among the results."""
    print(text, file=results())


def write(text: str) -> None:
    """Write text among the results, at once."""
    stream = results()
    stream.write(text)
    stream.flush()


def write_to(path: str, text: str) -> None:
    """Write text to a file, or among the results where the path is `-`."""
    from penstock.tools.driver.files import write_whole

    if path == "-":
        write(text)
        return
    write_whole(path, text)
