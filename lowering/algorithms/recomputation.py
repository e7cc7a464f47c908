"""
Choices of the values of a forward pass that are kept for the backward pass.

The other values that the backward pass reads are computed again, of kept ones. Values
are numbered in the order in which they are made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.lowering.algorithms.min_cut import UNLIMITED, FlowGraph


@dataclass(frozen=True)
class ForwardValue:
    """A value of the forward pass."""

    bytes: int
    operands: Sequence[int] = ()
    """The values that it is made of."""
    flops: int = 0
    """Scalar operations that make it; 0 for others but the first of an op."""
    is_free: bool = False
    """Whether it is there all the time, whoever reads it, as a variable is."""
    is_cheap: bool = False
    """Whether it may be made again wherever that saves bytes."""
    is_repeatable: bool = False
    """Whether it may be made again at all."""
    is_read: bool = False
    """Whether the backward pass reads it."""


Values = Sequence[ForwardValue]


def kept_by_min_cut(values: Values, apart: Collection[int] = ()) -> set[int]:
    """
    The fewest bytes of values of which the backward pass can be computed, where cheap
    values alone are made again. Of several such choices it is the one that makes the
    least again.

    Values `apart` count as kept, and take no bytes.
    """
    source, sink = 2 * len(values), 2 * len(values) + 1
    graph = FlowGraph(2 * len(values) + 2)
    is_free = [value.is_free or i in apart for i, value in enumerate(values)]
    for i, value in enumerate(values):
        if is_free[i]:
            continue
        graph.add(2 * i, 2 * i + 1, value.bytes)
        if value.is_read:
            graph.add(2 * i + 1, sink, UNLIMITED)
        if not value.is_cheap:
            graph.add(source, 2 * i, UNLIMITED)
            continue
        for operand in dict.fromkeys(value.operands):
            if not is_free[operand]:
                graph.add(2 * operand + 1, 2 * i, UNLIMITED)
    graph.fill(source, sink)
    inside = graph.before(sink)
    return {i for i in range(len(values)) if inside[2 * i + 1] and not inside[2 * i]}


def kept_by_segments(values: Values, segment_of: Sequence[int | None]) -> set[int]:
    """
    The values that another segment reads, or that are in none: those that a segment can
    be computed of again, and what it makes for others.
    """
    kept = {
        i
        for i, value in enumerate(values)
        if segment_of[i] is None or not value.is_repeatable
    }
    for i, value in enumerate(values):
        kept.update(x for x in value.operands if segment_of[x] != segment_of[i])
    return kept


def made_again(values: Values, kept: Collection[int]) -> list[int]:
    """The values that are made again where these are kept, in order."""
    needed = [value.is_read for value in values]
    found: list[int] = []
    for i in reversed(range(len(values))):
        if not needed[i] or i in kept or values[i].is_free:
            continue
        found.append(i)
        for operand in values[i].operands:
            needed[operand] = True
    return found[::-1]


def kept_bytes(values: Values, made: Collection[int]) -> int:
    """The bytes of the values that are kept where others are made again."""
    again = {*made}
    read = {i for i, value in enumerate(values) if value.is_read}
    read.update(x for i in made for x in values[i].operands)
    return sum(values[i].bytes for i in read - again if not values[i].is_free)


def flops_of(values: Values, made: Collection[int]) -> int:
    """Scalar operations that make values."""
    return sum(values[i].flops for i in made)


def crossing_bytes(values: Values) -> list[int]:
    """
    The bytes that are made before each value, itself included, and read by values
    after it.
    """
    last = list(range(len(values)))
    for i, value in enumerate(values):
        for operand in value.operands:
            last[operand] = max(last[operand], i)
    found: list[int] = []
    alive, ends = 0, [0] * (len(values) + 1)
    for i, value in enumerate(values):
        if not value.is_free and last[i] > i:
            alive += value.bytes
            ends[last[i]] += value.bytes
        alive -= ends[i]
        found.append(alive)
    return found


def split_evenly(values: Values, count: int) -> list[int]:
    """
    The number of the segment of each value where there are `count` of about as many
    bytes, each of which ends where the fewest bytes go on to the next one, up to half a
    segment away.
    """
    crossing, total = crossing_bytes(values), 0
    sums = [total := total + (not x.is_free) * x.bytes for x in values]
    cuts = [
        min(near, key=lambda i: (crossing[i], abs(sums[i] - target)))
        for part in range(1, count)
        for target in [total * part // count]
        if (near := _within(sums, target, total // (2 * count)))
    ]
    behind = sorted(set(cuts))
    segment, found = 0, list[int]()
    for i in range(len(values)):
        found.append(segment)
        segment += segment < len(behind) and behind[segment] == i
    return found


def _within(sums: Sequence[int], target: int, distance: int) -> list[int]:
    return [i for i, x in enumerate(sums) if abs(x - target) <= distance]


def by_saving(values: Values, segment_of: Sequence[int]) -> list[int]:
    """
    The segments, first those that free the most bytes for each scalar operation that
    is needed to make them again; of equal ones, first those made first.
    """
    count = max(segment_of, default=-1) + 1
    freed, flops = [0] * count, [1] * count
    made = made_again(values, kept_by_segments(values, segment_of))
    for i in made:
        freed[segment_of[i]] += values[i].bytes * values[i].is_read
        flops[segment_of[i]] += values[i].flops
    return sorted(range(count), key=lambda i: (-(freed[i] / flops[i]), i))


def kept_by_some(
    values: Values, segment_of: Sequence[int | None], chosen: Collection[int | None]
) -> set[int]:
    """
    The values kept where some segments are made again whole, and cheap values of the
    others.
    """
    some = [segment if segment in chosen else None for segment in segment_of]
    by_segment = kept_by_segments(values, some)
    inside = {i for i, segment in enumerate(some) if segment is not None}
    made = inside.difference(by_segment)
    # Values that segments are made again of are read behind the forward pass, too.
    read = {x for i in made for x in values[i].operands}
    others = [replace(x, is_read=x.is_read or i in read) for i, x in enumerate(values)]
    return kept_by_min_cut(others, inside) | (inside & by_segment)


def nested_choices(values: Values, segment_of: Sequence[int]) -> Iterator[set[int]]:
    """
    The values kept where more and more segments are made again whole: none, the one
    that saves most, and so on up to all of them.
    """
    order = by_saving(values, segment_of)
    for count in range(len(order) + 1):
        yield kept_by_some(values, segment_of, order[:count])
