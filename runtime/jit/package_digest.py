"""
Digests of the code of other packages, for keys of the cache.

A package that was installed is known by its version. One whose files can be edited
where they lie, as in an editable install or a folder of `PYTHONPATH`, is known by their
contents, and so is a plug-in wherever it lies.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

_SUFFIXES = frozenset(
    {".py", *(f".{x.rpartition('.')[2]}" for x in EXTENSION_SUFFIXES)}
)
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_TOOLS = frozenset({"llvmlite", "numba", "numpy", "onnx", "penstock", "xdsl"})
"""Packages that keys cover anyway: by `code_of`, and ours by the texts of modules."""
_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+([A-Za-z_]\w*)", re.M)


def version_of(package: str) -> str:
    """The version of an installed package, or `unknown`."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


@cache
def code_of(package: str) -> str:
    """A package's name with its version, or with a digest where it can be edited."""
    known = _digest(package) if _can_be_edited(package) else version_of(package)
    return f"{package} {known}"


def packages_in(text: str) -> frozenset[str]:
    """The packages that a text imports, other than Python's and those of tools."""
    found = set(_IMPORT.findall(text))
    return frozenset(found - sys.stdlib_module_names - _TOOLS)


def code_of_plugins(packages: Iterable[str]) -> list[str]:
    """Packages with digests of their files, and the code of all that they import."""
    roots = frozenset(packages) - _TOOLS
    known = {name: f"{name} {_digest(name)}" for name in sorted(roots)}
    imported = [name for root in known for name in sorted(_imports_of(root))]
    return _with_imports(known, imported)


def code_imported_by(packages: Iterable[str]) -> list[str]:
    """The code of packages and of all that they import."""
    return _with_imports({}, sorted(packages))


def _with_imports(known: dict[str, str], left: list[str]) -> list[str]:
    """The code of known packages, of others, and of all that these import."""
    while left:
        if (name := left.pop()) not in known:
            known[name] = code_of(name)
            # A version stands for all that the package needs.
            left += sorted(_imports_of(name)) if _can_be_edited(name) else []
    return [known[name] for name in sorted(known)]


def _can_be_edited(package: str) -> bool:
    return not any(_INSTALLED.intersection(path.parts) for path in _places(package))


@cache
def _digest(package: str) -> str:
    digest = hashlib.sha256()
    for place in _places(package):
        for path in _files(place):
            data = path.read_bytes()
            name = str(path.relative_to(place.parent))
            digest.update(f"{name} {len(data)}\n".encode() + data)
    return digest.hexdigest()[:32]


@cache
def _imports_of(package: str) -> frozenset[str]:
    paths = [path for place in _places(package) for path in _files(place)]
    texts = (
        path.read_text("utf-8", "replace") for path in paths if path.suffix == ".py"
    )
    return frozenset(name for text in texts for name in packages_in(text)) - {package}


@cache
def _places(package: str) -> tuple[Path, ...]:
    """The folders of a package, or the file of a module; none if there is none."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return ()
    if spec is None:
        return ()
    if spec.submodule_search_locations is not None:
        return tuple(map(Path, spec.submodule_search_locations))
    return (Path(spec.origin),) if spec.has_location and spec.origin else ()


def _files(place: Path) -> Iterator[Path]:
    """The files of code at a place, in an order that is always the same."""
    if place.is_file():
        yield place
        return
    for path in sorted(place.rglob("*")):
        if path.suffix in _SUFFIXES and path.is_file():
            yield path
