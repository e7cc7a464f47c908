"""Parts of tensors, and what it takes to bring them elsewhere: pure values."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dialects.job import Entry, PlacementAttr
from penstock.dialects.op.sbp import (
    BROADCAST,
    PARTIAL,
    Layout,
    Part,
    balanced,
    broadcast_signatures,
    part_of,
    places_of,
    sbp_of,
    split,
    whole,
)
from penstock.lowering.job.infer_sbp import transfer_bytes


@given(st.integers(0, 100), st.integers(1, 12))
def test_balanced_parts_follow_each_other(extent: int, parts: int):
    """The first (extent mod parts) ones are longer by one."""
    cuts = [balanced(extent, parts, index) for index in range(parts)]
    sizes = [size for _, size in cuts]
    assert [start for start, _ in cuts] == [sum(sizes[:i]) for i in range(parts)]
    longer = extent % parts
    assert sizes == [extent // parts + (index < longer) for index in range(parts)]
    assert sum(sizes) == extent


@pytest.mark.parametrize(
    ("entries", "place", "part"),
    [
        ((split(0),), (0,), Part((0, 0), (4, 5))),
        ((split(0),), (1,), Part((4, 0), (3, 5))),
        ((BROADCAST,), (1,), Part((0, 0), (7, 5))),
        ((PARTIAL,), (1,), Part((0, 0), (7, 5))),
        ((split(0), split(1)), (1, 1), Part((4, 3), (3, 2))),
        # Of the 3 rows that the first cut has left the second one takes the last.
        ((split(0), split(0)), (1, 1), Part((6, 0), (1, 5))),
        ((BROADCAST, split(0)), (1, 0), Part((0, 0), (4, 5))),
    ],
)
def test_parts_of_a_tensor(entries: Sequence[Entry], place: Sequence[int], part: Part):
    assert part_of([7, 5], sbp_of(*entries), [2] * len(place), place) == part


def test_parts_meet_in_a_box():
    a, b = Part((0, 2), (4, 4)), Part((3, 0), (4, 3))
    assert a.meet(b) == b.meet(a) == Part((3, 2), (1, 1))
    assert a.meet(Part((4, 2), (1, 1))) is None
    assert whole([]).meet(whole([])) == whole([])
    assert whole([0]).meet(whole([0])) is None


def test_devices_of_a_hierarchy_are_counted_along_its_last_dimension():
    assert places_of((2, 3)) == ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2))
    layout = Layout(
        PlacementAttr("cpu", [(0, i) for i in range(4)], [2, 2]),
        sbp_of(BROADCAST, split(0)),
    )
    assert [part.offsets for part in layout.parts_of([4])] == [(0,), (2,), (0,), (2,)]


@pytest.mark.parametrize(
    ("operands", "result", "texts"),
    [
        (
            [[4, 3], [4, 3]],
            [4, 3],
            ["(S(0), S(0)) -> (S(0))", "(S(1), S(1)) -> (S(1))"],
        ),
        ([[4, 3], [3]], [4, 3], ["(S(0), B) -> (S(0))", "(S(1), S(0)) -> (S(1))"]),
        ([[4, 1], [1, 3]], [4, 3], ["(S(0), B) -> (S(0))", "(B, S(1)) -> (S(1))"]),
        ([[1, 3], []], [1, 3], ["(S(1), B) -> (S(1))"]),
        ([[1]], [1], []),
    ],
)
def test_what_is_repeated_is_whole(
    operands: list[list[int]], result: list[int], texts: list[str]
):
    assert [str(s) for s in broadcast_signatures(operands, result)] == texts


HERE = PlacementAttr("cpu", [(0, i) for i in range(3)])
THERE = PlacementAttr("cpu", [(0, i) for i in range(3, 5)])


@pytest.mark.parametrize(
    ("source", "entry", "expected"),
    [
        (Layout(HERE, sbp_of(split(0))), split(0), 0),
        (Layout(HERE, sbp_of(PARTIAL)), PARTIAL, 0),
        (Layout(HERE, sbp_of(BROADCAST)), split(1), 0),
        # A third of each of 3 parts of 30 bytes stays.
        (Layout(HERE, sbp_of(split(0))), split(1), 60),
        (Layout(HERE, sbp_of(split(0))), BROADCAST, 180),
        (Layout(HERE, sbp_of(PARTIAL)), split(0), 180),
        (Layout(HERE, sbp_of(PARTIAL)), BROADCAST, 360),
        (Layout(HERE, sbp_of(BROADCAST)), PARTIAL, inf),
        (Layout(THERE, sbp_of(split(0))), split(0), 90),
        (Layout(THERE, sbp_of(BROADCAST)), BROADCAST, 270),
        (Layout(THERE, sbp_of(BROADCAST)), PARTIAL, inf),
        (None, BROADCAST, 0),
    ],
)
def test_bytes_between_devices(source: Layout | None, entry: Entry, expected: float):
    """Of a tensor of 90 bytes, on 3 devices."""
    assert transfer_bytes(source, entry, HERE, 0, 90) == expected
