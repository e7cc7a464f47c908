"""
Plug-ins: the dialects, passes and targets of installed packages and of single files.
"""

import inspect
import logging
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import EntryPoint
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe

import penstock.plugins as points
from penstock.lowering.pipelines import Pipeline, get_all_pipelines
from penstock.plugins import told
from penstock.tools.driver.diagnostics import FileError, UsageError
from penstock.tools.driver.edited_pipeline import PipelineTable
from penstock.tools.driver.files import explain_os_error, sha256_of

log = logging.getLogger(__name__)

_numbers = count()
"""The numbers of modules of files."""

T = TypeVar("T")


def universes_of(files: Sequence[str] = ()) -> dict[str, Universe]:
    """
    All universes by where they are from: installed packages, these files, and what this
    program has registered itself.
    """
    installed = installed_universes()
    loaded = load_files(files, installed)
    program = program_universe(installed)
    offers = program.all_dialects or program.all_passes or program.all_targets
    return {**installed, **loaded, **({"this program": program} if offers else {})}


@cache
def installed_universes() -> dict[str, Universe]:
    """The universes of the environment, by the names of their entry points."""
    found = sorted(
        points.installed_entries(points.UNIVERSES), key=lambda entry: entry.name
    )
    return {entry.name: _load_entry(entry) for entry in found}


def _load_entry(entry: EntryPoint) -> Universe:
    try:
        points.check_entry(entry)
        universe = entry.load()
    except points.PluginError as error:
        raise FileError(str(error)) from error
    except Exception as error:
        raise FileError(
            f"the installed plug-in '{entry.name}' ({entry.value}) cannot be loaded: "
            f"{told(error)}"
        ) from error
    if not isinstance(universe, Universe):
        raise FileError(
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
    for path in paths:
        log.debug("load %s", path)
    return {path: _offer_of(_loaded(path), path, dialects) for path in paths}


def loaded_universes() -> dict[str, Universe]:
    """The universes of all files that were loaded, and that of this program."""
    installed = installed_universes()
    dialects = merge(installed, lambda universe: universe.all_dialects, "dialect")
    modules = {file: module for (file, _), module in _modules.items()}
    loaded = {file: _offer_of(modules[file], file, dialects) for file in modules}
    return {**loaded, "this program": program_universe(installed)}


def load_plugins(paths: Sequence[str]) -> None:
    """Run Python files for all that they register. Raises UsageError if one fails."""
    for path in paths:
        log.debug("load %s", path)
        _loaded(path)


def program_universe(installed: Mapping[str, Universe]) -> Universe:
    """
    All that this program has registered itself, outside of loaded files; modules of
    installed packages may register the same that their universe offers.
    """
    loaded = {module.__name__ for module in _modules.values()}
    found = [x for x in points.registering_modules() if x not in loaded]
    mine = _union([_registered_by(module) for module in sorted(found)])
    theirs = _union(list(installed.values()))
    return Universe(
        all_dialects=_beside(mine.all_dialects, theirs.all_dialects),
        all_passes=_beside(mine.all_passes, theirs.all_passes),
        all_targets=_beside(mine.all_targets, theirs.all_targets),
    )


def _beside(
    mine: Mapping[str, Callable[[], T]], theirs: Mapping[str, Callable[[], T]]
) -> dict[str, Callable[[], T]]:
    """Those of one table that are not the same in another one."""
    return {
        name: factory
        for name, factory in mine.items()
        if name not in theirs or theirs[name]() is not factory()
    }


def known_pipelines() -> PipelineTable:
    """The pipelines of Penstock, and those of plug-ins, which are loaded when used."""

    def load(name: str) -> type[Pipeline]:
        return cast("type[Pipeline]", points.plugin_of("pipeline", name).thing)

    theirs = {name: partial(load, name) for name in points.names_of("pipeline")}
    return {**get_all_pipelines(), **theirs}


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


_modules: dict[tuple[str, str], ModuleType] = {}
"""The files that were loaded, by path and digest: each runs once as it is."""


def _loaded(path: str) -> ModuleType:
    """
    The module of a file. One that was loaded before runs again if it has changed; what
    it registered then is taken back.
    """
    if not Path(path).is_file():
        raise UsageError(f"cannot load {path}: no such file")
    # The import system only joins a path to the current folder: `..` would stay in it.
    file = os.path.abspath(path)
    try:
        key = file, sha256_of(Path(file))
    except OSError as error:
        raise UsageError(f"cannot load {path}: {explain_os_error(error)}") from error
    if key not in _modules:
        for old in [old for old in _modules if old[0] == file]:
            points.forget(_modules.pop(old).__name__)
        _modules[key] = _run(path, file)
    return _modules[key]


def loaded_files() -> list[str]:
    """The absolute paths of the files that were loaded."""
    return [file for file, _ in _modules]


def unload() -> None:
    """Forget all files that were loaded, and what they registered."""
    for module in _modules.values():
        points.forget(module.__name__)
    _modules.clear()


def _run(path: str, file: str) -> ModuleType:
    name = f"penstock_loaded_{next(_numbers)}"
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"cannot load {path}: its name must end in .py")
    data = Path(file).read_bytes()
    try:
        text = data.decode("utf-8", "replace")
        points.check_interface(points.stated_interface(text), "it")
    except points.PluginError as error:
        raise FileError(f"cannot load {path}: {error}") from error
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        # The import system takes code that it kept of a file for that of another one of
        # its size, written in the same second.
        exec(compile(data, file, "exec", dont_inherit=True), vars(module))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        points.forget(name)
        raise FileError(
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
            raise FileError(
                f"cannot load {path}: UNIVERSE is no xdsl.universe.Universe "
                f"but of type {type(universe).__name__}"
            )
        return universe
    found = Universe(
        all_dialects=_dialects_in(module, known), all_passes=_passes_in(module)
    )
    offered = _union([found, _registered_by(module.__name__)])
    offers = offered.all_dialects or offered.all_passes
    if not offers and module.__name__ not in points.registering_modules():
        raise FileError(
            f"cannot load {path}: it has no pass, dialect or UNIVERSE, and registers "
            "nothing"
        )
    return offered


def _registered_by(module: str) -> Universe:
    """The passes, dialects and targets that a module has registered."""

    def of(kind: str) -> dict[str, Callable[[], Any]]:
        found = points.registered(kind, module)
        return {plugin.name: _always(plugin.thing) for plugin in found}

    return Universe(
        all_dialects=of("dialect"), all_passes=of("pass"), all_targets=of("target")
    )


def _union(universes: Sequence[Universe]) -> Universe:
    """One universe of several; of things of one name the last one."""
    return Universe(
        all_dialects={k: x for u in universes for k, x in u.all_dialects.items()},
        all_passes={k: x for u in universes for k, x in u.all_passes.items()},
        all_targets={k: x for u in universes for k, x in u.all_targets.items()},
    )


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
