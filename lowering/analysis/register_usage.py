"""
The users of the registers of a plan, and their order as far as the plan says it.

The order comes from registers, full and free slots alike, and from a `Guard`: streams
whose tasks act in order, and each again only after all of them have. In a plan with
rates it is one of acts, all those of a launch (`unrolled_order`), and registers are
needed once for each piece in a launch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, permutations
from math import gcd
from typing import NamedTuple

from xdsl.ir import SSAValue

from penstock.dialects.job import DeviceAttr
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.regst import (
    MAX_BYTES,
    DataType,
    MemoryCaseAttr,
    RegisterOp,
    alias_root,
)
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.algorithms.byte_sharing import (
    CycleError,
    Edge,
    PartialOrder,
    Span,
)
from penstock.lowering.algorithms.unrolled_order import MAX_ACTS, Acts, Control, Queue
from penstock.lowering.analysis.acting_order import Stream, acting_order, streams_of
from penstock.lowering.analysis.aliases import Holds
from penstock.lowering.analysis.body_plans import lies_outside
from penstock.lowering.analysis.repetitions import rates_of


class Access(NamedTuple):
    """
    The registers that a task reads and waits for, and those that it writes and signals.
    """

    inputs: tuple[SSAValue, ...]
    outputs: tuple[SSAValue, ...]


class Guard(NamedTuple):
    """
    Order beyond that of registers: the tasks of each of these streams act in order, and
    the first one acts again after the last one has. `across`: all streams are among
    them, and no task acts again before all have acted.
    """

    streams: tuple[Stream, ...] = ()
    across: bool = False
    controls: tuple[Control, ...] = ()
    """In a plan with rates, instead: the control registers between tasks."""
    window: int | None = None
    """
    On each device with several compute streams, which are all among these: no task acts
    before all have acted that are listed more than so many tasks before it, and none
    again before all have acted.
    """


@dataclass
class Usage:
    """The tasks of a plan that act, by stream and in order, and what they use."""

    plan: PlanOp
    access: dict[TaskOp, Access] = field(default_factory=dict)
    variables: set[SSAValue] = field(default_factory=set)
    """The registers of variables, and headers: their bytes are in use all the time."""
    streams: dict[Stream, list[TaskOp]] = field(default_factory=dict)
    stream_of: dict[TaskOp, Stream] = field(default_factory=dict)
    position: dict[TaskOp, int] = field(default_factory=dict)
    """The place of each task in its stream."""
    producer: dict[SSAValue, TaskOp] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rates = rates_of(self.plan)
        """The number of acts of tasks in a launch."""
        self.variables.update(
            register.register
            for register in self.plan.registers
            if register.header is not None
        )
        for task in self.plan.tasks:
            if task.kind == "variable":
                self.variables.update(task.outs)
                continue
            stream = task.device, task.stream
            self.streams.setdefault(stream, []).append(task)
            self.stream_of[task] = stream
            ins, outs, waits, signals = task.ports
            inputs, outputs = (*ins, *waits), (*outs, *signals)
            self.access[task] = Access(inputs, outputs)
            self.producer.update((register, task) for register in outputs)
        for tasks in self.streams.values():
            tasks.sort(key=order_of)
            self.position.update((task, i) for i, task in enumerate(tasks))

    @cached_property
    def tasks(self) -> list[TaskOp]:
        """The tasks by their numbers."""
        return list(self.access)

    @cached_property
    def number(self) -> dict[TaskOp, int]:
        """The number of each task."""
        return {task: i for i, task in enumerate(self.tasks)}

    @cached_property
    def registers(self) -> list[RegisterOp]:
        """The data registers that are no aliases."""
        return [
            register
            for register in self.plan.registers
            if register.target is None
            and isinstance(register.register.type, DataType)
            and not lies_outside(register)
        ]

    def by_memory(self) -> dict[MemoryCaseAttr, list[RegisterOp]]:
        """These by memory case, in the order of the list."""
        memories: dict[MemoryCaseAttr, list[RegisterOp]] = defaultdict(list)
        for register in self.registers:
            memories[register.memory_case].append(register)
        return memories

    @cached_property
    def _root(self) -> dict[SSAValue, SSAValue]:
        """The register that is no alias for each data register."""
        return {
            register.register: alias_root(register.register)
            for register in self.plan.registers
            if isinstance(register.register.type, DataType)
        }

    @cached_property
    def users(self) -> dict[SSAValue, list[TaskOp]]:
        """The tasks that use each data register that is no alias, under any name."""
        users: dict[SSAValue, list[TaskOp]] = defaultdict(list)
        for task, (inputs, outputs) in self.access.items():
            used = (self._root.get(register) for register in (*inputs, *outputs))
            for root in dict.fromkeys(used):
                if root is not None:
                    users[root].append(task)
        return users

    @cached_property
    def first_writers(self) -> dict[SSAValue, list[TaskOp]]:
        """The tasks that write each such register, and read nothing that lies in it."""
        writers: dict[SSAValue, list[TaskOp]] = defaultdict(list)
        for task, (inputs, outputs) in self.access.items():
            read = {self._root.get(register) for register in inputs}
            written = (self._root.get(register) for register in outputs)
            for root in dict.fromkeys(written):
                if root is not None and root not in read:
                    writers[root].append(task)
        return writers

    def spans_of(self, register: RegisterOp) -> list[Span]:
        """
        The users and first writers of the bytes of a register that is no alias, each
        piece in turn.
        """
        users = [self.number[task] for task in self.users[register.register]]
        writers = [self.number[task] for task in self.first_writers[register.register]]
        if (acts := self.acts) is None:
            return [Span(users, writers)]
        # Pieces under other names of the same bytes may come more often.
        pieces = gcd(
            self.rates.pieces(register.register), *(acts.repetitions[u] for u in users)
        )
        return [
            Span(
                [acts.last_for(user, piece, pieces) for user in users],
                [acts.first_for(writer, piece, pieces) for writer in writers],
            )
            for piece in range(pieces)
        ]

    @cached_property
    def acts(self) -> Acts | None:
        """All acts of a launch, if tasks act at different rates, and not too often."""
        repetitions = [self.rates.repetitions[task] for task in self.tasks]
        is_rated = self.rates.is_rated and sum(repetitions) <= MAX_ACTS
        changes = [self.rates.rate_changes[task] for task in self.tasks]
        return Acts(repetitions, changes) if is_rated else None

    @cached_property
    def of_streams(self) -> dict[tuple[Stream, MemoryCaseAttr], list[RegisterOp]]:
        """The registers that only one stream uses, by stream and memory."""
        found: dict[tuple[Stream, MemoryCaseAttr], list[RegisterOp]] = defaultdict(list)
        for register in self.registers:
            streams = {self.stream_of[task] for task in self.users[register.register]}
            if len(streams) == 1 and register.register not in self.variables:
                found[streams.pop(), register.memory_case].append(register)
        return found

    @cached_property
    def lanes(self) -> list[list[int]]:
        """
        For each device with several compute streams all tasks of these, in the order of
        the plan.
        """
        lanes: dict[DeviceAttr, list[int]] = defaultdict(list)
        for index in acting_order(self.tasks, streams_of(self.tasks)):
            task = self.tasks[index]
            if task.stream.kind.data == "compute":
                lanes[task.device].append(index)
        return [line for line in lanes.values() if len(self._streams_in(line)) > 1]

    def _streams_in(self, line: Sequence[int]) -> list[Stream]:
        """The streams of some tasks."""
        return list(dict.fromkeys(self.stream_of[self.tasks[i]] for i in line))

    @property
    def parallel(self) -> list[Stream]:
        """The compute streams of devices that have several."""
        return [stream for line in self.lanes for stream in self._streams_in(line)]

    # Order

    def order(self, guard: Guard) -> PartialOrder:
        """
        The order that registers and a guard set, of tasks or of all acts of a launch.
        Raises `CycleError` if these wait for each other without a token.
        """
        if (acts := self.acts) is not None:
            guards = [acts.queue_of(control) for control in self._controls(guard)]
            # Guards come first, so that chains follow them.
            return PartialOrder(acts.count, acts.edges([*guards, *self.queues]))
        lines = [
            [self.number[task] for task in self.streams[stream]]
            for stream in guard.streams
        ]
        edges = [*self._register_edges]
        for line in lines:
            edges += [Edge(a, b, 0) for a, b in pairwise(line)]
            edges.append(Edge(line[-1], line[0], 1))
        if guard.window is not None:
            found = self._window(guard.window)
            edges += [
                Edge(control.source, control.target, control.tokens)
                for control in found
            ]
        order = PartialOrder(len(self.tasks), edges, lines)
        if not guard.across:
            return order
        edges += [Edge(a, b, 1) for a in order.sinks for b in order.sources]
        return PartialOrder(len(self.tasks), edges, lines)

    @cached_property
    def _register_edges(self) -> list[Edge]:
        """The edges that full and free slots of all registers stand for."""
        edges: dict[Edge, None] = {}
        for register, first, second in self._flows():
            full, free = self.rates.tokens(register, *tokens_of(register))
            edges[Edge(first, second, full)] = None
            edges[Edge(second, first, free)] = None
        return list(edges)

    @cached_property
    def queues(self) -> list[Queue]:
        """The queues of pieces between tasks, with their number in a launch."""
        return [
            Queue(first, second, pieces, *tokens_of(register))
            for register, first, second in self._flows()
            if not self.rates.repetitions[self.tasks[second]]
            % (pieces := self.rates.pieces(register))
        ]

    def _flows(self) -> Iterator[tuple[SSAValue, int, int]]:
        """
        The registers that tasks wait for and hold, each with its writer and this user.
        """
        holds = Holds(self.plan)
        for task, (inputs, _) in self.access.items():
            for register in inputs:
                for held in (register, *holds.of(register)):
                    if (writer := self.producer.get(held)) is not None:
                        yield held, self.number[writer], self.number[task]

    def _window(self, window: int) -> Iterator[Control]:
        """The control registers that keep the lanes of devices together."""
        for line in self.lanes:
            streams = [self.stream_of[self.tasks[i]] for i in line]
            for before, index in latest_before(streams, window):
                yield Control(line[before], line[index], 0)
            place = {number: i for i, number in enumerate(line)}
            ends = [
                (self.number[tasks[0]], self.number[tasks[-1]])
                for tasks in map(self.streams.__getitem__, dict.fromkeys(streams))
            ]
            for (_, last), (first, _) in permutations(ends, 2):
                # A control that is full at the start fills only after it was taken.
                if place[first] < place[last]:
                    yield Control(last, first, 1)

    def missing_controls(self, guard: Guard) -> Iterator[Control]:
        """The control registers of a guard that no other register stands for."""
        known: dict[tuple[int, int], int] = {}
        for first, second, tokens in self._known_edges():
            pair = first, second
            known[pair] = min(tokens, known.get(pair, tokens))
        for control in self._controls(guard):
            pair = control.source, control.target
            is_known = pair in known and known[pair] <= control.tokens
            is_known &= self.acts is None or self.is_each_act(control)
            if not is_known and control.source != control.target:
                yield control

    def most_pieces(self, source: int, target: int) -> int:
        """As many pieces in a launch as two tasks can both count."""
        return gcd(*(self.rates.repetitions[self.tasks[i]] for i in (source, target)))

    def is_each_act(self, control: Control) -> bool:
        """Whether a control register has a piece for each act of its two tasks."""
        acts = [self.rates.repetitions[self.tasks[i]] for i in control[:2]]
        return acts == [control.pieces] * 2

    def _known_edges(self) -> Iterator[Edge]:
        """The orders between tasks that single registers make, piece by piece."""
        if (acts := self.acts) is None:
            yield from self._register_edges
            return
        for first, second, pieces, full, free in self.queues:
            if acts.repetitions[first] == acts.repetitions[second] == pieces:
                yield Edge(first, second, full)
                yield Edge(second, first, free)

    def _controls(self, guard: Guard) -> Iterator[Control]:
        """All control registers of a guard, also those that say nothing new."""
        if self.acts is not None:
            yield from guard.controls
            return
        if guard.window is not None:
            yield from self._window(guard.window)
        for stream in guard.streams:
            tasks = [self.number[task] for task in self.streams[stream]]
            yield from (Control(a, b, 0) for a, b in pairwise(tasks))
            if not guard.across:
                yield Control(tasks[-1], tasks[0], 1)
        if guard.across:
            order = self.order(Guard(guard.streams))
            for source in order.sinks:
                for target in order.sources:
                    yield Control(source, target, 1)


def latest_before(streams: Sequence[object], window: int) -> Iterator[tuple[int, int]]:
    """
    Of things in a list, each of a stream: those of other streams, as pairs of indices,
    which come more than `window` before one, and later than those before that stream's
    last one.
    """
    last: dict[object, int] = {}
    known: dict[tuple[object, object], int] = {}
    for index, stream in enumerate(streams):
        if (far := index - window - 1) >= 0:
            last[streams[far]] = far
        for other, before in last.items():
            if other != stream and known.get((stream, other)) != before:
                known[stream, other] = before
                yield before, index


def order_of(task: TaskOp) -> int:
    """The place that a task asks for in its stream; 0 if it asks for none."""
    return 0 if task.order is None else task.order.value.data


def tokens_of(register: SSAValue) -> tuple[int, int]:
    """The slots of a register that are full and that are free at the start."""
    owner = register.owner
    assert isinstance(owner, RegisterOp), "only registers are registers"
    full = 0 if owner.initial is None else owner.initial.value.data
    return full, owner.slots.value.data - full


################################################################################
# Plans that memory cannot be given to                                         #
################################################################################


def findings_about(usage: Usage) -> Iterator[Finding]:
    """All that keeps the memory of a plan from being planned."""
    plan = usage.plan
    if any(task.results_ for task in plan.tasks):
        yield plan, "tasks hand on values, run plan-create-registers first"
        return
    if (total := sum(register.size for register in plan.registers)) >= MAX_BYTES:
        yield plan, f"the registers must take less than 2^62 bytes, got {total}"
        return
    yield from order_findings(usage)
    for register in plan.registers:
        result = register.register
        if result not in usage.producer and result not in usage.variables:
            yield register, f"no task writes register '{register.register_name.data}'"
    for task, (inputs, _) in usage.access.items():
        for register in inputs:
            writer = usage.producer.get(register)
            if writer is not None and is_read_too_early(usage, register, writer, task):
                how = "waits for" if register in task.waits else "reads from"
                yield (
                    task,
                    f"task '{task.task_name.data}' is before or at "
                    f"'{writer.task_name.data}' in its stream, but {how} it",
                )


def order_findings(usage: Usage) -> Iterator[Finding]:
    """The tasks without an order in streams where others have one."""
    for tasks in usage.streams.values():
        without = [task for task in tasks if task.order is None]
        if len(without) < len(tasks):
            for task in without:
                yield (
                    task,
                    f"task '{task.task_name.data}' has no order, "
                    "but others of its stream have one",
                )


def is_read_too_early(
    usage: Usage, register: SSAValue, writer: TaskOp, reader: TaskOp
) -> bool:
    """Whether the order of their stream has a task read what is not written yet."""
    if usage.stream_of[writer] != usage.stream_of[reader] or tokens_of(register)[0]:
        return False
    return usage.position[reader] <= usage.position[writer]


def cycle_finding(usage: Usage, error: CycleError) -> Finding:
    """That tasks wait for each other."""
    cycle = [*error.tasks, error.tasks[0]]
    numbers = cycle if usage.acts is None else usage.acts.tasks_of(cycle)
    tasks = [usage.tasks[i] for i in numbers]
    names = " -> ".join(f"'{task.task_name.data}'" for task in tasks)
    return tasks[0], (
        f"registers and the order of streams have tasks wait for each other: {names}"
    )
