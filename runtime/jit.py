"""
Compiling the source of CPU kernels, once for all processes.

A kernel's source is written to the cache folder as `<hash>/kernel.py`, where the hash
covers all that its machine code depends on; Numba keeps the machine code beside it. A
third file, `kernel.sum`, has the checksum of Numba's files: those that do not match it
are thrown away and made anew.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Protocol, cast

from numba.core import config

from penstock.runtime.cache import cache_dir, content_hash, write_atomically


class _CFunction(Protocol):
    """What is used of Numba's compiled C functions."""

    address: int
    cache_hits: int

    @property
    def ctypes(self) -> Callable[[int, int, int], int]:
        """The function as one that Python can call."""
        ...


@dataclass(frozen=True)
class CompiledKernel:
    """
    A kernel in machine code. Its address is good as long as this object is alive.
    """

    name: str
    address: int
    """Of a C function `int32(int64 args, int64 part, int64 parts)`."""
    parts: int
    """The most parts that are of use: what the source says as `PARTS`, or 1."""
    from_cache: bool
    """Whether the machine code was found on disk."""
    function: _CFunction

    def __call__(self, args: int, part: int = 0, parts: int = 1) -> int:
        """
        Run a part of the kernel on the row of words at the address `args`.

        Returns 0, or 1 + the index of the assertion that failed.
        """
        return self.function.ctypes(args, part, parts)


_SLP = "SLP_VECTORIZE"
"""Numba's setting, of which its types do not know."""

_compiled: dict[str, CompiledKernel] = {}
_lock = Lock()


def compile_cpu(source: str, name: str) -> CompiledKernel:
    """
    The machine code of a module text that defines the C function `kernel`.

    The same text is compiled once per process. `name` is for people: it is the name in
    tracebacks and of no influence.
    """
    key = content_hash([source])
    with _lock:
        if key not in _compiled:
            _compiled[key] = _load(source, key, name)
        return _compiled[key]


def _load(source: str, key: str, name: str) -> CompiledKernel:
    # A folder each: to look for a kernel's files takes no longer the more there are.
    path = cache_dir() / key / "kernel.py"
    path.parent.mkdir(exist_ok=True)
    data = source.encode()
    if not path.exists() or path.read_bytes() != data:
        write_atomically(path, data)
    checksum = path.with_suffix(".sum")
    if not _is_intact(path, checksum):
        _remove_machine_code(path)
    module = _execute(source, path, f"penstock_kernel_{key}")
    function = cast("_CFunction", module["kernel"])
    parts = cast("int", module.get("PARTS", 1))
    if not function.cache_hits:
        write_atomically(checksum, _sum_of(path).encode())
    cached = bool(function.cache_hits)
    return CompiledKernel(name, function.address, parts, cached, function)


def _execute(source: str, path: Path, name: str) -> dict[str, object]:
    """
    The names of a module text, run as a module, which Numba looks up when it loads
    code.
    """
    module = ModuleType(name)
    sys.modules[module.__name__] = module
    with _more_vectors():
        exec(compile(source, str(path), "exec"), module.__dict__)
    return module.__dict__


@contextmanager
def _more_vectors() -> Generator[None]:
    """Vectorise loops that are unrolled too, such as the inner ones of convolutions."""
    before = cast("int", getattr(config, _SLP))
    setattr(config, _SLP, 1)
    try:
        yield
    finally:
        setattr(config, _SLP, before)


def _machine_code(path: Path) -> Iterator[Path]:
    """Numba's files for a module."""
    for suffix in ("nbi", "nbc"):
        yield from sorted((path.parent / "__pycache__").glob(f"*.{suffix}"))


def _sum_of(path: Path) -> str:
    digest = hashlib.sha256()
    for file in _machine_code(path):
        # Another process that found it damaged may remove it now.
        with suppress(FileNotFoundError):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _is_intact(path: Path, checksum: Path) -> bool:
    return checksum.exists() and checksum.read_bytes() == _sum_of(path).encode()


def _remove_machine_code(path: Path) -> None:
    for file in _machine_code(path):
        file.unlink(missing_ok=True)
