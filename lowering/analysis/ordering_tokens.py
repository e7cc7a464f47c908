"""
Control edges of `job.after`: to the tasks that read its result.

Each task that reads the result, a copy or a part of an op as well, waits for each task
that makes one of the others, but for variables, which are there all the time. Tasks
that values and other control edges order already take no edge of their own. No task can
wait for tasks of another rank: there a *token* is made after them and copied over, and
tasks wait for the copy. Those that wait for the same tasks share it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType, i8
from xdsl.ir import SSAValue

from penstock.dialects.job import AfterOp, CopyOp, DeviceAttr
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.plan import TaskOp
from penstock.lowering.algorithms.marked_graph import Edge, MarkedGraph
from penstock.lowering.analysis.control_edges import ControlEdge
from penstock.lowering.analysis.task_builder import TaskBuilder, Waits, at


@dataclass
class JobWaits:
    """The tasks that must be over before each value of a job may be read."""

    _known: dict[SSAValue, Waits] = field(default_factory=dict[SSAValue, Waits])

    def of(self, values: Iterable[SSAValue]) -> Waits:
        """The tasks that the readers of values wait for, each once."""
        found = (self._known.get(value, ()) for value in values)
        return tuple(dict.fromkeys(task for waits in found for task in waits))

    def note(self, value: SSAValue, waits: Waits) -> None:
        """Let the readers of a value wait."""
        if waits:
            self._known[value] = waits

    def note_after(
        self, op: AfterOp, parts: dict[SSAValue, Sequence[SSAValue]]
    ) -> None:
        """Let the readers of a `job.after` wait for the tasks that make the others."""
        makers = (part.owner for value in op.others for part in parts[value])
        acting = (x for x in makers if isinstance(x, TaskOp) and x.kind != "variable")
        self.note(op.result, tuple(dict.fromkeys((*self.of(op.operands), *acting))))


def needed_orders(
    size: int, values: Sequence[tuple[int, int]], controls: Iterable[tuple[int, int]]
) -> list[tuple[int, int]]:
    """
    The pairs of tasks that control has to order, each once: those that no path of
    values and others of these pairs orders. There are so many tasks, without a cycle.
    """
    direct = frozenset(values)
    wanted = [pair for pair in dict.fromkeys(controls) if pair not in direct]
    graph = MarkedGraph(size, [Edge(a, b, 0) for a, b in (*values, *wanted)])
    bit = {task: 1 << i for i, task in enumerate(dict.fromkeys(b for _, b in wanted))}
    reached = graph.after([bit.get(task, 0) for task in range(size)])
    beyond: dict[int, int] = {}
    for first, _ in wanted:
        if first not in beyond:
            beyond[first] = 0
            for step in graph.next[first]:
                beyond[first] |= reached[step]
    return [(a, b) for a, b in wanted if not beyond[a] & bit[b]]


def needed_waits(
    tasks: Sequence[TaskOp], waits: Mapping[TaskOp, Waits]
) -> dict[TaskOp, list[TaskOp]]:
    """
    The tasks that tasks have to wait for beyond their values, all in the list's order.
    """
    number = {task: i for i, task in enumerate(tasks)}
    makers = ((value.owner, task) for task in tasks for value in task.ins)
    values = [(number[x], number[y]) for x, y in makers if isinstance(x, TaskOp)]
    controls = sorted(
        (number[other], number[task])
        for task, others in waits.items()
        for other in others
    )
    needed: dict[TaskOp, list[TaskOp]] = defaultdict(list)
    for first, second in needed_orders(len(tasks), values, controls):
        needed[tasks[second]].append(tasks[first])
    return {task: needed[task] for task in tasks if task in needed}


class Tokens:
    """The tokens that tasks of one rank send to others when they are over."""

    def __init__(self, builder: TaskBuilder) -> None:
        self._builder = builder
        self._tokens: dict[Waits, TaskOp] = {}
        self._copies: dict[tuple[Waits, int], TaskOp] = {}
        self._behind: dict[TaskOp, list[TaskOp]] = defaultdict(list)
        """The new tasks, by the task that they are listed behind."""

    def edges(self, firsts: Sequence[TaskOp], second: TaskOp) -> Iterator[ControlEdge]:
        """The control edges that order a task after others, each within one rank."""
        by_rank: dict[int, list[TaskOp]] = defaultdict(list)
        for first in firsts:
            by_rank[first.device.rank.data].append(first)
        rank = second.device.rank.data
        for own, found in by_rank.items():
            if own == rank:
                yield from (ControlEdge(first, second) for first in found)
            else:
                yield from self._sent(tuple(found), second)

    def _sent(self, firsts: Waits, second: TaskOp) -> Iterator[ControlEdge]:
        """The control edges to a task of another rank."""
        if firsts not in self._tokens:
            token = self._tokens[firsts] = self._token(firsts[-1])
            yield from (ControlEdge(first, token) for first in firsts)
        key = firsts, second.device.rank.data
        if key not in self._copies:
            self._copies[key] = self._copy(firsts, second.device.host)
        yield ControlEdge(self._copies[key], second)

    def _token(self, last: TaskOp) -> TaskOp:
        op = ConstantOp(DenseIntOrFPElementsAttr.from_list(TensorType(i8, [1]), [0]))
        op.location = last.location
        base, _, place = last.task_name.data.rpartition("@")
        name = f"{base}.token@{place}" if base else f"{place}.token"
        token = self._builder.add(op, self._builder.name(name), last.device.host)
        self._behind[last].append(token)
        return token

    def _copy(self, firsts: Waits, host: DeviceAttr) -> TaskOp:
        token = self._tokens[firsts]
        op = CopyOp(token.results[0], host)
        op.location = token.location
        name = token.task_name.data
        name = f"{name.rpartition('@')[0] or name}.copy{at(host)}"
        copy = self._builder.add(op, self._builder.name(name), host)
        self._behind[firsts[-1]].append(copy)
        return copy

    def listed(self, tasks: Iterable[TaskOp]) -> Iterator[TaskOp]:
        """Tasks in order, each with those behind it that are new."""
        for task in tasks:
            yield task
            yield from self._behind.get(task, ())


def control_of(builder: TaskBuilder) -> list[ControlEdge]:
    """The control edges between the tasks of a builder, which gets tokens for them."""
    if not builder.waits:
        return []
    tasks, tokens = list(builder.tasks), Tokens(builder)
    needed = needed_waits(tasks, builder.waits)
    edges = [
        edge
        for second, firsts in needed.items()
        for edge in tokens.edges(firsts, second)
    ]
    builder.tasks = list(tokens.listed(tasks))
    return edges
