"""Loops as words: the rows that an iteration fetches for the next one."""

import pytest

from penstock.runtime.program.control_flow import (
    Begin,
    ControlFlow,
    Do,
    Loop,
    Next,
    Point,
)
from penstock.runtime.program.control_words import (
    CARRY_WORDS,
    FETCH_WORDS,
    LOOP_WORDS,
    MOST_FETCHED,
    POINT_WORDS,
    ControlPlaces,
    control_words,
)


def fetched(*points: Point, is_backward: bool = False) -> list[list[int]]:
    """The rows of the next iteration that a loop over these fetches."""
    loop = Loop(9, is_backward=is_backward, points=points, start=1, end=3)
    cells = 1 + len(points)
    code = Begin(0), Do(0), Next(0)
    control = ControlFlow(cells, (), (loop,), code, (0,))
    words = control_words(control, ControlPlaces(20, 40), {}, 0, 0)
    carried = words.index(9) - 2 + LOOP_WORDS
    listed = carried + 1 + CARRY_WORDS * words[carried]
    at = listed + 1 + POINT_WORDS * words[listed]
    end = at + 1 + FETCH_WORDS * words[at]
    return [words[x : x + FETCH_WORDS] for x in range(at + 1, end, FETCH_WORDS)]


def test_the_rows_of_the_next_iteration_are_fetched_line_by_line():
    row, other = Point(1, 0, 0, 64, 64), Point(2, 0, 512, -200, 130)
    assert fetched(row, other) == [[21, 64, 1], [22, -200, 3]]
    assert fetched(row, is_backward=True) == [[21, -64, 1]]


@pytest.mark.parametrize("size", [0, MOST_FETCHED])
def test_rows_that_are_long_or_of_unknown_length_are_not_fetched(size: int):
    assert fetched(Point(1, 0, 0, 8192, size)) == []


def test_what_stays_where_it_is_is_not_fetched():
    assert fetched(Point(1, 0, 16, 0, 64)) == []
