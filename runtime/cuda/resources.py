"""The resources of a program on CUDA devices besides its chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.runtime.cuda.driver import CudaError, Driver, Handle
from penstock.runtime.cuda.launch_units import Flow
from penstock.runtime.cuda.launches import WORD, Step
from penstock.runtime.errors import OutOfMemory, TaskError
from penstock.runtime.loading.memory import host_bytes
from penstock.runtime.program.actors import Call

Owned: TypeAlias = list[tuple[int, Handle]]
"""Handles, each with its device."""


@dataclass
class Resources:
    """The objects that were made on devices, until they are destroyed."""

    driver: Driver
    streams: Owned = field(default_factory=list[tuple[int, Handle]])
    events: Owned = field(default_factory=list[tuple[int, Handle]])
    graphs: Owned = field(default_factory=list[tuple[int, Handle]])
    memory: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    pinned: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def stream(self, device: int) -> Handle:
        """A new stream of a device."""
        self.driver.use(device)
        self.streams.append((device, self.driver.stream()))
        return self.streams[-1][1]

    def make_events(self, device: int, count: int) -> list[Handle]:
        """New events of a device."""
        self.driver.use(device)
        made = [self.driver.event() for _ in range(count)]
        self.events += [(device, event) for event in made]
        return made

    def allocate(self, device: int, size: int) -> int:
        """The address of new memory of a device, all zero."""
        self.driver.use(device)
        address = self.driver.allocate(size)
        self.memory.append((device, address))
        self.clear(device, address, size)
        return address

    def clear(self, device: int, address: int, size: int) -> None:
        """Let memory of a device be 0, when this returns."""
        self.driver.use(device)
        stream = self.driver.stream()
        self.driver.clear(address, size, stream)
        self.driver.synchronize_stream(stream)
        self.driver.destroy_stream(stream)

    def allocate_host(self, device: int, size: int) -> int:
        """The address of new memory of the host that is pinned."""
        self.driver.use(device)
        self.pinned.append((device, self.driver.allocate_host(size)))
        return self.pinned[-1][1]

    def give_back(self) -> None:
        """Wait for work that is under way, then destroy all; errors are ignored."""
        driver = self.driver
        for function, handles in (
            (driver.synchronize_stream, self.streams),
            (driver.destroy_graph, self.graphs),
            (driver.destroy_event, self.events),
            (driver.destroy_stream, self.streams),
        ):
            for device, handle in handles:
                _quietly(driver, device, function, handle)
        for function, addresses in (
            (driver.free, self.memory),
            (driver.free_host, self.pinned),
        ):
            for device, address in addresses:
                _quietly(driver, device, function, address)


def _quietly(
    driver: Driver, device: int, function: Callable[[int], None], handle: object
) -> None:
    # The objects of a device that is lost went with it.
    with suppress(CudaError):
        driver.use(device)
        function(handle)  # pyright: ignore[reportArgumentType]


class Rooms:
    """
    Scratch memory of launches. Those of a lane share it, as they follow each other; but
    parts of a graph that another lane launches have their own, as they may be under way
    together with others of their lane.
    """

    def __init__(self, resources: Resources):
        self._resources = resources
        self._needed: dict[int, tuple[int, int, str]] = {}
        """Lane: its device, the most bytes that something on it needs, and its task."""
        self._places: dict[tuple[int, int], int] = {}

    def need(self, lane: int, device: int, size: int, task: str) -> None:
        """Reserve so much scratch memory for a task on a lane."""
        if lane not in self._needed or self._needed[lane][1] < size:
            self._needed[lane] = device, size, task

    def address(self, launching: int, lane: int) -> int:
        """
        The scratch memory of a lane for work that another one, or itself, launches; 0
        for none. Raises OutOfMemory with the task that needs most.
        """
        device, size, task = self._needed[lane]
        key = launching, lane
        if size and key not in self._places:
            try:
                self._places[key] = self._resources.allocate(device, size)
            except OutOfMemory as error:
                raise error.needed_by(task) from error
        return self._places.get(key, 0)


class Statuses:
    """
    The words that assertions of kernels write to: those of a device follow each other,
    the first one is for calls that have none.
    """

    def __init__(self, resources: Resources, flow: Flow):
        self._resources = resources
        self._places: dict[int, tuple[int, int]] = {}
        """Call, by its id: its device, and the number of its word."""
        counts: dict[int, int] = {}
        for actor, place in zip(flow.actors, flow.places, strict=True):
            for call in actor.calls if place is not None else ():
                assert place is not None, "asked before"
                counts.setdefault(place.device, 1)
                self._places[id(call)] = place.device, 0
                if call.messages:
                    self._places[id(call)] = place.device, counts[place.device]
                    counts[place.device] += 1
        self._sizes = {device: WORD * count for device, count in counts.items()}
        self._base = {x: resources.allocate(x, n) for x, n in self._sizes.items()}

    def address_of(self, call: Call) -> int:
        """The address that the assertions of a call write to."""
        device, number = self._places[id(call)]
        return self._base[device] + WORD * number

    def clear(self) -> None:
        """Forget failed assertions; no work may be under way."""
        for device, size in self._sizes.items():
            self._resources.clear(device, self._base[device], size)


class Check:
    """
    The statuses of a unit, which are copied to the host behind each act, to one of
    `depth` places. `steps` are those that assert something, with the addresses of
    their words.
    """

    def __init__(
        self,
        resources: Resources,
        device: int,
        steps: Sequence[tuple[Step, int]],
        depth: int,
    ):
        self._driver, self._depth = resources.driver, depth
        ordered = sorted(steps, key=lambda row: row[1])
        self._steps = [step for step, _ in ordered]
        self._runs = _runs([address for _, address in ordered])
        self._size = WORD * len(steps)
        self._mirror = resources.allocate_host(device, self._size * depth)

    def ask(self, act: int, stream: Handle) -> None:
        """Ask a stream for the copies of an act."""
        target = self._mirror + act % self._depth * self._size
        for address, size in self._runs:
            self._driver.copy(target, address, size, stream)
            target += size

    def raise_failure(self, act: int) -> None:
        """Raise TaskError if something had failed when the copies were made."""
        start = self._mirror + act % self._depth * self._size
        codes = host_bytes(start, self._size).view("int32")
        if not codes.any():
            return
        values: list[int] = codes.tolist()
        for step, code in zip(self._steps, values, strict=True):
            if code:
                known = 0 < code <= len(step.messages)
                message = step.messages[code - 1] if known else None
                raise TaskError(step.task, act, code, message)


def _runs(addresses: Sequence[int]) -> list[tuple[int, int]]:
    """Words that follow each other, together: where they start, and their bytes."""
    runs: list[tuple[int, int]] = []
    for address in addresses:
        if runs and sum(runs[-1]) == address:
            runs[-1] = runs[-1][0], runs[-1][1] + WORD
        else:
            runs.append((address, WORD))
    return runs
