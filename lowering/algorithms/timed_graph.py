"""
Acts on a virtual clock: when each act of a graph begins, where some of them need the
same resources.

An act begins once all acts that it waits for are seen to have ended, and all of its
resources are free; of several that could begin, the one that could do so first does,
then the first in the list. It keeps its resources for a time, and is seen a delay after
that, as a message is that has left the sender and is on its way. Times are integers of
one unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple, TypeAlias

from penstock.lowering.algorithms.byte_sharing import Edge

Waiting: TypeAlias = "tuple[int, int, int]"
"""An act that waits: the time since, its iteration and its number."""


class Work(NamedTuple):
    """The resources of an act, for how long it keeps them, and the delay after that."""

    resources: tuple[int, ...]
    busy: int
    delay: int = 0


@dataclass(frozen=True)
class Times:
    """The times of all acts, by iteration and number."""

    works: Sequence[Work]
    starts: Sequence[Sequence[int]]

    def end(self, iteration: int) -> int:
        """The time when all acts of an iteration and of those before it were seen."""
        return max(
            (
                start + work.busy + work.delay
                for row in self.starts[: iteration + 1]
                for start, work in zip(row, self.works, strict=True)
            ),
            default=0,
        )


def times_of(works: Sequence[Work], edges: Sequence[Edge], iterations: int) -> Times:
    """
    The times of all acts of some iterations. An edge with tokens says that the n-th
    iteration of its target waits for the (n - tokens)-th of its source.

    Raises ValueError if some acts wait for each other.
    """
    clock = _Clock(works, edges, iterations)
    clock.run()
    if clock.begun != len(works) * iterations:
        raise ValueError("acts wait for each other")
    return Times(works, clock.starts)


class _Clock:
    """The acts that have begun, those that are under way, and those that wait."""

    def __init__(
        self, works: Sequence[Work], edges: Sequence[Edge], iterations: int
    ) -> None:
        self.works = works
        self.iterations = iterations
        self.begun = 0
        self.now = 0
        self.starts = [[-1] * len(works) for _ in range(iterations)]
        self._after: list[list[tuple[int, int]]] = [[] for _ in works]
        self._missing = [[0] * len(works) for _ in range(iterations)]
        for source, target, tokens in edges:
            self._after[source].append((target, tokens))
            for missing in self._missing[tokens:]:
                missing[target] += 1
        count = 1 + max((max(x.resources, default=-1) for x in works), default=-1)
        self._is_busy = [False] * count
        self._waiting: list[list[Waiting]] = [[] for _ in range(count)]
        """Resource: the acts that wait for it before others."""
        self._events: list[tuple[int, bool, int, int]] = []
        """Heap: when an act frees its resources, or is seen, with its numbers."""

    def run(self) -> None:
        """Let all acts begin that can."""
        ready = [
            (0, iteration, act)
            for iteration, missing in enumerate(self._missing)
            for act, count in enumerate(missing)
            if not count
        ]
        self._begin(ready, ())
        while self._events:
            now = self.now = self._events[0][0]
            ready, freed = list[Waiting](), list[int]()
            while self._events and self._events[0][0] == now:
                _, is_seen, iteration, act = heappop(self._events)
                if is_seen:
                    ready += [(now, *x) for x in self._released(iteration, act)]
                else:
                    for resource in self.works[act].resources:
                        self._is_busy[resource] = False
                        freed.append(resource)
            self._begin(ready, freed)

    def _released(self, iteration: int, act: int) -> list[tuple[int, int]]:
        """The acts that waited for nothing but an act that is seen now."""
        found: list[tuple[int, int]] = []
        for target, tokens in self._after[act]:
            if (later := iteration + tokens) < self.iterations:
                self._missing[later][target] -= 1
                if not self._missing[later][target]:
                    found.append((later, target))
        return found

    def _begin(self, ready: list[Waiting], freed: Sequence[int]) -> None:
        """Begin what can, of acts that wait for no others and those in queues."""
        touched = set(freed)
        for waiting in ready:
            resources = self.works[waiting[2]].resources
            if resources:
                heappush(self._waiting[resources[0]], waiting)
                touched.add(resources[0])
            else:
                self._start(waiting)
        for resource in sorted(touched):
            queue = self._waiting[resource]
            while queue and not self._is_busy[resource]:
                waiting = heappop(queue)
                others = self.works[waiting[2]].resources
                busy = next((x for x in others if self._is_busy[x]), None)
                if busy is None:
                    self._start(waiting)
                else:
                    heappush(self._waiting[busy], waiting)

    def _start(self, waiting: Waiting) -> None:
        _, iteration, act = waiting
        resources, busy, delay = self.works[act]
        for resource in resources:
            self._is_busy[resource] = True
        self.starts[iteration][act] = self.now
        self.begun += 1
        heappush(self._events, (self.now + busy, False, iteration, act))
        heappush(self._events, (self.now + busy + delay, True, iteration, act))
