"""Gradients through the ops of a body: of groups, waves, conditions and loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from penstock.dialects.op.canonicalization import has_floats
from penstock.dialects.utils.gradients import Differentiable, NoGradient

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
        for operand, grad in zip(op.operands, _gradient(o, op, grads), strict=True):
            if operand in needs:
                add(operand, grad)
    return [terms.get(value) for value in by]


def _gradient(
    o: GradientBuilder, op: Operation, grads: Sequence[SSAValue | None]
) -> Sequence[SSAValue | None]:
    """The gradients of one op. Raises NoGradient with its name."""
    try:
        if not isinstance(op, Differentiable):
            raise NoGradient("it is none of the ops that say one")
        return op.gradient(o, *grads)
    except NoGradient as error:
        raise NoGradient(f"'{op.name}' in it has none: {error}") from error
