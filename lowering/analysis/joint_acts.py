"""
All acts of the plans of several ranks, which wait for each other's messages.

The two ends of a message act together, and so do all parts of a collective, so they
count as one task. Whether tasks of one
rank can act in an order depends on the others: one that sends something, and receives
what follows from it, may have to act again before that comes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from penstock.dialects.job import CollectiveOp, ReceiveOp, SendOp
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.lowering.algorithms.graphs import GrowingOrder
from penstock.lowering.algorithms.unrolled_order import (
    MAX_ACTS,
    Acts,
    Control,
    within_launch,
)
from penstock.lowering.analysis.register_usage import Usage


class Message(NamedTuple):
    """A message between the plans that one plan was split into."""

    stem: str
    """The name of these plans without the rank at its end."""
    source: int
    target: int
    tag: int


EVERY = (-1, -1)
"""In place of the ranks of a message: those of a collective are several."""


def message_of(task: TaskOp, plan: PlanOp) -> Message | None:
    """The message or collective that a task has a part in, if it does."""
    op, rank = task.op, task.device.rank.data
    stem = plan.sym_name.data.removesuffix(f"_{rank}")
    match op:
        case SendOp():
            return Message(stem, rank, op.device.rank.data, op.tag.value.data)
        case ReceiveOp():
            return Message(stem, op.device.rank.data, rank, op.tag.value.data)
        case CollectiveOp():
            return Message(stem, *EVERY, op.tag.value.data)
        case _:
            return None


class ActOrder:
    """
    The order of all acts of a plan in a launch, among those of other plans or alone,
    which control registers are added to as long as no acts wait for each other.
    """

    def __init__(
        self, acts: Acts, order: GrowingOrder, nodes: Sequence[int] | None = None
    ) -> None:
        self._acts, self._order, self._nodes = acts, order, nodes

    @classmethod
    def alone(cls, usage: Usage) -> ActOrder | None:
        """That of a plan by itself; None if its acts are not looked at one by one."""
        acts = usage.acts
        return None if acts is None else cls(acts, acts.order(usage.queues))

    @property
    def is_acyclic(self) -> bool:
        """Whether no acts wait for each other."""
        return self._order.is_acyclic

    def add(self, controls: Iterable[Control]) -> bool:
        """Add control registers, unless acts wait for each other then; whether so."""
        queues = map(self._acts.queue_of, self._renumbered(controls))
        edges = (edge for queue in queues for edge in self._acts.edges_of(queue))
        return self._order.add(within_launch(edges))

    @contextmanager
    def trial(self) -> Generator[None]:
        """A context after which what was added in it is gone."""
        start = self._order.added
        yield
        self._order.take_back(start)

    def _renumbered(self, controls: Iterable[Control]) -> Iterator[Control]:
        """Control registers between tasks of all plans."""
        for control in controls:
            if self._nodes is not None:
                source, target = (self._nodes[i] for i in control[:2])
                control = control._replace(source=source, target=target)
            yield control


def order_of_ranks(usages: Sequence[Usage]) -> dict[PlanOp, ActOrder]:
    """
    The order of acts of plans, of which some exchange messages; none if these are too
    many.
    """
    repetitions: list[int] = []
    ends: dict[Message, int] = {}
    numbers: list[list[int]] = []
    for usage in usages:
        nodes: list[int] = []
        for task in usage.tasks:
            message = message_of(task, usage.plan)
            node = len(repetitions)
            if message is not None:
                node = ends.setdefault(message, node)
            if node == len(repetitions):
                repetitions.append(usage.rates.repetitions[task])
            nodes.append(node)
        numbers.append(nodes)
    if sum(repetitions) > MAX_ACTS:
        return {}
    acts = Acts(repetitions)
    queues = (
        queue._replace(writer=nodes[queue.writer], reader=nodes[queue.reader])
        for usage, nodes in zip(usages, numbers, strict=True)
        for queue in usage.queues
    )
    order = acts.order(queues)
    return {
        usage.plan: ActOrder(acts, order, nodes)
        for usage, nodes in zip(usages, numbers, strict=True)
    }


def orders_of_acts(usages: Sequence[Usage]) -> dict[PlanOp, ActOrder]:
    """
    The order of acts of each plan in which tasks act at different rates, among those of
    the plans that it exchanges messages with; of none that has too many.
    """
    groups: dict[str, list[Usage]] = {}
    for usage in usages:
        found = (message_of(task, usage.plan) for task in usage.tasks)
        message = next((x for x in found if x is not None), None)
        if message is not None:
            groups.setdefault(message.stem, []).append(usage)
    orders: dict[PlanOp, ActOrder] = {}
    for group in groups.values():
        if any(usage.rates.is_rated for usage in group):
            orders.update(order_of_ranks(group))
    joint = {usage.plan for group in groups.values() for usage in group}
    for usage in usages:
        if usage.plan not in joint and (alone := ActOrder.alone(usage)) is not None:
            orders[usage.plan] = alone
    return orders
