"""
Updates in place: tasks that may write the new value of a variable over the old one.

An assignment says so (`in_place`): `plan-order-updates` marks those that allow it. Then
the task that makes the value counts as the one that writes the variable, for all that
has to come before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xdsl.ir import BlockArgument, SSAValue

from penstock.dialects.job import AssignOp
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.plan import TaskOp
from penstock.lowering.analysis.aliases import made_by, operand_register, pairs_of
from penstock.lowering.analysis.in_place_hints import wanted_pairs
from penstock.lowering.analysis.variable_uses import assigns_state


class Update(NamedTuple):
    """
    A task that may write a result over a variable, and the one that assigns that result
    to the variable.
    """

    writer: TaskOp
    assign: TaskOp
    result: int
    """The number of the result."""
    variable: SSAValue

    @property
    def value(self) -> SSAValue:
        """The result, or its register."""
        return made_by(self.writer)[self.result]


def assigned_by(task: TaskOp) -> tuple[SSAValue, SSAValue] | None:
    """The value that a task assigns and the variable, or the registers of these."""
    op = task.op
    # Not `isinstance`, which xDSL makes slow: few tasks assign.
    if type(op) is not AssignOp:
        return None
    value, target = op.value, op.target
    if not isinstance(value, BlockArgument) or not isinstance(target, BlockArgument):
        return None
    return task.ins[value.index], task.ins[target.index]


def possible_updates(tasks: Sequence[TaskOp]) -> Iterator[Update]:
    """
    The assignments of a value that nothing else reads, made by a task whose op can
    write it over the variable, on the device of that, into one slot.
    """
    makers = {value: task for task in tasks for value in made_by(task)}
    readers: dict[SSAValue, int] = {}
    for task in tasks:
        for value in task.ins:
            readers[value] = readers.get(value, 0) + 1
    for task in tasks:
        if (found := assigned_by(task)) is None or assigns_state(task):
            continue
        value, variable = found
        writer = makers.get(value)
        if writer is None or readers[value] != 1 or writer.device != task.device:
            continue
        result = list(made_by(writer)).index(value)
        if any(pair.result == result for pair in pairs_over(writer, variable)):
            yield Update(writer, task, result, variable)


def pairs_over(task: TaskOp, variable: SSAValue) -> list[InPlacePair]:
    """The pairs of results of a task and a variable that it can write them over."""
    op = task.op
    if not isinstance(op, TensorOp):
        return []
    return [
        pair
        for pair in wanted_pairs(op, pairs_of(task))
        if not pair.view and operand_register(task, pair.operand) is variable
    ]


def marked_updates(tasks: Sequence[TaskOp]) -> list[Update]:
    """The possible updates in place that assignments say are to be."""
    if not any(is_marked(task) for task in tasks):
        return []
    return [x for x in possible_updates(tasks) if is_marked(x.assign)]


def is_marked(task: TaskOp) -> bool:
    """Whether a task assigns in place."""
    return isinstance(task.op, AssignOp) and task.op.in_place is not None


def writers_of_variables(tasks: Sequence[TaskOp]) -> list[TaskOp]:
    """
    The tasks that write variables, as they are listed: those that assign, or instead
    those that may do so in place. States are none: only their job knows them.
    """
    instead = {update.assign: update.writer for update in marked_updates(tasks)}
    assigns = (task for task in tasks if isinstance(task.op, AssignOp))
    found = {instead.get(x, x) for x in assigns if not assigns_state(x)}
    return [task for task in tasks if task in found]
