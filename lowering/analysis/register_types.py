"""
Types, memory and slots of the registers that the tensors of a plan need.

Several passes ask for them before `plan-create-registers` makes these registers. Shapes
are extents, sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerType,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import CollectiveOp, CopyOp, DeviceAttr, ReceiveOp, SendOp
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.regst import DataType, MemoryCaseAttr, RegisterOp
from penstock.dialects.utils.counts import count_of
from penstock.dialects.utils.diagnostics import Finding
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.repetitions import MOST_ACTS
from penstock.dialects.utils.tensors import tensor_type

MAX_SHAPE = "max_shape"
"""The attribute of a task that says the largest shapes of its dynamic results."""


def findings_about_registers(plan: PlanOp) -> Iterator[Finding]:
    """The tasks whose results cannot be given registers."""
    for task in plan.tasks:
        slots = task.attributes.get("slots")
        if slots is not None and requested_slots(task) is None:
            yield task, f"slots must be an i64 of 1 to {MOST_ACTS}, got {slots}"
        elif requested_slots(task) not in (None, 1) and task.kind == "variable":
            yield task, f"a variable has one slot, got {slots}"
        elif slots is not None and not (task.results_ or task.outs):
            yield task, f"a task that hands nothing on has no slots, got {slots}"
        try:
            data_types_of(task)
        except VerifyException as error:
            yield task, str(error)


def requested_slots(task: TaskOp) -> int | None:
    """The attribute `slots` of a task, None without a sound one."""
    if (slots := task.attributes.get("slots")) is None:
        return None
    return count_of(slots)


def data_types_of(task: TaskOp) -> list[DataType]:
    """
    The types of the data in the registers of a task's results, in order. Raises
    `VerifyException` if a result is too large, or is dynamic and has no maximum that
    suits it.
    """
    types = [tensor_type(result) for result in task.results_]
    open_types = [type for type in types if not type.has_static_shape()]
    maxima = iter(max_shapes_of(task, len(open_types)))
    return [
        static_data_type(type)
        if type.has_static_shape()
        else DataType(type, next(maxima))
        for type in types
    ]


@lru_cache(maxsize=1024)
def static_data_type(type: TensorType) -> DataType:
    """The type of the data of tensors, of which there are few in a plan."""
    return DataType(type)


def max_shapes_of(task: TaskOp, count: int) -> Sequence[Sequence[int] | None]:
    """
    The largest shape of each of a task's dynamic results, of which there are so many,
    by its attribute `max_shape`. Raises `VerifyException` if the attribute does not
    suit them.
    """
    given = task.attributes.get(MAX_SHAPE)
    if given is None or not task.results_:
        return [None] * count
    each = list(given) if isa(given, ArrayAttr) else [given] * max(1, count)
    shapes = [extents_of(attribute) for attribute in each]
    if len(shapes) != count or None in shapes:
        raise VerifyException(
            f"{MAX_SHAPE} must be a list of i64 for all dynamic results, or a list of "
            f"these for each, got {given} for {count} of them"
        )
    return shapes


def extents_of(attribute: Attribute) -> Sequence[int] | None:
    """The numbers that an attribute lists, if they are i64."""
    if not isa(attribute, DenseArrayBase[IntegerType]) or attribute.elt_type != i64:
        return None
    return attribute.get_values()


@dataclass
class Homes:
    """
    Where the tensors of a plan lie, before there are registers: the device of each, the
    device that those on a CPU are pinned for, and those that go to or come from another
    rank.
    """

    device: dict[SSAValue, DeviceAttr] = field(default_factory=dict)
    pinned_for: dict[SSAValue, DeviceAttr] = field(default_factory=dict)
    travelling: set[SSAValue] = field(default_factory=set[SSAValue])
    _cases: dict[tuple[DeviceAttr, DeviceAttr | None, bool], MemoryCaseAttr] = field(
        default_factory=dict
    )

    @classmethod
    def of(cls, plan: PlanOp) -> Homes:
        """Where the tensors of this plan lie."""
        homes = cls()
        copies: list[tuple[TaskOp, CopyOp]] = []
        for task in plan.tasks:
            device = task.device
            if isinstance(copy := task.op, CopyOp):
                copies.append((task, copy))
                device = copy.device
            homes.device.update((result, device) for result in task.results_)
            if isinstance(task.op, SendOp):
                homes.travelling.update(task.ins)
            elif isinstance(task.op, CollectiveOp):
                homes.travelling.update((*task.ins, *task.results_))
            elif isinstance(task.op, ReceiveOp):
                homes.travelling.update(task.results_)
        for task, copy in copies:
            source = source_of(task, copy)
            for result in task.results_:
                homes._note_copy(source, result)
                homes._note_copy(result, source)
        return homes

    def differ(self, source: SSAValue, target: SSAValue) -> bool:
        """Whether two tensors lie on different devices."""
        return self.device.get(source) != self.device.get(target)

    def memory_case(self, value: SSAValue) -> MemoryCaseAttr:
        """The memory that a tensor lies in."""
        home = self.device[value], self.pinned_for.get(value), value in self.travelling
        if (case := self._cases.get(home)) is None:
            case = self._cases[home] = memory_case(*home)
        return case

    def _note_copy(self, value: SSAValue, other_side: SSAValue) -> None:
        """Note what `value` is for, one side of a copy, if it is on the host."""
        device, other = self.device.get(value), self.device.get(other_side)
        if device is None or other is None or device.kind.data != "cpu":
            return
        if device.rank != other.rank:
            self.travelling.add(value)
        elif other.kind.data != "cpu":
            self.pinned_for.setdefault(value, other)


def memory_case(
    device: DeviceAttr, pinned_for: DeviceAttr | None, is_travelling: bool
) -> MemoryCaseAttr:
    """
    The memory of a tensor that lies on a device, may be pinned for another one, and may
    go to or come from another rank.
    """
    case, rank = MemoryCaseAttr.of(device), device.rank.data
    if pinned_for is not None:
        case = case.joined(MemoryCaseAttr(rank, "pinned", pinned_for))
    return case.joined(MemoryCaseAttr(rank, "network")) if is_travelling else case


def source_of(task: TaskOp, copy: CopyOp) -> SSAValue:
    """The tensor that a task copies, outside of its body."""
    inside = copy.source
    assert isinstance(inside, BlockArgument), "a task's body is one op"
    return task.ins[inside.index]


def slots_of(task: TaskOp, result: SSAValue, homes: Homes) -> int:
    """The slots of the register of a task's result."""
    if (requested := requested_slots(task)) is not None:
        return requested
    copy = task.op
    if isinstance(copy, ReceiveOp):
        return 2
    if isinstance(copy, CopyOp) and homes.differ(source_of(task, copy), result):
        return 2
    return 1


def header_of(register: RegisterOp, type: DataType) -> RegisterOp:
    """The header of a register that holds tensors of a dynamic type."""
    name = register.register_name.data
    header = RegisterOp(
        f"{name}/header",
        register.memory_case.of_header,
        type.header,
        slots=register.slots.value.data,
        header=name,
    )
    header.location = register.location
    return header


def with_headers(registers: Sequence[RegisterOp]) -> Iterator[RegisterOp]:
    """Registers in order, each with its header behind it if it needs one."""
    for register in registers:
        yield register
        type = register.register.type
        if isinstance(type, DataType) and type.is_dynamic:
            yield header_of(register, type)
