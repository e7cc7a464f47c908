"""
Let small tasks that do not need each other be one, a *wave*: an `op.wave`.

A wave is one act, whose members threads share out: the cost of an act is paid once, and
small ops, none of which is worth cutting, are work for several threads. As nothing
orders its members, all that they read and write is in memory at once, and memory that
is planned afterwards sees one task. The attribute `waves` of the plan says how many
`tasks` became one with others, the bytes of values at the fullest step of the list
(`live_bytes`), and these bytes before (`apart`); a value is alive from the task that
makes it to the last one that reads it, both included, and variables do not count.

A task joins a wave if it computes on a `cpu`, and

* it is small: the longer of the times that its op takes at 16 scalar operations and at
  64 bytes a nanosecond is at most `most_ns`;
* its shapes are static, its results have one slot, it has no waits and signals, and its
  op cannot fail, names no place for its results (`in_place`) and never makes views.

The *level* of a task is the largest number of such tasks on a path to it. Those of one
stream and one level are a wave, as far as they are of at most `MOST_KINDS` kinds: ops
that are the same but for their operands have one kernel, and each kind is compiled once
for the wave. Tasks whose results members read are listed before the wave, readers of
their results behind it, else in the order that there was.

A task that computes and is in no wave says why: `no_wave`. Plans with registers that
hold bytes are left alone, and so are those with tasks at different rates. Chains go.

Example: `test/lowering/plan/plan-form-waves-example.mlir`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.op.body import FlowOp
from penstock.dialects.op.in_place import IN_PLACE
from penstock.dialects.op.tensor_op import TensorOp, can_fail
from penstock.dialects.op.wave import WaveOp, YieldWaveOp
from penstock.dialects.plan import PlanOp, TaskOp, YieldOp
from penstock.dialects.utils.attributes import carry
from penstock.dialects.utils.diagnostics import fail_if_any
from penstock.dialects.utils.structural_keys import KernelKey, kernel_key
from penstock.dialects.utils.tensors import byte_count, tensor_type
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.graphs import listed_order
from penstock.lowering.algorithms.packing.problem import Lifetime, live_bytes
from penstock.lowering.algorithms.unique_names import UniqueNames
from penstock.lowering.analysis.aliases import operand_register
from penstock.lowering.analysis.in_place_pairs import Pairs, earlier_readers
from penstock.lowering.analysis.plan_reports import WAVES
from penstock.lowering.analysis.register_types import requested_slots
from penstock.lowering.analysis.repetitions import rates_of
from penstock.lowering.analysis.task_order import TaskOrder, list_tasks
from penstock.lowering.analysis.task_times import MEASURED
from penstock.lowering.codegen.cpu.wave import BYTES_A_NS, FLOPS_A_NS

MOST_KINDS = 8

NO_WAVE = "no_wave"
"""The attribute of a task that says why it is in no wave."""


################################################################################
# Tasks that fit                                                               #
################################################################################


def unfit(task: TaskOp, most_ns: int) -> str | None:
    """Why a task that computes is in no wave, if so."""
    op = task.op
    # A loop or condition is no kernel.
    if not isinstance(op, TensorOp) or isinstance(op, FlowOp | WaveOp):
        return f"op: {op.name} is no member of waves"
    if task.device.kind.data != "cpu":
        return f"target: it is on {task.device.kind.data}"
    if not all(tensor_type(x).has_static_shape() for x in (*op.operands, *op.results)):
        return "shape: it is known at run time only"
    if requested_slots(task) not in (None, 1):
        return "slots: its results have several"
    if task.waits or task.signals:
        return "control: it waits for another task, or lets one go on"
    if task.can_fail is not None or can_fail(op):
        return "error: it may end in one"
    if IN_PLACE in op.attributes:
        return "hint: its op says where results lie"
    if op.views():
        return "view: there may be nothing to do"
    if not isinstance(end := op.next_op, YieldOp) or end.values != op.results:
        return "results: it hands on others than its op has"
    cost = op.cost()
    time = max(cost.flops / FLOPS_A_NS, cost.bytes / BYTES_A_NS)
    if time > most_ns:
        return f"size: it takes {time:.0f} ns, more than {most_ns}"
    return None


def levels_of(before: Sequence[Sequence[int]], fits: Sequence[bool]) -> list[int]:
    """
    For each of some things, listed after those before it, the most that fit on a path
    to it.
    """
    levels: list[int] = []
    for earlier in before:
        levels.append(max((levels[i] + fits[i] for i in earlier), default=0))
    return levels


def divided(kinds: Sequence[KernelKey], most: int) -> Iterator[list[int]]:
    """The indices of kinds, in as few groups as have at most so many kinds."""
    groups: dict[int, list[int]] = defaultdict(list)
    numbers: dict[KernelKey, int] = {}
    for index, kind in enumerate(kinds):
        groups[numbers.setdefault(kind, len(numbers)) // most].append(index)
    yield from groups.values()


class Waves:
    """The waves of a plan whose tasks are in an order."""

    def __init__(self, order: TaskOrder, most_ns: int) -> None:
        self.plan = order.plan
        self.tasks = order.tasks
        self.before = [list(earlier) for earlier in order.before]
        pairs = {task: Pairs.of(task) for task in self.tasks}
        for reader, writer in earlier_readers(self.tasks, pairs):
            self.before[writer].append(reader)
        reasons = [
            unfit(task, most_ns) if task.kind == "compute" else None
            for task in self.tasks
        ]
        fits = [
            task.kind == "compute" and reason is None
            for task, reason in zip(self.tasks, reasons, strict=True)
        ]
        self.groups = list(self._grouped(fits))
        """The tasks of each wave, by number."""
        members = {number for group in self.groups for number in group}
        self.reasons = {
            self.tasks[number]: reasons[number] or "alone: no other is of its level"
            for number, task in enumerate(self.tasks)
            if task.kind == "compute" and number not in members
        }

    def _grouped(self, fits: Sequence[bool]) -> Iterator[list[int]]:
        levels = levels_of(self.before, fits)
        found: dict[object, list[int]] = defaultdict(list)
        for number, task in enumerate(self.tasks):
            if fits[number]:
                found[task.device, task.stream, levels[number]].append(number)
        for numbers in found.values():
            kinds = [kernel_key(self.tasks[number].op) for number in numbers]
            for group in divided(kinds, MOST_KINDS):
                if len(group) > 1:
                    yield [numbers[i] for i in group]

    def order(self) -> list[list[int]]:
        """The waves, and the other tasks, in an order in which they can act."""
        group_of = {number: group for group in self.groups for number in group}
        units: list[list[int]] = []
        unit_of: dict[int, int] = {}
        for number in range(len(self.tasks)):
            if number not in unit_of:
                group = group_of.get(number, [number])
                unit_of.update(dict.fromkeys(group, len(units)))
                units.append(group)
        before = [
            list(dict.fromkeys(unit_of[i] for n in unit for i in self.before[n]))
            for unit in units
        ]
        return [units[i] for i in listed_order(before)]


################################################################################
# Writing it down                                                              #
################################################################################


def form_waves(waves: Waves) -> None:
    """Let the tasks of each wave of a plan be one, and say what that costs."""
    plan, tasks = waves.plan, waves.tasks
    for task, reason in waves.reasons.items():
        task.attributes[NO_WAVE] = StringAttr(reason)
    if not waves.groups:
        return
    apart = fullest(tasks)
    names = UniqueNames(task.task_name.data for task in plan.tasks)
    listed: list[TaskOp] = []
    for unit in waves.order():
        members = [tasks[number] for number in unit]
        listed.append(members[0] if len(unit) == 1 else wave_of(members, names))
    list_tasks(plan, listed)
    number_streams(listed)
    counts = {
        "apart": apart,
        "live_bytes": fullest(listed),
        "tasks": sum(map(len, waves.groups)),
    }
    attributes = {key: IntegerAttr(count, i64) for key, count in counts.items()}
    plan.attributes[WAVES] = DictionaryAttr(attributes)


def fullest(tasks: Sequence[TaskOp]) -> int:
    """The bytes of values at the fullest step of tasks in an order."""
    step = {task: i for i, task in enumerate(tasks)}
    lives: list[Lifetime] = []
    for first, task in enumerate(tasks):
        for value in task.results_:
            readers = (step.get(owner_of(use.operation), first) for use in value.uses)
            if tensor_type(value).has_static_shape():
                size = byte_count(value.type)
                lives.append(Lifetime(first, max(readers, default=first), size))
    return live_bytes(lives)


def owner_of(op: Operation) -> TaskOp:
    """The task that reads a value of a plan."""
    assert isinstance(op, TaskOp), "nothing else reads values of a plan"
    return op


def wave_of(members: Sequence[TaskOp], names: UniqueNames) -> TaskOp:
    """The task that others become, in the place of the first one."""
    first, last = members[0], members[-1]
    read = list(dict.fromkeys(value for task in members for value in task.ins))
    body = body_of_wave(members, read)
    outer = Block(arg_types=[value.type for value in read])
    for value, arg in zip(read, outer.args, strict=True):
        arg.name_hint = value.name_hint
    wave = WaveOp(outer.args, Region(body))
    wave.location = first.op.location
    types = [result.type for result in wave.results]
    outer.add_ops([wave, YieldOp(*wave.results)])
    task = TaskOp(
        names.make(f"{first.task_name.data}..{last.task_name.data}"),
        first.device,
        first.stream,
        Region(outer),
        ins=read,
        result_types=types,
    )
    task.job, task.order, task.location = first.job, first.order, first.location
    if (time := time_of(members)) is not None:
        task.attributes[MEASURED] = IntegerAttr(time, i64)
    for member in members:
        carry(member, task)
    take_place(members, task)
    return task


def body_of_wave(members: Sequence[TaskOp], read: Sequence[SSAValue]) -> Block:
    """The block of an op that computes those of some tasks, of what these read."""
    block = Block(arg_types=[value.type for value in read])
    inside = dict(zip(read, block.args, strict=True))
    for value, arg in inside.items():
        arg.name_hint = value.name_hint
    made: list[SSAValue] = []
    for task in members:
        copy = task.op.clone()
        copy.operands = [
            inside[operand_register(task, i)] for i in range(len(copy.operands))
        ]
        copy.location = task.op.location
        block.add_op(copy)
        made += copy.results
    block.add_op(YieldWaveOp(made))
    return block


def time_of(members: Sequence[TaskOp]) -> int | None:
    """The nanoseconds that tasks say they take together; None if one does not."""
    times = [member.attributes.get(MEASURED) for member in members]
    known = [time.value.data for time in times if isinstance(time, IntegerAttr)]
    return sum(known) if len(known) == len(times) else None


def take_place(members: Sequence[TaskOp], task: TaskOp) -> None:
    """Put a task in the place of others, whose results are its own."""
    block = members[0].parent_block()
    assert block is not None, "a task is in a plan"
    block.insert_op_before(task, members[0])
    results = iter(task.results_)
    for member in members:
        for old, new in zip(member.results_, results, strict=False):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        member.detach()
        member.erase()


def number_streams(tasks: Sequence[TaskOp]) -> None:
    """Number the tasks of each stream that are numbered as they are listed."""
    counts: Counter[object] = Counter()
    for task in tasks:
        task.chain = None
        if task.order is not None:
            stream = task.device, task.stream
            task.order = IntegerAttr(counts[stream], i64)
            counts[stream] += 1


def is_open(plan: PlanOp) -> bool:
    """Whether waves of a plan can be formed."""
    return plan.is_on_values and not rates_of(plan).is_rated


@dataclass(frozen=True)
class PlanFormWavesPass(ModulePass):
    """
    Let small tasks that do not need each other be one, a wave.
    """

    name = "plan-form-waves"

    most_ns: int = 10_000
    """The longest time of a member, as it is modelled, in nanoseconds."""

    def __post_init__(self) -> None:
        if self.most_ns < 1:
            raise PassFailedException(
                f"{self.name}: most_ns should be at least 1, got {self.most_ns}"
            )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        orders = [TaskOrder(plan) for plan in outermost(op, PlanOp) if is_open(plan)]
        fail_if_any(found for order in orders for found in order.findings())
        for order in orders:
            form_waves(Waves(order, self.most_ns))
