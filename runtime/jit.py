"""
Compiling the source of CPU kernels, once for all processes.

A kernel's source is written to the cache folder as `<hash>/kernel.py`, where the hash
covers all that its machine code depends on, and the machine code beside it as
`kernel.o`. Numba is imported when there is something to compile.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Protocol, cast

from penstock.runtime.cache import cache_dir, content_hash, write_atomically
from penstock.runtime.objects import (
    ObjectCode,
    load_object,
    read_object,
    write_object,
)


class LlvmFunction(Protocol):
    """What is used of functions in LLVM modules."""

    @property
    def name(self) -> str:
        """The symbol."""
        ...

    @property
    def is_declaration(self) -> bool:
        """Whether it is not defined here."""
        ...


class LlvmModule(Protocol):
    """What is used of LLVM modules."""

    @property
    def functions(self) -> Iterable[LlvmFunction]:
        """Those it defines, and those it declares."""
        ...


class _Library(Protocol):
    """What is used of the machine code that Numba has made."""

    _final_module: LlvmModule

    def serialize_using_object_code(self) -> tuple[str, str, tuple[bytes, bytes]]:
        """Its name, what it is, and the object file with the bitcode."""
        ...


class _CFunction(Protocol):
    """What is used of Numba's compiled C functions."""

    address: int
    native_name: str
    _library: _Library


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel in machine code. Its address is good as long as this object is alive."""

    name: str
    address: int
    """Of a C function `int32(int64 args, int64 part, int64 parts)`."""
    parts: int
    """The most parts that are of use: what the source says as `PARTS`, or 1."""
    from_cache: bool
    """Whether the machine code was found on disk."""
    function: object | None
    """What keeps the machine code alive, if it was compiled in this process."""

    def __call__(self, args: int, part: int = 0, parts: int = 1) -> int:
        """
        Run a part of the kernel on the row of words at the address `args`.

        Returns 0, or 1 + the index of the assertion that failed.
        """
        return KernelFunction(self.address)(args, part, parts)


KernelFunction = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)
"""The C type of a kernel."""

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
    path = cache_dir() / key / "kernel.o"
    found = read_object(path)
    if found and (address := load_object(found)):
        return CompiledKernel(name, address, found.parts, True, None)
    path.parent.mkdir(exist_ok=True)
    # For people, and for tools that look up lines.
    text = path.with_suffix(".py")
    write_atomically(text, source.encode())
    module = _execute(source, text, f"penstock_kernel_{key}")
    function = cast("_CFunction", module["kernel"])
    parts = cast("int", module.get("PARTS", 1))
    write_object(path, object_of(function, parts))
    return CompiledKernel(name, function.address, parts, False, function)


def object_of(function: object, parts: int = 1) -> ObjectCode:
    """The machine code of a C function that Numba has compiled in this process."""
    compiled = cast("_CFunction", function)
    # Numba's public names have no way to its object files.
    library = compiled._library  # pyright: ignore[reportPrivateUsage]
    _, _, (code, _) = library.serialize_using_object_code()
    module = library._final_module  # pyright: ignore[reportPrivateUsage]
    return ObjectCode(compiled.native_name, parts, externals_of(module), code)


def externals_of(module: LlvmModule) -> list[str]:
    """The functions that a module calls by name and does not define."""
    return [
        declared.name
        for declared in module.functions
        if declared.is_declaration and not declared.name.startswith("llvm.")
    ]


def _execute(source: str, path: Path, name: str) -> dict[str, object]:
    """The names of a module text, run as a module, which Numba looks up."""
    module = ModuleType(name)
    sys.modules[module.__name__] = module
    with _more_vectors():
        exec(compile(source, str(path), "exec"), module.__dict__)
    return module.__dict__


@contextmanager
def _more_vectors() -> Generator[None]:
    """Vectorise loops that are unrolled too, such as the inner ones of convolutions."""
    from numba.core import config

    before = cast("int", getattr(config, _SLP))
    setattr(config, _SLP, 1)
    try:
        yield
    finally:
        setattr(config, _SLP, before)
