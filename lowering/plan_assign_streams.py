"""
Give each task its stream and its place in that stream.

A device has `streams` compute streams. A task that computes goes to the stream of the
first task it reads from (variables aside), if that one is on its device and is the last
of its stream so far; else to the stream with the fewest tasks, the lowest among equals.
All other tasks stay on the stream they have, with index 0. `order` then numbers the
tasks of each stream as they are listed; variables, which never act, have none. Plans
that have registers are left alone: their memory may depend on the order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import IntAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.job import DeviceAttr
from penstock.dialects.plan import PlanOp, StreamAttr, TaskOp


@dataclass
class ComputeStreams:
    """The tasks so far on the compute streams of one device."""

    counts: list[int]
    last: list[TaskOp | None] = field(init=False)

    def __post_init__(self) -> None:
        self.last = [None] * len(self.counts)

    def choose(self, source: TaskOp | None) -> int:
        """The stream for a task that computes, and first reads from `source`."""
        if source is not None and source in self.last:
            return self.last.index(source)
        return self.counts.index(min(self.counts))

    def add(self, index: int, task: TaskOp) -> None:
        """Put a task at the end of a stream."""
        self.counts[index] += 1
        self.last[index] = task


class StreamAssignment:
    """Gives streams and orders to the tasks of one plan, in the order of the list."""

    def __init__(self, streams: int) -> None:
        compute = StringAttr("compute")
        self._attrs = [StreamAttr(compute, IntAttr(index)) for index in range(streams)]
        self._compute: dict[DeviceAttr, ComputeStreams] = {}
        self._orders: dict[tuple[DeviceAttr, StreamAttr], int] = {}
        self._variables: set[TaskOp] = set()

    def assign(self, task: TaskOp) -> None:
        """Give one task its stream and its order."""
        kind = task.kind
        index = None
        if task.stream.kind.data == "compute":
            streams = self._compute.setdefault(
                task.device, ComputeStreams([0] * len(self._attrs))
            )
            index = streams.choose(self._source_of(task)) if kind == "compute" else 0
            task.stream = self._attrs[index]
            if kind != "variable":
                streams.add(index, task)
        if kind == "variable":
            self._variables.add(task)
            task.order = None
        else:
            self._number(task)

    def _source_of(self, task: TaskOp) -> TaskOp | None:
        sources = (task_of(value) for value in task.ins)
        return next((s for s in sources if s and s not in self._variables), None)

    def _number(self, task: TaskOp) -> None:
        key = (task.device, task.stream)
        order = self._orders.get(key, 0)
        self._orders[key] = order + 1
        task.order = IntegerAttr(order, i64)


def task_of(value: SSAValue) -> TaskOp | None:
    """The task that makes a value."""
    return owner if isinstance(owner := value.owner, TaskOp) else None


def assign_streams(plan: PlanOp, streams: int) -> None:
    """Give each task of a plan without registers its stream and its order."""
    if plan.registers:
        return
    assignment = StreamAssignment(streams)
    for task in plan.tasks:
        assignment.assign(task)


@dataclass(frozen=True)
class PlanAssignStreamsPass(ModulePass):
    """
    Give each task its stream and its place in that stream.
    """

    name = "plan-assign-streams"

    streams: int = 1
    """The compute streams of each device."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.streams < 1:
            raise PassFailedException(f"streams must be at least 1, got {self.streams}")
        for plan in op.walk():
            if isinstance(plan, PlanOp):
                assign_streams(plan, self.streams)
