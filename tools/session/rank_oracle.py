"""
The reference implementation of messages: all ranks in one process, whose tasks hand
each other what messages bring.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from penstock.dialects.job import CollectiveOp, ReceiveOp, SendOp
from penstock.dialects.plan import TaskOp

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array

Needs: TypeAlias = dict[TaskOp, list[TaskOp]]
"""The tasks that each task comes behind."""
Key: TypeAlias = tuple[int, ...]
"""Sender, receiver and tag of a message; the ranks of a collective behind its tag."""


class Exchange:
    """
    The messages of an iteration of some tasks, of whichever ranks. `read` gives the
    operand of a task of a collective.
    """

    def __init__(self, read: Callable[[TaskOp], Array | None]) -> None:
        self._read = read
        self._sent: dict[Key, Array] = {}
        self._groups: dict[Key, list[TaskOp]] = {}
        self._given: dict[Key, dict[int, Array | None]] = {}
        """The operands of all ranks of a collective that has begun."""

    def connect(self, needs: Needs) -> None:
        """
        Let tasks that get a message come behind the one that sends it, and those of a
        collective behind all that one of them needs.
        """
        sends: dict[Key, TaskOp] = {}
        groups: defaultdict[Key, list[TaskOp]] = defaultdict(list)
        for task in needs:
            match op := task.body.block.first_op:
                case SendOp():
                    key = rank_of(task), op.device.rank.data, op.tag.value.data
                    sends[key] = task
                case CollectiveOp():
                    groups[_key(op)].append(task)
                case _:
                    pass
        for task in needs:
            if isinstance(op := task.body.block.first_op, ReceiveOp):
                key = op.device.rank.data, rank_of(task), op.tag.value.data
                needs[task].append(sends[key])
        for group in groups.values():
            together = [x for task in group for x in needs[task]]
            for task in group:
                needs[task] = together
        self._groups = groups

    def send(self, op: SendOp, array: Array) -> None:
        """Take in the tensor of a message."""
        key = rank_of(op.parent_op()), op.device.rank.data, op.tag.value.data
        self._sent[key] = array

    def receive(self, op: ReceiveOp) -> Array:
        """The tensor of a message."""
        key = op.device.rank.data, rank_of(op.parent_op()), op.tag.value.data
        return self._sent[key]

    def collect(self, op: CollectiveOp) -> Array:
        """The flat result of a rank of a collective, the same for all its targets."""
        key = _key(op)
        if key not in self._given:
            # The first that acts may write over what it has given.
            group = self._groups[key]
            self._given[key] = {rank_of(task): self._read(task) for task in group}
        ranks, rank = [*map(int, op.ranks.get_values())], rank_of(op.parent_op())
        given = [self._given[key][each] for each in ranks]
        return _made(op.kind.data, given, ranks.index(rank))


def rank_of(task: object) -> int:
    """The rank that a task is of."""
    assert isinstance(task, TaskOp), "messages stand in tasks"
    return task.device.rank.data


def _key(op: CollectiveOp) -> Key:
    return op.tag.value.data, *map(int, op.ranks.get_values())


def _made(kind: str, given: Sequence[Array | None], place: int) -> Array:
    """The result of the rank at a place of a group."""
    import numpy as np

    if kind == "broadcast":
        (first, *_) = given
        assert first is not None, "the first rank has an operand"
        return first.ravel()
    arrays = [x.ravel() for x in given if x is not None]
    match kind:
        case "all_gather":
            return np.concatenate(arrays)
        case "all_to_all":
            return np.concatenate([np.split(x, len(given))[place] for x in arrays])
        case _:
            # In the precision of the elements, as kernels add them.
            total = np.stack(arrays).sum(0, dtype=arrays[0].dtype, keepdims=True)[0]
            is_whole = kind == "all_reduce"
            return total if is_whole else np.split(total, len(given))[place]
