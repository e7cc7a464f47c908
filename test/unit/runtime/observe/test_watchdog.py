"""Runs that make no progress: who is stuck, and what becomes of the run."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from watched_runs import Clock, Reports, without_times

from penstock.runtime.core.core import Core
from penstock.runtime.core.io_kernels import Callback
from penstock.runtime.core.state_layout import RUNNING, STOP
from penstock.runtime.core.watchdog import Watchdog
from penstock.runtime.errors import PenstockError, WatchdogError
from penstock.runtime.program.tables import Actor, Call, Register, Tables
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

Until: TypeAlias = Callable[[Callable[[], bool]], None]

pytestmark = pytest.mark.usefixtures("both_loops")

Kernel = Callable[[int, int, int], int | None]


def line_of(kernel: Kernel, workers: tuple[int, int, int] = (0, 1, 0)) -> Tables:
    """Actors before -> slow -> after, the first one of two slots."""
    slow = Callback(kernel)
    return Tables(
        [Register("x", 0, 2), Register("y", 1)],
        [
            Actor("before", workers[0], (), (0,)),
            Actor("slow", workers[1], (0,), (1,), (Call(slow.address),)),
            Actor("after", workers[2], (1,)),
        ],
        [slow],
    )


STUCK = [
    "'before' at act 2: no free slot in register 'x', held by 'slow'",
    "'slow' at act 0: is in its kernel",
    "'after' at act 0: no piece in register 'y' from 'slow'",
]


SECONDS = 0.01
"""The wait of a watchdog, on a clock that stands still, but for jumps."""


def test_report_says_what_each_actor_waits_for_and_who_runs_what():
    reports, clock, begun = Reports(), Clock(), threading.Event()

    def kernel(args: int, part: int, parts: int) -> int | None:
        begun.set()
        return None if reports.said.wait(300) else 1

    with Core(line_of(kernel)) as core:
        core.watch(Watchdog(0.3, reports, clock=clock))
        clock.jump(0.4, lambda: begun.is_set() and core.acts_made() == 2)
        with pytest.raises(WatchdogError) as caught:
            core.run(5)
        assert len(reports.texts) == 1
        assert without_times(reports.texts[0]) == STUCK
        assert without_times(str(caught.value)) == STUCK
        assert str(caught.value).startswith("the run made no progress for 0.3 s\n  '")
        assert reports.texts[0].startswith("no progress for 0.4 s\n  '")
        assert {line.split()[-2] for line in caught.value.stuck} == {"0.4"}
        # The core runs again.
        core.run(5)
    assert len(reports.texts) == 1


def test_report_alone_lets_the_run_go_on():
    reports, clock, begun = Reports(), Clock(), threading.Event()

    def kernel(args: int, part: int, parts: int) -> int | None:
        begun.set()
        return None if reports.said.wait(300) else 1

    with Core(line_of(kernel)) as core:
        core.watch(Watchdog(SECONDS, reports, fails=False, clock=clock))
        clock.jump(SECONDS, lambda: begun.is_set() and core.acts_made() == 2)
        core.run(5)
    assert [without_times(text) for text in reports.texts] == [STUCK]


def test_progress_anywhere_keeps_the_watchdog_quiet():
    # Each act takes half of the time, all together ten times as long.
    reports, clock = Reports(), Clock()
    tables = line_of(lambda args, part, parts: clock.pass_by(SECONDS / 2))
    with Core(tables) as core:
        core.watch(Watchdog(SECONDS, reports, clock=clock))
        core.run(20)
        # Nor does it count while nothing is run.
        clock.now += 100 * SECONDS
        core.run(1)
    assert reports.texts == []
    assert clock.now == pytest.approx((21 / 2 + 100) * SECONDS)


def test_actor_that_is_ready_waits_for_its_worker():
    reports, clock = Reports(), Clock()

    def kernel(args: int, part: int, parts: int) -> int | None:
        clock.jump(SECONDS)
        return None if reports.said.wait(300) else 1

    slow = Callback(kernel)
    actors = [Actor("slow", calls=(Call(slow.address),)), Actor("other")]
    with Core(Tables([], actors, [slow])) as core:
        core.watch(Watchdog(SECONDS, reports, fails=False, clock=clock))
        core.run(1)
    assert without_times(reports.texts[0]) == [
        "'slow' at act 0: is in its kernel",
        "'other' at act 0: is ready, but worker 0 does something else",
    ]


def test_acts_of_a_report_count_from_the_start_of_the_run():
    reports, clock, acts = Reports(), Clock(), iter(range(1 << 30))

    def kernel(args: int, part: int, parts: int) -> int | None:
        if next(acts) != 9:
            return None
        # All acts of the first run, four of the first actor, and two of each other one.
        clock.jump(SECONDS, lambda: core.acts_made() == 3 * 7 + 4 + 2 + 2)
        return None if reports.said.wait(300) else 1

    with Core(line_of(kernel)) as core:
        core.watch(Watchdog(SECONDS, reports, fails=False, clock=clock))
        core.run(7)
        core.run(4)
    assert without_times(reports.texts[0]) == [
        "'slow' at act 2: is in its kernel",
        "'after' at act 2: no piece in register 'y' from 'slow'",
    ]


def test_acts_of_actors_at_different_rates():
    # Each piece of x lasts for three acts, of which the fifth in all takes long.
    reports, clock, acts = Reports(), Clock(), iter(range(1 << 30))

    def kernel(args: int, part: int, parts: int) -> int | None:
        if next(acts) != 4:
            return None
        # One act of the source in each run, four of the kernel, and of its reader.
        clock.jump(SECONDS, lambda: core.acts_made() == 2 + 4 + 4)
        return None if reports.said.wait(300) else 1

    slow = Callback(kernel)
    call = Call(slow.address)
    actors = [
        Actor("source", 0, (), (0,)),
        Actor("slow", 1, (0,), (1,), (call,), every=((0, 3),)),
        Actor("sink", 0, (1,)),
    ]
    tables = Tables([Register("x", 0), Register("y", 1)], actors, [slow])
    with Core(tables) as core:
        core.watch(Watchdog(SECONDS, reports, fails=False, clock=clock))
        core.run(1)
        core.run(1)
    assert without_times(reports.texts[0]) == [
        "'slow' at act 1: is in its kernel",
        "'sink' at act 1: no piece in register 'y' from 'slow'",
    ]


def test_each_stall_is_reported_once():
    reports, clock, stalls = Reports(), Clock(), iter([True, False, True])

    def stall(args: int, part: int, parts: int) -> None:
        """Take twice the time, and then long enough for another report."""
        if next(stalls):
            clock.pass_by(2 * SECONDS)
            clock.pass_by(2 * SECONDS)

    with Core(line_of(stall)) as core:
        core.watch(Watchdog(SECONDS, reports, fails=False, clock=clock))
        core.run(3)
    stuck = [without_times(text)[-2] for text in reports.texts]
    assert stuck == [f"'slow' at act {act}: is in its kernel" for act in (0, 2)]


def test_report_that_fails_is_told_and_the_next_run_is_watched(
    capfd: pytest.CaptureFixture[str],
):
    told, clock = threading.Event(), Clock()

    def report(text: str) -> None:
        told.set()
        raise KeyError("no paper")

    def kernel(args: int, part: int, parts: int) -> int | None:
        clock.jump(SECONDS)
        return None if told.wait(300) else 1

    with Core(line_of(kernel)) as core:
        core.watch(Watchdog(SECONDS, report, clock=clock))
        for _ in range(2):
            told.clear()
            with pytest.raises(WatchdogError):
                core.run(1)
    line = "penstock: the report of a watchdog failed: KeyError('no paper')\n"
    assert capfd.readouterr().err == 2 * line


def test_report_goes_to_standard_error_by_default(
    capfd: pytest.CaptureFixture[str], until: Until
):
    clock = Clock()

    def kernel(args: int, part: int, parts: int) -> None:
        clock.jump(0.2)
        until(lambda: core.memory.state.control[STOP] != RUNNING)

    with Core(line_of(kernel)) as core:
        core.watch(Watchdog(0.2, clock=clock))
        with pytest.raises(WatchdogError):
            core.run(1)
    assert capfd.readouterr().err.startswith("penstock: no progress for 0.2 s\n")


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "2", None, True])
def test_time_of_a_watchdog_is_positive(seconds: Any):
    with pytest.raises(PenstockError) as caught:
        Watchdog(seconds)
    expected = f"a watchdog waits for more than 0 seconds, got {seconds!r}"
    assert str(caught.value) == expected


def test_closing_ends_the_thread_and_so_does_dropping_the_core():
    def watchers() -> list[str]:
        names = [thread.name for thread in threading.enumerate()]
        return [name for name in names if name == "penstock-watchdog"]

    core = Core(line_of(lambda args, part, parts: None))
    core.watch(Watchdog(60))
    assert watchers() == []
    core.run(1)
    core.watch(Watchdog(50))
    core.run(1)
    assert len(watchers()) == 1
    core.close()
    assert watchers() == []
    core = Core(line_of(lambda args, part, parts: None))
    core.watch(Watchdog(60))
    core.run(1)
    del core
    assert watchers() == []


def test_script_may_end_without_closing():
    code = """
from penstock.runtime.core.core import Core
from penstock.runtime.program.tables import Actor, Tables
from penstock.runtime.core.watchdog import Watchdog
core = Core(Tables([], [Actor("t")]))
core.watch(Watchdog(60))
core.run(3)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_reference_executor_cannot_be_watched():
    front = installed_compiler()
    text = b"""
    job.job @one placement <cpu, [0:0]> {
      %x = job.input "x" : tensor<f32>
      job.output "y", %x : tensor<f32>
    }"""
    model = Model(front[0].parse(text, "one.mlir"), {}, Path())
    with Session(model, engine="sequential", compiler=front) as session:
        with pytest.raises(PenstockError) as caught:
            session.watch(Watchdog(1))
        assert str(caught.value) == "the sequential engine cannot be watched"
