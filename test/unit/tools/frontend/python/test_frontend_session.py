"""Jobs in sessions: structures, states, shapes, variables, futures, threads."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Annotated, Any, NamedTuple, TypeAlias, TypedDict

import numpy as np
import pytest

import penstock
from penstock import PenstockError, Session, Tensor, control
from penstock.runtime.errors import TaskError
from penstock.tools.driver.errors import Rejected, UsageError
from penstock.tools.frontend.python.errors import TraceError
from penstock.tools.frontend.python.jobs import Job
from penstock.tools.frontend.python.session import SessionState, current_session
from penstock.tools.frontend.python.signature import ArgumentError

Row = Annotated[Tensor, (3,), "f32"]
Rows = Annotated[Tensor, ("rows", 3), "f32"]

Hold: TypeAlias = Callable[[str], tuple[threading.Event, threading.Event]]


def row(*values: float) -> Any:
    return np.array(values, np.float32)


@pytest.fixture
def session() -> Iterator[Session]:
    with Session() as session:
        yield session


def double(x: Row) -> Any:
    return x * 2


def total(x: Rows) -> Any:
    return x.sum(axis=0)


# Structures -----------------------------------------------------------------------


class Pair(NamedTuple):
    """A named tuple to return."""

    low: Any
    high: Any


class Point(TypedDict):
    """A dictionary of known keys to take."""

    x: Row
    y: Row


def test_what_a_job_returns_keeps_its_structure(session: Session):
    @penstock.job
    def structured(x: Row) -> Any:
        return {"a": [x, (x + 1,)], "pair": Pair(x - 1, None), "n": 3, "e": []}

    result = structured(row(1, 2, 3))
    assert list(result) == ["a", "pair", "n", "e"]
    assert type(result["a"]) is list
    assert type(result["a"][1]) is tuple
    assert result["a"][0].tolist() == [1, 2, 3]
    assert result["a"][1][0].tolist() == [2, 3, 4]
    assert type(result["pair"]) is Pair
    assert result["pair"].low.tolist() == [0, 1, 2]
    assert result["pair"].high is None
    assert (result["n"].tolist(), result["e"]) == (3, [])


def test_what_a_job_takes_may_be_structured(session: Session):
    @penstock.job
    def structured(
        point: Point,
        pair: tuple[Row, Row],
        many: list[Row],
        more: tuple[Row, ...],
        named: dict[str, Row],
    ) -> Any:
        assert (type(many), type(more)) == (list, tuple)
        sums = {key: value + 1 for key, value in named.items()}
        return point["x"] - point["y"], pair[0] * pair[1], sum(many), len(more), sums

    a, b = row(1, 2, 3), row(4, 5, 6)
    one = structured({"x": a, "y": b}, (a, b), [a, b, b], (a,), {"k": a})
    assert [v.tolist() for v in one[:4]] == [[-3] * 3, [4, 10, 18], [9, 12, 15], 1]
    assert {k: v.tolist() for k, v in one[4].items()} == {"k": [2, 3, 4]}
    two = structured({"y": a, "x": b}, (a, b), [a], (), {"l": b, "k": a})
    assert [v.tolist() for v in two[:4]] == [[3] * 3, [4, 10, 18], [1, 2, 3], 0]
    assert list(two[4]) == ["l", "k"]
    assert session.compiled_shapes(structured) == [
        (3, 1, ("k",)),
        (1, 0, ("l", "k")),
    ]


def test_arguments_by_name_numbers_and_scalars(session: Session):
    @penstock.job
    def scaled(x: Row, by: Annotated[Tensor, (), "f32"]) -> Any:
        return x * by

    expected = [2, 4, 6]
    assert scaled(by=2, x=row(1, 2, 3)).tolist() == expected
    assert scaled(row(1, 2, 3), by=2.0).tolist() == expected
    assert scaled(row(1, 2, 3), np.float32(2)).tolist() == expected
    assert scaled(row(0, 1, 0, 2, 0, 3)[1::2], 2).tolist() == expected


def test_a_job_called_by_another_is_a_part_of_it(session: Session):
    inner = Job(double)

    @penstock.job
    def outer(x: Row) -> Any:
        return inner(inner(x)) + inner.function(row(1, 1, 1))

    assert outer(row(1, 2, 3)).tolist() == [6, 10, 14]
    assert outer.ir.count("job.job") == 1
    assert session.compiled_shapes(inner) == []


def test_the_text_of_a_job():
    @penstock.job
    def affine(x: Row) -> Any:
        return x * penstock.variable("w", (3,), init="ones"), x

    assert affine.ir == (
        "builtin.module {\n"
        "  job.job @affine placement <cpu, [0:0]> {\n"
        '    %x = job.input "x" : tensor<3xf32>\n'
        '    %w = job.variable "w" init <ones> : tensor<3xf32>\n'
        "    %0 = op.mul %x, %w : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>\n"
        '    job.output "out.0", %0 : tensor<3xf32>\n'
        '    job.output "out.1", %x : tensor<3xf32>\n'
        "  }\n"
        "}"
    )
    assert "launch.program @affine rank 0" in affine.trace().lower(threads=2)
    assert repr(affine) == "<job affine(x: 'Row') -> 'Any'>"


# States ---------------------------------------------------------------------------


def test_the_first_call_compiles_all_jobs_and_later_ones_are_added():
    with Session() as session:
        first, second = penstock.job(double), penstock.job(triple)
        lazy = penstock.job(total)
        assert session.state is SessionState.OPEN
        assert session.compiled_shapes(first) == []
        assert first(row(1, 2, 3)).tolist() == [2, 4, 6]
        assert session.state is SessionState.RUNNING
        assert session.compiled_shapes(second) == [()]
        assert session.compiled_shapes(lazy) == []
        later = penstock.job(halve)
        assert session.compiled_shapes(later) == []
        assert later(row(1, 2, 3)).tolist() == [0.5, 1, 1.5]
        assert session.compiled_shapes(later) == [()]
    assert session.state is SessionState.CLOSED


def triple(x: Row) -> Any:
    return x * 3


def halve(x: Row) -> Any:
    return x / 2


def test_a_job_that_waits_is_replaced_by_one_of_the_same_name(session: Session):
    penstock.job(broken)

    @penstock.job
    def broken_(x: Row) -> Any:
        return x

    broken_.name = "broken"
    session.add(broken_)
    assert broken_(row(1, 2, 3)).tolist() == [1, 2, 3]


def broken(x: Row) -> Any:
    return x.reshape(2)


def test_an_error_of_another_job_is_one_of_the_first_call_alone(session: Session):
    wrong, right = penstock.job(broken), penstock.job(double)
    with pytest.raises(penstock.PenstockError, match="reshape"):
        right(row(1, 2, 3))
    assert right(row(1, 2, 3)).tolist() == [2, 4, 6]
    with pytest.raises(penstock.PenstockError, match="reshape"):
        wrong(row(1, 2, 3))


def test_all_jobs_that_cannot_be_traced_are_named_at_once(session: Session):
    def other(x: Row) -> Any:
        return x @ x.reshape(1, 3)

    penstock.job(other)
    penstock.job(broken)
    fine = penstock.job(double)
    with pytest.raises(TraceError) as caught:
        fine(row(1, 2, 3))
    lines = str(caught.value).split("\n")
    assert [line.partition(": ")[2] for line in lines] == [
        "op.matmul of 3xf32, 1x3xf32: rows of 3 elements cannot be multiplied with "
        "columns of 1",
        "op.reshape of 3xf32: cannot reshape 3 elements to [2]",
    ]
    assert session.state is SessionState.OPEN


def test_a_closed_session_runs_nothing():
    session = Session()
    job = Job(double)
    assert session.call(job, row(1, 2, 3)).tolist() == [2, 4, 6]
    session.close()
    session.close()
    for call in (session.call, session.submit):
        with pytest.raises(PenstockError) as caught:
            call(job, row(1, 2, 3))
        assert str(caught.value) == "the session is closed"


def test_a_job_whose_session_is_closed_runs_nowhere_else():
    with Session() as first:
        job = penstock.job(double)
        assert job(row(1, 2, 3)).tolist() == [2, 4, 6]
    step = control.Run(job, writes="y")
    workspace = penstock.Workspace()
    workspace.feed("x", row(1, 2, 3))
    for call in (
        lambda: job(row(1, 2, 3)),
        lambda: job.submit(row(1, 2, 3)),
        lambda: step.run(workspace),
    ):
        with pytest.raises(PenstockError) as caught:
            call()
        assert str(caught.value) == "double: its session is closed"
    # It may run in another one that is named.
    with Session():
        assert job(row(1, 2, 3)).tolist() == [2, 4, 6]
        step.run(workspace)
    assert first.state is SessionState.CLOSED
    default = current_session()
    assert default.call(job, row(1, 2, 3)).tolist() == [2, 4, 6]
    step.run(workspace, default)


@pytest.mark.slow
def test_a_session_that_nobody_keeps_is_closed_for_its_jobs():
    with Session():
        job = penstock.job(double)
    gc.collect()
    with pytest.raises(PenstockError, match=r"^double: its session is closed$"):
        job(row(1, 2, 3))


def test_jobs_of_the_default_session_end_with_it():
    job = penstock.job(double)
    assert job(row(1, 2, 3)).tolist() == [2, 4, 6]
    current_session().close()
    with pytest.raises(PenstockError, match=r"^double: its session is closed$"):
        job(row(1, 2, 3))
    assert penstock.job(double)(row(1, 2, 3)).tolist() == [2, 4, 6]


def test_calls_go_to_the_session_entered_last_or_else_the_default_one():
    default = current_session()
    job = Job(double)
    with Session() as outer, Session() as inner:
        assert current_session() is inner
        job(row(1, 2, 3))
        assert [len(s.compiled_shapes(job)) for s in (outer, inner)] == [0, 1]
    assert current_session() is default
    default.close()
    assert current_session() is not default


def test_closing_ends_all_threads():
    before = threading.active_count()
    with Session(threads=2):
        job = penstock.job(double)
        assert job.submit(row(1, 2, 3)).result(300).tolist() == [2, 4, 6]
        assert threading.active_count() > before
    assert threading.active_count() == before


def test_the_engine_for_reference_gives_the_same():
    with Session(engine="sequential"):
        assert Job(double)(row(1, 2, 3)).tolist() == [2, 4, 6]


@pytest.mark.slow
def test_a_script_may_end_without_closing(tmp_path: Any):
    script = tmp_path / "script.py"
    script.write_text(
        "from typing import Annotated\n"
        "import numpy as np, penstock\n"
        "@penstock.job\n"
        "def double(x: Annotated[penstock.Tensor, (2,), 'f32']): return x * 2\n"
        "print(double.submit(np.ones(2, 'f4')).result(300))\n"
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[2. 2.]\n", "")


def test_penstock_lists_what_it_has():
    names = {"Session", "Tensor", "assign", "job", "op", "ops", "variable"}
    assert names <= set(dir(penstock))


def test_importing_penstock_imports_neither_numpy_nor_xdsl():
    code = "import sys, penstock; print('numpy' in sys.modules, 'xdsl' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "False False\n"


# Shapes ---------------------------------------------------------------------------


def test_a_job_is_compiled_once_for_each_shape(session: Session):
    job = penstock.job(total)
    for count in (2, 5, 2, 5):
        x = np.random.default_rng(count).standard_normal((count, 3)).astype(np.float32)
        np.testing.assert_allclose(job(x), x.sum(0), rtol=1e-5)
    assert session.compiled_shapes(job) == [(2,), (5,)]


def test_the_shape_used_longest_ago_is_dropped():
    with Session(cache_size=2) as session:
        job = penstock.job(total)
        for count in (1, 2, 1, 3):
            assert job(np.ones((count, 3), np.float32)).tolist() == [count] * 3
        assert session.compiled_shapes(job) == [(1,), (3,)]
        assert job(np.ones((2, 3), np.float32)).tolist() == [2] * 3
        assert session.compiled_shapes(job) == [(3,), (2,)]


def test_what_is_dropped_ends_its_threads():
    with Session(threads=2, cache_size=1):
        job = penstock.job(total)
        counts: list[int] = []
        for count in range(1, 6):
            job(np.ones((count, 3), np.float32))
            counts.append(threading.active_count())
    assert len(set(counts)) == 1


def test_a_job_that_nobody_has_is_forgotten(session: Session):
    job = Job(double)
    job(row(1, 2, 3))
    gone = weakref.ref(job)
    del job
    gc.collect()
    assert gone() is None


def test_extents_of_one_name_are_equal(session: Session):
    @penstock.job
    def outer(x: Annotated[Tensor, ("n",), "f32"], y: Rows, z: Rows) -> Any:
        return x.sum() + (y * z).sum()

    ones = np.ones((4, 3), np.float32)
    assert outer(row(1, 2), ones, ones) == 15
    with pytest.raises(ArgumentError) as caught:
        outer(row(1, 2), ones, ones[:3])
    assert str(caught.value) == (
        "outer: 'z' should be rows x 3 x f32 where rows = 4, got 3x3xf32"
    )


@pytest.mark.parametrize("name", ["cache_size", "in_flight", "threads"])
@pytest.mark.parametrize("count", [0, -1, 1.5, "2", None])
def test_counts_of_a_session_are_at_least_1(name: str, count: Any):
    with pytest.raises(PenstockError) as caught:
        Session(**{name: count})
    assert str(caught.value) == f"{name} must be at least 1, got {count!r}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"device": "tpu"},
            "unknown device 'tpu', did you mean 'cpu'? (penstock-opt --list device "
            "names them)",
        ),
        ({"device": 3}, "unknown device '3' (penstock-opt --list device names them)"),
        (
            {"engine": "turbo"},
            "unknown engine 'turbo', expected one of actors, sequential, sim",
        ),
        ({"watchdog": "x"}, "a watchdog waits for more than 0 seconds, got 'x'"),
    ],
)
def test_options_are_refused_before_anything_is_compiled(
    options: dict[str, Any], message: str
):
    with pytest.raises(PenstockError) as caught:
        Session(**options)
    assert str(caught.value) == message


def test_what_is_no_job_is_refused(session: Session):
    message = "expected a job, made by @penstock.job, got 3"
    wrong: Any = 3
    for use in (session.add, session.call, session.submit):
        with pytest.raises(PenstockError) as caught:
            use(wrong)
        assert str(caught.value) == message
    with pytest.raises(TraceError, match="a job is a function, got 3"):
        penstock.job(wrong)


def test_arrays_in_the_other_byte_order_are_refused(session: Session):
    with pytest.raises(ArgumentError) as caught:
        session.call(Job(double), row(1, 2, 3).astype(">f4"))
    got = "3xf32 in the other byte order"
    assert str(caught.value) == f"double: 'x' should be 3xf32, got {got}"


# Variables ------------------------------------------------------------------------


def test_variables_start_as_they_say_and_are_the_same_in_all_jobs(session: Session):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)

    @penstock.job
    def one(x: Row) -> Any:
        w = penstock.variable("w", (3, 2), init="normal", seed=3, std=0.5)
        return x @ w, penstock.variable("a", init=array), penstock.variable("z", (2,))

    @penstock.job
    def two() -> Any:
        w = penstock.variable("w", (3, 2), "f32", init="normal", seed=3, std=0.5)
        again = penstock.variable("w", (3, 2), init="normal", seed=3, std=0.5)
        return w, again - w, penstock.variable("a", (2, 3), "f32", init=array)

    x = row(1, 2, 3)
    (product, a, z), (w, none, b) = one(x), two()
    np.testing.assert_allclose(product, x @ w, rtol=1e-5)
    assert (a == array).all()
    assert (b == array).all()
    assert (z.tolist(), abs(none).max()) == ([0, 0], 0)
    assert 0 < abs(w).max() < 4
    assert one.ir.count("job.variable") == 3
    assert 'job.variable "a" init <npz, file = "weights.npz">' in one.ir
    assert list(one.trace().weights) == ["a"]


def test_jobs_must_define_a_variable_alike(session: Session):
    def shifted(x: Row) -> Any:
        return x + penstock.variable("shared", (3,), init="ones")

    def scaled(x: Row) -> Any:
        return x * penstock.variable("shared", (3,), init="zeros")

    assert penstock.job(shifted)(row(1, 2, 3)).tolist() == [2, 3, 4]
    with pytest.raises(Rejected) as caught:
        penstock.job(scaled)(row(1, 2, 3))
    text = str(caught.value)
    assert "test_frontend_session.py:" in text
    assert "init <ones>" in text
    assert "init <zeros>" in text
    assert Job(shifted)(row(1, 2, 3)).tolist() == [2, 3, 4]


def test_jobs_must_start_a_variable_from_the_same_array(session: Session):
    def of(array: Any) -> Job:
        def shifted(x: Row) -> Any:
            return x + penstock.variable("v", init=array)

        return Job(shifted)

    assert of(row(1, 1, 1))(row(1, 2, 3)).tolist() == [2, 3, 4]
    assert of(row(1, 1, 1))(row(0, 0, 0)).tolist() == [1, 1, 1]
    with pytest.raises(Rejected) as caught:
        of(row(1, 1, 2))(row(1, 2, 3))
    message = "variable 'v' starts from another array in another job"
    assert str(caught.value).endswith(f": {message}")


# Futures --------------------------------------------------------------------------


def test_submitted_calls_end_in_order(session: Session):
    job = penstock.job(double)
    ended: list[int] = []
    futures: list[Future[Any]] = []
    x = row(0, 0, 0)
    for number in range(100):
        x[:] = number
        future = job.submit(x)
        future.add_done_callback(lambda _, number=number: ended.append(number))
        futures.append(future)
    assert [f.result(300).tolist() for f in futures] == [
        [2 * n] * 3 for n in range(100)
    ]
    assert ended == list(range(100))
    assert futures[0].exception() is None


def divided(x: Annotated[Tensor, (2,), "i32"]) -> Any:
    one = np.array([6, 6], np.int32)
    return penstock.ops.div(one, x)


def test_a_failure_reaches_its_future_and_no_other(session: Session):
    job = penstock.job(divided)
    good, bad = np.array([2, 3], np.int32), np.array([1, 0], np.int32)
    futures = [job.submit(x) for x in (good, bad, good)]
    assert futures[0].result(300).tolist() == [3, 2]
    error = futures[1].exception(300)
    assert isinstance(error, TaskError)
    line = divided.__code__.co_firstlineno + 2
    assert str(error) == (
        f"{__file__}:{line}:12: task 'fused' failed at act 0 with code 1: "
        "integer division by zero"
    )
    assert error.__notes__ == ["in job 'divided', by op.fused"]
    assert futures[2].result(300).tolist() == [3, 2]
    with pytest.raises(TaskError):
        job(bad)
    assert job(good).tolist() == [3, 2]


def test_what_does_not_fit_is_refused_when_it_is_submitted(session: Session):
    with pytest.raises(ArgumentError):
        Job(double).submit(row(1, 2))


def test_closing_waits_for_calls_in_flight():
    with Session():
        job = penstock.job(double)
        futures = [job.submit(row(n, n, n)) for n in range(200)]
    assert all(future.done() for future in futures)
    assert futures[-1].result(0).tolist() == [398] * 3


def test_closing_may_cancel_what_has_not_started(hold: Hold):
    begun, gate = hold("double")
    session, job = Session(), Job(double)
    first = session.submit(job, row(1, 2, 3))
    futures = [session.submit(job, row(n, n, n)) for n in range(50)]
    # The first goes on when the last one has been cancelled.
    futures[-1].add_done_callback(lambda _: gate.set())
    assert begun.wait(300)
    session.close(cancel=True)
    assert first.result(0).tolist() == [2, 4, 6]
    assert all(future.cancelled() for future in futures)


def test_an_error_in_the_block_cancels_what_has_not_started(hold: Hold):
    begun, gate = hold("double")
    futures: list[Future[Any]] = []

    def fail() -> None:
        with Session():
            job = penstock.job(double)
            futures.extend(job.submit(row(n, n, n)) for n in range(5))
            futures[-1].add_done_callback(lambda _: gate.set())
            assert begun.wait(300)
            raise KeyError("stop")

    with pytest.raises(KeyError):
        fail()
    assert futures[0].result(0).tolist() == [0, 0, 0]
    assert all(future.cancelled() for future in futures[1:])


def test_a_callback_may_run_jobs_and_close_the_session():
    session = Session()
    job = Job(double)
    found: list[Any] = []
    done = threading.Event()

    def callback(future: Future[Any]) -> None:
        found.append(session.call(job, future.result(0)))
        session.close()
        done.set()

    session.submit(job, row(1, 2, 3)).add_done_callback(callback)
    assert done.wait(300)
    assert found[0].tolist() == [4, 8, 12]
    assert session.state is SessionState.CLOSED


# Threads --------------------------------------------------------------------------


@pytest.mark.parametrize("submitted", [False, True])
def test_a_thousand_calls_from_four_threads(submitted: bool):
    random = np.random.default_rng(4)
    shapes = [(1, 3), (2, 3), (5, 3)]
    inputs = [
        random.standard_normal(shapes[n % 3]).astype(np.float32) for n in range(1000)
    ]
    with Session(threads=2) as session, ThreadPoolExecutor(4) as pool:
        job = penstock.job(total)

        def run(x: Any) -> Any:
            return session.submit(job, x).result(300) if submitted else job(x)

        results = list(pool.map(run, inputs))
        expected = [job(x) for x in inputs]
    assert all((a == b).all() for a, b in zip(results, expected, strict=True))
    np.testing.assert_allclose(results[2], inputs[2].sum(0), rtol=1e-5)


def test_a_call_that_waits_does_not_change_threads(session: Session):
    job = penstock.job(double)
    job(row(1, 2, 3))
    before = threading.active_count()
    job(row(1, 2, 3))
    assert threading.active_count() == before


def test_an_edit_of_one_job_that_is_wrong_names_the_job():
    @penstock.job(edits=["skip op-fuse-row"])
    def bent(x: Annotated[Tensor, (4,), "f32"]):
        return x + x

    @penstock.job
    def fine(x: Annotated[Tensor, (4,), "f32"]):
        return x - x

    with Session() as session:
        # All jobs are compiled at the first call of any.
        session.add(bent)
        with pytest.raises(UsageError) as raised:
            fine(np.zeros(4, np.float32))
    text = "job 'bent': skip op-fuse-row: the pipeline has no pass 'op-fuse-row'"
    assert str(raised.value).startswith(text)
