"""Ranks that are killed or frozen: all processes end, with one message."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from penstock.runtime.transport.join import RANK, STARTER

SUMS = """
!t = tensor<64x64xf32>

job.job @sums placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %far = op.exp %x {placement = #job.placement<cpu, [1:0]>} : !t -> !t
  %y = op.add %far, %x : !t, !t -> !t
  job.output "y", %y : !t
}
"""

RUN = """
import os, signal, sys, threading, time
from functools import partial
from pathlib import Path
from penstock.runtime.core import watchdog
from penstock.runtime.transport.join import RANK
from penstock.tools.cli.run import run_tool
from penstock.tools.session.session import Session

how, after, *words = sys.argv[1:]
file = Path(__file__).with_name("hit")
is_hit = "1" in (os.environ.get(RANK), os.environ.get("PMI_RANK"))

def hit():
    draft = file.with_suffix(".draft")
    draft.write_text(f"{os.getpid()} {time.time()}")
    draft.replace(file)
    os.kill(os.getpid(), getattr(signal, how))

def clock():
    return time.time() - float(file.read_text().split()[1]) if file.exists() else 0.0

watchdog.Watchdog = partial(watchdog.Watchdog, clock=clock)
if is_hit and after not in ("open", "run"):
    threading.Timer(float(after), hit).start()
opened, run = Session.__init__, Session.run

def stop_and_open(self, *given, **more):
    if is_hit and after == "open":
        hit()
    opened(self, *given, **more)

def run_and_stop(self, *given):
    found = run(self, *given)
    if is_hit and after == "run":
        hit()
    return found

Session.__init__, Session.run = stop_and_open, run_and_stop
sys.exit(run_tool(words))
"""
"""
`penstock-run`, in which rank 1 gets a signal, some time after its start, before it
opens the model or after a run, from which on the clock of watchdogs goes.
"""

WAIT = """
import os, signal, sys
from penstock.runtime.transport.join import join

transport = join()
own = str(os.getpid()).encode()
pids = [int(pid) for pid in transport.communicator().exchange(own)]
if transport.rank == 0:
    print(*pids, flush=True)
signal.pause()
"""
"""A rank that waits forever, once rank 0 has told of all of them."""

ONE_FAILS = """
import os, sys
from penstock.runtime.transport.join import RANK
from penstock.tools.cli.run import run_tool

*words, where = sys.argv[1:]
is_it = "1" in (os.environ.get(RANK), os.environ.get("PMI_RANK"))
if is_it and where == "before":
    words += ["--outputs", "/dev/null/there.npz"]
if is_it and where == "after":
    from penstock.tools.session.session import Session
    def run(*given):
        raise ValueError("planted")
    Session.run = run
sys.exit(run_tool(words))
"""
"""`penstock-run`, of which rank 1 cannot write its outputs, or fails by a defect."""

LATEST, SPANS = 2.4, 8
"""Seconds in which a rank starts and begins to run, and spans of them."""

START = """
import sys
from penstock.tools.cli.start_ranks import start_ranks
sys.exit(start_ranks("hit_rank", sys.argv[1:], 2))
"""


def mpiexec() -> list[object]:
    """The command that starts two ranks by MPI."""
    found = Path(sys.executable).parent / "mpiexec"
    if not found.exists():
        pytest.skip("no mpiexec beside this Python: the extra mpi is not installed")
    return [found, "-n", 2]


def run_ranks(
    folder: Path, *words: object, by_mpi: bool
) -> subprocess.CompletedProcess[str]:
    """Two ranks that run the script `hit_rank.py` of a folder."""
    path = os.pathsep.join([str(folder), *sys.path])
    command = [sys.executable, "-P", "-c", START]
    if by_mpi:
        command = [*mpiexec(), sys.executable, "-P", folder / "hit_rank.py"]
    return subprocess.run(
        [*map(str, (*command, *words))],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def run_hit(
    folder: Path, how: str, after: str, *options: str, by_mpi: bool = False
) -> str:
    """The errors of two ranks of which one is hit."""
    (folder / "sums.mlir").write_text(SUMS)
    (folder / "hit_rank.py").write_text(RUN)
    words = ["--random-inputs", "1", "--repeat", "1000000", *options]
    model = folder / "sums.mlir"
    done = run_ranks(folder, how, after, model, *words, by_mpi=by_mpi)
    assert done.returncode == 1, done.stderr
    pid, _ = (folder / "hit").read_text().split()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
    return done.stderr


@pytest.mark.slow
def test_a_frozen_rank_ends_all_by_the_watchdog(tmp_path: Path) -> None:
    said = run_hit(tmp_path, "SIGSTOP", "run", "--watchdog", "2")
    assert said.count("error:") == 1
    assert said.endswith("error: the run made no progress for 2 s\n")
    lines = said.splitlines()
    assert any("rank 1 (task" in line for line in lines)
    assert len(set(lines)) == len(lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("by_mpi", "start"),
    [(False, "penstock: error:"), (True, "rank 0 failed:")],
)
def test_a_rank_that_is_frozen_before_its_first_run_ends_all(
    tmp_path: Path, *, by_mpi: bool, start: str
) -> None:
    said = run_hit(tmp_path, "SIGSTOP", "open", "--watchdog", "2", by_mpi=by_mpi)
    (line,) = [x for x in said.splitlines() if "frozen" in x]
    text = "rank 1 is frozen: its process has given no sign of life for "
    assert line.startswith(f"{start} {text}")


@pytest.mark.slow
@pytest.mark.parametrize("span", range(SPANS))
def test_a_rank_that_is_killed_at_any_time_ends_all(tmp_path: Path, span: int) -> None:
    """From the start of its process on, before there are messages and with them."""
    after = (span + np.random.default_rng().uniform()) * LATEST / SPANS
    print(f"killed after {after} s")
    said = run_hit(tmp_path, "SIGKILL", str(after))
    assert "rank 1 was ended by SIGKILL" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("by_mpi", "where", "code", "start"),
    [
        (False, "before", 2, "penstock-run: error: rank 1: cannot write"),
        (True, "before", 2, "penstock-run: error: rank 1: cannot write"),
        (False, "after", 70, "penstock-run: rank 1: penstock-run: error: internal"),
        (True, "after", 1, "rank 1 failed: planted"),
    ],
)
def test_an_error_on_one_rank_ends_all(
    tmp_path: Path, *, by_mpi: bool, where: str, code: int, start: str
) -> None:
    """While others open the model, and while they wait for messages."""
    (tmp_path / "sums.mlir").write_text(SUMS)
    (tmp_path / "hit_rank.py").write_text(ONE_FAILS)
    done = run_ranks(
        tmp_path, tmp_path / "sums.mlir", "--random-inputs", 1, where, by_mpi=by_mpi
    )
    assert done.returncode == code, done.stderr
    # MPI has a line of its own for the end of all.
    lines = [x for x in done.stderr.splitlines() if x and not x.startswith("Abort(")]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith(start)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux ends children with parents")
def test_ranks_end_with_the_process_that_has_started_them(tmp_path: Path) -> None:
    (tmp_path / "hit_rank.py").write_text(WAIT)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "-P", "-c", START]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as starter:
        assert starter.stdout is not None
        pids = [int(pid) for pid in starter.stdout.readline().split()]
        assert len(pids) == 2
        starter.kill()
    while any(is_running(pid) for pid in pids):
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether there is a process that has not ended; nothing may have reaped it."""
    try:
        facts = Path(f"/proc/{pid}/stat").read_text("ascii")
    except FileNotFoundError:
        return False
    # Behind the name, which may hold anything.
    return facts.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux ends children with parents")
def test_a_rank_whose_starter_has_ended_says_so() -> None:
    code = "from penstock.runtime.transport.join import join; join()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, RANK: "0", STARTER: "1"},
    )
    assert "the process that started all ranks has ended" in done.stderr
