"""
Target `memory-report`: who owns the bytes of a plan, when, and why not somebody else.

    penstock-opt plan.mlir -t memory-report
    penstock-opt plan.mlir -t 'memory-report{format=json}'

All numbers are counted anew from the plan: nothing is taken from the planner. They are
of one order in which the tasks can act, called *steps*; variables take no step. A
register is alive from the first step that uses it to the last one, both included and
under any name. It is alive *always* if it is a variable or has no users, and, unless it
shares bytes with another one, if it has several slots or tasks of several streams use
it. An alias has no bytes of its own.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import accumulate, pairwise
from typing import IO, ClassVar, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException
from xdsl.utils.target import Target

from penstock.dialects.job import DeviceAttr
from penstock.dialects.plan import PlanOp, StreamAttr, TaskOp, name_of
from penstock.dialects.regst import (
    BlockOp,
    ChunkOp,
    DataType,
    MemoryCaseAttr,
    RegisterOp,
    alias_place,
)
from penstock.tools.report import counted, size_text

FORMATS = ("text", "json")

VERSION = 1
"""Of the JSON form: it changes when a key changes or goes, not when one is added."""

OWNERS = 10
"""The largest registers at a peak, that many of which are named."""

NO_PLACES = "no register has a place, run regst-plan-memory first"

NO_ALIAS = "no_alias"
"""What passes call the attribute in which they say why a register is no alias."""

################################################################################
# What is reported                                                             #
################################################################################


@dataclass(frozen=True)
class Step:
    """A task that acts; `order` is its place among those of its stream, from 0."""

    task: str
    op: str
    device: str
    stream: str
    order: int


@dataclass(frozen=True)
class Register:
    """
    Bytes from `offset` of a block, or `address` of its chunk, on. `bytes` counts all
    slots. `shares` is the number of registers that are no aliases of it, nor it of
    them, and have a byte in common with it.
    """

    name: str
    type: str
    bytes: int
    slots: int
    offset: int
    address: int
    producer: str | None
    op: str | None
    """What the producer executes."""
    readers: Sequence[str]
    first: int
    last: int
    """The steps between which it is alive; those of an alias are its own."""
    always: bool
    at_peak: bool
    """Whether it is alive when most bytes of its block are."""
    alias_of: str | None
    """The register that its chain of aliases ends at."""
    alias_offset: int
    """Bytes from the start of that one."""
    shares: int
    reasons: Sequence[str]
    """What keeps its bytes from being used for something else, or for less."""


@dataclass(frozen=True)
class Usage:
    """
    Bytes at each step. `bound` is the most that are alive at once: no layout takes
    less. `sum` is what all take side by side, `ratio` is `size / bound`.
    """

    size: int
    sum: int
    bound: int
    ratio: float | None
    live: Sequence[int]
    peak_step: int | None
    owners: Sequence[str]
    """The largest registers at that step."""


@dataclass(frozen=True)
class Block:
    """The bytes of a chunk from `offset` on, and who lies there."""

    name: str
    offset: int
    usage: Usage
    registers: Sequence[Register]


@dataclass(frozen=True)
class Chunk:
    """Bytes that are allocated at once."""

    name: str
    size: int
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Zone:
    """All that lies in one kind of memory."""

    memory_case: str
    usage: Usage
    chunks: Sequence[Chunk]


@dataclass(frozen=True)
class Report:
    """The memory of a plan. `unplaced` are registers that lie nowhere."""

    plan: str
    streams: Sequence[str]
    steps: Sequence[Step]
    zones: Sequence[Zone]
    unplaced: Sequence[str]


################################################################################
# Steps                                                                        #
################################################################################

Stream: TypeAlias = tuple[DeviceAttr, StreamAttr]


def stream_text(stream: Stream) -> str:
    """A stream as the plan writes it, such as `<0, cpu:0> <compute, 0>`."""
    device, queue = stream
    return f"{device_text(device)} {queue_text(queue)}"


def device_text(device: DeviceAttr) -> str:
    """A device as the plan writes it."""
    return f"<{device.rank.data}, {device.kind.data}:{device.index.data}>"


def queue_text(stream: StreamAttr) -> str:
    """A stream of a device as the plan writes it."""
    return f"<{stream.kind.data}, {stream.index.data}>"


def case_text(case: MemoryCaseAttr) -> str:
    """A memory case as the plan writes it."""
    text = f"{case.rank.data}, {case.kind.data}"
    if isinstance(case.device, DeviceAttr):
        text += f" {case.device.kind.data}:{case.device.index.data}"
    return f"<{text}>"


def streams_of(tasks: Sequence[TaskOp]) -> dict[Stream, list[int]]:
    """The indices of the tasks of each stream, in order."""
    streams: dict[Stream, list[int]] = {}
    for index, task in enumerate(tasks):
        streams.setdefault((task.device, task.stream), []).append(index)
    order = [0 if task.order is None else task.order.value.data for task in tasks]
    return {s: sorted(members, key=order.__getitem__) for s, members in streams.items()}


def acting_order(
    tasks: Sequence[TaskOp], streams: dict[Stream, list[int]]
) -> list[int]:
    """
    The indices of tasks, each behind those it waits for, else as they are listed. Tasks
    that wait for each other come last.
    """
    producers = {r: i for i, t in enumerate(tasks) for r in (*t.outs, *t.signals)}
    edges = {edge for members in streams.values() for edge in pairwise(members)}
    for index, task in enumerate(tasks):
        for register in (*task.ins, *task.waits):
            if register in producers and not is_full_at_start(register):
                edges.add((producers[register], index))
    followers: dict[int, list[int]] = defaultdict(list)
    waiting = [0] * len(tasks)
    for first, second in edges:
        followers[first].append(second)
        waiting[second] += 1
    ready = [index for index, count in enumerate(waiting) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        order.append(index := heappop(ready))
        for follower in followers[index]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heappush(ready, follower)
    return order + [index for index, count in enumerate(waiting) if count]


def is_full_at_start(register: SSAValue) -> bool:
    """Whether the first act of a reader waits for nobody."""
    owner = register.owner
    if not isinstance(owner, RegisterOp) or owner.initial is None:
        return False
    return owner.initial.value.data > 0


################################################################################
# Counting                                                                     #
################################################################################


@dataclass
class Tree:
    """A register that is no alias, and what uses it under any name."""

    root: RegisterOp
    address: int
    steps: list[int]
    streams: dict[Stream, None]
    """In the order of their tasks."""
    shares: int = 0

    @property
    def bytes(self) -> int:
        """The bytes of all slots."""
        return self.root.size


class Counting:
    """What a report of a plan is made from."""

    def __init__(self, plan: PlanOp) -> None:
        self.plan = plan
        acting = [task for task in plan.tasks if task.kind != "variable"]
        self.streams = streams_of(acting)
        self.tasks = [acting[i] for i in acting_order(acting, self.streams)]
        self.producer = {r: task for task in plan.tasks for r in task.outs}
        self.readers: dict[SSAValue, list[TaskOp]] = defaultdict(list)
        self.users: dict[SSAValue, list[int]] = defaultdict(list)
        for step, task in enumerate(self.tasks):
            for register in dict.fromkeys(task.ins):
                self.readers[register].append(task)
            for register in dict.fromkeys((*task.ins, *task.outs)):
                self.users[register].append(step)
        self.data = [r for r in plan.registers if isinstance(r.register.type, DataType)]
        self.trees: dict[SSAValue, Tree] = {
            register.register: self._tree(register)
            for register in self.data
            if register.block is not None
        }
        self._join_aliases()
        self._count_shares()

    @cached_property
    def in_stream(self) -> dict[TaskOp, int]:
        """The place of each task among those of its stream."""
        seen: Counter[Stream] = Counter()
        places: dict[TaskOp, int] = {}
        for task in self.tasks:
            stream = task.device, task.stream
            places[task] = seen[stream]
            seen[stream] += 1
        return places

    def _tree(self, register: RegisterOp) -> Tree:
        assert register.offset is not None, "checked with the block"
        assert register.block is not None, "only placed registers have a tree"
        block = register.block.owner
        start = block.offset.value.data if isinstance(block, BlockOp) else 0
        return Tree(register, start + register.offset.value.data, [], {})

    def _join_aliases(self) -> None:
        for register in self.data:
            tree = self.trees.get(alias_place(register.register).root)
            if tree is not None:
                tree.steps += self.users[register.register]
        for tree in self.trees.values():
            tree.steps.sort()
            for step in tree.steps:
                task = self.tasks[step]
                tree.streams[task.device, task.stream] = None

    def _count_shares(self) -> None:
        chunks: dict[SSAValue | None, list[Tree]] = defaultdict(list)
        for tree in self.trees.values():
            if tree.bytes:
                chunks[chunk_of(tree)].append(tree)
        for trees in chunks.values():
            starts = sorted(tree.address for tree in trees)
            ends = sorted(tree.address + tree.bytes for tree in trees)
            for tree in trees:
                below = bisect_right(ends, tree.address)
                begun = bisect_left(starts, tree.address + tree.bytes)
                tree.shares = begun - below - 1

    def is_variable(self, tree: Tree) -> bool:
        """Whether a register is filled before the job starts."""
        task = self.producer.get(tree.root.register)
        return task is not None and task.kind == "variable"

    def is_always_alive(self, tree: Tree) -> bool:
        """Whether a register counts as alive at each step."""
        if self.is_variable(tree) or not tree.steps:
            return True
        kept = tree.root.slots.value.data > 1 or len(tree.streams) > 1
        return kept and not tree.shares

    def life(self, tree: Tree) -> tuple[int, int]:
        """The first and the last step at which a register is alive."""
        if self.is_always_alive(tree):
            return 0, max(0, len(self.tasks) - 1)
        return tree.steps[0], tree.steps[-1]

    def usage(self, trees: Sequence[Tree], size: int, alignment: int) -> Usage:
        """The bytes of some registers that have `size` bytes in all."""
        change = [0] * (max(1, len(self.tasks)) + 1)
        for tree in trees:
            first, last = self.life(tree)
            change[first] += tree.bytes
            change[last + 1] -= tree.bytes
        live = list(accumulate(change[:-1]))
        bound = max(live)
        peak = live.index(bound)
        alive = [tree for tree in trees if self._lives_at(tree, peak)]
        alive.sort(key=lambda tree: -tree.bytes)
        return Usage(
            size,
            side_by_side([tree.bytes for tree in trees], alignment),
            bound,
            round(size / bound, 6) if bound else None,
            live,
            peak if self.tasks else None,
            [name_of(tree.root.register) for tree in alive[:OWNERS]],
        )

    def _lives_at(self, tree: Tree, step: int) -> bool:
        first, last = self.life(tree)
        return first <= step <= last

    # Registers

    def registers(self, trees: Sequence[Tree], peak: int | None) -> Iterator[Register]:
        """The registers of a block and their aliases, as they are listed."""
        inside: set[SSAValue] = {tree.root.register for tree in trees}
        for register in self.data:
            if alias_place(register.register).root in inside:
                yield self._register(register, peak or 0)

    def _register(self, register: RegisterOp, peak: int) -> Register:
        root, shift = alias_place(register.register)
        tree = self.trees[root]
        assert tree.root.offset is not None, "roots are placed"
        is_alias = register.target is not None
        steps, always = self.users[register.register], self.is_always_alive(tree)
        if is_alias and steps:
            first, last, always = steps[0], steps[-1], False
        else:
            first, last = self.life(tree)
        task = self.producer.get(register.register)
        return Register(
            register.register_name.data,
            payload_text(register),
            register.size,
            register.slots.value.data,
            tree.root.offset.value.data + shift,
            tree.address + shift,
            None if task is None else task.task_name.data,
            None if task is None else task.op.name,
            [reader.task_name.data for reader in self.readers[register.register]],
            first,
            last,
            always,
            first <= peak <= last,
            name_of(root) if is_alias else None,
            shift,
            tree.shares,
            list(self._reasons(register, tree, shift, peak)),
        )

    def _reasons(
        self, register: RegisterOp, tree: Tree, shift: int, peak: int
    ) -> Iterator[str]:
        if register.target is not None:
            at = f" at byte {shift}" if shift else ""
            yield f"alias of {name_of(tree.root.register)}{at}"
            return
        found = list(self._reasons_of_root(tree, peak))
        yield from found or ([] if tree.shares else ["nothing else was laid there"])
        refusal = register.attributes.get(NO_ALIAS)
        if isinstance(refusal, StringAttr):
            yield f"no alias: {refusal.data}"

    def _reasons_of_root(self, tree: Tree, peak: int) -> Iterator[str]:
        if self.is_variable(tree):
            yield "variable"
            return
        if not tree.steps:
            yield "no task uses it"
            return
        if (slots := tree.root.slots.value.data) > 1:
            yield f"{slots} slots"
        if len(tree.streams) > 1:
            *others, last = map(stream_text, tree.streams)
            yield f"tasks of {', '.join(others)} and {last} use it"
        if not self.is_always_alive(tree) and self._lives_at(tree, peak):
            yield "alive at the peak"


def chunk_of(tree: Tree) -> SSAValue | None:
    """The chunk that a register lies in."""
    assert tree.root.block is not None, "only placed registers have a tree"
    block = tree.root.block.owner
    return block.chunk if isinstance(block, BlockOp) else None


def payload_text(register: RegisterOp) -> str:
    """The type of what one slot of a register holds, such as `tensor<4xf32>`."""
    type = register.register.type
    return str(type.payload) if isinstance(type, DataType) else str(type)


def side_by_side(sizes: Sequence[int], alignment: int) -> int:
    """The bytes from the first to the last of things that share none."""
    padded = [-(-size // alignment) * alignment for size in sizes]
    # The smallest one lies last, where nothing has to be aligned behind it.
    least = min(sizes, default=0)
    return sum(padded) - min(padded, default=0) + least


################################################################################
# Reports                                                                      #
################################################################################


def reports_of(module: Operation) -> list[Report]:
    """A report of each plan in a module whose registers have places."""
    plans = [op for op in module.walk() if isinstance(op, PlanOp)]
    return [report_of(plan) for plan in plans if has_places(plan)]


def has_places(plan: PlanOp) -> bool:
    """Whether some register of a plan lies somewhere."""
    return any(register.block is not None for register in plan.registers)


def report_of(plan: PlanOp) -> Report:
    """The memory of a plan."""
    counting = Counting(plan)
    cases: dict[MemoryCaseAttr, list[ChunkOp]] = {}
    for op in plan.body.block.ops:
        if isinstance(op, ChunkOp):
            cases.setdefault(op.memory_case, []).append(op)
    return Report(
        plan.sym_name.data,
        [stream_text(stream) for stream in counting.streams],
        [step_of(counting, task) for task in counting.tasks],
        [zone_of(counting, case, chunks) for case, chunks in cases.items()],
        [
            register.register_name.data
            for register in counting.data
            if alias_place(register.register).root not in counting.trees
        ],
    )


def step_of(counting: Counting, task: TaskOp) -> Step:
    """What is said of a task that acts."""
    return Step(
        task.task_name.data,
        task.op.name,
        device_text(task.device),
        queue_text(task.stream),
        counting.in_stream[task],
    )


def zone_of(
    counting: Counting, case: MemoryCaseAttr, chunks: Sequence[ChunkOp]
) -> Zone:
    """All that lies in these chunks of one kind of memory."""
    values = {chunk.chunk for chunk in chunks}
    trees = [t for t in counting.trees.values() if chunk_of(t) in values]
    size = sum(chunk.size.value.data for chunk in chunks)
    names = unique_names([chunk.chunk for chunk in chunks], "chunk")
    return Zone(
        case_text(case),
        counting.usage(trees, size, case.alignment),
        [
            Chunk(name, chunk.size.value.data, list(blocks_of(counting, chunk)))
            for name, chunk in zip(names, chunks, strict=True)
        ],
    )


def blocks_of(counting: Counting, chunk: ChunkOp) -> Iterator[Block]:
    """The blocks of a chunk, as they are listed."""
    blocks = [
        op
        for op in counting.plan.body.block.ops
        if isinstance(op, BlockOp) and op.chunk == chunk.chunk
    ]
    held: dict[SSAValue, list[Tree]] = defaultdict(list)
    for tree in counting.trees.values():
        if tree.root.block is not None:
            held[tree.root.block].append(tree)
    names = unique_names([block.block for block in blocks], "block")
    for name, block in zip(names, blocks, strict=True):
        trees = held[block.block]
        alignment = chunk.memory_case.alignment
        usage = counting.usage(trees, block.size.value.data, alignment)
        registers = list(counting.registers(trees, usage.peak_step))
        yield Block(name, block.offset.value.data, usage, registers)


def unique_names(values: Sequence[SSAValue], fallback: str) -> list[str]:
    """The names of values as they are hinted at, with numbers where two are equal."""
    names: list[str] = []
    for value in values:
        name = base = value.name_hint or fallback
        count = 0
        while name in names:
            count += 1
            name = f"{base}_{count}"
        names.append(name)
    return names


################################################################################
# Text                                                                         #
################################################################################

Row: TypeAlias = Sequence[str]


def text_of(report: Report, top: int) -> str:
    """Tables of a plan's memory, of `top` registers a kind of memory."""
    steps, streams = len(report.steps), len(report.streams)
    head = f"{counted(steps, 'step')} on {counted(streams, 'stream')}"
    parts = [f"plan @{report.plan}: {head}\n"]
    parts += [zone_text(report, zone, top) for zone in report.zones]
    if report.unplaced:
        parts.append(f"without a place: {', '.join(report.unplaced)}\n")
    return "\n".join(parts)


def zone_text(report: Report, zone: Zone, top: int) -> str:
    """Tables of one kind of memory."""
    usage = zone.usage
    where = [(c, b, r) for c in zone.chunks for b in c.blocks for r in b.registers]
    where.sort(key=lambda place: (place[2].alias_of is not None, -place[2].bytes))
    owners = [r for name in usage.owners for *_, r in where if r.name == name]
    lines = [
        f"memory {zone.memory_case}: {usage_text(usage)}",
        *table(BLOCKS, [block_row(c, b) for c in zone.chunks for b in c.blocks]),
        "",
        f"  largest at the peak{peak_text(report, usage)}",
        *table(OWNER, [owner_row(r, usage.bound) for r in owners[:top]]),
        "",
        "  largest registers",
        *table(REGISTERS, [register_row(b, r) for _, b, r in where[:top]]),
    ]
    if len(where) > top:
        lines.append(f"    and {len(where) - top} more")
    return "\n".join(lines) + "\n"


def usage_text(usage: Usage) -> str:
    """How full a kind of memory is."""
    return (
        f"{size_text(usage.size)}, {ratio_text(usage)} x the bound of "
        f"{size_text(usage.bound)}, {size_text(usage.sum)} unshared"
    )


def ratio_text(usage: Usage) -> str:
    """How much larger something is than it has to be."""
    return "-" if usage.ratio is None else f"{usage.ratio:.3f}"


def peak_text(report: Report, usage: Usage) -> str:
    """When most bytes are alive."""
    if usage.peak_step is None:
        return ""
    return f", step {usage.peak_step}: {report.steps[usage.peak_step].task}"


BLOCKS = ("<block", ">at", ">bytes", ">bound", ">ratio", ">unshared", ">registers")
OWNER = (">bytes", ">share", "<register", "<written by", "<steps")
REGISTERS = (
    "<register",
    "<block",
    ">at",
    ">bytes",
    ">slots",
    "<steps",
    "<written by",
    "<read by",
    "<why not reused",
)
MOST_READERS = 3


def block_row(chunk: Chunk, block: Block) -> Row:
    """What is said of a block."""
    usage = block.usage
    count = sum(register.alias_of is None for register in block.registers)
    return (
        f"{chunk.name}/{block.name}",
        str(block.offset),
        str(usage.size),
        str(usage.bound),
        ratio_text(usage),
        str(usage.sum),
        str(count),
    )


def owner_row(register: Register, bound: int) -> Row:
    """What is said of one of the largest registers at a peak."""
    share = f"{register.bytes / bound:.1%}" if bound else "-"
    producer, steps = register.producer or "-", steps_text(register)
    return str(register.bytes), share, register.name, producer, steps


def register_row(block: Block, register: Register) -> Row:
    """What is said of a register."""
    readers = ", ".join(register.readers[:MOST_READERS]) or "-"
    if (more := len(register.readers) - MOST_READERS) > 0:
        readers += f" and {more} more"
    return (
        register.name,
        block.name,
        str(register.offset),
        str(register.bytes),
        str(register.slots),
        steps_text(register),
        register.producer or "-",
        readers,
        "; ".join(register.reasons),
    )


def steps_text(register: Register) -> str:
    """When a register is alive."""
    return "always" if register.always else f"{register.first}-{register.last}"


def table(columns: Row, rows: Sequence[Row]) -> Iterator[str]:
    """Lines of aligned cells; the first character of a column's name says how."""
    cells = [[column[1:] for column in columns], *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        parts = [
            f"{cell:{column[0]}{width}}"
            for cell, column, width in zip(row, columns, widths, strict=True)
        ]
        yield "    " + "  ".join(parts).rstrip()


################################################################################
# JSON                                                                         #
################################################################################

Json: TypeAlias = "dict[str, Json] | list[Json] | str | float | bool | None"


def json_of(reports: Sequence[Report]) -> Json:
    """The reports as what `json.dumps` takes."""
    return {"version": VERSION, "plans": [plan_json(report) for report in reports]}


def plan_json(report: Report) -> Json:
    """A report as dictionaries and lists."""
    return {
        "plan": report.plan,
        "streams": list(report.streams),
        "steps": [asdict(step) for step in report.steps],
        "zones": [zone_json(zone) for zone in report.zones],
        "unplaced": list(report.unplaced),
    }


def zone_json(zone: Zone) -> Json:
    """A kind of memory, with its usage beside what it holds."""
    chunks: list[Json] = [
        {
            "name": chunk.name,
            "size": chunk.size,
            "blocks": [block_json(block) for block in chunk.blocks],
        }
        for chunk in zone.chunks
    ]
    return {"memory_case": zone.memory_case, **asdict(zone.usage), "chunks": chunks}


def block_json(block: Block) -> Json:
    """A block, with its usage beside what it holds."""
    return {
        "name": block.name,
        "offset": block.offset,
        **asdict(block.usage),
        "registers": [asdict(register) for register in block.registers],
    }


def json_text(value: Json, indent: str = "") -> str:
    """JSON with a line for each thing that holds no other things with keys."""
    if not holds_objects(value):
        return json.dumps(value)
    inner = indent + " "
    if isinstance(value, dict):
        items = [f"{json.dumps(k)}: {json_text(v, inner)}" for k, v in value.items()]
        start, end = "{}"
    else:
        assert isinstance(value, list), "nothing else holds objects"
        items = [json_text(item, inner) for item in value]
        start, end = "[]"
    lines = ",\n".join(inner + item for item in items)
    return f"{start}\n{lines}\n{indent}{end}"


def holds_objects(value: Json) -> bool:
    """Whether there are objects in an array, or arrays of them in an object."""
    match value:
        case list():
            return any(isinstance(item, dict) for item in value)
        case dict():
            return any(isinstance(v, list) and holds_objects(v) for v in value.values())
        case _:
            return False


################################################################################
# The target                                                                   #
################################################################################


@dataclass(frozen=True)
class MemoryReportTarget(Target):
    """Says who owns the bytes of the plans of a module, and when."""

    name: ClassVar[str] = "memory-report"

    format: str = "text"
    top: int = OWNERS
    """How many registers each table of the text names."""

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            known = ", ".join(FORMATS)
            raise ValueError(f"unknown format '{self.format}', known are: {known}")
        if self.top < 1:
            raise ValueError(f"top must be at least 1, got {self.top}")

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        if not (reports := reports_of(module)):
            raise DiagnosticException(NO_PLACES)
        if self.format == "json":
            output.write(json_text(json_of(reports)) + "\n")
        else:
            output.write("\n".join(text_of(report, self.top) for report in reports))
