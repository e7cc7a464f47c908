"""A plan as it would be with one compute stream a device: to compare memory with."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i64

from penstock.dialects.plan import PlanOp, StreamAttr
from penstock.lowering.analysis.register_usage import Usage
from penstock.lowering.regst.alias_rules import NO_ALIAS
from penstock.lowering.regst.alias_writing import alias_anew


def one_thread_plan(usage: Usage) -> PlanOp:
    """
    A copy of a plan in which all tasks of the compute streams of a device are on one,
    in the order of the plan. If registers were made aliases, they are so anew: one
    stream orders tasks that two do not.
    """
    copy = usage.plan.clone()
    acting = [task for task in copy.tasks if task.kind != "variable"]
    for line in usage.lanes:
        for order, number in enumerate(line):
            task = acting[number]
            task.stream = StreamAttr("compute", 0)
            task.order = IntegerAttr(order, i64)
    if any(x.target or NO_ALIAS in x.attributes for x in copy.registers):
        alias_anew(copy)
    return copy
