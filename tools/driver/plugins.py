"""
Plug-ins: the dialects, passes and targets of installed packages and of single files.
"""

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe

from penstock.dialects.utils.diagnostics import told
from penstock.tools.driver.diagnostics import UsageError

T = TypeVar("T")


@cache
def installed_universes() -> dict[str, Universe]:
    """The universes of the environment, by the names of their entry points."""
    found = sorted(entry_points(group="xdsl.universe"), key=lambda entry: entry.name)
    return {entry.name: _load_entry(entry) for entry in found}


def _load_entry(entry: EntryPoint) -> Universe:
    try:
        universe = entry.load()
    except Exception as error:
        raise UsageError(
            f"the installed plug-in '{entry.name}' ({entry.value}) cannot be loaded: "
            f"{told(error)}"
        ) from error
    if not isinstance(universe, Universe):
        raise UsageError(
            f"the installed plug-in '{entry.name}' ({entry.value}) is "
            f"no xdsl.universe.Universe but of type {type(universe).__name__}"
        )
    return universe


def load_files(
    paths: Sequence[str], known: Mapping[str, Universe]
) -> dict[str, Universe]:
    """
    The universe that each Python file offers, by its path.

    A file offers its `UNIVERSE`, or else the passes that it defines and the dialects
    that it holds and that are not those of a universe in `known`.
    """
    dialects = merge(known, lambda universe: universe.all_dialects, "dialect")
    return {
        path: _offer_of(_run(path, f"penstock_loaded_{index}"), path, dialects)
        for index, path in enumerate(paths)
    }


def merge(
    universes: Mapping[str, Universe],
    pick: Callable[[Universe], dict[str, T]],
    kind: str,
) -> dict[str, T]:
    """One table of those that `pick` takes from universes; a name may be there once."""
    merged: dict[str, T] = {}
    owner: dict[str, str] = {}
    for origin, universe in universes.items():
        for name, item in pick(universe).items():
            if name in merged:
                raise UsageError(
                    f"{kind} '{name}' is defined by both {owner[name]} and {origin}"
                )
            merged[name] = item
            owner[name] = origin
    return merged


def _run(path: str, name: str) -> ModuleType:
    if not Path(path).is_file():
        raise UsageError(f"cannot load {path}: no such file")
    # The import system only joins a path to the current folder: `..` would stay in it.
    spec = spec_from_file_location(name, os.path.abspath(path))
    if spec is None or spec.loader is None:
        raise UsageError(f"cannot load {path}: its name must end in .py")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise UsageError(
            f"cannot load {_blame(path, error)}: {type(error).__name__}: "
            f"{error.msg if isinstance(error, SyntaxError) else error}"
        ) from error
    return module


def _blame(path: str, error: BaseException) -> str:
    """The place, `path:line`, of the last line of a file that `error` came through."""
    file = os.path.abspath(path)  # As modules are named that are read from it.
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    if isinstance(error, SyntaxError) and error.filename == file:
        lines.append(error.lineno)
    return f"{path}:{lines[-1]}" if lines else path


def _offer_of(
    module: ModuleType, path: str, known: Mapping[str, Callable[[], Dialect]]
) -> Universe:
    if hasattr(module, "UNIVERSE"):
        universe = module.UNIVERSE
        if not isinstance(universe, Universe):
            raise UsageError(
                f"cannot load {path}: UNIVERSE is no xdsl.universe.Universe "
                f"but of type {type(universe).__name__}"
            )
        return universe
    offered = Universe(
        all_dialects=_dialects_in(module, known), all_passes=_passes_in(module)
    )
    offers = offered.all_dialects or offered.all_passes
    if not (offers or _registers_packing(module) or _registers_kernels(module)):
        raise UsageError(
            f"cannot load {path}: it offers no pass, dialect, packing algorithm, "
            "kernel or UNIVERSE"
        )
    return offered


def _registers_packing(module: ModuleType) -> bool:
    """Whether a function of a module was registered as a packing algorithm."""
    # If nobody has imported that, nobody has registered anything.
    if "penstock.lowering.algorithms.packing.registry" not in sys.modules:
        return False
    from penstock.lowering.algorithms.packing.registry import registered

    owners = (getattr(packer, "__module__", None) for packer in registered.values())
    return module.__name__ in owners


def _registers_kernels(module: ModuleType) -> bool:
    """Whether a module registered an alternative for kernels."""
    # If nobody has imported that, nobody has registered anything.
    if "penstock.lowering.launch.autotune.registry" not in sys.modules:
        return False
    from penstock.lowering.launch.autotune.registry import registered

    return any(found.source == module.__name__ for found in registered.values())


def _passes_in(module: ModuleType) -> dict[str, Callable[[], type[ModulePass]]]:
    passes: dict[str, Callable[[], type[ModulePass]]] = {}
    for item in vars(module).values():
        if not inspect.isclass(item) or not issubclass(item, ModulePass):
            continue
        if item.__module__ == module.__name__ and not inspect.isabstract(item):
            passes[item.name] = _always(item)
    return passes


def _dialects_in(
    module: ModuleType, known: Mapping[str, Callable[[], Dialect]]
) -> dict[str, Callable[[], Dialect]]:
    dialects: dict[str, Callable[[], Dialect]] = {}
    for item in vars(module).values():
        if not isinstance(item, Dialect):
            continue
        imported = item.name in known and known[item.name]() is item
        if not imported:
            dialects[item.name] = _always(item)
    return dialects


def _always(item: T) -> Callable[[], T]:
    return lambda: item
