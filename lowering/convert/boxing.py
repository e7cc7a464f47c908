"""
Recipes of boxings: the parts of a source that make each part of a target. Pure values,
no IR.

Each device of the target needs one part of the tensor. It is put together of the boxes
in which this part meets the parts on the devices of the source. Where the source is
partial, the parts of all devices that hold terms are added, in the order of the
placement; where it is broadcast, the nearest device is read. Where the target is
partial, its first device holds the sum and the others zeros, unless source and target
are partial on the same dimension of equal hierarchies: then the terms stay apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute

from penstock.dialects.job import (
    BroadcastAttr,
    DeviceAttr,
    Entry,
    PartialAttr,
    PlacementAttr,
    SplitAttr,
)
from penstock.dialects.op.sbp import RECENT, Layout, Part, devices_of, places_of
from penstock.lowering.analysis.op_devices import zone_of

################################################################################
# Parts of tensors, by device                                                  #
################################################################################


class Piece(NamedTuple):
    """A box of elements of the tensor, and the devices whose parts there are added."""

    box: Part
    sources: tuple[int, ...]
    """Numbers of devices in the source's placement."""


class Recipe(NamedTuple):
    """The part that one device needs, and its pieces: zeros if there are none."""

    part: Part
    pieces: tuple[Piece, ...]


class Source(NamedTuple):
    """One device of the source."""

    number: int
    device: DeviceAttr
    place: tuple[int, ...]
    part: Part


@lru_cache(RECENT)
def recipes(
    shape: tuple[int, ...], source: Layout, target: Layout
) -> tuple[Recipe, ...]:
    """The recipe for each device of the target, in the order of its placement."""
    holders = [
        Source(number, device, place, part)
        for number, (device, place, part) in enumerate(
            zip(
                devices_of(source.placement),
                places_of(source.hierarchy),
                source.parts_of(shape),
                strict=True,
            )
        )
    ]
    apart = terms_apart(source, target)
    found: list[Recipe] = []
    for device, place, part in zip(
        devices_of(target.placement),
        places_of(target.hierarchy),
        target.parts_of(shape),
        strict=True,
    ):
        pieces: list[Piece] = []
        if holds_terms(place, target.entries, apart):
            near = [s for s in holders if all(s.place[d] == place[d] for d in apart)]
            pieces = pieces_of(part, near, source.entries, device)
        found.append(Recipe(part, tuple(pieces)))
    return tuple(found)


def terms_apart(source: Layout, target: Layout) -> list[int]:
    """The dimensions on which the terms of a sum stay where they are."""
    if source.hierarchy != target.hierarchy:
        return []
    pairs = zip(source.entries, target.entries, strict=True)
    return [
        dim
        for dim, pair in enumerate(pairs)
        if all(isinstance(entry, PartialAttr) for entry in pair)
    ]


def holds_terms(
    place: Sequence[int], entries: Sequence[Entry], apart: Sequence[int]
) -> bool:
    """Whether the device at a place of the target holds anything but zeros."""
    return not any(
        isinstance(entry, PartialAttr) and dim not in apart and place[dim]
        for dim, entry in enumerate(entries)
    )


def pieces_of(
    part: Part, holders: Sequence[Source], entries: Sequence[Entry], near: DeviceAttr
) -> list[Piece]:
    """The pieces of a part, in the order of the source's devices."""
    cuts = [d for d, entry in enumerate(entries) if isinstance(entry, SplitAttr)]
    copies = [d for d, entry in enumerate(entries) if isinstance(entry, BroadcastAttr)]
    by_cut: dict[tuple[int, ...], list[Source]] = {}
    for holder in holders:
        key = tuple(holder.place[dim] for dim in cuts)
        by_cut.setdefault(key, []).append(holder)
    pieces: list[Piece] = []
    for same_part in by_cut.values():
        if (box := same_part[0].part.meet(part)) is not None:
            pieces.append(Piece(box, nearest(same_part, copies, near)))
    return pieces


def nearest(
    holders: Sequence[Source], copies: Sequence[int], near: DeviceAttr
) -> tuple[int, ...]:
    """Of devices that hold copies of one part, or of its terms, those nearest by."""
    by_copy: dict[tuple[int, ...], list[Source]] = {}
    for holder in holders:
        key = tuple(holder.place[dim] for dim in copies)
        by_copy.setdefault(key, []).append(holder)
    best = min(
        by_copy.values(),
        key=lambda terms: sum(distance(term.device, near) for term in terms),
    )
    return tuple(term.number for term in best)


def distance(a: DeviceAttr, b: DeviceAttr) -> int:
    """
    The distance of data between two devices: 0 on one, 1 within a memory, 2 within a
    rank, 3 between ranks.
    """
    if a == b:
        return 0
    if zone_of(a) == zone_of(b):
        return 1
    return 2 if a.rank == b.rank else 3


################################################################################
# Collectives                                                                  #
################################################################################


class Collective(NamedTuple):
    """An exchange that libraries for communication have under this name."""

    name: str
    dim: int | None
    """The dimension along which groups of devices take part; None for all devices."""


@lru_cache(RECENT)
def collective_of(
    shape: tuple[int, ...], source: Layout, target: Layout
) -> Collective | None:
    """
    The collective that a boxing is, if it is one: all parts before it, and all after
    it, have to be of one shape.
    """
    if not all(is_even(shape, layout) for layout in (source, target)):
        return None
    if source.placement == target.placement:
        return _within_group(source, target)
    return _with_root(source, target)


def is_even(shape: Sequence[int], layout: Layout) -> bool:
    """Whether all devices hold parts of one shape."""
    return len({part.shape for part in layout.parts_of(shape)}) == 1


def _within_group(source: Layout, target: Layout) -> Collective | None:
    pairs = zip(source.entries, target.entries, strict=True)
    changed = [dim for dim, (a, b) in enumerate(pairs) if a != b]
    if len(changed) != 1:
        return None
    (dim,) = changed
    ends = source.entries[dim], target.entries[dim]
    # Parts that a later dimension cuts along the same axis lie with other groups.
    if any(isinstance(x, SplitAttr) and x in ends for x in source.entries[dim + 1 :]):
        return None
    match ends:
        case PartialAttr(), BroadcastAttr():
            return Collective("all_reduce", dim)
        case PartialAttr(), SplitAttr():
            return Collective("reduce_scatter", dim)
        case SplitAttr(), BroadcastAttr():
            return Collective("all_gather", dim)
        case SplitAttr(), SplitAttr():
            return Collective("all_to_all", dim)
        case _:
            return None


def _with_root(source: Layout, target: Layout) -> Collective | None:
    """From or to one device of a group in one row."""
    root, group = (source, target) if source.is_single else (target, source)
    inside = set(devices_of(root.placement)) <= set(devices_of(group.placement))
    if not root.is_single or not inside or len(group.hierarchy) != 1:
        return None
    scatters = root is source
    match group.entries[0]:
        case SplitAttr():
            return Collective("scatter" if scatters else "gather", None)
        case BroadcastAttr() if scatters:
            return Collective("broadcast", None)
        case PartialAttr() if not scatters:
            return Collective("reduce", None)
        case _:
            return None


@lru_cache(RECENT)
def marks_of(
    collective: Collective | None, source: Layout, target: Layout, number: int
) -> Mapping[str, Attribute]:
    """The attributes of the tasks that take part in a collective for one device."""
    if collective is None:
        return {}
    group = groups_of(collective, source, target)[number]
    return {"collective": StringAttr(collective.name), "group": group}


@lru_cache(RECENT)
def groups_of(
    collective: Collective, source: Layout, target: Layout
) -> Sequence[PlacementAttr]:
    """The devices that take part in a collective with each device."""
    whole = target.placement if source.is_single else source.placement
    if collective.dim is None:
        return [whole] * len(whole.pairs)
    return [row_of(whole, collective.dim, i) for i in range(len(whole.pairs))]


def row_of(placement: PlacementAttr, dim: int, number: int) -> PlacementAttr:
    """The devices that differ from one device only in a dimension of the hierarchy."""
    places = places_of(placement.shape)
    own = without(places[number], dim)
    pairs = [
        pair
        for pair, place in zip(placement.pairs, places, strict=True)
        if without(place, dim) == own
    ]
    return PlacementAttr(placement.kind.data, pairs)


def without(place: tuple[int, ...], dim: int) -> tuple[int, ...]:
    """A place but for one of its coordinates."""
    return place[:dim] + place[dim + 1 :]
