"""
Branch and bound on a ladder of capacities: lower and lower layouts of a problem.

The space between the bound and the best layout is cut at some capacities, and for each
of them searches with several orders take turns; each round they may have taken twice as
many steps as in the one before, those at the bound, where most layouts are found, more
than others. A layout that is found lowers what is sought, a proof that
there is none raises the bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from penstock.lowering.algorithms.packing import compiled_search as search
from penstock.lowering.algorithms.packing.compiled import (
    Ints,
    Numbers,
    numbers_of,
    table_of,
)
from penstock.lowering.algorithms.packing.search_state import (
    FULL,
    IMPOSSIBLE,
    PAUSED,
    SOLVED,
    Buffer,
    Frame,
    Search,
    Section,
    State,
)
from penstock.lowering.algorithms.packing.tables import Tables, columns, copied, joined

SLICE = 1 << 17
"""Steps after which a search pauses: less than a millisecond, or 0.1 s by Python."""

AT_THE_BOUND = 16
"""The factor of steps that searches at the bound have."""

RUNGS = 4, 32
"""
Into how many pieces, up to twice as many, the space between the bound and the best
layout is cut in the first round, and then more and more up to a last number. Searches
at different capacities go different ways, so that one of many is likely to be quick.
"""

KEPT_BUFFERS = 1 << 14
"""
There are no more pieces than this over the number of buffers: all searches are kept,
and each has some kilobytes for a buffer.
"""


class Order(NamedTuple):
    """
    The order of buffers that could lie at one offset: by more of `before`, then by a
    fuller section of open ones, then by more of `after`.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    share: float = 1
    """The part of the steps of a round that it has."""


ORDERS = (
    Order((), ("volume", "steps")),
    Order((), ("steps", "volume")),
    Order(("steps", "volume"), (), share=1 / 4),
    Order(("conflicts",), ("volume",), share=1 / 4),
)


class Ladder:
    """
    Searches for lower and lower layouts of a problem that is part of another one, down
    to the bound of that, or for one of at most a given capacity.
    """

    def __init__(
        self, tables: Tables, peak: int, bound: int, capacity: int | None = None
    ):
        self.peak = peak
        """The height in bytes of the best layout so far."""
        self.bound = bound
        """Nothing is lower, or need be."""
        self.offsets: list[int] | None = None
        """The best layout, if a search has found it."""
        self._tables = tables
        self._capacity = capacity
        self._links, ends = joined([*tables.neighbours, *tables.sections])
        self._buffers = buffers_of(tables, ends)
        self._sections = sections_of(tables, ends)
        self._searches: dict[tuple[int, Order], Search] = {}
        values = {
            "steps": tables.steps,
            "volume": tables.steps * tables.sizes,
            "conflicts": np.diff(ends)[: len(tables.sizes)],
        }
        self._keys = {
            order: (
                rank_by([values[name] for name in order.before]),
                rank_by([values[name] for name in order.after], apart=True),
            )
            for order in ORDERS
        }

    def slices(self) -> Iterator[int]:
        """
        Go on with the searches, and stop for a moment after some steps, whose number is
        handed out; until the best layout is as low as the bound, or as the capacity.
        """
        # Enough for a search to get from the bottom to the top of most layouts.
        count = len(self._buffers)
        limit = len(self._links) + count * (count + len(self._sections)) >> 1
        rungs, most = RUNGS
        most = max(rungs, min(most, KEPT_BUFFERS // count))
        while capacities := self._capacities(rungs):
            known = self.peak
            for capacity in capacities:
                yield from self._search(capacity, limit)
                if self.peak < known:
                    break
            else:
                limit, rungs = limit * 2, min(rungs * 2, most)

    def _capacities(self, rungs: int) -> list[int]:
        """The heights to look for a layout at."""
        if self._capacity is not None:
            wanted = {self._capacity}
        else:
            gap = self.peak - self.bound
            # Where they stay on a grid, so do the searches when the gap gets smaller.
            unit = self._tables.unit
            grid = unit << max(0, (gap // rungs // unit).bit_length() - 1)
            wanted = {self.peak - 1, *range(self.bound, self.peak, grid)}
        wanted = {c for c in wanted if self.bound <= c < self.peak}
        for key in [key for key in self._searches if key[0] not in wanted]:
            del self._searches[key]
        return sorted(wanted)

    def _search(self, capacity: int, limit: int) -> Iterator[int]:
        """Look for a layout of at most some height, with all orders."""
        for order in ORDERS:
            if not self.bound <= capacity < self.peak:
                return
            times = AT_THE_BOUND if capacity == self.bound else 1
            yield from self._go_on(capacity, order, int(limit * times * order.share))

    def _go_on(self, capacity: int, order: Order, limit: int) -> Iterator[int]:
        """Let a search take so many steps in all."""
        key = capacity, order
        if key not in self._searches:
            self._searches[key] = self._new_search(capacity, order)
        buffers = columns(self._searches[key].buffers)
        units = int((buffers["limit"] + buffers["size"]).max())
        outcome, done = PAUSED, steps_of(self._searches[key])
        while outcome in (PAUSED, FULL) and done < limit:
            before, end = done, min(limit, done + SLICE)
            outcome = search.run(self._searches[key], units, end)
            done = steps_of(self._searches[key])
            if outcome == FULL:
                self._searches[key] = with_more_room(self._searches[key])
            if outcome == SOLVED:
                self._keep(self._searches[key])
            yield done - before
        if outcome == IMPOSSIBLE:
            self.bound = capacity + 1

    def _keep(self, solved: Search) -> None:
        """Keep the layout of a search."""
        self.offsets = self._tables.offsets_of(columns(solved.buffers)["solution"])
        self.peak = self._tables.problem.peak(self.offsets)

    def _new_search(self, capacity: int, order: Order) -> Search:
        count = len(self._buffers)
        # A step needs at most half of it.
        room = 12 * (count + len(self._sections)) + 64
        buffers = copied(self._buffers)
        table = columns(buffers)
        table["limit"] = (capacity - self._tables.bytes) // self._tables.unit
        table["key"], table["second_key"] = self._keys[order]
        maxima = len(self._sections).bit_length(), len(self._sections)
        started = Search(
            table_of(State, 1),
            buffers,
            copied(self._sections),
            table_of(Frame, 2 * count + 4),
            self._links,
            np.zeros(maxima, np.int64),
            *(numbers_of(np.zeros(room, np.int64)) for _ in range(4)),
        )
        search.start(started)
        return started


def rank_by(keys: Sequence[Ints], *, apart: bool = False) -> Ints | int:
    """
    Numbers that fall as the keys rise, the first key before the next ones. Equal keys
    have one number, or if they are to be kept apart, numbers in the order of the list.
    """
    if not keys:
        return 0
    rows = np.stack(keys[::-1])
    order = np.lexsort(-rows)
    steps = np.ones(len(order), np.int64)
    if not apart:
        steps[1:] = (np.diff(rows[:, order]) != 0).any(0)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(steps)
    return ranks


def buffers_of(tables: Tables, ends: Ints) -> Sequence[Buffer]:
    """The rows of the buffers; their links come first."""
    count = len(tables.sizes)
    rows = table_of(Buffer, count)
    table = columns(rows)
    table["size"], table["is_open"] = tables.sizes, 1
    table["first"], table["last"] = tables.first, tables.last
    table["reach"] = tables.reach
    table["links_from"], table["links_to"] = ends[:count], ends[1 : count + 1]
    return rows


def sections_of(tables: Tables, ends: Ints) -> Sequence[Section]:
    """The rows of the sections; their links come last."""
    rows = table_of(Section, len(tables.sections))
    table = columns(rows)
    count = len(tables.sizes)
    table["links_from"], table["links_to"] = ends[count:-1], ends[count + 1 :]
    table["lowest"] = [section[0] for section in tables.sections]
    table["rest"] = [tables.sizes[section].sum() for section in tables.sections]
    change = np.zeros(len(rows) + 1, np.int64)
    np.add.at(change, tables.first, 1)
    np.add.at(change, tables.reach - 1, -1)
    table["spans"] = np.cumsum(change)[:-1]
    return rows


def steps_of(running: Search) -> int:
    """The steps that a search has taken."""
    return int(columns(running.state)["steps"][0])


def with_more_room(full: Search) -> Search:
    """A search with longer lists in place of those that are half full."""
    state = columns(full.state)[0]

    def longer(numbers: Numbers, end: str) -> Numbers:
        if 2 * int(state[end]) < len(numbers):
            return numbers
        copy = numbers_of(np.zeros(2 * len(numbers), np.int64))
        copy[: len(numbers)] = numbers
        return copy

    return full._replace(
        candidates=longer(full.candidates, "candidates"),
        members=longer(full.members, "members"),
        offset_trail=longer(full.offset_trail, "offsets"),
        floor_trail=longer(full.floor_trail, "floors"),
    )
