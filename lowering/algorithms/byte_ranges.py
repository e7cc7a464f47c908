"""Sets of bytes in named memories, as ranges that neither overlap nor touch."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import NamedTuple


class Range(NamedTuple):
    """The bytes of a memory from `start` up to but without `end`."""

    memory: str
    start: int
    end: int


class ByteRanges:
    """A set of bytes that grows."""

    def __init__(self) -> None:
        self._starts: dict[str, list[int]] = defaultdict(list)
        self._ends: dict[str, list[int]] = defaultdict(list)

    def meets(self, range: Range) -> bool:
        """Whether any byte of a range is in the set."""
        before = bisect_left(self._starts[range.memory], range.end) - 1
        return before >= 0 and self._ends[range.memory][before] > range.start

    def add(self, range: Range) -> None:
        """Add all bytes of a range, unless it is empty."""
        memory, start, end = range
        if start >= end:
            return
        starts, ends = self._starts[memory], self._ends[memory]
        first, last = bisect_left(ends, start), bisect_right(starts, end)
        if first < last:
            start, end = min(start, starts[first]), max(end, ends[last - 1])
        starts[first:last], ends[first:last] = [start], [end]
