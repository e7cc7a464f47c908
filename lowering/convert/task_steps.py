"""
The steps that the actor of a task does: calls, copies, and the loops and conditions
that the steps of bodies are in.

The registers of the plan of a body have local names in its loop or branch: they are
parts of the memory of its task, slices and stacked values parts of the tensor around
them in each iteration, and carried values lie by turns in the result of the loop and in
the place that the plan of the body has for them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from penstock.dialects import launch
from penstock.dialects.job import (
    AssignOp,
    CallbackNotifyOp,
    CollectiveOp,
    CommitOp,
    CopyOp,
    ForeignInputOp,
    ForeignOutputOp,
    InputOp,
    OutputOp,
    ReceiveOp,
    SendOp,
)
from penstock.dialects.kernel.builder import as_memref
from penstock.dialects.launch.actors import WHEN
from penstock.dialects.launch.memory import memref_bytes
from penstock.dialects.op.body import FlowOp
from penstock.dialects.op.condition import IfOp
from penstock.dialects.op.loop import LoopOp
from penstock.dialects.op.multirate import AccOp, RateOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.wave import WaveOp
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.regst import (
    BlockOp,
    DataType,
    RegisterOp,
    alias_place,
)
from penstock.dialects.utils.attributes import carry, carry_with_body
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.algorithms.unique_names import UniqueNames
from penstock.lowering.analysis.aliases import (
    does_nothing,
    operand_register,
    views_in,
)
from penstock.lowering.analysis.body_jobs import number_of
from penstock.lowering.convert.boxing_tasks import zeros
from penstock.lowering.convert.kernel_bodies import (
    Kernels,
    copied_in_place,
    overwritten_by,
)


class Scope(ABC):
    """The names that steps have for registers."""

    @abstractmethod
    def name_of(self, register: SSAValue) -> str:
        """The name of a register that a task reads or writes."""


@dataclass(frozen=True)
class Symbols(Scope):
    """The registers of a program, by the values of those of its plan."""

    symbols: dict[SSAValue, str]

    def name_of(self, register: SSAValue) -> str:
        return self.symbols[register]


@dataclass
class TaskSteps:
    """Makes the steps of tasks, and the kernels that these call."""

    kernels: Kernels
    names: UniqueNames

    def of(self, task: TaskOp, scope: Scope) -> list[Operation]:
        """The steps of a task that has something to do."""
        steps = [*self._steps(task, scope)]
        for step in steps:
            # Members of a wave have places of their own.
            if isinstance(task.op, WaveOp):
                continue
            step.location = task.op.location
            # So do the ops of bodies, which are tasks.
            is_flow = isinstance(task.op, FlowOp)
            (carry if is_flow else carry_with_body)(task.op, step)
        return steps

    def _steps(self, task: TaskOp, scope: Scope) -> Sequence[Operation]:
        match task.op:
            case WaveOp() as op:
                return [*self._calls(task, op, scope)]
            case RateOp() as op:
                return self._round(task, op, scope)
            case LoopOp() as op:
                return self._loop(task, op, scope)
            case IfOp() as op:
                return self._condition(task, op, scope)
            case _:
                return [self._step(task, scope)]

    def _step(self, task: TaskOp, scope: Scope) -> Operation:
        """The one step of most tasks."""
        outside = [scope.name_of(value) for value in task.ins]
        outs = [scope.name_of(value) for value in task.outs]
        op = task.op
        ins = [outside[inner_index(value)] for value in op.operands]
        match op:
            case InputOp():
                return launch.FeedOp(op.port.data, outs[0])
            case OutputOp():
                return launch.FetchOp(op.port.data, ins[0], op.cuts)
            case ForeignInputOp():
                return launch.FeedOp(op.buffer.data, outs[0])
            case ForeignOutputOp() | CallbackNotifyOp():
                return launch.FetchOp(op.buffer.data, ins[0])
            case CopyOp():
                return launch.CopyOp(ins[0], outs[0])
            case AssignOp():
                return launch.CopyOp(*ins)
            case CommitOp():
                return launch.CommitOp()
            case SendOp():
                peer = op.device.rank.data
                return launch.SendOp(ins[0], peer, op.tag.value.data, op.times)
            case CollectiveOp():
                return launch.CollectiveOp(
                    op.kind, op.algorithm, op.ranks, op.tag, ins, outs, op.times
                )
            case ReceiveOp():
                peer = op.device.rank.data
                return launch.ReceiveOp(outs[0], peer, op.tag.value.data, op.times)
            case _:
                assert isinstance(op, TensorOp), "has been checked"
                over = overwritten_by(task)
                kernel = self.kernels.name_for(op, task.device.kind.data, over)
                kept = [name for i, name in enumerate(ins) if i not in over]
                call = launch.CallOp(kernel, [*kept, *outs])
                if unchanged := [ins[i] for i in copied_in_place(task) - over.keys()]:
                    call.attributes[launch.UNCHANGED] = launch.symbols(
                        sorted(unchanged)
                    )
                return call

    def _calls(
        self, task: TaskOp, wave: WaveOp, scope: Scope
    ) -> Iterator[launch.CallOp]:
        """A call for each member of a wave."""
        outs = map(scope.name_of, task.outs)
        for member in wave.members:
            kernel = self.kernels.name_for(member, task.device.kind.data, {})
            operands = wave.operands_of(member)
            ins = [scope.name_of(operand_register(task, i)) for i in operands]
            call = launch.CallOp(kernel, [*ins, *islice(outs, len(member.results))])
            call.location = member.location
            carry_with_body(member, call)
            yield call

    def _round(self, task: TaskOp, op: RateOp, scope: Scope) -> Sequence[Operation]:
        """The steps of an op whose acts are several for a piece."""
        (source,) = map(scope.name_of, task.ins)
        (target,) = map(scope.name_of, task.outs)
        copy = launch.CopyOp(source, target)
        if not isinstance(op, AccOp) or op.acts == 1:
            return [copy]
        kernel = self.kernels.name_for(op, task.device.kind.data, {})
        call = launch.CallOp(kernel, [source, target])
        copy.attributes[WHEN] = StringAttr("first")
        call.attributes[WHEN] = StringAttr("rest")
        return [copy, call]

    # Bodies

    def _loop(self, task: TaskOp, loop: LoopOp, scope: Scope) -> Sequence[Operation]:
        """The first values of what a loop carries, and the loop."""
        (plan,) = task.bodies
        body = BodyScope(self, task, loop, plan, scope)
        steps = self._in_body(plan, body)
        first = [*body.first_values(), *self._zeros(task, loop, scope)]
        trips, made = loop.trips, loop.made
        return [
            *first,
            launch.LoopOp(
                loop.count,
                Region(Block([*body.named, *steps])),
                count=None if trips is None else body.operand(0),
                condition=None if loop.going is None else body.condition,
                made=None if made is None else scope.name_of(task.outs[-2]),
                backward=loop.backward is not None,
            ),
        ]

    def _zeros(self, task: TaskOp, loop: LoopOp, scope: Scope) -> Iterator[Operation]:
        """Zeros in stacked results of which perhaps not all iterations are made."""
        for index in range(len(loop.ends), len(loop.ends) + len(loop.stacks)):
            if loop.is_bounded:
                op = zeros(tensor_type(loop.outs[index]))
                kernel = self.kernels.name_for(op, task.device.kind.data, {})
                yield launch.CallOp(kernel, [scope.name_of(task.outs[index])])

    def _condition(self, task: TaskOp, op: IfOp, scope: Scope) -> Sequence[Operation]:
        """The steps of both branches."""
        regions: list[Region] = []
        for plan in task.bodies:
            body = BodyScope(self, task, op, plan, scope)
            steps = self._in_body(plan, body)
            regions.append(Region(Block([*body.named, *steps])))
        condition = scope.name_of(operand_register(task, 0))
        return [launch.IfOp(condition, *regions)]

    def _in_body(self, plan: PlanOp, scope: Scope) -> list[Operation]:
        """The steps of the tasks of a body, in their order."""
        return [
            step
            for task in in_order(plan)
            if not isinstance(task.op, InputOp | OutputOp) and not does_nothing(task)
            for step in self.of(task, scope)
        ]


def in_order(plan: PlanOp) -> list[TaskOp]:
    """The tasks of a body, as they act one after the other."""
    tasks = plan.tasks
    if any(task.order is None for task in tasks):
        return tasks
    return sorted(tasks, key=lambda task: task.order.value.data if task.order else 0)


def inner_index(value: SSAValue) -> int:
    """The number of the argument of a task's body that a value is."""
    assert isinstance(value, BlockArgument), "a task's body is one op"
    return value.index


@dataclass
class BodyScope(Scope):
    """The local names of the registers of a body's plan."""

    steps: TaskSteps
    task: TaskOp
    op: FlowOp
    plan: PlanOp
    outer: Scope
    named: list[Operation] = field(default_factory=list[Operation])
    """The steps that the names are declared by, and those that number iterations."""
    condition: str = ""
    """The first value that a loop carries, in the iteration before."""

    def __post_init__(self) -> None:
        self._known: dict[SSAValue, str] = {}
        self._first: dict[int, launch.SubviewOp] = {}
        """The places of first values of what it carries, where results are not."""
        self._memory = self.outer.name_of(self.task.outs[-1])
        tasks = self.plan.tasks
        self._inputs = {
            number_of(op): task.outs[0]
            for task in tasks
            if isinstance(op := task.op, InputOp)
        }
        self._outputs = {
            number_of(op): task.ins[0]
            for task in tasks
            if isinstance(op := task.op, OutputOp)
        }
        self._viewed = {
            result: operand
            for task in filter(does_nothing, tasks)
            for pair in views_in(task)
            if self._bytes_of(result := task.outs[pair.result])
            <= self._bytes_of(operand := operand_register(task, pair.operand))
        }
        if isinstance(self.op, LoopOp):
            self._name_ports_of(self.op)
        else:
            self._name_reads(1, 0)
            for number, value in self._outputs.items():
                self._known[value] = self.outer.name_of(self.task.outs[number])

    def _name_ports_of(self, loop: LoopOp) -> None:
        """Name what a loop carries, slices, reads and stacks."""
        carries, slices = len(loop.carried), len(loop.slices)
        first = 0 if loop.trips is None else 1
        if (number := self._inputs.get(0)) is not None:
            self.named.append(launch.NumberOp(self._in_memory(number)))
        for index in range(carries):
            self._name_carried(index)
        for index in range(carries, carries + slices):
            if (value := self._inputs.get(index + 1)) is not None:
                self._part(value, self.operand(first + index), 0, is_slice=True)
        self._name_reads(first + carries + slices, carries + slices + 1)
        for index, value in self._outputs.items():
            if index >= carries:
                target = self.outer.name_of(self.task.outs[index])
                self._part(value, target, 0, is_slice=True)

    def _name_reads(self, operand: int, argument: int) -> None:
        """Name the values that each argument from this one on is all the time."""
        for number, value in self._inputs.items():
            if number >= argument:
                self._known[value] = self.operand(number - argument + operand)

    def operand(self, index: int) -> str:
        """The name of an operand of the op around the body."""
        return self.outer.name_of(operand_register(self.task, index))

    def _name_carried(self, index: int) -> None:
        """Name a value that an iteration takes from the one before, and hands on."""
        after = self._outputs[index]
        before = self._inputs.get(index + 1)
        places = [launch.PlaceAttr(self.outer.name_of(self.task.outs[index]))]
        if self._has_two_places(index):
            assert before is not None, "it is read"
            places.append(self._other_place(index, before))
        read = self.steps.names.make(f"{self._memory}/before")
        written = self.steps.names.make(f"{self._memory}/after")
        self.condition = self.condition or read
        self._known[after] = written
        if before is not None:
            self._known[before] = read
        type = self._type_of(after)
        self.named.append(launch.CarryOp(read, written, places, type))

    def _other_place(self, index: int, before: SSAValue) -> launch.PlaceAttr:
        """The place of a carried value in the memory of the body."""
        assert isinstance(self.op, LoopOp), "asked of loops"
        if self.op.is_bounded or self.op.count % 2 == 0:
            return launch.PlaceAttr(self._memory, offset_of(before))
        # Its first value lies there, which is written before the loop.
        name = self.steps.names.make(f"{self._memory}/first")
        type = self._type_of(before)
        self._first[index] = launch.SubviewOp(
            name, self._memory, offset_of(before), type
        )
        return launch.PlaceAttr(name)

    def _has_two_places(self, index: int) -> bool:
        """Whether a carried value is read in one place and made in another."""
        before = self._inputs.get(index + 1)
        return before is not None and alias_place(self._outputs[index]).root != before

    def first_values(self) -> Iterator[Operation]:
        """The copies of what a loop carries to where its first iteration finds it."""
        assert isinstance(self.op, LoopOp), "asked of loops"
        first = 0 if self.op.trips is None else 1
        for index in range(len(self.op.carried)):
            given = operand_register(self.task, first + index)
            result = self.task.outs[index]
            source = self.outer.name_of(given)
            if (place := self._first.get(index)) is not None:
                yield place
                yield launch.CopyOp(source, place.sym_name.data)
            elif alias_place(given) != alias_place(result):
                yield launch.CopyOp(source, self.outer.name_of(result))

    def name_of(self, register: SSAValue) -> str:
        if (known := self._known.get(register)) is not None:
            return known
        root, shift = alias_place(register)
        if root is register:
            return self._in_memory(register)
        # A carried value has other names before and after it is made in place.
        if (viewed := self._viewed.get(register)) is not None:
            root, shift = viewed, shift - alias_place(viewed).offset
        source = self.name_of(root)
        if shift == 0 and root.type == register.type:
            return self._known.setdefault(register, source)
        return self._part(register, source, shift)

    def _in_memory(self, register: SSAValue) -> str:
        """Name a register that lies in the memory of the body."""
        return self._part(register, self._memory, offset_of(register))

    def _part(
        self, register: SSAValue, source: str, offset: int, *, is_slice: bool = False
    ) -> str:
        """Name a register that is a part of another one, or its slice of a number."""
        owner, type = register.owner, self._type_of(register)
        assert isinstance(owner, RegisterOp), "only these are registers"
        own = owner.register_name.data
        name = self.steps.names.make(f"{self._memory}/{own}")
        step = memref_bytes(type) if is_slice else 0
        self.named.append(launch.SubviewOp(name, source, offset, type, step))
        return self._known.setdefault(register, name)

    def _bytes_of(self, register: SSAValue) -> int:
        return memref_bytes(self._type_of(register))

    def _type_of(self, register: SSAValue) -> MemRefType:
        type = register.type
        assert isinstance(type, DataType), "control registers hold nothing"
        return as_memref(type.payload)


def offset_of(register: SSAValue) -> int:
    """The byte of the memory of a body that a register of its plan starts at."""
    root = register.owner
    assert isinstance(root, RegisterOp), "only this op makes registers"
    assert root.block is not None, "it has a place"
    assert root.offset is not None, "comes with the block"
    block = root.block.owner
    assert isinstance(block, BlockOp), "only this op makes blocks"
    return block.offset.value.data + root.offset.value.data
