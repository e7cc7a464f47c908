"""Many times open, run and close: no thread, memory or file is left behind."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest

import penstock
from penstock import Tensor
from penstock.runtime.core.core import Core
from penstock.runtime.core.watchdog import Watchdog
from penstock.runtime.errors import DeadlockError
from penstock.runtime.observe.metrics import TimeObserver
from penstock.runtime.program.tables import Actor, Register, Tables
from penstock.runtime.testing.fault_injection import FaultyCore, MessageFault
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.frontend.python.jobs import Job
from penstock.tools.session.session import Model, Session

WARM, SPANS, CYCLES = 40, 4, 40
"""The cycles before any is measured, the spans that are, and the cycles of each."""

MOST_BYTES = 4 << 10
"""
The growth of the process that a cycle may have: over a span it is several times what
spans differ by where nothing leaks, which is none to 20 KiB.
"""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="what a process holds is read from /proc"
)


class Holding(NamedTuple):
    """The resources of this process: threads, files, and bytes of memory."""

    threads: int
    files: int
    memory: int


def holding() -> Holding:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return Holding(
        len(os.listdir("/proc/self/task")),
        len(os.listdir("/proc/self/fd")),
        pages * os.sysconf("SC_PAGE_SIZE"),
    )


def check(cycle: Callable[[], object]) -> None:
    """
    Nothing is left behind by cycles, after some that fill caches. A leak of each cycle
    is seen in each span of them; memory that the allocator takes once, in a process
    that has run other tests before, is seen in one.
    """
    for _ in range(WARM):
        cycle()
    held = [holding()]
    for _ in range(SPANS):
        for _ in range(CYCLES):
            cycle()
        held.append(holding())
    before, after = held[0], held[-1]
    # Threads that earlier tests have stopped may end meanwhile.
    assert after.threads <= before.threads
    assert after.files == before.files
    grown = min(b.memory - a.memory for a, b in pairwise(held))
    assert grown < MOST_BYTES * CYCLES
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("penstock")]


def tables() -> Tables:
    registers = [Register("x", 0, 2), Register("y", 1)]
    actors = [Actor("a", 0, (), (0,)), Actor("b", 1, (0,), (1,)), Actor("c", 2, (1,))]
    return Tables(registers, actors)


@pytest.mark.slow
def test_core_leaves_nothing_behind():
    def cycle() -> None:
        with Core(tables(), 3) as core:
            core.run(5)

    check(cycle)


@pytest.mark.slow
def test_core_that_is_watched_leaves_nothing_behind():
    def cycle() -> None:
        with Core(tables(), 2) as core:
            core.watch(Watchdog(60))
            core.run(5)

    check(cycle)


@pytest.mark.slow
def test_core_that_fails_leaves_nothing_behind():
    def cycle() -> None:
        core = FaultyCore(tables(), [MessageFault("x", 3, "drop")], 2)
        with core, pytest.raises(DeadlockError):
            core.run(5)

    check(cycle)


@pytest.mark.slow
def test_core_that_is_dropped_leaves_nothing_behind():
    check(lambda: Core(tables(), 2).run(3))


# Sessions ----------------------------------------------------------------------------

ONE = """
job.job @one placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8x16xf32>
  %w = job.variable "w" init <ones> : tensor<16x4xf32>
  %m = op.matmul %x, %w : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  job.output "y", %m : tensor<8x4xf32>
}
"""
TWO = """
job.job @two placement <cpu, [0:0]> {
  %y = job.input "y" : tensor<8x4xf32>
  %z = op.softmax %y axis 1 : tensor<8x4xf32> -> tensor<8x4xf32>
  job.output "z", %z : tensor<8x4xf32>
}
"""
X = {"x": np.ones((8, 16), np.float32)}


@pytest.fixture
def plan(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The saved plan of some jobs on two threads."""
    front = installed_compiler()
    model = Model(front[0].parse(request.param.encode(), "jobs.mlir"), {}, tmp_path)
    with Session(model, compiler=front, threads=2) as session:
        session.save(tmp_path / "jobs.penstock")
    return tmp_path / "jobs.penstock"


@pytest.mark.slow
@pytest.mark.parametrize("plan", [ONE], indirect=True)
def test_session_leaves_nothing_behind(plan: Path):
    def cycle() -> None:
        with Session.open(plan, threads=2) as session:
            session.executor.observers.attach(TimeObserver())
            session.run(X)
            session.run_many([X, X])

    check(cycle)


@pytest.mark.slow
@pytest.mark.parametrize("plan", [ONE + TWO], indirect=True)
def test_session_of_several_jobs_leaves_nothing_behind(plan: Path):
    def cycle() -> None:
        with Session.open(plan, threads=2) as session:
            session.run(X, "one")
            session.run({}, "two")

    check(cycle)


def scaled(x: Annotated[Tensor, (3,), "f32"]) -> Any:
    return x * penstock.variable("w", (3,), init="ones")


@pytest.mark.slow
def test_session_that_compiles_leaves_nothing_behind():
    x = np.ones(3, np.float32)

    def cycle() -> None:
        with penstock.Session(threads=2) as session:
            job = Job(scaled)
            session.call(job, x)
            session.submit(job, x).result(300)

    check(cycle)
