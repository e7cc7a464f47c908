"""
Give each register a place: one chunk for each memory case, in the order of the list.

A chunk has up to three kinds of blocks, in this order. *Variables* lie side by side, as
they are listed. So do the registers that are *kept* because they have several slots or
are interfaces, or tasks of two streams use them. The other registers share one block
for each stream, in the order in which the streams first appear. There a register is
needed from the task that writes it up to the last one that reads it, both included and
under any name, and is placed by a packing algorithm. An alias has no place of its own.
`bound` of a block counts the live bytes at the fullest moment, `sum` is its size if
nothing were shared.

`best`, the default, places the largest register first. Only if that needs more than the
bound, it goes on with other rules and a search, which loads compiled code. A search
ends after some `steps`, so that a plan is the same every time, or with `budget-ms`
after some time, for all blocks of all plans together. Other algorithms, and those that
installed packages and loaded files add, are selected by name.

The tasks of a stream run in the order of `order`, or as they are listed where none has
one. Where registers of a stream share bytes, control registers `<task> -> <task>` keep
that order: from each task to the next one, unless a register already does; and from the
last to the first, full at the start, so that the last acts before the first acts again.

Plans that have blocks are left alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import NamedTuple, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, i32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.diagnostics import fail_if_any
from penstock.dialects.job import DeviceAttr
from penstock.dialects.plan import PlanOp, StreamAttr, TaskOp
from penstock.dialects.regst import (
    MAX_BYTES,
    BlockOp,
    ChunkOp,
    ControlType,
    DataType,
    MemoryCaseAttr,
    RegisterOp,
    alias_root,
)
from penstock.lowering.packing import (
    DEFAULT_STEPS,
    Budget,
    Lifetime,
    PackingError,
    Problem,
    pack,
    packer_of,
)
from penstock.lowering.packing.problem import (
    end_of,
    live_bytes,
    shares_bytes,
    side_by_side,
    sum_of,
)
from penstock.lowering.unique_names import UniqueNames

Stream: TypeAlias = tuple[DeviceAttr, StreamAttr]

################################################################################
# Who uses what when                                                           #
################################################################################


class Access(NamedTuple):
    """What a task reads and waits for, and what it writes and signals."""

    inputs: tuple[SSAValue, ...]
    outputs: tuple[SSAValue, ...]


@dataclass
class Usage:
    """The tasks of a plan that act, by stream and in order, and what they use."""

    plan: PlanOp
    access: dict[TaskOp, Access] = field(default_factory=dict)
    variables: set[SSAValue] = field(default_factory=set)
    streams: dict[Stream, list[TaskOp]] = field(default_factory=dict)
    position: dict[TaskOp, int] = field(default_factory=dict)
    producer: dict[SSAValue, TaskOp] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for task in self.plan.tasks:
            if task.kind == "variable":
                self.variables.update(task.outs)
                continue
            self.streams.setdefault((task.device, task.stream), []).append(task)
            inputs, outputs = (*task.ins, *task.waits), (*task.outs, *task.signals)
            self.access[task] = Access(inputs, outputs)
            self.producer.update((register, task) for register in outputs)
        for tasks in self.streams.values():
            tasks.sort(key=order_of)
            self.position.update((task, i) for i, task in enumerate(tasks))

    def stream_of(self, task: TaskOp) -> Stream:
        """The stream that a task runs on."""
        return task.device, task.stream

    def users(self) -> dict[SSAValue, list[TaskOp]]:
        """The tasks that use each data register that is no alias, under any name."""
        users: dict[SSAValue, list[TaskOp]] = defaultdict(list)
        for task, (inputs, outputs) in self.access.items():
            for register in chain(inputs, outputs):
                if isinstance(register.type, DataType):
                    users[alias_root(register)].append(task)
        return users

    def direct_tokens(self) -> dict[tuple[TaskOp, TaskOp], int]:
        """
        The pairs of tasks that one register orders: the second acts for the n-th time
        after the first has acted for the (n - tokens)-th time.
        """
        tokens: dict[tuple[TaskOp, TaskOp], int] = {}
        for reader, (inputs, _) in self.access.items():
            for register in inputs:
                if (writer := self.producer.get(register)) is None:
                    continue
                full, free = tokens_of(register)
                for pair, count in ((writer, reader), full), ((reader, writer), free):
                    tokens[pair] = min(count, tokens.get(pair, count))
        return tokens


def order_of(task: TaskOp) -> int:
    """The place that a task asks for in its stream; 0 if it asks for none."""
    return 0 if task.order is None else task.order.value.data


def tokens_of(register: SSAValue) -> tuple[int, int]:
    """The slots of a register that are full and that are free at the start."""
    owner = register.owner
    assert isinstance(owner, RegisterOp), "only registers are registers"
    full = 0 if owner.initial is None else owner.initial.value.data
    return full, owner.slots.value.data - full


def complaints_about(plan: PlanOp) -> Iterator[tuple[Operation, str]]:
    """All that keeps the memory of a plan from being planned."""
    if any(task.results_ for task in plan.tasks):
        yield plan, "tasks hand on values, run plan-create-registers first"
        return
    if (total := sum(register.size for register in plan.registers)) >= MAX_BYTES:
        yield plan, f"the registers must take less than 2^62 bytes, got {total}"
        return
    usage = Usage(plan)
    yield from order_complaints(usage)
    for register in plan.registers:
        result = register.register
        if result not in usage.producer and result not in usage.variables:
            yield register, f"no task writes register '{register.register_name.data}'"
    for task, (inputs, _) in usage.access.items():
        for register in inputs:
            writer = usage.producer.get(register)
            if writer is not None and is_read_too_early(usage, register, writer, task):
                yield (
                    task,
                    f"task '{task.task_name.data}' is before or at "
                    f"'{writer.task_name.data}' in its stream, but reads from it",
                )


def order_complaints(usage: Usage) -> Iterator[tuple[Operation, str]]:
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
    if usage.stream_of(writer) != usage.stream_of(reader) or tokens_of(register)[0]:
        return False
    return usage.position[reader] <= usage.position[writer]


################################################################################
# Blocks                                                                       #
################################################################################


class Layout(NamedTuple):
    """
    What a block is made of, and the place of each register in it. `stream` is that
    whose tasks use the registers, if there is one.
    """

    name: str
    registers: Sequence[RegisterOp]
    offsets: Sequence[int]
    sum: int
    bound: int
    stream: Stream | None = None

    @property
    def size(self) -> int:
        """The bytes of the block."""
        return end_of(self.offsets, [register.size for register in self.registers])

    @property
    def is_shared(self) -> bool:
        """Whether registers lie on common bytes."""
        return shares_bytes(self.offsets, [reg.size for reg in self.registers])


def lay_side_by_side(name: str, registers: Sequence[RegisterOp]) -> Layout:
    """A block of registers that are needed all the time."""
    sizes = [register.size for register in registers]
    offsets = side_by_side(sizes, registers[0].memory_case.alignment)
    return Layout(name, registers, offsets, end_of(offsets, sizes), sum(sizes))


class Placer:
    """Lays out the registers of a plan."""

    def __init__(self, usage: Usage, algorithm: str, budget: Budget) -> None:
        self._usage = usage
        self._algorithm = algorithm
        self._budget = budget
        self._users = usage.users()

    def place(self) -> dict[MemoryCaseAttr, list[Layout]]:
        """The blocks of all data registers that are no aliases, by memory case."""
        registers_on: dict[MemoryCaseAttr, list[RegisterOp]] = defaultdict(list)
        for register in self._usage.plan.registers:
            if register.target is None and isinstance(register.register.type, DataType):
                registers_on[register.memory_case].append(register)
        return {case: list(self._blocks_of(r)) for case, r in registers_on.items()}

    def _blocks_of(self, registers: Sequence[RegisterOp]) -> Iterator[Layout]:
        groups: dict[str | Stream, list[RegisterOp]] = defaultdict(list)
        for register in registers:
            groups[self._group_of(register)].append(register)
        for name in ("variables", "kept"):
            if name in groups:
                yield lay_side_by_side(name, groups[name])
        for stream in self._usage.streams:
            if stream in groups:
                yield self._share(stream, groups[stream])

    def _group_of(self, register: RegisterOp) -> str | Stream:
        if register.register in self._usage.variables:
            return "variables"
        if register.interface is not None:
            return "kept"
        users = self._users[register.register]
        streams = {self._usage.stream_of(task) for task in users}
        if register.slots.value.data > 1 or len(streams) > 1:
            return "kept"
        return streams.pop()

    def _share(self, stream: Stream, registers: Sequence[RegisterOp]) -> Layout:
        lifetimes: list[Lifetime] = []
        for register in registers:
            steps = [self._usage.position[t] for t in self._users[register.register]]
            lifetimes.append(Lifetime(min(steps), max(steps), register.size))
        alignment = registers[0].memory_case.alignment
        problem = Problem(lifetimes, alignment)
        return Layout(
            f"{stream[1].kind.data}{stream[1].index.data}",
            registers,
            pack(problem, self._algorithm, self._budget),
            sum_of(problem.sizes, alignment),
            live_bytes(lifetimes),
            stream,
        )


def write_chunk(plan: PlanOp, case: MemoryCaseAttr, layouts: Sequence[Layout]) -> None:
    """Add a chunk with these blocks to a plan, and give its registers their places."""
    sizes = [layout.size for layout in layouts]
    offsets = side_by_side(sizes, case.alignment)
    chunk = ChunkOp(case, end_of(offsets, sizes))
    chunk.chunk.name_hint = hint_of(case)
    first_register = plan.registers[0]
    block = plan.body.block
    block.insert_op_before(chunk, first_register)
    blocks = [
        BlockOp(chunk, offset, layout.size, layout.sum, layout.bound)
        for offset, layout in zip(offsets, layouts, strict=True)
    ]
    block.insert_ops_before(blocks, first_register)
    for block_op, layout in zip(blocks, layouts, strict=True):
        block_op.block.name_hint = layout.name
        for register, at in zip(layout.registers, layout.offsets, strict=True):
            write_place(register, block_op, at)


def hint_of(case: MemoryCaseAttr) -> str:
    """A name for the chunk of a memory case."""
    if not isinstance(case.device, DeviceAttr):
        return case.kind.data
    return f"{case.kind.data}_{case.device.kind.data}{case.device.index.data}"


PLACED = DenseArrayBase.from_list(i32, [1, 0])


def write_place(register: RegisterOp, block: BlockOp, offset: int) -> None:
    """Put a register at an offset of a block."""
    place = {"offset": IntegerAttr(offset, i64), "operandSegmentSizes": PLACED}
    placed = RegisterOp.create(
        operands=[block.block],
        properties={**register.properties, **place},
        attributes=register.attributes,
        result_types=[register.register.type],
        location=register.location,
    )
    Rewriter.replace_op(register, placed)


################################################################################
# Control                                                                      #
################################################################################


class Edge(NamedTuple):
    """The second task acts after the first, which is `initial` acts ahead."""

    first: TaskOp
    second: TaskOp
    initial: int


def missing_edges(usage: Usage, streams: Sequence[Stream]) -> Iterator[Edge]:
    """What is missing to make the tasks of these streams act in order."""
    known = usage.direct_tokens()
    for stream in streams:
        tasks = usage.streams[stream]
        edges = [Edge(a, b, 0) for a, b in pairwise(tasks)]
        if len(tasks) > 1:
            edges.append(Edge(tasks[-1], tasks[0], 1))
        for edge in edges:
            pair = edge.first, edge.second
            if pair not in known or known[pair] > edge.initial:
                yield edge


def write_edges(plan: PlanOp, edges: Sequence[Edge]) -> None:
    """Add a control register for each edge."""
    if not edges:
        return
    names = UniqueNames(register.register_name.data for register in plan.registers)
    waits: dict[TaskOp, list[SSAValue]] = defaultdict(list)
    signals: dict[TaskOp, list[SSAValue]] = defaultdict(list)
    registers: list[RegisterOp] = []
    for first, second, initial in edges:
        register = RegisterOp(
            names.make(f"{first.task_name.data} -> {second.task_name.data}"),
            MemoryCaseAttr.of(second.device.host),
            ControlType(),
            initial=initial or None,
        )
        registers.append(register)
        signals[first].append(register.register)
        waits[second].append(register.register)
    tasks = plan.tasks
    plan.body.block.insert_ops_before(registers, tasks[0])
    for task in tasks:
        if task in waits or task in signals:
            write_control(task, waits[task], signals[task])


def write_control(
    task: TaskOp, waits: Sequence[SSAValue], signals: Sequence[SSAValue]
) -> None:
    """Make a task wait for and signal further registers."""
    operands = [task.ins, task.outs, (*task.waits, *waits), (*task.signals, *signals)]
    segments = DenseArrayBase.from_list(i32, list(map(len, operands)))
    extended = TaskOp.create(
        operands=list(chain.from_iterable(operands)),
        properties={**task.properties, "operandSegmentSizes": segments},
        attributes=task.attributes,
        regions=[task.detach_region(task.body)],
        location=task.location,
    )
    Rewriter.replace_op(task, extended, [])


def plan_memory(plan: PlanOp, algorithm: str, budget: Budget) -> None:
    """Give the registers of a plan their places, and its tasks the order they need."""
    usage = Usage(plan)
    chunks = Placer(usage, algorithm, budget).place()
    shared = [layout for layouts in chunks.values() for layout in layouts]
    ordered = [x.stream for x in shared if x.stream is not None and x.is_shared]
    edges = list(missing_edges(usage, list(dict.fromkeys(ordered))))
    for case, layouts in chunks.items():
        write_chunk(plan, case, layouts)
    write_edges(plan, edges)


def has_places(plan: PlanOp) -> bool:
    """Whether the memory of a plan has been planned."""
    return any(isinstance(op, BlockOp) for op in plan.body.block.ops)


@dataclass(frozen=True)
class RegstPlanMemoryPass(ModulePass):
    """
    Give each register a place: one chunk for each memory case.
    """

    name = "regst-plan-memory"

    algorithm: str = "best"
    """Where registers share memory, they are placed by this algorithm."""

    steps: int | None = None
    """A search ends after so many steps of about 4 ns; by default 50,000,000."""

    budget_ms: int | None = None
    """A search ends after so many milliseconds, and no matter how many steps."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plans = [plan for plan in op.walk() if isinstance(plan, PlanOp)]
        plans = [plan for plan in plans if not has_places(plan)]
        fail_if_any(found for plan in plans for found in complaints_about(plan))
        try:
            packer_of(self.algorithm)
            budget = self.budget()
            for plan in plans:
                plan_memory(plan, self.algorithm, budget)
        except PackingError as error:
            raise PassFailedException(str(error)) from error

    def budget(self) -> Budget:
        """
        What all searches may spend together.

        Raises `PackingError` if there is less than nothing.
        """
        try:
            if self.budget_ms is not None:
                return Budget(seconds=self.budget_ms / 1000, steps=self.steps)
            return Budget(steps=DEFAULT_STEPS if self.steps is None else self.steps)
        except ValueError as error:
            raise PackingError(str(error)) from error
