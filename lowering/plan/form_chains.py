"""
Group the tasks of each plan in chains: what one stream can run in one go.

Tasks that compute are in one chain if they are on one stream, are connected by values
that one of them makes and another one reads, or by control registers that order the one
after the other (by way of others in the chain, in either direction), and have one
*level*. Each other task that acts is a chain by itself:
inputs, outputs, copies, and tasks whose results have more than one slot. A variable
never acts, and has no chain.

The level of a task is the largest number of times that a path to it, from a task that
computes, goes from one stream to another, or to or from a task that is a chain by
itself. So a chain never waits for something that waits for a part of it: there is an
order of whole chains that all values and control registers follow, each before the
chains that come after it, by level.

Chains are numbered from 0 as their first tasks are listed, a task after those that
control registers order it after. `order`, the place of a task
in its stream, says in which order the tasks of a chain run; tasks of other chains of
the stream may stand between them.

Plans with registers that hold bytes are left alone, as are those with a task that has a
chain.

Example: `test/lowering/plan/plan-form-chains-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from penstock.dialects.job import DeviceAttr
from penstock.dialects.plan import PlanOp, StreamAttr, TaskOp
from penstock.dialects.utils.diagnostics import fail_if_any
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.graphs import components
from penstock.lowering.analysis.register_types import requested_slots
from penstock.lowering.analysis.task_order import TaskOrder

Stream: TypeAlias = tuple[DeviceAttr, StreamAttr]


class Node(NamedTuple):
    """A task that acts: its stream if it can be chained, and those it comes after."""

    stream: object | None
    sources: Sequence[int]


def levels_of(nodes: Sequence[Node]) -> list[int]:
    """
    For each task the most hand-overs on a path from a task that can be chained to it;
    -1 where there is no such path.
    """
    levels: list[int] = []
    for stream, sources in nodes:
        level = -1 if stream is None else 0
        for source in sources:
            stays = stream is not None and stream == nodes[source].stream
            if levels[source] >= 0:
                level = max(level, levels[source] + (not stays))
        levels.append(level)
    return levels


def chains_of(nodes: Sequence[Node]) -> list[int]:
    """The number of the chain of each task; each is listed after those before it."""
    levels = levels_of(nodes)
    partners = [0] * len(nodes)
    for task, (stream, sources) in enumerate(nodes):
        for source in sources if stream is not None else ():
            if stream == nodes[source].stream and levels[task] == levels[source]:
                partners[task] |= 1 << source
                partners[source] |= 1 << task
    chains = [0] * len(nodes)
    for chain, members in enumerate(components(partners)):
        for task in members:
            chains[task] = chain
    return chains


def can_be_chained(task: TaskOp) -> bool:
    """Whether a task computes, and its results have one slot."""
    return task.kind == "compute" and requested_slots(task) in (None, 1)


def nodes_of(order: TaskOrder) -> list[Node]:
    """The nodes of the tasks that act, with their streams and sources."""
    numbers: dict[Stream, int] = {}
    nodes: list[Node] = []
    for task, sources in zip(order.tasks, order.before, strict=True):
        number = numbers.setdefault((task.device, task.stream), len(numbers))
        nodes.append(Node(number if can_be_chained(task) else None, sources))
    return nodes


def form_chains(order: TaskOrder) -> None:
    """Say for each task that acts which chain it is in."""
    chains = chains_of(nodes_of(order))
    for task, chain in zip(order.tasks, chains, strict=True):
        task.chain = IntegerAttr(chain, i64)


def is_open(plan: PlanOp) -> bool:
    """Whether the chains of a plan are still to be formed."""
    return plan.is_on_values and all(task.chain is None for task in plan.tasks)


@dataclass(frozen=True)
class PlanFormChainsPass(ModulePass):
    """
    Group the tasks of each plan in chains: what one stream can run in one go.
    """

    name = "plan-form-chains"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plans = [x for x in outermost(op, PlanOp) if is_open(x)]
        orders = [TaskOrder(plan) for plan in plans]
        fail_if_any(found for order in orders for found in order.findings())
        for order in orders:
            form_chains(order)
