"""
The walk through ops from the last one back that makes their gradients: through those of
a job, and of a body, of a group, a wave, a condition or a loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from xdsl.ir import Block, Operation, SSAValue

from penstock.dialects.op.canonicalization import has_floats
from penstock.dialects.op.elementwise import AddOp
from penstock.dialects.op.linear import MatmulOp
from penstock.dialects.op.movement import ReshapeOp
from penstock.dialects.op.reduction import ReduceSumOp
from penstock.dialects.op.training.stop_gradient import StopGradientOp
from penstock.dialects.utils.gradients import Differentiable, NoGradient
from penstock.dialects.utils.tensors import tensor_type

if TYPE_CHECKING:
    from penstock.dialects.utils.gradients import GradientBuilder


class Path(NamedTuple):
    """The ops that lead from values derived by to others, in order."""

    ops: Sequence[Operation]
    needs: Collection[SSAValue]
    """The values that depend on those derived by, and these."""
    reached: Collection[SSAValue]
    """Those of them that the others depend on."""

    @classmethod
    def between(
        cls, ops: Iterable[Operation], by: Iterable[SSAValue], ends: Iterable[SSAValue]
    ) -> Path:
        """The path through some ops; `op.stop_gradient` is on none."""
        needs = set(by)
        ahead: list[Operation] = []
        for op in ops:
            if isinstance(op, StopGradientOp) or needs.isdisjoint(op.operands):
                continue
            ahead.append(op)
            needs.update(filter(has_floats, op.results))
        reached = set(ends)
        path: list[Operation] = []
        for op in reversed(ahead):
            if not reached.isdisjoint(op.results):
                path.append(op)
                reached.update(value for value in op.operands if value in needs)
        return cls(path[::-1], needs, reached)


def keeping_more(op: Operation) -> Operation | None:
    """The op that keeps what the gradient of one is made of; None if this one does."""
    if not isinstance(op, Differentiable) or (new := op.with_kept()) is None:
        return None
    new.attributes |= op.attributes
    new.location = op.location
    for result, old in zip(new.results, op.results, strict=False):
        result.name_hint = old.name_hint
    return new


class BackwardWalk:
    """
    The walk along a path from its end, which makes the gradients of what its ops read
    by those of what they make. Terms of a value that several ops read are added, those
    of later readers first.
    """

    def __init__(self, o: GradientBuilder, path: Path) -> None:
        self._o, self._path = o, path
        self._terms: dict[SSAValue, list[SSAValue]] = {}
        self._sums: dict[SSAValue, SSAValue] = {}
        self._missing: set[SSAValue] = set()
        """The values whose gradients are not there as an op before has none."""
        self.missing: list[tuple[Operation, str]] = []
        """The ops that have no gradient, with the reason."""

    def begin(self, op: Operation) -> None:
        """Note the op that all ops belong to which are made from now on."""

    def added(self, value: SSAValue, total: SSAValue) -> None:
        """Note the gradient of a value, the sum of all that reach it."""

    def seed(self, value: SSAValue, grad: SSAValue) -> None:
        """Let a gradient reach a value."""
        self._terms.setdefault(value, []).append(grad)

    def go(self) -> None:
        """Make all gradients; where ops are missing they are not complete."""
        for op in reversed(self._path.ops):
            self.begin(op)
            self._make_gradients_of(op)

    def _make_gradients_of(self, op: Operation) -> None:
        grads = [self.gradient_of(result) for result in op.results]
        is_missing = not self._missing.isdisjoint(op.results)
        if not is_missing and all(grad is None for grad in grads):
            return
        try:
            if is_missing:
                # It is only to be found out that nothing else is wrong.
                self._o.refuse_without_gradient(op)
                self._missing.update(op.operands)
                return
            found = self._o.gradient_of(op, grads)
        except NoGradient as error:
            self.missing.append((op, str(error)))
            self._missing.update(op.operands)
            return
        for operand, grad in zip(op.operands, found, strict=True):
            if grad is not None and operand in self._path.needs:
                if grad.type != operand.type:
                    by = f"by a {operand.type} is a {grad.type}"
                    raise TypeError(f"the gradient of '{op.name}' {by}")
                self.seed(operand, grad)

    def gradient_of(self, value: SSAValue) -> SSAValue | None:
        """The sum of all gradients that reach a value; None if it is zero."""
        if value in self._sums:
            return self._sums[value]
        if not (terms := self._terms.get(value)):
            return None
        total = reduce(self._o.add, terms)
        self.added(value, total)
        self._sums[value] = total
        return total


def gradients_of_body(
    o: GradientBuilder,
    ops: Sequence[Operation],
    by: Sequence[SSAValue],
    seeds: Iterable[tuple[SSAValue, SSAValue | None]],
) -> list[SSAValue | None]:
    """
    Insert the ops of an iteration, a branch or a group once more, and the gradients by
    some values that they read, given those of values that they make, or that they read;
    None for one that is zero.

    Raises NoGradient if an op between has none.
    """
    given = [(value, grad) for value, grad in seeds if grad is not None]
    known: dict[SSAValue, SSAValue] = {}
    on_path = set(Path.between(ops, by, [value for value, _ in given]).ops)
    kept: list[Operation] = []
    for op in ops:
        new = keeping_more(op) if op in on_path else None
        kept.append(new or op)
        for old, value in zip(op.results, new.results if new else (), strict=False):
            old.replace_all_uses_with(value)
            known[old] = value
    for op in kept:
        o.insert(op)
    given = [(known.get(value, value), grad) for value, grad in given]
    walk = BackwardWalk(o, Path.between(kept, by, [value for value, _ in given]))
    for value, grad in given:
        walk.seed(value, grad)
    walk.go()
    for op, reason in walk.missing:
        raise NoGradient(f"'{op.name}' in it has none: {reason}")
    return [walk.gradient_of(value) for value in by]


################################################################################
# Sums over iterations                                                         #
################################################################################


class SumOfAll(NamedTuple):
    """
    A value that is a sum over iterations, made of tensors that have one of its factors
    for each: a product of matrices, or a sum of rows.
    """

    factors: Sequence[SSAValue]
    sources: Sequence[SSAValue]
    """The values that have the elements of the factors, in other shapes."""

    @classmethod
    def product(cls, *factors: SSAValue) -> SumOfAll:
        return cls(factors, [*map(source_of, factors)])

    def of(self, o: GradientBuilder, tensors: Sequence[SSAValue]) -> SSAValue:
        """The sum, of the tensors of the sources."""
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
            return [SumOfAll.product(a, b)] if are_matrices else None
        case ReduceSumOp(operand=rows, keepdims=None) as op:
            is_of_rows = op.normal_axes == (0,) and len(_extents(rows)) == 2
            return [SumOfAll.product(rows)] if is_of_rows else None
        case _:
            return None


def _extents(value: SSAValue) -> Sequence[int]:
    return tensor_type(value).get_shape()


def source_of(value: SSAValue) -> SSAValue:
    """The value that a value of a body has the elements of, in another shape."""
    while isinstance(value.owner, ReshapeOp):
        value = value.owner.operands[0]
    return value


def needed_ops(
    block: Block, values: Collection[SSAValue | None]
) -> dict[Operation, None]:
    """The ops of a body that values are made of, the last one first."""
    wanted, found = {*values}, dict[Operation, None]()
    for op in reversed(list(block.ops)):
        if not wanted.isdisjoint(op.results):
            found[op] = None
            wanted.update(op.operands)
    return found


def erase_unused(block: Block) -> None:
    """Erase the ops of a body whose results nothing uses."""
    for op in reversed(list(block.ops)):
        if op.results and not any(result.first_use for result in op.results):
            block.erase_op(op)
