"""The order of a plan: one in which its tasks can act, as they are listed if can be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import TypeAlias

from xdsl.ir import SSAValue

from penstock.dialects.job import DeviceAttr
from penstock.dialects.plan import StreamAttr, TaskOp
from penstock.dialects.regst import RegisterOp

Stream: TypeAlias = tuple[DeviceAttr, StreamAttr]


def streams_of(tasks: Sequence[TaskOp]) -> dict[Stream, list[int]]:
    """The indices of the tasks of each stream, in order."""
    streams: dict[Stream, list[int]] = {}
    for index, task in enumerate(tasks):
        streams.setdefault((task.device, task.stream), []).append(index)
    order = [0 if task.order is None else task.order.value.data for task in tasks]
    return {s: sorted(members, key=order.__getitem__) for s, members in streams.items()}


def acting_order(
    tasks: Sequence[TaskOp], streams: dict[Stream, list[int]]
) -> list[int]:
    """
    The indices of tasks, each behind those it waits for, else as they are listed. Tasks
    that wait for each other come last.
    """
    producers = {r: i for i, t in enumerate(tasks) for r in (*t.outs, *t.signals)}
    edges = {edge for members in streams.values() for edge in pairwise(members)}
    for index, task in enumerate(tasks):
        for register in (*task.ins, *task.waits):
            if register in producers and not is_full_at_start(register):
                edges.add((producers[register], index))
    followers: dict[int, list[int]] = defaultdict(list)
    waiting = [0] * len(tasks)
    for first, second in edges:
        followers[first].append(second)
        waiting[second] += 1
    ready = [index for index, count in enumerate(waiting) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        order.append(index := heappop(ready))
        for follower in followers[index]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heappush(ready, follower)
    return order + [index for index, count in enumerate(waiting) if count]


def is_full_at_start(register: SSAValue) -> bool:
    """Whether the first act of a reader waits for nobody."""
    owner = register.owner
    if not isinstance(owner, RegisterOp) or owner.initial is None:
        return False
    return owner.initial.value.data > 0
