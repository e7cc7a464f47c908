"""
Check what must hold of a whole plan, from its registers and tasks alone.

A plan is a marked graph. A reader of a register acts for the n-th time after its writer
has acted for the (n - initial)-th time, and the writer after the reader has acted for
the (n - free)-th time, where `initial` slots are full and `free` ones are not when the
job starts. So each register is an edge with `initial` tokens to each reader and one
with `free` tokens back. A task also holds what the aliases it reads stand for.
Variables never act. Then

* each cycle of edges carries a token, else its tasks wait for each other forever;
* registers that share bytes are never in use together: all tasks that use the one reach
  the writer of the other without a token, and those of the other reach the writer of
  the one over at most one token; what variables lie on, nothing else lies on;
* the writer of an alias reads what it lies over, can do its op in place, and comes
  after all others that read what it overwrites;
* no two tasks of a stream have the same order.

All that is wrong is listed. Registers without places share no bytes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from penstock.dialects.diagnostics import fail_if_any
from penstock.dialects.interfaces import TensorOp
from penstock.dialects.job import DeviceAttr
from penstock.dialects.plan import PlanOp, StreamAttr, TaskOp, name_of
from penstock.dialects.regst import BlockOp, ChunkOp, RegisterOp

################################################################################
# Marked graphs                                                                #
################################################################################


class Edge(NamedTuple):
    """The target's n-th act follows the source's (n - tokens)-th."""

    source: int
    target: int
    tokens: int


class MarkedGraph:
    """Actors, numbered from 0, and what they wait for."""

    def __init__(self, size: int, edges: Sequence[Edge]) -> None:
        self.size = size
        self.next: list[list[int]] = [[] for _ in range(size)]
        """The targets of each actor's edges without a token."""
        self.previous: list[list[int]] = [[] for _ in range(size)]
        """The sources of each actor's edges without a token."""
        self.next_act: list[list[int]] = [[] for _ in range(size)]
        """The targets of each actor's edges with one token."""
        for source, target, tokens in dict.fromkeys(edges):
            if tokens == 0:
                self.next[source].append(target)
                self.previous[target].append(source)
            elif tokens == 1:
                self.next_act[source].append(target)
        self.order: list[int] = []
        """Actors before those that wait for them; without those of `cycles`."""
        self.cycles: list[list[int]] = []
        """Cycles without a token, no two with a common actor; none is left aside."""
        self._sort()

    def _sort(self) -> None:
        waiting = [len(sources) for sources in self.previous]
        seen = [count == 0 for count in waiting]
        ready = [actor for actor in range(self.size) if seen[actor]]
        self.order += self._release(ready, waiting, seen)
        for actor in range(self.size):
            while not seen[actor]:
                cycle = self._cycle_behind(actor, seen)
                self.cycles.append(cycle)
                for member in cycle:
                    seen[member] = True
                self.order += self._release(list(cycle), waiting, seen)[len(cycle) :]

    def _release(
        self, ready: list[int], waiting: list[int], seen: list[bool]
    ) -> list[int]:
        """The actors that wait for nothing but these, and these, in order."""
        for actor in ready:
            for target in self.next[actor]:
                waiting[target] -= 1
                if not waiting[target] and not seen[target]:
                    seen[target] = True
                    ready.append(target)
        return ready

    def _cycle_behind(self, actor: int, seen: list[bool]) -> list[int]:
        """A cycle that an actor waits for, from its lowest actor on."""
        path: dict[int, int] = {}
        while actor not in path:
            path[actor] = len(path)
            actor = next(source for source in self.previous[actor] if not seen[source])
        cycle = list(path)[path[actor] :][::-1]
        first = cycle.index(min(cycle))
        return cycle[first:] + cycle[:first]

    def after(self, marks: Sequence[int]) -> list[int]:
        """
        For each actor the marks of all that follow it in the same act. The marks are
        sets: the bits of an integer.
        """
        sets = [0] * self.size
        for actor in reversed(self.order):
            for target in self.next[actor]:
                sets[actor] |= marks[target] | sets[target]
        return sets

    def after_up_to_next_act(self, marks: Sequence[int]) -> list[int]:
        """The same, for those that follow an actor in the same or the next act."""
        same_act = self.after(marks)
        sets = [mark | later for mark, later in zip(marks, same_act, strict=True)]
        for actor in reversed(self.order):
            for target in self.next[actor]:
                sets[actor] |= sets[target]
            for target in self.next_act[actor]:
                sets[actor] |= marks[target] | same_act[target]
        return sets


class Storage(NamedTuple):
    """Bytes from `start` up to `end`, the actor that writes them, and all users."""

    start: int
    end: int
    writer: int | None
    """None for a variable, which is in use all the time."""
    users: Sequence[int]


def clashes(graph: MarkedGraph, storages: Sequence[Storage]) -> list[tuple[int, int]]:
    """
    The pairs of storages that share bytes and may be in use together, in order.

    The graph has no cycle without a token.
    """
    order = written_order(graph, storages)
    ordered = [storages[i] for i in order]
    marks = marks_of(graph, [storage.writer for storage in ordered])
    same_act = graph.after(marks)
    next_act = graph.after_up_to_next_act(marks)
    found: set[tuple[int, int]] = set()
    for i, overlapping in enumerate(overlaps(ordered)):
        # What is written later must be so after all users of i in the same act, and
        # what is written earlier after them in the next one.
        earlier = (1 << i) - 1
        same = common(same_act[user] for user in ordered[i].users)
        next = common(next_act[user] for user in ordered[i].users)
        for j in bits_of(overlapping & (~same & ~earlier | ~next & earlier)):
            found.add((min(order[i], order[j]), max(order[i], order[j])))
    return sorted(found)


def written_order(graph: MarkedGraph, storages: Sequence[Storage]) -> list[int]:
    """The storages with at least one byte in an order they can be written in."""
    position = {actor: i for i, actor in enumerate(graph.order)}

    def written(index: int) -> int:
        writer = storages[index].writer
        return -1 if writer is None else position[writer]

    some = [i for i, storage in enumerate(storages) if storage.start < storage.end]
    return sorted(some, key=written)


def marks_of(graph: MarkedGraph, writers: Sequence[int | None]) -> list[int]:
    """For each actor the set of indices at which it stands among the writers."""
    marks = [0] * graph.size
    for i, writer in enumerate(writers):
        if writer is not None:
            marks[writer] |= 1 << i
    return marks


def common(sets: Iterator[int]) -> int:
    """The intersection of sets; that of none is empty."""
    result = next(sets, 0)
    for other in sets:
        result &= other
    return result


def overlaps(storages: Sequence[Storage]) -> Iterator[int]:
    """For each storage the set of the others that have a byte in common with it."""
    starts, begun = prefix_sets([storage.start for storage in storages])
    ends, over = prefix_sets([storage.end for storage in storages])
    for i, storage in enumerate(storages):
        started = begun[bisect_left(starts, storage.end)]
        ended = over[bisect_right(ends, storage.start)]
        yield started & ~ended & ~(1 << i)


def prefix_sets(values: Sequence[int]) -> tuple[list[int], list[int]]:
    """The values in ascending order, and the sets of the first 0, 1, 2... indices."""
    order = sorted(range(len(values)), key=values.__getitem__)
    sets = [0]
    for i in order:
        sets.append(sets[-1] | 1 << i)
    return [values[i] for i in order], sets


def bits_of(numbers: int) -> Iterator[int]:
    """The members of a set, ascending."""
    while numbers:
        yield (low := numbers & -numbers).bit_length() - 1
        numbers ^= low


################################################################################
# From a plan to its marked graph                                              #
################################################################################


@dataclass
class PlanGraph:
    """The tasks of a plan that act, and how they use its registers."""

    plan: PlanOp
    tasks: list[TaskOp] = field(default_factory=list)
    variables: dict[RegisterOp, TaskOp] = field(default_factory=dict)
    """The registers of variables."""
    writer: dict[RegisterOp, int] = field(default_factory=dict)
    """The task that writes a register; none for a variable's."""
    readers: dict[RegisterOp, list[int]] = field(default_factory=dict)
    """The tasks that read a register under its own name."""
    holders: dict[RegisterOp, list[int]] = field(default_factory=dict)
    """The tasks that read a register under any name."""

    def __post_init__(self) -> None:
        for task in self.plan.tasks:
            if task.kind == "variable":
                self.variables.update((r, task) for r in registers_among(task.outs))
            else:
                self.tasks.append(task)
        for register in self.plan.registers:
            self.readers[register], self.holders[register] = [], []
        for index, task in enumerate(self.tasks):
            for register in registers_among((*task.outs, *task.signals)):
                self.writer[register] = index
            held: dict[RegisterOp, None] = {}
            for register in registers_among((*task.ins, *task.waits)):
                self.readers[register].append(index)
                held.update(dict.fromkeys(chain_of(register)))
            for register in held:
                self.holders[register].append(index)

    def graph(self) -> MarkedGraph:
        """The marked graph of the tasks."""
        edges: list[Edge] = []
        for register, writer in self.writer.items():
            initial = 0 if register.initial is None else register.initial.value.data
            free = register.slots.value.data - initial
            for holder in self.holders[register]:
                edges.append(Edge(writer, holder, initial))
                edges.append(Edge(holder, writer, free))
        return MarkedGraph(len(self.tasks), edges)

    def storages(self) -> dict[RegisterOp, Storage]:
        """What each register that has a place lies on, for all of its aliases."""
        users: dict[RegisterOp, list[int]] = defaultdict(list)
        for register in self.plan.registers:
            root = chain_of(register)[-1]
            writer = self.writer.get(register)
            users[root] += [] if writer is None else [writer]
            users[root] += self.holders[register]
        bases = self._chunk_bases()
        stored: dict[RegisterOp, Storage] = {}
        for register, among in users.items():
            start = address_of(register, bases)
            if start is None or not (among or register in self.variables):
                continue
            writer, end = self.writer.get(register), start + register.size
            stored[register] = Storage(start, end, writer, list(dict.fromkeys(among)))
        return stored

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


def chain_of(register: RegisterOp) -> list[RegisterOp]:
    """A register, what it is an alias of, and so on."""
    chain = [register]
    while register.target is not None and isinstance(
        owner := register.target.owner, RegisterOp
    ):
        chain.append(register := owner)
    return chain


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
    graph = plan_graph.graph()
    for cycle in graph.cycles:
        yield deadlock(plan_graph, cycle)
    if not graph.cycles:
        yield from shared_bytes(plan_graph, graph)
        yield from bad_aliases(plan_graph, graph)


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


def deadlock(plan_graph: PlanGraph, cycle: Sequence[int]) -> Finding:
    """That the tasks of a cycle never act."""
    tasks = [plan_graph.tasks[index] for index in (*cycle, cycle[0])]
    names = " -> ".join(f"'{task.task_name.data}'" for task in tasks)
    return tasks[0], f"a cycle of tasks has no token, so none ever acts: {names}"


def shared_bytes(plan_graph: PlanGraph, graph: MarkedGraph) -> Iterator[Finding]:
    """Registers that share bytes and may be in use together."""
    stored = plan_graph.storages()
    registers, storages = list(stored), list(stored.values())
    for i, j in clashes(graph, storages):
        a, b = storages[i], storages[j]
        shared = min(a.end, b.end) - max(a.start, b.start)
        names = [f"'{registers[k].register_name.data}'" for k in (i, j)]
        yield (
            registers[j],
            f"registers {' and '.join(names)} share {shared} bytes, "
            "but may be in use at the same time",
        )


def bad_aliases(plan_graph: PlanGraph, graph: MarkedGraph) -> Iterator[Finding]:
    """Aliases whose writer may not write what they lie over."""
    tasks, writer = plan_graph.tasks, plan_graph.writer
    aliases = [register for register in writer if register.target is not None]
    after = graph.after(marks_of(graph, [writer[alias] for alias in aliases]))
    for index, alias in enumerate(aliases):
        task = tasks[writer[alias]]
        over = chain_of(alias)[1:]
        if over[-1] in plan_graph.variables:
            yield task, overwrites(task, alias, over[-1]) + ", a variable"
        if alias.target not in task.ins:
            yield task, overwrites(task, alias, over[0]) + ", which it does not read"
        elif not can_work_in_place(task, alias):
            reason = f", but {task.op.name} cannot work in place"
            yield task, overwrites(task, alias, over[0]) + reason
        for victim in over:
            for reader in plan_graph.readers[victim]:
                if reader != writer[alias] and not after[reader] >> index & 1:
                    reason = f", which '{tasks[reader].task_name.data}' may read later"
                    yield task, overwrites(task, alias, victim) + reason


def overwrites(task: TaskOp, alias: RegisterOp, over: RegisterOp) -> str:
    """The start of a message: what a task writes over what."""
    return (
        f"task '{task.task_name.data}' writes '{name_of(alias.register)}' "
        f"over '{name_of(over.register)}'"
    )


def can_work_in_place(task: TaskOp, alias: RegisterOp) -> bool:
    """Whether a task's op may write an alias over the operands it stands for."""
    if not isinstance(op := task.op, TensorOp):
        return False
    result = task.outs.index(alias.register)
    over = {i for i, value in enumerate(task.ins) if value == alias.target}
    operands = {
        index
        for index, value in enumerate(op.operands)
        if isinstance(value, BlockArgument) and value.index in over
    }
    pairs = op.in_place_pairs()
    return operands <= {pair.operand for pair in pairs if pair.result == result}


@dataclass(frozen=True)
class VerifyPlanPass(ModulePass):
    """
    Check what must hold of a whole plan, from its registers and tasks alone.
    """

    name = "verify-plan"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plans = [plan for plan in op.walk() if isinstance(plan, PlanOp)]
        fail_if_any(found for plan in plans for found in findings_in(plan))
