"""
Splits, broadcasts and partial sums: which part of a tensor each device holds.

An *entry* says how a tensor lies along one dimension of a hierarchy of devices: cut
along an axis (`S(axis)`), whole on each (`B`), or as terms of a sum (`P`). Cuts follow
one rule: of `n` parts of an axis, the first (extent mod n) ones are longer by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import product
from typing import NamedTuple

from xdsl.dialects.builtin import ArrayAttr, TensorType
from xdsl.ir import Attribute

from penstock.dialects.job import (
    BroadcastAttr,
    DeviceAttr,
    Entry,
    PartialAttr,
    PlacementAttr,
    SbpAttr,
    SplitAttr,
    sbp_entry_text,
)

RECENT = 4096
"""The most values of a kind in the cache."""

BROADCAST = BroadcastAttr()
PARTIAL = PartialAttr()


@cache
def split(axis: int) -> SplitAttr:
    """`S(axis)`."""
    return SplitAttr(axis)


@cache
def sbp_of(*entries: Entry) -> SbpAttr:
    """The SBP with these entries, one for each dimension of the hierarchy."""
    return SbpAttr(ArrayAttr(entries))


################################################################################
# Signatures                                                                   #
################################################################################


class SbpSignature(NamedTuple):
    """
    One way to run an op in parts: where its operands lie like this, each device gets
    its part of the results from its parts of the operands alone.
    """

    operands: tuple[Entry, ...]
    results: tuple[Entry, ...]

    def __str__(self) -> str:
        return f"{entries_text(self.operands)} -> {entries_text(self.results)}"


def entries_text(entries: Sequence[Entry]) -> str:
    """Entries as error messages show them, such as `(S(0), B)`."""
    return f"({', '.join(map(sbp_entry_text, entries))})"


def signature(
    operands: Sequence[int | Entry | None], results: Sequence[int | Entry | None]
) -> SbpSignature:
    """A signature in short: an axis stands for `S(axis)` and `None` for `B`."""
    return SbpSignature(tuple(map(_entry, operands)), tuple(map(_entry, results)))


def _entry(short: int | Entry | None) -> Entry:
    if short is None:
        return BROADCAST
    return split(short) if isinstance(short, int) else short


def broadcast_signatures(
    operands: Sequence[Sequence[int]], result: Sequence[int]
) -> list[SbpSignature]:
    """
    One signature for each axis of a result that shapes are broadcast to as NumPy does:
    an operand that has the axis is cut along it, one that is repeated there is whole.
    """
    return [
        signature([_own_axis(shape, axis, result) for shape in operands], [axis])
        for axis in range(len(result))
        if result[axis] != 1
    ]


def _own_axis(shape: Sequence[int], axis: int, result: Sequence[int]) -> int | None:
    """The axis of an operand that is an axis of the result, unless it is repeated."""
    own = axis - len(result) + len(shape)
    return None if own < 0 or shape[own] == 1 else own


################################################################################
# Parts                                                                        #
################################################################################


class Part(NamedTuple):
    """A box of elements of a tensor: where it starts, and its extents."""

    offsets: tuple[int, ...]
    shape: tuple[int, ...]

    def meet(self, other: Part) -> Part | None:
        """The elements that two parts have in common, or None if there are none."""
        starts = tuple(map(max, self.offsets, other.offsets))
        ends = tuple(map(min, self.ends, other.ends))
        extents = tuple(end - start for start, end in zip(starts, ends, strict=True))
        return Part(starts, extents) if min(extents, default=1) > 0 else None

    @property
    def ends(self) -> tuple[int, ...]:
        """Where the part ends on each axis."""
        return tuple(map(sum, zip(self.offsets, self.shape, strict=True)))


def whole(shape: Sequence[int]) -> Part:
    """All elements of a tensor."""
    return Part((0,) * len(shape), tuple(shape))


def balanced(extent: int, parts: int, index: int) -> tuple[int, int]:
    """The start and the size of one of `parts` parts of an extent."""
    size, longer = divmod(extent, parts)
    return size * index + min(index, longer), size + (index < longer)


def part_of(
    shape: Sequence[int],
    sbp: SbpAttr,
    hierarchy: Sequence[int],
    place: Sequence[int],
) -> Part:
    """
    The part of a tensor on the device at `place` of the hierarchy: each entry cuts the
    part that the entries before it have left.
    """
    offsets, extents = [0] * len(shape), list(shape)
    for entry, parts, index in zip(sbp.dims, hierarchy, place, strict=True):
        if isinstance(entry, SplitAttr):
            axis = entry.axis.data
            start, extents[axis] = balanced(extents[axis], parts, index)
            offsets[axis] += start
    return Part(tuple(offsets), tuple(extents))


def part_type(type: TensorType, part: Part) -> TensorType:
    """The type of a part of a tensor."""
    return _tensor_of(type.element_type, part.shape)


@lru_cache(RECENT)
def _tensor_of(element: Attribute, shape: tuple[int, ...]) -> TensorType:
    return TensorType(element, shape)


@lru_cache(RECENT)
def parts_on(
    shape: tuple[int, ...], sbp: SbpAttr, hierarchy: tuple[int, ...]
) -> tuple[Part, ...]:
    """The part of a tensor at each place of a hierarchy."""
    return tuple(part_of(shape, sbp, hierarchy, p) for p in places_of(hierarchy))


@cache
def places_of(hierarchy: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The place of each device in its hierarchy, in the order of the placement."""
    return tuple(product(*map(range, hierarchy)))


################################################################################
# Layouts                                                                      #
################################################################################


class Layout(NamedTuple):
    """On which devices a tensor lies, and how."""

    placement: PlacementAttr
    sbp: SbpAttr

    @classmethod
    def whole_on(cls, placement: PlacementAttr) -> Layout:
        """Whole on each device of a placement."""
        return _whole_on(placement)

    @property
    def hierarchy(self) -> tuple[int, ...]:
        """The extents of the hierarchy of devices."""
        return self.placement.shape

    @property
    def entries(self) -> tuple[Entry, ...]:
        """One entry for each dimension of the hierarchy."""
        return self.sbp.dims.data

    @property
    def is_single(self) -> bool:
        """Whether there is only one device."""
        return len(devices_of(self.placement)) == 1

    def parts_of(self, shape: Sequence[int]) -> tuple[Part, ...]:
        """The part of a tensor on each device, in the order of the placement."""
        return parts_on(tuple(shape), self.sbp, self.hierarchy)

    def __str__(self) -> str:
        return f"{self.sbp} on {self.placement}"


@lru_cache(RECENT)
def _whole_on(placement: PlacementAttr) -> Layout:
    return Layout(placement, sbp_of(*[BROADCAST] * len(placement.shape)))


@lru_cache(RECENT)
def devices_of(placement: PlacementAttr) -> tuple[DeviceAttr, ...]:
    """The devices of a placement, in order."""
    kind = placement.kind.data
    return tuple(DeviceAttr(rank, kind, index) for rank, index in placement.pairs)
