"""
All ways of computing kernels: ours, and those of plug-ins.

An installed package offers an object of a class derived from `Alternative` by an entry
point of the group `penstock.kernels`; a file that is loaded with `--load` calls
`register_alternative`.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from penstock.lowering.codegen.cuda.library_calls import CONVOLUTION
from penstock.lowering.launch.autotune.alternatives import Alternative, AlternativeError
from penstock.lowering.launch.autotune.contractions import Loops, Rules, Tiles
from penstock.lowering.launch.autotune.libraries import Library

GROUP = "penstock.kernels"
"""The entry points of alternatives."""

BUILT_IN: tuple[Alternative, ...] = (
    *(Rules(), Tiles(), Loops()),
    *(Library("cublas"), Library("cudnn", CONVOLUTION)),
)
"""Our own."""

registered: dict[str, Alternative] = {}


def register_alternative(alternative: Alternative) -> None:
    """
    Add an alternative to those of this process: for files that are loaded with
    `--load`.

    Raises `AlternativeError` if it is none, or if there is one of its name.
    """
    checked(alternative, "what was registered")
    if any(other.name == alternative.name for other in alternatives()):
        raise AlternativeError(f"there already is an alternative '{alternative.name}'")
    registered[alternative.name] = alternative


def checked(found: object, what: str) -> Alternative:
    """Something as an alternative. Raises `AlternativeError` if it is none."""
    if not isinstance(found, Alternative):
        kind = type(found).__name__
        raise AlternativeError(f"{what} is no alternative for kernels but of {kind}")
    if not found.name:
        raise AlternativeError(f"{what} is an alternative without a name")
    return found


@cache
def installed() -> tuple[Alternative, ...]:
    """
    The alternatives of installed packages. Raises `AlternativeError` if one cannot be
    loaded.
    """
    found: list[Alternative] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            item: object = entry.load()
        except Exception as error:
            raise AlternativeError(
                f"the alternative '{entry.name}' ({entry.value}) cannot be loaded: "
                f"{type(error).__name__}: {error}"
            ) from error
        found.append(checked(item, f"{entry.value} of the plug-in '{entry.name}'"))
    return tuple(found)


def alternatives() -> list[Alternative]:
    """
    All alternatives, by name.

    Raises `AlternativeError` if two have one name, or one cannot be loaded.
    """
    table: dict[str, Alternative] = {}
    for found in (*BUILT_IN, *installed(), *registered.values()):
        if (other := table.setdefault(found.name, found)) is not found:
            raise AlternativeError(
                f"the alternative '{found.name}' is offered by both {other.source} and "
                f"{found.source}"
            )
    return [table[name] for name in sorted(table)]
