"""
Cycles of actors, by the names of kinds of actors that plug-ins have.

A kind is a function of an `ActorRequest` that returns the acts of a cycle, each with
the registers of which it takes or makes a piece. All that is proven of an actor is
proven of its cycle, so a kind is only asked for it once, while compiling.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, cast

from penstock.plugins import PlugIn, plugin_of

KIND = "actor-kind"


class ActorRequest(NamedTuple):
    """An actor that is to be given a cycle."""

    name: str
    reads: Sequence[str]
    """The names of the registers that it reads."""
    writes: Sequence[str]
    """The names of the registers that it writes."""
    lists: Sequence[Sequence[int]]
    """The numbers that the text gives to the kind."""


def cycle_of(kind: str, request: ActorRequest) -> list[list[int]]:
    """
    The acts of the cycle of an actor of a plug-in's kind, each with the places of its
    registers among those that are read and then written, in ascending order. Raises
    `PluginError` if there is no such kind, or if it returns something else.
    """
    plugin = plugin_of(KIND, kind)
    found = plugin.call(request)
    registers = [*request.reads, *request.writes]
    if isinstance(found, str) or not isinstance(found, Collection):
        plugin.refuse(f"returns no list of acts but {found!r}")
    acts = cast("Collection[object]", found)
    cycle = [_places(plugin, registers, n, act) for n, act in enumerate(acts)]
    for place, register in enumerate(registers):
        if not any(place in act for act in cycle):
            plugin.refuse(f"uses register '{register}' in no act")
    return cycle


def _places(
    plugin: PlugIn, registers: Sequence[str], number: int, act: object
) -> list[int]:
    """The places of the registers of an act."""
    if isinstance(act, str) or not isinstance(act, Collection):
        plugin.refuse(f"returns {act!r} for act {number}, no list of registers")
    names = list(cast("Collection[object]", act))
    if not names:
        plugin.refuse(f"uses no register in act {number}")
    for name in names:
        if name not in registers:
            plugin.refuse(f"uses {name!r} in act {number}, which is no register of it")
        if names.count(name) > 1:
            plugin.refuse(f"uses '{name}' twice in act {number}")
    return sorted(registers.index(cast("str", name)) for name in names)
