"""
Leases on entries of the cache: of several processes that need an entry, such as the
ranks of one host, one makes it, and the others wait for it.

A lease is a lock on a file beside the entry, which the system gives up when its process
ends, however that ends. The file goes with the lease. Where there are no such locks, or
no file can be written, each process makes the entry itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

SUFFIX = ".lease"


@contextmanager
def lease(entry: Path, *, wait: bool = True) -> Generator[bool]:
    """
    Hold the lease on the file of an entry. The value says whether this process may make
    it: it has no lease only if another one has, and it was not to wait.
    """
    path = entry.with_name(entry.name + SUFFIX)
    try:
        held = _hold(path, wait=wait)
    except OSError:
        yield True
        return
    if held is None:
        yield False
        return
    try:
        yield True
    finally:
        # Before the lock goes, so that the next one sees that the file is another one.
        with suppress(OSError):
            path.unlink()
        os.close(held)


def _hold(path: Path, *, wait: bool) -> int | None:
    """The locked file at a path; None if another process has it."""
    if sys.platform == "win32":
        raise OSError("no locks of whole files")
    import fcntl

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
    while True:
        held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, flags)
            if _is_at(held, path):
                return held
        except BlockingIOError:
            os.close(held)
            return None
        except BaseException:
            os.close(held)
            raise
        os.close(held)


def _is_at(held: int, path: Path) -> bool:
    """Whether an open file still has its path: who had the lease before removed it."""
    try:
        return os.path.samestat(os.fstat(held), path.stat())
    except FileNotFoundError:
        return False
