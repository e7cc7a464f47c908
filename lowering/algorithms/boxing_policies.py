"""
Policies for the way that a boxing takes, by name: ours, and plug-ins of the kind
`boxing`.

A policy is a function of a `BoxingRequest` that returns the layouts that the tensor
goes through, without the first and the last one. Entries of a layout are texts: `B`,
`P` and `S(axis)`. The steps from one layout to the next are not for a policy to say, so
that any way leads to the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from penstock.plugins import PlugIn, plugin_of

KIND = "boxing"

TWO_STEPS = "two-steps"
"""The policy that is taken where nothing is said."""

Entries: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class BoxingRequest:
    """A tensor on devices that is to lie on them in another way."""

    shape: tuple[int, ...]
    have: Entries
    """Its layout along each dimension of the hierarchy of devices."""
    want: Entries
    hierarchy: tuple[int, ...]
    """The extents of the hierarchy."""
    memories: int
    """The memories that the devices have together."""
    misfit: Callable[[Sequence[str]], str | None]
    """Why the tensor cannot lie like this; None if it can."""


Policy: TypeAlias = Callable[[BoxingRequest], Sequence[Entries]]


def directly(request: BoxingRequest) -> Sequence[Entries]:
    """Each device makes its part of all that there are."""
    return ()


def in_two_steps(request: BoxingRequest) -> Sequence[Entries]:
    """
    A sum over more than two memories goes by way of a split: each adds one part for
    all, instead of all parts for itself. All else goes directly.
    """
    pairs = zip(request.have, request.want, strict=True)
    changed = [dim for dim, (have, want) in enumerate(pairs) if have != want]
    if len(changed) != 1:
        return ()
    (dim,) = changed
    adds = (request.have[dim], request.want[dim]) == ("P", "B")
    if not adds or min(request.memories, request.hierarchy[dim]) < 3:
        return ()
    for axis in range(len(request.shape)):
        entries = (*request.want[:dim], f"S({axis})", *request.want[dim + 1 :])
        if request.misfit(entries) is None:
            return (entries,)
    return ()


BUILT_IN: Mapping[str, Policy] = {"direct": directly, TWO_STEPS: in_two_steps}


def boxing_policy(name: str) -> Policy:
    """The policy of a name. Raises `PluginError` if there is none."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    plugin = plugin_of(KIND, name)
    return lambda request: checked(plugin, request, plugin.call(request))


def sums_nothing(before: Entries, entries: Entries) -> str | None:
    """
    Why there are no terms of sums where entries say so, behind those of the layout
    before; None if there are.
    """
    for have, entry in zip(before, entries, strict=True):
        if entry == "P" and have != "P":
            return f"there are no terms of a sum where it lies as {have}"
    return None


def checked(plugin: PlugIn, request: BoxingRequest, found: object) -> list[Entries]:
    """The layouts of a plug-in. Raises `PluginError` if the tensor cannot lie so."""
    if not isinstance(found, list | tuple):
        plugin.refuse(f"returns no list of layouts but {found!r}")
    layouts: list[Entries] = []
    for layout in cast("Sequence[object]", found):
        if not isinstance(layout, list | tuple):
            plugin.refuse(f"returns {layout!r}, no layout such as ('S(0)',)")
        entries = tuple(map(str, cast("Sequence[object]", layout)))
        if len(entries) != len(request.hierarchy):
            plugin.refuse(
                f"returns a layout of {len(entries)} dimensions of devices, not "
                f"{len(request.hierarchy)}"
            )
        before = layouts[-1] if layouts else request.have
        reason = request.misfit(entries) or sums_nothing(before, entries)
        if reason is None and entries in (request.have, *layouts):
            reason = "it has lain so before"
        if reason is not None:
            plugin.refuse(f"goes through ({', '.join(entries)}): {reason}")
        layouts.append(entries)
    return layouts
