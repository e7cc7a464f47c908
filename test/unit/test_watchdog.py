"""Runs that make no progress: who is stuck, and what becomes of the run."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.runtime.core import Core
from penstock.runtime.edges import Callback
from penstock.runtime.errors import PenstockError, WatchdogError
from penstock.runtime.tables import Actor, Call, Register, Tables
from penstock.runtime.watchdog import Watchdog
from penstock.tools.compiler import installed_compiler
from penstock.tools.session import Model, Session

pytestmark = pytest.mark.usefixtures("both_loops")

Kernel = Callable[[int, int, int], int | None]


class Reports:
    """What a watchdog has said, and when it said the first."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.said = threading.Event()

    def __call__(self, text: str) -> None:
        self.texts.append(text)
        self.said.set()


def without_times(text: str) -> list[str]:
    """The lines of a report without how long each has lasted."""
    return [line.strip().rpartition(", for ")[0] for line in text.split("\n")[1:]]


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


def test_report_says_what_each_actor_waits_for_and_who_runs_what():
    reports, gate = Reports(), threading.Event()
    tables = line_of(lambda args, part, parts: None if gate.wait(60) else 1)
    with Core(tables) as core:
        # A thread of a busy machine may have to wait for a tenth of a second.
        core.watch(Watchdog(0.3, reports))
        opener = threading.Thread(target=lambda: reports.said.wait(60) and gate.set())
        opener.start()
        with pytest.raises(WatchdogError) as caught:
            core.run(5)
        opener.join()
        assert len(reports.texts) == 1
        assert without_times(reports.texts[0]) == STUCK
        assert without_times(str(caught.value)) == STUCK
        assert str(caught.value).startswith("the run made no progress for 0.3 s\n  '")
        assert reports.texts[0].startswith("no progress for 0.")
        seconds = [float(line.split()[-2]) for line in caught.value.stuck]
        assert all(0.3 <= s < 30 for s in seconds)
        # The core runs again.
        core.run(5)


def test_report_alone_lets_the_run_go_on():
    reports = Reports()
    tables = line_of(lambda args, part, parts: None if reports.said.wait(60) else 1)
    with Core(tables) as core:
        core.watch(Watchdog(0.05, reports, fails=False))
        core.run(5)
    assert [without_times(text) for text in reports.texts] == [STUCK]


def test_progress_anywhere_keeps_the_watchdog_quiet():
    # Each act takes half of the time, all together ten times as long.
    reports = Reports()
    tables = line_of(lambda args, part, parts: time.sleep(0.05))
    with Core(tables) as core:
        core.watch(Watchdog(0.1 * 4, reports))
        core.run(20)
        # Nor does it count while nothing is run.
        time.sleep(0.5)
        core.run(1)
    assert reports.texts == []


def test_actor_that_is_ready_waits_for_its_worker():
    reports = Reports()
    slow = Callback(lambda args, part, parts: None if reports.said.wait(60) else 1)
    actors = [Actor("slow", calls=(Call(slow.address),)), Actor("other")]
    with Core(Tables([], actors, [slow])) as core:
        core.watch(Watchdog(0.05, reports, fails=False))
        core.run(1)
    assert without_times(reports.texts[0]) == [
        "'slow' at act 0: is in its kernel",
        "'other' at act 0: is ready, but worker 0 does something else",
    ]


def test_acts_of_a_report_count_from_the_start_of_the_run():
    reports, acts = Reports(), iter(range(1 << 30))

    def kernel(args: int, part: int, parts: int) -> int | None:
        return None if next(acts) != 9 or reports.said.wait(60) else 1

    with Core(line_of(kernel)) as core:
        core.watch(Watchdog(0.05, reports, fails=False))
        core.run(7)
        core.run(4)
    assert without_times(reports.texts[0]) == [
        "'slow' at act 2: is in its kernel",
        "'after' at act 2: no piece in register 'y' from 'slow'",
    ]


def test_acts_of_actors_at_different_rates():
    # Each piece of x lasts for three acts, of which the fifth in all takes long.
    reports, acts = Reports(), iter(range(1 << 30))

    def kernel(args: int, part: int, parts: int) -> int | None:
        return None if next(acts) != 4 or reports.said.wait(60) else 1

    slow = Callback(kernel)
    call = Call(slow.address)
    actors = [
        Actor("source", 0, (), (0,)),
        Actor("slow", 1, (0,), (1,), (call,), every=((0, 3),)),
        Actor("sink", 0, (1,)),
    ]
    tables = Tables([Register("x", 0), Register("y", 1)], actors, [slow])
    with Core(tables) as core:
        core.watch(Watchdog(0.05, reports, fails=False))
        core.run(1)
        core.run(1)
    assert without_times(reports.texts[0]) == [
        "'slow' at act 1: is in its kernel",
        "'sink' at act 1: no piece in register 'y' from 'slow'",
    ]


def test_each_stall_is_reported_once():
    reports, stalls = Reports(), iter([0, 1, 0, 2])

    def stall(args: int, part: int, parts: int) -> None:
        """Wait for a report, and then long enough for another one."""
        wanted, last = next(stalls), time.monotonic() + 60
        while len(reports.texts) < wanted and time.monotonic() < last:
            time.sleep(0.01)
        time.sleep(0.3 if wanted else 0)

    with Core(line_of(stall)) as core:
        # So that all threads are there.
        core.run(1)
        core.watch(Watchdog(0.2, reports, fails=False))
        core.run(3)
    stuck = [without_times(text)[-2] for text in reports.texts]
    assert stuck == [f"'slow' at act {act}: is in its kernel" for act in (0, 2)]


def test_report_that_fails_is_told_and_the_next_run_is_watched(
    capfd: pytest.CaptureFixture[str],
):
    told = threading.Event()

    def report(text: str) -> None:
        told.set()
        raise KeyError("no paper")

    tables = line_of(lambda args, part, parts: None if told.wait(60) else 1)
    with Core(tables) as core:
        core.watch(Watchdog(0.05, report))
        for _ in range(2):
            told.clear()
            with pytest.raises(WatchdogError):
                core.run(1)
    line = "penstock: the report of a watchdog failed: KeyError('no paper')\n"
    assert capfd.readouterr().err == 2 * line


def test_report_goes_to_standard_error_by_default(capfd: pytest.CaptureFixture[str]):
    tables = line_of(lambda args, part, parts: time.sleep(0.3))
    with Core(tables) as core:
        core.watch(Watchdog(0.05))
        with pytest.raises(WatchdogError):
            core.run(1)
    assert capfd.readouterr().err.startswith("penstock: no progress for 0.")


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
from penstock.runtime.core import Core
from penstock.runtime.tables import Actor, Tables
from penstock.runtime.watchdog import Watchdog
core = Core(Tables([], [Actor("t")]))
core.watch(Watchdog(60))
core.run(3)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
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
