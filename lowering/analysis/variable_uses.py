"""Uses of variables by the tasks of a plan: assignments, and reads under any name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.ir import BlockArgument, SSAValue

from penstock.dialects.job import AssignOp, StateOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.plan import TaskOp
from penstock.dialects.regst import RegisterOp


def target_of(task: TaskOp) -> SSAValue | None:
    """The register that a task assigns to, if it does."""
    if isinstance(op := task.op, AssignOp) and isinstance(op.target, BlockArgument):
        return task.ins[op.target.index]
    return None


def assigns_state(task: TaskOp) -> bool:
    """Whether a task assigns to a state, which nothing but its job knows."""
    owner = None if (target := target_of(task)) is None else target.owner
    if isinstance(owner, RegisterOp):
        users = (use.operation for use in owner.register.uses)
        makers = (x for x in users if isinstance(x, TaskOp) and is_state(x))
        return any(owner.register in x.outs for x in makers)
    return isinstance(owner, TaskOp) and is_state(owner)


def is_state(task: TaskOp) -> bool:
    """Whether a task is a state."""
    return isinstance(task.op, StateOp)


def shown_by(task: TaskOp, value: SSAValue) -> Iterator[SSAValue]:
    """The results of a task that may be views of something that it reads."""
    op = task.op
    if not isinstance(op, TensorOp):
        return
    for pair in op.views():
        inside = op.operands[pair.operand]
        if isinstance(inside, BlockArgument) and task.ins[inside.index] is value:
            yield (task.outs or task.results_)[pair.result]


def names_of(
    variable: SSAValue, readers: Mapping[SSAValue, list[TaskOp]]
) -> dict[SSAValue, None]:
    """A variable, and all values that may be views of it, as they are found."""
    names = {variable: None}
    pending = [variable]
    for value in pending:
        for task in readers.get(value, ()):
            new = [shown for shown in shown_by(task, value) if shown not in names]
            names.update(dict.fromkeys(new))
            pending += new
    return names


def readers_of(
    variable: SSAValue, readers: Mapping[SSAValue, list[TaskOp]]
) -> list[TaskOp]:
    """The tasks that read a variable, under any name, as they are found."""
    names = names_of(variable, readers)
    return list(dict.fromkeys(x for name in names for x in readers.get(name, ())))
