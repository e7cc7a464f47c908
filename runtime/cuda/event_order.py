"""
The order of streams by events, as acts of units are launched on devices.

Each stream is a lane. The acts that a lane is known to come after are a vector clock:
the number of acts of each lane. So a lane waits for an event only if nothing that it
has waited for before implies it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.runtime.cuda.driver import Driver, Handle
from penstock.runtime.cuda.launch_units import Edge


@dataclass
class Lane:
    """A stream of a device, and the acts of each lane that it comes after."""

    handle: Handle
    device: int
    known: list[int] = field(default_factory=list[int])


@dataclass
class Steps:
    """
    The acts of a unit: on which lane, after which others. Of the last `depth` of
    them the acts before them are known, and there is an event if a lane waits for one.
    """

    lane: int
    edges: tuple[Edge, ...]
    depth: int
    events: list[Handle] = field(default_factory=list[Handle])
    marks: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    acts: int = 0

    def event_of(self, act: int) -> Handle:
        """The event of one of the last acts."""
        return self.events[act % self.depth]

    def mark_of(self, act: int) -> tuple[int, ...]:
        """The acts that one of the last acts comes after."""
        return self.marks[act % self.depth]


class Order:
    """The lanes and units of a program; it is told of all acts in their order."""

    def __init__(self, driver: Driver, lanes: Sequence[Lane], units: Sequence[Steps]):
        self._driver = driver
        self.lanes, self.units = lanes, units
        # A lane does one thing after the other.
        self._edges = [
            [
                (edge, units[edge.unit])
                for edge in x.edges
                if units[edge.unit].lane != x.lane
            ]
            for x in units
        ]
        self.reset()

    def reset(self) -> None:
        """Go back to before the first act; nothing may be under way."""
        for lane in self.lanes:
            lane.known = [0] * len(self.lanes)
        for unit in self.units:
            unit.acts, unit.marks = 0, [()] * unit.depth

    def begin(self, number: int) -> None:
        """Let the lane of a unit wait for the acts before the next act of the unit."""
        unit = self.units[number]
        known, acts = self.lanes[unit.lane].known, unit.acts
        ahead: list[tuple[int, Steps, int]] = []
        for (_, made, taken, shift), other in self._edges[number]:
            act = (acts // taken + shift + 1) * made - 1
            if act >= 0:
                mark = other.marks[act % other.depth]
                if known[other.lane] < mark[other.lane]:
                    ahead.append((-sum(mark), other, act))
        # Those that come after most others first: they may imply the rest.
        if len(ahead) > 1:
            ahead.sort(key=first_of)
        for _, other, act in ahead:
            self._wait(unit.lane, other, act)

    def join(self, lane: int, unit: int) -> None:
        """Let a lane come after the last act of a unit."""
        other = self.units[unit]
        if other.lane != lane:
            self._wait(lane, other, other.acts - 1)

    def _wait(self, number: int, other: Steps, act: int) -> None:
        lane, mark = self.lanes[number], other.mark_of(act)
        if lane.known[other.lane] < mark[other.lane]:
            self._driver.wait(lane.handle, other.event_of(act))
            lane.known = list(map(max, lane.known, mark))

    def end(self, number: int) -> None:
        """Note that all of the next act of a unit has been asked for."""
        unit = self.units[number]
        lane, slot = self.lanes[unit.lane], unit.acts % unit.depth
        lane.known[unit.lane] += 1
        unit.marks[slot] = tuple(lane.known)
        if unit.events:
            self._driver.record(unit.events[slot], lane.handle)
        unit.acts += 1


def first_of(row: tuple[int, Steps, int]) -> int:
    """The sort key of rows."""
    return row[0]


def awaited(lanes: Sequence[int], edges: Sequence[tuple[Edge, ...]]) -> set[int]:
    """The units that others wait for on another lane, given the lane of each."""
    return {
        edge.unit
        for unit, found in enumerate(edges)
        for edge in found
        if lanes[edge.unit] != lanes[unit]
    }
