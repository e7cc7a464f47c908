"""Making tasks of ops, one op a task, and bringing their results to other devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntAttr,
    StringAttr,
    UnitAttr,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from penstock.dialects.job import CollectiveOp, CopyOp, DeviceAttr
from penstock.dialects.op.tensor_op import can_fail
from penstock.dialects.plan import StreamAttr, TaskOp, YieldOp
from penstock.lowering.algorithms.unique_names import UniqueNames
from penstock.lowering.analysis.op_devices import zone_of
from penstock.lowering.analysis.op_layouts import OPERANDS, RESULTS
from penstock.lowering.analysis.register_types import MAX_SHAPE

Waits: TypeAlias = tuple[TaskOp, ...]
"""Tasks that must be over before another one may act, each once."""

DONE = (MAX_SHAPE, "placement", RESULTS, OPERANDS)
"""The attributes of ops that have done their work once there are tasks."""


class TaskBuilder:
    """
    Makes the tasks of one plan. Ops are given with operands that are results of tasks.
    """

    def __init__(self) -> None:
        # Attributes are shared by the tasks: to make them anew takes longer than all
        # the rest.
        self._streams = {
            kind: StreamAttr(StringAttr(kind), IntAttr(0))
            for kind in ("compute", "copy_d2h", "copy_h2d", "network")
        }
        self._segments: dict[int, DenseArrayBase] = {}
        self._names = UniqueNames()
        self._device: dict[SSAValue, DeviceAttr] = {}
        self._copies: dict[tuple[SSAValue, DeviceAttr, Waits], SSAValue] = {}
        self.tasks: list[TaskOp] = []
        self.waits: dict[TaskOp, Waits] = {}
        """The tasks that tasks wait for beside their operands."""
        self.waiting: Waits = ()
        """The waits of all tasks that are made now, and have operands."""

    def name(self, base: str) -> str:
        """A name that no task has, and no other one will get."""
        return self._names.make(base)

    def device_of(self, value: SSAValue) -> DeviceAttr:
        """The device that a result of a task lies on."""
        return self._device[value]

    def add(
        self,
        op: Operation,
        name: str,
        device: DeviceAttr,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> TaskOp:
        """Move an op into a task of its own, whose results lie on `device`."""
        attributes = dict(attributes or {})
        if (slots := op.attributes.pop("slots", None)) is not None:
            attributes["slots"] = slots
        for key in DONE:
            op.attributes.pop(key, None)
        runs_on, kind = device, "compute"
        if isinstance(op, CopyOp):
            source = self._device[op.source]
            runs_on, kind = copy_stream(source, device)
        elif isinstance(op, CollectiveOp):
            kind = "network"
        read = tuple(dict.fromkeys(op.operands))
        properties: dict[str, Attribute] = {
            "task_name": StringAttr(name),
            "device": runs_on,
            "stream": self._streams[kind],
            "operandSegmentSizes": self._segments_of(len(read)),
        }
        if can_fail(op):
            properties["can_fail"] = UnitAttr()
        task = TaskOp.create(
            operands=read,
            result_types=op.result_types,
            properties=properties,
            attributes=attributes,
            regions=[Region(body_of(op, read))],
            location=op.location,
        )
        for result, outer in zip(op.results, task.results, strict=True):
            outer.name_hint = result.name_hint
            self._device[outer] = device
        if isinstance(op, CopyOp):
            key = (read[0], zone_of(device), self.waiting)
            self._copies.setdefault(key, task.results[0])
        if read and self.waiting:
            self.waits[task] = self.waiting
        self.tasks.append(task)
        return task

    def bring(self, value: SSAValue, device: DeviceAttr, base: str) -> SSAValue:
        """
        A tensor in the memory that a device works in, copied there if it is not there
        yet: from one device to another by way of their hosts.
        """
        source, zone = self._device[value], zone_of(device)
        if zone_of(source) == zone:
            return value
        if (known := self._copies.get((value, zone, self.waiting))) is not None:
            return known
        is_host = zone.kind.data == "cpu"
        if not is_host and zone_of(source) != zone.host:
            return self.bring(self.bring(value, zone.host, base), device, base)
        if is_host and source.rank != zone.rank and zone_of(source) != source.host:
            return self.bring(self.bring(value, source.host, base), device, base)
        name = self.name(f"{base}.copy{at(zone)}")
        copy = CopyOp(value, zone)
        maker = value.owner
        assert isinstance(maker, TaskOp), "they have been made by tasks"
        copy.location = maker.location
        copy.result.name_hint = value.name_hint
        return self.add(copy, name, zone).results[0]

    def _segments_of(self, reads: int) -> DenseArrayBase:
        if (known := self._segments.get(reads)) is not None:
            return known
        sizes = DenseArrayBase.from_list(i32, [reads, 0, 0, 0])
        return self._segments.setdefault(reads, sizes)


def at(device: DeviceAttr) -> str:
    """The end of the name of a task that says where it runs, such as `@0.cpu.1`."""
    return f"@{device.rank.data}.{device.kind.data}.{device.index.data}"


def copy_stream(source: DeviceAttr, target: DeviceAttr) -> tuple[DeviceAttr, str]:
    """The device whose stream a copy between two devices runs on, and its kind."""
    if target.kind.data != "cpu":
        return target, "copy_h2d"
    if source.kind.data != "cpu":
        return source, "copy_d2h"
    return target, "compute"


def body_of(op: Operation, read: tuple[SSAValue, ...]) -> Block:
    """The body of the task of an op that reads these values, with the op moved in."""
    block = Block(arg_types=[value.type for value in read])
    inside: dict[SSAValue, SSAValue] = dict(zip(read, block.args, strict=True))
    for value, arg in zip(read, block.args, strict=True):
        arg.name_hint = value.name_hint
    if op.parent is not None:
        op.detach()
    op.operands = [inside[value] for value in op.operands]
    block.add_op(op)
    block.add_op(YieldOp.create(operands=op.results))
    return block
