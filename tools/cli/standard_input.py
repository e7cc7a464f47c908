"""
The standard input as the input of a command, whatever it holds: IR, a model or a plan.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.tools.cli.exit_codes import exit_code_of
from penstock.tools.driver.errors import UsageError, explain_os_error
from penstock.tools.driver.files import path_of_rank

STDIN = Path("<stdin>")
"""The name of the standard input in messages."""

_STARTS = {b"PK\x03\x04": ".penstock", b"\x08": ".onnx"}
"""
The kind of file that begins so: a zip file, and a message of protocol buffers whose
first field is a number, as the version of ONNX is. No text of IR begins like that.
"""


def is_standard_input(file: Path) -> bool:
    """Whether a command line asks for the standard input."""
    return str(file) == "-"


def check_readable(file: Path) -> None:
    """
    Raise UsageError for an input that cannot be opened. A plan of ranks lies in files
    beside the one that is named.
    """
    try:
        if not file.exists() and path_of_rank(file, 0).exists():
            return
        with file.open("rb"):
            pass
    except OSError as error:
        raise UsageError(f"cannot read {file}: {explain_os_error(error)}") from error


def with_standard_input(
    args: argparse.Namespace, run: Callable[[argparse.Namespace], int]
) -> int:
    """
    The result of a command, whose `file` and `data` say its input: a file without data,
    or the bytes of IR and the name `STDIN`. Other kinds are put in a file for a while.
    """
    args.data = None
    if not is_standard_input(args.file):
        check_readable(args.file)
        return run(args)
    data = sys.stdin.buffer.read()
    found = (kind for start, kind in _STARTS.items() if data.startswith(start))
    if (suffix := next(found, None)) is None:
        args.file, args.data = STDIN, data
        return run(args)
    with TemporaryDirectory(prefix="penstock-") as folder:
        args.file = Path(folder, f"stdin{suffix}")
        args.file.write_bytes(data)
        return run(args)


def exit_code_on_input(
    args: argparse.Namespace, run: Callable[[argparse.Namespace], int], program: str
) -> int:
    """The exit code of a command with one input, as `exit_code_of` has it."""
    name = STDIN if is_standard_input(args.file) else args.file
    return exit_code_of(
        lambda: with_standard_input(args, run), program, name, debug=args.debug
    )
