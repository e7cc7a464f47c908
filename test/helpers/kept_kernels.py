"""
Machine code of kernels that goes from one run of the tests to the next.

Each run compiles into a cache folder of its own, in which links stand for the kernels
of former runs. A kernel has the key that it has for users: a hash of its source, of all
that it imports, of the compiler and of the CPU. So a kernel is compiled anew where one
of these has changed, and nowhere else. Plans and measured times are not kept.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from penstock.runtime.jit.cache import keep_within, user_cache_dir
from penstock.runtime.jit.cache_files import ENTRY

LIMIT = 1 << 30
"""The bytes that the kernels of former runs may take."""
FILES = ("kernel.o", "kernel.cubins")


def kept_folder() -> Path | None:
    """
    The folder of kernels of former runs, which is made if it is not there; None if it
    cannot be made.
    """
    folder = user_cache_dir() / "penstock-tests"
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder
    return None


def link_kept(cache: Path, kept: Path) -> None:
    """Make the kernels of former runs entries of a cache folder."""
    for entry in _kernels_in(kept):
        # Other workers may be as far.
        with suppress(FileExistsError):
            (cache / entry.name).symlink_to(entry)


def keep_new(cache: Path, kept: Path) -> None:
    """Copy the kernels of a cache folder that no former run has made."""
    for entry in _kernels_in(cache):
        if not entry.is_symlink() and not (kept / entry.name).exists():
            _copy(entry, kept)
    keep_within(LIMIT, kept)


def _kernels_in(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        is_entry = ENTRY.fullmatch(entry.name) is not None
        if is_entry and any((entry / name).is_file() for name in FILES):
            yield entry


def _copy(entry: Path, kept: Path) -> None:
    """Copy an entry so that other runs see it whole or not at all."""
    aside = Path(tempfile.mkdtemp(dir=kept, prefix=".new-"))
    # Another run may keep it now, or its files may go while they are copied.
    with suppress(OSError):
        for name in FILES:
            if (entry / name).is_file():
                shutil.copy2(entry / name, aside / name)
        aside.rename(kept / entry.name)
        return
    shutil.rmtree(aside, ignore_errors=True)
