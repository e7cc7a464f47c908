"""Ordering the tasks of a plan as a problem: tasks make and read values of a size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.ir import BlockArgument, SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import CollectiveOp, DeviceAttr
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.plan import TaskOp
from penstock.dialects.regst import MemoryCaseAttr
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.algorithms.graphs import listed_order
from penstock.lowering.algorithms.list_scheduling import Job
from penstock.lowering.algorithms.ordering.parallel import Part
from penstock.lowering.algorithms.ordering.policies import OrderRequest
from penstock.lowering.algorithms.ordering.problem import (
    Order,
    Problem,
    Task,
    Value,
    peak_of,
    positions,
)
from penstock.lowering.analysis.body_plans import values_outside
from penstock.lowering.analysis.in_place_hints import wanted_pairs
from penstock.lowering.analysis.in_place_pairs import Pairs, earlier_readers
from penstock.lowering.analysis.in_place_updates import marked_updates
from penstock.lowering.analysis.register_types import Homes, data_types_of, slots_of
from penstock.lowering.analysis.repetitions import grouped, rates_of
from penstock.lowering.analysis.task_order import TaskOrder, list_tasks
from penstock.lowering.analysis.task_times import Machine, jobs_of

COLLECTIVE = "collective"
"""The attribute of a task that is part of a collective."""


@dataclass
class PlanProblem:
    """The tasks of a plan that act, and the problem of ordering them."""

    order: TaskOrder
    in_place: bool
    acts: JointActs = field(init=False)
    problem: Problem = field(init=False)
    _memories: dict[tuple[MemoryCaseAttr, DeviceAttr | None], int] = field(
        init=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        self.acts = JointActs(self.order)
        homes = Homes.of(self.order.plan)
        numbers: dict[SSAValue, int] = {}
        values: list[Value] = []
        # They lie where the variable does, or in registers around the body.
        elsewhere = {update.value for update in marked_updates(self.order.tasks)}
        elsewhere |= values_outside(self.order.plan)
        for task in self.acts.tasks:
            sizes = [type.size for type in data_types_of(task)]
            for result, size in zip(task.results_, sizes, strict=True):
                numbers[result] = len(values)
                slots = 0 if result in elsewhere else slots_of(task, result, homes)
                memory = self._memory(homes.memory_case(result), task)
                values.append(Value(size * slots, memory))
        tasks = [self._act(act, numbers, values) for act in self.acts.members]
        for number, act in enumerate(self.acts.members):
            for task in act:
                if size := bytes_of_bodies(task, self.in_place):
                    # A value that nothing reads is alive while its task acts.
                    made = (*tasks[number].makes, len(values))
                    tasks[number] = tasks[number]._replace(makes=made)
                    memory = self._memory(MemoryCaseAttr.of(task.device), task)
                    values.append(Value(size, memory))
        pairs = {task: Pairs.of(task) for task in self.order.tasks}
        earlier = earlier_readers(self.order.tasks, pairs)
        for first, second in self.acts.between((*self.order.controls, *earlier)):
            # An order is a value without bytes that the one makes and the other reads.
            made, read = tasks[first], tasks[second]
            tasks[first] = made._replace(makes=(*made.makes, len(values)))
            tasks[second] = read._replace(reads=(*read.reads, len(values)))
            values.append(Value(0))
        self.problem = Problem(values, tasks)

    def _memory(self, case: MemoryCaseAttr, task: TaskOp) -> int:
        """The number of the memory of a value that a task makes."""
        key = case, task.device if self.is_parallel else None
        return self._memories.setdefault(key, len(self._memories))

    def _act(
        self,
        act: Sequence[TaskOp],
        numbers: dict[SSAValue, int],
        values: Sequence[Value],
    ) -> Task:
        ins = (value for task in act for value in task.ins)
        reads = tuple(dict.fromkeys(numbers[v] for v in ins if v in numbers))
        makes = tuple(numbers[v] for task in act for v in task.results_)
        if not self.in_place:
            return Task(reads, makes)
        over = (
            numbers[value]
            for task in act
            for value, result in overwritable(task)
            if value in numbers
            and values[numbers[value]] == values[numbers[result]]
            and tensor_type(result).has_static_shape()
        )
        return Task(reads, makes, tuple(dict.fromkeys(over)))

    @cached_property
    def is_parallel(self) -> bool:
        """Whether more than one device computes."""
        tasks = self.order.tasks
        return len({task.device for task in tasks if task.kind == "compute"}) > 1

    @property
    def is_early(self) -> list[bool]:
        """For each act whether it copies, or is part of a collective."""
        tasks = self.acts.first
        return [t.kind == "copy" or COLLECTIVE in t.attributes for t in tasks]

    @property
    def parts(self) -> list[Part]:
        """Of which op each act does a part, and on which device."""
        return [
            Part(None if others else shared_name(task), task.device)
            for task, *others in self.acts.members
        ]

    def request(self, budget: int, machine: Machine) -> OrderRequest:
        """The problem as policies are told it."""
        return OrderRequest(
            self.problem,
            [task.task_name.data for task in self.acts.first],
            budget,
            self.parts,
            self.is_early,
            self.is_parallel,
            lambda: self.jobs(machine),
        )

    def jobs(self, machine: Machine) -> list[Job]:
        """The acts as jobs, on a lane for each stream of their first tasks."""
        lanes: dict[object, list[int]] = {}
        tasks = self.acts.first
        able = [
            lanes.setdefault((task.device, task.stream), [len(lanes)]) for task in tasks
        ]
        return jobs_of(tasks, self.acts.before, able, machine)

    def grouped(self, order: Order) -> Order:
        """An order in which tasks that act equally often stand together."""
        rates = rates_of(self.order.plan)
        if not rates.is_rated:
            return order
        maker = {v: i for i, task in enumerate(self.problem.tasks) for v in task.makes}
        before = [
            [maker[value] for value in task.reads if value in maker]
            for task in self.problem.tasks
        ]
        kinds = [
            (rates.repetitions[task], rates.rate_changes[task])
            for task in self.acts.first
        ]
        return grouped(order, before, kinds)

    def write(self, order: Order) -> None:
        """List the tasks in an order, after all variables."""
        tasks = [task for act in order for task in self.acts.members[act]]
        if tasks == self.order.tasks:
            self.order.write()
        else:
            list_tasks(self.order.plan, tasks)


class JointActs:
    """
    The tasks of a plan that act at once: the parts of a collective, which wait for each
    other, and each other task alone. Parts that could not act at once count alone, too,
    as `verify-plan` says of them.
    """

    def __init__(self, order: TaskOrder) -> None:
        numbers: dict[object, int] = {}
        of = [numbers.setdefault(key_of(task), len(numbers)) for task in order.tasks]
        listed = listed_order(before_of(of, order.before))
        if len(listed) < len(numbers):
            of = listed = [*range(len(order.tasks))]
        place = positions(listed)
        self._of = [place[act] for act in of]
        self.members: list[list[TaskOp]] = [[] for _ in listed]
        """The tasks of each act, which comes after all that it needs."""
        for task, act in zip(order.tasks, self._of, strict=True):
            self.members[act].append(task)
        self.before = [[*found] for found in before_of(self._of, order.before)]
        """For each act those that come before it."""

    @property
    def tasks(self) -> Iterator[TaskOp]:
        """All tasks, as their acts are listed."""
        return (task for act in self.members for task in act)

    @property
    def first(self) -> list[TaskOp]:
        """The first task of each act."""
        return [act[0] for act in self.members]

    def between(self, pairs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """The pairs of acts of pairs of tasks, each once."""
        found = dict.fromkeys((self._of[a], self._of[b]) for a, b in pairs)
        return ((first, second) for first, second in found if first != second)


def key_of(task: TaskOp) -> object:
    """A key that all tasks which act at once have in common."""
    return task.op.tag if isinstance(task.op, CollectiveOp) else task


def before_of(
    acts: Sequence[int], before: Sequence[Sequence[int]]
) -> list[dict[int, None]]:
    """For each act those that come before its tasks, given the tasks before each."""
    found: list[dict[int, None]] = [{} for _ in {*acts}]
    for act, earlier in zip(acts, before, strict=True):
        found[act].update((acts[x], None) for x in earlier if acts[x] != act)
    return found


def bytes_of_bodies(task: TaskOp, in_place: bool) -> int:
    """
    The bytes that the bodies of a task need in the order of their tasks, of which one
    runs at a time; those of unknown size count as none.
    """
    known = (body for body in task.bodies if all(map(has_sizes, body.tasks)))
    problems = (PlanProblem(TaskOrder(body), in_place).problem for body in known)
    return max((peak_of(x, x.source) for x in problems), default=0)


def has_sizes(task: TaskOp) -> bool:
    """Whether the results of a task have a known size."""
    try:
        data_types_of(task)
    except VerifyException:
        return False
    return True


def overwritable(task: TaskOp) -> Iterator[tuple[SSAValue, SSAValue]]:
    """The values that a task reads, with the result that may be written over each."""
    if not isinstance(op := task.op, TensorOp):
        return
    pairs = {(pair.operand, pair.result) for pair in wanted_pairs(op)}
    read_as: dict[int, set[int]] = {}
    for operand, value in enumerate(op.operands):
        if isinstance(value, BlockArgument):
            read_as.setdefault(value.index, set()).add(operand)
    for index, operands in read_as.items():
        for number, result in enumerate(task.results_):
            if all((operand, number) in pairs for operand in operands):
                yield task.ins[index], result


def shared_name(task: TaskOp) -> str | None:
    """
    The common prefix of the names of tasks that do parts of one op; None for a task on
    its own.
    """
    return task.task_name.data.rpartition("@")[0] or None
