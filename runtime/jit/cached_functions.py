"""
Functions that Numba compiles for this package, kept in the cache folder.

Numba itself would keep them beside their modules, in the folder that the package is
installed into, where they are never deleted. It would notice neither a change of a
module that a function calls, nor a damaged file.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportMissingSuperCall=false

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from numba.core.caching import Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from penstock.runtime.jit.cache_files import keep, read_kept
from penstock.runtime.jit.first_start import first_start
from penstock.runtime.jit.lease import lease


class KeptFunction(Cache):
    """
    The cache that Numba asks for the machine code of a function, and gives new code to:
    a file for each signature in a folder, whose name is the digest of the texts of all
    modules that take part.
    """

    def __init__(self, function: Callable[..., object], folder: Path):
        self._py_func = function
        self._name = function.__qualname__
        self._folder = folder
        self._missing: dict[Path, ExitStack] = {}
        """The files of functions that are being compiled, each with its lease."""
        self.enable()

    @property
    def cache_path(self) -> str:
        """The folder."""
        return str(self._folder)

    def flush(self) -> None:
        """Nothing: files of other texts have other folders."""

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        path = self._path(sig, target_context.codegen())
        if (data := read_kept(path)) is None and path not in self._missing:
            # Another process may be compiling it, and have it there then.
            held = ExitStack()
            held.enter_context(lease(path))
            if (data := read_kept(path)) is None:
                self._missing[path] = held
                first_start.begin(self._name)
                return None
            held.close()
        if data is None:
            return None
        rebuild: Any = getattr(CompileResult, "_rebuild")  # noqa: B009
        return rebuild(target_context, *pickle.loads(data))

    def _save_overload(self, sig: Any, data: Any) -> None:
        path = self._path(sig, data.codegen)
        # Code that holds addresses of this process is of no use to others.
        if not data.library.has_dynamic_globals:
            keep(path, dumps(data._reduce()))
        if (held := self._missing.pop(path, None)) is not None:
            held.close()
            first_start.end()

    def _path(self, sig: Any, codegen: Any) -> Path:
        key = repr(self._index_key(sig, codegen))
        name = "".join(c for c in self._name if c not in "<>")
        digest = hashlib.sha256(f"{self._py_func.__module__} {key}".encode())
        return self._folder / f"{name}-{digest.hexdigest()[:16]}.nbc"


def keep_function(dispatcher: Any, folder: Path) -> None:
    """Look a function up in a folder before Numba compiles it, and keep it there."""
    dispatcher._cache = KeptFunction(dispatcher.py_func, folder)
