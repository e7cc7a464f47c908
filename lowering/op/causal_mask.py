"""
Masks that let a row see keys up to a diagonal only, found in the ops of a job.

They are `op.triangle`s, constants that could be, or what `op.where` chooses by one of
them; reshaped and expanded, if matrices stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from sys import float_info

from xdsl.dialects.builtin import bf16, f16, f32, f64
from xdsl.ir import Attribute, Operation, SSAValue

from penstock.dialects.op.comparison import WhereOp
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.elementwise import AddOp
from penstock.dialects.op.movement import ExpandOp, ReshapeOp
from penstock.dialects.op.triangle import Triangle, TriangleOp, triangle_of
from penstock.dialects.utils.numpy_types import array_of
from penstock.dialects.utils.tensors import tensor_type

LEAST: Mapping[Attribute, float] = {
    bf16: -(2 - 2**-7) * 2.0**127,
    f16: -65504.0,
    f32: -(2 - 2**-23) * 2.0**127,
    f64: -float_info.max,
}
"""The least finite numbers."""


@dataclass(frozen=True)
class Hidden:
    """Scores of which some are replaced by what makes shares of 0."""

    scores: SSAValue
    offset: int
    """Row i keeps those up to column i + offset."""


def splat_of(value: SSAValue) -> float | None:
    """The number that all elements of a constant are."""
    op = value.owner
    return op.splat if isinstance(op, ConstantOp) else None


def found_triangle(value: SSAValue) -> Triangle | None:
    """The numbers of matrices that are triangles, or None for any other value."""
    match op := value.owner:
        case ConstantOp() if op.splat is None:
            return triangle_of(array_of(op.value))
        case TriangleOp():
            return _of_numbers(map(splat_of, op.operands), op.offset.value.data)
        case ReshapeOp() | ExpandOp():
            source = op.operands[0]
            keeps = matrix_of(source) == matrix_of(value) is not None
            return found_triangle(source) if keeps else None
        case WhereOp():
            return _chosen(op)
        case _:
            return None


def matrix_of(value: SSAValue) -> Sequence[int] | None:
    """The last two extents of a value, or None if it has fewer."""
    shape = tensor_type(value).get_shape()
    return shape[-2:] if len(shape) > 1 else None


def _chosen(op: WhereOp) -> Triangle | None:
    """The triangle of two numbers that a triangle of booleans chooses."""
    condition = found_triangle(op.condition)
    numbers = splat_of(op.lhs), splat_of(op.rhs)
    if condition is None or matrix_of(op.condition) != matrix_of(op.result):
        return None
    if not condition.inside:
        numbers = numbers[::-1]
    return _of_numbers(numbers, condition.offset)


def _of_numbers(numbers: Iterable[float | None], offset: int) -> Triangle | None:
    """The triangle of two numbers, or None if one is not known, or they are equal."""
    inside, outside = numbers
    if inside is None or outside is None or inside == outside:
        return None
    return Triangle(inside, outside, offset)


def hides(number: float, scores: SSAValue) -> bool:
    """Whether a score of this number has no share beside any usual one."""
    return number <= LEAST[tensor_type(scores).element_type]


def hidden_of(op: Operation) -> Hidden | None:
    """The scores of which an op hides those after a diagonal, if it does only that."""
    match op:
        case AddOp():
            orders = tuple(op.operands), tuple(reversed(op.operands))
            found = (_hidden_by_sum(op, *operands) for operands in orders)
            return next((hidden for hidden in found if hidden is not None), None)
        case WhereOp():
            return _hidden_by_choice(op)
        case _:
            return None


def _hidden_by_sum(op: AddOp, scores: SSAValue, mask: SSAValue) -> Hidden | None:
    triangle = found_triangle(mask)
    if triangle is None or triangle.inside or matrix_of(mask) != matrix_of(scores):
        return None
    return _hidden(op, scores, triangle)


def _hidden_by_choice(op: WhereOp) -> Hidden | None:
    condition = found_triangle(op.condition)
    if condition is None or matrix_of(op.condition) != matrix_of(op.result):
        return None
    scores, number = op.lhs, op.rhs
    if not condition.inside:
        scores, number = number, scores
    lowest = splat_of(number)
    if lowest is None:
        return None
    return _hidden(op, scores, replace(condition, outside=lowest))


def _hidden(op: AddOp | WhereOp, scores: SSAValue, mask: Triangle) -> Hidden | None:
    """Scores under a mask, if they are as many as before and each row keeps one."""
    if scores.type != op.result.type or mask.offset < 0:
        return None
    return Hidden(scores, mask.offset) if hides(mask.outside, scores) else None
