"""
Split a plan on several ranks into a plan `<name>_<rank>` of each.

A copy from one rank to another becomes two tasks: `<copy>/send` on the rank of what is
copied (`job.send`), and one of the name of the copy on the other (`job.receive`), both
on the stream `<network, 0>` of their CPU. Their tags count the copies of the plan in
the order of the list, which all ranks know alike, on from those of collectives, and
those of a plan on from those of the plan before. All other tasks are of one rank, and
so are control registers: where one end of a register is such a copy, it is of the rank
of the other end, where that task sends or receives. Attributes of the plan are those of
each.

Where tasks act at different rates, a rank that knows but its own ones would take fewer
slots than a launch of all ranks needs: the tasks that need more ask for them (`slots`).
Its messages say how many `times` they come in a launch, if several: its own tasks alone
may not.

The order of tasks comes before: of all ranks together it has no cycle, and each rank
keeps to it. Plans on one rank, and plans with registers that hold bytes, are left
alone: `simulate-ranks` of convert-plan-to-launch runs all ranks in one process.

Example: `test/lowering/plan/plan-split-ranks-example.mlir`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import IntAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from penstock.dialects.job import (
    MESSAGES,
    CollectiveOp,
    CopyOp,
    DeviceAttr,
    ReceiveOp,
    SendOp,
)
from penstock.dialects.plan import (
    PlanOp,
    Ports,
    StreamAttr,
    TaskOp,
    YieldOp,
    segments_of,
)
from penstock.dialects.regst import RegisterOp
from penstock.dialects.utils.attributes import carry, replace_op
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.tensors import tensor_type
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.unique_names import UniqueNames
from penstock.lowering.analysis.register_types import requested_slots, source_of
from penstock.lowering.analysis.repetitions import PlanRates, rates_of


def device_of(value: SSAValue) -> DeviceAttr | None:
    """The device in whose memory a value of a plan lies; None for a register."""
    if not isinstance(task := value.owner, TaskOp):
        return None
    return task.op.device if isinstance(task.op, CopyOp) else task.device


def rank_of(task: TaskOp) -> int:
    """The rank that a task acts on; a copy acts where its result lies."""
    op = task.op
    # Not `isinstance`, which xDSL makes slow: most tasks are no copies.
    return (op.device if type(op) is CopyOp else task.device).rank.data


def crossing(task: TaskOp) -> DeviceAttr | None:
    """The device that a task copies from, if that is of another rank."""
    copy = task.op
    if type(copy) is not CopyOp:
        return None
    source = device_of(source_of(task, copy))
    return source if source is not None and source.rank != copy.device.rank else None


def ranks_of(plan: PlanOp) -> list[int]:
    """The ranks of the tasks of a plan."""
    return sorted({rank_of(task) for task in plan.tasks})


def control_ranks(plan: PlanOp) -> dict[SSAValue, int]:
    """
    The rank of each control register: one that all its tasks act on, if there is, where
    a copy between ranks acts on both.
    """
    common: dict[SSAValue, list[int]] = {}
    for task in plan.tasks:
        source, own = crossing(task), [rank_of(task)]
        if source is not None:
            own.append(source.rank.data)
        for value in (*task.waits, *task.signals):
            before = common.setdefault(value, own)
            common[value] = [rank for rank in before if rank in own] or before
    return {value: ranks[0] for value, ranks in common.items()}


def findings_about(plan: PlanOp, known: Mapping[SSAValue, int]) -> Iterator[Finding]:
    """
    The tasks that use what lies on another rank, or wait for one of it, and the copies
    between ranks that are no messages. Control registers are of `known` ranks.
    """
    for task in plan.tasks:
        name, rank = task.task_name.data, rank_of(task)
        source = crossing(task)
        own = {rank} if source is None else {rank, source.rank.data}
        for value in (*task.waits, *task.signals):
            if known[value] not in own:
                text = f"task '{name}' of rank {rank} shares a control register with"
                yield task, f"{text} rank {known[value]}"
        if source is not None:
            for end in (source, device_of(task.results_[0])):
                if end is not None and end.kind.data != "cpu":
                    text = f"task '{name}' copies between ranks where one end is"
                    yield (
                        task,
                        f"{text} on a {end.kind.data}, and messages go between CPUs",
                    )
        for value in task.ins if source is None else ():
            device = device_of(value)
            if device is not None and device.rank.data != rank:
                text = f"task '{name}' of rank {rank} reads what lies on rank"
                yield task, f"{text} {device.rank.data}, and is no copy"


@dataclass
class RankSplitter:
    """Makes the plans of the ranks of one plan."""

    plan: PlanOp
    tags: int
    """The first tag that is free."""
    acts: dict[str, int]
    """The acts of messages in a launch, by task, to which those that send are added."""
    control_ranks: Mapping[SSAValue, int]
    ops: dict[int, list[Operation]] = field(
        default_factory=lambda: defaultdict[int, list[Operation]](list)
    )
    """The registers and tasks of each rank, in the order of the list."""

    def __post_init__(self) -> None:
        # Messages of the same ranks have different tags, and so do collectives.
        ops = (task.op for task in self.plan.tasks)
        collectives = [op for op in ops if isinstance(op, CollectiveOp)]
        for op in collectives:
            op.tag = IntegerAttr(op.tag.value.data + self.tags, i64)
        own = (op.tag.value.data for op in collectives)
        self.tags = max(own, default=self.tags - 1) + 1
        self._names = UniqueNames()
        for task in self.plan.tasks:
            self._names.make(task.task_name.data)
        self._stream = StreamAttr(StringAttr("network"), IntAttr(0))

    def split(self) -> list[PlanOp]:
        """The plans, by rising rank; the plan itself is empty then."""
        for op in list(self.plan.body.block.ops):
            if isinstance(op, TaskOp):
                if (source := crossing(op)) is not None:
                    self._send(op, source)
                    continue
                rank = rank_of(op)
            else:
                assert isinstance(op, RegisterOp), "a plan on values has no chunks"
                rank = self.control_ranks.get(op.register, 0)
            op.detach()
            self.ops[rank].append(op)
        return [self._plan(rank) for rank in sorted(self.ops)]

    def _plan(self, rank: int) -> PlanOp:
        name = f"{self.plan.sym_name.data}_{rank}"
        made = PlanOp(name, Region(Block(self.ops[rank])), self.plan.exclusive_jobs)
        made.rank = IntegerAttr(rank, i64)
        made.attributes = self.plan.attributes.copy()
        made.location = self.plan.location
        return made

    def _send(self, task: TaskOp, source: DeviceAttr) -> None:
        """Replace a copy between ranks by a task on each."""
        copy = task.op
        assert isinstance(copy, CopyOp), "it crosses"
        value, target = source_of(task, copy), copy.device
        block = Block(arg_types=[value.type])
        block.args[0].name_hint = value.name_hint
        block.add_ops([SendOp(block.args[0], target, self.tags), YieldOp()])
        name = self._names.make(f"{task.task_name.data}/send")
        if (count := self.acts.get(task.task_name.data)) is not None:
            self.acts[name] = count
        controls = self._controls(task, source.rank.data)
        sender = self._task(task, name, source, block, Ports([value], [], *controls))
        got = ReceiveOp(source, self.tags, tensor_type(copy.result))
        got.result.name_hint = copy.result.name_hint
        block = Block([got, YieldOp(got.result)])
        ports = Ports([], [], *self._controls(task, target.rank.data))
        receiver = self._task(task, task.task_name.data, target, block, ports)
        self.tags += 1
        self.ops[source.rank.data].append(sender)
        self.ops[target.rank.data].append(receiver)
        task.results_[0].replace_all_uses_with(receiver.results_[0])
        task.detach()
        task.erase()

    def _controls(
        self, task: TaskOp, rank: int
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        """The control registers of one rank that a task waits for, and signals."""
        waits, signals = (
            [value for value in values if self.control_ranks[value] == rank]
            for values in (task.waits, task.signals)
        )
        return waits, signals

    def _task(
        self, like: TaskOp, name: str, device: DeviceAttr, block: Block, ports: Ports
    ) -> TaskOp:
        """A task in the place of a copy, with this body."""
        is_end = not ports.ins
        properties = {key: x for key, x in like.properties.items() if key != "order"}
        made = TaskOp.create(
            operands=[value for values in ports for value in values],
            result_types=[like.results_[0].type] if is_end else [],
            properties=properties
            | {
                "task_name": StringAttr(name),
                "device": device,
                "stream": self._stream,
                "operandSegmentSizes": segments_of(ports),
            },
            attributes=like.attributes.copy(),
            regions=[Region(block)],
            location=like.location,
        )
        for op in block.ops:
            op.location = like.op.location
            if not isinstance(op, YieldOp):
                carry(like.op, op)
        if is_end:
            made.results_[0].name_hint = like.results_[0].name_hint
        else:
            made.attributes.pop("slots", None)
        return made


def acts_of_messages(rates: PlanRates) -> dict[str, int]:
    """
    The acts in a launch of the tasks that become messages or are some, by name; none
    if all tasks act once.
    """
    if not rates.is_rated:
        return {}
    return {
        task.task_name.data: count
        for task, count in rates.repetitions.items()
        if isinstance(task.op, CopyOp | MESSAGES)
    }


def say_times(plan: PlanOp, acts: Mapping[str, int]) -> None:
    """Let the messages of a rank say how often they come, if that is more than once."""
    for task in plan.tasks if acts else ():
        if isinstance(op := task.op, MESSAGES):
            times = acts[task.task_name.data]
            if times > 1:
                op.times = IntegerAttr(times, i64)


def slots_by_task(rates: PlanRates) -> dict[str, int]:
    """
    The slots for the results of each task with which all of a plan comes to its end, by
    name: a copy is replaced by a task of its name.
    """
    found: dict[str, int] = {}
    for value, slots in rates.slots_needed().items():
        if isinstance(task := value.owner, TaskOp):
            name = task.task_name.data
            found[name] = max(slots, found.get(name, 1))
    return found


def ask_for_slots(plan: PlanOp, needed: Mapping[str, int]) -> None:
    """Let the tasks of a rank ask for slots that the plan of it alone does not need."""
    known = slots_by_task(rates_of(plan))
    for task in plan.tasks:
        name = task.task_name.data
        slots = max(needed.get(name, 1), requested_slots(task) or 1)
        if task.results_ and slots > known.get(name, 1):
            task.attributes["slots"] = IntegerAttr(slots, i64)


@dataclass(frozen=True)
class PlanSplitRanksPass(ModulePass):
    """Split a plan on several ranks into a plan `<name>_<rank>` of each."""

    name = "plan-split-ranks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plans = [
            plan
            for plan in outermost(op, PlanOp)
            if plan.is_on_values and len(ranks_of(plan)) > 1
        ]
        ranks = {plan: control_ranks(plan) for plan in plans}
        fail_if_any(found for each in ranks.items() for found in findings_about(*each))
        tags = 0
        for plan in plans:
            rates = rates_of(plan)
            needed, acts = slots_by_task(rates), acts_of_messages(rates)
            splitter = RankSplitter(plan, tags, acts, ranks[plan])
            made, tags = splitter.split(), splitter.tags
            for each in made:
                say_times(each, acts)
                ask_for_slots(each, needed)
            replace_op(plan, made, [])
