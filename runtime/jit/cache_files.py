"""
Files of the cache folder: one that is damaged, or not this user's, counts as missing.

Machine code from the cache is run, so a file is used only if no other user can have
written it: it belongs to this user, and neither group nor others may write to it. Each
file begins with a line that has the checksum of the rest and of its own name:

    penstock kept <SHA-256>

A file that cannot be written, as where a disk is full, is not kept.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

ENTRY = re.compile("[0-9a-f]{32}")
"""The pattern of the names of cache entries: a content hash first."""
FOR_USER = 0o600
"""The mode of a file that its user alone can read and write."""
_MAGIC = b"penstock kept "


def is_private(status: os.stat_result) -> bool:
    """Whether only this user can have written to a file, or made files in a folder."""
    if sys.platform == "win32":
        # Owners and modes say nothing there; folders of users are theirs alone.
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def read_kept(path: Path) -> bytes | None:
    """The data of a kept file; None if it is missing, damaged or not this user's."""
    with suppress(OSError), open(path, "rb", opener=_open_at_once) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or not is_private(status):
            return None
        first, _, data = file.read().partition(b"\n")
        if first == _first_line(path, data):
            mark_used(path)
            return data
    return None


def keep(path: Path, data: bytes) -> bool:
    """Keep bytes as a file of an entry, whose folder is made; False if it cannot be."""
    return keep_text(path, _first_line(path, data) + b"\n" + data)


def keep_text(path: Path, data: bytes) -> bool:
    """
    Write a file of an entry that only people read, and that has no checksum; False if
    it cannot be written.
    """
    with suppress(OSError):
        clear(path)
        write_atomically(path, data)
        return True
    return False


def clear(path: Path) -> None:
    """
    Make the folder for a file of an entry, and delete a folder in place of the file, or
    a file in place of the folder. Raises OSError.
    """
    if not path.parent.is_dir():
        path.parent.unlink(missing_ok=True)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that others see it whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def mark_used(path: Path) -> None:
    """Note that a file of an entry was used now, as its time of access."""
    with suppress(OSError):
        written = path.stat().st_mtime_ns
        os.utime(path, ns=(time.time_ns(), written))


def _first_line(path: Path, data: bytes) -> bytes:
    # With its name, so that a file cannot take the place of another one.
    digest = hashlib.sha256(f"{_name(path)}\n".encode())
    digest.update(data)
    return _MAGIC + digest.hexdigest().encode()


def _name(path: Path) -> str:
    """The name of a file within the cache folder: of its entry, and its own."""
    inside = ENTRY.fullmatch(path.parent.name) is not None
    return f"{path.parent.name}/{path.name}" if inside else path.name


def _open_at_once(path: str, flags: int) -> int:
    """Open a file; a pipe in its place is not waited for."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
