"""
Rules of `verify-plan` about the order of streams, and about events between them: each
order of one act that holds between two streams follows from the order of streams and
from `waits_for` of tasks, if the plan has either `events` or such tasks. In any plan
the order of streams leaves room for that of registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeGuard, cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute

from penstock.dialects.job import DeviceAttr
from penstock.dialects.plan import StreamAttr, TaskOp
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.algorithms.marked_graph import Edge, MarkedGraph
from penstock.lowering.analysis.acting_order import streams_of
from penstock.lowering.verify.plan_rules.graph import PlanGraph

WAITS_FOR = "waits_for"
"""The attribute of a task that names the tasks whose events it waits for."""

EVENTS = "events"
"""The attribute of a plan whose tasks wait for events, if for any."""


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


def bad_events(plan_graph: PlanGraph) -> Iterator[Finding]:
    """
    Events that do not exist, that are waited for in a circle, or that are missing. The
    plan's graph has no cycle without a token.
    """
    tasks = plan_graph.tasks
    has_events = any(WAITS_FOR in task.attributes for task in tasks)
    if not has_events and EVENTS not in plan_graph.plan.attributes:
        yield from bad_orders(plan_graph)
        return
    named = {task.task_name.data: index for index, task in enumerate(tasks)}
    yield from unknown_events(tasks, named)
    waits = [[named[x] for x in events_of(task) if x in named] for task in tasks]
    streams = list(streams_of(tasks).values())
    edges = [Edge(a, b, 0) for members in streams for a, b in pairwise(members)]
    edges += [Edge(a, b, 0) for b, others in enumerate(waits) for a in others]
    graph = MarkedGraph(len(tasks), edges)
    for cycle in graph.cycles:
        yield circle(tasks, cycle, "events")
    if not graph.cycles:
        yield from missing_events(plan_graph, streams, graph)


def bad_orders(plan_graph: PlanGraph) -> Iterator[Finding]:
    """Cycles of registers and of streams all of whose tasks have an `order`."""
    tasks = plan_graph.tasks
    ordered = (
        members
        for members in streams_of(tasks).values()
        if all(tasks[index].order is not None for index in members)
    )
    edges = [Edge(a, b, 0) for members in ordered for a, b in pairwise(members)]
    edges += [
        Edge(a, b, 0)
        for b, sources in enumerate(plan_graph.graph.previous)
        for a in sources
    ]
    for cycle in MarkedGraph(len(tasks), edges).cycles:
        yield circle(tasks, cycle, "registers")


def events_of(task: TaskOp) -> list[str]:
    """The tasks whose events a task says that it waits for."""
    names = task.attributes.get(WAITS_FOR)
    return [x.data for x in names] if are_names(names) else []


def are_names(names: Attribute | None) -> TypeGuard[ArrayAttr[StringAttr]]:
    """Whether an attribute is a list of texts."""
    # Not `isa`, which makes a constraint each time.
    if not isinstance(names, ArrayAttr):
        return False
    listed = cast("ArrayAttr[Attribute]", names)
    return all(isinstance(x, StringAttr) for x in listed)


def unknown_events(
    tasks: Sequence[TaskOp], named: Mapping[str, int]
) -> Iterator[Finding]:
    """
    The findings about events that tasks wait for: no list of names, or names of tasks
    that never act.
    """
    for task in tasks:
        names = task.attributes.get(WAITS_FOR)
        if names is None:
            continue
        if not are_names(names):
            yield task, f"waits_for should be a list of names of tasks, got {names}"
        for name in events_of(task):
            if name not in named:
                yield (
                    task,
                    f"task '{task.task_name.data}' waits for an event of '{name}', "
                    "which is no task that acts",
                )


def circle(tasks: Sequence[TaskOp], cycle: Sequence[int], what: str) -> Finding:
    """That tasks wait for each other because of streams and something else."""
    members = [tasks[index] for index in (*cycle, cycle[0])]
    names = " -> ".join(task.task_name.data for task in members)
    return members[0], f"cycle {names} of {what} and the order of streams"


def missing_events(
    plan_graph: PlanGraph, streams: Sequence[Sequence[int]], events: MarkedGraph
) -> Iterator[Finding]:
    """
    The tasks that registers order after others of the same act, but neither events nor
    streams do. `events` are the orders of both.
    """
    tasks, sources = plan_graph.tasks, plan_graph.graph.previous
    stream = [0] * len(tasks)
    place = [0] * len(tasks)
    for number, members in enumerate(streams):
        for at, index in enumerate(members):
            stream[index], place[index] = number, at
    over: dict[int, list[int]] = {}
    for index in events.order:
        reached = [-1] * len(streams)
        for other in events.previous[index]:
            reached = list(map(max, reached, over[other]))
        for source in sources[index]:
            if reached[stream[source]] < place[source]:
                yield not_covered(tasks[source], tasks[index])
        reached[stream[index]] = place[index]
        over[index] = reached


def not_covered(first: TaskOp, second: TaskOp) -> Finding:
    """That nothing orders a task after another one."""
    one, other = first.task_name.data, second.task_name.data
    if (first.device, first.stream) == (second.device, second.stream):
        how = "its stream runs it first"
    else:
        how = "no event says so"
    return second, f"task '{other}' must wait for '{one}', but {how}"
