"""
Files of results, which no reader ever sees half of, and kinds of files.
"""

import hashlib
import os
from pathlib import Path

from penstock.tools.driver.drafts import drafting
from penstock.tools.driver.errors import UsageError
from penstock.tools.driver.errors import explain_os_error as explain_os_error

READERS = {
    ".mlir": "is IR, which penstock-opt, penstock-run and Session.open read",
    ".onnx": "is an ONNX model, which penstock-run, penstock-import and "
    "penstock.OnnxSession read",
    ".penstock": "is a saved plan, which penstock-run and Session.open read",
}
"""The command that reads files of a kind, by the suffix of that kind."""


def refuse_others(path: Path, *suffixes: str) -> None:
    """Raise UsageError for an existing file of a kind that another command reads."""
    kind = path.suffix.lower()
    if kind in READERS and kind not in suffixes and path.is_file():
        raise UsageError(f"{path} {READERS[kind]}")


def write_whole(path: str, text: str) -> None:
    """
    Write `text` to `path` through a draft beside it, renamed when it is complete. A
    device or a pipe is written directly.

    Raises `UsageError` if that fails.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8")
        else:
            with drafting(target) as draft:
                draft.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {explain_os_error(error)}") from error


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file. Raises OSError if it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def path_of_rank(path: Path, rank: int) -> Path:
    """The file of a rank beside those of others, such as `plan-1.penstock`."""
    return path.with_name(f"{path.stem}-{rank}{path.suffix}")
