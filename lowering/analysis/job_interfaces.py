"""
Interfaces: tensors that the jobs of one plan pass to each other. The passes that link
jobs and make programs ask for them, and the verifier of plans.

An output of one job is the input of that name of others. It lies there already, so that
no feed writes it, and the caller does not fetch it either (a job that takes it out
does). An input that no other job makes is fed, an output that no other job takes is
fetched.
"""

from __future__ import annotations

from collections import defaultdict

from xdsl.ir import SSAValue

from penstock.dialects.job import InputOp, OutputOp
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.regst import RegisterOp


class Interfaces:
    """The inputs and outputs of a plan that are passed on between its jobs."""

    def __init__(self, plan: PlanOp) -> None:
        self._makers: dict[str, set[str]] = defaultdict(set)
        self._takers: dict[str, set[str]] = defaultdict(set)
        for task in plan.tasks:
            if task.job is not None and (name := interface_of(task)) is not None:
                is_input = isinstance(task.op, InputOp)
                jobs = self._takers if is_input else self._makers
                jobs[name].add(task.job.data)

    def is_handed_on(self, task: TaskOp) -> bool:
        """
        Whether a task is an input that another job makes, or an output that another job
        takes.
        """
        if task.job is None or (name := interface_of(task)) is None:
            return False
        is_input = isinstance(task.op, InputOp)
        jobs = self._makers if is_input else self._takers
        return bool(jobs.get(name, set()) - {task.job.data})


def interface_of(task: TaskOp) -> str | None:
    """The interface that an input writes, or an output reads, under its own name."""
    match task.op:
        case InputOp() as op:
            registers = task.outs
        case OutputOp() as op:
            registers = task.ins
        case _:
            return None
    name = op.port.data
    return name if any(is_interface(value, name) for value in registers) else None


def is_interface(register: SSAValue, name: str) -> bool:
    """Whether a register is the interface of some name."""
    owner = register.owner
    if not isinstance(owner, RegisterOp) or owner.interface is None:
        return False
    return owner.interface.data == name
