"""
The packing problem: buffers of bytes, each needed for a while.

Every size and offset is in bytes; offsets are multiples of an alignment. Two buffers
*conflict* when they are needed together: then they must not share a byte. Conflicts
follow from lifetimes on a list of steps; where the order of steps is only partial,
further pairs conflict although their lifetimes on one such list do not overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import accumulate
from typing import NamedTuple

from penstock.lowering.algorithms.graphs import bits_of
from penstock.lowering.algorithms.occupancy import Occupancy


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


def shares_bytes(offsets: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether two things lie on a common byte."""
    end = 0
    for offset, size in sorted(zip(offsets, sizes, strict=True)):
        if size and offset < end:
            return True
        end = max(end, offset + size)
    return False


def live_bytes(lifetimes: Sequence[Lifetime]) -> int:
    """The bytes needed at the fullest step: no layout can be smaller."""
    return Occupancy(lifetimes).most


def fullest(lifetimes: Sequence[Lifetime], alignment: int) -> tuple[int, int]:
    """
    The bytes of what is needed at the fullest step, all filled up to the alignment, and
    how many of them the last one does not need if it is the one that loses the most.
    """
    strides = [align(life.size, alignment) for life in lifetimes]
    lost: list[tuple[int, int]] = []
    """The bytes that the alive ones lose, most first, and their ends."""
    ends: list[tuple[int, int]] = []
    best, used = (0, 0), 0
    for index in sorted(range(len(strides)), key=lambda i: lifetimes[i].first):
        first, last, size = lifetimes[index]
        heappush(ends, (last, strides[index]))
        heappush(lost, (size - strides[index], last))
        used += strides[index]
        while ends[0][0] < first:
            used -= heappop(ends)[1]
        while lost[0][1] < first:
            heappop(lost)
        best = max(best, (used, -lost[0][0]), key=lambda found: found[0] - found[1])
    return best


@dataclass(frozen=True)
class Problem:
    """Buffers that are to be given offsets."""

    lifetimes: Sequence[Lifetime]
    alignment: int = 1
    further_conflicts: Sequence[tuple[int, int]] = ()
    """Pairs of indices that conflict although their lifetimes do not overlap."""

    def __hash__(self) -> int:
        lists = map(tuple, (self.lifetimes, self.further_conflicts))
        return hash((self.alignment, *lists))

    def __post_init__(self) -> None:
        if self.alignment < 1:
            raise ValueError(f"alignment must be at least 1, got {self.alignment}")
        for index, (first, last, size) in enumerate(self.lifetimes):
            if last < first or size < 0:
                raise ValueError(
                    f"buffer {index} is needed from {first} to {last} "
                    f"and has {size} bytes"
                )
        count = len(self.lifetimes)
        for i, j in self.further_conflicts:
            if i == j or not (0 <= i < count and 0 <= j < count):
                raise ValueError(f"no two of {count} buffers: {i} and {j}")

    @staticmethod
    def of_conflicts(
        sizes: Sequence[int], conflicts: Sequence[int], alignment: int = 1
    ) -> Problem:
        """
        A problem where bit j of `conflicts[i]` says that buffers i and j conflict.

        The buffers should be listed in an order in which they can be written. A sweep
        along the list and one against it each find sets of buffers that all conflict;
        the problem counts as the lifetimes of the sweep with the larger bound.
        """
        return Problem.of_swept(swept(sizes, conflicts), alignment)

    @staticmethod
    def of_swept(found: Swept, alignment: int = 1) -> Problem:
        """A problem with these lifetimes and pairs."""
        sets = enumerate(found.further)
        pairs = [(min(i, j), max(i, j)) for i, others in sets for j in bits_of(others)]
        return Problem(found.lifetimes, alignment, pairs)

    @cached_property
    def sizes(self) -> list[int]:
        """The bytes of each buffer."""
        return [life.size for life in self.lifetimes]

    @cached_property
    def strides(self) -> list[int]:
        """The sizes, rounded up to the alignment."""
        return [align(size, self.alignment) for size in self.sizes]

    @cached_property
    def bound(self) -> int:
        """
        The lower bound of all layouts: the buffers of one step lie one after the other,
        all but the last one filled up to the alignment.
        """
        filled, lost = fullest(self.lifetimes, self.alignment)
        return filled - lost

    @cached_property
    def sections(self) -> list[list[int]]:
        """
        The sets of buffers with bytes that are needed at one step, without those that
        are part of another one.
        """
        born: dict[int, list[int]] = {}
        dead: dict[int, list[int]] = {}
        for index, (first, last, size) in enumerate(self.lifetimes):
            if size:
                born.setdefault(first, []).append(index)
                dead.setdefault(last + 1, []).append(index)
        alive: dict[int, None] = {}
        sections: list[list[int]] = []
        is_new = False
        for step in sorted({*born, *dead}):
            if is_new and step in dead:
                sections.append(list(alive))
                is_new = False
            for index in dead.get(step, ()):
                del alive[index]
            if step in born:
                alive.update(dict.fromkeys(born[step]))
                is_new = True
        return sections

    def peak(self, offsets: Sequence[int]) -> int:
        """The end of a layout."""
        return end_of(offsets, self.sizes)


class Swept(NamedTuple):
    """
    Lifetimes, and for each buffer a set of those that conflict with it although their
    lifetimes do not overlap. Each pair is in one of the two sets that it could be in.
    """

    lifetimes: list[Lifetime]
    further: list[int]

    @property
    def further_count(self) -> int:
        """The number of these pairs."""
        return sum(others.bit_count() for others in self.further)


def swept(sizes: Sequence[int], conflicts: Sequence[int]) -> Swept:
    """The parts of `Problem.of_conflicts`."""
    forth = swept_lifetimes(sizes, conflicts)
    back = swept_lifetimes(sizes, conflicts, backwards=True)
    # Along the list what is listed later begins later, against it the other way round.
    if live_bytes(back) > live_bytes(forth):
        pairs = zip(back, conflicts, strict=True)
        return Swept(back, [others & (1 << life.first) - 1 for life, others in pairs])
    pairs = zip(forth, conflicts, strict=True)
    return Swept(
        forth, [others >> life.last + 1 << life.last + 1 for life, others in pairs]
    )


def swept_lifetimes(
    sizes: Sequence[int], conflicts: Sequence[int], *, backwards: bool = False
) -> list[Lifetime]:
    """
    Lifetimes that overlap only for buffers that conflict: each begins in the order of
    the list, and ends when one begins that it does not conflict with.
    """
    end = len(sizes) - 1
    lasts = [end] * len(sizes)
    alive = 0
    order = range(end, -1, -1) if backwards else range(len(sizes))
    for step, index in enumerate(order):
        for other in bits_of(alive & ~conflicts[index]):
            lasts[other] = step - 1
        alive = alive & conflicts[index] | 1 << index
    if backwards:
        return [Lifetime(end - lasts[i], i, size) for i, size in enumerate(sizes)]
    return [Lifetime(i, lasts[i], size) for i, size in enumerate(sizes)]
