"""
Keys and values that are repeated for groups of heads, found in the ops of a job.

A repeat is an `op.expand` of one axis, between reshapes or not: each head is there
several times, one after the other. The repeated tensor need not be made: if the axis of
heads is two axes, groups and heads of a group, it is broadcast along the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation, SSAValue

from penstock.dialects.op.movement import ExpandOp, ReshapeOp
from penstock.dialects.utils.tensors import tensor_type


@dataclass(frozen=True)
class Repeat:
    """A value whose elements along an axis are repeated, each one several times."""

    value: SSAValue
    axis: int
    """That of what comes of it."""
    times: int
    passed: tuple[Operation, ...]
    """The ops that repeat, from the last to the first."""
    shape: tuple[int, ...]
    """That of what comes of it, without repeats: what the value is viewed as."""


def split(shape: Sequence[int], axis: int, first: int, second: int) -> list[int]:
    """A shape with two axes in place of one."""
    return [*shape[:axis], first, second, *shape[axis + 1 :]]


def split_order(order: Sequence[int], place: int) -> tuple[int, ...]:
    """An order of axes where a place, and the axis there, are two."""
    axis = order[place]
    moved = [other + (other > axis) for other in order]
    return (*moved[: place + 1], axis + 1, *moved[place + 1 :])


def repeat_of(value: SSAValue, user: Operation) -> Repeat | None:
    """The repeat of a value that only one op uses, or None without one."""
    shape, passed = tensor_type(value).get_shape(), list[Operation]()
    while isinstance(op := value.owner, ReshapeOp | ExpandOp):
        if [use.operation for use in value.uses] != [user]:
            return None
        passed.append(op)
        if isinstance(op, ExpandOp):
            return _repeat(op, shape, tuple(passed))
        value, user = op.operands[0], op
    return None


def _repeat(
    op: ExpandOp, shape: Sequence[int], passed: tuple[Operation, ...]
) -> Repeat | None:
    """An `op.expand` as the repeat of a shape's axis, if it is one."""
    after = tensor_type(op.result).get_shape()
    own = tensor_type(op.source).get_shape()
    before = [*[1] * (len(after) - len(own)), *own]
    grown = [n for n in range(len(after)) if after[n] != before[n]]
    if len(grown) != 1 or 0 in after:
        return None
    times, inner = after[grown[0]], prod(after[grown[0] + 1 :])
    for axis, extent in enumerate(shape):
        if prod(shape[axis + 1 :]) == inner and extent % times == 0:
            base = (*shape[:axis], extent // times, *shape[axis + 1 :])
            return Repeat(op.source, axis, times, passed, base)
    return None
