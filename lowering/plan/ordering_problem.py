"""Ordering the tasks of a plan as a problem: tasks make and read values of a size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.ir import BlockArgument, SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import DeviceAttr
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.plan import TaskOp
from penstock.dialects.regst import MemoryCaseAttr
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.algorithms.list_scheduling import Job
from penstock.lowering.algorithms.ordering.parallel import Part
from penstock.lowering.algorithms.ordering.policies import OrderRequest
from penstock.lowering.algorithms.ordering.problem import (
    Order,
    Problem,
    Task,
    Value,
    peak_of,
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
    tasks: list[TaskOp] = field(init=False)
    problem: Problem = field(init=False)
    _memories: dict[tuple[MemoryCaseAttr, DeviceAttr | None], int] = field(
        init=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        self.tasks = self.order.tasks
        homes = Homes.of(self.order.plan)
        numbers: dict[SSAValue, int] = {}
        values: list[Value] = []
        # They lie where the variable does, or in registers around the body.
        elsewhere = {update.value for update in marked_updates(self.tasks)}
        elsewhere |= values_outside(self.order.plan)
        for task in self.tasks:
            sizes = [type.size for type in data_types_of(task)]
            for result, size in zip(task.results_, sizes, strict=True):
                numbers[result] = len(values)
                slots = 0 if result in elsewhere else slots_of(task, result, homes)
                memory = self._memory(homes.memory_case(result), task)
                values.append(Value(size * slots, memory))
        tasks = [self._task(task, numbers, values) for task in self.tasks]
        for number, task in enumerate(self.tasks):
            if size := bytes_of_bodies(task, self.in_place):
                # A value that nothing reads is alive while its task acts.
                made = (*tasks[number].makes, len(values))
                tasks[number] = tasks[number]._replace(makes=made)
                memory = self._memory(MemoryCaseAttr.of(task.device), task)
                values.append(Value(size, memory))
        pairs = {task: Pairs.of(task) for task in self.tasks}
        earlier = earlier_readers(self.tasks, pairs)
        for first, second in (*self.order.controls, *earlier):
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

    def _task(
        self, task: TaskOp, numbers: dict[SSAValue, int], values: Sequence[Value]
    ) -> Task:
        reads = tuple(dict.fromkeys(numbers[v] for v in task.ins if v in numbers))
        makes = tuple(numbers[v] for v in task.results_)
        if not self.in_place:
            return Task(reads, makes)
        over = (
            numbers[value]
            for value, result in overwritable(task)
            if value in numbers
            and values[numbers[value]] == values[numbers[result]]
            and tensor_type(result).has_static_shape()
        )
        return Task(reads, makes, tuple(dict.fromkeys(over)))

    @cached_property
    def is_parallel(self) -> bool:
        """Whether more than one device computes."""
        return len({task.device for task in self.tasks if task.kind == "compute"}) > 1

    @property
    def is_early(self) -> list[bool]:
        """For each task whether it copies, or is part of a collective."""
        return [t.kind == "copy" or COLLECTIVE in t.attributes for t in self.tasks]

    @property
    def parts(self) -> list[Part]:
        """Of which op each task does a part, and on which device."""
        return [Part(shared_name(task), task.device) for task in self.tasks]

    def request(self, budget: int, machine: Machine) -> OrderRequest:
        """The problem as policies are told it."""
        return OrderRequest(
            self.problem,
            [task.task_name.data for task in self.tasks],
            budget,
            self.parts,
            self.is_early,
            self.is_parallel,
            lambda: self.jobs(machine),
        )

    def jobs(self, machine: Machine) -> list[Job]:
        """The tasks as jobs, on a lane for each stream."""
        lanes: dict[object, list[int]] = {}
        able = [
            lanes.setdefault((task.device, task.stream), [len(lanes)])
            for task in self.tasks
        ]
        return jobs_of(self.tasks, self.order.before, able, machine)

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
            (rates.repetitions[task], rates.rate_changes[task]) for task in self.tasks
        ]
        return grouped(order, before, kinds)

    def write(self, order: Order) -> None:
        """List the tasks in an order, after all variables."""
        if order == self.problem.source:
            self.order.write()
        else:
            list_tasks(self.order.plan, [self.tasks[index] for index in order])


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
