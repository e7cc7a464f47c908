"""Loops and conditions of actors, on all executors, against NumPy."""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from draws import fresh
from loop_programs import actor, loaded, memory

from penstock.runtime.errors import TaskError
from penstock.runtime.executors.executor import Executor
from penstock.runtime.loading.initializers import Array
from penstock.runtime.loading.loader import LoadedProgram

pytestmark = pytest.mark.usefixtures("both_loops")

Floats: TypeAlias = npt.NDArray[np.float64]
V, N = "memref<2xf64>", "memref<i64>"


@pytest.fixture(autouse=True)
def rng() -> np.random.Generator:
    return fresh()


@pytest.fixture(scope="module", params=["actors", "sequential", "sim"])
def engine(request: pytest.FixtureRequest, both_loops: None) -> str:
    return request.param


def run(
    program: LoadedProgram, engine: str, inputs: Mapping[str, Array]
) -> dict[str, Array]:
    """The results of two pieces, which have to be the same."""
    with Executor(program, engine) as executor:
        first, second = executor.run(inputs), executor.run(inputs)
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])
    return first


def failure(program: LoadedProgram, engine: str, inputs: Mapping[str, Array]) -> str:
    with Executor(program, engine) as executor, pytest.raises(TaskError) as caught:
        executor.run(inputs)
    assert str(caught.value).startswith("p.mlir:")
    return caught.value.reason


def scan(x: Floats, h: Floats) -> tuple[Floats, Floats]:
    """The values that are carried from step to step, and the last one."""
    rows: list[Floats] = []
    for row in x:
        h = 0.5 * h + row
        rows.append(h)
    return np.array(rows).reshape(len(rows), 2), h


def number(value: int) -> Array:
    return np.array(value, np.int64)


# Known numbers of iterations ---------------------------------------------------------


def scanning(times: int, *, places: int, way: str = "") -> LoadedProgram:
    """A scan whose value lies in one place, or in two by turns."""
    first = "h" if places == 1 or times % 2 == 0 else "b"
    other = ", @b at 0" if places == 2 else ""
    call = "@step [@x, @p, @q]" if places == 2 else "@step_over [@x, @q]"
    start = "launch.copy @h0 to @h"
    if first == "b":
        start = f"launch.subview @v of @b at 0 : {V}\nlaunch.copy @h0 to @v"
    if times == 0:
        # No iteration writes a row, and the register is handed on.
        start += "\nlaunch.copy @xs to @ys"
    body = f"""
      {start}
      launch.loop {times} {way} {{
        launch.subview @x of @xs at 0 step 16 : {V}
        launch.subview @y of @ys at 0 step 16 : {V}
        launch.carry @p to @q in [@h at 0{other}] : {V}
        launch.call {call}
        launch.copy @q to @y
      }}"""
    rows = max(times, 1)
    table = [
        ("xs", f"memref<{rows}x2xf64>", 2),
        ("h0", V, 3),
        ("ys", f"memref<{rows}x2xf64>", 2),
        ("h", V, 1),
        ("b", "memref<16xi8>", 1),
    ]
    work = ["b"] if places == 2 else []
    return loaded(memory(table) + actor(["xs", "h0"], ["ys", "h"], body, work))


@pytest.mark.parametrize("places", [1, 2])
@pytest.mark.parametrize("times", [1, 4, 7])
def test_scan_carries_a_value_and_stacks_results(
    engine: str, times: int, places: int, rng: np.random.Generator
):
    xs, h0 = rng.random((times, 2)), rng.random(2)
    found = run(scanning(times, places=places), engine, {"xs": xs, "h0": h0})
    rows, last = scan(xs, h0)
    np.testing.assert_array_equal(found["ys"], rows)
    np.testing.assert_array_equal(found["h"], last)


def test_backward_scan_takes_the_last_row_first(engine: str, rng: np.random.Generator):
    xs, h0 = rng.random((5, 2)), rng.random(2)
    program = scanning(5, places=2, way="backward")
    found = run(program, engine, {"xs": xs, "h0": h0})
    rows, last = scan(xs[::-1], h0)
    np.testing.assert_array_equal(found["ys"], rows[::-1])
    np.testing.assert_array_equal(found["h"], last)


def test_loop_of_no_iterations_leaves_the_initial_value(
    engine: str, rng: np.random.Generator
):
    xs, h0 = rng.random((1, 2)), rng.random(2)
    found = run(scanning(0, places=1), engine, {"xs": xs, "h0": h0})
    np.testing.assert_array_equal(found["h"], h0)


def test_several_pieces_go_through_the_slots_around_a_loop(
    engine: str, rng: np.random.Generator
):
    inputs = [{"xs": rng.random((4, 2)), "h0": rng.random(2)} for _ in range(5)]
    with Executor(scanning(4, places=2), engine) as executor:
        found = list(executor.run_many(inputs))
    for given, result in zip(inputs, found, strict=True):
        rows, last = scan(given["xs"], given["h0"])
        np.testing.assert_array_equal(result["ys"], rows)
        np.testing.assert_array_equal(result["h"], last)


def test_inner_loop_sees_what_the_outer_one_moves(
    engine: str, rng: np.random.Generator
):
    body = f"""
      launch.loop 3 {{
        launch.subview @row of @xs at 0 step 64 : memref<4x2xf64>
        launch.subview @y of @ys at 0 step 16 : {V}
        launch.copy @h0 to @y
        launch.loop 4 backward {{
          launch.subview @x of @row at 0 step 16 : {V}
          launch.carry @p to @q in [@y at 0] : {V}
          launch.call @step_over [@x, @q]
        }}
      }}"""
    table = [("xs", "memref<3x4x2xf64>", 2), ("h0", V, 1), ("ys", "memref<3x2xf64>", 2)]
    program = loaded(memory(table) + actor(["xs", "h0"], ["ys"], body))
    xs, h0 = rng.random((3, 4, 2)), rng.random(2)
    found = run(program, engine, {"xs": xs, "h0": h0})
    expected = [scan(rows[::-1], h0)[1] for rows in xs]
    np.testing.assert_array_equal(found["ys"], expected)


def test_step_backward_through_bytes_and_numbers_of_iterations(engine: str):
    body = f"""
      launch.loop 5 {{
        launch.subview @y of @ys at 32 step -8 : {N}
        launch.number @y
      }}
      launch.loop 3 backward {{
        launch.subview @z of @zs at 0 step 8 : {N}
        launch.number @z
      }}"""
    table = [("ys", "memref<5xi64>", 2), ("zs", "memref<3xi64>", 2)]
    found = run(loaded(memory(table) + actor([], ["ys", "zs"], body)), engine, {})
    assert found["ys"].tolist() == [4, 3, 2, 1, 0]
    assert found["zs"].tolist() == [0, 1, 2]


# Numbers that are known when it runs -------------------------------------------------


def bounded(head: str, *, places: int = 2) -> LoadedProgram:
    """A loop that counts up from 0 by `s`, as long as that is less than `e`."""
    other = ", @b at 0" if places == 2 else ""
    call = "@add [@p, @s, @q]" if places == 2 else "@add_over [@s, @q]"
    body = f"""
      launch.subview @t of @b at 8 : memref<i1>
      launch.call @add [@z, @z, @i]
      launch.call @less [@i, @e, @t]
      launch.loop {head} {{
        launch.carry @p to @q in [@i at 0{other}] : {N}
        launch.carry @c to @d in [@b at 8, @b at 9] : memref<i1>
        launch.call {call}
        launch.call @less [@q, @e, @d]
      }}"""
    names = ["z", "s", "e", "n"]
    table = [(name, N, 2) for name in [*names, "i", "m"]]
    table.append(("b", "memref<16xi8>", 1))
    if "made @m" not in head:
        body += "\nlaunch.copy @z to @m"
    return loaded(memory(table) + actor(names, ["i", "m"], body, ["b"], can_fail=True))


def numbers(**values: int) -> dict[str, Array]:
    given = {"z": 0, "s": 1, "e": 0, "n": 0} | values
    return {name: number(value) for name, value in given.items()}


@pytest.mark.parametrize("places", [1, 2])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 10])
def test_count_that_is_known_when_it_runs(engine: str, count: int, places: int):
    program = bounded("up to 10 count @n made @m", places=places)
    found = run(program, engine, numbers(n=count, s=3))
    assert (found["i"], found["m"]) == (3 * count, count)


@pytest.mark.parametrize("end", [0, 1, 6, 10])
def test_condition_decides_how_often(engine: str, end: int):
    found = run(bounded("up to 10 while @c made @m"), engine, numbers(e=end))
    assert (found["i"], found["m"]) == (end, end)


@pytest.mark.parametrize(("count", "end"), [(3, 9), (9, 3), (4, 4), (10, 11)])
def test_count_and_condition(engine: str, count: int, end: int):
    program = bounded("up to 10 count @n while @c made @m")
    found = run(program, engine, numbers(n=count, e=end))
    assert (found["i"], found["m"]) == (min(count, end), min(count, end))


@pytest.mark.parametrize("count", [-1, 11])
def test_count_out_of_range(engine: str, count: int):
    assert failure(bounded("up to 10 count @n"), engine, numbers(n=count)) == (
        f"task 'a' failed at act 0 with code {count}: a loop of at most 10 iterations "
        f"was to make {count}"
    )


def test_condition_that_stays_true(engine: str):
    assert failure(bounded("up to 10 while @c"), engine, numbers(e=99)) == (
        "task 'a' failed at act 0 with code 11: the condition of a loop of at most 10 "
        "iterations is still true after iteration 9"
    )


def test_program_runs_again_after_a_loop_has_failed(engine: str):
    with Executor(bounded("up to 10 count @n"), engine) as executor:
        with pytest.raises(TaskError):
            executor.run(numbers(n=11))
        assert executor.run(numbers(n=5))["i"] == 5


# Conditions --------------------------------------------------------------------------


def test_condition_in_a_loop_and_loop_in_a_condition(engine: str):
    body = f"""
      launch.copy @z to @i
      launch.loop 10 {{
        launch.subview @k of @b at 0 : {N}
        launch.subview @c of @b at 8 : memref<i1>
        launch.number @k
        launch.call @less [@k, @e, @c]
        launch.if @c {{
          launch.loop 3 {{
            launch.call @add_over [@s, @i]
          }}
        }} else {{
          launch.subview @u of @s at 0 : {N}
          launch.call @add_over [@k, @i]
        }}
      }}"""
    table = [(name, N, 2) for name in ["z", "s", "e", "i"]]
    table.append(("b", "memref<16xi8>", 1))
    program = loaded(memory(table) + actor(["z", "s", "e"], ["i"], body, ["b"]))
    given = {name: number(x) for name, x in (("z", 5), ("s", 100), ("e", 4))}
    expected = 5 + 4 * 3 * 100 + sum(range(4, 10))
    assert run(program, engine, given)["i"] == expected


# Failures ----------------------------------------------------------------------------


def test_failing_kernel_says_the_iteration_of_each_loop(engine: str):
    body = f"""
      launch.loop 4 {{
        launch.subview @k of @b at 0 : {N}
        launch.number @k
        launch.loop 6 backward {{
          launch.subview @j of @b at 8 : {N}
          launch.subview @l of @b at 16 : {N}
          launch.number @j
          launch.call @add [@j, @k, @l]
          launch.call @below [@l, @e, @j]
        }}
      }}
      launch.copy @e to @i"""
    table = [("e", N, 2), ("i", N, 2), ("b", "memref<32xi8>", 1)]
    text = memory(table) + actor(["e"], ["i"], body, ["b"], can_fail=True)
    assert failure(loaded(text), engine, {"e": number(7)}) == (
        "task 'a' failed at act 0, iterations 2, 5 with code 1: a number is too large"
    )
