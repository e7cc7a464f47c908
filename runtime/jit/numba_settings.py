"""
A guard that keeps Numba from taking its settings from the current folder.

Where PyYAML is installed, Numba reads a file `.numba_config.yaml` of the current folder
when it is imported and each time it compiles. Among its settings are the library that
drives CUDA, and options of machine code that is cached for other folders, too. Commands
and their child processes take settings from the environment alone; a Python program
that imports this package is left as it is.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

SETTINGS = "numba.core.config"
"""The module of Numba that reads the file."""
_YAML = "yaml"


def ignore_settings_files() -> None:
    """Let Numba, once this process imports it, read no file of the current folder."""
    if SETTINGS not in sys.modules and not any(map(_is_ours, sys.meta_path)):
        sys.meta_path.insert(0, _Finder())


def _is_ours(finder: object) -> bool:
    return isinstance(finder, _Finder)


class _Finder(MetaPathFinder):
    """Finds the module where Python does, for another loader."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """The place of the module; None for all others."""
        if fullname != SETTINGS:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _WithoutFile(spec.loader)
        return spec


class _WithoutFile(Loader):
    """Runs the module as another loader does, but without the file."""

    def __init__(self, loader: Loader):
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The module of the other loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, and let it look for no file later."""
        with _without_yaml():
            self._loader.exec_module(module)
        # It is no regular file on any system.
        module.__dict__["_config_fname"] = os.devnull


@contextmanager
def _without_yaml() -> Generator[None]:
    """Let PyYAML seem not to be installed, without which the file is not read."""
    before = {_YAML: sys.modules[_YAML]} if _YAML in sys.modules else {}
    sys.modules[_YAML] = None  # pyright: ignore[reportArgumentType] # as Python wants
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "A Numba config file is found")
            yield
    finally:
        del sys.modules[_YAML]
        sys.modules.update(before)
