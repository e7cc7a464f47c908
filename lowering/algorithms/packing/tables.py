"""Problems as tables for the searches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from penstock.lowering.algorithms.packing.compiled import (
    Ints,
    Numbers,
    Rows,
    numbers_of,
)
from penstock.lowering.algorithms.packing.greedy import further_neighbours
from penstock.lowering.algorithms.packing.problem import Problem

T = TypeVar("T")


@dataclass(frozen=True)
class Tables:
    """A problem in units. At least one buffer has bytes; those without take no part."""

    problem: Problem

    @cached_property
    def indices(self) -> list[int]:
        """The buffers with bytes: all that follows is about these."""
        return [i for i, size in enumerate(self.problem.sizes) if size]

    @cached_property
    def bytes(self) -> Ints:
        """Their sizes in bytes."""
        return np.array(self.problem.sizes, np.int64)[self.indices]

    @cached_property
    def unit(self) -> int:
        """Bytes that all their sizes, rounded up to the alignment, are multiples of."""
        return int(np.gcd.reduce(self._strides))

    @cached_property
    def sizes(self) -> Ints:
        """Their sizes, rounded up, in units."""
        return self._strides // self.unit

    @cached_property
    def _strides(self) -> Ints:
        return np.array(self.problem.strides, np.int64)[self.indices]

    @cached_property
    def steps(self) -> Ints:
        """For how many steps they are needed."""
        lives = [self.problem.lifetimes[i] for i in self.indices]
        return np.array([life.last - life.first + 1 for life in lives], np.int64)

    @cached_property
    def sections(self) -> list[Ints]:
        """The sets that conflict as they are needed at one step."""
        place = {index: i for i, index in enumerate(self.indices)}
        return [
            np.array([place[index] for index in section])
            for section in self.problem.sections
        ]

    @cached_property
    def first(self) -> Ints:
        """The first section of each."""
        first = np.zeros(len(self.indices), np.int64)
        for s in range(len(self.sections) - 1, -1, -1):
            first[self.sections[s]] = s
        return first

    @cached_property
    def last(self) -> Ints:
        """One past the last section of each."""
        last = np.zeros(len(self.indices), np.int64)
        for s, section in enumerate(self.sections):
            last[section] = s + 1
        return last

    @cached_property
    def further(self) -> dict[int, list[int]]:
        """The further conflicts of those that have some."""
        place = {index: i for i, index in enumerate(self.indices)}
        return {
            place[i]: [place[j] for j in others if j in place]
            for i, others in further_neighbours(self.problem).items()
            if i in place
        }

    @cached_property
    def reach(self) -> Ints:
        """One past the last section of each or of what it conflicts with."""
        reach = self.last.copy()
        for i, others in self.further.items():
            reach[i] = max(reach[i], *(self.first[j] + 1 for j in others), 0)
        return reach

    @cached_property
    def neighbours(self) -> list[Ints]:
        """The conflicting buffers of each buffer."""
        return [
            np.flatnonzero(together)
            for together in (self._together(i) for i in range(len(self.indices)))
        ]

    def _together(self, i: int) -> NDArray[np.bool_]:
        together = (self.first < self.last[i]) & (self.first[i] < self.last)
        together[self.further.get(i, [])] = True
        together[i] = False
        return together

    def offsets_of(self, units: Ints) -> list[int]:
        """Offsets in bytes of all buffers; those without bytes are at 0."""
        offsets = np.zeros(len(self.problem.sizes), np.int64)
        offsets[self.indices] = units * self.unit
        return [int(offset) for offset in offsets]


def columns(table: Sequence[object]) -> Rows:
    """A table as an array."""
    return cast("Rows", cast("Any", table))


def copied(table: Sequence[T]) -> Sequence[T]:
    """A copy of a table."""
    return cast("Sequence[T]", columns(table).copy())


def joined(lists: Sequence[Ints]) -> tuple[Numbers, Ints]:
    """Lists, one after the other, and where each starts, and the last one ends."""
    ends = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return numbers_of(np.concatenate(lists, dtype=np.int32)), ends


def parts_of(problem: Problem) -> Iterator[list[int]]:
    """
    The sets of buffers with bytes that have no conflict with each other, as far as a
    sweep along the steps finds them.
    """
    lives, further = problem.lifetimes, further_neighbours(problem)
    part: list[int] = []
    end = 0
    for i in sorted(range(len(lives)), key=lambda index: lives[index].first):
        if part and lives[i].first > end:
            yield sorted(part)
            part = []
        if lives[i].size:
            end = max(end, lives[i].last, *(lives[j].first for j in further.get(i, ())))
            part.append(i)
    if part:
        yield sorted(part)
