"""Observers: told of the same under each executor, in order, always in pairs."""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.runtime.core.core import Core
from penstock.runtime.core.io_kernels import Callback
from penstock.runtime.core.state_layout import CUT_SHORT, RUNNING, STOP
from penstock.runtime.errors import PenstockError, TaskError
from penstock.runtime.executors.executor import Executor
from penstock.runtime.executors.recorded import RecordedRun
from penstock.runtime.executors.reference import SequentialRun
from penstock.runtime.executors.simulator import simulate
from penstock.runtime.loading.initializers import Array
from penstock.runtime.observe.event_log import Log
from penstock.runtime.observe.metrics import (
    CostObserver,
    CountObserver,
    MemoryObserver,
    Sampled,
    TimeObserver,
)
from penstock.runtime.observe.observers import Event, Observer, Observers
from penstock.runtime.observe.program_info import subject_of
from penstock.runtime.program.tables import Actor, Call, Register, Tables
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

Until: TypeAlias = Callable[[Callable[[], bool]], None]
Start: TypeAlias = Callable[..., "Future[Any]"]

pytestmark = pytest.mark.usefixtures("both_loops")

Telling: TypeAlias = tuple[str, Event]
Run: TypeAlias = Callable[[Tables, int, Log], None]

JOB = """
job.job @small placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8x16xf32>
  %w = job.variable "w" init <ones> : tensor<16x4xf32>
  %m = op.matmul %x, %w : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %y = op.softmax %m axis 1 : tensor<8x4xf32> -> tensor<8x4xf32>
  job.output "y", %y : tensor<8x4xf32>
}
"""


class Diary(Observer):
    """Writes down all that it is told."""

    def __init__(self) -> None:
        self.lines: list[Telling] = []

    def start(self, event: Event) -> None:
        self.lines.append(("start", event))

    def stop(self, event: Event) -> None:
        self.lines.append(("stop", event))

    def fail(self, event: Event, error: BaseException) -> None:
        self.lines.append((f"fail {type(error).__name__}", event))

    def about(self, *levels: str) -> list[tuple[str, str]]:
        """The events of some levels: verbs and names."""
        return [(verb, e.name) for verb, e in self.lines if e.level in levels]


def run_core(tables: Tables, acts: int, log: Log) -> None:
    with Core(tables) as core:
        core.run(acts, log)


def run_sequential(tables: Tables, acts: int, log: Log) -> None:
    RecordedRun(log).run()


def run_simulated(tables: Tables, acts: int, log: Log) -> None:
    simulate(tables, acts, [10] * len(tables.actors), log)


all_executors = pytest.mark.parametrize(
    "run", [run_core, run_sequential, run_simulated]
)


def program(*kernels: Callback, calls: int = 1) -> Tables:
    """A chain of tasks t0, t1..., each of which makes so many calls of its kernel."""
    registers = [Register(f"r{i}", i) for i in range(len(kernels) - 1)]
    actors = [
        Actor(
            f"t{i}",
            0,
            (i - 1,) if i > 0 else (),
            (i,) if i < len(registers) else (),
            (Call(kernel.address),) * calls,
        )
        for i, kernel in enumerate(kernels)
    ]
    return Tables(registers, actors, kernels)


def watched(tables: Tables, acts: int, run: Run, *observers: Observer) -> None:
    """Run a program while some observers look on."""
    watching = Observers(lambda: subject_of(tables))
    for observer in observers:
        watching.attach(observer)
    with watching.watch(acts) as log:
        assert log is not None
        run(tables, acts, log)


def idle() -> Callback:
    return Callback(lambda args, part, parts: 0)


def failing(act: int) -> Callback:
    calls = iter(range(1 << 30))
    return Callback(lambda args, part, parts: 7 if next(calls) == act else 0)


def is_inside(inner: Event, outer: Event) -> bool:
    """Whether something is part of something else."""
    if outer.level == "run":
        return inner.level != "run"
    same = inner.task == outer.task and inner.act == outer.act
    return (inner.level, outer.level) == ("op", "task") and same


def assert_paired(lines: list[Telling]) -> None:
    """Each start ends once, inside of the one that was under way, and never before."""
    under_way: list[Event] = []
    for verb, event in lines:
        key = event._replace(end=0)
        if verb == "start":
            assert all(key != other for other in under_way)
            under_way.append(key)
        else:
            assert event.end >= event.start
            under_way.remove(key)
            assert not [other for other in under_way if is_inside(other, event)]
    assert not under_way


# The protocol ------------------------------------------------------------------------


@all_executors
def test_runs_tasks_and_ops_start_and_stop_inside_each_other(run: Run):
    diary = Diary()
    watched(program(idle(), idle()), 1, run, diary)
    t0 = [("start", "t0"), ("start", "call 0"), ("stop", "call 0"), ("stop", "t0")]
    t1 = [(verb, name.replace("t0", "t1")) for verb, name in t0]
    assert diary.about("run", "task", "op") == [("start", ""), *t0, *t1, ("stop", "")]
    assert_paired(diary.lines)


@all_executors
def test_calls_of_one_task_are_told_one_by_one(run: Run):
    diary = Diary()
    watched(program(idle(), calls=3), 2, run, diary)
    ops = [(v, n) for i in range(3) for v, n in [("start", f"call {i}")] * 1]
    names = [name for _, name in ops]
    told = [("start", "t0")]
    told += [(verb, name) for name in names for verb in ("start", "stop")]
    told += [("stop", "t0")]
    assert diary.about("task", "op") == told * 2
    assert_paired(diary.lines)


@all_executors
def test_acts_count_from_the_start_of_each_run(run: Run):
    diary = Diary()
    watched(program(idle()), 3, run, diary)
    acts = [e.act for verb, e in diary.lines if e.level == "task" and verb == "start"]
    assert acts == [0, 1, 2]


def test_a_second_run_of_a_core_counts_from_0_again():
    tables, diary = program(idle(), idle()), Diary()
    watching = Observers(lambda: subject_of(tables))
    watching.attach(diary, levels=["task"])
    with Core(tables) as core:
        core.run(5)
        with watching.watch(2) as log:
            core.run(2, log)
    assert [e.act for verb, e in diary.lines if verb == "stop"] == [0, 0, 1, 1]


@all_executors
def test_a_kernel_that_fails_is_told_as_failed_like_all_around_it(run: Run):
    diary, tables = Diary(), program(idle(), failing(1), idle())
    with pytest.raises(TaskError):
        watched(tables, 3, run, diary)
    assert_paired(diary.lines)
    failed = [e.name for verb, e in diary.lines if verb == "fail TaskError"]
    assert failed == ["call 0", "t1", ""]
    ends = [e.act for verb, e in diary.lines if verb.startswith("fail")]
    assert ends == [1, 1, 3]


@all_executors
def test_of_several_calls_only_those_made_are_told(run: Run):
    diary = Diary()
    with pytest.raises(TaskError):
        watched(program(failing(1), calls=3), 1, run, diary)
    assert diary.about("op") == [
        ("start", "call 0"),
        ("stop", "call 0"),
        ("start", "call 1"),
        ("fail TaskError", "call 1"),
    ]
    assert_paired(diary.lines)


@st.composite
def programs(draw: st.DrawFn) -> Callable[[], Tables]:
    """Makes a program on up to 3 workers, one kernel of which may fail in some act."""
    count = draw(st.integers(1, 8))
    workers = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    calls = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    bad, act = draw(st.integers(0, 2 * count)), draw(st.integers(0, 6))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    edges = {(min(p), max(p)) for p in draw(st.lists(pairs)) if p[0] != p[1]}
    slots = draw(st.integers(1, 2))

    def make() -> Tables:
        found = sorted(edges)
        registers = [Register(f"r{i}", a, slots) for i, (a, _) in enumerate(found)]
        kernels = [failing(act) if i == bad else idle() for i in range(count)]
        actors = [
            Actor(
                f"t{i}",
                workers[i],
                tuple(r for r, (_, b) in enumerate(found) if b == i),
                tuple(r for r, (a, _) in enumerate(found) if a == i),
                (Call(kernels[i].address),) * calls[i],
            )
            for i in range(count)
        ]
        return Tables(registers, actors, kernels)

    return make


@settings(max_examples=60, deadline=None)
@given(programs(), st.integers(1, 4))
def test_whatever_starts_ends_whether_or_not_it_fails(
    make: Callable[[], Tables], acts: int
):
    told: list[Diary] = []
    failed: list[bool] = []
    for run in (run_core, run_sequential, run_simulated):
        told.append(Diary())
        failed.append(False)
        try:
            watched(make(), acts, run, told[-1])
        except TaskError:
            failed[-1] = True
        assert_paired(told[-1].lines)
        failures = [e for verb, e in told[-1].lines if verb == "fail TaskError"]
        assert bool(failures) == failed[-1]
    assert len(set(failed)) == 1
    if not failed[0]:
        one, *others = (Counter(diary.about("run", "task", "op")) for diary in told)
        assert all(other == one for other in others)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_run_is_told_in_pairs(start: Start, until: Until):
    diary, begun, cores = Diary(), threading.Event(), list[Core]()

    def slow(args: int, part: int, parts: int) -> int:
        begun.set()
        until(lambda: cores[0].memory.state.control[STOP] != RUNNING)
        return 0

    def interrupt() -> None:
        assert begun.wait(300)
        signal.raise_signal(signal.SIGINT)

    def run(tables: Tables, acts: int, log: Log) -> None:
        with Core(tables) as core:
            cores.append(core)
            core.run(acts, log)

    tables = program(Callback(slow), idle())
    interruption = start(interrupt)
    with pytest.raises(KeyboardInterrupt):
        watched(tables, 1000, run, diary)
    interruption.result(300)
    assert_paired(diary.lines)
    assert diary.lines[-1][0] == "fail KeyboardInterrupt"
    assert diary.about("task").count(("start", "t0")) == 1


def test_a_call_whose_parts_are_left_when_the_run_stops_is_cut_short(until: Until):
    begun, cores, called = threading.Event(), list[Core](), list[int]()

    def share(args: int, part: int, parts: int) -> None:
        called.append(part)
        begun.set()
        until(lambda: cores[0].memory.state.control[STOP] != RUNNING)

    def fail(args: int, part: int, parts: int) -> int:
        return 7 if begun.wait(300) else 1

    def run(tables: Tables, acts: int, log: Log) -> None:
        with Core(tables, 3) as core:
            cores.append(core)
            try:
                core.run(acts, log)
            finally:
                codes.update((row.actor, row.code) for row in log.rows())

    codes, diary = dict[int, int](), Diary()
    kernels = Callback(share), Callback(fail)
    actors = [
        Actor("shared", 0, calls=(Call(kernels[0].address, parts=4),)),
        Actor("fails", 1, calls=(Call(kernels[1].address),)),
    ]
    with pytest.raises(TaskError) as caught:
        # The first kernel is registered as no callback, as two threads share it.
        watched(Tables([], actors, kernels[1:]), 1, run, diary)
    assert (caught.value.task, caught.value.code) == ("fails", 7)
    # Parts that no thread had begun are left, and no code of a kernel says so.
    assert {1, 2}.isdisjoint(called)
    assert codes == {0: CUT_SHORT, 1: 7}
    told = set(diary.about("task"))
    ends = {("fail TaskError", name) for name in ("shared", "fails")}
    assert told == ends | {("start", name) for name in ("shared", "fails")}


@pytest.mark.parametrize("run", [run_sequential, run_simulated])
def test_a_call_that_is_interrupted_is_cut_short(
    run: Run, monkeypatch: pytest.MonkeyPatch
):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def noting(tables: Tables, acts: int, log: Log) -> None:
        try:
            run(tables, acts, log)
        finally:
            codes.extend(row.code for row in log.rows())

    codes, diary = list[int](), Diary()
    monkeypatch.setattr(SequentialRun, "call", interrupt)
    with pytest.raises(KeyboardInterrupt):
        watched(program(idle()), 1, noting, diary)
    assert codes == [CUT_SHORT]
    assert diary.about("task") == [("start", "t0"), ("fail KeyboardInterrupt", "t0")]


def test_observers_are_told_in_the_order_they_were_attached():
    told: list[str] = []

    class Named(Observer):
        def __init__(self, name: str) -> None:
            self.name = name

        def stop(self, event: Event) -> None:
            told.append(self.name)

    watched(program(idle()), 1, run_core, Named("a"), Named("b"))
    assert told == ["a", "b"] * 3


def test_what_is_detached_is_given_back_and_told_nothing_more():
    tables, diary = program(idle()), Diary()
    watching = Observers(lambda: subject_of(tables))
    assert len(watching) == 0
    assert watching.attach(diary) is diary
    assert len(watching) == 1
    assert watching.detach(diary) is diary
    assert len(watching) == 0
    with watching.watch(1) as log:
        assert log is None
    assert not diary.lines
    with pytest.raises(PenstockError, match=r"^the Diary is not attached$"):
        watching.detach(diary)


def test_an_observer_may_see_some_tasks_and_levels_only():
    tables, tasks, runs = program(idle(), idle()), Diary(), Diary()
    watching = Observers(lambda: subject_of(tables))
    watching.attach(tasks, levels=["task"], tasks=["t1"])
    watching.attach(runs, levels=["run"])
    with watching.watch(1) as log:
        assert log is not None
        run_core(tables, 1, log)
    assert tasks.about("run", "task", "op") == [("start", "t1"), ("stop", "t1")]
    assert runs.about("run", "task", "op") == [("start", ""), ("stop", "")]


def test_names_that_there_are_not_are_refused():
    watching = Observers(lambda: subject_of(program(idle())))
    with pytest.raises(PenstockError, match=r"^there is no task t7, t8 to observe$"):
        watching.attach(Diary(), tasks=["t8", "t0", "t7"])
    with pytest.raises(PenstockError, match=r"^there is no level acts to observe$"):
        watching.attach(Diary(), levels=["acts"])  # pyright: ignore[reportArgumentType]
    assert len(watching) == 0


class Broken(Observer):
    """Raises when something starts."""

    def start(self, event: Event) -> None:
        raise ValueError(event.level)


def test_what_an_observer_raises_comes_after_all_was_told():
    diary = Diary()
    with pytest.raises(ValueError, match="run"):
        watched(program(idle()), 2, run_core, Broken(), diary)
    assert_paired(diary.lines)
    assert len(diary.lines) == 2 * (1 + 2 + 2)


def test_what_an_observer_raises_does_not_hide_why_a_run_failed():
    with pytest.raises(TaskError) as caught:
        watched(program(failing(0)), 1, run_core, Broken())
    notes = caught.value.__notes__
    assert "an observer failed, too: ValueError('run')" in notes


# Executors ---------------------------------------------------------------------------


def session(tmp_path: Path, engine: str = "actors", threads: int = 1) -> Session:
    front = installed_compiler()
    module = front[0].parse(JOB.encode(), "job.mlir")
    model = Model(module, {}, tmp_path)
    return Session(model, engine=engine, threads=threads, compiler=front)


def pieces(count: int) -> list[dict[str, Array]]:
    generator = np.random.default_rng(5)
    return [
        {"x": generator.standard_normal((8, 16)).astype(np.float32)}
        for _ in range(count)
    ]


def told_by(executor: Executor, count: int, *, virtual: bool) -> Counter[object]:
    diary = executor.observers.attach(Diary())
    if virtual:
        names = [actor.name for actor in executor.program.tables.actors]
        executor.simulate(pieces(count), dict.fromkeys(names, 100))
    else:
        executor.run_many(pieces(count))
    executor.observers.detach(diary)
    assert_paired(diary.lines)
    return Counter((verb, e.level, e.name, e.act, e.op) for verb, e in diary.lines)


def test_every_executor_tells_the_same(tmp_path: Path):
    told: list[Counter[object]] = []
    for engine, threads, virtual in (
        ("actors", 1, False),
        ("actors", 2, False),
        ("sequential", 1, False),
        ("sequential", 1, True),
    ):
        with session(tmp_path, engine, threads) as opened:
            told.append(told_by(opened.executor, 5, virtual=virtual))
    # A run; input, two or more tasks that compute, output, and the op of each.
    assert told[0].total() == 2 * (1 + 5 * 2 * 4)
    assert all(counts == told[0] for counts in told)


def test_virtual_times_are_those_that_were_given(tmp_path: Path):
    with session(tmp_path) as opened:
        diary = opened.executor.observers.attach(Diary(), levels=["run", "task"])
        tables = opened.executor.program.tables
        times = {actor.name: 10 + i for i, actor in enumerate(tables.actors)}
        _, found = opened.executor.simulate(pieces(2), times)
    for verb, event in diary.lines:
        if event.level == "task":
            assert event.duration == times[event.name]
        elif verb == "stop":
            assert (event.start, event.end) == (0, found.makespan)


def test_results_do_not_depend_on_who_looks_on(tmp_path: Path):
    with session(tmp_path) as opened:
        plain = opened.run_many(pieces(3))
        opened.executor.observers.attach(TimeObserver())
        watched = opened.run_many(pieces(3))
    for one, other in zip(plain, watched, strict=True):
        np.testing.assert_array_equal(one["y"], other["y"])


# Measures ----------------------------------------------------------------------------


def test_counts_and_times_agree_with_the_clock(tmp_path: Path):
    count, times = CountObserver(), TimeObserver()
    with session(tmp_path) as opened:
        for observer in (count, times):
            opened.executor.observers.attach(observer)
        start = time.monotonic_ns()
        for piece in pieces(4):
            opened.run(piece)
        passed = time.monotonic_ns() - start
    assert count.started == count.stopped
    assert not count.failed
    run = times.times["run", "small"]
    assert run.count == 4
    assert run.least <= run.mean <= run.most <= run.total <= passed
    tasks = sum(t.total for (level, _), t in times.times.items() if level == "task")
    ops = sum(t.total for (level, _), t in times.times.items() if level == "op")
    assert 0 < ops <= tasks <= run.total


def test_costs_are_those_of_the_ops(tmp_path: Path):
    cost = CostObserver()
    with session(tmp_path) as opened:
        opened.executor.observers.attach(cost)
        opened.run_many(pieces(3))
    found = {expense.op: expense for expense in cost.expenses()}
    product = found["op.matmul"]
    # A multiply-add is two; x, w and m are 8x16, 16x4 and 8x4 numbers of 4 bytes.
    assert product.flops == 3 * 2 * 8 * 16 * 4
    assert product.bytes == 3 * 4 * (8 * 16 + 16 * 4 + 8 * 4)
    assert product.times.count == 3
    assert product.gflops == pytest.approx(product.flops / product.times.total)
    assert product.gbytes == pytest.approx(product.bytes / product.times.total)
    assert found["feed"].bytes == 3 * 2 * 4 * 8 * 16
    totals = [expense.times.total for expense in cost.expenses()]
    assert totals == sorted(totals, reverse=True)


def test_live_bytes_are_never_more_than_the_plan_has(tmp_path: Path):
    memory = MemoryObserver()
    with session(tmp_path) as opened:
        opened.executor.observers.attach(memory)
        opened.run_many(pieces(3))
        sizes = {c.name: c.size for c in opened.executor.program.image.chunks}
    assert memory.peak.keys() == sizes.keys()
    for chunk, live in memory.live.items():
        variables = 4 * 16 * 4
        assert live[0][1] == live[-1][1] == variables
        assert max(size for _, size in live) == memory.peak[chunk] <= sizes[chunk]
        # x and m at the product.
        assert memory.peak[chunk] >= variables + 4 * (8 * 16 + 8 * 4)
        assert [t for t, _ in live] == sorted(t for t, _ in live)


def test_live_bytes_on_a_virtual_clock(tmp_path: Path):
    memory = MemoryObserver()
    with session(tmp_path) as opened:
        opened.executor.observers.attach(memory)
        tables = opened.executor.program.tables
        opened.executor.simulate(pieces(1), {a.name: 10 for a in tables.actors})
    (live,) = memory.live.values()
    variables, x, m = 4 * 16 * 4, 4 * 8 * 16, 4 * 8 * 4
    # Input, product, softmax, output: ten nanoseconds each; softmax works in place.
    assert live[:2] == [(0, variables + x), (10, variables + x + m)]
    assert live[-1] == (40, variables)


def test_every_nth_run_is_sampled(tmp_path: Path):
    diary = Diary()
    with session(tmp_path) as opened:
        opened.executor.observers.attach(Sampled(diary, 3), levels=["run"])
        for piece in pieces(7):
            opened.run(piece)
    assert [e.run for verb, e in diary.lines if verb == "start"] == [0, 3, 6]
    with pytest.raises(PenstockError, match="every n-th run is for n from 1 on, got 0"):
        Sampled(diary, 0)


def test_runs_that_nobody_wants_leave_no_log(tmp_path: Path):
    tables = program(idle())
    watching = Observers(lambda: subject_of(tables))
    watching.attach(Sampled(Diary(), 2))
    for wanted in (True, False, True):
        with watching.watch(1) as log:
            assert (log is not None) == wanted


def test_a_run_after_an_observed_one_writes_to_no_log():
    tables = program(idle(), idle())
    with Core(tables) as core:
        log = Log(tables, 3)
        core.run(3, log)
        assert len(log.rows()) == 6
        core.run(4)
        assert len(log.rows()) == 6
        del log
        gc.collect()
        core.run(5)


# What it costs to look on ------------------------------------------------------------


class Hands:
    """A clock that stands still but for who moves it."""

    def __init__(self) -> None:
        self.now = 1_000

    def read(self) -> int:
        return self.now


class Slow(Diary):
    """An observer that takes an hour for each event."""

    HOUR = 3_600_000_000_000

    def __init__(self, hands: Hands) -> None:
        super().__init__()
        self.hands = hands

    def start(self, event: Event) -> None:
        super().start(event)
        self.hands.now += self.HOUR

    def stop(self, event: Event) -> None:
        super().stop(event)
        self.hands.now += self.HOUR


def test_the_time_of_a_run_is_not_that_of_who_looks_on(
    monkeypatch: pytest.MonkeyPatch,
):
    hands = Hands()
    monkeypatch.setattr(time, "monotonic_ns", hands.read)

    def work(args: object, part: int, parts: int) -> int:
        hands.now += 5
        return 0

    tables = program(Callback(work), Callback(work))
    watching = Observers(lambda: subject_of(tables))
    first, second = Slow(hands), Slow(hands)
    for observer in first, second:
        watching.attach(observer)
    begun = hands.now
    with watching.watch(1) as log:
        assert log is not None
        run_sequential(tables, 1, log)
    (run,) = [e for verb, e in second.lines if (verb, e.level) == ("stop", "run")]
    # The two that look on are told of the start while the clock of the run goes.
    assert run.duration == 10 + 2 * Slow.HOUR
    assert hands.now - begun - watching.overhead_ns == 10
