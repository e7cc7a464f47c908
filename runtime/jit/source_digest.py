"""
Digests of modules that cached code is made of: their texts, and those they import.

Machine code depends on all modules whose functions become part of it, or print it. They
are found by the lines that import them, at any place in the text, so that no list of
them has to be kept: too many are found rather than too few.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[2]
"""The folder of the package."""

# Patterns that begin with fixed text are found several times as fast as those that
# begin with a line, and a program that is loaded waits for them.
_IMPORTS = (
    re.compile(r"from penstock\.([\w.]+) import ([\w, ]+|\([^)]*\))"),
    re.compile(r"import penstock\.([\w.]+)()"),
)

_FOR_TYPES = re.compile(r"\nif TYPE_CHECKING:\n(?: .*\n|\n)+")
"""Imports for type checkers alone."""


def imported_modules(text: str) -> frozenset[str]:
    """
    The modules of this package that a text imports, such as
    `runtime.kernels.cpu.matmul.tile`.
    """
    found: set[str] = set()
    for named, names in _imports_in(_FOR_TYPES.sub("\n", text)):
        module = _place_of(named)
        if (path := _path(module)) is not None:
            found.add(module)
        if path is None or path.name == "__init__.py":
            # A name that is imported from a package may be a module of it.
            inner = (f"{module}.{name}" for name in re.findall(r"\w+", names))
            found.update(name for name in inner if _path(name) is not None)
    return frozenset(found)


def _place_of(module: str) -> str:
    """A module as the package names it now, also if it is named as in 0.1."""
    if _path(module) is not None:
        return module
    from penstock.moved import place_of

    return place_of(f"penstock.{module}").removeprefix("penstock.")


def _imports_in(text: str) -> Iterator[tuple[str, str]]:
    """The imports at the starts of lines: a module, and the names wanted of it."""
    for pattern in _IMPORTS:
        for match in pattern.finditer(text):
            start = match.start()
            if not text[text.rfind("\n", 0, start) + 1 : start].strip(" "):
                yield match[1], match[2]


def modules_below(roots: Iterable[str]) -> frozenset[str]:
    """These modules, and all modules of this package that they import, at any depth."""
    found: set[str] = set()
    left = list(roots)
    while left:
        if (name := left.pop()) not in found:
            found.add(name)
            left += _imports_of(name)
    return frozenset(found)


@cache
def digest_below(roots: frozenset[str]) -> str:
    """The digest of the texts of these modules and of all that they import."""
    names = sorted(modules_below(roots))
    return _digest((name, _text_of(name).encode()) for name in names)


@cache
def digest_of_all() -> str:
    """The digest of the texts of all modules of the package."""
    folders = sorted(path for path in _ROOT.iterdir() if path.is_dir())
    paths = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    paths += sorted(_ROOT.glob("*.py"))
    return _digest((str(path.relative_to(_ROOT)), path.read_bytes()) for path in paths)


def _digest(texts: Iterable[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, data in texts:
        digest.update(f"{name} {len(data)}\n".encode() + data)
    return digest.hexdigest()


@cache
def _imports_of(name: str) -> frozenset[str]:
    return imported_modules(_text_of(name))


@cache
def _text_of(name: str) -> str:
    path = _path(name)
    assert path is not None, f"there is no module {name}"
    return path.read_text(encoding="utf-8")


@cache
def _path(name: str) -> Path | None:
    """The file of a module or package; None if there is none of this name."""
    path = _ROOT.joinpath(*name.split("."))
    files = path.with_suffix(".py"), path / "__init__.py"
    return next((file for file in files if file.is_file()), None)
