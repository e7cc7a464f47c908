"""
Choose the number of slots of each register, so that acts overlap.

Acts begin every so many nanoseconds: `interval-ns`, or else as often as the busiest
stream allows, which is the sum of the times of its tasks. One act is laid out in time:
each task begins once the task before it in its stream and all tasks that it waits for
have ended. From the start of the task that writes a register to the end of the last one
that uses it some intervals go by: rounded up, that many acts are on their way at once,
and that many slots the register gets. Times are those of `plan-assign-streams`:
`time_ns` of a task, or modelled for `machine`, but at least 1 ns.

All aliases of a register have the slots that it has, and so has its header; it keeps
the slots it had if their slots would start at other places. Variables, interfaces and
control registers keep theirs. The registers of a task with the attribute `slots` get as
many as it says.

With `memory-limit`, or `device-memory-limit` for the memory of devices, in bytes or
with a unit as in `4G` (see `verify-memory`), the interval is made longer until all
fits: the shortest is taken at which, in each memory, no more bytes are alive at once
than the limit says. A register with several slots is alive all the time, as variables
are; one with a single slot, while it is used. Bytes that a layout leaves unused are not
counted. If it does not even fit with one slot each, that is an error, with the
registers that take most at the fullest moment.

This is the policy `interval`; plug-ins have others (`docs/plugins/slot-choice.md`).

The attribute `interval_ns` of the plan has the interval of the `busiest` stream, and
the one that is `chosen`. Plans that have blocks are left alone. A plan with rates keeps
its slots, and says so in `no_interval`: its tasks have no act in common that could
begin once an interval.

Example: `test/lowering/regst/regst-choose-slots-example.mlir`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.plan import PlanOp
from penstock.dialects.regst import (
    DataType,
    MemoryCaseAttr,
    RegisterOp,
    alias_root,
)
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.event_reduction import zero_edges
from penstock.lowering.algorithms.list_scheduling import Job, Schedule, scheduled_on
from penstock.lowering.algorithms.marked_graph import MarkedGraph
from penstock.lowering.algorithms.slot_counts import (
    Peak,
    Queue,
    longest,
    overflows,
)
from penstock.lowering.algorithms.slot_policies import (
    INTERVAL,
    Policy,
    SlotRequest,
    interval_of,
    slot_policy,
)
from penstock.lowering.algorithms.unique_names import parse_size
from penstock.lowering.analysis.acting_order import streams_of
from penstock.lowering.analysis.plan_waits import (
    PlanWaits,
    findings_about_waits,
    orders_of,
)
from penstock.lowering.analysis.register_types import (
    findings_about_registers,
    requested_slots,
)
from penstock.lowering.analysis.repetitions import rates_of
from penstock.lowering.analysis.task_times import (
    MAX_NS,
    Machine,
    findings_about_times,
    time_of,
)

REPORT = "interval_ns"
"""The attribute of a plan that says how often its acts begin."""

NO_INTERVAL = "no_interval"
"""The attribute of a plan that says why no slots were chosen."""

AT_RATES = "rates: tasks have no act in common that could begin once an interval"

OWNERS = 5
"""The registers that are named where memory is short."""


class Limits(NamedTuple):
    """The limits in bytes of each memory of the host, and of each of a device."""

    host: int | None
    device: int | None

    def of(self, case: MemoryCaseAttr) -> int | None:
        """The bytes of a memory, if it has a limit."""
        if case.kind.data == "device" and self.device is not None:
            return self.device
        return self.host


@dataclass
class TimeLine:
    """When the tasks of a plan that act begin and end in one act."""

    schedule: Schedule
    position: list[int]
    """The number of each task in the schedule."""
    busiest: int
    """The longest time that the tasks of a stream take together."""

    @classmethod
    def of(cls, found: PlanWaits, machine: Machine) -> TimeLine:
        """One act of a plan, where each task begins as early as it can."""
        streams = list(streams_of(found.tasks).values())
        orders = orders_of(found.waits)
        count = len(found.tasks)
        order = MarkedGraph(count, list(zero_edges(streams, orders))).order
        position = [0] * count
        for place, task in enumerate(order):
            position[task] = place
        lane = {task: i for i, tasks in enumerate(streams) for task in tasks}
        after: list[list[int]] = [[] for _ in range(count)]
        for first, second in orders:
            after[position[second]].append(position[first])
        jobs: list[Job] = []
        for place, index in enumerate(order):
            task = found.tasks[index]
            switch = int(machine.of(task.device.kind.data).switch_ns)
            time = max(1, time_of(task, machine))
            jobs.append(Job(time, after[place], [lane[index]], switch))
        schedule = scheduled_on(jobs, [lane[index] for index in order])
        totals: dict[int, int] = defaultdict(int)
        for job in jobs:
            totals[job.lanes[0]] += job.time
        return cls(schedule, position, max(totals.values(), default=1))

    def span(self, tasks: Sequence[int]) -> tuple[int, int]:
        """From the start of the first of these tasks to the end of the last one."""
        places = [self.position[task] for task in tasks]
        start, end = self.schedule.start, self.schedule.end
        return min(start[x] for x in places), max(end[x] for x in places)


@dataclass
class PlanQueues:
    """The data registers of a plan, each with all of its aliases."""

    plan: PlanOp
    found: PlanWaits
    machine: Machine
    groups: list[list[RegisterOp]] = field(init=False)
    queues: list[Queue] = field(init=False)
    cases: list[MemoryCaseAttr] = field(init=False)
    busiest: int = field(init=False)

    def __post_init__(self) -> None:
        groups: dict[SSAValue, list[RegisterOp]] = defaultdict(list)
        for register in self.plan.registers:
            if isinstance(register.register.type, DataType):
                groups[alias_root(register.register)].append(register)
        self.groups = list(groups.values())
        self.cases = list(dict.fromkeys(x[0].memory_case for x in self.groups))
        found = self.found
        line = TimeLine.of(found, self.machine)
        self.busiest = line.busiest
        users: dict[SSAValue, list[int]] = defaultdict(list)
        for index, task in enumerate(found.tasks):
            for value in (*task.ins, *task.outs):
                users[alias_root(value)].append(index)
        written = {value for task in found.tasks for value in task.outs}
        self._wished = self._wishes()
        self.queues = []
        for root, group in groups.items():
            if root in written:
                self.queues.append(self._queue(group, line.span(users[root])))
                continue
            # A variable, or what no task has to do with, is there all the time.
            lasting = self._queue(group, (0, 1))
            slots = group[0].slots.value.data
            self.queues.append(lasting._replace(fixed=slots, lasting=True))
        self._time_headers()

    def _time_headers(self) -> None:
        """A header has the slots of its register, and is in use all the time."""
        place = {
            x.register_name.data: i for i, xs in enumerate(self.groups) for x in xs
        }
        for index, group in enumerate(self.groups):
            if (owner := group[0].header) is not None:
                own, timed = self.queues[index], self.queues[place[owner.data]]
                self.queues[index] = timed._replace(
                    size=own.size, memory=own.memory, lasting=True
                )

    def _wishes(self) -> dict[SSAValue, int]:
        """The slots that tasks ask for, by register."""
        return {
            value: slots
            for task in self.plan.tasks
            if (slots := requested_slots(task)) is not None
            for value in task.outs
        }

    def _queue(self, group: Sequence[RegisterOp], span: tuple[int, int]) -> Queue:
        root = next(register for register in group if register.target is None)
        memory = self.cases.index(root.memory_case)
        slots = [self._wished[x.register] for x in group if x.register in self._wished]
        has_fixed = root.interface is not None
        if has_fixed or len({register.stride for register in group}) > 1:
            slots = [root.slots.value.data]
        fixed = max(slots, default=None)
        return Queue(*span, root.stride, memory, fixed)

    def limits(self, limits: Limits) -> dict[int, int]:
        """The limits of the memories that have one, by their numbers."""
        found = {i: limits.of(case) for i, case in enumerate(self.cases)}
        return {i: limit for i, limit in found.items() if limit is not None}

    def short_text(self, memory: int, peak: Peak, limit: int, interval: int) -> str:
        """The message about a memory that is too small even for one slot each."""
        owners = peak.owners[:OWNERS]
        sizes = [self.queues[i].size * self.queues[i].slots(interval) for i in owners]
        names = [self.groups[i][0].register_name.data for i in owners]
        listed = ", ".join(
            f"'{name}' {size}" for name, size in zip(names, sizes, strict=True)
        )
        case = str(self.cases[memory]).removeprefix("#regst.memory_case")
        return (
            f"memory {case} takes {peak.bytes} bytes with as few slots "
            f"as can be, but the limit is {limit}; most of it is for {listed}"
        )

    def request(self, limits: Mapping[int, int], interval: int) -> SlotRequest:
        """The registers as policies are told of them."""
        names = [group[0].register_name.data for group in self.groups]
        place = {
            x.register_name.data: i for i, xs in enumerate(self.groups) for x in xs
        }
        headers = {
            index: place[owner.data]
            for index, group in enumerate(self.groups)
            if (owner := group[0].header) is not None
        }
        return SlotRequest(self.queues, names, limits, interval, headers)

    def write(self, slots: Sequence[int], least: int) -> None:
        """Give all registers their slots."""
        for group, count in zip(self.groups, slots, strict=True):
            for register in group:
                register.slots = IntegerAttr(count, i64)
        chosen = interval_of(self.queues, slots, least)
        report = {"busiest": self.busiest, "chosen": chosen}
        self.plan.attributes[REPORT] = DictionaryAttr(
            {key: IntegerAttr(value, i64) for key, value in report.items()}
        )


def findings_about(
    plan: PlanOp, found: PlanWaits, machine: Machine
) -> Iterator[Finding]:
    """All that keeps one act of a plan from being laid out in time."""
    if any(task.results_ for task in plan.tasks):
        yield plan, "tasks hand on values, run plan-create-registers first"
        return
    yield from findings_about_registers(plan)
    yield from findings_about_times(plan, machine)
    yield from findings_about_waits(plan, found)


def choose_slots(
    given: PlanQueues, limits: Mapping[int, int], interval: int | None, policy: Policy
) -> Iterator[Finding]:
    """Choose the slots of the registers of a plan, unless it does not fit."""
    least = given.busiest if interval is None else interval
    chosen = policy(given.request(limits, least))
    if chosen is not None:
        given.write(chosen, least)
        return
    longest_of_all = max(least, longest(given.queues))
    for memory, peak in overflows(given.queues, limits, longest_of_all).items():
        limit = limits[memory]
        yield given.plan, given.short_text(memory, peak, limit, longest_of_all)


def limit_of(option: str, value: int | str | None) -> int | None:
    """
    The bytes that an option allows, if it is given.

    Raises `PassFailedException` if it is no size.
    """
    if value is None:
        return None
    if (size := parse_size(str(value))) is None:
        raise PassFailedException(f"{option} must be a size such as 4G, got {value}")
    return size


@dataclass(frozen=True)
class RegstChooseSlotsPass(ModulePass):
    """Choose the number of slots of each register, so that acts overlap."""

    name = "regst-choose-slots"

    interval_ns: int | None = None
    """Nanoseconds from the begin of an act to that of the next one."""

    memory_limit: int | str | None = None
    """Bytes that each memory may take, or a size such as `"4G"`."""

    device_memory_limit: int | str | None = None
    """The same for the memory of each device, if other than `memory-limit`."""

    machine: tuple[str, ...] = ()
    """Rates of kinds of devices, such as `"cuda gflops=60000 gbytes=3300"`."""

    policy: str = INTERVAL
    """`interval`, or a plug-in's."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.check_options()
        policy = slot_policy(self.policy)
        machine = Machine.parse(self.machine)
        limits = Limits(
            limit_of("memory-limit", self.memory_limit),
            limit_of("device-memory-limit", self.device_memory_limit),
        )
        plans = [x for x in outermost(op, PlanOp) if not x.has_places]
        rated = [plan for plan in plans if rates_of(plan).is_rated]
        for plan in rated:
            plan.attributes[NO_INTERVAL] = StringAttr(AT_RATES)
        plans = [plan for plan in plans if plan not in rated]
        waits = [(plan, PlanWaits.of(plan)) for plan in plans]
        fail_if_any(found for each in waits for found in findings_about(*each, machine))
        given = [PlanQueues(plan, found, machine) for plan, found in waits]
        fail_if_any(
            found
            for queues in given
            for found in choose_slots(
                queues, queues.limits(limits), self.interval_ns, policy
            )
        )

    def check_options(self) -> None:
        """Raises `PassFailedException` if an option has a value that means nothing."""
        if self.interval_ns is not None and self.interval_ns < 1:
            raise PassFailedException(
                f"interval-ns must be at least 1, got {self.interval_ns}"
            )
        if self.interval_ns is not None and self.interval_ns >= MAX_NS:
            raise PassFailedException(
                f"interval-ns must be below 2^62, got {self.interval_ns}"
            )
