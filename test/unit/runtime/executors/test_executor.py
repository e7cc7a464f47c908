"""Running programs: arrays in, arrays out, and what happens when something is wrong."""

import gc
import os
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pytest

from penstock.runtime.errors import PenstockError, TaskError
from penstock.runtime.executors.executor import Executor
from penstock.runtime.loading.initializers import Array
from penstock.runtime.loading.loader import BATCH
from penstock.runtime.loading.memory import allocation_count
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

Start: TypeAlias = Callable[..., "Future[Any]"]

pytestmark = pytest.mark.usefixtures("both_loops")

Floats: TypeAlias = npt.NDArray[np.float32]

both_engines = pytest.mark.parametrize("engine", ["actors", "sequential", "sim"])

SUM = """
job.job @sum placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x3xf32>
  %s = job.input "s" : tensor<f32>
  %y = op.add %x, %s : tensor<2x3xf32>, tensor<f32> -> tensor<2x3xf32>
  job.output "y", %y : tensor<2x3xf32>
}
"""

PICK = """
job.job @pick placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<5xf32>
  %i = job.input "i" : tensor<2xi64>
  %v = op.gather %x[%i] axis 0 : tensor<5xf32>, tensor<2xi64> -> tensor<2xf32>
  %n = op.neg %v : tensor<2xf32> -> tensor<2xf32>
  job.output "n", %n : tensor<2xf32>
}
"""

DIVIDE = """
job.job @divide placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<4xi32>
  %b = job.input "b" : tensor<4xi32>
  %q = op.div %a, %b : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  job.output "q", %q : tensor<4xi32>
}
"""

# Kernels whose assertions differ, called one after the other by one actor.
CHECKS = """
launch.program @checks rank 0 {
  launch.chunk @c on <0, host> size 256
  launch.register @x in @c at 0 slots 2 : memref<i64>
  launch.register @y in @c at 128 slots 2 : memref<i64>
  launch.kernel @small target "cpu" (%x: memref<i64>) {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %limit = arith.constant 10 : i64
    "scf.parallel"(%zero, %one, %one) <{
      operandSegmentSizes = array<i32: 1, 1, 1, 0>
    }> ({
    ^bb0(%i: index):
      %v = memref.load %x[] : memref<i64>
      %ok = arith.cmpi slt, %v, %limit : i64
      cf.assert %ok, "too large"
      scf.reduce
    }) : (index, index, index) -> ()
  }
  launch.kernel @even target "cpu" (%x: memref<i64>, %y: memref<i64>) {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    "scf.parallel"(%zero, %one, %one) <{
      operandSegmentSizes = array<i32: 1, 1, 1, 0>
    }> ({
    ^bb0(%i: index):
      %v = memref.load %x[] : memref<i64>
      %two = arith.constant 2 : i64
      %nought = arith.constant 0 : i64
      %rest = arith.remsi %v, %two : i64
      %ok = arith.cmpi eq, %rest, %nought : i64
      cf.assert %ok, "odd"
      memref.store %v, %y[] : memref<i64>
      scf.reduce
    }) : (index, index, index) -> ()
  }
  launch.actor @feed on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @check on <0, cpu:0> stream 1 can_fail reads [@x] writes [@y] {
    launch.call @small [@x]
    launch.call @even [@x, @y]
  }
  launch.actor @fetch on <0, cpu:0> stream 0 reads [@y] writes [] {
    launch.fetch "y" from @y
  }
}
"""


def open_text(text: str, engine: str = "actors", threads: int = 1) -> Session:
    compiler = installed_compiler()
    module = compiler[0].parse(text.encode(), "test.mlir")
    compiler[0].verify(module)
    model = Model(module, {}, Path())
    return Session(model, engine=engine, threads=threads, compiler=compiler)


@pytest.fixture(scope="module")
def adder() -> Iterator[Session]:
    with open_text(SUM) as session:
        yield session


def number(value: float) -> Floats:
    return np.array(value, np.float32)


def worker_threads() -> int:
    names = [thread.name for thread in threading.enumerate()]
    return sum(name.startswith("penstock") for name in names)


# Inputs ------------------------------------------------------------------------------

X = np.arange(6, dtype=np.float32).reshape(2, 3)
ONE = np.array(1, np.float32)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "no arrays are given for inputs s, x"),
        ({"x": X}, "no arrays are given for inputs s"),
        (
            {"x": X, "s": ONE, "b": X, "a": X},
            "there are no inputs a, b, the program takes s, x",
        ),
        (
            {"x": X.T, "s": ONE},
            "input 'x' has shape (2, 3), got an array of shape (3, 2)",
        ),
        (
            {"x": X, "s": ONE.reshape(1)},
            "input 's' has shape (), got an array of shape (1,)",
        ),
        (
            {"x": X, "s": np.array(1.0)},
            "input 's' has dtype float32, got an array of dtype float64",
        ),
    ],
)
def test_inputs_that_do_not_fit(
    adder: Session, inputs: Mapping[str, Array], message: str
):
    with pytest.raises(PenstockError) as caught:
        adder.run(inputs)
    assert str(caught.value) == message


def test_inputs_of_a_program_that_takes_none():
    text = """
    job.job @none placement <cpu, [0:0]> {
      %w = job.variable "w" init <ones> : tensor<2xf32>
      job.output "w", %w : tensor<2xf32>
    }
    """
    with open_text(text) as session:
        with pytest.raises(PenstockError) as caught:
            session.run({"x": X})
        assert str(caught.value) == "there are no inputs x, the program takes none"
        assert session.run({})["w"].tolist() == [1, 1]


def read_only(array: Array) -> Array:
    array = array.copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "x",
    [
        np.asfortranarray(X),
        np.repeat(X, 2, 1)[:, ::2],
        X[::-1, ::-1],
        np.broadcast_to(X[:1], (2, 3)),
        X.astype(">f4"),
        read_only(X),
    ],
    ids=["columns", "sliced", "reversed", "broadcast", "swapped", "read-only"],
)
def test_arrays_of_any_layout_are_taken(adder: Session, x: Floats):
    before = x.copy()
    assert adder.run({"x": x, "s": ONE})["y"].tolist() == (x + 1).tolist()
    assert (x == before).all()


def test_scalars_are_arrays_without_dimensions(adder: Session):
    # NumPy's reductions give scalars that are no arrays.
    total = cast("Array", np.sum(X))
    outputs = adder.run({"x": X, "s": total})
    assert outputs["y"].tolist() == (X + 15).tolist()


def test_outputs_are_arrays_of_their_own(adder: Session):
    first = adder.run({"x": X, "s": number(1)})["y"]
    second = adder.run({"x": X, "s": number(2)})["y"]
    assert first.tolist() == (X + 1).tolist()
    second[:] = 0
    assert adder.run({"x": X, "s": number(2)})["y"].tolist() == (X + 2).tolist()


# Pieces ------------------------------------------------------------------------------


@both_engines
@pytest.mark.parametrize("count", [0, 1, BATCH, BATCH + 44])
def test_pieces_come_out_in_order(engine: str, count: int):
    random = np.random.default_rng(count)
    xs = random.standard_normal((count, 2, 3)).astype(np.float32)
    pieces = [{"x": x, "s": number(i)} for i, x in enumerate(xs)]
    with open_text(SUM, engine, threads=2) as session:
        results = session.run_many(pieces)
    assert len(results) == count
    for i, (x, result) in enumerate(zip(xs, results, strict=True)):
        np.testing.assert_array_equal(result["y"], x + np.float32(i))


def test_nothing_is_run_unless_all_pieces_fit(adder: Session):
    good, bad = {"x": X, "s": ONE}, {"x": X, "s": X}
    with pytest.raises(PenstockError, match="input 's' has shape"):
        adder.run_many([good] * BATCH + [bad])


def test_threads_take_turns(adder: Session, start: Start):
    wrong: list[int] = []

    def many(name: int) -> None:
        s = number(name)
        for _ in range(50):
            if adder.run({"x": X, "s": s})["y"].tolist() != (X + s).tolist():
                wrong.append(name)

    for future in [start(many, i) for i in range(4)]:
        future.result(300)
    assert wrong == []


# Errors ------------------------------------------------------------------------------


@both_engines
def test_failed_assertion_names_the_task_and_what_is_wrong(engine: str):
    x = np.arange(5, dtype=np.float32)
    with open_text(PICK, engine) as session:
        for index in (5, -6):
            with pytest.raises(TaskError) as caught:
                session.run({"x": x, "i": np.array([0, index])})
            assert caught.value.task == "v"
            assert str(caught.value) == (
                "test.mlir:5:3: task 'v' failed at act 0 with code 1: gather index out "
                "of range"
            )
            good = session.run({"x": x, "i": np.array([-1, 1])})
            assert good["n"].tolist() == [-4, -1]


@both_engines
def test_integer_division_by_zero(engine: str):
    a = np.array([7, -7, 7, -(2**31)], np.int32)
    with open_text(DIVIDE, engine) as session:
        with pytest.raises(TaskError) as caught:
            session.run({"a": a, "b": np.array([1, 1, 0, 1], np.int32)})
        assert caught.value.reason == (
            "task 'q' failed at act 0 with code 1: integer division by zero"
        )
        quotient = session.run({"a": a, "b": np.array([2, 2, -2, -1], np.int32)})
        assert quotient["q"].tolist() == [3, -3, -3, -(2**31)]


@both_engines
@pytest.mark.parametrize(
    ("bad", "message"), [(12, "too large"), (13, "too large"), (7, "odd")]
)
def test_error_of_a_piece_in_the_middle(engine: str, bad: int, message: str):
    # The input runs ahead by its slots, so cursors and slots are off when it stops.
    pieces = [{"x": np.array(2 * (i % 5))} for i in range(300)]
    expected = [piece["x"].item() for piece in pieces]
    with open_text(CHECKS, engine, threads=2) as session:
        for at in (270, 3, 0):
            broken = list(pieces)
            broken[at] = {"x": np.array(bad)}
            with pytest.raises(TaskError) as caught:
                session.run_many(broken)
            assert caught.value.reason == (
                f"task 'check' failed at act {at} with code 1: {message}"
            )
            results = session.run_many(pieces)
            assert [result["y"].item() for result in results] == expected


def test_unknown_engine(adder: Session):
    with pytest.raises(PenstockError) as caught:
        Executor(adder.executor.program, "turbo")
    expected = "unknown engine 'turbo', expected one of actors, sequential, sim"
    assert str(caught.value) == expected


@both_engines
@pytest.mark.parametrize("count", [0, 1])
def test_nothing_runs_after_close(engine: str, count: int):
    session = open_text(SUM, engine)
    output = session.run({"x": X, "s": ONE})["y"]
    session.close()
    session.close()
    with pytest.raises(PenstockError) as caught:
        session.run_many([{"x": X, "s": ONE}] * count)
    assert str(caught.value) == "the executor is closed"
    assert output.tolist() == (X + 1).tolist()


# Resources ---------------------------------------------------------------------------


@pytest.mark.slow
@both_engines
def test_runs_allocate_nothing_but_what_they_return(engine: str):
    with open_text(SUM, engine) as session:
        piece = {"x": X, "s": ONE}
        for _ in range(100):  # Python itself keeps some things to use them again.
            session.run_many([piece] * 10)
        before = allocation_count()
        tracemalloc.start()
        try:
            session.run_many([piece] * 10)
            gc.collect()
            start, _ = tracemalloc.get_traced_memory()
            for _ in range(100):
                session.run_many([piece] * 10)
            gc.collect()
            end, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert allocation_count() == before
    # An array that is kept takes 136 bytes, and there are 2000 in and out.
    assert end - start < 100_000


@pytest.mark.slow
def test_sessions_leave_no_threads_and_no_files():
    compiler = installed_compiler()
    folder = Path("/proc/self/fd")
    threads, files = worker_threads(), len(os.listdir(folder)) if folder.exists() else 0
    module = compiler[0].parse(CHECKS.encode(), "test.mlir")
    for _ in range(100):
        model = Model(module.clone(), {}, Path())
        with Session(model, threads=2, compiler=compiler) as session:
            session.run({"x": np.array(4)})
            assert worker_threads() == threads + 1
    assert worker_threads() == threads
    if folder.exists():
        assert len(os.listdir(folder)) <= files
