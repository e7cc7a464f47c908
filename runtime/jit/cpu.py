"""
Compiling the source of CPU kernels, once for all processes. Loading a program calls it,
by way of the pool of compile workers where there are many kernels.

A kernel's source without its head (`penstock.runtime.jit.source_head`) is written to
the cache folder as `<hash>/kernel.py`, where the hash covers all that its machine code
depends on, also the modules that it imports, and the machine code beside it as
`kernel.o`. Numba is imported when there is something to compile.
"""

from __future__ import annotations

import ast
import ctypes
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import cast

from penstock.runtime.jit.cache import cache_dir, content_hash, make_room
from penstock.runtime.jit.cache_files import keep_text
from penstock.runtime.jit.lease import lease
from penstock.runtime.jit.object_file import (
    load_object,
    read_object,
    write_object,
)
from penstock.runtime.jit.package_digest import code_of_plugins, packages_in
from penstock.runtime.jit.source_digest import digest_below, imported_modules
from penstock.runtime.jit.source_head import Row, row_of, split_head
from penstock.runtime.kernels.cpu.amx_permission import may_use_amx


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel in machine code, at an address that is good until the process ends."""

    name: str
    address: int
    """Of a C function `int32(int64 args, int64 part, int64 parts)`."""
    parts: int
    """The most parts that are of use: `PARTS` of the source, or 1."""
    from_cache: bool
    """Whether the machine code was found on disk."""
    row: Row = ()
    """The words of a call, where some are numbers: `ROW` of the source."""

    def __call__(self, args: int, part: int = 0, parts: int = 1) -> int:
        """
        Run a part of the kernel on the row of addresses at the address `args`.

        Returns 0, or 1 + the index of the assertion that failed.
        """
        return self.bound(args)(part, parts)

    def bound(self, args: int) -> Callable[[int, int], int]:
        """
        The kernel on a row of addresses as it is now, for many calls: that with the
        numbers, which takes longer than a small kernel, is made once.
        """
        count = sum(isinstance(word, str) for word in self.row)
        given = (ctypes.c_int64 * count).from_address(args)
        words = row_of(list(given), self.row, int)
        row = (ctypes.c_int64 * len(words))(*words)
        function = KernelFunction(self.address)

        def run(part: int, parts: int) -> int:
            return function(ctypes.addressof(row) if words else args, part, parts)

        return run


KernelFunction = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)
"""The C type of a kernel."""

_SLP = "SLP_VECTORIZE"
"""Numba's setting, of which its types do not know."""

_compiled: dict[str, dict[tuple[int | None, Row], CompiledKernel]] = {}
"""The kernels of each key, by the parts and row of their heads."""
_lock = Lock()


def compile_cpu(source: str, name: str) -> CompiledKernel:
    """
    The machine code of a module text that defines the C function `kernel`.

    The same text is compiled once per host, and once for all heads: where another
    process is compiling it, this one waits for it. `name` is for people: it is the name
    in tracebacks and of no influence.
    """
    found = _compiled_of(source, name, wait=True)
    assert found is not None, "it waits for others"
    return found


def compile_unless_leased(source: str) -> bool:
    """
    Compile a module text, unless another process is doing that; whether its machine
    code is on disk then. Raises what `compile_cpu` does.
    """
    _compiled_of(source, "kernel", wait=False)
    return is_kept(source)


def _compiled_of(source: str, name: str, *, wait: bool) -> CompiledKernel | None:
    code, parts, row = split_head(source)
    key = key_of(code)
    with _lock:
        if key not in _compiled:
            if (plain := _load(code, key, name, wait=wait)) is None:
                return None
            _compiled[key] = {(None, ()): plain}
        found = _compiled[key]
        if (parts, row) not in found:
            plain = found[None, ()]
            found[parts, row] = replace(plain, parts=parts or plain.parts, row=row)
        return found[parts, row]


def is_kept(source: str) -> bool:
    """Whether there is machine code of a module text on disk."""
    return _path(key_of(source)).is_file()


def key_of(source: str) -> str:
    """The cache key of the machine code of a module text and of its imports."""
    source = split_head(source).code
    used = imported_modules(source) | {"runtime.jit.cpu"}
    facts = [source, digest_below(used), *code_of_plugins(packages_in(source))]
    if "runtime.kernels.cpu.matmul.amx" in used:
        facts.append(f"matrices: {may_use_amx()}")
    return content_hash(facts)


def _path(key: str) -> Path:
    # A folder each: to look for a kernel's files takes no longer the more there are.
    return cache_dir() / key / "kernel.o"


def _load(source: str, key: str, name: str, *, wait: bool) -> CompiledKernel | None:
    path = _path(key)
    if (found := _find(path, name)) is not None:
        return found
    with lease(path, wait=wait) as may_make:
        if not may_make:
            return None
        # The process that had the lease before may have made it.
        return _find(path, name) or _make(source, key, name)


def _find(path: Path, name: str) -> CompiledKernel | None:
    """A kernel that is on disk."""
    found = read_object(path)
    if found and (address := load_object(found)):
        return CompiledKernel(name, address, found.parts, True)
    return None


def _make(source: str, key: str, name: str) -> CompiledKernel:
    path = _path(key)
    # For people, and for tools that look up lines.
    text = path.with_suffix(".py")
    keep_text(text, source.encode())
    tree = ast.parse(source, str(text))
    module = _execute(tree, text, f"penstock_kernel_{key}")
    from penstock.runtime.jit.c_function import compile_c_function

    if not callable(module.get("kernel")):
        raise AttributeError("it defines no function 'kernel'")
    function = cast("Callable[..., int]", module["kernel"])
    parts = cast("int", module.get("PARTS", 1))
    with more_vectors():
        made = compile_c_function(function, f"penstock_{key}", 3, 32, parts, tree)
    write_object(path, made)
    make_room(len(made.code))
    address = load_object(made)
    assert address is not None, "Numba has been imported, with all that it needs"
    return CompiledKernel(name, address, parts, False)


def _execute(tree: ast.Module, path: Path, name: str) -> dict[str, object]:
    """The names of a module text, run as a module, which Numba looks up."""
    module = ModuleType(name)
    sys.modules[module.__name__] = module
    exec(compile(tree, str(path), "exec"), module.__dict__)
    return module.__dict__


@contextmanager
def more_vectors() -> Generator[None]:
    """Vectorise loops that are unrolled too, such as the inner ones of convolutions."""
    from numba.core import config

    before = cast("int", getattr(config, _SLP))
    setattr(config, _SLP, 1)
    try:
        yield
    finally:
        setattr(config, _SLP, before)
