"""
Entry points of the installed commands, which Ctrl-C ends quietly from their first
moment on, and whose warnings take a line each.

The tools take a while to import, so each is imported where an interrupt is expected.
"""

import gc
import os
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import NoReturn, cast

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
GC_THRESHOLDS = (10_000, 20, 20)
"""
Thresholds of the garbage collector, as `gc.set_threshold` takes them: what commands
import is made of cycles that stay.
"""


def compare() -> NoReturn:
    """Run `penstock-compare` on the arguments of this process."""
    _run("penstock-compare", "compare_variants")


def importer() -> NoReturn:
    """Run `penstock-import` on the arguments of this process."""
    _run("penstock-import", "import_model")


def opt() -> NoReturn:
    """Run `penstock-opt` on the arguments of this process."""
    _run("penstock-opt", "opt")


def reduce() -> NoReturn:
    """Run `penstock-reduce` on the arguments of this process."""
    _run("penstock-reduce", "reduce")


def run() -> NoReturn:
    """Run `penstock-run` on the arguments of this process."""
    _run("penstock-run", "run")


def simulate() -> NoReturn:
    """Run `penstock-simulate` on the arguments of this process."""
    _run("penstock-simulate", "simulate")


def view() -> NoReturn:
    """Run `penstock-view` on the arguments of this process."""
    _run("penstock-view", "view")


def _run(program: str, module: str) -> NoReturn:
    """Run the tool in a module of `penstock.tools.cli` under its command's name."""
    gc.set_threshold(*GC_THRESHOLDS)
    _prepare(program)
    try:
        code = import_module(f"penstock.tools.cli.{module}").run_tool()
    except KeyboardInterrupt:
        is_quiet = program == "penstock-opt"
        code = EXIT_INTERRUPTED if is_quiet else _interrupted(program)
    finally:
        # The last collections of Python would look at all there is, for a fifth of the
        # time of a short command.
        gc.freeze()
    sys.exit(_flushed(program) or code)


def _flushed(program: str) -> int:
    """The exit code 1 after an error where there is no room for the output, else 0."""
    try:
        sys.stdout.flush()
    except OSError as error:
        import os

        # Python must not try again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return EXIT_FAILED
        reason = (error.strerror or str(error)).lower()
        text = f"{program}: error: cannot write the standard output: {reason}"
        print(text, file=sys.stderr)
        return EXIT_FAILED
    return 0


def _prepare(program: str) -> None:
    _open_closed_streams()
    from penstock.runtime.jit.first_start import first_start
    from penstock.runtime.jit.numba_settings import ignore_settings_files

    ignore_settings_files()
    _escape_names_in_what_is_printed()
    first_start.listener = _show_first_start
    _tell_warnings_of(program)


def _open_closed_streams() -> None:
    """Let the standard streams that are closed lead nowhere: Python has None there."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(nowhere, "w", encoding="utf-8"))


class _Escaping(TextIOWrapper):
    """A stream that escapes control characters, which names may be full of."""

    def __init__(self, plain: TextIOWrapper):
        facts = plain.encoding, "backslashreplace"
        super().__init__(plain.buffer, *facts, line_buffering=plain.line_buffering)
        # A stream that nothing holds any more closes the buffer, which is shared.
        self._plain = plain

    def write(self, text: str, /) -> int:
        """Write text with control characters escaped."""
        from penstock.runtime.errors import printable

        # A line that shows progress is drawn over itself.
        parts = text.split("\r") if self is sys.stderr else [text]
        super().write("\r".join(map(printable, parts)))
        return len(text)


def _escape_names_in_what_is_printed() -> None:
    """
    Let the standard streams print names of any script in any locale, with control
    characters escaped as in errors.
    """
    for name in ("stdout", "stderr"):
        stream: object = getattr(sys, name)
        if isinstance(stream, TextIOWrapper):
            setattr(sys, name, _Escaping(cast("TextIOWrapper", stream)))


def _tell_warnings_of(program: str) -> None:
    """Print warnings without the line of Python that they come from."""
    import warnings

    from penstock.runtime.errors import printable

    def line(message: Warning | str, *place: object) -> str:
        return f"{printable(f'{program}: warning: {message}')}\n"

    warnings.formatwarning = line


def _show_first_start(what: str, functions: int) -> None:
    from penstock.tools.driver.progress import show_first_start

    show_first_start(what, functions)


def _interrupted(program: str) -> int:
    print(f"{program}: error: interrupted", file=sys.stderr)
    return EXIT_INTERRUPTED
