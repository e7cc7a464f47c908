"""The converter of `Einsum`, to matmuls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from string import ascii_letters

import numpy as np

from penstock.dialects.op.linear import MatmulOp
from penstock.dialects.op.movement import GatherOp
from penstock.dialects.op.reduction import ReduceSumOp
from penstock.tools.frontend.onnx.graph import Converter, Node, Unsupported
from penstock.tools.frontend.onnx.ops import Ops, Value


def einsum(node: Node) -> None:
    """
    A contraction over named axes, two factors at a time, from the first to the last.
    """
    ops = node.ops
    values = [node.value(index) for index in range(len(node.inputs))]
    equation = node.text("equation", "").replace(" ", "")
    names, result = named_axes(equation, [len(ops.shape(v)) for v in values])
    terms = [
        without_repeats(ops, value, axes)
        for value, axes in zip(values, names, strict=True)
    ]
    while len(terms) > 1:
        a, b, *rest = terms
        needed = set(result).union(*(axes for _, axes in rest))
        terms = [product(ops, a, b, needed), *rest]
    value, axes = summed(ops, terms[0], set(result))
    node.give_value(ops.transpose(value, [axes.index(axis) for axis in result]))


Term = tuple[Value, str]
"""A value and one letter for each of its axes."""


def named_axes(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """One letter for each axis of the operands and of the result."""
    given, arrow, result = equation.partition("->")
    operands = given.split(",")
    if len(operands) != len(ranks):
        raise Unsupported(f"'{equation}' is not for {len(ranks)} operands")
    unused = [letter for letter in ascii_letters if letter not in equation]
    named = [len(text.replace("...", "")) for text in operands]
    most = max(
        rank - own if "..." in text else 0
        for text, own, rank in zip(operands, named, ranks, strict=True)
    )
    others = "".join(unused[:most])
    names = [
        text.replace("...", others[most - rank + own :])
        for text, own, rank in zip(operands, named, ranks, strict=True)
    ]
    if any(len(name) != rank for name, rank in zip(names, ranks, strict=True)):
        raise Unsupported(f"'{equation}' does not fit the ranks {list(ranks)}")
    if arrow:
        return names, result.replace("...", others)
    every = "".join(names)
    once = sorted(letter for letter in set(every) if every.count(letter) == 1)
    return names, others + "".join(x for x in once if x not in others)


def without_repeats(ops: Ops, value: Value, axes: str) -> Term:
    """A value without axes of the same name: the elements on their diagonal."""
    for letter in dict.fromkeys(axes):
        while axes.count(letter) > 1:
            first, second = axes.index(letter), axes.rindex(letter)
            order = [a for a in range(len(axes)) if a not in (first, second)]
            value = ops.transpose(value, [*order, first, second])
            *rest, extent, _ = ops.shape(value)
            flat = ops.reshape(value, [*rest, extent * extent])
            places = np.arange(extent) * (extent + 1)
            value = ops.one(GatherOp, flat, places, axis=len(rest))
            axes = "".join(axes[a] for a in order) + letter
    return value, axes


def summed(ops: Ops, term: Term, needed: set[str]) -> Term:
    """A term summed over all axes that nobody needs."""
    value, axes = term
    gone = [index for index, axis in enumerate(axes) if axis not in needed]
    value = ops.reduce(ReduceSumOp, value, gone, keepdims=False)
    return value, "".join(axis for axis in axes if axis in needed)


def product(ops: Ops, a: Term, b: Term, needed: set[str]) -> Term:
    """The product of two terms, summed over the axes that nobody needs any more."""
    a, b = summed(ops, a, needed | {*b[1]}), summed(ops, b, needed | {*a[1]})
    common = [axis for axis in a[1] if axis in b[1]]
    batch = [axis for axis in common if axis in needed]
    inner = [axis for axis in common if axis not in needed]
    rows = [axis for axis in a[1] if axis not in common]
    columns = [axis for axis in b[1] if axis not in common]
    extents = dict(zip(b[1], ops.shape(b[0]), strict=True))
    for axis, extent in zip(a[1], ops.shape(a[0]), strict=True):
        extents[axis] = max(extent, extents.get(axis, 1))
    left = arranged(ops, a, [batch, rows, inner], extents)
    right = arranged(ops, b, [batch, inner, columns], extents)
    names = [*batch, *rows, *columns]
    matrices = ops.one(MatmulOp, left, right)
    return ops.reshape(matrices, [extents[axis] for axis in names]), "".join(names)


def arranged(
    ops: Ops, term: Term, groups: Sequence[Sequence[str]], extents: Mapping[str, int]
) -> Value:
    """A term with one axis for each group of axes."""
    value, axes = term
    order = [axis for group in groups for axis in group]
    moved = ops.transpose(value, [axes.index(axis) for axis in order])
    moved = ops.expand(moved, [extents[axis] for axis in order])
    return ops.reshape(moved, [prod(extents[x] for x in group) for group in groups])


CONVERTERS: Mapping[str, Converter] = {"Einsum": einsum}
"""The converter of `Einsum`."""
