"""
Check that the chunks of each plan fit into the memory of the machine.

`limits` lists memories and how much each may take, such as `host=4G,cuda=80G`: `host`
is all memory of the host of each rank together, pinned and network memory included;
`cuda` that of each such device, `cuda:1` that of device 1 of each rank, in place of a
limit of its kind. A size is a number of bytes, or of KiB, MiB, GiB or TiB with `K`,
`M`, `G` or `T` behind it. Memory that is not listed has no limit. Listed memory has to
be there: a limit for memory in which no plan has a chunk is an error, unless no plan
has one.

For each memory that is too small, the registers that take most of it are named, with
their bytes and the tasks that write them. Registers that share bytes are counted at one
moment only, that at which most bytes are in use, if tasks act in the order in which
they are listed: a register is in use from its writer to the last task that uses it.

Each plan is looked at alone.

Example: `test/lowering/verify/verify-memory-example.mlir`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.job import DeviceAttr
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.regst import (
    BlockOp,
    DataType,
    MemoryCaseAttr,
    RegisterOp,
    alias_root,
)
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.slot_counts import Queue, peak_of
from penstock.lowering.algorithms.unique_names import parse_size

OWNERS = 5
"""The registers that are named where memory is short."""

LIMIT = re.compile(r"(?P<memory>[a-z_][a-z0-9_]*(:[0-9]+)?)=(?P<size>[^=]+)")

################################################################################
# Limits                                                                       #
################################################################################


def parse_limits(text: str) -> dict[str, int]:
    """
    The bytes that each memory may take, such as `cuda:0`, from `cuda:0=80G,host=4G`.

    Raises `PassFailedException` for any other text.
    """
    limits: dict[str, int] = {}
    for entry in text.split(","):
        found = LIMIT.fullmatch(entry.strip())
        size = None if found is None else parse_size(found["size"])
        if found is None or size is None:
            raise PassFailedException(
                "limits: expected a memory and its size, such as host=4G, "
                f"got '{entry}'"
            )
        memory = found["memory"]
        if memory.split(":")[0] == "cpu" or memory.startswith("host:"):
            raise PassFailedException(
                f"limits: the memory of processors is 'host', got '{memory}'"
            )
        if memory in limits:
            raise PassFailedException(f"limits: '{memory}' is listed twice")
        limits[memory] = size
    return limits


def check_names(limits: Mapping[str, int], plans: Sequence[PlanOp]) -> None:
    """
    Raises `PassFailedException` if a limit is for memory in which no plan has a chunk,
    but some has one.
    """
    memories = {Memory.of(x.memory_case) for plan in plans for x in plan.chunks}
    names = {name for memory in memories for name in (memory.kind, memory.name)}
    for name in limits:
        if names and name not in names:
            there = ", ".join(sorted({memory.name for memory in memories}))
            raise PassFailedException(
                f"limits: no plan has memory '{name}', there is {there}"
            )


class Memory(NamedTuple):
    """The memory of one device of one rank, or of its host."""

    rank: int
    kind: str
    number: int | None = None

    @classmethod
    def of(cls, case: MemoryCaseAttr) -> Memory:
        """The memory that chunks of a memory case take."""
        rank, device = case.rank.data, case.device
        if case.is_host or not isinstance(device, DeviceAttr):
            return cls(rank, "host")
        return cls(rank, device.kind.data, device.index.data)

    @property
    def name(self) -> str:
        """The name in the text of limits, such as `host` or `cuda:0`."""
        return self.kind if self.number is None else f"{self.kind}:{self.number}"

    def limit(self, limits: Mapping[str, int]) -> int | None:
        """The bytes that it may take, if that is said."""
        return limits.get(self.name, limits.get(self.kind))


################################################################################
# Owners                                                                       #
################################################################################


class Span(NamedTuple):
    """The bytes of a register in its chunk."""

    chunk: int
    start: int
    end: int


def alone(spans: Sequence[Span]) -> list[bool]:
    """Whether no other span has a byte of each."""
    result = [True] * len(spans)
    last: int | None = None
    """Of the spans so far in the same chunk, the one that ends last."""
    for index in sorted(range(len(spans)), key=lambda i: spans[i]):
        span = spans[index]
        if last is None or spans[last].chunk != span.chunk:
            last = index
            continue
        if span.start < spans[last].end and span.start < span.end:
            result[index] = result[last] = False
        if span.end > spans[last].end:
            last = index
    return result


@dataclass
class Owners:
    """The registers of a plan that have bytes of their own, and who uses them."""

    plan: PlanOp

    def __post_init__(self) -> None:
        chunks: dict[SSAValue, int] = {
            op.chunk: i for i, op in enumerate(self.plan.chunks)
        }
        self.registers: list[RegisterOp] = []
        spans: list[Span] = []
        for register in self.plan.registers:
            if (block := block_of(register)) is not None:
                assert register.offset is not None, "comes with the block"
                start = block.offset.value.data + register.offset.value.data
                self.registers.append(register)
                spans.append(Span(chunks[block.chunk], start, start + register.size))
        self._alone = alone(spans)
        self._steps: dict[SSAValue, list[int]] = defaultdict(list)
        self._writer: dict[SSAValue, TaskOp] = {}
        for step, task in enumerate(self.plan.tasks):
            for value in (*task.ins, *task.outs):
                self._steps[alias_root(value)].append(step)
            self._writer.update((value, task) for value in task.outs)

    def largest(self, memory: Memory) -> list[str]:
        """Those that take most of a memory, each with its bytes and its task."""
        among = [i for i, x in enumerate(self.registers) if memory_of(x) == memory]
        queues = [self._queue(index) for index in among]
        owners = peak_of(queues, 0, 1).owners[:OWNERS]
        return [self._text(self.registers[among[i]]) for i in owners]

    def _queue(self, index: int) -> Queue:
        register = self.registers[index]
        steps = self._steps.get(register.register, [0])
        is_lasting = self._alone[index]
        return Queue(min(steps), max(steps) + 1, register.size, 0, 1, is_lasting)

    def _text(self, register: RegisterOp) -> str:
        text = f"'{register.register_name.data}' {register.size}"
        if (task := self._writer.get(register.register)) is None:
            return text
        return f"{text} (task '{task.task_name.data}')"


def memory_of(register: RegisterOp) -> Memory:
    """The memory that a register lies in."""
    return Memory.of(register.memory_case)


def block_of(register: RegisterOp) -> BlockOp | None:
    """The block that a register lies in, if it has a place of its own."""
    if register.block is None or not isinstance(op := register.block.owner, BlockOp):
        return None
    return op


################################################################################
# The check                                                                    #
################################################################################


def findings_about(plan: PlanOp, limits: Mapping[str, int]) -> Iterator[Finding]:
    """The memories of a plan that are too small, or why that is not known yet."""
    if any(task.results_ for task in plan.tasks):
        yield plan, "tasks hand on values, run plan-create-registers first"
        return
    if any(needs_place(register) for register in plan.registers):
        yield plan, "registers have no place yet, run regst-plan-memory first"
        return
    taken: dict[Memory, int] = defaultdict(int)
    for chunk in plan.chunks:
        taken[Memory.of(chunk.memory_case)] += chunk.size.value.data
    owners = Owners(plan)
    for memory, size in taken.items():
        limit = memory.limit(limits)
        if limit is not None and size > limit:
            yield plan, short_text(memory, size, limit, owners.largest(memory))


def needs_place(register: RegisterOp) -> bool:
    """Whether a register holds bytes, but lies nowhere."""
    is_data = isinstance(register.register.type, DataType)
    return is_data and register.block is None and register.target is None


def short_text(memory: Memory, size: int, limit: int, owners: Sequence[str]) -> str:
    """The message about a memory that is too small."""
    text = (
        f"memory {memory.name} of rank {memory.rank} takes {size} bytes, "
        f"but the limit is {limit}"
    )
    return f"{text}; most of it is for {', '.join(owners)}" if owners else text


@dataclass(frozen=True)
class VerifyMemoryPass(ModulePass):
    """
    Check that the chunks of each plan fit into the memory of the machine.
    """

    name = "verify-memory"

    limits: str
    """The limit of each memory, such as `"host=4G,cuda:0=80G"`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        limits = parse_limits(self.limits)
        plans = outermost(op, PlanOp)
        fail_if_any(x for plan in plans for x in findings_about(plan, limits))
        check_names(limits, plans)
