"""Jobs of one session: shared variables, turns, calls in flight."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Annotated, Any, TypeAlias

import numpy as np
import pytest
from watched_runs import Clock

import penstock
from penstock import PenstockError, Session, Tensor
from penstock.runtime.core.watchdog import Watchdog
from penstock.runtime.errors import TaskError, WatchdogError
from penstock.runtime.executors.executor import Executor
from penstock.runtime.loading.variables import read_variables
from penstock.runtime.testing.fault_injection import Gate, KernelFault, inject
from penstock.tools.frontend.python import session as sessions
from penstock.tools.frontend.python.dispatcher import Call, Dispatcher
from penstock.tools.frontend.python.errors import TraceError
from penstock.tools.frontend.python.jobs import Job
from penstock.tools.frontend.python.session import SessionState
from penstock.tools.session import session as compiled

Row = Annotated[Tensor, (3,), "f32"]
Rows = Annotated[Tensor, ("rows", 3), "f32"]
SIZE = 50_000
"""Elements of a variable that is written while others would like to read."""

Start: TypeAlias = Callable[..., "Future[Any]"]
Hold: TypeAlias = Callable[[str], tuple[threading.Event, threading.Event]]


def row(*values: float) -> Any:
    return np.array(values, np.float32)


@pytest.fixture
def session() -> Iterator[Session]:
    with Session() as session:
        yield session


def weight() -> Any:
    return penstock.variable("w", (3,), init="ones")


def shift(x: Row) -> Any:
    return x + weight()


def scale(x: Rows) -> Any:
    return x * weight() + penstock.variable("v", (3,))


def train(x: Row) -> Any:
    w = weight()
    penstock.assign(w, w + x)
    return w * 2


def counter() -> Any:
    return penstock.variable("count", (SIZE,))


def bump() -> Any:
    count = counter()
    penstock.assign(count, count + 1)
    return count[:1]


def look() -> Any:
    count = counter()
    return count.min(), count.max()


def divide(x: Annotated[Tensor, (3,), "i32"]) -> Any:
    count = penstock.variable("whole", (3,), "i32", init="ones")
    penstock.assign(count, count + penstock.ops.div(np.array([6, 6, 6], np.int32), x))
    return count


def whole() -> Any:
    return penstock.variable("whole", (3,), "i32", init="ones")


# Variables ---------------------------------------------------------------------------


def test_jobs_have_one_copy_of_a_variable_and_later_ones_too(session: Session):
    session.call(Job(shift), row(1, 2, 3))
    (place,) = session.variables.addresses("w")
    for rows in (1, 2):
        session.call(Job(scale), np.ones((rows, 3), np.float32))
        assert session.variables.addresses("w") == [place]
    assert session.variables.names == ["v", "w"]


def test_job_that_comes_later_compiles_nothing_again(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    made: list[Any] = []

    class Counted(compiled.Session):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            made.append(self.jobs)

    monkeypatch.setattr(compiled, "Session", Counted)
    first, later = Job(shift), Job(train)
    for _ in range(2):
        session.call(first, row(1, 2, 3))
    assert made == [("shift",)]
    session.call(later, row(0, 0, 0))
    session.call(first, row(1, 2, 3))
    assert made == [("shift",), ("train",)]


def test_what_a_job_assigns_all_jobs_read(session: Session):
    step, read, late = Job(train), Job(shift), Job(scale)
    x = row(0, 1, 2)
    assert session.call(step, x).tolist() == [2, 2, 2]
    assert session.call(read, row(0, 0, 0)).tolist() == [1, 2, 3]
    assert session.call(step, x).tolist() == [2, 4, 6]
    assert session.call(late, np.ones((2, 3), np.float32)).tolist() == [[1, 3, 5]] * 2


def test_variables_outlive_the_programs_that_have_them():
    with Session(cache_size=1) as session:
        step, late = Job(train), Job(scale)
        session.call(late, np.ones((1, 3), np.float32))
        session.call(step, row(1, 1, 1))
        found = session.call(late, np.ones((2, 3), np.float32))
        assert found.tolist() == [[2, 2, 2]] * 2


def test_variables_are_read_and_written_as_a_whole(session: Session):
    step, read = Job(train), Job(shift)
    assert session.read_variables() == {}
    session.call(step, row(1, 2, 3))
    values = session.read_variables()
    assert values["w"].tolist() == [2, 3, 4]
    session.call(step, row(1, 2, 3))
    assert values["w"].tolist() == [2, 3, 4]
    session.write_variables(values)
    assert session.call(read, row(0, 0, 0)).tolist() == [2, 3, 4]
    with pytest.raises(PenstockError) as caught:
        session.write_variables({"z": row(1)})
    assert str(caught.value).split("\n  ") == [
        "2 things are wrong with the state:",
        "the state lacks variables w",
        "the program has no variables z",
    ]


def test_work_goes_on_from_variables_that_were_read_before(session: Session):
    session.add(Job(train))
    session.write_variables({"w": row(5, 6, 7)})
    assert session.state is SessionState.RUNNING
    assert session.call(Job(shift), row(0, 0, 0)).tolist() == [5, 6, 7]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(5, [5, 5, 5]), (2.5, [2.5] * 3), (np.arange(3, dtype="f4"), [0, 1, 2])],
)
def test_variable_is_assigned_numbers_and_arrays(
    session: Session, value: Any, expected: list[float]
):
    def store() -> Any:
        penstock.assign(weight(), value)
        return weight()

    assert session.call(Job(store)).tolist() == [1, 1, 1]
    assert session.call(Job(weight)).tolist() == expected


def test_what_cannot_be_assigned(session: Session):
    def no_variable(x: Row) -> Any:
        penstock.assign(x + 1, x)

    def twice(x: Row) -> Any:
        penstock.assign(weight(), x)
        penstock.assign(weight(), x)

    def other_shape(x: Row) -> Any:
        penstock.assign(weight(), x[:2])

    def other_dtype(x: Row) -> Any:
        penstock.assign(weight(), np.zeros(3, np.int32))

    messages = {
        no_variable: "only variables are assigned to, got 3xf32",
        twice: "variable 'w' is assigned twice",
        other_shape: "variable 'w' is 3xf32, got 2xf32",
        other_dtype: "variable 'w' is 3xf32, got 3xi32",
    }
    for function, message in messages.items():
        with pytest.raises(TraceError) as caught:
            Job(function).trace()
        assert str(caught.value).endswith(f": {message}")
        assert f"{__file__}:" in str(caught.value)
    with pytest.raises(TraceError) as caught:
        penstock.assign(row(1), 2)
    message = "an assignment to a variable outside of a function that is traced"
    assert str(caught.value).endswith(message)


# Turns -------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_calls_that_assign_have_the_variable_to_themselves(threads: int, start: Start):
    with Session(threads=threads) as session:
        write, read = Job(bump), Job(look)
        session.call(write)
        torn: list[Any] = []

        def call(job: Job, count: int) -> None:
            for _ in range(count):
                found = session.call(job)
                if job is read and found[0] != found[1]:
                    torn.append(found)

        callers = [start(call, job, 40) for job in (write, read)]
        futures = [session.submit(job) for _ in range(30) for job in (write, read)]
        for caller in callers:
            caller.result(300)
        pairs = [future.result(300) for future in futures[1::2]]
        assert torn == []
        assert all(low == high for low, high in pairs)
        assert [x.tolist() for x in session.call(read)] == [71, 71]


def test_what_was_submitted_reads_what_was_assigned_before(session: Session):
    write, read = Job(bump), Job(look)
    futures: list[Future[Any]] = []
    for _ in range(20):
        session.submit(write)
        futures.append(session.submit(read))
    found = [future.result(300)[0] for future in futures]
    assert found == list(range(1, 21))


def test_calls_that_share_no_variable_run_at_the_same_time(
    session: Session, hold: Hold
):
    _, gate = hold("shift")
    waiting = [session.submit(Job(shift), row(1, 2, 3)) for _ in range(2)]
    assert session.submit(Job(look)).result(300)[0] == 0
    assert not any(future.done() for future in waiting)
    gate.set()
    assert [f.result(300).tolist() for f in waiting] == [[2, 3, 4]] * 2


def test_calls_that_only_read_a_variable_run_at_the_same_time(
    session: Session, hold: Hold
):
    hold("shift")
    waiting = session.submit(Job(shift), row(1, 2, 3))
    found = session.submit(Job(scale), np.ones((1, 3), np.float32)).result(300)
    assert found.tolist() == [[1, 1, 1]]
    assert not waiting.done()


def test_call_waits_for_those_before_it_that_assign_what_it_reads(
    session: Session, hold: Hold
):
    _, gate = hold("train")
    session.submit(Job(train), row(1, 1, 1))
    reading = session.submit(Job(shift), row(0, 0, 0))
    with pytest.raises(TimeoutError):
        reading.result(0.05)
    gate.set()
    assert reading.result(300).tolist() == [2, 2, 2]


def test_error_in_one_job_leaves_others_and_its_variable_alone(session: Session):
    bad, good = Job(divide), Job(look)
    zero, one = np.array([1, 0, 1], np.int32), np.array([1, 2, 3], np.int32)
    futures = [session.submit(bad, x) for x in (one, zero, one)]
    others = [session.submit(good) for _ in range(5)]
    assert all(other.result(300)[1] == 0 for other in others)
    error = futures[1].exception(300)
    assert isinstance(error, TaskError)
    assert error.code == 1
    line = divide.__code__.co_firstlineno + 2
    assert str(error).startswith(f"{__file__}:{line}:")
    (note,) = error.__notes__
    assert note.startswith("in job 'divide', by op.")
    # What failed has assigned nothing.
    assert futures[2].result(300).tolist() == [7, 4, 3]
    assert session.call(Job(whole)).tolist() == [13, 7, 5]


def advance(x: Row, by: Annotated[Tensor, (3,), "i32"]) -> Any:
    """Adds to two variables; one waits for a quotient, which may fail."""
    first, second = (penstock.variable(name, (3,)) for name in ("first", "second"))
    quotient = penstock.ops.div(np.array([6, 6, 6], np.int32), by)
    penstock.assign(first, first + x)
    penstock.assign(second, second + x + 0 * penstock.ops.cast(quotient, "f32"))
    return first


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_closing_lets_the_call_that_assigns_end_and_cancels_those_behind_it(
    threads: int, *, fails: bool, hold: Hold
):
    begun, gate = hold("advance")
    session, job = Session(threads=threads), Job(advance)
    one = np.array([1, 1, 1], np.int32)
    running = session.submit(job, row(1, 2, 3), one - fails)
    waiting = [session.submit(job, row(9, 9, 9), one) for _ in range(20)]
    assert begun.wait(300)
    waiting[-1].add_done_callback(lambda _: gate.set())
    session.close(cancel=True)
    assert all(future.cancelled() for future in waiting)
    assert isinstance(running.exception(0), TaskError) == fails
    found = read_variables(session.variables)
    wanted = [0, 0, 0] if fails else [1, 2, 3]
    assert found["first"].tolist() == found["second"].tolist() == wanted
    with pytest.raises(PenstockError, match="closed"):
        session.submit(job, row(1, 1, 1), one)


def test_callback_may_use_what_calls_that_wait_use(session: Session, hold: Hold):
    write, read = Job(bump), Job(look)
    session.call(write)
    found: list[Any] = []

    def callback(_: object) -> None:
        found.append(session.call(read)[0].item())
        found.append(session.call(write)[0].item())
        found.append(session.submit(write))

    _, gate = hold("bump")
    first = session.submit(write)
    first.add_done_callback(callback)
    rest = [session.submit(job) for job in (write, read, write)]
    gate.set()
    for future in rest:
        future.result(300)
    # It comes before those that have not begun, and what it submits after them.
    assert found[:2] == [2, 2]
    assert found[2].result(300).tolist() == [5]


def test_call_that_is_cancelled_gives_up_its_turn(session: Session, hold: Hold):
    _, gate = hold("bump")
    write = Job(bump)
    session.submit(write)
    second = session.submit(write)
    third = session.submit(Job(look))
    assert second.cancel()
    gate.set()
    assert third.result(300)[0] == 1


# Calls in flight ---------------------------------------------------------------------


def test_submitting_waits_while_too_many_calls_are_in_flight(hold: Hold, start: Start):
    submitted = threading.Event()
    with Session(in_flight=2) as session:
        (_, gate), job = hold("shift"), Job(shift)
        for _ in range(2):
            session.submit(job, row(1, 2, 3))

        def submit() -> None:
            session.submit(job, row(4, 5, 6))
            submitted.set()

        start(submit)
        # Those of other jobs do not count.
        assert session.submit(Job(look)).result(300)[0] == 0
        assert not submitted.wait(0.1)
        gate.set()
        assert submitted.wait(300)


def test_callback_may_submit_more_than_the_limit(hold: Hold):
    with Session(in_flight=1) as session:
        job = Job(shift)
        more: list[Future[Any]] = []
        done = threading.Event()

        def callback(_: object) -> None:
            more.extend(session.submit(job, row(n, n, n)) for n in range(5))
            done.set()

        _, gate = hold("shift")
        session.submit(job, row(1, 2, 3)).add_done_callback(callback)
        gate.set()
        assert done.wait(300)
        assert [f.result(300).tolist() for f in more] == [[n + 1] * 3 for n in range(5)]


def test_closing_frees_who_waits_to_submit(hold: Hold, start: Start):
    session, job = Session(in_flight=1), Job(shift)
    _, gate = hold("shift")
    session.submit(job, row(1, 2, 3))

    def submit() -> None:
        with pytest.raises(PenstockError) as caught:
            session.submit(job, row(4, 5, 6))
        assert str(caught.value) == "the session is closed"

    waiting = start(submit)
    with pytest.raises(TimeoutError):
        waiting.result(0.1)
    closing = start(session.close)
    waiting.result(300)
    gate.set()
    closing.result(300)


def test_lanes_run_at_once_and_share_threads():
    dispatcher = Dispatcher(8)
    barrier = threading.Barrier(4, timeout=300)

    def meet(lane: int) -> int:
        barrier.wait()
        return lane

    for _ in range(3):
        futures = [
            dispatcher.submit(
                lane, lambda lane=lane: Call(lambda: meet(lane), lambda: None)
            )
            for lane in range(4)
        ]
        assert [f.result(300) for f in futures if f is not None] == [0, 1, 2, 3]
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("penstock-calls") <= 8
    dispatcher.close(cancel=False)
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("penstock-calls") == 0


# Watchdog ----------------------------------------------------------------------------


def test_session_with_a_watchdog(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Its time passes while a task is in its kernel."""
    clock, gate = Clock(), Gate()
    run: Callable[..., object] = Executor.run

    def stall(executor: Executor, *arguments: Any) -> object:
        actors = executor.program.tables.actors
        task = next(actor.name for actor in actors if actor.reads and actor.calls)
        with inject(executor, KernelFault(task, act=0, gate=gate)):
            return run(executor, *arguments)

    monkeypatch.setattr(Executor, "run", stall)
    monkeypatch.setattr(sessions, "Watchdog", partial(Watchdog, clock=clock))
    clock.jump(0.4, lambda: gate.is_reached)
    with Session(watchdog=0.3) as session:

        @penstock.job
        def summed(x: Annotated[Tensor, (4, 4), "f32"]) -> Any:
            return (x @ x).sum()

        with pytest.raises(WatchdogError):
            session.call(summed, np.ones((4, 4), np.float32))
    assert capfd.readouterr().err.startswith("penstock: no progress for 0.4 s")


# Before the first call -------------------------------------------------------------


Batch = Annotated[Tensor, ("n", 3), "f32"]


def grow(x: Batch) -> Any:
    w = penstock.variable("w", (3,), init="ones")
    v = penstock.variable("v", init=np.arange(3, dtype=np.float32))
    u = penstock.variable("u", (x.shape[0],), dtype="f32", init="ones")
    penstock.assign(w, w + 1)
    return x * w + v + penstock.ops.reduce_sum(u)


def summed(xs: list[Batch]) -> Any:
    return xs[0] + penstock.variable("z", (3,), init="ones")


def test_variables_of_jobs_whose_extents_have_names_are_there_before_a_call():
    with penstock.Session() as session:
        job = penstock.job(grow)
        penstock.job(summed)
        found = session.read_variables()
        assert {name: array.tolist() for name, array in found.items()} == {
            "v": [0, 1, 2],
            "w": [1, 1, 1],
        }
        w, v = np.full(3, 5, np.float32), np.zeros(3, np.float32)
        session.write_variables({"w": w, "v": v})
        assert session.compiled_shapes(job) == []
        # Of 2 rows, the sum of `u` is 2.
        assert job(np.ones((2, 3), np.float32)).tolist() == [[7] * 3] * 2
        found = session.read_variables()
        assert found["w"].tolist() == [6, 6, 6]
        assert found["u"].tolist() == [1, 1]
        assert sorted(found) == ["u", "v", "w"]


def test_variables_that_are_written_before_a_call_are_there_at_the_first_one():
    def scaled(x: Batch) -> Any:
        return x * penstock.variable("w", (3,), init="ones")

    with penstock.Session() as session:
        job = penstock.job(scaled)
        session.write_variables({"w": np.full(3, 2, np.float32)})
        assert job(np.ones((1, 3), np.float32)).tolist() == [[2] * 3]
        assert job(np.ones((4, 3), np.float32)).tolist() == [[2] * 3] * 4
        with pytest.raises(PenstockError, match="has no variables q"):
            session.write_variables({"w": np.ones(3, np.float32), "q": np.ones(1)})
