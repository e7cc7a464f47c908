"""Measuring kernels side by side."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.core.io_kernels import Callback
from penstock.runtime.jit.cpu import compile_cpu
from penstock.runtime.loading.weight_layout import as_stored
from penstock.runtime.observe import kernel_timer
from penstock.runtime.observe.kernel_timer import (
    Arguments,
    Contender,
    makespan,
    profile,
    time_calls,
)
from penstock.runtime.observe.timing_rounds import Effort, Result, relative_error
from penstock.runtime.program.executable import Panels, TensorKind

SOURCE = """
from penstock.runtime.kernels.cpu.support import buffer_f32, c_kernel, f32

PARTS = {parts}


@c_kernel
def kernel(args, part, parts):
    a = buffer_f32(args, 0, 2)
    o = buffer_f32(args, 1, 2)
    number = args
    for turn in range({turns} // parts):
        number = number * 6364136223846793005 + 1442695040888963407
    if number == 7:
        return 9
    for i in range({count} * part // parts, {count} * (part + 1) // parts):
        o[i] = f32(a[i] * f32({value}))
    return {code}
"""
"""A kernel that multiplies by a number, and takes its time for it."""

Start: TypeAlias = Callable[..., "Future[Any]"]

KINDS = [TensorKind((64,), "float32", 256)] * 2
QUICK = Effort(warm_up=1, rounds=12, seconds=300)


def contender(name: str, **facts: object) -> Contender:
    """A kernel that doubles 64 elements, or what is said."""
    given = {"parts": 1, "turns": 8, "count": 64, "value": 2, "code": 0, **facts}
    source = f"# {name}\n{SOURCE.format(**given)}"
    return Contender(name, compile_cpu(source, name), [None, None])


def by_name(results: list[Result]) -> dict[str, Result]:
    """Results by the names of contenders."""
    return {result.name: result for result in results}


Timed: TypeAlias = Callable[..., None]


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Timed:
    """Let calls of kernels, which are made, take so many nanoseconds."""

    def let_take(*times: tuple[Contender, int]) -> None:
        by_address = {x.kernel.address: time for x, time in times}

        def time_and_call(
            kernel: int, row: int, part: int, parts: int, calls: int, words: int
        ) -> int:
            found = time_calls(kernel, row, part, parts, calls, words)
            return found if found < 0 else by_address[kernel] * calls // parts

        monkeypatch.setattr(kernel_timer, "time_calls", time_and_call)

    return let_take


def test_times_grow_with_the_work(timed: Timed) -> None:
    one, eight = contender("one"), contender("eight")
    timed((one, 4_000), (eight, 32_000))
    found = by_name(profile([one, eight], KINDS, effort=QUICK))
    assert [result.problem for result in found.values()] == [None, None]
    assert found["one"].samples == [4_000] * 12
    assert found["eight"].least_ns == found["eight"].median_ns == 32_000


def test_times_are_those_that_the_thread_has_worked(start: Start) -> None:
    def work() -> int:
        begin = time.thread_time_ns()
        while time.thread_time_ns() - begin < 20_000_000:
            pass
        return time.thread_time_ns() - begin

    def wait(args: int, part: int, parts: int) -> None:
        worked.append(start(work).result(300))

    worked, kernel, words = list[int](), Callback(wait), np.zeros(2, np.int64)
    before = time.thread_time_ns()
    found = time_calls(kernel.address, 0, 0, 1, 2, words.ctypes.data)
    # The thread waited for as long as another one worked, at least.
    assert 0 < found < sum(worked)
    assert found <= time.thread_time_ns() - before


def test_who_is_clearly_slower_drops_out(timed: Timed) -> None:
    slow, fast = contender("slow"), contender("fast")
    timed((slow, 90_000), (fast, 9_000))
    found = by_name(profile([slow, fast], KINDS, effort=QUICK))
    assert len(found["slow"].samples) < len(found["fast"].samples) == 12
    assert found["slow"].problem is None


def test_what_computes_something_else_takes_no_part() -> None:
    contenders = [
        contender("right"),
        contender("wrong", value=2.5),
        contender("rounded", value=2.0001),
        contender("idle", count=0),
    ]
    found = by_name(profile(contenders, KINDS, effort=QUICK))
    assert found["right"].problem is None
    assert found["rounded"].problem is None
    problem = found["wrong"].problem
    assert problem is not None
    assert problem.startswith("argument 1 differs by 2.5e-01")
    assert found["idle"].problem == "it writes arguments [], not [1]"
    assert found["wrong"].samples == found["idle"].samples == []


def test_what_fails_takes_no_part() -> None:
    contenders = [contender("fails", code=3), contender("right")]
    found = by_name(profile(contenders, KINDS, effort=QUICK))
    assert found["fails"].problem == "assertion 3 of it fails on random arguments"
    assert found["right"].problem is None
    assert found["right"].samples


def test_nothing_is_measured_where_nobody_is_left() -> None:
    (result,) = profile([contender("fails", code=1)], KINDS, effort=QUICK)
    assert result.samples == []


def test_parts_are_shared_by_threads(timed: Timed) -> None:
    kernel = contender("k", parts=8)
    timed((kernel, 8_000))
    alone, both, three = (
        profile([kernel], KINDS, threads=threads, effort=QUICK)[0]
        for threads in (1, 2, 3)
    )
    assert both.problem is None
    # Three threads compute two of six parts each.
    assert (alone.least_ns, both.least_ns) == (8_000, 4_000)
    assert three.least_ns == pytest.approx(8_000 / 3, abs=1)


def test_seconds_are_not_exceeded_by_much() -> None:
    effort = Effort(warm_up=0, rounds=10**6, seconds=0.0)
    (result,) = profile([contender("k")], KINDS, effort=effort)
    assert len(result.samples) == 1


def test_a_constant_in_panels_is_stored_so() -> None:
    panels = Panels((1, 8, 8), 2, 4, 8)
    arguments = Arguments(KINDS, seed=1)
    usual = arguments.row([None, None])
    stored = arguments.row([panels, None])
    assert stored[0] != usual[0]
    assert stored[1] == usual[1]
    before, after = (
        np.frombuffer(address_bytes(int(row[0])), np.float32) for row in (usual, stored)
    )
    np.testing.assert_array_equal(as_stored(before, panels), after)


def address_bytes(address: int) -> bytes:
    """The 256 bytes at an address."""
    import ctypes

    return ctypes.string_at(address, 256)


def test_arguments_depend_on_the_seed_and_integers_are_zero() -> None:
    kinds = [TensorKind((9,), "int64", 72), TensorKind((64,), "bool", 64), *KINDS]

    def values(seed: int) -> list[bytes]:
        arguments = Arguments(kinds, seed)
        row = arguments.row([None] * 4)
        import ctypes

        return [
            ctypes.string_at(int(address), kind.size)
            for address, kind in zip(row, kinds, strict=True)
        ]

    assert values(3) == values(3)
    assert values(3)[2] != values(4)[2]
    assert values(3)[0] == bytes(72)
    assert set(values(3)[1]) == {0, 1}


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.integers(1, 4))
def test_a_makespan_is_that_of_threads_which_take_the_next_part(
    times: list[int], threads: int
) -> None:
    # A simulation, nanosecond by nanosecond.
    waiting, left, elapsed = [*times], [0] * threads, 0
    while waiting or any(left):
        for thread in range(threads):
            if left[thread] == 0 and waiting:
                left[thread] = waiting.pop(0)
        left = [max(0, time - 1) for time in left]
        elapsed += 1
    assert makespan(times, threads) == elapsed


@pytest.mark.parametrize(
    ("found", "wanted", "error"),
    [
        ([1.0, 4.0], [1.0, 5.0], 0.2),
        ([np.nan, 1.0], [np.nan, 1.0], 0.0),
        ([1.0, 1.0], [np.nan, 1.0], np.inf),
        ([np.inf, 1.0], [1.0, 1.0], np.inf),
        ([0.5], [0.0], 0.5),
        ([], [], 0.0),
    ],
)
def test_errors_are_relative_to_the_largest_value(
    found: list[float], wanted: list[float], error: float
) -> None:
    make: Callable[[list[float]], np.ndarray] = np.array
    assert relative_error(make(found), make(wanted)) == pytest.approx(error)


def test_integers_are_equal_or_not() -> None:
    assert relative_error(np.array([1, 2]), np.array([1, 2])) == 0
    assert relative_error(np.array([1, 2]), np.array([1, 3])) == 1
