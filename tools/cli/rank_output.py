"""The output of a rank that does not speak."""

from __future__ import annotations

import os
import sys
from io import TextIOBase
from pathlib import Path
from typing import IO, TextIO, cast

from penstock.tools.cli.results import results
from penstock.tools.driver.errors import UsageError, explain_os_error


def keep_output(rank: int, folder: Path | None) -> None:
    """
    Let the results of this process go nowhere, or to a file `rank-<n>.txt` in a folder,
    which then gets a copy of all else that it prints, too. Raises UsageError if there
    can be no such file.
    """
    if folder is None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), results().fileno())
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / f"rank-{rank}.txt").open(
            "w", buffering=1, encoding="utf-8", errors="backslashreplace"
        )
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {explain_os_error(error)}") from error
    os.dup2(file.fileno(), results().fileno())
    sys.stdout = sys.stderr = cast("TextIO", Copied(sys.stderr, file))


class Copied(TextIOBase):
    """A stream for text whose text goes to a file, too."""

    def __init__(self, shown: TextIO, kept: IO[str]):
        self._shown, self._kept = shown, kept

    def write(self, text: str, /) -> int:
        """Write text to both."""
        self._kept.write(text)
        return self._shown.write(text)

    def flush(self) -> None:
        """Flush both."""
        self._kept.flush()
        self._shown.flush()

    def fileno(self) -> int:
        """The file descriptor of the stream itself."""
        return self._shown.fileno()

    def isatty(self) -> bool:
        """Whether the stream itself is a terminal."""
        return self._shown.isatty()
