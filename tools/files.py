"""Writing results so that no reader ever sees half of one, and telling files apart."""

import hashlib
import os
from pathlib import Path

from penstock.tools.errors import UsageError
from penstock.tools.errors import explain_os_error as explain_os_error


def write_whole(path: str, text: str) -> None:
    """
    Write `text` to `path` through a temporary file beside it, renamed when complete.

    A device or a pipe is written directly. Raises a `UsageError` if that fails.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8")
        else:
            _replace(target, text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {explain_os_error(error)}") from error


def _replace(target: Path, text: str) -> None:
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file. Raises OSError if it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
