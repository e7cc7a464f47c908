"""
Logging: the loggers of Python that modules of ours and plug-ins write to, by the names
of passes and of modules.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from penstock.tools.driver.errors import UsageError

PACKAGE = "penstock"
ALL = "all"


class _Lines(logging.Formatter):
    """Lines that begin with the part of the name of a logger that people say."""

    def format(self, record: logging.LogRecord) -> str:
        name = record.name.removeprefix(f"{PACKAGE}.")
        level = "" if record.levelno == logging.DEBUG else record.levelname.lower()
        return f"[{name}] {f'{level}: ' * bool(level)}{record.getMessage()}"


def log_only(names: Sequence[str]) -> None:
    """
    Log on standard error what modules say, each named by a pass of ours, a path below
    `penstock` such as `runtime.jit`, or a package of a plug-in; `all` is all of ours.

    Raises UsageError for a name of nothing.
    """
    loggers = [logger_of(name) for name in names]
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines())
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
        logger.addHandler(handler)
        # A package and a module in it may both be named.
        logger.propagate = False


def logger_of(name: str) -> logging.Logger:
    """The logger of a pass, a module or a package. Raises UsageError for no such."""
    if name == ALL:
        return logging.getLogger(PACKAGE)
    passes = pass_modules()
    path = passes.get(name) or (f"{PACKAGE}.{name}" if name in modules() else None)
    path = path or _module_of_other_pass(name)
    if path is None and name.isidentifier() and find_spec(name) is not None:
        path = name
    if path is None:
        from penstock.tools.driver.diagnostics import suggest
        from penstock.tools.driver.pass_pipeline import listed_by

        near = suggest(name, (*passes, *modules(), *_names_of_other_passes()))
        text = f"nothing that logs is called '{name}'{near} {listed_by('pass')}"
        raise UsageError(text)
    return logging.getLogger(path)


def pass_modules() -> Mapping[str, str]:
    """The module of each pass of ours, which says it, without importing any."""
    from penstock.lowering import PASSES, home_of

    return {name: home_of(name) for name in PASSES}


def _module_of_other_pass(name: str) -> str | None:
    """The module of a pass of a plug-in or of xDSL."""
    from xdsl.passes import ModulePass

    from penstock.tools.driver import plugins

    # Files that were loaded have defined their passes already.
    for loaded in ModulePass.__subclasses__():
        if getattr(loaded, "name", None) == name:
            return loaded.__module__
    for universe in plugins.installed_universes().values():
        if (factory := universe.all_passes.get(name)) is not None:
            return factory().__module__
    return None


def _names_of_other_passes() -> Iterable[str]:
    from penstock.tools.driver import plugins

    for universe in plugins.installed_universes().values():
        yield from universe.all_passes


@cache
def modules() -> frozenset[str]:
    """The modules and rooms of the package, as paths below it."""
    spec = find_spec(PACKAGE)
    assert spec is not None, "it is running"
    roots = [Path(x) for x in spec.submodule_search_locations or ()]
    return frozenset(_below(roots))


def _below(roots: Iterable[Path]) -> Iterable[str]:
    for root in roots:
        for top in ("dialects", "lowering", "runtime", "tools"):
            yield top
            for path in (root / top).rglob("*.py"):
                parts = path.relative_to(root).with_suffix("").parts
                names = parts[:-1] if parts[-1] == "__init__" else parts
                yield ".".join(names)
