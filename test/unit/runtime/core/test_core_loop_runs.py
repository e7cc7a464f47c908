"""Runs with loops: shared kernels, early ends, progress and logs."""

import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.core import Core
from penstock.runtime.core.io_kernels import Callback
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
from penstock.runtime.program.tables import Actor, Call, Cell, Fixed, Tables

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


def test_iterations_are_progress_for_watchdogs():
    kernel = Callback(lambda args, part, parts: None)
    with Core(Tables([], [looping(kernel, 10)])) as core:
        core.run(2)
        # The last look of a loop finds that it is over.
        assert core.memory.state.workers[w.TURNS] == 2 * (10 + 1)


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
