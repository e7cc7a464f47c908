"""Workspaces, and schedules of jobs on them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Annotated, Any, cast

import numpy as np
import pytest

import penstock
from penstock import Tensor, Workspace
from penstock.runtime.errors import TaskError
from penstock.tools.frontend.python.jobs import Job
from penstock.tools.frontend.python.schedules import (
    Every,
    Loop,
    Once,
    Parallel,
    Run,
    ScheduleError,
    Scope,
    Sequence,
    Step,
)
from penstock.tools.frontend.python.workspace import WorkspaceError

Value = Annotated[Tensor, (), "i64"]


@pytest.fixture(autouse=True)
def _session() -> Iterator[None]:
    with penstock.Session():
        yield


# Workspaces -----------------------------------------------------------------------


def test_what_is_fed_is_fetched_as_a_copy():
    workspace = Workspace()
    array = np.array([1, 2])
    workspace.feed("x", array)
    array[0] = 9
    fetched = workspace.fetch("x")
    fetched[1] = 9
    assert workspace.fetch("x").tolist() == [1, 2]
    workspace.feed("y", array, copy=False)
    assert workspace.fetch("y", copy=False) is array
    assert "x" in workspace
    assert "z" not in workspace
    assert workspace.names == ["x", "y"]
    workspace.feed("x", 3.5)
    assert workspace.fetch("x") == 3.5


def test_names_of_the_parent_are_shared_hidden_or_forwarded():
    parent = Workspace()
    parent.feed("a", 1)
    child = Workspace(parent, {"b": "a", "c": "new"})
    assert [child.fetch(name) for name in "ab"] == [1, 1]
    child.feed("a", 2)
    assert parent.fetch("a") == 2
    child.feed("b", 3)
    assert parent.fetch("a") == 3
    assert "c" not in child
    child.feed("c", 4)
    assert parent.fetch("new") == 4
    child.feed("own", 5)
    assert "own" not in parent
    child.feed("a", 6, local=True)
    assert (child.fetch("a"), parent.fetch("a"), child.fetch("b")) == (6, 3, 3)
    assert child.names == ["a", "b", "c", "new", "own"]
    assert parent.names == ["a", "new"]
    assert dict(child.forwarded) == {"b": "a", "c": "new"}
    grandchild = Workspace(child)
    grandchild.feed("c", 7)
    assert parent.fetch("new") == 7


def test_own_names_are_removed_and_renamed():
    workspace = Workspace()
    workspace.feed("a", 1)
    workspace.rename("a", "b")
    assert workspace.names == ["b"]
    workspace.remove("b")
    assert workspace.names == []


def test_sizes_count_shared_bytes_once():
    workspace = Workspace()
    array = np.zeros(100)
    workspace.feed("large", array, copy=False)
    workspace.feed("part", array[:10], copy=False)
    workspace.feed("small", np.zeros(2))
    found = list(workspace.sizes().items())
    assert found == [("large", 800), ("small", 16), ("part", 0)]


def test_names_that_are_not_there():
    parent = Workspace()
    parent.feed("weight", 1)
    child = Workspace(parent, {"f": "weight"})
    child.feed("own", 1)
    expected = {
        "the workspace has no 'weigth', did you mean 'weight'?": lambda: child.fetch(
            "weigth"
        ),
        "'weight' is no name of this workspace: it is its parent's": lambda: (
            child.remove("weight")
        ),
        "'gone' is no name of this workspace: it is not there": lambda: child.rename(
            "gone", "x"
        ),
        "'own' cannot become 'weight', which is taken": lambda: child.rename(
            "own", "weight"
        ),
        "'own' cannot become 'f', which is taken": lambda: child.rename("own", "f"),
        "names are forwarded to a parent, but there is none": lambda: Workspace(
            None, {"a": "b"}
        ),
    }
    for message, call in expected.items():
        with pytest.raises(WorkspaceError) as caught:
            call()
        assert str(caught.value) == message


# Schedules ------------------------------------------------------------------------


@Job
def increase(x: Value) -> Any:
    """One more."""
    return x + 1


@Job
def compare(x: Value, limit: Value) -> Any:
    """Whether x has reached the limit, and both."""
    return x >= limit, {"sum": x + limit}


def note(log: list[Any]) -> Any:
    """A function that notes what it is given."""

    def noting(*arrays: Any) -> None:
        log.append(tuple(array.tolist() for array in arrays))

    return noting


def workspace_of(**values: int) -> Workspace:
    workspace = Workspace()
    for name, value in values.items():
        workspace.feed(name, np.int64(value))
    return workspace


def test_jobs_and_functions_one_after_the_other():
    workspace, log = workspace_of(x=1, limit=3), list[Any]()
    step = Sequence(
        Run(increase, writes="y"),
        Run(increase, {"x": "y"}, "z"),
        Run(compare, ("z",), writes=("done", "sum")),
        Run(note(log), ("y", "z", "done", "sum")),
    )
    step.run(workspace)
    assert log == [(2, 3, True, 6)]
    assert workspace.names == ["done", "limit", "sum", "x", "y", "z"]


def test_a_loop_by_count_with_steps_in_some_iterations():
    workspace, log = workspace_of(x=0, first=0), list[Any]()
    increase_x = Run(increase, writes="x")
    rare = Every(3, Sequence(Run(note(log), ("x",))))
    once = Once(Run(increase, {"x": "first"}, "first"))
    Loop(Sequence(increase_x, once, rare), count=10).run(workspace)
    assert log == [(3,), (6,), (9,)]
    assert (workspace.fetch("x"), workspace.fetch("first")) == (10, 1)


def test_a_loop_until_a_flag_is_true_after_an_iteration():
    workspace, log = workspace_of(x=0, limit=4), list[Any]()
    step = Sequence(
        Run(compare, writes=("done", "sum")),
        Run(increase, writes="x"),
        Run(note(log), ("x", "done")),
    )
    Loop(step, until="done").run(workspace)
    assert log == [(1, False), (2, False), (3, False), (4, False), (5, True)]


def test_loops_in_loops_count_for_themselves():
    workspace, log = workspace_of(x=0), list[Any]()
    inner = Loop(Sequence(Once(Run(increase, writes="x"))), count=3)
    Loop(Sequence(inner, Every(2, Run(note(log), ("x",)))), count=4).run(workspace)
    assert log == [(2,), (4,)]


def test_steps_at_the_same_time():
    workspace = workspace_of(x=1)
    barrier = threading.Barrier(2, timeout=300)

    def meet(x: Any) -> Any:
        barrier.wait()
        return x * 10

    step = Parallel(Run(meet, ("x",), "a"), Run(meet, ("x",), "b"), Parallel())
    Sequence(step, Run(increase, {"x": "a"}, "c")).run(workspace)
    assert [workspace.fetch(name).tolist() for name in "abc"] == [10, 10, 11]


def test_the_first_failure_stops_steps_at_the_same_time():
    workspace, log = workspace_of(x=1), list[Any]()
    failed = threading.Event()

    def fail() -> None:
        failed.set()
        raise KeyError("stop")

    def wait() -> None:
        assert failed.wait(300)

    slow = Loop(Sequence(Run(wait), Run(note(log))), count=10_000_000)
    with pytest.raises(KeyError):
        Parallel(slow, Run(fail)).run(workspace)
    assert len(log) < 10_000_000


def test_a_failing_job_ends_the_schedule():
    def divided(x: Value) -> Any:
        return penstock.ops.div(np.array(1, np.int64), x)

    log: list[Any] = []
    with pytest.raises(TaskError):
        Sequence(Run(Job(divided), writes="y"), Run(note(log))).run(workspace_of(x=0))
    assert log == []


def test_a_scope_keeps_what_it_writes_unless_it_is_forwarded():
    workspace = workspace_of(x=1)
    inside = Sequence(
        Run(increase, writes="x"),
        Run(increase, writes="t"),
        Run(increase, {"x": "t"}, "result"),
    )
    scopes = [Scope(inside, {"result": name}) for name in ("a", "b")]
    Sequence(Parallel(*scopes), Run(increase, {"x": "a"}, "c")).run(workspace)
    assert workspace.names == ["a", "b", "c", "x"]
    found = [workspace.fetch(name).tolist() for name in workspace.names]
    assert found == [4, 4, 5, 1]


def test_a_schedule_runs_in_the_session_it_is_given():
    with penstock.Session() as other, penstock.Session() as current:
        Run(increase, writes="y").run(workspace_of(x=1), other)
        assert other.compiled_shapes(increase) == [()]
        assert current.compiled_shapes(increase) == []


def reading(name: str) -> Step:
    return Run(note([]), (name,))


def writing(name: str) -> Step:
    return Run(lambda: 1, (), name)


LOOPED = "of a loop, but the loop has another condition, or there is none"


@pytest.mark.parametrize(
    ("step", "messages"),
    [
        (reading("y"), ["noting reads 'y', which is not written before"]),
        (
            Sequence(reading("y"), writing("y"), reading("z")),
            [
                "noting reads 'y', which is not written before",
                "noting reads 'z', which is not written before",
            ],
        ),
        (
            Loop(Sequence(reading("y"), writing("y")), count=2),
            ["noting reads 'y', which is not written before"],
        ),
        (
            Loop(Sequence(Every(2, writing("y")), reading("y")), count=2),
            ["noting reads 'y', which is not written before"],
        ),
        (Sequence(Loop(Once(writing("y")), count=2), reading("y")), []),
        (
            Loop(writing("y"), until="done"),
            ["no step writes the flag 'done' of a loop"],
        ),
        (Loop(writing("done"), until="done"), []),
        (Every(2, writing("y")), [f"a step runs every 2 iterations {LOOPED}"]),
        (Once(writing("y")), [f"a step runs once {LOOPED}"]),
        (
            Loop(Every(2, Once(writing("y"))), count=2),
            [f"a step runs once {LOOPED}"],
        ),
        (
            Parallel(writing("y"), Sequence(writing("y"), writing("z"))),
            ["two steps write 'y' at the same time"],
        ),
        (
            Parallel(writing("x"), reading("x")),
            ["'x' is read and written at the same time"],
        ),
        (
            Parallel(writing("y"), reading("y")),
            [
                "noting reads 'y', which is not written before",
                "'y' is read and written at the same time",
            ],
        ),
        (Parallel(Scope(writing("y")), Scope(writing("y"))), []),
        (
            Sequence(Scope(writing("y")), reading("y")),
            ["noting reads 'y', which is not written before"],
        ),
        (Sequence(Scope(writing("y"), {"y": "z"}), reading("z")), []),
        (
            Parallel(Scope(writing("y"), {"y": "z"}), Scope(writing("z"), {"z": "z"})),
            ["two steps write 'z' at the same time"],
        ),
        (Scope(reading("y"), {"y": "x"}), []),
        (Parallel(Scope(Sequence(writing("x"), reading("x"))), writing("x")), []),
        (
            Parallel(Scope(Sequence(reading("x"), writing("x"))), writing("x")),
            ["'x' is read and written at the same time"],
        ),
        (
            Parallel(
                Scope(Sequence(writing("y"), reading("y")), {"y": "z"}), writing("z")
            ),
            ["two steps write 'z' at the same time"],
        ),
        (
            Parallel(
                Scope(Parallel(writing("x"), Scope(reading("z"), {"z": "x"}))),
                Scope(writing("x")),
            ),
            ["'x' is read and written at the same time"],
        ),
        (
            Parallel(
                Loop(Scope(Sequence(Every(2, writing("x")), reading("x"))), count=2),
                writing("x"),
            ),
            ["'x' is read and written at the same time"],
        ),
        (
            Parallel(
                Loop(Sequence(Scope(writing("x")), reading("x")), count=2),
                Scope(Loop(Sequence(Once(writing("x")), reading("x")), count=2)),
            ),
            [],
        ),
        (
            Scope(reading("x"), {"x": "y"}),
            ["noting reads 'x', which is not written before"],
        ),
    ],
)
def test_schedules_are_checked_before_they_run(step: Step, messages: list[str]):
    if not messages:
        step.verify(["x"])
        return
    with pytest.raises(ScheduleError) as caught:
        step.verify(["x"])
    assert str(caught.value).split("\n") == messages


def test_a_name_of_a_scope_is_none_of_what_runs_beside_it():
    workspace = Workspace()

    def one_more(x: np.int64) -> np.int64:
        return x + 1

    scoped = Sequence(Run(lambda: 1, writes="x"), Run(one_more, "x", "found"))
    Parallel(
        Scope(scoped, {"found": "found"}), Run(lambda: np.float32(9), writes="x")
    ).run(workspace)
    assert workspace.fetch("found") == 2
    assert workspace.fetch("x") == 9


def test_steps_that_cannot_be_made():
    def several(x: list[Value]) -> Any:
        return x

    expected = {
        "a loop has either a count or a flag": lambda: Loop(writing("y")),
        "a loop runs at least once, got 0": lambda: Loop(writing("y"), count=0),
        "a step runs every n iterations, got n = 0": lambda: Every(0, writing("y")),
        "increase takes x, got 'y'": lambda: Run(increase, {"y": "x"}),
        "noting is no job: its reads are a tuple": lambda: Run(note([]), {"x": "y"}),
        "several: 'x' is no tensor, but of several": lambda: Run(Job(several)),
        "expected a step, got 3": lambda: Sequence(cast("Step", 3)),
        "expected a step, got 'y'": lambda: Loop(cast("Step", "y"), count=1),
        "expected a step, got <built-in function abs>: Run makes one of it": (
            lambda: Once(cast("Step", abs))
        ),
        "expected a job or a function, got None": lambda: Run(cast("Job", None)),
    }
    for message, make in expected.items():
        with pytest.raises(ScheduleError) as caught:
            make()
        assert str(caught.value) == message


def test_how_many_arrays_jobs_return_is_checked_before_anything_runs():
    seen: list[object] = []
    first = Run(seen.append, ("x",))
    for message, step in {
        "increase returns 1 array, expected 2: a, b": Run(increase, writes=("a", "b")),
        "compare returns 2 arrays, expected 0: none": Run(compare, {"limit": "x"}),
    }.items():
        with pytest.raises(ScheduleError) as caught:
            Sequence(first, step).run(workspace_of(x=1))
        assert str(caught.value) == message
    assert seen == []


def test_one_name_may_stand_alone():
    def twice(value: Any) -> Any:
        return 2 * value

    workspace = workspace_of(value=1)
    steps = Run(twice, "value", "value"), Run(increase, "value", "sum")
    Sequence(*steps).run(workspace)
    assert workspace.fetch("sum") == 3


def test_what_steps_find_out_when_they_run():
    def text() -> str:
        return "text"

    def two() -> tuple[int, int]:
        return 1, 2

    expected: dict[str, Step] = {
        "two returned 2 arrays, expected 1: y": Run(two, (), "y"),
        "text returned a str": Run(text, (), "y"),
        "the flag 'x' should be one boolean, got int64 of shape ()": Loop(
            Run(increase, writes="x"), until="x"
        ),
    }
    for message, step in expected.items():
        with pytest.raises(ScheduleError) as caught:
            step.run(workspace_of(x=1))
        assert str(caught.value) == message
