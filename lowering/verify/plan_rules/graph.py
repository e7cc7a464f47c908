"""
A plan as a marked graph, and whose bytes its registers have: what `verify-plan` looks
at. Its docstring says what the edges are.

Nothing here comes from the passes that make plans.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from xdsl.ir import BlockArgument, SSAValue

from penstock.dialects.op.multirate import RepeatOp, UnpackOp
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.plan import PlanOp, TaskOp, YieldOp
from penstock.dialects.regst import (
    BlockOp,
    ChunkOp,
    DataType,
    Place,
    RegisterOp,
    alias_place,
)
from penstock.lowering.algorithms.marked_graph import Edge, MarkedGraph
from penstock.lowering.analysis.repetitions import rates_of


class Access(NamedTuple):
    """
    The registers that a task names, each once, in order, and the values of its body.
    """

    ins: Sequence[RegisterOp]
    outs: Sequence[RegisterOp]
    waits: Sequence[RegisterOp]
    signals: Sequence[RegisterOp]
    read: Sequence[SSAValue]
    """The values of the arguments of its body."""
    written: Sequence[SSAValue]
    """The values that its body yields."""


class Facts(NamedTuple):
    """The bytes and slots that a register declares."""

    place: Place
    """Where it lies in the one that its aliases end at."""
    bytes: int
    """Those of one slot; 0 for a control register."""
    stride: int
    """From one slot to the next."""
    slots: int
    initial: int
    """The slots that are full at the start."""
    frames: int = 1
    """The slots in one of what it lies on, whose `bytes` and `stride` these are."""

    @property
    def size(self) -> int:
        """The bytes of all slots together."""
        return self.stride * (self.slots // self.frames - 1) + self.bytes


@dataclass
class PlanGraph:
    """The tasks of a plan that act, and how they use its registers."""

    plan: PlanOp
    tasks: list[TaskOp] = field(default_factory=list[TaskOp])
    """By number, as they are listed."""
    access: list[Access] = field(default_factory=list[Access])
    """The registers that each of them names."""
    variables: dict[RegisterOp, TaskOp] = field(
        default_factory=dict[RegisterOp, TaskOp]
    )
    """The registers of variables."""
    facts: dict[RegisterOp, Facts] = field(default_factory=dict[RegisterOp, Facts])
    """All registers of the plan, in the order of the list."""
    writer: dict[RegisterOp, int] = field(default_factory=dict[RegisterOp, int])
    """The task that writes a register; none for a variable's."""
    readers: dict[RegisterOp, list[int]] = field(default_factory=dict)
    """The tasks that read a register under its own name."""
    sources: dict[RegisterOp, list[RegisterOp]] = field(default_factory=dict)
    """
    The registers on the same bytes that the writer of a register reads, because of
    aliases.
    """

    _places: dict[SSAValue, Place] = field(default_factory=dict[SSAValue, Place])

    def __post_init__(self) -> None:
        self.rates = rates_of(self.plan)
        """The number of acts of tasks in a launch: all of these count as one."""
        for task in self.plan.tasks:
            access = access_of(task)
            if task.kind == "variable":
                self.variables.update((register, task) for register in access.outs)
            else:
                self.tasks.append(task)
                self.access.append(access)
        for register in self.plan.registers:
            self.facts[register] = facts_of(register)
            self._places[register.register] = self.facts[register].place
        self.readers = {register: [] for register in self.facts}
        for index, access in enumerate(self.access):
            for register in (*access.outs, *access.signals):
                self.writer[register] = index
            for register in (*access.ins, *access.waits):
                self.readers[register].append(index)
        for register, writer in self.writer.items():
            read = self.access[writer].ins
            self.sources[register] = [s for s in read if self.shares(s, register)]
        self.is_view = [self._shows_operands(i) for i in range(len(self.tasks))]
        """Whether each task writes nothing."""
        self.is_main = [task.kind == "main" for task in self.tasks]
        """Whether each task needs not all of its registers, and so orders nothing."""

    def root(self, register: RegisterOp) -> SSAValue:
        """The register that the aliases of a register end at."""
        return self.facts[register].place.root

    def shares(self, a: RegisterOp, b: RegisterOp) -> bool:
        """Whether two registers have bytes in common because of aliases."""
        one, two = self.facts[a], self.facts[b]
        (root, start), (other, begin) = one.place, two.place
        # The slots of all aliases of a register start where its own do.
        return root is other and start < begin + two.bytes and begin < start + one.bytes

    def _shows_operands(self, index: int) -> bool:
        """Whether all results of a task have the bytes of operands, where these lie."""
        op = self.tasks[index].op
        if isinstance(op, RepeatOp | UnpackOp):
            return self.shows_frames(index)
        if not isinstance(op, TensorOp) or not isinstance(end := op.next_op, YieldOp):
            return False
        if tuple(end.values) != tuple(op.results):
            return False
        views = op.views()
        if len({pair.result for pair in views}) != len(op.results):
            return False
        return bool(views) and all(self.lies_as_paired(index, pair) for pair in views)

    def shows_frames(self, index: int) -> bool:
        """
        Whether each slot of what a task reads has as many of what it makes as it makes
        pieces of one: no other op has pieces in the slots of what it reads.
        """
        op, access = self.tasks[index].op, self.access[index]
        if not isinstance(op, RepeatOp | UnpackOp):
            return False
        (source,), (result,) = access.ins, access.outs
        one, other = self.facts[source], self.facts[result]
        return one.place == other.place and other.slots == op.taken * one.slots

    def lies_as_paired(self, index: int, pair: InPlacePair) -> bool:
        """Whether a result of a task lies where a pair of its op says that it may."""
        access = self.access[index]
        value = self.tasks[index].op.operands[pair.operand]
        if not isinstance(value, BlockArgument):
            return False
        place = self._places.get(access.read[value.index])
        if place is None:
            return False
        wanted = Place(place.root, place.offset + pair.offset)
        return self._places.get(access.written[pair.result]) == wanted

    @cached_property
    def graph(self) -> MarkedGraph:
        """The marked graph of the tasks."""
        edges: list[Edge] = []
        for register, holders in self.holders.items():
            if (writer := self.writer.get(register)) is None:
                continue
            facts = self.facts[register]
            full, free = self.rates.tokens(
                register.register, facts.initial, facts.slots - facts.initial
            )
            for holder in holders:
                if self.is_main[writer] or self.is_main[holder]:
                    continue
                edges.append(Edge(writer, holder, full))
                edges.append(Edge(holder, writer, free))
        return MarkedGraph(len(self.tasks), edges)

    @cached_property
    def launch_graph(self) -> MarkedGraph:
        """
        The order of tasks in a launch: all acts of the second one of two come after
        some act of the first, and all acts of that before some of it. It has the edges
        without a token alone, where tasks act at different rates.
        """
        if not self.rates.is_rated:
            return self.graph
        edges: list[Edge] = []
        for register, holders in self.holders.items():
            if (writer := self.writer.get(register)) is None or self.is_main[writer]:
                continue
            facts = self.facts[register]
            once = self.rates.pieces(register.register) == 1
            for holder in holders:
                if not self.is_main[holder] and facts.initial == 0:
                    edges.append(Edge(writer, holder, 0))
                if not self.is_main[holder] and once and facts.initial == facts.slots:
                    edges.append(Edge(holder, writer, 0))
        return MarkedGraph(len(self.tasks), edges)

    @cached_property
    def holders(self) -> dict[RegisterOp, list[int]]:
        """The tasks that keep the writer of each register from going on."""
        holders: dict[RegisterOp, dict[int, None]] = defaultdict(dict)
        firsts: dict[RegisterOp, list[RegisterOp]] = {}
        for register, readers in self.readers.items():
            for held in (register, *self._first(register, firsts)):
                holders[held].update(dict.fromkeys(readers))
        return {register: list(readers) for register, readers in holders.items()}

    def _first(
        self, register: RegisterOp, known: dict[RegisterOp, list[RegisterOp]]
    ) -> list[RegisterOp]:
        """
        The registers that were first written over the bytes of a register, without
        itself.
        """
        if not self.sources.get(register):
            return []
        pending, entered = [register], set[RegisterOp]()
        while pending:
            top = pending[-1]
            sources = self.sources.get(top, [])
            # A task that reads its own result is found as a deadlock.
            new = [s for s in sources if s not in known and s not in entered]
            entered.add(top)
            pending += new
            if not new:
                firsts = (known.get(source) or [source] for source in sources)
                known[top] = list(dict.fromkeys(f for found in firsts for f in found))
                pending.pop()
        return known[register]

    def start(self, register: RegisterOp) -> int:
        """The address of the first byte of a register."""
        place = self.facts[register].place
        return self._addresses[place.root] + place.offset

    @cached_property
    def _addresses(self) -> dict[SSAValue, int]:
        """Where registers that are no aliases lie; those without a place, alone."""
        bases = self._chunk_bases()
        end = sum(chunk.size.value.data for chunk in bases)
        addresses: dict[SSAValue, int] = {}
        for register, facts in self.facts.items():
            if (address := address_of(register, bases)) is None:
                address, end = end, end + facts.size
            addresses[register.register] = address
        return addresses

    def _chunk_bases(self) -> dict[ChunkOp, int]:
        """Addresses for the chunks, such that no two of them overlap."""
        bases: dict[ChunkOp, int] = {}
        end = 0
        for op in self.plan.body.block.ops:
            if isinstance(op, ChunkOp):
                bases[op] = end
                end += op.size.value.data
        return bases


def access_of(task: TaskOp) -> Access:
    """The registers that a task names."""
    ports = task.ports
    named = [list(registers_among(values)) for values in ports]
    return Access(*named, read=ports.ins, written=ports.outs)


def facts_of(register: RegisterOp) -> Facts:
    """The bytes and slots that a register declares."""
    value, slots = register.register, register.slots.value.data
    place = Place(value, 0) if register.target is None else alias_place(value)
    if not isinstance(type := value.type, DataType):
        initial = 0 if register.initial is None else register.initial.value.data
        return Facts(place, 0, 0, slots, initial)
    size, frames = type.size, register.frames
    if frames > 1 and isinstance(whole := place.root.type, DataType):
        size = whole.size
    alignment = register.memory_case.alignment
    stride = -(-size // alignment) * alignment
    return Facts(place, size, stride, slots, 0, frames)


def registers_among(values: Sequence[SSAValue]) -> Iterator[RegisterOp]:
    """The registers that values are, each once."""
    for value in dict.fromkeys(values):
        if isinstance(owner := value.owner, RegisterOp):
            yield owner


def address_of(register: RegisterOp, bases: dict[ChunkOp, int]) -> int | None:
    """Where a register lies; None if it has no place."""
    if register.block is None or register.offset is None:
        return None
    block = register.block.owner
    assert isinstance(block, BlockOp), "only this op makes blocks"
    chunk = block.chunk.owner
    assert isinstance(chunk, ChunkOp), "only this op makes chunks"
    return bases[chunk] + block.offset.value.data + register.offset.value.data
