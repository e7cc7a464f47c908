"""
Exit codes of the commands, and the printing of their errors.

It imports nothing before it is needed: a start from the cache needs little.
"""

from __future__ import annotations

import os
import sys
import traceback
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path

from penstock.runtime.errors import PeerError, PenstockError, TaskError, WatchdogError
from penstock.tools.cli.command_parser import EXIT_USAGE as EXIT_USAGE
from penstock.tools.cli.command_parser import CommandParser as CommandParser
from penstock.tools.cli.results import reserved_output
from penstock.tools.driver.errors import (
    FileError,
    InternalError,
    Rejected,
    UsageError,
    printable,
)

EXIT_FAILED = 1
"""A file does not hold what it should, or a run or a check has failed."""
EXIT_INTERNAL = 70
"""A defect."""
EXIT_PEER = 75
"""Another rank has failed, or has ended."""
EXIT_INTERRUPTED = 130
"""Ctrl-C."""


def exit_code_of(
    run: Callable[[], int], program: str, file: Path, *, debug: bool
) -> int:
    """
    The exit code of a command: the result of `run`, or the code of an error that it
    raises, which is printed on standard error.

    `file` is the input, the place of errors that name none; with `debug` the traceback
    of a defect is printed, too.
    """
    try:
        with reserved_output():
            return run()
    except PenstockError as error:
        return _code_of(error, program, file, debug=debug)
    except BrokenPipeError:
        # The reader is gone; Python must not complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except MemoryError as error:
        text = f"out of memory: {error}".removesuffix(": ")
        return fail(program, text, EXIT_FAILED)
    except KeyboardInterrupt as error:
        # A run notes the loops that it was in.
        notes = getattr(error, "__notes__", ())
        return fail(program, "; ".join(["interrupted", *notes]), EXIT_INTERRUPTED)
    except Exception as error:
        return fail_inside(program, unexpected("", error), debug=debug)


def _code_of(error: PenstockError, program: str, file: Path, *, debug: bool) -> int:
    """Print an error of ours, and return the exit code."""
    code = EXIT_FAILED
    where, text = program, str(error)
    match error:
        case PeerError():
            # The rank that has failed says why.
            return EXIT_PEER
        case InternalError():
            return fail_inside(program, error, debug=debug)
        case UsageError():
            code = usage_code(error)
        case TaskError():
            where, text = error.place or program, error.reason
        case WatchdogError():
            # Its report has been printed.
            text = error.summary
        case _:
            pass
    if error.is_told:
        return code
    if isinstance(error, Rejected):
        if debug and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        for diagnosis in error.diagnoses:
            print(diagnosis.render(error.file or str(file)), file=sys.stderr)
        return code
    return fail(where, text, code)


def usage_code(error: UsageError) -> int:
    """The exit code of a wrong command line, or of a wrong file that it names."""
    return EXIT_FAILED if isinstance(error, FileError) else EXIT_USAGE


def fail(where: str, message: str, code: int) -> int:
    """Print an error of a program, or at a place, and return the exit code."""
    print(printable(f"{where}: error: {message}"), file=sys.stderr)
    return code


def unexpected(where: str, cause: Exception) -> InternalError:
    """The defect behind an exception that no code expects."""
    error = InternalError(where)
    error.__cause__ = cause
    return error


def fail_inside(program: str, error: InternalError, *, debug: bool) -> int:
    """Print a defect, and return the exit code; with `debug` after its traceback."""
    if debug:
        traceback.print_exception(error.__cause__ or error)
    hint = "" if debug else " (--debug shows the traceback)"
    return fail(program, f"{error}{hint}", EXIT_INTERNAL)


def add_debug_option(parser: ArgumentParser) -> None:
    """Give a command the flag `--debug`."""
    parser.add_argument(
        "--debug", action="store_true", help="show Python tracebacks of internal errors"
    )
