"""
The meaning of aliases: ops that have nothing to do, and registers that readers hold.

Places are relative to the register that a chain of aliases ends at, so that nothing
here needs memory to be planned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from xdsl.ir import BlockArgument, SSAValue

from penstock.dialects.op.multirate import RateOp, RepeatOp, UnpackOp
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.plan import PlanOp, TaskOp, YieldOp
from penstock.dialects.regst import (
    DataType,
    MemoryCaseAttr,
    Place,
    RegisterOp,
    alias_place,
)


def pairs_of(task: TaskOp) -> Sequence[InPlacePair]:
    """The in-place pairs of a task's op; none if the task does not produce results."""
    return () if (op := _producer(task)) is None else op.in_place_pairs()


def views_in(task: TaskOp) -> Sequence[InPlacePair]:
    """Those pairs whose result has the operand's bytes."""
    return () if (op := _producer(task)) is None else op.views()


def _producer(task: TaskOp) -> TensorOp | None:
    """The op of a task if its results are the task's."""
    op = task.op
    if not isinstance(op, TensorOp) or not isinstance(end := op.next_op, YieldOp):
        return None
    return op if tuple(end.values) == tuple(op.results) else None


def made_by(task: TaskOp) -> Sequence[SSAValue]:
    """The registers that a task writes, or the values it produces if there are none."""
    return task.outs or task.results_


def operand_register(task: TaskOp, operand: int) -> SSAValue:
    """The register, or value, that an operand of a task's op is read from."""
    inside = task.op.operands[operand]
    assert isinstance(inside, BlockArgument), "a task's body is one op"
    # The first operands of a task are `ins`, which takes long to ask for by name.
    return task.operands[inside.index]


def lies_as_paired(task: TaskOp, pair: InPlacePair) -> bool:
    """Whether a result lies where a pair says that it may."""
    root, offset = alias_place(operand_register(task, pair.operand))
    return alias_place(task.outs[pair.result]) == Place(root, offset + pair.offset)


def does_nothing(task: TaskOp) -> bool:
    """Whether all that a task computes lies where it should already."""
    if isinstance(task.op, RepeatOp | UnpackOp):
        return shows_frames(task)
    views = views_in(task)
    if {pair.result for pair in views} != set(range(len(task.outs))):
        return False
    return bool(views) and all(lies_as_paired(task, pair) for pair in views)


def shows_frames(task: TaskOp) -> bool:
    """Whether the pieces that a task makes of one are slots in that one's."""
    op, source, result = task.op, task.ins[0].owner, task.outs[0].owner
    assert isinstance(op, RateOp), "asked of these"
    if not isinstance(source, RegisterOp) or not isinstance(result, RegisterOp):
        return False
    slots = source.slots.value.data * op.taken
    return result.target is source.register and result.slots.value.data == slots


def aliases_of(register: RegisterOp) -> Iterator[RegisterOp]:
    """The registers that lie on one, directly or by way of others."""
    for use in register.register.uses:
        if isinstance(use.operation, RegisterOp):
            yield use.operation
            yield from aliases_of(use.operation)


def views_of(task: TaskOp) -> Sequence[InPlacePair]:
    """
    The pairs of a task's op whose results find the bytes of operands where they lie:
    they are these bytes, or are written over them.
    """
    return [
        pair
        for pair in pairs_of(task)
        if (pair.view or same_type(task, pair)) and lies_as_paired(task, pair)
    ]


def same_type(task: TaskOp, pair: InPlacePair) -> bool:
    """Whether a result has the type of the operand that it is paired with."""
    register = operand_register(task, pair.operand)
    return register.type == task.outs[pair.result].type


def is_view(task: TaskOp, register: SSAValue) -> bool:
    """Whether a result of a task lies as a view of what it reads."""
    return any(
        task.outs[pair.result] == register and lies_as_paired(task, pair)
        for pair in views_in(task)
    )


def joined_case(cases: Sequence[MemoryCaseAttr]) -> MemoryCaseAttr | None:
    """Memory that serves as each of these; None if there is none."""
    try:
        return reduce(MemoryCaseAttr.joined, cases)
    except ValueError:
        return None


def bytes_of(register: SSAValue) -> int:
    """The bytes of one slot of a data register."""
    assert isinstance(register.type, DataType), "control registers have no bytes"
    return register.type.size


def share_bytes(a: SSAValue, b: SSAValue) -> bool:
    """Whether two data registers have bytes in common because of aliases."""
    (root, start), (other, begin) = alias_place(a), alias_place(b)
    if root != other:
        return False
    return start < begin + bytes_of(b) and begin < start + bytes_of(a)


class Holds:
    """
    The registers that the readers of each register hold besides it: of all sources of
    its bytes, over the same bytes, the first one written. The writer of that waits
    until they are done, and all later writes there wait for that writer.
    """

    def __init__(self, plan: PlanOp) -> None:
        self._sources: dict[SSAValue, Sequence[SSAValue]] = {}
        """The registers directly below each register that aliases are involved in."""
        self._held: dict[SSAValue, tuple[SSAValue, ...]] = {}
        for task in plan.tasks:
            ins, outs, _, _ = task.ports
            for register in outs:
                # Most have no alias near: they are not even kept.
                near = [s for s in ins if share_bytes(s, register)]
                if near and task.kind != "variable":
                    self._sources[register] = list(dict.fromkeys(near))

    def of(self, register: SSAValue) -> tuple[SSAValue, ...]:
        """
        The registers that a reader of a register holds besides it, in a fixed order.
        """
        pending = [register]
        while pending:
            top = pending[-1]
            sources = self._sources.get(top, ())
            unknown = [s for s in sources if s not in self._held]
            pending += unknown
            if not unknown:
                first = [self._held[source] or (source,) for source in sources]
                self._held[top] = tuple(
                    dict.fromkeys(s for held in first for s in held)
                )
                pending.pop()
        return self._held[register]
