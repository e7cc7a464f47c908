"""Gradients through the ops of a body: of groups, waves, conditions and loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from xdsl.ir import Block, Operation, SSAValue

from penstock.dialects.op.canonicalization import has_floats
from penstock.dialects.op.elementwise import AddOp
from penstock.dialects.op.linear import MatmulOp
from penstock.dialects.op.movement import ReshapeOp
from penstock.dialects.op.reduction import ReduceSumOp
from penstock.dialects.utils.gradients import NoGradient
from penstock.dialects.utils.tensors import tensor_type

if TYPE_CHECKING:
    from penstock.dialects.utils.gradients import GradientBuilder


def gradients_of_body(
    o: GradientBuilder,
    ops: Sequence[Operation],
    by: Sequence[SSAValue],
    seeds: Iterable[tuple[SSAValue, SSAValue | None]],
) -> list[SSAValue | None]:
    """
    The gradients by some values that ops read, given those of values that they make, or
    that they read; None for one that is zero.

    Raises NoGradient if an op between has none.
    """
    terms: dict[SSAValue, SSAValue] = {}

    def add(value: SSAValue, grad: SSAValue | None) -> None:
        if grad is not None:
            terms[value] = o.add(terms[value], grad) if value in terms else grad

    for value, grad in seeds:
        add(value, grad)
    needs = set(by)
    path: list[Operation] = []
    for op in ops:
        if not needs.isdisjoint(op.operands):
            path.append(op)
            needs.update(filter(has_floats, op.results))
    for op in reversed(path):
        grads = [terms.get(result) for result in op.results]
        if all(grad is None for grad in grads):
            continue
        for operand, grad in zip(op.operands, _within(o, op, grads), strict=True):
            if operand in needs:
                add(operand, grad)
    return [terms.get(value) for value in by]


def _within(
    o: GradientBuilder, op: Operation, grads: Sequence[SSAValue | None]
) -> Sequence[SSAValue | None]:
    """The gradients of an op of a body. Raises NoGradient with its name."""
    try:
        return o.gradient_of(op, grads)
    except NoGradient as error:
        raise NoGradient(f"'{op.name}' in it has none: {error}") from error


################################################################################
# Sums over iterations                                                         #
################################################################################


class SumOfAll(NamedTuple):
    """
    A value that is a sum over iterations, made of tensors that have one of its factors
    for each: a product of matrices, or a sum of rows.
    """

    factors: Sequence[SSAValue]

    def of(self, o: GradientBuilder, tensors: Sequence[SSAValue]) -> SSAValue:
        """The sum, of the tensors of the factors."""
        factors = zip(self.factors, tensors, strict=True)
        rows = [self._rows(o, factor, tensor) for factor, tensor in factors]
        if len(rows) == 2:
            return o.matmul(*rows, transpose_a=True)
        return o.sum(rows[0], [0])

    def _rows(self, o: GradientBuilder, factor: SSAValue, tensor: SSAValue) -> SSAValue:
        """The rows that a factor has in all iterations, as one matrix."""
        rows, width = o.shape(factor)
        return o.reshape(tensor, [o.shape(tensor)[0] * rows, width])


def sums_of_all(block: Block, value: SSAValue) -> list[SumOfAll] | None:
    """
    The terms of a value of a body, if each is the product of a transposed matrix and
    another one, or the sum of the rows of a matrix; else None. Sums of these over
    iterations are one such term of all rows.
    """
    if value.owner is block:
        return None
    match value.owner:
        case AddOp(lhs=lhs, rhs=rhs) if lhs.type == rhs.type == value.type:
            sides = sums_of_all(block, lhs), sums_of_all(block, rhs)
            return None if None in sides else [x for side in sides for x in side or ()]
        case MatmulOp(a=a, b=b, transpose_a=flag, transpose_b=None) if flag is not None:
            are_matrices = len(_extents(a)) == len(_extents(b)) == 2
            return [SumOfAll([a, b])] if are_matrices else None
        case ReduceSumOp(operand=rows, keepdims=None) as op:
            is_of_rows = op.normal_axes == (0,) and len(_extents(rows)) == 2
            return [SumOfAll([rows])] if is_of_rows else None
        case _:
            return None


def _extents(value: SSAValue) -> Sequence[int]:
    return tensor_type(value).get_shape()


def source_of(value: SSAValue) -> SSAValue:
    """The value that a value of a body has the elements of, in another shape."""
    while isinstance(value.owner, ReshapeOp):
        value = value.owner.operands[0]
    return value


def erase_unused(block: Block) -> None:
    """Erase the ops of a body whose results nothing uses."""
    for op in reversed(list(block.ops)):
        if op.results and not any(result.first_use for result in op.results):
            block.erase_op(op)
