"""Where the machine code of the compiled core is kept, by the modules that make it."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

from penstock.runtime.cache import cache_dir, content_hash
from penstock.runtime.module_texts import digest_below

_ENTRY = frozenset({"runtime.core_entry"})


def core_folder() -> Path:
    """A folder of the cache for the C functions of the core on this machine."""
    return cache_dir() / _key()


@cache
def _key() -> str:
    return content_hash([digest_below(_ENTRY)])


@cache
def pieces_folder() -> Path:
    """
    A folder beside the modules for what Numba makes of single functions, which other
    texts of these modules have another one in place of.
    """
    parent = Path(__file__).with_name("__pycache__")
    folder = parent / f"core-{digest_below(_ENTRY)[:32]}"
    if not folder.exists():
        for old in parent.glob("core-*"):
            shutil.rmtree(old, ignore_errors=True)
    return folder
