"""
The numbers of slots that queues need so that acts can begin at an interval, and the
bytes that these take: plain functions over numbers, no IR. Times are in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.lowering.algorithms.occupancy import Occupancy


class Queue(NamedTuple):
    """
    Bytes that are filled from `start` on and last used before `end`, in an act that
    begins at 0. Each slot takes `size` bytes of one `memory`. The number of slots is
    open unless there are `fixed` ones; what is `lasting` is in use all the time.
    """

    start: int
    end: int
    size: int
    memory: int = 0
    fixed: int | None = None
    lasting: bool = False

    def slots(self, interval: int) -> int:
        """The slots that let an act begin every `interval`."""
        if self.fixed is not None:
            return self.fixed
        return max(1, -(-(self.end - self.start) // interval))


class Peak(NamedTuple):
    """The most bytes that are alive in a memory at once, and the queues they are of."""

    bytes: int
    owners: Sequence[int]
    """The queues that are alive then, those with most bytes first."""


def peak_of(queues: Sequence[Queue], memory: int, interval: int) -> Peak:
    """
    The fullest moment of a memory. A queue with several slots is alive all the time,
    one with a single slot from its start to its end.
    """
    bytes_of = {
        i: queue.size * queue.slots(interval)
        for i, queue in enumerate(queues)
        if queue.memory == memory
    }
    kept = [i for i in bytes_of if queues[i].lasting or queues[i].slots(interval) > 1]
    passing = sorted(bytes_of.keys() - kept)
    lives = [(queues[i].start, queues[i].end - 1, queues[i].size) for i in passing]
    occupancy = Occupancy(lives)
    alive = [passing[i] for i in occupancy.owners]
    owners = sorted([*kept, *alive], key=lambda i: (-bytes_of[i], i))
    return Peak(sum(bytes_of[i] for i in kept) + occupancy.most, owners)


def overflows(
    queues: Sequence[Queue], limits: Mapping[int, int], interval: int
) -> dict[int, Peak]:
    """The memories with more bytes alive than their limit, and how many these are."""
    peaks = {memory: peak_of(queues, memory, interval) for memory in limits}
    return {
        memory: peak for memory, peak in peaks.items() if peak.bytes > limits[memory]
    }


def longest(queues: Sequence[Queue]) -> int:
    """The interval from which on all that is open has one slot."""
    return max((q.end - q.start for q in queues if q.fixed is None), default=1)


def least_interval(
    queues: Sequence[Queue], limits: Mapping[int, int], least: int
) -> int | None:
    """
    The shortest interval, not below `least`, at which all fits into its memory. None if
    it does not even fit where all that is open has one slot.
    """
    if not overflows(queues, limits, least):
        return least
    if overflows(queues, limits, too_long := max(least, longest(queues))):
        return None
    too_short = least
    while too_long - too_short > 1:
        middle = (too_short + too_long) // 2
        if overflows(queues, limits, middle):
            too_short = middle
        else:
            too_long = middle
    return too_long
