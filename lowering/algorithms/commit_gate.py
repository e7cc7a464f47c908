"""Gates of commits: the tasks that a commit waits for, and the updates behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.lowering.algorithms.marked_graph import MarkedGraph

AHEAD = 2
"""The number of acts that a task which can fail may be ahead of the commit."""


class Gate(NamedTuple):
    """The tasks that a commit waits for, and those that wait for it."""

    uncertain: Sequence[int]
    updates: Sequence[int]


def gate_of(
    graph: MarkedGraph,
    uncertain: Sequence[int],
    updates: Sequence[int],
    *,
    is_remote: bool = False,
) -> Gate:
    """
    Those of the updates that some uncertain task does not come before, or all of them
    if these are remote, and the uncertain tasks that come before no other one.
    """
    bit = {task: 1 << i for i, task in enumerate(uncertain)}
    place = {task: 1 << i for i, task in enumerate(updates)}
    reached = graph.after([place.get(task, 0) for task in range(graph.size)])
    behind_all = -1
    for task in uncertain:
        behind_all &= reached[task]
    waiting = [x for x in updates if is_remote or not behind_all & place[x]]
    if not waiting:
        return Gate((), ())
    followed = graph.after([bit.get(task, 0) for task in range(graph.size)])
    return Gate([task for task in uncertain if not followed[task]], waiting)
