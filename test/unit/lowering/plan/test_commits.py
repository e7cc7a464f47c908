"""
All variables of a piece are assigned to, or none: what executors do with actors that
assign when a run fails, stalls, is interrupted or closed. Kernels wait for what is to
happen meanwhile, so nothing depends on time.
"""

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from watched_runs import Clock

from penstock.runtime.core.core import Core
from penstock.runtime.core.interrupt_shield import Shield
from penstock.runtime.core.io_kernels import Callback
from penstock.runtime.core.state_layout import RUNNING, STOP
from penstock.runtime.core.watchdog import Watchdog
from penstock.runtime.errors import PenstockError, TaskError, WatchdogError
from penstock.runtime.executors import simulator
from penstock.runtime.executors.reference import SequentialRun
from penstock.runtime.executors.resumed import ResumedRun
from penstock.runtime.executors.simulator import VirtualClock
from penstock.runtime.executors.stream_core import StreamCore
from penstock.runtime.program.actors import CALLER, Actor, Call, Register
from penstock.runtime.program.tables import Tables

PATIENCE = 300
Hook = Callable[[int], object]


@dataclass
class Program:
    """
    x -> check -> commit -> a -> slow -> b, and commit -> b, where `a` and `b` assign.
    Each actor notes the pieces it has acted for; `hooks` are called before that.
    """

    workers: tuple[int, int] = (0, 0)
    hooks: dict[str, Hook] = field(default_factory=dict[str, Hook])
    acts: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    is_stream: bool = False
    """Whether `x` reads what a caller gives."""

    def tables(self) -> Tables:
        """The program anew."""
        one, other = self.workers
        registers = [
            Register("x", 0, 2),
            Register("check", 1, 2),
            Register("commit", 2),
            Register("a", 3),
            Register("slow", 4),
        ]
        given = (len(registers),) * self.is_stream
        registers += [Register("given", CALLER, 4)] * self.is_stream
        self._callbacks: list[Callback] = []
        actors = [
            self._actor("x", one, given, (0,)),
            self._actor("check", one, (0,), (1,)),
            Actor("commit", one, (1,), (2,), commits=True),
            self._actor("a", one, (2,), (3,), assigns=True),
            self._actor("slow", other, (3,), (4,)),
            self._actor("b", other, (2, 4), (), assigns=True),
        ]
        return Tables(registers, actors, self._callbacks)

    def _actor(
        self,
        name: str,
        worker: int,
        reads: tuple[int, ...],
        writes: tuple[int, ...],
        *,
        assigns: bool = False,
    ) -> Actor:
        done = self.acts[name] = []

        def act(args: int, part: int, parts: int) -> None:
            self.hooks.get(name, bool)(len(done))
            done.append(len(done))

        self._callbacks.append(Callback(act))
        calls = (Call(self._callbacks[-1].address),)
        return Actor(name, worker, reads, writes, calls, assigns=assigns)

    def assigned(self) -> tuple[int, int]:
        """For how many pieces `a` and `b` were assigned to."""
        return len(self.acts["a"]), len(self.acts["b"])


def failing_at(piece: int) -> Hook:
    def fail(act: int) -> None:
        if act == piece:
            raise ValueError(f"no piece {piece}")

    return fail


def run_core(tables: Tables, acts: int) -> None:
    with Core(tables, resume=ResumedRun) as core:
        core.run(acts)


def run_dataflow(tables: Tables, acts: int) -> None:
    with Core(tables, dataflow=True, resume=ResumedRun) as core:
        core.run(acts)


def run_sequential(tables: Tables, acts: int) -> None:
    run = SequentialRun(tables, acts)
    Shield().run(run.run, run.stop)


def run_clock(tables: Tables, acts: int) -> None:
    run = SequentialRun(tables, acts)
    clock = VirtualClock(run, [3, 1, 1, 1, 10, 1])
    Shield().run(lambda: simulator.run_clock(clock, None), run.stop)


ENGINES = [run_core, run_dataflow, run_sequential, run_clock]
engines = pytest.mark.parametrize("run", ENGINES)
workers = pytest.mark.parametrize("workers", [(0, 0), (0, 1)])


# A task fails ------------------------------------------------------------------------


@engines
@workers
@pytest.mark.parametrize("piece", [0, 1, 3])
def test_pieces_before_one_that_fails_assign_and_no_other(
    run: Callable[[Tables, int], None], workers: tuple[int, int], piece: int
):
    program = Program(workers, {"check": failing_at(piece)})
    with pytest.raises(TaskError) as caught:
        run(program.tables(), 5)
    assert (caught.value.task, caught.value.act) == ("check", piece)
    assert program.assigned() == (piece, piece)


@engines
@workers
def test_of_two_that_fail_the_earlier_piece_counts(
    run: Callable[[Tables, int], None], workers: tuple[int, int]
):
    # `x` is ahead of `check`, and fails at a piece of which the latter never hears.
    program = Program(workers, {"x": failing_at(2), "check": failing_at(1)})
    with pytest.raises(TaskError) as caught:
        run(program.tables(), 5)
    assert (caught.value.task, caught.value.act) == ("check", 1)
    assert program.assigned() == (1, 1)


def test_what_fails_while_the_run_stops_counts_too():
    program, failed = Program((0, 1)), threading.Event()

    def fail(act: int) -> None:
        if act == 2:
            failed.set()
            raise ValueError("late")

    def fail_meanwhile(act: int) -> None:
        if act == 1:
            assert failed.wait(PATIENCE)
            wait_for_stop(core)
            raise ValueError("early")

    # Here `slow` stands for what can fail, and `b` assigns alone behind it.
    program.hooks = {"check": fail, "slow": fail_meanwhile}
    tables = program.tables()
    actors = [
        Actor(x.name, x.worker, x.reads, x.writes, x.calls, assigns=x.name == "b")
        for x in tables.actors
    ]
    tables = Tables(tables.registers, actors, tables.callbacks.values())
    with Core(tables, resume=ResumedRun) as core:
        with pytest.raises(TaskError) as caught:
            core.run(5)
        assert (caught.value.task, caught.value.act) == ("slow", 1)
        assert str(caught.value.__cause__) == "early"
        # It was not called again.
        assert program.acts["slow"] == [0]
        assert len(program.acts["b"]) == 1


@engines
def test_a_run_after_one_that_failed_is_as_new(run: Callable[[Tables, int], None]):
    program = Program((0, 1), {"check": failing_at(1)})
    tables = program.tables()
    with pytest.raises(TaskError):
        run(tables, 3)
    program.hooks.clear()
    run(tables, 3)
    assert program.assigned() == (4, 4)


@engines
@workers
def test_an_assignment_that_fails_itself_leaves_the_others_made(
    run: Callable[[Tables, int], None], workers: tuple[int, int]
):
    program = Program(workers, {"a": failing_at(1)})
    with pytest.raises(TaskError) as caught:
        run(program.tables(), 4)
    assert (caught.value.task, caught.value.act) == ("a", 1)
    # Its piece had begun to assign, but what comes after it cannot.
    assert program.assigned() == (1, 1)
    assert not hasattr(caught.value, "__notes__")


@engines
@workers
def test_an_assignment_that_fails_behind_others_is_told(
    run: Callable[[Tables, int], None], workers: tuple[int, int]
):
    program = Program(workers, {"b": failing_at(1)})
    with pytest.raises(TaskError) as caught:
        run(program.tables(), 4)
    assert (caught.value.task, caught.value.act) == ("b", 1)
    assert program.assigned() == (2, 1)
    note = "other variables were assigned to, but not by 'b'"
    assert caught.value.__notes__ == [note]


@engines
def test_what_fails_that_nobody_knew_of_is_told_with_what_is_left_half(
    run: Callable[[Tables, int], None],
):
    program = Program(hooks={"slow": failing_at(1)})
    with pytest.raises(TaskError) as caught:
        run(program.tables(), 4)
    assert caught.value.task == "slow"
    assert program.assigned() == (2, 1)
    note = "other variables were assigned to, but not by 'b'"
    assert caught.value.__notes__ == [note]


# A run is stopped --------------------------------------------------------------------


def wait_for_stop(core: Core) -> None:
    """Wait until somebody has stopped the run of a core."""
    pause = threading.Event()
    for _ in range(PATIENCE * 1000):
        if core.memory.state.control[STOP] != RUNNING:
            return
        pause.wait(0.001)
    raise AssertionError("the run was not stopped")


SECONDS = 0.01
"""The wait of a watchdog, on a clock that stands still until a run stalls."""


def stalling_at(piece: int, clock: Clock, core: Callable[[], Core]) -> Hook:
    """Let time pass at a piece until the watchdog stops the run of a core."""

    def stall(act: int) -> None:
        if act == piece:
            clock.step = SECONDS / 8
            wait_for_stop(core())
            clock.step = 0

    return stall


@pytest.mark.parametrize("dataflow", [False, True])
@workers
def test_watchdog_waits_for_a_piece_that_has_begun_to_assign(
    workers: tuple[int, int], dataflow: bool
):
    program, clock = Program(workers), Clock()
    program.hooks["slow"] = stalling_at(1, clock, lambda: core)
    with Core(program.tables(), dataflow=dataflow, resume=ResumedRun) as core:
        core.watch(Watchdog(SECONDS, lambda text: None, clock=clock))
        with pytest.raises(WatchdogError):
            core.run(4)
        assert program.assigned() == (2, 2)
        program.hooks.clear()
        core.run(2)
        assert program.assigned() == (4, 4)


@pytest.mark.parametrize("dataflow", [False, True])
@workers
def test_watchdog_ends_a_piece_that_has_not_begun_to_assign(
    workers: tuple[int, int], dataflow: bool
):
    program, clock = Program(workers), Clock()
    program.hooks["check"] = stalling_at(1, clock, lambda: core)
    with Core(program.tables(), dataflow=dataflow, resume=ResumedRun) as core:
        core.watch(Watchdog(SECONDS, lambda text: None, clock=clock))
        with pytest.raises(WatchdogError):
            core.run(4)
        made = program.assigned()
        assert made[0] == made[1] <= 1


@pytest.mark.parametrize("dataflow", [False, True])
def test_close_waits_for_a_piece_that_has_begun_to_assign(dataflow: bool):
    program = Program((0, 1))

    def close_meanwhile(act: int) -> None:
        if act == 1:
            closer.start()
            wait_for_stop(core)

    program.hooks["slow"] = close_meanwhile
    core = Core(program.tables(), dataflow=dataflow, resume=ResumedRun)
    closer = threading.Thread(target=core.close)
    with pytest.raises(PenstockError, match="closed"):
        core.run(4)
    closer.join(PATIENCE)
    made = program.assigned()
    assert made[0] == made[1] >= 2


def streaming(core: StreamCore) -> None:
    """Give a stream four pieces."""
    core.begin()
    for _ in range(4):
        core.fill(5)


def test_the_watchdog_of_a_stream_waits_for_such_a_piece():
    program, clock = Program((0, 1), is_stream=True), Clock()
    program.hooks["slow"] = stalling_at(1, clock, lambda: core)
    with StreamCore(program.tables(), 2) as core:
        core.watch(Watchdog(SECONDS, lambda text: None, clock=clock))
        streaming(core)
        while core.failure is None:
            core.wait_for_end()
        assert isinstance(core.failure, WatchdogError)
        made = program.assigned()
        assert made[0] == made[1]


def test_a_stream_that_is_closed_waits_for_such_a_piece():
    program = Program((0, 1), is_stream=True)

    def close_meanwhile(act: int) -> None:
        if act == 1:
            closer.start()
            wait_for_stop(core)

    program.hooks["slow"] = close_meanwhile
    core = StreamCore(program.tables(), 2)
    closer = threading.Thread(target=core.close)
    streaming(core)
    while core.memory.state.control[STOP] == RUNNING:
        core.wait_for_end()
    closer.join(PATIENCE)
    with pytest.raises(PenstockError, match="closed"):
        core.check()
    assert not closer.is_alive()
    made = program.assigned()
    assert made[0] == made[1] >= 2


@pytest.mark.parametrize("piece", [0, 1, 3])
def test_a_stream_that_fails_has_assigned_up_to_there(piece: int):
    program = Program((0, 1), {"check": failing_at(piece)}, is_stream=True)
    with StreamCore(program.tables(), 2) as core:
        streaming(core)
        while core.failure is None:
            core.wait_for_end()
        assert isinstance(core.failure, TaskError)
        assert core.failure.act == piece
        assert program.assigned() == (piece, piece)


HELPERS = str(Path(__file__).parents[3] / "helpers")

INTERRUPTED = """
import os, signal, sys, threading
sys.path[:0] = ["", {helpers!r}]
from test_commits import *

handled = threading.Event()

def interrupt(signum, frame):
    handled.set()
    raise KeyboardInterrupt

# Who starts this may ignore the signal.
signal.signal(signal.SIGINT, interrupt)

def press(act):
    if act == {piece}:
        os.kill(os.getpid(), signal.SIGINT)
        assert handled.wait(PATIENCE)
        {more}

program = Program({workers}, {{"{name}": press}})
try:
    # So many that they do not end while the signal is on its way.
    {run}(program.tables(), 1000000)
    print("ended")
except KeyboardInterrupt:
    a, b = program.assigned()
    print("interrupted", a == b, a > {piece}, a < 1000000)
"""


def interrupted(**how: object) -> str:
    given = {"more": "", "piece": 2, "helpers": HELPERS, **how}
    code = INTERRUPTED.format(**given)
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=__file__.rpartition("/")[0],
        check=False,
    )
    assert run.stderr == ""
    return run.stdout


@pytest.mark.parametrize("run", [run.__name__ for run in ENGINES])
@workers
def test_ctrl_c_waits_for_a_piece_that_has_begun_to_assign(
    run: str, workers: tuple[int, int]
):
    found = interrupted(name="slow", run=run, workers=workers)
    assert found == "interrupted True True True\n"


@pytest.mark.parametrize("run", ["run_core", "run_sequential"])
def test_no_number_of_ctrl_c_cuts_such_a_piece_short(run: str):
    more = "[os.kill(os.getpid(), signal.SIGINT) for _ in range(20)]"
    found = interrupted(name="slow", run=run, workers=(0, 1), more=more)
    assert found == "interrupted True True True\n"


@pytest.mark.parametrize("run", [run.__name__ for run in ENGINES])
def test_ctrl_c_before_a_piece_assigns(run: str):
    found = interrupted(name="check", run=run, workers=(0, 1))
    # Which of those on their way had begun to assign is open.
    assert found.startswith("interrupted True")
