"""
All acts of the plans of several ranks, which wait for each other's messages.

The two ends of a message act together, so they count as one task. Whether tasks of one
rank can act in an order depends on the others: one that sends something, and receives
what follows from it, may have to act again before that comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from penstock.dialects.job import ReceiveOp, SendOp
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.lowering.algorithms.unrolled_order import (
    MAX_ACTS,
    Acts,
    Control,
    Queue,
)
from penstock.lowering.analysis.register_usage import Usage


class Message(NamedTuple):
    """A message between the plans that one plan was split into."""

    stem: str
    """The name of these plans without the rank at its end."""
    source: int
    target: int
    tag: int


def message_of(task: TaskOp, plan: PlanOp) -> Message | None:
    """The message that a task sends or receives, if it does."""
    op, rank = task.op, task.device.rank.data
    stem = plan.sym_name.data.removesuffix(f"_{rank}")
    match op:
        case SendOp():
            return Message(stem, rank, op.device.rank.data, op.tag.value.data)
        case ReceiveOp():
            return Message(stem, op.device.rank.data, rank, op.tag.value.data)
        case _:
            return None


class JointActs:
    """All acts in a launch of the tasks of plans, of which some exchange messages."""

    def __init__(self, usages: Sequence[Usage]) -> None:
        self._nodes: dict[TaskOp, int] = {}
        repetitions: list[int] = []
        ends: dict[Message, int] = {}
        for usage in usages:
            for task in usage.tasks:
                message = message_of(task, usage.plan)
                node = len(repetitions)
                if message is not None:
                    node = ends.setdefault(message, node)
                if node == len(repetitions):
                    repetitions.append(usage.rates.repetitions[task])
                self._nodes[task] = node
        self._acts = Acts(repetitions) if sum(repetitions) <= MAX_ACTS else None
        self._queues = [x for usage in usages for x in self._of(usage, usage.queues)]

    def of(self, usage: Usage) -> Callable[[Sequence[Control]], bool]:
        """Whether no acts wait for each other with more control registers in a plan."""

        def can_act(controls: Sequence[Control]) -> bool:
            if (acts := self._acts) is None:
                return False
            more = self._of(usage, map(acts.queue_of, controls))
            return acts.can_end(chain(self._queues, more))

        return can_act

    def add(self, usage: Usage, controls: Sequence[Control]) -> None:
        """Take in the control registers that a plan is given."""
        if (acts := self._acts) is not None:
            self._queues += self._of(usage, map(acts.queue_of, controls))

    def _of(self, usage: Usage, queues: Iterable[Queue]) -> list[Queue]:
        """The queues of a plan between tasks of all plans."""
        return [
            queue._replace(
                writer=self._nodes[usage.tasks[queue.writer]],
                reader=self._nodes[usage.tasks[queue.reader]],
            )
            for queue in queues
        ]


def joint_acts(usages: Sequence[Usage]) -> dict[PlanOp, JointActs]:
    """
    The acts of each plan that exchanges messages with others, where tasks act at
    different rates.
    """
    groups: dict[str, list[Usage]] = {}
    for usage in usages:
        found = (message_of(task, usage.plan) for task in usage.tasks)
        message = next((x for x in found if x is not None), None)
        if message is not None:
            groups.setdefault(message.stem, []).append(usage)
    joint = {
        stem: JointActs(group)
        for stem, group in groups.items()
        if any(usage.rates.is_rated for usage in group)
    }
    return {
        usage.plan: joint[stem]
        for stem, group in groups.items()
        for usage in group
        if stem in joint
    }
