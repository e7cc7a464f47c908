"""The order of a plan: one in which its tasks can act, as they are listed if can be."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

from xdsl.ir import SSAValue

from penstock.dialects.job import DeviceAttr
from penstock.dialects.plan import StreamAttr, TaskOp
from penstock.dialects.regst import RegisterOp
from penstock.lowering.algorithms.graphs import listed_order

Stream: TypeAlias = tuple[DeviceAttr, StreamAttr]


def streams_of(tasks: Sequence[TaskOp]) -> dict[Stream, list[int]]:
    """The indices of the tasks of each stream, by `order` if all of them have one."""
    streams: dict[Stream, list[int]] = {}
    for index, task in enumerate(tasks):
        streams.setdefault((task.device, task.stream), []).append(index)
    for members in streams.values():
        orders = {i: x.value.data for i in members if (x := tasks[i].order) is not None}
        if len(orders) == len(members):
            members.sort(key=orders.__getitem__)
    return streams


def acting_order(
    tasks: Sequence[TaskOp], streams: dict[Stream, list[int]]
) -> list[int]:
    """
    The indices of tasks, each behind those it waits for, else as they are listed. Tasks
    that wait for each other come last.
    """
    producers = {r: i for i, t in enumerate(tasks) for r in (*t.outs, *t.signals)}
    before: list[set[int]] = [set() for _ in tasks]
    for members in streams.values():
        for first, second in pairwise(members):
            before[second].add(first)
    for index, task in enumerate(tasks):
        for register in (*task.ins, *task.waits):
            if register in producers and not is_full_at_start(register):
                before[index].add(producers[register])
    order = listed_order(before)
    return order + sorted({*range(len(tasks))}.difference(order))


def is_full_at_start(register: SSAValue) -> bool:
    """Whether the first act of a reader waits for nobody."""
    owner = register.owner
    if not isinstance(owner, RegisterOp) or owner.initial is None:
        return False
    return owner.initial.value.data > 0
