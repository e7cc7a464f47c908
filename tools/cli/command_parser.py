"""
The argument parser of all commands: an error is one line, with the nearest name that is
known; and each command has the same flags for its version and for the shell.
"""

from __future__ import annotations

import sys
from argparse import SUPPRESS, Action, ArgumentError, ArgumentParser
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from penstock.tools.cli.results import results
from penstock.tools.driver.errors import UsageError, printable

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

EXIT_USAGE = 2
"""A bad command line."""

_UNKNOWN = "unrecognized arguments: "
"""The beginning of Python's message about arguments that nobody knows."""


class CommandParser(ArgumentParser):
    """An argument parser whose errors are one line, without a list of all options."""

    raises = False
    """Whether an error is raised as a UsageError: else it ends the process."""

    def error(self, message: str) -> NoReturn:
        """Print an error of the command line, and end the process."""
        if message.startswith(_UNKNOWN):
            message = self._unknown(message.removeprefix(_UNKNOWN).split(" ")[0])
        if self.raises:
            raise UsageError(message)
        print(printable(f"{self.prog}: error: {message}"), file=sys.stderr)
        sys.exit(EXIT_USAGE)

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print all options, among the results of a command."""
        super().print_help(file or results())

    def _unknown(self, word: str) -> str:
        from penstock.tools.driver.diagnostics import suggest

        if not word.startswith("-"):
            return f"unexpected argument '{word}'"
        name = word.partition("=")[0]
        near = suggest(name, list(self.flags()))
        return f"unknown option '{name}'{near} ({self.prog} --help lists all)"

    def complete(self, flag: str, names: Iterable[str]) -> None:
        """Let shells complete the values of a flag, lists with commas, by names."""
        self.names[flag] = tuple(names)

    @cached_property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The names that shells complete the values of a flag by."""
        return {}

    def flags(self) -> dict[str, Action]:
        """The flags that are shown, each with what it does."""
        return {
            flag: action
            for action in self._actions
            for flag in action.option_strings
            if action.help is not SUPPRESS
        }

    def actions(self) -> list[Action]:
        """All options that are shown, and the positional arguments."""
        return [action for action in self._actions if action.help is not SUPPRESS]

    def groups(self) -> list[tuple[str, list[Action]]]:
        """The titles of the groups of arguments, each with its own."""
        return [(x.title or "", x._group_actions) for x in self._action_groups]

    def _check_value(self, action: Action, value: object) -> None:
        if action.choices is None or value in action.choices:
            return
        from penstock.tools.driver.diagnostics import suggest

        known = [str(choice) for choice in action.choices]
        near = suggest(str(value), known)
        listed = ", ".join(known)
        text = f"unknown value '{value}'{near} (known: {listed})"
        raise ArgumentError(action, text)
