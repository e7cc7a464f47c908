"""
Heap sort of a line of places in a kernel: it needs no memory but the line, and takes
n log n steps whatever the elements are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, i64
from xdsl.ir import SSAValue

from penstock.dialects.op.row_ops import Line

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder

Before: TypeAlias = "Callable[[KernelBuilder, SSAValue, SSAValue], SSAValue]"
"""Builds whether one place comes before another one: a strict order of all."""


class PlaceLine:
    """
    A line of places: indices in kernels, integers of 64 bits in memory. Ranks of one
    that is `reversed` count from the end of the line.
    """

    def __init__(self, line: Line, *, reversed: bool = False):
        self.line = line
        self._reversed = reversed

    def load(self, k: KernelBuilder, rank: SSAValue) -> SSAValue:
        """The place at a rank."""
        found = self.line.load(k, self._element(k, rank))
        return k.insert(arith.IndexCastOp(found, IndexType()))

    def store(self, k: KernelBuilder, place: SSAValue, rank: SSAValue) -> None:
        """Write the place at a rank."""
        self.line.store(k, to_i64(k, place), self._element(k, rank))

    def _element(self, k: KernelBuilder, rank: SSAValue) -> SSAValue:
        if self._reversed:
            rank = k.sub(k.index(self.line.extent - 1), rank)
        return within(k, rank, self.line.extent)


def within(k: KernelBuilder, place: SSAValue, extent: int) -> SSAValue:
    """A place that is known to be inside of an extent, said so that it is seen."""
    return k.minimum(k.maximum(place, k.index(0)), k.index(extent - 1))


def to_i64(k: KernelBuilder, index: SSAValue) -> SSAValue:
    """An index as an element of a tensor of places."""
    return k.insert(arith.IndexCastOp(index, i64))


def sort_places(
    k: KernelBuilder, places: PlaceLine, count: SSAValue, before: Before
) -> None:
    """Sort the first `count` places of a line by an order."""
    build_heap(k, places, count, before)
    last = k.sub(count, k.index(1))

    def take(k: KernelBuilder, turn: SSAValue) -> None:
        end = k.sub(last, turn)
        found = take_root(k, places, end, before)
        places.store(k, found, end)

    k.each(last, take)


def build_heap(
    k: KernelBuilder, places: PlaceLine, count: SSAValue, before: Before
) -> None:
    """Let the first `count` places of a line be a heap, with the last one at rank 0."""
    one, ranks = k.index(1), max(places.line.extent, 1)
    # The first half of a heap has children.
    half = k.insert(arith.ShRSIOp(k.maximum(count, k.index(0)), one))

    # Half of the roots have but one level below them, and few have many.
    def level(k: KernelBuilder, below: SSAValue) -> None:
        depth = k.sub(k.index(ranks.bit_length() - 2), below)
        width = k.insert(arith.ShLIOp(one, depth))
        last = k.minimum(k.sub(k.add(width, width), one), half)

        def build(k: KernelBuilder, turn: SSAValue) -> None:
            root = k.sub(k.sub(last, one), turn)
            levels = k.add(below, one)
            _sift(k, places, root, count, places.load(k, root), levels, before)

        k.each(k.sub(last, k.sub(width, one)), build)

    k.each(ranks.bit_length() - 1, level)


def take_root(
    k: KernelBuilder, places: PlaceLine, end: SSAValue, before: Before
) -> SSAValue:
    """The root of a heap of which `end` places are left then."""
    moved, root = places.load(k, end), places.load(k, k.index(0))
    levels = k.index(max(places.line.extent, 1).bit_length() - 1)
    _sift(k, places, k.index(0), end, moved, levels, before)
    return root


def _sift(
    k: KernelBuilder,
    places: PlaceLine,
    root: SSAValue,
    end: SSAValue,
    place: SSAValue,
    levels: SSAValue,
    before: Before,
) -> None:
    """
    Let a place sink from a root, below which there are at most so many levels, until no
    child comes after it.
    """
    one, extent = k.index(1), k.index(max(places.line.extent, 1))

    def step(
        k: KernelBuilder, level: SSAValue, carried: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        (hole,) = carried
        left = k.add(k.add(hole, hole), one)

        def sink(k: KernelBuilder) -> SSAValue:
            child, found = _later_child(k, places, left, end, before)

            def sink_on(k: KernelBuilder) -> SSAValue:
                places.store(k, found, hole)
                return child

            def stay(k: KernelBuilder) -> SSAValue:
                places.store(k, place, hole)
                # Behind the last rank there are no children.
                return extent

            # A branch, as the next level need not wait for what is foreseen.
            return k.either(before(k, place, found), sink_on, stay)

        return [k.either(k.compare("lt", left, end), sink, lambda k: hole)]

    (hole,) = k.loop(k.index(0), levels, [root], step)
    is_open = k.compare("lt", hole, extent)
    k.when(is_open, lambda k: places.store(k, place, hole))


def _later_child(
    k: KernelBuilder,
    places: PlaceLine,
    left: SSAValue,
    end: SSAValue,
    before: Before,
) -> tuple[SSAValue, SSAValue]:
    """The child of the two, if there are two, whose place comes later; that place."""
    one = k.index(1)
    right = k.minimum(k.add(left, one), k.sub(end, one))
    there, here = places.load(k, right), places.load(k, left)
    is_left = before(k, there, here)
    return k.select(is_left, left, right), k.select(is_left, here, there)
