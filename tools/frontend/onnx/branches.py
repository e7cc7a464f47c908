"""
Results of branches: those that differ in extents have room for the larger one, and a
count for each axis along which they may.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from penstock.tools.frontend.onnx.extents import CannotFollow
from penstock.tools.frontend.onnx.graph import Item, JobBuilder
from penstock.tools.frontend.onnx.ops import Value
from penstock.tools.frontend.onnx.sizes import Size

DIFFERENT = "the types of results follow from its condition"

Pair = tuple[Value, Value]
"""A result as each of both branches makes it."""


def pairs_of(first: Sequence[Item], second: Sequence[Item]) -> list[Pair]:
    """
    The tensors of the results of two branches; those of sequences stand one after the
    other. Raises `CannotFollow` where results are not made alike.
    """
    pairs: list[Pair] = []
    for one, other in zip(first, second, strict=True):
        if one is None or other is None:
            raise CannotFollow(DIFFERENT)
        if isinstance(one, list) != isinstance(other, list):
            raise CannotFollow(DIFFERENT)
        parts, others = (x if isinstance(x, list) else [x] for x in (one, other))
        if len(parts) != len(others):
            raise CannotFollow(DIFFERENT)
        pairs += zip(parts, others, strict=True)
    return pairs


@dataclass
class _Result:
    """The result of a condition that one of two values is."""

    shape: Sequence[int]
    counts: dict[int, SSAValue | int]
    """By axis, a value outside of the branches or the place of a further result."""
    is_blank: bool


class Joint:
    """
    The results of a condition, given those of its branches, and the counts that these
    yield, too. Raises `CannotFollow` where values have no type in common.
    """

    def __init__(self, builder: JobBuilder, pairs: Sequence[Pair]):
        self._builder = builder
        self._pairs = pairs
        self._counts: list[tuple[Size, Size]] = []
        """The counts that branches yield, one for all results that have it."""
        self._results = [self._joined(*pair) for pair in pairs]

    def _joined(self, one: Value, other: Value) -> _Result:
        ops, extents = self._builder.ops, self._builder.extents
        shapes = ops.shape(one), ops.shape(other)
        if ops.element(one) != ops.element(other) or len({*map(len, shapes)}) > 1:
            raise CannotFollow(DIFFERENT)
        counts: dict[int, SSAValue | int] = {}
        for axis, whole in enumerate(zip(*shapes, strict=True)):
            own = (extents.of(value).get(axis) for value in (one, other))
            first, second = (
                extent if count is None else count
                for count, extent in zip(own, whole, strict=True)
            )
            if isinstance(first, SSAValue) and first is second:
                counts[axis] = first  # It is of neither branch.
            elif first != second:
                counts[axis] = self._place_of(first, second)
        is_blank = extents.is_blank(one) and extents.is_blank(other)
        return _Result([*map(max, *shapes)], counts, is_blank)

    def _place_of(self, *pair: Size) -> int:
        first, second = pair
        if (first, second) not in self._counts:
            self._counts.append((first, second))
        return self._counts.index((first, second))

    def ends(self, branch: int) -> list[SSAValue]:
        """The values that a branch yields, in whose body ops are added."""
        builder = self._builder
        made = [
            builder.extents.fitted(pair[branch], result.shape)
            for pair, result in zip(self._pairs, self._results, strict=True)
        ]
        for pair in self._counts:
            count = pair[branch]
            known = np.asarray(count, np.int64) if isinstance(count, int) else count
            made.append(known)
        return [builder.as_tensor(value) for value in made]

    def results(self, made: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Those of the op that are results of the node, which have their counts."""
        values = made[: len(self._results)]
        for value, result in zip(values, self._results, strict=True):
            for axis, count in result.counts.items():
                if isinstance(count, int):
                    count = made[len(values) + count]
                self._builder.extents.set(value, axis, count, is_blank=result.is_blank)
        return values
