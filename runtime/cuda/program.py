"""
A program on CUDA devices: its streams, events and graphs, and the calls of its actors.

An actor on a device becomes one call, which launches all work of an act and returns; a
*waiter*, on a thread of its own, ends when that is done. Where several actors may
become a graph, it is captured here, once for each set of addresses of their slots;
where that fails, they are launched one by one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import lcm
from typing import TypeGuard

import numpy as np

from penstock.runtime.core.io_kernels import CALLBACK_FAILED
from penstock.runtime.cuda.driver import CaptureError, CudaError, Driver, Handle
from penstock.runtime.cuda.event_order import Lane, Order, Steps, awaited
from penstock.runtime.cuda.launch_units import (
    Edge,
    Flow,
    Unit,
    edges_of,
    groups_of,
    hosts_of,
    is_last,
    running_ahead,
    used_by,
)
from penstock.runtime.cuda.launches import Step, Work, steps_of
from penstock.runtime.cuda.loops import (
    HOST_BYTES,
    DeviceMemory,
    MemoryOf,
    arguments_of,
    calls_in_act,
    is_known,
)
from penstock.runtime.cuda.resources import Check, Made, Resources, Rooms, Statuses
from penstock.runtime.errors import TaskError
from penstock.runtime.loading.devices import Place
from penstock.runtime.program.actors import Actor, Argument, Call, Fixed, Slot

MOST_GRAPHS = 8
"""The most graphs that are made of the same actors, for different slots."""
MARK = 8
"""From the address that stands for a graph to that of the next one."""
NAMED = 5
"""The most steps of a graph that an error names."""
LEAST_DEPTH = 2
"""The least number of acts of a unit that may be under way."""


@dataclass(frozen=True)
class Task:
    """An actor on a device: its lane, its steps, and where their statuses are."""

    actor: Actor
    lane: int
    steps: tuple[Step, ...]
    length: int
    """The acts of a round, in which steps may differ; 0 if none do."""
    memory: MemoryOf
    """The memory of its device, for loops and conditions."""
    made: dict[int, Sequence[Made]] = field(default_factory=dict[int, "Sequence[Made]"])
    """
    Act: the calls of it that may fail, in their order, where loops make them; that of
    all acts is 0 if they are the same.
    """

    @property
    def asserting(self) -> list[Step]:
        """Its steps that may fail."""
        return [step for step in self.steps if step.messages]

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Those of all its calls, and of its loops and conditions."""
        return arguments_of(self.actor)

    @property
    def is_capturable(self) -> bool:
        """Whether all of its steps may become part of a graph."""
        control = self.actor.control
        is_known_now = control is None or is_known(control)
        return is_known_now and all(step.is_capturable for step in self.steps)

    def ask(self, words: Sequence[int], act: int, stream: Handle, room: int) -> None:
        """
        Launch an act of the actor on a stream, given its arguments and the address of
        scratch memory.
        """
        if self.actor.control is not None:
            self._ask_loops(words, act, stream, room)
            return
        for step in self.steps:
            if self._has(step, act):
                step.ask(words, stream, room)

    def _has(self, step: Step, act: int) -> bool:
        """Whether a step is made in an act."""
        return not self.length or step.is_made_in(act, self.length)

    def _ask_loops(
        self, words: Sequence[int], act: int, stream: Handle, room: int
    ) -> None:
        """Launch the calls of loops and conditions until one is seen to have failed."""
        memory = self.memory(stream)
        made = self.made[self._record_of(act)] = list[Made]()
        used = [0] * len(self.steps)
        calls = calls_in_act(self.actor, act, words, memory)
        try:
            for call, given, iterations in calls:
                step = self.steps[call]
                if not self._has(step, act):
                    continue
                if used[call] == step.statuses:
                    # They are used again.
                    if memory.has_bits(step.status, step.status_bytes):
                        return
                    made[:] = [x for x in made if x.step is not step]
                    used[call] = 0
                status = used[call]
                if step.messages:
                    made.append(Made(step, status, iterations))
                    used[call] += 1
                step.ask(given, stream, room, status)
        except TaskError:
            # A loop cannot go on, perhaps for what a call that failed has left.
            asserting = self.asserting
            if not any(memory.has_bits(x.status, x.status_bytes) for x in asserting):
                raise

    def _record_of(self, act: int) -> int:
        """The key of the calls that were made in an act."""
        control = self.actor.control
        assert control is not None, "it has loops or conditions"
        return 0 if is_known(control) and not self.length else act

    def made_in(self, act: int) -> Sequence[Made]:
        """The calls of an act that may fail, in their order, which are forgotten."""
        if self.actor.control is None:
            steps = self.asserting
            return [Made(x, 0, ()) for x in steps if self._has(x, act)]
        key = self._record_of(act)
        return self.made[key] if key == 0 else self.made.pop(key)


class CudaProgram:
    """
    The work of the actors of a program on CUDA devices; `work_of` gives the work of
    their calls. One thread at a time launches, others may wait.

    Raises CudaError if a device lacks memory or a feature.
    """

    def __init__(self, driver: Driver, flow: Flow, work_of: Callable[[Call], Work]):
        self._driver, self._flow = driver, flow
        self._resources = Resources(driver)
        weakref.finalize(self, self._resources.give_back)
        self._statuses = Statuses(self._resources, flow)
        self._lanes: list[Lane] = []
        self._lane_of: dict[tuple[int, int], int] = {}
        self._rooms = Rooms(self._resources)
        self._words: dict[int, int] = {}
        """Device: a word of the host for what it reads and writes there."""
        self.tasks = {
            index: self._task(flow.actors[index], place, work_of)
            for index, place in enumerate(flow.places)
            if place is not None
        }
        self.ahead = frozenset(running_ahead(flow))
        """The actors on devices whose acts return before they are done."""
        self._graphs: dict[int, list[Handle]] = {}
        """Unit: its graphs, one for each of the first acts; then they begin anew."""
        self._marks = np.zeros(MOST_GRAPHS, np.int64)
        self.mark_address = int(self._marks.ctypes.data)
        """Stands for the first graph of a unit, those that follow for the next."""
        self.units = self._make_units()
        self.depths = [self._depth(unit) for unit in self.units]
        """The number of acts of each unit that may be under way."""
        edges = edges_of(flow, self.units)
        self.lanes = [self.tasks[unit.actors[0]].lane for unit in self.units]
        """The lane of each unit."""
        self.waiting = [x for x in range(len(self.units)) if self._has_waiter(x)]
        """The units that have a waiter."""
        self._order = Order(driver, self._lanes, self._steps(edges))
        self._checks = {
            number: check
            for number, unit in enumerate(self.units)
            if (check := self._check(unit.actors, self.depths[number])) is not None
        }
        blocking = self.tasks.keys() - self.ahead
        self._blocking = {x: self._check([x], 1) for x in sorted(blocking)}
        self._waited = [0] * len(self.units)
        self._is_fresh = True

    @property
    def checked(self) -> Collection[int]:
        """The units that assert something."""
        return self._checks.keys()

    # Making it

    def _task(
        self, actor: Actor, place: Place, work_of: Callable[[Call], Work]
    ) -> Task:
        lane = self._lane(place)
        steps = steps_of(self._driver, actor, work_of, self._statuses.of)
        room = max((step.room for step in steps), default=0)
        self._rooms.need(lane, place.device, room, actor.name)
        differ = any(step.when != "always" for step in steps)
        length = actor.round * differ
        memory = self._memory_on(place.device)
        return Task(actor, lane, steps, length, memory)

    def _memory_on(self, device: int) -> MemoryOf:
        """The memory of a device, for loops and conditions."""

        def memory(stream: Handle) -> DeviceMemory:
            if device not in self._words:
                self._words[device] = self._resources.allocate_host(device, HOST_BYTES)
            return DeviceMemory(self._driver, stream, self._words[device])

        return memory

    def _lane(self, place: Place) -> int:
        """The lane for a stream of the plan; its device is the one in use then."""
        key = place.device, place.stream
        if key not in self._lane_of:
            self._lane_of[key] = len(self._lanes)
            stream = self._resources.stream(place.device)
            self._lanes.append(Lane(stream, place.device))
        self._driver.use(place.device)
        return self._lane_of[key]

    def _make_units(self) -> list[Unit]:
        units: list[Unit] = []
        grouped: set[int] = set()
        for group in groups_of(self._flow, self._capturable()):
            if graphs := self._captured(group):
                names = [self._flow.actors[x].name for x in (group[0], group[-1])]
                self._graphs[len(units)] = graphs
                units.append(Unit(f"graph {'..'.join(names)}", tuple(group)))
                grouped.update(group)
        for actor in sorted(self.ahead - grouped):
            units.append(Unit(self._flow.actors[actor].name, (actor,)))
        # Nothing is allocated later.
        for actor in self.tasks.keys() - grouped:
            self._room(actor, self.tasks[actor].lane)
        return units

    def _room(self, actor: int, lane: int) -> int:
        """The address of scratch memory for an actor in a lane."""
        return self._rooms.address(lane, self.tasks[actor].lane)

    def _capturable(self) -> set[int]:
        """The actors that run ahead all of whose steps may become part of a graph."""
        return {actor for actor in self.ahead if self.tasks[actor].is_capturable}

    def _depth(self, unit: Unit) -> int:
        slots = [self._flow.registers[x].slots for x in used_by(self._flow, unit)]
        return max(LEAST_DEPTH, *slots) if slots else LEAST_DEPTH

    def _steps(self, edges: Sequence[tuple[Edge, ...]]) -> list[Steps]:
        """The units as their order sees them."""
        found: list[Steps] = []
        needed = awaited(self.lanes, edges)
        for number, (lane, own) in enumerate(zip(self.lanes, edges, strict=True)):
            depth = self.depths[number]
            is_awaited = number in needed or number in self.waiting
            count = depth if is_awaited else 0
            events = self._resources.make_events(self._lanes[lane].device, count)
            found.append(Steps(lane, own, depth, events))
        return found

    def _check(self, actors: Sequence[int], depth: int) -> Check | None:
        steps = [x for actor in actors for x in self.tasks[actor].asserting]
        if not steps:
            return None
        device = self._lanes[self.tasks[actors[0]].lane].device
        return Check(self._resources, device, steps, depth)

    def graphs_of(self, number: int) -> int:
        """The number of graphs of a unit, each for other slots."""
        return len(self._graphs.get(number, ()))

    def _has_waiter(self, number: int) -> bool:
        unit = self.units[number]
        if any(self.tasks[actor].asserting for actor in unit.actors):
            return True
        around = hosts_of(self._flow, unit, self.ahead)
        return bool(around) or is_last(self._flow, unit, self.ahead)

    # Graphs

    def _captured(self, group: Sequence[int]) -> list[Handle]:
        """The graphs of a group of actors, none if they cannot become graphs."""
        flow = self._flow
        arguments = [arg for actor in group for arg in self.tasks[actor].arguments]
        slots = {flow.registers[x.register].slots for x in arguments if _is_slot(x)}
        if (count := lcm(*slots)) > MOST_GRAPHS:
            return []
        device = self._lanes[self.tasks[group[0]].lane].device
        self._driver.use(device)
        graphs: list[Handle] = []
        try:
            for index in range(count):
                graphs.append(self._capture(group, index, device))
        except CaptureError as error:
            if error.is_lost:
                raise
            for graph in graphs:
                self._driver.destroy_graph(graph)
            return []
        self._resources.graphs += [(device, graph) for graph in graphs]
        return graphs

    def _capture(self, group: Sequence[int], index: int, device: int) -> Handle:
        """The graph of one act of actors."""
        lanes = [Lane(lane.handle, lane.device) for lane in self._lanes]
        events: list[Handle] = []
        steps: list[Steps] = []
        for actor in group:
            # Nothing can be allocated while something is captured.
            self._room(actor, self.tasks[group[0]].lane)
        found = edges_of(self._flow, [Unit("", (actor,)) for actor in group])
        edges = [tuple(x for x in own if x.act_before(0) == 0) for own in found]
        lane_of = [self.tasks[actor].lane for actor in group]
        # The last one of each lane is waited for in the end.
        last = {lane: number for number, lane in enumerate(lane_of)}
        needed = awaited(lane_of, edges) | {*last.values()}
        for number, (lane, own) in enumerate(zip(lane_of, edges, strict=True)):
            made = [self._driver.event()] if number in needed else []
            steps.append(Steps(lane, own, 1, made))
            events += made
        fork = self._driver.event()
        origin = lanes[steps[0].lane].handle
        self._driver.begin_capture(origin)
        try:
            order = Order(self._driver, lanes, steps)
            self._driver.record(fork, origin)
            self._ask_all(group, index, order, fork)
        except CudaError as error:
            with suppress(CudaError):
                self._driver.destroy_graph(self._driver.end_capture(origin))
            raise CaptureError(str(error), is_lost=error.is_lost) from error
        else:
            return self._driver.end_capture(origin)
        finally:
            for event in (*events, fork):
                self._driver.destroy_event(event)

    def _ask_all(
        self, group: Sequence[int], index: int, order: Order, fork: Handle
    ) -> None:
        """Ask for an act of actors, and let the lane of the first one end it."""
        driver, first = self._driver, order.units[0].lane
        last: dict[int, int] = {}
        for number, actor in enumerate(group):
            unit = order.units[number]
            stream = order.lanes[unit.lane].handle
            if unit.lane not in {first, *last} and not unit.edges:
                driver.wait(stream, fork)
            order.begin(number)
            words = [
                self._word(actor, arg, index) for arg in self.tasks[actor].arguments
            ]
            self.tasks[actor].ask(words, 0, stream, self._room(actor, first))
            order.end(number)
            last[unit.lane] = number
        for number in last.values():
            order.join(first, number)

    def _word(self, actor: int, argument: Argument, act: int) -> int:
        """The word of an argument in an act of an actor that acts once an iteration."""
        if isinstance(argument, Fixed):
            return argument.address
        assert isinstance(argument, Slot), "no loops are left"
        register = self._flow.registers[argument.register]
        is_read = argument.register in self._flow.actors[actor].reads
        return register.address_of(act if is_read else act + register.initial)

    # Runs

    def ask(self, number: int, words: Sequence[int]) -> None:
        """
        Ask for the next act of a unit, given its arguments; that of several graphs is
        an address, see `mark_address`.
        """
        self._is_fresh = False
        unit, steps = self.units[number], self._order.units[number]
        lane, act = self._lanes[steps.lane], steps.acts
        self._driver.use(lane.device)
        self._order.begin(number)
        if (graphs := self._graphs.get(number)) is not None:
            index = (words[0] - self.mark_address) // MARK if words else 0
            self._driver.launch_graph(graphs[index], lane.handle)
        else:
            (actor,) = unit.actors
            room = self._room(actor, steps.lane)
            self.tasks[actor].ask(words, act, lane.handle, room)
        if (check := self._checks.get(number)) is not None:
            check.ask(act, lane.handle)
        self._order.end(number)

    def wait(self, number: int) -> None:
        """
        Wait for the end of the next act of a unit that was not waited for. Raises
        TaskError if an assertion, or the device, has failed.
        """
        steps, act = self._order.units[number], self._waited[number]
        try:
            self._driver.use(self._lanes[steps.lane].device)
            self._driver.synchronize_event(steps.event_of(act))
        except CudaError as error:
            text = f"{self._label(number)}, or what came before: {error}"
            name = self.units[number].name
            raise TaskError(name, act, CALLBACK_FAILED, text) from error
        self._waited[number] = act + 1
        if (check := self._checks.get(number)) is not None:
            check.raise_failure(act, self._made_in(self.units[number].actors, act))

    def _made_in(self, actors: Sequence[int], act: int) -> list[Made]:
        return [made for x in actors for made in self.tasks[x].made_in(act)]

    def _label(self, number: int) -> str:
        """The name of the work of a unit, for errors."""
        actors = self.units[number].actors
        labels = [step.label for x in actors for step in self.tasks[x].steps]
        more = len(labels) - NAMED
        listed = ", ".join(dict.fromkeys(labels[:NAMED]))
        return f"{listed} and {more} more" if more > 0 else listed

    def do(self, actor: int, call: int, words: Sequence[int]) -> None:
        """
        Do a call of an actor whose acts end when they are done. Raises TaskError if an
        assertion fails.
        """
        self._is_fresh = False
        task = self.tasks[actor]
        lane, step = self._lanes[task.lane], task.steps[call]
        self._driver.use(lane.device)
        given = [0] * step.first + [*words]
        step.ask(given, lane.handle, self._room(actor, task.lane))
        check = self._blocking[actor]
        if check is not None:
            check.ask(0, lane.handle)
        self._driver.synchronize_stream(lane.handle)
        if check is not None:
            check.raise_failure(0, task.made_in(0))

    def reset(self) -> None:
        """Wait for work that is under way, and go back to before the first act."""
        if self._is_fresh:
            return
        # An error of the device is raised by its next use.
        with suppress(CudaError):
            for lane in self._lanes:
                self._driver.use(lane.device)
                self._driver.synchronize_stream(lane.handle)
            self._statuses.clear()
        self._order.reset()
        self._waited = [0] * len(self.units)
        self._is_fresh = True


def _is_slot(argument: Argument) -> TypeGuard[Slot]:
    return isinstance(argument, Slot)
