"""
Give each task its stream and its place in that stream.

A device has `streams` compute streams. Tasks that compute go to one of these; all other
tasks stay on the stream they have, with index 0.

* `naive`: a task goes to the stream of the first task whose result it reads (variables
  aside), if that one is on its device and is the last of its stream so far; else to the
  stream with the fewest tasks, the lowest among equals.
* `critical-path` lets the plan end early by the time that its tasks take (see below).
  It compares four schedules: that of `naive`; the tasks as they are listed, each on the
  stream where it begins first; list scheduling, where a stream that is free takes the
  task that, of those that could begin, most time depends on; and the tasks in the order
  of the time that depends on them, each where it begins first. The schedule that ends
  first is taken, of equal ones the first of these four; if it runs tasks in another
  order, they are listed so, behind the variables. The attribute `makespan_ns` of the
  plan says when it ends (`scheduled`), when that of `naive` would (`naive`), and a time
  that no schedule can be below (`lower_limit`). Plans that have it are left alone.

A policy of a plug-in (`docs/plugins/stream-policy.md`) starts from `naive`, too, and is
reported likewise.

A task that a control register orders after one that is listed later is listed after it
first. A reader of a value that a task listed later must write over (`in_place`) stays
before that task. `order` then numbers the tasks of each stream as they are listed;
variables, which never act, have none. Chains, which depend on streams, go. Plans with
registers that hold bytes are left alone: their memory may depend on the order.

A task with the attribute `time_ns` (an i64), which may have been measured, takes that
many nanoseconds. For others the time is modelled from the rates that `machine` has for
the kind of their device: that of all scalar operations at `gflops` or of all bytes at
`gbytes`, whichever is longer (for copies between devices, of the bytes at
`link_gbytes`), and `task_ns` in addition. Between tasks on different streams
`switch_ns` go by.

Example: `test/lowering/plan/plan-assign-streams-example.mlir`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DictionaryAttr,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.job import DeviceAttr
from penstock.dialects.plan import PlanOp, StreamAttr, TaskOp
from penstock.dialects.utils.diagnostics import fail_if_any
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.list_scheduling import lower_limit
from penstock.lowering.algorithms.stream_policies import (
    NAIVE,
    Policy,
    StreamRequest,
    naive,
    stream_policy,
)
from penstock.lowering.analysis.in_place_pairs import Pairs, earlier_readers
from penstock.lowering.analysis.task_order import TaskOrder, list_tasks
from penstock.lowering.analysis.task_times import (
    Machine,
    findings_about_times,
    jobs_of,
)

REPORT = "makespan_ns"
"""The attribute of a plan that says when its last task ends."""


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
        task.chain = None
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
    """Give each task of a plan its stream and its order, by the rule of `naive`."""
    plan.attributes.pop(REPORT, None)
    assignment = StreamAssignment(streams)
    for task in plan.tasks:
        assignment.assign(task)


class PlanScheduler:
    """Schedules the tasks of a plan that act, from where `naive` has put them."""

    def __init__(self, order: TaskOrder, streams: int, machine: Machine) -> None:
        self._plan = order.plan
        self._lanes: dict[tuple[DeviceAttr, StreamAttr], int] = {}
        self._tasks = order.tasks
        compute = StringAttr("compute")
        attrs = [StreamAttr(compute, IntAttr(index)) for index in range(streams)]
        self._naive = [self._lane(task.device, task.stream) for task in self._tasks]
        lanes: list[list[int]] = []
        for task, own in zip(self._tasks, self._naive, strict=True):
            able = [own]
            if task.kind == "compute" and task.stream.kind == compute:
                able = sorted(self._lane(task.device, attr) for attr in attrs)
            lanes.append(able)
        before = [list(earlier) for earlier in order.before]
        pairs = {task: Pairs.of(task) for task in self._tasks}
        for reader, writer in earlier_readers(self._tasks, pairs):
            before[writer].append(reader)
        self._jobs = jobs_of(self._tasks, before, lanes, machine)

    def _lane(self, device: DeviceAttr, stream: StreamAttr) -> int:
        return self._lanes.setdefault((device, stream), len(self._lanes))

    def run(self, policy: Policy) -> None:
        """Give each task its stream and its order, and say when the plan ends."""
        jobs = self._jobs
        names = [task.task_name.data for task in self._tasks]
        lanes = [f"{device} {stream}" for device, stream in self._lanes]
        request = StreamRequest(jobs, names, self._naive, lanes)
        best = policy(request)
        self._write(best.order, best.lane)
        report = {
            "lower_limit": lower_limit(jobs),
            "naive": naive(request).makespan,
            "scheduled": best.makespan,
        }
        self._plan.attributes[REPORT] = DictionaryAttr(
            {key: IntegerAttr(value, i64) for key, value in report.items()}
        )

    def _write(self, order: list[int], lane: dict[int, int]) -> None:
        streams = list(self._lanes)
        count = [0] * len(streams)
        for index in order:
            task = self._tasks[index]
            _, task.stream = streams[lane[index]]
            task.order = IntegerAttr(count[lane[index]], i64)
            count[lane[index]] += 1
        if order != list(range(len(order))):
            list_tasks(self._plan, [self._tasks[index] for index in order])


@dataclass(frozen=True)
class PlanAssignStreamsPass(ModulePass):
    """
    Give each task its stream and its place in that stream.
    """

    name = "plan-assign-streams"

    streams: int = 1
    """The compute streams of each device."""

    policy: str = "naive"
    """`naive`, `critical-path`, or a plug-in's."""

    machine: tuple[str, ...] = ()
    """Rates of kinds of devices, such as `"cuda gflops=60000 gbytes=3300"`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.streams < 1:
            raise PassFailedException(f"streams must be at least 1, got {self.streams}")
        policy = stream_policy(self.policy)
        machine = Machine.parse(self.machine)
        plans = [x for x in outermost(op, PlanOp) if x.is_on_values]
        is_naive = self.policy == NAIVE
        if not is_naive:
            plans = [plan for plan in plans if REPORT not in plan.attributes]
            fail_if_any(
                found for x in plans for found in findings_about_times(x, machine)
            )
        orders = [TaskOrder(plan) for plan in plans]
        fail_if_any(found for order in orders for found in order.findings())
        for order in orders:
            order.write()
            # Streams without a task change nothing, but each takes memory.
            streams = min(self.streams, max(1, len(order.tasks)))
            assign_streams(order.plan, streams)
            if not is_naive:
                PlanScheduler(order, streams, machine).run(policy)
