"""Cache folders of the machine code of this package, keyed by the texts of modules."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from penstock.runtime.jit.cache import cache_dir, content_hash
from penstock.runtime.jit.source_digest import digest_below

_CORE = frozenset({"runtime.core.entry_module"})
_PACKING = frozenset({"lowering.algorithms.packing.portfolio"})


def core_folder() -> Path:
    """A folder of the cache for the C functions of the core on this machine."""
    return cache_dir() / _key(_CORE)


def folder_of_module(name: str) -> Path:
    """A folder of the cache for compiled functions of a module of this package."""
    return cache_dir() / _key(frozenset({name.removeprefix("penstock.")}))


def packing_folder() -> Path:
    """
    A folder of the cache for the searches of `penstock.lowering.algorithms.packing`.
    """
    return cache_dir() / _key(_PACKING)


@cache
def _key(roots: frozenset[str]) -> str:
    return content_hash([digest_below(roots)])
