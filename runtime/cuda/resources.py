"""The resources of a program on CUDA devices besides its chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from penstock.runtime.cuda.driver import CudaError, Driver, Handle
from penstock.runtime.cuda.launch_units import Flow
from penstock.runtime.cuda.launches import WORD, Step
from penstock.runtime.cuda.loops import MOST_STATUSES
from penstock.runtime.errors import OutOfMemory, TaskError
from penstock.runtime.loading.memory import host_bytes
from penstock.runtime.program.actors import Actor, Call

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
    the first one is for calls that have none. In loops, each of the calls of an act has
    a word of its own, up to `MOST_STATUSES`.
    """

    def __init__(self, resources: Resources, flow: Flow):
        self._resources = resources
        self._places: dict[int, tuple[int, int, int]] = {}
        """Call, by its id: its device, the number of its first word, and how many."""
        counts: dict[int, int] = {}
        for actor, place in zip(flow.actors, flow.places, strict=True):
            for number, call in enumerate(actor.calls if place is not None else ()):
                assert place is not None, "asked before"
                first, count = (
                    counts.setdefault(place.device, 1),
                    _statuses(actor, number),
                )
                self._places[id(call)] = place.device, first if count else 0, count or 1
                counts[place.device] += count
        self._sizes = {device: WORD * count for device, count in counts.items()}
        self._base = {x: resources.allocate(x, n) for x, n in self._sizes.items()}

    def of(self, call: Call) -> tuple[int, int]:
        """The address of the words of a call, and how many these are."""
        device, first, count = self._places[id(call)]
        return self._base[device] + WORD * first, count

    def clear(self) -> None:
        """Forget failed assertions; no work may be under way."""
        for device, size in self._sizes.items():
            self._resources.clear(device, self._base[device], size)


def _statuses(actor: Actor, number: int) -> int:
    """The statuses that a call of an actor needs."""
    if not actor.calls[number].messages:
        return 0
    control = actor.control
    return 1 if control is None else min(control.times(number), MOST_STATUSES)


class Made(NamedTuple):
    """
    A call that may fail: its step, the number of its status, and the iterations of the
    loops around it, the outermost first.
    """

    step: Step
    status: int
    iterations: tuple[int, ...]


class Check:
    """
    The statuses of a unit, which are copied to the host behind each act, to one of
    `depth` places. `steps` are those that assert something.
    """

    def __init__(
        self, resources: Resources, device: int, steps: Sequence[Step], depth: int
    ):
        self._driver, self._depth = resources.driver, depth
        ordered = sorted(steps, key=lambda step: step.status)
        ends = accumulate((step.statuses for step in ordered), initial=0)
        self._first = {
            step.status: end for step, end in zip(ordered, ends, strict=False)
        }
        """Step, by the address of its statuses: the number of the first one here."""
        self._runs = _runs([(step.status, step.status_bytes) for step in ordered])
        self._size = sum(size for _, size in self._runs)
        self._mirror = resources.allocate_host(device, self._size * depth)

    def ask(self, act: int, stream: Handle) -> None:
        """Ask a stream for the copies of an act."""
        target = self._mirror + act % self._depth * self._size
        for address, size in self._runs:
            self._driver.copy(target, address, size, stream)
            target += size

    def raise_failure(self, act: int, made: Iterable[Made]) -> None:
        """
        Raise TaskError if something had failed when the copies were made; for the first
        of the calls of the act that did.
        """
        start = self._mirror + act % self._depth * self._size
        codes = host_bytes(start, self._size).view("int32")
        if not codes.any():
            return
        for step, status, iterations in made:
            if code := int(codes[self._first[step.status] + status]):
                known = 0 < code <= len(step.messages)
                message = step.messages[code - 1] if known else None
                error = TaskError(step.task, act, code, message)
                error.iterations = iterations
                raise error


def _runs(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Bytes that follow each other, together: where they start, and how many."""
    runs: list[tuple[int, int]] = []
    for address, size in spans:
        if runs and sum(runs[-1]) == address:
            runs[-1] = runs[-1][0], runs[-1][1] + size
        else:
            runs.append((address, size))
    return runs
