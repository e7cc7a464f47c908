"""
All ways of computing kernels: ours, and plug-ins of the kind `kernel`.

A plug-in is an object of a class derived from `Alternative`, by its own `name`.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import currentframe
from typing import cast

from penstock.lowering.codegen.cuda.library_calls import CONVOLUTION
from penstock.lowering.launch.autotune.alternatives import Alternative
from penstock.lowering.launch.autotune.contractions import Loops, Rules, Tiles
from penstock.lowering.launch.autotune.libraries import Library
from penstock.plugins import PluginError, plugins_of, registering

KIND = "kernel"

BUILT_IN: tuple[Alternative, ...] = (
    *(Rules(), Tiles(), Loops()),
    *(Library("cublas"), Library("cudnn", CONVOLUTION)),
)
"""Our own."""

OURS: Mapping[str, Alternative] = {found.name: found for found in BUILT_IN}


def register_alternative(alternative: Alternative) -> None:
    """
    Add an alternative, as plug-ins of the interface 0.1 do: `penstock.plugins.register`
    says what is wrong with one, too.
    """
    here = currentframe()
    name = getattr(alternative, "name", "")
    registering(KIND, name, None if here is None else here.f_back)(alternative)


def alternatives() -> list[Alternative]:
    """
    All alternatives, by name.

    Raises `PluginError` if two have one name, or one cannot be loaded.
    """
    table = dict(OURS)
    origins = dict.fromkeys(OURS, "penstock")
    for plugin in plugins_of(KIND):
        found = cast("Alternative", plugin.thing)
        if not found.name:
            plugin.refuse("has no name of its own")
        if found.name in table:
            raise PluginError(
                f"the alternative '{found.name}' is offered by both "
                f"{origins[found.name]} and {plugin.origin}"
            )
        table[found.name], origins[found.name] = found, plugin.origin
    return [table[name] for name in sorted(table)]
