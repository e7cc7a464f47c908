"""Runs with loops: shared kernels, early ends, progress and logs."""

import ctypes
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from watched_runs import Clock, Reports, without_times

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.core import Core
from penstock.runtime.core.io_kernels import Callback
from penstock.runtime.core.watchdog import Watchdog
from penstock.runtime.errors import PenstockError
from penstock.runtime.executors.recorded import RecordedRun
from penstock.runtime.observe.event_log import Log
from penstock.runtime.program.control_flow import (
    ROWS_EACH,
    Begin,
    ControlFlow,
    Do,
    Loop,
    Next,
    Point,
)
from penstock.runtime.program.tables import (
    CACHE_LINE,
    Actor,
    Call,
    Cell,
    Fixed,
    Tables,
)

pytestmark = pytest.mark.usefixtures("both_loops")


def looping(kernel: Callback, times: int, *, parts: int = 1, at: int = 0) -> Actor:
    """An actor that calls a kernel in a loop, whose argument moves a word each time."""
    control = ControlFlow(
        cells=2,
        points=(),
        loops=(Loop(times, points=(Point(1, 0, 0, 8),), start=1, end=3),),
        code=(Begin(0), Do(0), Next(0), Do(1)),
        loop_of=(0, -1),
    )
    calls = (
        Call(kernel.address, (Cell(1),), parts=parts),
        Call(kernel.address, (Fixed(at),)),
    )
    return Actor("t", calls=calls, control=control, roots=(Fixed(at),))


def test_kernels_in_loops_share_their_parts():
    found = np.zeros((7, 4), np.int64)

    def note(args: int, part: int, parts: int) -> None:
        row = ctypes.c_int64.from_address(args).value
        found[row // 8, part] += 1

    kernel = Callback(note)
    actor = looping(kernel, 7, parts=4)
    with Core(Tables([], [actor]), threads=2) as core:
        core.run(3)
    expected = np.full((7, 4), 3)
    expected[0, 0] += 3
    np.testing.assert_array_equal(found, expected)


def test_loop_ends_when_the_run_is_stopped(start: Callable[..., Future[Any]]):
    begun = threading.Event()
    kernel = Callback(lambda args, part, parts: begun.set())
    core = Core(Tables([], [looping(kernel, 1 << 40)]))

    def run() -> None:
        with pytest.raises(PenstockError, match="closed during a run"):
            core.run(1)

    running = start(run)
    begun.wait()
    core.close()
    running.result(60)


ENDLESS = """
import ctypes, os, signal, sys, threading
from penstock.runtime.core.core import Core
from penstock.runtime.core.io_kernels import Callback
from penstock.runtime.core.watchdog import Watchdog
from penstock.runtime.program.control_flow import *
from penstock.runtime.program.tables import *

begun = threading.Event()
first = Callback(lambda args, part, parts: begun.set())
# It returns 0 for all that are no open files.
native = ctypes.cast(ctypes.CDLL(None).isatty, ctypes.c_void_p).value
inner = Loop(1 << 40, points=(Point(1, 0, 0, 8),), around=0, start=3, end=5)
control = ControlFlow(
    cells=2,
    points=(),
    loops=(Loop(7, start=1, end=6), inner),
    code=(Begin(0), Do(0), Begin(1), Do(1), Next(1), Next(0)),
    loop_of=(0, 1),
)
calls = Call(first.address, (Fixed(1 << 20),)), Call(native, (Cell(1),))
actor = Actor("endless", calls=calls, control=control, roots=(Fixed(1 << 20),))
before = signal.set_wakeup_fd(-1)

def interrupt():
    begun.wait()
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
with Core(Tables([], [actor]), threads=THREADS) as core:
    for _ in range(2):
        try:
            core.run(1)
        except KeyboardInterrupt as error:
            print(*error.__notes__)
        if begun.is_set():
            begun.clear()
            threading.Thread(target=interrupt, daemon=True).start()
print(signal.set_wakeup_fd(-1))
"""


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_signal_ends_a_loop_of_compiled_code_and_says_where(threads: int):
    code = ENDLESS.replace("THREADS", str(threads))
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    lines = run.stdout.splitlines()
    place = r"task 'endless' was in iterations 0, \d+ of its loops"
    assert [bool(re.fullmatch(place, line)) for line in lines] == [True, True, False]
    assert (lines[-1], run.returncode) == ("-1", 0)


def test_iterations_are_progress_for_watchdogs():
    kernel = Callback(lambda args, part, parts: None)
    with Core(Tables([], [looping(kernel, 10)])) as core:
        core.run(2)
        # The last look of a loop finds that it is over.
        assert core.memory.state.workers[w.TURNS] == 2 * (10 + 1)


def test_idle_threads_poll_no_line_that_an_iteration_writes():
    polled = {w.LOCKED, w.LEFT, w.CLAIMS}
    assert w.TURNS // CACHE_LINE not in {word // CACHE_LINE for word in polled}


def test_a_watchdog_says_the_iteration_that_a_kernel_is_stuck_in():
    reports, clock, begun = Reports(), Clock(), threading.Event()

    def stuck(args: int, part: int, parts: int) -> int | None:
        if ctypes.c_int64.from_address(args).value != 8 * 5:
            return None
        begun.set()
        return None if reports.said.wait(300) else 1

    with Core(Tables([], [looping(Callback(stuck), 9)])) as core:
        core.watch(Watchdog(0.01, reports, fails=False, clock=clock))
        clock.jump(0.01, begun.is_set)
        core.run(1)
    (text,) = reports.texts
    assert without_times(text) == [
        "'t' at act 0: is in one of its 2 kernels, iteration 5"
    ]


@pytest.mark.parametrize("times", [3, ROWS_EACH, ROWS_EACH + 1])
@pytest.mark.parametrize("is_compiled", [True, False])
def test_log_has_a_row_for_each_time_or_one_for_many(times: int, is_compiled: bool):
    kernel = Callback(lambda args, part, parts: None)
    tables = Tables([], [looping(kernel, times)])
    log = Log(tables, 2)
    if is_compiled:
        with Core(tables) as core:
            core.run(2, log)
    else:
        RecordedRun(log).run()
    rows = log.rows()
    for act in range(2):
        own = [row for row in rows if row.act == act]
        counts = [sum(row.what == what for row in own) for what in (w.WHOLE, 0, 1)]
        assert counts == [1, times if times <= ROWS_EACH else 1, 1]
        assert all(row.start <= row.end and row.code == 0 for row in own)
