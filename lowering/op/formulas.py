"""
Formulas of ops on tensors, and the ops of a job that compute one.

A formula is an expression of Python:

* a name stands for a tensor, the same one at each place; those of `NUMBERS` for a
  constant all of whose elements are the same;
* `exp`, `log`, `sqrt`, `erf` and `tanh` stand for ops on elements; `max`, `sum` and
  `mean` for reductions, all along the same axes, whose results keep these with an
  extent of 1, by `keepdims` or by an `op.reshape`;
* sums and products match whatever the order and the grouping of their terms: `a - b` is
  the sum of `a` and `-b`, `a / b` the product of `a` and `1 / b`, and numbers in them
  count together.

So ops match that compute the formula but for rounding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import permutations
from math import isclose, prod
from typing import TypeAlias

from xdsl.dialects.builtin import bf16, f16
from xdsl.ir import Attribute, Operation, SSAValue

from penstock.dialects.op.activation import TanhOp
from penstock.dialects.op.elementwise import (
    AddOp,
    DivOp,
    MulOp,
    NegOp,
    PowOp,
    ReciprocalOp,
    SubOp,
)
from penstock.dialects.op.movement import ReshapeOp
from penstock.dialects.op.reduction import (
    ReduceMaxOp,
    ReduceMeanOp,
    ReduceOp,
    ReduceSumOp,
)
from penstock.dialects.op.unary_math import ErfOp, ExpOp, LogOp, RsqrtOp, SqrtOp
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.op.causal_mask import splat_of

NUMBERS = frozenset({"epsilon"})
"""The names that stand for numbers."""
FUNCTIONS: Mapping[str, type[Operation]] = {
    "erf": ErfOp,
    "exp": ExpOp,
    "log": LogOp,
    "sqrt": SqrtOp,
    "tanh": TanhOp,
}
REDUCTIONS: Mapping[str, type[ReduceOp]] = {
    "max": ReduceMaxOp,
    "mean": ReduceMeanOp,
    "sum": ReduceSumOp,
}
ROUNDING: Mapping[Attribute, float] = {bf16: 8e-3, f16: 1e-3}
"""The relative error of a constant, by its element type."""
MOST_CUTS = 64
"""The most ways to group the terms of a sum or product that are tried."""

NUMBER_DEPTH = 4
"""The most ops after each other that make a number of constants, as people write it."""


@dataclass(frozen=True)
class Match:
    """A formula found in ops: the values and numbers that its names stand for."""

    values: Mapping[str, SSAValue]
    numbers: Mapping[str, float]
    axes: tuple[int, ...] | None = None
    """The axes of reductions."""
    ops: tuple[Operation, ...] = ()
    """The ops, the last one first."""

    def by(self, *ops: Operation) -> Match:
        """The match with more ops."""
        new = dict.fromkeys((*self.ops, *ops))
        return replace(self, ops=tuple(new))


Term: TypeAlias = tuple[ast.expr, bool]
"""A term of a formula, and whether it is subtracted (or divided by)."""
Part: TypeAlias = tuple[SSAValue, bool]
"""A value that is added (or multiplied), and whether it is subtracted."""


@dataclass(frozen=True)
class Chain:
    """Values that are added up, or multiplied, with a number, by some ops."""

    parts: tuple[Part, ...]
    number: float
    ops: tuple[Operation, ...] = ()


def matches(formula: str, value: SSAValue) -> Iterator[Match]:
    """The ways in which a value is computed by a formula."""
    yield from _match(parsed(formula), value, Match({}, {}))


@cache
def parsed(formula: str) -> ast.expr:
    """The tree of a formula."""
    return ast.parse(formula, mode="eval").body


def _match(node: ast.expr, value: SSAValue, found: Match) -> Iterator[Match]:
    match node:
        case ast.Name(id=name):
            if found.values.get(name, value) is value:
                yield replace(found, values={**found.values, name: value})
        case ast.Call(func=ast.Name(id=name), args=[inner]) if name in FUNCTIONS:
            op = value.owner
            if isinstance(op, FUNCTIONS[name]):
                yield from _match(inner, op.operands[0], found.by(op))
        case ast.Call(func=ast.Name(id=name), args=[inner]):
            yield from _match_reduction(name, inner, value, found)
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            yield from _match_chain(node, value, found, is_sum=True)
        case _:
            yield from _match_chain(node, value, found, is_sum=False)


# Reductions


def _match_reduction(
    name: str, inner: ast.expr, value: SSAValue, found: Match
) -> Iterator[Match]:
    for reduced, ops in _reductions(name, value):
        axes = reduced.normal_axes
        if found.axes is None or found.axes == axes:
            so_far = replace(found, axes=axes).by(*ops, reduced)
            yield from _match(inner, reduced.operand, so_far)


def _reductions(
    name: str, value: SSAValue
) -> Iterator[tuple[ReduceOp, Sequence[Operation]]]:
    """The reductions that a value keeps the axes of, and what else makes it."""
    reduced = _kept(value)
    if reduced is not None and isinstance(reduced[0], REDUCTIONS[name]):
        yield reduced
    if name != "mean":
        return
    for chain in _chains(value, 1, is_sum=False):
        ((part, is_inverse),) = chain.parts
        reduced = _kept(part)
        if reduced is None or is_inverse or not isinstance(reduced[0], ReduceSumOp):
            continue
        op, ops = reduced
        shape = tensor_type(op.operand).get_shape()
        terms = prod(shape[axis] for axis in op.normal_axes)
        if is_close(chain.number * terms, 1, value):
            yield op, (*chain.ops, *ops)


def _kept(value: SSAValue) -> tuple[ReduceOp, Sequence[Operation]] | None:
    """The reduction whose result a value is, with an extent of 1 for each axis."""
    op, ops = value.owner, list[Operation]()
    if isinstance(op, ReshapeOp):
        ops.append(op)
        op = op.operands[0].owner
    if isinstance(op, ReduceMeanOp) and op.terms is not None:
        # The rest of its terms is elsewhere.
        return None
    if not isinstance(op, ReduceOp):
        return None
    shape = tensor_type(op.operand).get_shape()
    wanted = [1 if axis in op.normal_axes else n for axis, n in enumerate(shape)]
    return (op, ops) if [*tensor_type(value).get_shape()] == wanted else None


# Sums and products


def _match_chain(
    node: ast.expr, value: SSAValue, found: Match, *, is_sum: bool
) -> Iterator[Match]:
    terms, number, names = _terms(node, is_sum, False)
    for chain in _chains(value, len(terms), is_sum=is_sum):
        so_far = found.by(*chain.ops)
        if names:
            (name,) = names
            numbers = {**found.numbers, name: chain.number - number}
            so_far = replace(so_far, numbers=numbers)
            if not is_close(found.numbers.get(name, numbers[name]), numbers[name]):
                continue
        elif not is_close(chain.number, number, value):
            continue
        for parts in permutations(chain.parts):
            yield from _match_parts(terms, parts, so_far)


def _match_parts(
    terms: Sequence[Term], parts: Sequence[Part], found: Match
) -> Iterator[Match]:
    if not terms:
        yield found
        return
    for so_far in _match_part(terms[0], parts[0], found):
        yield from _match_parts(terms[1:], parts[1:], so_far)


def _match_part(term: Term, part: Part, found: Match) -> Iterator[Match]:
    (node, is_inverse), (value, divides) = term, part
    if is_inverse == divides:
        yield from _match(node, value, found)
        return
    match node, value.owner:
        case (
            ast.Call(func=ast.Name(id="sqrt"), args=[inner]),
            RsqrtOp() as op,
        ) if is_inverse:
            yield from _match(inner, op.operands[0], found.by(op))
        case _:
            pass


def _terms(
    node: ast.expr, is_sum: bool, is_inverse: bool
) -> tuple[list[Term], float, list[str]]:
    """The terms of a sum or product, its number, and the name of one."""
    neutral = 0.0 if is_sum else 1.0
    plus, minus = (ast.Add, ast.Sub) if is_sum else (ast.Mult, ast.Div)
    match node:
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, plus | minus):
            flips = is_inverse != isinstance(op, minus)
            one, two = _terms(left, is_sum, is_inverse), _terms(right, is_sum, flips)
            number = one[1] + two[1] if is_sum else one[1] * two[1]
            return [*one[0], *two[0]], number, [*one[2], *two[2]]
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(times))):
            if not is_sum:
                return [(left, is_inverse)] * times, neutral, []
        case ast.Constant(value=int() | float() as number):
            return [], _inverted(float(number), is_sum, is_inverse), []
        case ast.Name(id=name) if name in NUMBERS:
            return [], neutral, [name]
        case _:
            pass
    return [(node, is_inverse)], neutral, []


def _inverted(number: float, is_sum: bool, is_inverse: bool) -> float:
    if not is_inverse:
        return number
    return -number if is_sum else 1 / number


def _chains(value: SSAValue, count: int, *, is_sum: bool) -> Iterator[Chain]:
    """The sums or products of `count` values, and a number, that a value is."""
    pending = [Chain(((value, False),), 0.0 if is_sum else 1.0)]
    for _ in range(MOST_CUTS):
        if not pending:
            return
        chain = pending.pop(0)
        if len(chain.parts) == count and chain.ops:
            yield chain
        for place, part in enumerate(chain.parts):
            if (opened := _opened(part, is_sum)) is None:
                continue
            new = _replaced(chain, place, *opened, is_sum=is_sum)
            # Only parts that are made of constants alone get fewer.
            if sum(not _is_number(x) for x, _ in new.parts) <= count:
                pending.append(new)


def _is_number(value: SSAValue, depth: int = NUMBER_DEPTH) -> bool:
    """Whether a value is made of constants alone, by at most so many ops."""
    if splat_of(value) is not None:
        return True
    op = value.owner
    kinds = (AddOp, SubOp, MulOp, DivOp, NegOp, ReciprocalOp, PowOp)
    if depth == 0 or not isinstance(op, kinds):
        return False
    return all(_is_number(x, depth - 1) for x in op.operands)


def _replaced(
    chain: Chain, place: int, parts: Sequence[Part], op: Operation, *, is_sum: bool
) -> Chain:
    """The chain with one part as those that it is made of, numbers apart."""
    number, left = chain.number, list[Part]()
    for value, is_inverse in parts:
        constant = splat_of(value)
        if constant is None or not (is_sum or constant):
            left.append((value, is_inverse))
        elif is_sum:
            number += -constant if is_inverse else constant
        else:
            number *= 1 / constant if is_inverse else constant
    new = (*chain.parts[:place], *left, *chain.parts[place + 1 :])
    return Chain(new, number, (*chain.ops, op))


def _opened(part: Part, is_sum: bool) -> tuple[Sequence[Part], Operation] | None:
    """The parts that one is the sum or product of, and the op that makes it."""
    value, flips = part
    op = value.owner
    kinds = (AddOp, SubOp) if is_sum else (MulOp, DivOp)
    if isinstance(op, kinds):
        a, b = op.operands
        return [(a, flips), (b, flips != isinstance(op, kinds[1]))], op
    if isinstance(op, NegOp if is_sum else ReciprocalOp):
        return [(op.operands[0], not flips)], op
    if not is_sum and isinstance(op, PowOp):
        times = splat_of(op.rhs)
        if times in (2, 3):
            return [(op.lhs, flips)] * int(times), op
    return None


def is_close(a: float, b: float, value: SSAValue | None = None) -> bool:
    """Whether numbers are the same but for the rounding of a value's type."""
    element = None if value is None else tensor_type(value).element_type
    rounding = 1e-5 if element is None else ROUNDING.get(element, 1e-5)
    return isclose(a, b, rel_tol=rounding)
