"""
The plans of bodies, of loops and conditions, which tasks of other plans hold.

Verifiers and the passes that report on plans walk them as they do the plans of a
module.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue

from penstock.dialects.job import InputOp, OutputOp
from penstock.dialects.op.loop import LoopOp
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.regst import RegisterOp
from penstock.dialects.regst.ops import INPUT, OUTPUT
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.aliases import aliases_of
from penstock.lowering.analysis.body_jobs import number_of
from penstock.lowering.analysis.shared_ports import Port


def plans_and_bodies(root: Operation) -> list[PlanOp]:
    """The plans of a module, each after those of the bodies in it."""
    return [x for plan in outermost(root, PlanOp) for x in (*bodies_in(plan), plan)]


def bodies_in(plan: PlanOp) -> Iterator[PlanOp]:
    """The plans of all bodies in a plan, each after those in it."""
    for task in plan.tasks:
        for body in task.bodies:
            yield from bodies_in(body)
            yield body


def is_body(plan: PlanOp) -> bool:
    """Whether a plan is of a body."""
    return isinstance(plan.parent_op(), TaskOp)


def lies_outside(register: RegisterOp) -> bool:
    """
    Whether a register of the plan of a body is of bytes outside of it: what the body
    reads or yields, but for what a loop carries from one iteration to the next, and the
    number of the iteration.
    """
    plan = register.parent_op()
    if register.interface is None or not isinstance(plan, PlanOp) or not is_body(plan):
        return False
    if any(is_carried_on(alias, register) for alias in aliases_of(register)):
        return True
    return register.register not in (x.outs[0] for x in tasks_within(plan))


def values_outside(plan: PlanOp) -> set[SSAValue]:
    """
    The values of the plan of a body, as long as these are no registers, whose bytes lie
    outside of it; none of any other plan.
    """
    if not is_body(plan):
        return set()
    found = set[SSAValue]()
    for task in plan.tasks:
        if isinstance(task.op, InputOp):
            found.update(task.results_)
        elif isinstance(task.op, OutputOp):
            found.update(task.ins)
    return found.difference(*(task.results_ for task in tasks_within(plan)))


def is_carried_on(after: RegisterOp, before: RegisterOp) -> bool:
    """
    Whether registers of the plan of a body are of one value that its loop carries: the
    one that an iteration makes, and the one that the next one reads.
    """
    plan = after.parent_op()
    if after.interface is None or before.interface is None or plan is None:
        return False
    task = plan.parent_op()
    if not isinstance(task, TaskOp) or not isinstance(loop := task.op, LoopOp):
        return False
    numbers = range(len(loop.carried))
    names = ((f"{OUTPUT}{n}", f"{INPUT}{n + 1}") for n in numbers)
    return (after.interface.data, before.interface.data) in names


def tasks_within(plan: PlanOp) -> Iterator[TaskOp]:
    """The inputs of a body whose bytes lie in its memory."""
    task = plan.parent_op()
    assert isinstance(task, TaskOp), "it is the plan of a body"
    if not isinstance(loop := task.op, LoopOp):
        return
    for each in plan.tasks:
        op = each.op
        if isinstance(op, InputOp) and number_of(op) <= len(loop.carried):
            yield each


def port_of(task: TaskOp) -> Port | None:
    """
    The argument of a body, or the value that it yields, that a task is for, once it is
    a register.
    """
    if not isinstance(op := task.op, InputOp | OutputOp) or task.results_:
        return None
    (value,) = (*task.ins, *task.outs)
    if not isinstance(value.owner, RegisterOp):
        return None
    return Port(task.task_name.data, task, op, value, str(task.device))
