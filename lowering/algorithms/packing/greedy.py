"""
Placing one buffer after the other, each as low as it can go: rules without a search.

A rule is an order and a fit. `first` fit takes the lowest gap that is large enough,
`best` fit the smallest, of equal ones the lowest; both lay a buffer on top of all that
conflict with it only where there is no such gap. Where an order says nothing else, the
list does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from penstock.lowering.algorithms.packing.problem import Problem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]

Fit: TypeAlias = Literal["first", "best"]

################################################################################
# Fits                                                                         #
################################################################################


def place_in_order(problem: Problem, order: Sequence[int], fit: Fit) -> list[int]:
    """One offset for each buffer, placed in an order of their indices."""
    import numpy as np

    # The rows hold what is placed so far in the order of offsets, so that the gaps
    # between those that conflict are seen in one sweep.
    rows = np.zeros((5, len(order)), np.int64)
    offsets = [0] * len(order)
    further = further_neighbours(problem)
    for count, i in enumerate(order):
        first, last, size = problem.lifetimes[i]
        start, end, born, dead, index = rows[:, :count]
        together = (born <= last) & (dead >= first)
        if i in further:
            together |= np.isin(index, further[i])
        among = np.flatnonzero(together)
        offset = lowest_of_gaps(start[among], end[among], size, fit)
        at = int(np.searchsorted(start, offset))
        rows[:, at + 1 : count + 1] = rows[:, at:count].copy()
        rows[:, at] = offset, offset + problem.strides[i], first, last, i
        offsets[i] = offset
    return offsets


def lowest_of_gaps(starts: Ints, ends: Ints, size: int, fit: Fit) -> int:
    """Where a size fits between things that are listed in the order of their starts."""
    import numpy as np

    # The gap above all others is larger than any, but differences must not overflow.
    endless = np.iinfo(np.int64).max
    floors = np.maximum.accumulate(np.append(0, ends))
    gaps = np.append(starts, endless // 2) - floors
    if fit == "first":
        return int(floors[np.argmax(gaps >= size)])
    return int(floors[np.argmin(np.where(gaps >= size, gaps, endless))])


def further_neighbours(problem: Problem) -> dict[int, list[int]]:
    """The further conflicts of those buffers that have some."""
    neighbours: dict[int, list[int]] = {}
    for i, j in problem.further_conflicts:
        neighbours.setdefault(i, []).append(j)
        neighbours.setdefault(j, []).append(i)
    return neighbours


################################################################################
# Orders                                                                       #
################################################################################

Order: TypeAlias = Callable[[Problem], list[int]]
"""The order in which the buffers of a problem are placed."""


def sorted_by(
    problem: Problem, *keys: Callable[[Problem], Sequence[int]], falling: bool = False
) -> list[int]:
    """The indices of the buffers by one number of each, then by another..."""
    rows = list(zip(*(key(problem) for key in keys), strict=True))
    return sorted(range(len(rows)), key=rows.__getitem__, reverse=falling)


def firsts(problem: Problem) -> list[int]:
    """The first step of each buffer."""
    return [life.first for life in problem.lifetimes]


def lasts(problem: Problem) -> list[int]:
    """The last step of each buffer."""
    return [life.last for life in problem.lifetimes]


def by_size(problem: Problem) -> list[int]:
    """Largest first, of equal ones that which is needed first."""
    return sorted_by(problem, falling_sizes, firsts)


def by_size_and_steps(problem: Problem) -> list[int]:
    """Largest first, of equal ones that which is needed longest."""
    return sorted_by(problem, falling_sizes, falling_steps)


def by_steps(problem: Problem) -> list[int]:
    """Buffers by steps, longest first, then the largest."""
    return sorted_by(problem, falling_steps, falling_sizes)


def by_volume(problem: Problem) -> list[int]:
    """Buffers by bytes times steps, largest first."""
    return sorted_by(problem, falling_volumes)


def by_first(problem: Problem) -> list[int]:
    """Buffers by their first step, earliest first."""
    return sorted_by(problem, firsts)


def by_first_and_last(problem: Problem) -> list[int]:
    """Buffers by their first step, earliest first, then by their last step."""
    return sorted_by(problem, firsts, lasts)


def by_first_and_size(problem: Problem) -> list[int]:
    """Buffers by their first step, earliest first, then the largest."""
    return sorted_by(problem, firsts, falling_sizes)


def by_last_and_size(problem: Problem) -> list[int]:
    """Buffers by their last step, latest first, then the largest."""
    return sorted_by(problem, lambda p: negated(lasts(p)), falling_sizes)


def by_fewest_conflicts(problem: Problem) -> list[int]:
    """Buffers by their number of conflicts, fewest first, then the largest."""
    return sorted_by(problem, conflict_counts, falling_sizes)


def by_most_conflicts(problem: Problem) -> list[int]:
    """Buffers by their number of conflicts, most first, then the largest."""
    return sorted_by(problem, lambda p: negated(conflict_counts(p)), falling_sizes)


def by_fullest_step(problem: Problem) -> list[int]:
    """
    The buffers of the fullest step first, then those of the next one; largest first.
    """
    return sorted_by(
        problem, lambda p: negated(largest_live_bytes(p)), falling_sizes, firsts
    )


def negated(numbers: Sequence[int]) -> list[int]:
    """Each number with the other sign."""
    return [-number for number in numbers]


def falling_sizes(problem: Problem) -> list[int]:
    """The sizes, such that the largest comes first."""
    return negated(problem.sizes)


def falling_steps(problem: Problem) -> list[int]:
    """For how many steps each is needed, such that the longest comes first."""
    return [life.first - life.last for life in problem.lifetimes]


def falling_volumes(problem: Problem) -> list[int]:
    """Bytes times steps, such that the largest comes first."""
    return [(a - b - 1) * size for a, b, size in problem.lifetimes]


def conflict_counts(problem: Problem) -> list[int]:
    """With how many others each buffer conflicts; those without bytes do not count."""
    some = [life for life in problem.lifetimes if life.size]
    begins, ends = sorted(life.first for life in some), sorted(x.last for x in some)
    further = further_neighbours(problem)
    counts: list[int] = []
    for i, (first, last, size) in enumerate(problem.lifetimes):
        together = bisect_right(begins, last) - bisect_left(ends, first) - bool(size)
        others = sum(bool(problem.sizes[j]) for j in further.get(i, ()))
        counts.append(together + others)
    return counts


def largest_live_bytes(problem: Problem) -> list[int]:
    """The live bytes at the fullest of the steps at which each buffer is needed."""
    import numpy as np

    begins, ends = np.array(firsts(problem)), np.array(lasts(problem))
    sizes = np.array(problem.sizes, np.int64)
    steps = np.unique(begins)
    change = np.zeros(len(steps) + 1, np.int64)
    low, high = np.searchsorted(steps, begins), np.searchsorted(steps, ends, "right")
    np.add.at(change, low, sizes)
    np.add.at(change, high, -sizes)
    live = np.cumsum(change)
    return [int(live[a:b].max()) for a, b in zip(low, high, strict=True)]


################################################################################
# Rules                                                                        #
################################################################################


class Rule(NamedTuple):
    """An order and a fit."""

    order: Order
    fit: Fit

    def __call__(self, problem: Problem) -> list[int]:
        return place_in_order(problem, self.order(problem), self.fit)


RULES: Mapping[str, Rule] = {
    "size-first": Rule(by_size, "first"),
    "lifetime-first": Rule(by_steps, "first"),
    "volume-first": Rule(by_volume, "first"),
    "time-line": Rule(by_first, "best"),
    "first-fit-time": Rule(by_first, "first"),
    "best-fit": Rule(by_first_and_last, "best"),
}
"""The rules by the names that they have as algorithms."""

ORDERS: Sequence[Order] = (
    by_size,
    by_size_and_steps,
    by_volume,
    by_steps,
    by_fullest_step,
    by_most_conflicts,
    by_fewest_conflicts,
    by_first,
    by_first_and_last,
    by_first_and_size,
    by_last_and_size,
)
"""All orders, the ones that are good most often first."""


def fewest_or_most_conflicts(problem: Problem) -> list[int]:
    """First fit by the number of conflicts, rising and falling: the lower layout."""
    orders = by_fewest_conflicts(problem), by_most_conflicts(problem)
    return min(
        (place_in_order(problem, order, "first") for order in orders),
        key=problem.peak,
    )
