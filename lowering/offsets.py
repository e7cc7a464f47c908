"""
Placing things that live for a while in one run of bytes: plain functions, no IR.

Every size and offset is in bytes; offsets are multiples of an alignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple


class Lifetime(NamedTuple):
    """The first and the last step at which something is needed, and its bytes."""

    first: int
    last: int
    size: int


def align(offset: int, alignment: int) -> int:
    """The least multiple of `alignment` that is not below `offset`."""
    return -(-offset // alignment) * alignment


def side_by_side(sizes: Sequence[int], alignment: int) -> list[int]:
    """Offsets, one a size, each behind the one before."""
    strides = [align(size, alignment) for size in sizes]
    return [0, *accumulate(strides)][: len(sizes)]


def end_of(offsets: Sequence[int], sizes: Sequence[int]) -> int:
    """The end of a layout: 0 if it is empty."""
    return max(map(sum, zip(offsets, sizes, strict=True)), default=0)


def sum_of(sizes: Sequence[int], alignment: int) -> int:
    """The end of the layout side by side, largest first."""
    ordered = sorted(sizes, reverse=True)
    return end_of(side_by_side(ordered, alignment), ordered)


def live_bytes(lifetimes: Sequence[Lifetime]) -> int:
    """The bytes needed at the fullest step: no layout can be smaller."""
    change: dict[int, int] = {}
    for first, last, size in lifetimes:
        change[first] = change.get(first, 0) + size
        change[last + 1] = change.get(last + 1, 0) - size
    return max(accumulate(change[step] for step in sorted(change)), default=0)


def size_first(lifetimes: Sequence[Lifetime], alignment: int) -> list[int]:
    """
    One offset for each lifetime: the largest is placed first (of equal ones that which
    is needed first, then that which is listed first), each as low as it can go without
    sharing bytes with a placed one that is needed at a step at which it is needed too.
    """
    import numpy as np

    # The rows hold what is placed so far in the order of offsets, so that the gaps
    # between those that are needed too are seen in one sweep.
    rows = np.zeros((4, len(lifetimes)), np.int64)
    offsets = [0] * len(lifetimes)
    for count, i in enumerate(placement_order(lifetimes)):
        first, last, size = lifetimes[i]
        start, end, born, dead = rows[:, :count]
        alive = np.flatnonzero((born <= last) & (dead >= first))
        floors = np.maximum.accumulate(np.append(0, end[alive]))
        gaps = np.append(start[alive], np.iinfo(np.int64).max) - floors
        offset = int(floors[np.argmax(gaps >= size)])
        at = int(np.searchsorted(start, offset))
        rows[:, at + 1 : count + 1] = rows[:, at:count].copy()
        rows[:, at] = offset, align(offset + size, alignment), first, last
        offsets[i] = offset
    return offsets


def placement_order(lifetimes: Sequence[Lifetime]) -> list[int]:
    """Indices of the lifetimes: larger ones first, then earlier ones."""
    keys = [(-life.size, life.first) for life in lifetimes]
    return sorted(range(len(keys)), key=keys.__getitem__)


def shares_bytes(offsets: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether two things lie on a common byte."""
    end = 0
    for offset, size in sorted(zip(offsets, sizes, strict=True)):
        if size and offset < end:
            return True
        end = max(end, offset + size)
    return False
