"""
The reference implementation of plans with memory: their ops evaluated in NumPy, on the
bytes of chunks.

Each task reads its registers' bytes and writes those of its results, in the order of
streams and events. So what overwrites another one's bytes too early gives wrong
outputs, as it would on a machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from xdsl.ir import SSAValue

from penstock.dialects.job import InputOp, VariableOp
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.regst import BlockOp, ChunkOp, DataType, RegisterOp
from penstock.dialects.utils.numpy_types import dtype_of
from penstock.tools.session.oracle import Evaluation, written_by
from penstock.tools.session.rank_oracle import Needs

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array
    from penstock.tools.session.model import Model


class Place(NamedTuple):
    """The first byte of a register's first slot."""

    chunk: ChunkOp
    offset: int


def has_places(plan: PlanOp) -> bool:
    """Whether registers of a plan lie somewhere."""
    return any(isinstance(op, BlockOp) for op in plan.body.block.ops)


class PlacedEvaluation(Evaluation):
    """An evaluation that keeps values of registers in the bytes of their chunks."""

    CYCLE: ClassVar = "wait for"

    def __init__(self, model: Model, inputs: Mapping[str, Array]):
        super().__init__(model, inputs)
        self._chunks: dict[ChunkOp, bytearray] = {}

    def read(self, value: SSAValue) -> Array:
        """The array of the bytes of a register as they are now."""
        if (spot := self._spot(value)) is None:
            return super().read(value)
        import numpy as np

        memory, start, type = spot
        payload = type.payload
        dtype, shape = dtype_of(payload.element_type), payload.get_shape()
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(memory, dtype, count, start).reshape(shape).copy()

    def write(self, value: SSAValue, array: Array) -> None:
        """Write the bytes of a register, whose value is kept under its name, too."""
        super().write(value, array)
        if (spot := self._spot(value)) is not None:
            memory, start, _ = spot
            data = array.tobytes()
            memory[start : start + len(data)] = data

    def run_task(self, task: TaskOp) -> None:
        """
        Evaluate the ops of a task. An input that an earlier job of the plan has made
        where this one reads it is not brought in.
        """
        op, is_merged = task.body.block.first_op, task.job is not None
        if is_merged and isinstance(op, InputOp) and op.port.data in self._made:
            (register,) = task.outs
            if _is_interface(register):
                super().write(register, self.read(register))
                return
        super().run_task(task)

    def needs_of(self, plan: PlanOp) -> Needs:
        """
        The tasks of a plan, each behind those before it on its stream, and those whose
        data or events it waits for; variables come first.
        """
        needs = {task: list(_needs_of_events(task)) for task in plan.tasks}
        for before, after in _pairs_on_streams(plan):
            needs[after].append(before)
        first = [task for task in needs if _is_variable(task)]
        for task in needs:
            if not _is_variable(task):
                needs[task] += first
        return needs

    def _spot(self, value: SSAValue) -> tuple[bytearray, int, DataType] | None:
        """The memory of a register's first slot; None where there is no place."""
        owner, type = value.owner, value.type
        if not isinstance(owner, RegisterOp) or not isinstance(type, DataType):
            return None
        if not type.payload.has_static_shape() or (place := place_of(owner)) is None:
            return None
        size = place.chunk.size.value.data
        memory = self._chunks.setdefault(place.chunk, bytearray(size))
        return memory, place.offset, type


def place_of(register: RegisterOp) -> Place | None:
    """Where a register lies, or that which it is an alias of."""
    own = 0 if register.offset is None else register.offset.value.data
    if register.target is not None:
        target = register.target.owner
        assert isinstance(target, RegisterOp), "checked by the verifier"
        place = place_of(target)
        return None if place is None else Place(place.chunk, place.offset + own)
    if register.block is None:
        return None
    block = register.block.owner
    assert isinstance(block, BlockOp), "checked by the verifier"
    chunk = block.chunk.owner
    assert isinstance(chunk, ChunkOp), "checked by the verifier"
    return Place(chunk, block.offset.value.data + own)


def _is_interface(register: SSAValue) -> bool:
    owner = register.owner
    return isinstance(owner, RegisterOp) and owner.interface is not None


def _is_variable(task: TaskOp) -> bool:
    return isinstance(task.body.block.first_op, VariableOp)


def _needs_of_events(task: TaskOp) -> Iterator[TaskOp]:
    """The tasks whose data or events a task waits for in the first iteration."""
    for register in (*task.ins, *task.waits):
        owner = register.owner
        if isinstance(owner, RegisterOp) and owner.initial is not None:
            continue
        for use in register.uses:
            other = use.operation
            if not isinstance(other, TaskOp) or other is task:
                continue
            if register in (*written_by(other), *other.signals):
                yield other


def _pairs_on_streams(plan: PlanOp) -> Iterator[tuple[TaskOp, TaskOp]]:
    """Each two tasks that follow each other on a stream."""
    streams: dict[object, list[tuple[int, TaskOp]]] = {}
    for task in plan.tasks:
        if task.order is not None:
            row = streams.setdefault((task.device, task.stream), [])
            row.append((task.order.value.data, task))
    for row in streams.values():
        tasks = [task for _, task in sorted(row, key=lambda entry: entry[0])]
        yield from pairwise(tasks)
