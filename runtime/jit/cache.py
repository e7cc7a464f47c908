"""
The folder on disk where compiled kernels stay between processes.

It is `PENSTOCK_CACHE_DIR`, else `penstock` in the user's cache folder. Where that
cannot be written, belongs to another user, or can be written to by others, a temporary
folder of this user alone takes its place for this process.

Entries, each under a content hash, may take `PENSTOCK_CACHE_BYTES` (by default 4 GiB):
the least recently used ones go, unless they were used a moment ago.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import platform
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from stat import S_IMODE, S_ISDIR

from penstock.cpu_target import flat_features
from penstock.runtime.jit.cache_files import ENTRY, is_private
from penstock.runtime.jit.package_digest import code_of, version_of

VARIABLE = "PENSTOCK_CACHE_DIR"
LIMIT_VARIABLE = "PENSTOCK_CACHE_BYTES"
DEFAULT_LIMIT = 4 << 30
SPARED = 600.0
"""Seconds since an entry was used in which it stays, as others may be at work on it."""
FILLED = 0.9
"""The share of the limit that entries may take after a clean-up."""
LOOKS = 64
"""Clean-ups while a process writes as many bytes as the limit: each takes a while."""
_PACKAGES = ("numba", "llvmlite", "numpy")


def user_cache_dir() -> Path:
    """The cache folder of this user."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def cache_dir() -> Path:
    """
    The folder for compiled kernels; it exists and can be written.

    Warns once for each folder that cannot be used.
    """
    wanted = os.environ.get(VARIABLE)
    return _usable(Path(wanted) if wanted else user_cache_dir() / "penstock")


@cache
def _usable(folder: Path) -> Path:
    if (reason := _reason_against(folder)) is None:
        return folder.absolute()
    warnings.warn(
        f"kernels are compiled anew in each process, as the cache folder {folder} "
        f"{reason}",
        RuntimeWarning,
        stacklevel=3,
    )
    temporary = Path(tempfile.mkdtemp(prefix="penstock-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return temporary


def _reason_against(folder: Path) -> str | None:
    """Why a folder, which is made if it is not there, cannot be the cache folder."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        # Code from a folder that others write to would be theirs.
        if not is_private(status):
            return _reason_of(status)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return f"cannot be written: {error.strerror}"


def _reason_of(status: os.stat_result) -> str:
    if status.st_uid != os.geteuid():
        return f"belongs to another user, of id {status.st_uid}"
    return f"can be written to by others (its mode is {S_IMODE(status.st_mode):03o})"


def size_limit() -> int:
    """
    The bytes that entries may take. Warns, once, of a limit that is no number from 0
    on, and goes by the default.
    """
    text = os.environ.get(LIMIT_VARIABLE, "").strip()
    return _limit_of(text) if text else DEFAULT_LIMIT


@cache
def _limit_of(text: str) -> int:
    if text.isdecimal():
        return int(text)
    warnings.warn(
        f"{LIMIT_VARIABLE} should be a number of bytes, got '{text}'",
        RuntimeWarning,
        stacklevel=4,
    )
    return DEFAULT_LIMIT


_written: int | None = None
"""Bytes that this process has written since it last looked at all entries."""


def make_room(written: int) -> None:
    """
    Keep the cache within its limit, after so many bytes were written: once in a process
    when it writes first, and each time it has written a share of the limit.
    """
    global _written
    limit = size_limit()
    _written = limit if _written is None else _written + written
    if _written * LOOKS >= limit:
        keep_within(limit, cache_dir())
        _written = 0


def keep_within(limit: int, folder: Path) -> int:
    """
    Delete entries of a cache folder, those first that were not used for longest, if all
    together take more than a limit in bytes. The number of bytes deleted.

    An entry is all that begins with the same 32 hexadecimal digits: files, or a folder.
    """
    entries = _entries(folder)
    total = sum(size for _, size, _ in entries)
    if total <= limit:
        return 0
    deleted = 0
    newest = time.time() - SPARED
    for used, size, paths in sorted(entries):
        if used > newest or total - deleted <= FILLED * limit:
            break
        for path in paths:
            _delete(path)
        deleted += size
    return deleted


def _entries(folder: Path) -> list[tuple[float, int, list[Path]]]:
    """The time of last use of each entry, its bytes, and its files."""
    found: dict[str, list[os.DirEntry[str]]] = {}
    with os.scandir(folder) as all_files:
        for file in all_files:
            if (match := ENTRY.match(file.name)) is not None:
                found.setdefault(match.group(), []).append(file)
    entries: list[tuple[float, int, list[Path]]] = []
    for files in found.values():
        stats = [stat for file in files for stat in _stats(file)]
        used = max(map(_last_use, stats), default=0.0)
        size = sum(stat.st_size for stat in stats)
        entries.append((used, size, [Path(file.path) for file in files]))
    return entries


def _last_use(stat: os.stat_result) -> float:
    # To list a folder is an access of it, too, which says nothing.
    is_folder = S_ISDIR(stat.st_mode)
    return stat.st_mtime if is_folder else max(stat.st_mtime, stat.st_atime)


def _stats(file: os.DirEntry[str]) -> Iterator[os.stat_result]:
    """The facts of a file, or of a folder and all that is inside."""
    # Others may be deleting, too.
    with suppress(OSError):
        yield file.stat()
        if file.is_dir():
            with os.scandir(file.path) as inside:
                for each in inside:
                    yield from _stats(each)


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink()


def content_hash(parts: Iterable[str]) -> str:
    """32 hexadecimal digits that stand for texts, this Python and this machine."""
    digest = hashlib.sha256()
    for part in (*parts, *environment()):
        data = part.encode()
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()[:32]


@cache
def environment() -> tuple[str, ...]:
    """The facts that compiled code depends on besides its source and our modules."""
    from llvmlite import binding

    # Our own modules are told apart by their texts.
    versions = [*map(code_of, _PACKAGES), f"penstock {version_of('penstock')}"]
    python = f"{sys.implementation.cache_tag} {platform.machine()}"
    return (*versions, python, binding.get_host_cpu_name(), flat_features())
