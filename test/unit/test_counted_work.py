"""Counted steps: they tell linear from quadratic work, and are always the same."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest
from counted_work import LINEAR, growth_of, steps_of

SIZE = 50


def once(size: int) -> Callable[[], object]:
    return lambda: sorted((size - i for i in range(size)), key=abs)


def loops(size: int) -> None:
    for _ in range(size):
        for _ in range(size // 10):
            pass


def comprehension(size: int) -> None:
    assert len([j for i in range(size) for j in range(i // 5)]) > size


def generated(size: int) -> None:
    def numbers(count: int) -> Iterator[int]:
        yield from (i for i in range(count))

    assert sum(1 for i in range(size) for _ in numbers(i // 5)) > size


def calls(size: int) -> None:
    for last in range(size):
        assert max(range(last + 1), key=lambda value: value % 7) <= last


class Compared:
    """A value whose comparisons are Python: ops of xDSL are."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def searches(size: int) -> None:
    values = [Compared() for _ in range(size)]
    assert all(value in values for value in values)


def test_linear_work_grows_with_the_size():
    assert 8 < growth_of(once, SIZE) < LINEAR


@pytest.mark.parametrize("planted", [loops, comprehension, generated, calls, searches])
def test_quadratic_work_is_noticed(planted: Callable[[int], None]):
    def both(size: int) -> Callable[[], object]:
        linear = once(size)
        return lambda: (linear(), planted(size))

    assert growth_of(both, SIZE) > 2 * LINEAR


def test_steps_are_the_same_each_time():
    assert len({steps_of(once(SIZE)) for _ in range(5)}) == 1


def test_others_that_trace_go_on():
    before = sys.gettrace(), sys.getprofile()

    def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        steps_of(fails)
    assert (sys.gettrace(), sys.getprofile()) == before
