"""The guard of the ranks of a host, which sees their processes from outside."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TypeAlias

import pytest

from penstock.runtime.transport import guard as guards
from penstock.runtime.transport import record_folder, stops
from penstock.runtime.transport.guard import (
    LEFT,
    Guard,
    Guarded,
    first_of,
    guarded,
)
from penstock.runtime.transport.record_folder import facts_of

Until: TypeAlias = Callable[[Callable[[], bool]], None]
Start: TypeAlias = Callable[..., "Future[str | None]"]
Child: TypeAlias = "subprocess.Popen[bytes]"

COUNT = guards.OF_COUNTS[0]
WAIT = [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]
"""A process that does nothing."""

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="systems that tell of no ends of processes"
)


@pytest.fixture
def children(until: Until) -> Iterator[list[Child]]:
    """Two ranks below this process, which do nothing."""
    made = [subprocess.Popen(WAIT, env={"PMI_RANK": str(rank)}) for rank in range(2)]
    files = [Path(f"/proc/{child.pid}/environ") for child in made]
    until(lambda: all(b"PMI_RANK" in file.read_bytes() for file in files))
    yield made
    for child in made:
        child.kill()
        child.wait()


EPOLL = select.epoll


class HeldEpoll:
    """Events that are taken once they are released."""

    released = threading.Event()

    def __init__(self) -> None:
        self._real = EPOLL()
        self.register, self.unregister = self._real.register, self._real.unregister

    def poll(self, seconds: float) -> list[tuple[int, int]]:
        """The events, in their order."""
        self.released.wait()
        return self._real.poll(seconds)


def kill(child: Child, until: Until) -> None:
    """Kill a child, and wait until it has ended."""
    child.kill()
    until(lambda: facts_of(child.pid)[0] == "Z")


def guarding(
    folder: Path, start: Start, until: Until
) -> tuple[Guard, Future[str | None]]:
    """A guard that waits and has found both children, and what it will tell."""
    guard = Guard(folder, os.getpid(), 2)
    found = start(guard.wait)
    until(lambda: len(guard.pids) == 2)
    return guard, found


@pytest.mark.parametrize("first", [0, 1])
def test_the_first_of_those_that_were_killed_is_named(
    children: list[Child],
    tmp_path: Path,
    first: int,
    start: Start,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guards.select, "epoll", HeldEpoll)
    monkeypatch.setattr(HeldEpoll, "released", threading.Event())
    _, found = guarding(tmp_path, start, until)
    for rank in (first, 1 - first):
        kill(children[rank], until)
    HeldEpoll.released.set()
    text = f"rank {first}, process {children[first].pid}, was ended"
    assert found.result() == text


def test_those_that_are_there_are_ended_and_no_others(
    children: list[Child], tmp_path: Path, start: Start, until: Until
) -> None:
    guard, found = guarding(tmp_path, start, until)
    children[0].kill()
    assert found.result() == f"rank 0, process {children[0].pid}, was ended"
    # Its number may be that of another process by now.
    children[0].wait()
    with subprocess.Popen(WAIT) as other:
        guard.pids[0] = other.pid
        guard.end()
        assert children[1].wait() == -signal.SIGKILL
        assert other.poll() is None
        other.kill()


@pytest.mark.parametrize("variables", [(), ("PMI_RANK",), ("PMI_RANK", COUNT)])
def test_the_process_of_a_rank_is_the_one_that_mpi_has_started(
    variables: tuple[str, ...],
) -> None:
    tell = "import os; print(os.getpid(), os.getppid(), flush=True); input()"
    shell = ["sh", "-c", '"$@"; exit', "sh", sys.executable, "-I", "-S", "-c", tell]
    with subprocess.Popen(
        shell,
        env=dict.fromkeys(variables, "1"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        inner, parent = map(int, first.stdout.readline().split())
        assert parent == first.pid != inner
        # A shell with a rank alone is one of Slurm, below which MPI starts others.
        assert first_of(inner) == (first.pid if COUNT in variables else inner)
        assert first_of(first.pid) == first.pid
        first.stdin.write(b"\n")


def test_those_that_end_by_themselves_are_not_missed(
    children: list[Child], tmp_path: Path, start: Start, until: Until
) -> None:
    _, found = guarding(tmp_path, start, until)
    for child in children:
        (tmp_path / f"{child.pid}.{LEFT}").touch()
        child.kill()
    assert found.result() is None


def test_a_rank_that_ends_all_tells_why_itself(
    children: list[Child], tmp_path: Path, start: Start, until: Until
) -> None:
    _, found = guarding(tmp_path, start, until)
    Guarded(tmp_path, os.getpid(), 2, os.getpid()).end_all()
    children[0].kill()
    assert found.result() is None


def test_a_rank_that_is_stopped_is_missed_once_a_patience_is_said(
    children: list[Child],
    tmp_path: Path,
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stops, "STOPPED_SECONDS", 0.0)
    children[1].send_signal(signal.SIGSTOP)
    found = start(Guard(tmp_path, os.getpid(), 2).wait)
    Guarded(tmp_path, os.getpid(), 2, os.getpid()).be_patient(0.0)
    text = found.result()
    assert text is not None
    assert re.fullmatch(
        r"rank 1 is frozen: its process has been stopped for \d+\.\d s", text
    )


def test_a_rank_leaves_it_to_the_guard_to_tell_that_another_has_ended(
    children: list[Child],
    tmp_path: Path,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    own = Guarded(tmp_path, os.getpid(), 2, os.getpid())
    own.end_all()
    kill(children[0], until)
    naps.clear()
    own.end_all()
    assert naps == [guards.GUARD_SECONDS]
    # It has ended by itself.
    (tmp_path / f"{children[0].pid}.{LEFT}").touch()
    own.end_all()
    assert naps == [guards.GUARD_SECONDS]


def test_the_first_rank_of_a_host_starts_the_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    def popen(command: list[str], **_: object) -> None:
        started.append(command)

    monkeypatch.setattr(guards.subprocess, "Popen", popen)
    monkeypatch.setattr(record_folder, "MEMORY", tmp_path)
    for name in guards.OF_COUNTS:
        monkeypatch.delenv(name, raising=False)
    assert guarded() is None
    monkeypatch.setenv("MPI_LOCALNRANKS", "3")
    # One whose guard was killed, and whose MPI has ended.
    (tmp_path / f"{record_folder.folder_name(os.getpid())}0").mkdir()
    first, second = guarded(), guarded()
    assert first is not None
    assert second is not None
    (folder,) = tmp_path.iterdir()
    assert first.folder == second.folder == folder
    (command,) = started
    assert command[-3:] == [str(folder), str(os.getppid()), "3"]
    folder.rmdir()
    folder.touch()
    assert guarded() is None
