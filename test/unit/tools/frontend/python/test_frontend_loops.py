"""Loops and conditions of traced functions compute what Python does with NumPy."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from draws import fresh

import penstock
from penstock import Tensor
from penstock.tools.frontend.python.errors import TraceError
from penstock.tools.frontend.python.jobs import Job

Random = np.random.Generator
STEPS, ROWS, SIZE = 7, 3, 5
State = Annotated[Tensor, (ROWS, SIZE), "f32"]
States = Annotated[Tensor, (STEPS, ROWS, SIZE), "f32"]
Weights = Annotated[Tensor, (SIZE, SIZE), "f32"]
Rows = Annotated[Tensor, (STEPS, SIZE), "f32"]
Row = Annotated[Tensor, (SIZE,), "f32"]


@pytest.fixture
def random() -> Random:
    return fresh()


def floats(random: Random, *shape: int) -> Any:
    return random.standard_normal(shape).astype(np.float32)


def weights(random: Random) -> Any:
    """A matrix that makes no vector longer: errors of a state do not grow by steps."""
    w = floats(random, SIZE, SIZE)
    return w / np.float32(np.linalg.norm(w, 2))


def scanned(
    body: Callable[[Any, Any], Any], carry: Any, slices: Any, *, backward: bool = False
) -> Any:
    """The meaning of a loop, in Python."""
    rows: dict[int, Any] = {}
    numbers = range(len(slices))
    for number in reversed(numbers) if backward else numbers:
        carry, rows[number] = body(carry, slices[number])
    return carry, np.stack([rows[number] for number in numbers])


def cell(w: Any) -> Callable[[Any, Any], Any]:
    def step(state: Any, x: Any) -> Any:
        hidden, total = state
        hidden = np.tanh(hidden @ w + x)
        return (hidden, total + hidden), hidden * 2

    return step


@pytest.mark.parametrize("backward", [False, True])
def test_states_are_carried_and_results_are_stacked(random: Random, backward: bool):
    w, h = weights(random), floats(random, ROWS, SIZE)
    xs = floats(random, STEPS, ROWS, SIZE)

    @penstock.job
    def recurrent(h: State, xs: States, w: Weights) -> Any:
        start: Any = (h, np.zeros_like(h))
        return penstock.ops.loop(cell(w), start, xs, backward=backward)

    (hidden, total), rows = recurrent(h, xs, w)
    start = (h, np.zeros_like(h))
    wanted, wanted_rows = scanned(cell(w), start, xs, backward=backward)
    # Sums of five products, whose errors add up over seven steps.
    for got, want in zip((hidden, total, rows), (*wanted, wanted_rows), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_loops_lie_in_loops_and_read_variables(random: Random):
    xs, w = floats(random, STEPS, SIZE), floats(random, SIZE)

    def doubled(value: Any, _: Any) -> Any:
        return value * 2, None

    @penstock.job
    def nested(xs: Rows) -> Any:
        def step(total: Any, x: Any) -> Any:
            scale = penstock.variable("scale", init=w)
            (grown, _) = penstock.ops.loop(doubled, x * scale, times=3)
            return total + grown, {"grown": grown}

        return penstock.ops.loop(step, np.zeros(SIZE, np.float32), xs)

    total, rows = nested(xs)
    wanted = xs * w * 8
    np.testing.assert_array_equal(rows["grown"], wanted)
    np.testing.assert_allclose(total, wanted.sum(0), rtol=1e-5, atol=1e-5)
    assert nested.ir.count("op.loop") == 2


def test_a_loop_without_iterations_gives_what_it_carries(random: Random):
    x = floats(random, SIZE)

    @penstock.job
    def never(x: Row) -> Any:
        return penstock.ops.loop(lambda c, _: (c + 1, c), x, times=0)

    carried, rows = never(x)
    np.testing.assert_array_equal(carried, x)
    assert rows.shape == (0, SIZE)


@pytest.mark.parametrize("scale", [0.1, 10.0])
def test_conditions_choose_between_results(random: Random, scale: float):
    x = floats(random, SIZE) * np.float32(scale)
    w = floats(random, SIZE)

    @penstock.job
    def clipped(x: Row, v: Row) -> Any:
        norm = (x * x).sum() ** 0.5

        def shorter() -> Any:
            return penstock.ops.cond(v[0] > 0, lambda: x / norm, lambda: -x), norm * 0

        return penstock.ops.cond(norm > 1, shorter, lambda: (x * v, norm))

    found, rest = clipped(x, w)
    norm = np.sqrt(np.sum(x.astype(np.float64) ** 2))
    wanted = (x / norm if w[0] > 0 else -x) if norm > 1 else x * w
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    np.testing.assert_allclose(rest, 0 if norm > 1 else norm, rtol=1e-5)
    assert clipped.ir.count("op.if") == 2


X = Annotated[Tensor, (4, 3), "f32"]


def other_shape(x: X) -> Any:
    return penstock.ops.loop(lambda c, row: (c[:2], None), x[0], x)


def other_structure(x: X) -> Any:
    return penstock.ops.loop(lambda c, row: ([c, c], None), x[0], x)


def one_result(x: X) -> Any:
    first: Any = np.add
    return penstock.ops.loop(first, x[0], x)


def no_number(x: X) -> Any:
    return penstock.ops.loop(lambda c, row: (c, None), x)


def other_number(x: X) -> Any:
    return penstock.ops.loop(lambda c, row: (c, None), x[0], x, times=3)


def less_than_none(x: X) -> Any:
    return penstock.ops.loop(lambda c, row: (c, None), x, times=-1)


def scalar_slices(x: X) -> Any:
    return penstock.ops.loop(lambda c, row: (c, None), x, np.float32(1.0))


def assigning(x: X) -> Any:
    w = penstock.variable("w", (3,))

    def step(c: Any, row: Any) -> Any:
        penstock.assign(w, row)
        return c, None

    return penstock.ops.loop(step, x[0], x)


def leaking(x: X) -> Any:
    kept: list[Any] = []

    def step(c: Any, row: Any) -> Any:
        kept.append(row)
        return c, None

    _ = penstock.ops.loop(step, x[0], x)
    return kept[0] + 1


Count = Annotated[Tensor, (), "i64"]


def test_a_condition_or_a_count_ends_a_loop(random: Random):
    w, rows = weights(random), floats(random, STEPS, SIZE)
    limit = 1.5

    def step(row: Any, x: Any) -> Any:
        row = np.tanh(row @ w) + x
        return row, row

    def is_small(row: Any) -> Any:
        return (row * row).sum() < limit * SIZE

    @penstock.job
    def several(row: Row, xs: Rows, times: Count) -> Any:
        last, _ = penstock.ops.loop(step, row, xs, times, most=STEPS)
        stopped, kept = penstock.ops.loop(step, row, xs, going=is_small)
        halved = penstock.ops.while_loop(
            lambda v: (v * v).sum() > 0.5, lambda v: v / 2, row, most=9
        )
        return last, stopped, kept, halved

    row, times = floats(random, SIZE), int(random.integers(0, STEPS + 1))
    counted = stopped = halved = row
    kept = np.zeros_like(rows)
    for number in range(times):
        counted, _ = step(counted, rows[number])
    for number in range(STEPS):
        if not is_small(stopped):
            break
        stopped, kept[number] = step(stopped, rows[number])
    while (halved * halved).sum() > 0.5:
        halved = halved / 2
    found = several(row, rows, np.asarray(times))
    for array, wanted in zip(found, (counted, stopped, kept, halved), strict=True):
        # Sums of five products, whose errors add up over seven steps.
        np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(
        penstock.errors.TaskError, match="at most 7 iterations was to make 8"
    ):
        several(row, rows, np.asarray(STEPS + 1))


def test_the_example_of_a_decoder_stops_at_its_token(
    capsys: pytest.CaptureFixture[str],
):
    path = Path(__file__).parents[5] / "examples" / "decode.py"
    runpy.run_path(str(path), run_name="__main__")
    counts = [int(line.split()[0]) for line in capsys.readouterr().out.splitlines()]
    assert len(counts) == 4
    assert min(counts) < max(counts) == 20


def no_most(x: X) -> Any:
    times = penstock.ops.cast(x[0, 0], "i64")
    return penstock.ops.loop(lambda c, _: (c, None), x, times=times)


def short_times(x: X) -> Any:
    times = penstock.ops.cast(x[0, 0], "i32")
    return penstock.ops.loop(lambda c, _: (c, None), x, times=times, most=3)


def most_of_known(x: X) -> Any:
    return penstock.ops.loop(lambda c, _: (c, None), x, times=3, most=4)


def most_of_none(x: X) -> Any:
    return penstock.ops.while_loop(lambda c: c[0, 0] > 0, lambda c: c, x, most=0)


def backward_while(x: X) -> Any:
    def step(c: Any, _: Any) -> Any:
        return c, None

    return penstock.ops.loop(
        step, x, times=3, going=lambda c: c[0, 0] > 0, backward=True
    )


def while_of_many(x: X) -> Any:
    return penstock.ops.while_loop(lambda c: c > 0, lambda c: c, x, most=3)


def leaking_branch(x: X) -> Any:
    kept: list[Any] = []

    def keep() -> Any:
        kept.append(x[0] * 2)
        return kept[0]

    _ = penstock.ops.cond(x[0, 0] > 0, keep, lambda: x[0])
    return kept[0] + 1


def other_results(x: X) -> Any:
    return penstock.ops.cond(x[0, 0] > 0, lambda: x[0], lambda: [x[0]])


def other_extents(x: X) -> Any:
    return penstock.ops.cond(x[0, 0] > 0, lambda: x[0], lambda: x[0, :2])


def many_conditions(x: X) -> Any:
    return penstock.ops.cond(x[0] > 0, lambda: x[0], lambda: x[1])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (other_shape, "carry is 3xf32 before an iteration, 2xf32 after it"),
        (other_structure, "the body is given carry, and returns carry.0, carry.1"),
        (one_result, "the body returns what it carries, and other results"),
        (
            no_number,
            "one number of iterations is needed, got nothing that says how many",
        ),
        (other_number, "one number of iterations is needed, got 3, 4"),
        (no_most, "`times` is computed, so `most` has to be given"),
        (short_times, "a number of iterations is one i64, got i32"),
        (most_of_known, "the iterations are known, so there is no `most`"),
        (most_of_none, "`most` is at least 1, got 0"),
        (backward_while, "a loop with a condition does not go backward"),
        (while_of_many, "the condition is one i1, got 4x3xi1"),
        (less_than_none, "there are no -1 iterations"),
        (scalar_slices, "a scalar has no slices"),
        (assigning, "a variable is not assigned to in an iteration of a loop: let its"),
        (leaking_branch, "tensor 3xf32 of a branch of a condition is used in"),
        (
            other_results,
            "one body returns result 3xf32, the other one result.0 3xf32",
        ),
        (other_extents, "one body returns result 3xf32, the other one result 2xf32"),
        (
            many_conditions,
            "penstock.ops.cond: the condition is one i1, got 3xi1",
        ),
        (leaking, "tensor 3xf32 of an iteration of a loop is used in 'leaking'"),
    ],
)
def test_loops_that_cannot_be_traced(function: Callable[..., Any], message: str):
    with pytest.raises(TraceError) as raised:
        Job(function).trace()
    assert message in str(raised.value)
