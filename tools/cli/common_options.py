"""
Options that all commands have: the version, completion in shells, and logging.
"""

from __future__ import annotations

import argparse
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Sequence

from penstock.tools.cli.results import say, write

SHELLS = ("bash", "zsh", "fish")


def add_common_options(
    parser: ArgumentParser, version: Sequence[str] = ("--version",)
) -> None:
    """
    Give a command the flags `--version`, `--completion`, `--debug-only` and `--json`.
    """
    parser.add_argument(
        *version, action=VersionAction, help="print the version, and exit"
    )
    parser.add_argument(
        "--completion",
        action=CompletionAction,
        choices=SHELLS,
        help="print a script that completes this command in a shell, and exit",
    )
    parser.add_argument(
        "--debug-only",
        metavar="NAME",
        type=debug_names,
        default=(),
        help="log to stderr the steps of passes or modules, with commas between: "
        "regst-plan-memory, runtime.jit, or all",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print reports and tables as JSON",
    )


def debug_names(text: str) -> tuple[str, ...]:
    """
    The names in a list with commas, which are logged from now on.

    Raises ArgumentTypeError for one that names nothing.
    """
    from penstock.tools.driver.errors import UsageError
    from penstock.tools.driver.logs import log_only

    names = tuple(name for name in text.split(",") if name)
    try:
        log_only(names)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return names


def version_text(program: str) -> str:
    """The versions of a command, and of what its results depend on."""
    import platform
    from importlib.metadata import version

    others = ", ".join(f"{name} {version(name)}" for name in ("xdsl", "numba"))
    python = platform.python_version()
    return f"{program} {version('penstock')} ({others}, python {python})"


class VersionAction(Action):
    """Prints the version of a command, and ends the process."""

    def __init__(
        self, option_strings: Sequence[str], dest: str, help: str | None = None
    ) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Print it."""
        say(version_text(parser.prog))
        parser.exit()


class CompletionAction(Action):
    """Prints the script for a shell, and ends the process."""

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Print it."""
        from penstock.tools.cli.command_parser import CommandParser
        from penstock.tools.cli.completion import script_for

        assert isinstance(parser, CommandParser), "all commands have one"
        write(script_for(str(values), parser))
        parser.exit()
