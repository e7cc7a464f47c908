"""
The digest of all plug-ins by content, for keys of what is kept of compilations.

It covers installed packages with entry points of any kind, the files that are to be
loaded, what both import besides Python's own modules, and the files that have
registered something in this process. Nothing is loaded for it, so that a plan is found
again without the compiler.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import NamedTuple

from penstock.plugins import (
    KINDS,
    files_of_registered,
    installed_entries,
    registering_modules,
)
from penstock.runtime.jit.package_digest import (
    code_imported_by,
    code_of_plugins,
    packages_in,
)
from penstock.tools.driver.errors import UsageError, explain_os_error

_OWN = frozenset({"penstock", "xdsl"})


class PlugInCode(NamedTuple):
    """A plug-in: its distribution or file, its version, and the digest of its code."""

    name: str
    version: str
    digest: str

    def __str__(self) -> str:
        name = f"{self.name} {self.version}".strip()
        return f"{name} (sha256 {self.digest})"


def installed_code() -> tuple[PlugInCode, ...]:
    """The distributions that bring plug-ins, without Penstock and xDSL themselves."""
    found: dict[tuple[str, str], list[EntryPoint]] = {}
    for entry in _entries():
        dist = entry.dist
        facts = (entry.value, "") if dist is None else (dist.name, dist.version)
        if facts[0] not in _OWN:
            found.setdefault(facts, []).append(entry)
    return tuple(
        PlugInCode(*facts, _short(code_of_plugins(_modules_of(entries))))
        for facts, entries in sorted(found.items())
    )


def codes_of_files(files: Iterable[str] = ()) -> tuple[PlugInCode, ...]:
    """
    The code of these files, and of those that have registered something, each with that
    of the packages that it imports. Raises UsageError if one cannot be read.
    """
    paths = map(os.path.realpath, (*files, *files_of_registered()))
    return tuple(_code_of_file(path) for path in dict.fromkeys(paths))


def _code_of_file(path: str) -> PlugInCode:
    text = _text_of(path)
    return PlugInCode(os.path.basename(path), "", _short([text, *_packages_of([text])]))


def has_code_without_file() -> bool:
    """Whether something was registered that no file says, as in a notebook."""
    modules = [sys.modules.get(name) for name in registering_modules()]
    files = [getattr(module, "__file__", None) for module in modules]
    return not all(file and os.path.isfile(file) for file in files)


def _short(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"cannot load {file}: {explain_os_error(error)}") from error


def _packages_of(texts: Sequence[str]) -> list[str]:
    """The packages that texts import, at any depth, with digests or versions."""
    names = {name for text in texts for name in packages_in(text)}
    return code_imported_by(names)


@cache
def installed_plugins_text() -> str:
    """The installed plug-ins with the digests of their code, as a text."""
    found = _entries()
    values = sorted(f"{entry.group} {entry.name} {entry.value}" for entry in found)
    return "\n".join([*code_of_plugins(_modules_of(found)), *values])


def _entries() -> list[EntryPoint]:
    """The entry points of all kinds."""
    groups = sorted({kind.group for kind in KINDS.values()})
    return [entry for group in groups for entry in installed_entries(group)]


def _modules_of(entries: Iterable[EntryPoint]) -> set[str]:
    return {re.split("[.:]", entry.value)[0].strip() for entry in entries}
