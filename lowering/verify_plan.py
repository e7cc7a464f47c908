"""
Check what must hold of a whole plan, from its registers and tasks alone.

A plan is a marked graph. A reader of a register acts for the n-th time after its writer
has acted for the (n - initial)-th time, and the writer after the reader has acted for
the (n - free)-th time, where `initial` slots are full and `free` ones are not when the
job starts. So each register is an edge with `initial` tokens to each reader and one
with `free` tokens back. A task also holds what was written first over the bytes of the
aliases it reads. Variables never act. A task whose op names views (`in_place_pairs`)
for all of its results writes nothing where these lie there: they have the bytes that
others wrote. Then

* each cycle of edges carries a token, else its tasks wait for each other forever;
* registers that share bytes are never in use together: all tasks that use the one reach
  the writer of the other without a token, and those of the other reach the writer of
  the one over at most one token; what variables lie on, nothing is written to;
* where registers share bytes because of aliases, the writer of the other one may be the
  last to use the one, for an operand that its op can overwrite in place;
* the writer of an alias reads what it lies over, or the alias is a part that a view is
  made of;
* no two tasks of a stream have the same order;
* what a task that computes reads and writes lies in the memory that kernels on its
  device work in; for a processor that is all memory of its host.

All that is wrong is listed. Registers without places share no bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from penstock.dialects.diagnostics import fail_if_any
from penstock.dialects.interfaces import TensorOp
from penstock.dialects.job import DeviceAttr
from penstock.dialects.plan import PlanOp, StreamAttr, TaskOp, YieldOp, name_of
from penstock.dialects.regst import (
    BlockOp,
    ChunkOp,
    ControlType,
    MemoryCaseAttr,
    Place,
    RegisterOp,
    alias_place,
)
from penstock.lowering.marked_graph import (
    Edge,
    MarkedGraph,
    Storage,
    clashes,
    marks_of,
)

################################################################################
# From a plan to its marked graph                                              #
################################################################################


@dataclass
class PlanGraph:
    """The tasks of a plan that act, and how they use its registers."""

    plan: PlanOp
    tasks: list[TaskOp] = field(default_factory=list[TaskOp])
    variables: dict[RegisterOp, TaskOp] = field(
        default_factory=dict[RegisterOp, TaskOp]
    )
    """The registers of variables."""
    writer: dict[RegisterOp, int] = field(default_factory=dict[RegisterOp, int])
    """The task that writes a register; none for a variable's."""
    readers: dict[RegisterOp, list[int]] = field(default_factory=dict)
    """The tasks that read a register under its own name."""
    sources: dict[RegisterOp, list[RegisterOp]] = field(default_factory=dict)
    """What the writer of a register reads of the same bytes, because of aliases."""

    def __post_init__(self) -> None:
        for task in self.plan.tasks:
            if task.kind == "variable":
                self.variables.update((r, task) for r in registers_among(task.outs))
            else:
                self.tasks.append(task)
        self.readers = {register: [] for register in self.plan.registers}
        self.place = {r: alias_place(r.register) for r in self.plan.registers}
        """Where each register lies in the one that its aliases end at."""
        for index, task in enumerate(self.tasks):
            for register in registers_among((*task.outs, *task.signals)):
                self.writer[register] = index
            for register in registers_among((*task.ins, *task.waits)):
                self.readers[register].append(index)
        for register, writer in self.writer.items():
            read = registers_among(self.tasks[writer].ins)
            self.sources[register] = [s for s in read if self.shares(s, register)]
        self.is_view = [shows_operands(task) for task in self.tasks]
        """Whether each task writes nothing."""

    def shares(self, a: RegisterOp, b: RegisterOp) -> bool:
        """Whether two registers have bytes in common because of aliases."""
        (root, start), (other, begin) = self.place[a], self.place[b]
        return root == other and start < begin + b.size and begin < start + a.size

    def graph(self) -> MarkedGraph:
        """The marked graph of the tasks."""
        edges: list[Edge] = []
        for register, holders in self._holders().items():
            if (writer := self.writer.get(register)) is None:
                continue
            initial = 0 if register.initial is None else register.initial.value.data
            free = register.slots.value.data - initial
            for holder in holders:
                edges.append(Edge(writer, holder, initial))
                edges.append(Edge(holder, writer, free))
        return MarkedGraph(len(self.tasks), edges)

    def _holders(self) -> dict[RegisterOp, list[int]]:
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
        """What was written first over the bytes of a register, if not itself."""
        pending, entered = [register], set[RegisterOp]()
        while pending:
            top = pending[-1]
            sources = self.sources.get(top, [])
            # Who reads what it writes waits for itself, which is found elsewhere.
            new = [s for s in sources if s not in known and s not in entered]
            entered.add(top)
            pending += new
            if not new:
                firsts = (known.get(source) or [source] for source in sources)
                known[top] = list(dict.fromkeys(f for found in firsts for f in found))
                pending.pop()
        return known[register]

    def shown(self, graph: MarkedGraph) -> dict[RegisterOp, list[RegisterOp]]:
        """Whose bytes a register has: its own, if its writer writes anything."""
        shown = {register: [register] for register in self.variables}
        written: dict[int, list[RegisterOp]] = defaultdict(list)
        for register, writer in self.writer.items():
            written[writer].append(register)
        for task in graph.order:
            for register in written[task]:
                made = [register]
                if self.is_view[task]:
                    read = self.sources[register]
                    made = [
                        x for s in read for x in shown[s] if self.shares(x, register)
                    ]
                shown[register] = list(dict.fromkeys(made))
        return shown

    def storages(self, graph: MarkedGraph) -> dict[RegisterOp, Storage]:
        """The bytes that each register with bytes of its own lies on."""
        users: dict[RegisterOp, dict[int, None]] = {}
        for register, showing in self.shown(graph).items():
            among = dict.fromkeys(self.readers[register])
            if (writer := self.writer.get(register)) is not None:
                among = {writer: None, **among}
            for origin in showing:
                users.setdefault(origin, {}).update(among)
        addresses = self._addresses()
        stored: dict[RegisterOp, Storage] = {}
        for register in self.plan.registers:
            if register not in users or isinstance(register.register.type, ControlType):
                continue
            root, offset = self.place[register]
            start = addresses[root] + offset
            writer = self.writer.get(register)
            among = list(users[register])
            stored[register] = Storage(start, start + register.size, writer, among)
        return stored

    def _addresses(self) -> dict[SSAValue, int]:
        """Where registers that are no aliases lie; those without a place, alone."""
        bases = self._chunk_bases()
        end = sum(
            op.size.value.data
            for op in self.plan.body.block.ops
            if isinstance(op, ChunkOp)
        )
        addresses: dict[SSAValue, int] = {}
        for register in self.plan.registers:
            if (address := address_of(register, bases)) is None:
                address, end = end, end + register.size
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


def registers_among(values: Sequence[SSAValue]) -> Iterator[RegisterOp]:
    """The registers that values are, each once."""
    for value in dict.fromkeys(values):
        if isinstance(owner := value.owner, RegisterOp):
            yield owner


def shows_operands(task: TaskOp) -> bool:
    """Whether all results of a task have the bytes of operands, where these lie."""
    op, end = task.op, task.op.next_op
    if not isinstance(op, TensorOp) or not isinstance(end, YieldOp):
        return False
    if tuple(end.values) != tuple(op.results):
        return False
    views = [pair for pair in op.in_place_pairs() if pair.view]
    seen = {pair.result for pair in views}
    return (
        bool(views)
        and len(seen) == len(op.results)
        and all(
            starts_at(task, pair.operand, pair.offset)
            == alias_place(task.outs[pair.result])
            for pair in views
        )
    )


def starts_at(task: TaskOp, operand: int, offset: int) -> Place | None:
    """The place that is some bytes behind where an operand of a task's op starts."""
    value = task.op.operands[operand]
    if not isinstance(value, BlockArgument):
        return None
    root, start = alias_place(task.ins[value.index])
    return Place(root, start + offset)


def address_of(register: RegisterOp, bases: dict[ChunkOp, int]) -> int | None:
    """Where a register lies; None if it has no place."""
    if register.block is None or register.offset is None:
        return None
    block = register.block.owner
    assert isinstance(block, BlockOp), "only this op makes blocks"
    chunk = block.chunk.owner
    assert isinstance(chunk, ChunkOp), "only this op makes chunks"
    return bases[chunk] + block.offset.value.data + register.offset.value.data


################################################################################
# Findings                                                                     #
################################################################################

Finding = tuple[Operation, str]


def findings_in(plan: PlanOp) -> Iterator[Finding]:
    """All that is wrong with a plan, each with the op it is about."""
    plan_graph = PlanGraph(plan)
    yield from equal_orders(plan_graph.tasks)
    yield from acting_variables(list(plan_graph.variables.values()))
    yield from out_of_reach(plan_graph.tasks)
    graph = plan_graph.graph()
    for cycle in graph.cycles:
        yield deadlock(plan_graph, cycle)
    if not graph.cycles:
        yield from shared_bytes(plan_graph, graph)
        yield from bad_aliases(plan_graph)


def equal_orders(tasks: Sequence[TaskOp]) -> Iterator[Finding]:
    """Tasks that have the place of another one in their stream."""
    places: dict[tuple[DeviceAttr, StreamAttr, int], str] = {}
    for task in tasks:
        if task.order is None:
            continue
        name, order = task.task_name.data, task.order.value.data
        other = places.setdefault((task.device, task.stream, order), name)
        if other != name:
            yield task, f"tasks '{other}' and '{name}' both have order {order}"


def acting_variables(variables: Sequence[TaskOp]) -> Iterator[Finding]:
    """Variables that take part in control."""
    for task in variables:
        if task.waits or task.signals:
            yield (
                task,
                f"variable '{task.task_name.data}' waits or signals, but never acts",
            )


def out_of_reach(tasks: Sequence[TaskOp]) -> Iterator[Finding]:
    """Registers in memory in which the kernels of their users cannot work."""
    for task in tasks:
        if task.kind != "compute":
            continue
        own = MemoryCaseAttr.of(task.device)
        for register in registers_among((*task.ins, *task.outs)):
            case = register.memory_case
            is_near = own.is_host and case.is_host and case.rank == own.rank
            if not is_near and case != own:
                yield (
                    task,
                    f"task '{task.task_name.data}' works in {own}, but register "
                    f"'{register.register_name.data}' lies in {case}",
                )


def deadlock(plan_graph: PlanGraph, cycle: Sequence[int]) -> Finding:
    """That the tasks of a cycle never act."""
    tasks = [plan_graph.tasks[index] for index in (*cycle, cycle[0])]
    names = " -> ".join(f"'{task.task_name.data}'" for task in tasks)
    return tasks[0], f"a cycle of tasks has no token, so none ever acts: {names}"


def shared_bytes(plan_graph: PlanGraph, graph: MarkedGraph) -> Iterator[Finding]:
    """Registers that share bytes and may be in use together."""
    stored = plan_graph.storages(graph)
    registers, storages = list(stored), list(stored.values())
    related: list[tuple[RegisterOp, RegisterOp]] = []
    for i, j in clashes(graph, storages):
        if plan_graph.shares(registers[i], registers[j]):
            related.append((registers[i], registers[j]))
        else:
            yield clash(registers[i], registers[j], storages[i], storages[j])
    yield from bad_overwrites(plan_graph, graph, stored, related)


def clash(a: RegisterOp, b: RegisterOp, first: Storage, second: Storage) -> Finding:
    """That two registers may be in use together."""
    shared = min(first.end, second.end) - max(first.start, second.start)
    return (
        b,
        f"registers '{a.register_name.data}' and '{b.register_name.data}' share "
        f"{shared} bytes, but may be in use at the same time",
    )


def bad_overwrites(
    plan_graph: PlanGraph,
    graph: MarkedGraph,
    stored: dict[RegisterOp, Storage],
    pairs: Sequence[tuple[RegisterOp, RegisterOp]],
) -> Iterator[Finding]:
    """
    Of pairs of registers that share bytes because of aliases, and that tasks may use
    together, those that are not used by the same task only, which overwrites the one.
    """
    position = {actor: i for i, actor in enumerate(graph.order)}
    writers = list(dict.fromkeys(x for pair in pairs for x in writers_of(pair, stored)))
    marks = marks_of(graph, writers)
    same_act = graph.after(marks)
    next_act = graph.after_up_to_next_act(marks)
    bit = {writer: 1 << i for i, writer in enumerate(writers)}
    for pair in pairs:
        fixed = [register for register in pair if stored[register].writer is None]
        if fixed:
            # That something is written over a variable is said elsewhere.
            if any(plan_graph.place[r].root != r.register for r in fixed):
                yield clash(*pair, *(stored[register] for register in pair))
            continue
        a, b = sorted(pair, key=lambda register: position[plan_graph.writer[register]])
        later = plan_graph.writer[b]
        late = [
            user
            for user in stored[a].users
            if user != later and not same_act[user] & bit[later]
        ]
        yield from late_users(plan_graph, a, b, late)
        back = all(next_act[u] & bit[plan_graph.writer[a]] for u in stored[b].users)
        # Several slots are written in turn: their next act is another one's bytes.
        if not late and not back and a.slots.value.data == 1:
            yield clash(a, b, stored[a], stored[b])


def writers_of(
    pair: tuple[RegisterOp, RegisterOp], stored: dict[RegisterOp, Storage]
) -> Iterator[int]:
    """The tasks that write two registers."""
    for register in pair:
        if (writer := stored[register].writer) is not None:
            yield writer


def late_users(
    plan_graph: PlanGraph, victim: RegisterOp, over: RegisterOp, late: Sequence[int]
) -> Iterator[Finding]:
    """That tasks may use bytes after they have been overwritten."""
    task = plan_graph.tasks[plan_graph.writer[over]]
    for user in late:
        name = plan_graph.tasks[user].task_name.data
        how = "write" if user == plan_graph.writer[victim] else "read"
        what = overwrites(task, over, victim)
        yield task, f"{what}, which '{name}' may {how} later"


def bad_aliases(plan_graph: PlanGraph) -> Iterator[Finding]:
    """Results that lie where they have no reason to, or where their op cannot work."""
    parts = parts_of_views(plan_graph)
    for register, writer in plan_graph.writer.items():
        task, sources = plan_graph.tasks[writer], plan_graph.sources[register]
        root = plan_graph.place[register].root.owner
        if isinstance(root, RegisterOp) and root is not register:
            # What has no bytes is neither read nor written anywhere.
            is_over = bool(sources) or register in parts or not register.size
            if root in plan_graph.variables and not plan_graph.is_view[writer]:
                yield task, overwrites(task, register, root) + ", a variable"
            if not is_over:
                yield (
                    task,
                    overwrites(task, register, root) + ", which it does not read",
                )
        if not plan_graph.is_view[writer]:
            for source in sources:
                if not can_work_in_place(task, register, source):
                    reason = f", but {task.op.name} cannot work in place"
                    yield task, overwrites(task, register, source) + reason


def parts_of_views(plan_graph: PlanGraph) -> set[RegisterOp]:
    """The registers whose bytes tasks that write nothing hand on."""
    found: set[RegisterOp] = set()
    pending = [
        source
        for register, writer in plan_graph.writer.items()
        if plan_graph.is_view[writer]
        for source in plan_graph.sources[register]
    ]
    while pending:
        register = pending.pop()
        if register not in found:
            found.add(register)
            pending += plan_graph.sources.get(register, [])
    return found


def overwrites(task: TaskOp, alias: RegisterOp, over: RegisterOp) -> str:
    """The start of a message: what a task writes over what."""
    return (
        f"task '{task.task_name.data}' writes '{name_of(alias.register)}' "
        f"over '{name_of(over.register)}'"
    )


def can_work_in_place(task: TaskOp, result: RegisterOp, source: RegisterOp) -> bool:
    """Whether a task's op may write a result over what it reads of the same bytes."""
    if not isinstance(op := task.op, TensorOp):
        return False
    index = task.outs.index(result.register)
    read = {
        operand
        for operand, value in enumerate(op.operands)
        if isinstance(value, BlockArgument) and task.ins[value.index] == source.register
    }
    allowed = {
        pair.operand
        for pair in op.in_place_pairs()
        if pair.result == index
        and (pair.view or source.register.type == result.register.type)
        and starts_at(task, pair.operand, pair.offset) == alias_place(result.register)
    }
    return read <= allowed


@dataclass(frozen=True)
class VerifyPlanPass(ModulePass):
    """
    Check what must hold of a whole plan, from its registers and tasks alone.
    """

    name = "verify-plan"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plans = [plan for plan in op.walk() if isinstance(plan, PlanOp)]
        fail_if_any(found for plan in plans for found in findings_in(plan))
