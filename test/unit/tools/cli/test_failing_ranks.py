"""Ranks that are killed or frozen: all processes end, with one message."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest
from draws import fresh
from forked_tool import ForkedCommands

from penstock.runtime.transport.join import RANK, STARTER

Run: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

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
from penstock.runtime.transport.pulse import Sign, Silence
from penstock.tools.cli.run import run_tool
from penstock.tools.session import rank_programs
from penstock.tools.session.session import Session

how, after, *words = sys.argv[1:]
file = Path(__file__).with_name("hit")
heard = file.with_name("heard")
is_hit = ("0" if after == "compile" else "1") in (
    os.environ.get(RANK), os.environ.get("PMI_RANK")
)

def hit():
    draft = file.with_suffix(".draft")
    draft.write_text(f"{os.getpid()} {time.time()}")
    draft.replace(file)
    os.kill(os.getpid(), getattr(signal, how))

def clock():
    return time.time() - float(file.read_text().split()[1]) if file.exists() else 0.0

watchdog.Watchdog = partial(watchdog.Watchdog, clock=clock)
if is_hit and after == "start":
    hit()
if is_hit and after not in ("compile", "open", "run"):
    threading.Timer(float(after), hit).start()
compiled, opened = rank_programs.compile_programs, Session.of_rank
run, hear = Session.run, Silence.hear

def hear_and_tell(self, sign, now):
    hear(self, sign, now)
    if sign is Sign.ALIVE and not is_hit:
        heard.touch()

def stop_and_open(*given, **more):
    if is_hit and after == "open":
        while not heard.exists():
            time.sleep(0.01)
        hit()
    return opened(*given, **more)

def stop_and_compile(*given, **more):
    if is_hit and after == "compile":
        hit()
    return compiled(*given, **more)

def run_and_stop(self, *given):
    found = run(self, *given)
    if is_hit and after == "run":
        hit()
    return found

Session.of_rank, Session.run = stop_and_open, run_and_stop
rank_programs.compile_programs = stop_and_compile
Silence.hear = hear_and_tell
sys.exit(run_tool(words))
"""
"""
`penstock-run`, in which rank 1 gets a signal: at its start or some time after it,
before it opens the model and once rank 0 has heard of it, or after a run; or rank 0,
before it compiles. The clock of watchdogs goes from then on.
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

INTERRUPTED = """
import os, sys, time
from pathlib import Path
from penstock.runtime.transport.join import ending_all, join
from penstock.tools.cli.exit_codes import exit_code_of

output = os.dup(1)

def wait():
    with ending_all():
        transport = join()
        transport.communicator().exchange(b"")
        if transport.rank == 0:
            os.write(output, b"ready\\n")
        # A signal just before a wait would not end it.
        while True:
            time.sleep(0.1)

sys.exit(exit_code_of(wait, "penstock-run", Path("x"), debug=False))
"""
"""A rank that waits for an interrupt, once rank 0 has told that all are there."""

ONE_FAILS = """
import os, sys
from penstock.runtime.transport.join import RANK
from penstock.tools.cli.run import run_tool

*words, where = sys.argv[1:]
is_it = "1" in (os.environ.get(RANK), os.environ.get("PMI_RANK"))
if is_it and where == "before":
    words += ["--outputs", "/dev/null/there.npz"]
if is_it and where == "other":
    words[0] = words[0].replace("sums", "other")
if is_it and where == "after":
    from penstock.tools.session.session import Session
    def run(*given):
        raise ValueError("planted")
    Session.run = run
sys.exit(run_tool(words))
"""
"""
`penstock-run`, of which rank 1 cannot write its outputs, has another file, or fails by
a defect.
"""

LATEST, SPANS = 0.8, 8
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


def by_mpiexec(
    folder: Path, *words: object, through: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """
    Two ranks that run the script `hit_rank.py` of a folder, started by MPI, or
    `through` a command that MPI starts.
    """
    command = [*mpiexec(), *through, sys.executable, "-P", folder / "hit_rank.py"]
    return subprocess.run(
        [*map(str, (*command, *words))],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.fixture(params=["sockets"])
def run_ranks(request: pytest.FixtureRequest, forked: ForkedCommands) -> Run:
    """
    Run two ranks with the script `hit_rank.py` of a folder: forks of one process, or
    processes that MPI starts.
    """
    if request.param == "mpi":
        return by_mpiexec

    def run(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
        return forked.outcome(["python", "-c", START, *map(str, words)], folder)

    return run


def run_hit(run_ranks: Run, folder: Path, how: str, after: str, *options: str) -> str:
    """The errors of two ranks of which one is hit."""
    (folder / "sums.mlir").write_text(SUMS)
    (folder / "hit_rank.py").write_text(RUN)
    words = ["--random-inputs", "1", "--repeat", "1000000", *options]
    done = run_ranks(folder, how, after, folder / "sums.mlir", *words)
    # That of a process that MPI finds killed is the number of the signal.
    assert done.returncode in (1, signal.SIGKILL), done.stderr
    pid, _ = (folder / "hit").read_text().split()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
    return done.stderr


@pytest.mark.slow
def test_a_frozen_rank_ends_all_by_the_watchdog(run_ranks: Run, tmp_path: Path) -> None:
    said = run_hit(run_ranks, tmp_path, "SIGSTOP", "run", "--watchdog", "0.5")
    assert said.count("error:") == 1
    assert said.endswith("error: the run made no progress for 0.5 s\n")
    lines = said.splitlines()
    assert any("rank 1 (task" in line for line in lines)
    assert len(set(lines)) == len(lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run_ranks", "start"),
    [("sockets", "penstock: error:"), ("mpi", "rank 0 failed:")],
    indirect=["run_ranks"],
)
def test_a_rank_that_is_frozen_before_its_first_run_ends_all(
    run_ranks: Run, tmp_path: Path, start: str
) -> None:
    said = run_hit(run_ranks, tmp_path, "SIGSTOP", "open", "--watchdog", "0.5")
    (line,) = [x for x in said.splitlines() if "frozen" in x]
    text = "rank 1 is frozen: its process has given no sign of life for "
    assert line.startswith(f"{start} {text}")


@pytest.mark.slow
@pytest.mark.parametrize("run_ranks", ["mpi"], indirect=True)
def test_a_rank_that_is_frozen_before_mpi_starts_ends_all(
    run_ranks: Run, tmp_path: Path
) -> None:
    said = run_hit(run_ranks, tmp_path, "SIGSTOP", "start", "--watchdog", "0.5")
    text = "penstock: error: rank 1 is frozen: its process has been stopped for "
    assert [line.startswith(text) for line in said.splitlines()] == [True]


@pytest.mark.slow
@pytest.mark.parametrize("run_ranks", ["mpi"], indirect=True)
def test_a_rank_of_mpi_that_is_killed_is_named(run_ranks: Run, tmp_path: Path) -> None:
    said = run_hit(run_ranks, tmp_path, "SIGKILL", "run")
    (line,) = [x for x in said.splitlines() if x]
    pid, _ = (tmp_path / "hit").read_text().split()
    text = f"penstock: error: rank 1, process {pid}, was ended outside of runs"
    assert line == text


@pytest.mark.slow
@pytest.mark.parametrize("span", range(SPANS))
def test_a_rank_that_is_killed_at_any_time_ends_all(
    run_ranks: Run, tmp_path: Path, span: int
) -> None:
    """From the start of its process on, before there are messages and with them."""
    after = (span + fresh().uniform()) * LATEST / SPANS
    print(f"killed after {after} s")
    said = run_hit(run_ranks, tmp_path, "SIGKILL", str(after))
    assert "rank 1 was ended by SIGKILL" in said


def test_a_first_rank_that_is_killed_while_others_wait_for_programs_ends_all(
    run_ranks: Run, tmp_path: Path
) -> None:
    said = run_hit(run_ranks, tmp_path, "SIGKILL", "compile")
    assert said == "penstock-run: rank 0 was ended by SIGKILL\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run_ranks", "where", "code", "start"),
    [
        ("sockets", "before", 2, "penstock-run: error: rank 1: cannot write"),
        ("mpi", "before", 2, "penstock-run: error: rank 1: cannot write"),
        ("sockets", "other", 2, "penstock-run: error: rank 1 has another model than"),
        ("mpi", "other", 2, "penstock-run: error: rank 1 has another model than"),
        ("sockets", "after", 70, "penstock-run: rank 1: penstock-run: error: internal"),
        ("mpi", "after", 1, "rank 1 failed: planted"),
    ],
    indirect=["run_ranks"],
)
def test_an_error_on_one_rank_ends_all(
    run_ranks: Run, tmp_path: Path, where: str, code: int, start: str
) -> None:
    """While others open the model, and while they wait for messages."""
    (tmp_path / "sums.mlir").write_text(SUMS)
    (tmp_path / "other.mlir").write_text(SUMS.replace("op.exp", "op.tanh"))
    (tmp_path / "hit_rank.py").write_text(ONE_FAILS)
    done = run_ranks(tmp_path, tmp_path / "sums.mlir", "--random-inputs", 1, where)
    assert done.returncode == code, done.stderr
    # MPI has a line of its own for the end of all.
    lines = [x for x in done.stderr.splitlines() if x and not x.startswith("Abort(")]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith(start)


@pytest.mark.slow
def test_a_rank_that_a_shell_starts_tells_alone_that_it_fails(tmp_path: Path) -> None:
    (tmp_path / "sums.mlir").write_text(SUMS)
    (tmp_path / "hit_rank.py").write_text(ONE_FAILS)
    shell = "sh", "-c", '"$@"; exit $?', "sh"
    words = tmp_path / "sums.mlir", "--random-inputs", 1, "after"
    done = by_mpiexec(tmp_path, *words, through=shell)
    assert done.returncode, done.stderr
    lines = [x for x in done.stderr.splitlines() if x and not x.startswith("Abort(")]
    assert lines == ["rank 1 failed: planted"]


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("by_mpi", "text"),
    [
        (False, "penstock-run: error: interrupted"),
        (True, "rank 0 failed: interrupted"),
    ],
)
def test_an_interrupt_of_all_ranks_is_told_once(
    tmp_path: Path, *, by_mpi: bool, text: str
) -> None:
    (tmp_path / "hit_rank.py").write_text(INTERRUPTED)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "-P", "-c", START]
    if by_mpi:
        command = [*map(str, mpiexec()), sys.executable, "-P"]
        command.append(str(tmp_path / "hit_rank.py"))
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    ) as starter:
        assert starter.stdout is not None
        starter.stdout.readline()
        os.killpg(starter.pid, signal.SIGINT)
        _, errors = starter.communicate()
    lines = [x for x in errors.splitlines() if x and not x.startswith("Abort(")]
    if by_mpi and starter.returncode == 9:
        # `mpiexec` kills ranks on an interrupt itself, before or after they tell.
        assert lines in ([text], [])
        return
    assert starter.returncode == (1 if by_mpi else 130)
    assert lines == [text]


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
