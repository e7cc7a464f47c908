"""Control registers: edges that order two tasks of a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import SSAValue

from penstock.dialects.job import DeviceAttr
from penstock.dialects.plan import PlanOp, Ports, TaskOp
from penstock.dialects.regst import ControlType, MemoryCaseAttr, RegisterOp
from penstock.lowering.algorithms.unique_names import UniqueNames


class ControlEdge(NamedTuple):
    """The second task acts after the first, which is at most `slots` acts ahead."""

    first: TaskOp
    second: TaskOp
    slots: int = 1


def write_control_edges(plan: PlanOp, edges: Sequence[ControlEdge]) -> None:
    """Add a control register `<first> -> <second>` for each edge."""
    names = UniqueNames(register.register_name.data for register in plan.registers)
    waits: dict[TaskOp, list[SSAValue]] = defaultdict(list)
    signals: dict[TaskOp, list[SSAValue]] = defaultdict(list)
    tasks, kind = plan.tasks, ControlType()
    cases: dict[DeviceAttr, MemoryCaseAttr] = {}
    for first, second, slots in edges:
        if (device := second.device) not in cases:
            cases[device] = MemoryCaseAttr.of(device.host)
        register = RegisterOp(
            names.make(f"{first.task_name.data} -> {second.task_name.data}"),
            cases[device],
            kind,
            slots=slots,
        )
        plan.body.block.insert_op_before(register, tasks[0])
        signals[first].append(register.register)
        waits[second].append(register.register)
    for task in tasks:
        if task in waits or task in signals:
            write_control(task, waits[task], signals[task])


def write_control(
    task: TaskOp, waits: Sequence[SSAValue], signals: Sequence[SSAValue]
) -> None:
    """Make a task wait for and signal further registers."""
    ins, outs, has_waits, has_signals = task.ports
    task.connect(Ports(ins, outs, (*has_waits, *waits), (*has_signals, *signals)))
