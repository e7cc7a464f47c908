"""Runs on bound arrays, and the quick way of runs whose arrays can be read in place."""

import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pytest
from onnx import parser

import penstock
from penstock.runtime.core import entry_points
from penstock.runtime.core.watchdog import Watchdog
from penstock.runtime.errors import PenstockError, TaskError
from penstock.runtime.observe.observers import Observer
from penstock.tools.session.session import Session

Floats: TypeAlias = npt.NDArray[np.float32]

SCALED = """
job.job @scaled placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x3xf32>
  %s = job.input "s" : tensor<f32>
  %y = op.mul %x, %s : tensor<2x3xf32>, tensor<f32> -> tensor<2x3xf32>
  %n = op.neg %y : tensor<2x3xf32> -> tensor<2x3xf32>
  job.output "y", %y : tensor<2x3xf32>
  job.output "n", %n : tensor<2x3xf32>
}
"""

COUNTED = """
job.job @counted placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<3xf32>
  %v = job.variable "v" init <zeros> : tensor<3xf32>
  %s = op.add %v, %x : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  job.assign %s to %v : tensor<3xf32>
  job.output "s", %s : tensor<3xf32>
}
"""

PICK = """
job.job @pick placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<5xf32>
  %i = job.input "i" : tensor<2xi64>
  %v = op.gather %x[%i] axis 0 : tensor<5xf32>, tensor<2xi64> -> tensor<2xf32>
  job.output "v", %v : tensor<2xf32>
}
"""


class Runs(Observer):
    """Notes the runs that it is asked about."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def wants(self, run: int) -> bool:
        self.numbers.append(run)
        return True


def drawn(*shape: int, seed: int = 0) -> Floats:
    """Random numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def opened(folder: Path, text: str, engine: str = "actors") -> Session:
    """A session of a job."""
    path = folder / "job.mlir"
    path.write_text(text, encoding="utf-8")
    return Session.open(path, engine=engine)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session of the job `scaled`."""
    with opened(tmp_path, SCALED) as session:
        yield session


@pytest.mark.parametrize("engine", ["actors", "sequential", "sim"])
def test_a_bound_run_reads_what_arrays_hold_now(tmp_path: Path, engine: str) -> None:
    x, s = drawn(2, 3), np.array(2, np.float32)
    with opened(tmp_path, SCALED, engine) as session:
        bound = session.bind({"x": x, "s": s})
        first = bound.run()
        np.testing.assert_array_equal(first["y"], x * 2)
        x[:] = drawn(2, 3, seed=1)
        s[...] = 3
        again = bound.run()
    assert again["y"] is first["y"]
    np.testing.assert_array_equal(again["y"], x * 3)
    np.testing.assert_array_equal(again["n"], x * -3)


def test_results_are_written_to_bound_outputs(session: Session) -> None:
    x, store = drawn(2, 3), np.zeros((2, 2, 3), np.float32)
    outputs = {"n": store[0], "y": store[1]}
    found = session.bind({"x": x, "s": np.array(2, np.float32)}, outputs).run()
    assert found["y"] is outputs["y"]
    np.testing.assert_array_equal(store, [-x * 2, x * 2])


def test_bound_runs_and_others_take_turns(session: Session) -> None:
    one, two = drawn(2, 3), drawn(2, 3, seed=1)
    s = np.ones((), np.float32)
    bound, other = session.bind({"x": one, "s": s}), session.bind({"x": two, "s": s})
    for _ in range(3):
        third = drawn(2, 3, seed=2)
        np.testing.assert_array_equal(bound.run()["y"], one)
        np.testing.assert_array_equal(session.run({"x": third, "s": s})["y"], third)
        np.testing.assert_array_equal(other.run()["y"], two)


def test_a_bound_run_is_seen_by_observers(session: Session) -> None:
    bound = session.bind({"x": drawn(2, 3), "s": np.ones((), np.float32)})
    bound.run()
    seen = session.executor.observers.attach(Runs())
    bound.run()
    bound.run()
    assert seen.numbers == [0, 1]


@pytest.mark.parametrize("engine", ["actors", "sequential"])
def test_a_bound_run_assigns_variables(tmp_path: Path, engine: str) -> None:
    x = drawn(3)
    with opened(tmp_path, COUNTED, engine) as session:
        bound = session.bind({"x": x})
        for count in range(1, 4):
            found = cast("Floats", bound.run()["s"])
            np.testing.assert_allclose(found, x * count, rtol=1e-6)
        state = cast("Floats", session.state()["v"])
    np.testing.assert_allclose(state, x * 3, rtol=1e-6)


def test_a_bound_run_that_fails_names_its_task_and_runs_again(tmp_path: Path) -> None:
    x, i = drawn(5), np.array([4, 9], np.int64)
    with opened(tmp_path, PICK) as session:
        bound = session.bind({"x": x, "i": i})
        with pytest.raises(TaskError, match="task 'v'"):
            bound.run()
        i[1] = 0
        np.testing.assert_array_equal(bound.run()["v"], x[[4, 0]])


def test_no_bound_run_after_close(session: Session) -> None:
    bound = session.bind({"x": drawn(2, 3), "s": np.ones((), np.float32)})
    session.close()
    with pytest.raises(PenstockError, match="the executor is closed"):
        bound.run()


FITTING = {"x": drawn(2, 3), "s": np.ones((), np.float32)}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": drawn(3, 2).T}, "input 'x' would be copied"),
        (
            {"x": drawn(2, 3).astype("f8")},
            "input 'x' has dtype float32, got an array of",
        ),
        ({"s": np.array(1, np.float32)[()]}, "input 's' would be copied"),
        ({"x": drawn(3, 2)}, r"input 'x' has shape \(2, 3\), got an array of shape"),
        ({"z": drawn(1)}, "there are no inputs z, the program takes s, x"),
    ],
)
def test_inputs_that_cannot_be_bound_are_refused(
    session: Session, changed: dict[str, Floats], message: str
) -> None:
    with pytest.raises(PenstockError, match=message):
        session.bind(FITTING | changed)


def constant(*shape: int) -> Floats:
    """An array that cannot be written."""
    array = drawn(*shape)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"y": drawn(2, 3)}, "no arrays are given for outputs n"),
        ({"y": FITTING["x"], "n": drawn(2, 3)}, "bound to bytes of another array"),
        (dict.fromkeys("yn", drawn(2, 3)), "bound to bytes of another array"),
        ({"y": constant(2, 3), "n": drawn(2, 3)}, "output 'y' is an array that cannot"),
        (dict.fromkeys("ynz", drawn(2, 3)), "no outputs z, the program gives n, y"),
    ],
)
def test_outputs_that_cannot_be_bound_are_refused(
    session: Session, outputs: dict[str, Floats], message: str
) -> None:
    with pytest.raises(PenstockError, match=message):
        session.bind(FITTING, outputs)


def test_no_arrays_are_bound_to_jobs_that_take_turns(tmp_path: Path) -> None:
    other = COUNTED.replace("@counted", "@other").replace("%s = op.add", "%s = op.sub")
    with (
        opened(tmp_path, COUNTED + other) as session,
        pytest.raises(PenstockError, match="job 'counted' takes turns with others"),
    ):
        session.bind({"x": drawn(3)}, job="counted")


def test_arrays_that_are_not_contiguous_are_run_on(session: Session) -> None:
    """The quick look leaves them to the way that copies them."""
    s = np.ones((), np.float32)
    wide = drawn(3, 2)
    arrays = [wide.T, drawn(2, 6)[:, ::2], drawn(2, 3).astype(">f4"), drawn(2, 3)]
    for x in arrays:
        found = session.run({"x": x, "s": s})["y"]
        np.testing.assert_array_equal(found, np.asarray(x, np.float32))
        assert (session.quick({"x": x, "s": s}) is None) == (x is not arrays[-1])


def test_large_results_that_are_kept_are_not_written_again(tmp_path: Path) -> None:
    """The memory of a large result is used again only once nobody has it."""
    text = SCALED.replace("2x3x", "128x256x")
    with opened(tmp_path, text) as session:
        one, two = drawn(128, 256), drawn(128, 256, seed=1)
        s = np.ones((), np.float32)
        first = session.run({"x": one, "s": s})
        second = session.run({"x": two, "s": s})
        np.testing.assert_array_equal(first["y"], one)
        np.testing.assert_array_equal(second["y"], two)
        place = second.pop("y").ctypes.data
        assert session.run({"x": one, "s": s})["y"].ctypes.data == place


def test_onnx_sessions_take_the_quick_way_for_shapes_of_the_last_run() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>'
        "twice (float[n] x) => (float[n] y) { y = Add(x, x) }"
    )
    with penstock.OnnxSession(model) as session:
        for size in (3, 3, 4, 4, 3):
            x = drawn(size, seed=size)
            np.testing.assert_array_equal(session.run({"x": x})["y"], x + x)
        assert session.compiled == 2
        listed = cast("npt.ArrayLike", x.tolist())
        with pytest.raises(PenstockError, match="dtype"):
            session.run({"x": listed})
    with pytest.raises(PenstockError, match="the session is closed"):
        session.run({"x": x})


def test_arrays_are_bound_to_onnx_models() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>'
        "twice (float[n] x) => (float[n] y) { y = Add(x, x) }"
    )
    x, y = drawn(5), np.zeros(5, np.float32)
    with penstock.OnnxSession(model) as session:
        bound = session.bind({"x": x}, {"y": y})
        x += 1
        assert bound.run()["y"] is y
    np.testing.assert_array_equal(y, x + x)


def test_no_arrays_are_bound_to_models_that_are_compiled_for_values() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>'
        "shaped (float[6] x, int64[2] s) => (float[a, b] y) { y = Reshape(x, s) }"
    )
    with (
        penstock.OnnxSession(model) as session,
        pytest.raises(PenstockError, match="compiled for values of its inputs"),
    ):
        session.bind({"x": drawn(6), "s": np.array([2, 3], np.int64)})


def test_runs_that_outlast_a_slice_of_time_come_to_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python goes on with them, and lets go of their arrays in the end."""
    monkeypatch.setattr(entry_points, "SLICE", 0)
    x, s = drawn(2, 3), np.array(2, np.float32)
    given = {"x": x, "s": s}
    with opened(tmp_path, SCALED) as session:
        session.run(given)
        bound = session.bind(given)
        bound.run()
        counts = sys.getrefcount(x), sys.getrefcount(s)
        results: list[weakref.ref[npt.NDArray[np.generic]]] = []
        for _ in range(3):
            found = session.quick(given)
            assert found is not None
            np.testing.assert_array_equal(found["n"], x * -2)
            np.testing.assert_array_equal(bound.run()["n"], x * -2)
            results.append(weakref.ref(found["n"]))
            del found
        assert (sys.getrefcount(x), sys.getrefcount(s)) == counts
        assert [result() for result in results] == [None] * 3


def test_quick_runs_own_nothing_afterwards(session: Session) -> None:
    x, s = drawn(2, 3), np.array(2, np.float32)
    given = {"x": x, "s": s}
    found = session.run(given)
    kept = [x, s, given]
    counts = [sys.getrefcount(each) for each in kept]
    nothing = sys.getrefcount(None)
    for _ in range(100):
        found = session.run(given)
        assert session.quick({"x": x, "s": x}) is None
    assert counts == [sys.getrefcount(each) for each in kept]
    assert abs(sys.getrefcount(None) - nothing) < 50
    assert sys.getrefcount(found) == 2
    result = weakref.ref(found["y"])
    del found
    assert result() is None


def test_a_quick_run_that_fails_names_its_task_and_gives_arrays_back(
    tmp_path: Path,
) -> None:
    x, good, bad = drawn(5), np.array([4, 0], np.int64), np.array([4, 9], np.int64)
    with opened(tmp_path, PICK) as session:
        session.run({"x": x, "i": good})
        count = sys.getrefcount(x)
        for _ in range(3):
            with pytest.raises(TaskError, match="task 'v'"):
                session.run({"x": x, "i": bad})
            found = cast("Floats", session.run({"x": x, "i": good})["v"])
            np.testing.assert_array_equal(found, x[[4, 0]])
        assert session.quick({"x": x, "i": good}) is not None
        assert sys.getrefcount(x) == count


def test_runs_are_left_to_python_that_are_more_than_a_run(session: Session) -> None:
    given = FITTING
    assert session.quick(given) is None, "threads are started by Python"
    session.run(given)
    executor = session.executor
    assert session.quick(given) is not None
    with executor.stopped():
        assert session.quick(given) is None
    observer = executor.observers.attach(Runs())
    assert session.quick(given) is None
    executor.observers.detach(observer)
    assert session.quick(given) is not None
    executor.watch(Watchdog(60))
    assert session.quick(given) is None
    np.testing.assert_array_equal(session.run(given)["y"], FITTING["x"])
    session.close()
    assert session.quick(given) is None


def test_threads_run_one_session_at_once(session: Session) -> None:
    """Each gets the results of its own arrays, whoever has the lock."""
    wrong: list[int] = []

    def repeat(seed: int) -> None:
        x, s = drawn(2, 3, seed=seed), np.array(seed, np.float32)
        bound = session.bind({"x": x, "s": s})
        for _ in range(300):
            found = session.run({"x": x, "s": s})
            if not (np.array_equal(found["y"], x * s) and bound.run()["n"].any()):
                wrong.append(seed)

    threads = [threading.Thread(target=repeat, args=(seed,)) for seed in range(1, 5)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
