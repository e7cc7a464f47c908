"""The bytes that slots lie on, and the accesses of steps to registers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """Slots of `size` bytes, the first one at `start`, each `stride` from the next."""

    start: int
    size: int
    stride: int
    slots: int

    @property
    def end(self) -> int:
        """Where the last slot ends."""
        return self.start + self.stride * (self.slots - 1) + self.size

    @property
    def starts(self) -> Iterator[int]:
        """Where each slot starts."""
        return (self.start + self.stride * i for i in range(self.slots))


def shared_by(a: Span, b: Span) -> int:
    """The bytes that the slots of both have in common."""
    if a.start >= b.end or b.start >= a.end:
        return 0
    first, second = list(a.starts), list(b.starts)
    shared = i = j = 0
    while i < a.slots and j < b.slots:
        end, other = first[i] + a.size, second[j] + b.size
        shared += max(0, min(end, other) - max(first[i], second[j]))
        if end <= other:
            i += 1
        else:
            j += 1
    return shared


def slots_match(a: Span, b: Span) -> bool:
    """Whether each slot shares bytes with no other than the same one."""
    if a.slots != b.slots:
        return False
    if a.slots == 1:
        return True
    low, high = sorted((a, b))
    is_inside = high.start + high.size <= low.start + low.stride
    return a.stride == b.stride and is_inside


def without(
    start: int, end: int, holes: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """The from-to pieces of some bytes that lie in none of these."""
    for begin, over in sorted(holes):
        if start < min(begin, end):
            yield start, min(begin, end)
        start = max(start, over)
    if start < end:
        yield start, end


def uncovered(size: int, pieces: Sequence[tuple[int, int]]) -> int:
    """The bytes from 0 up to a size that lie in none of these from-to pieces."""
    return sum(end - start for start, end in without(0, size, pieces))


class Access(NamedTuple):
    """
    The access of one step of an actor: the registers that it names, those that it
    writes, those that it leaves unchanged though it may write over them, and those that
    it reads before it has written them.
    """

    named: Sequence[str]
    written: Sequence[str]
    unchanged: Sequence[str] = ()
    needed: Sequence[str] = ()
