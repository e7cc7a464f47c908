"""
The processes of `penstock-run --ranks N`: it starts one a rank, with a socket between
each two, and ends all of them when one has failed.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import IO

from penstock.runtime.jit.child import child_command
from penstock.runtime.transport.join import RANK, SOCKETS, STARTER
from penstock.tools.cli.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_PEER
from penstock.tools.driver.errors import printable

LOOK_SECONDS = 0.01
"""The time between two looks whether a process has ended."""
GRACE_SECONDS = 2.0
"""The time that other ranks have to end by themselves once one has failed."""
PEER_SECONDS = 60.0
"""The time that a rank has to tell why it fails once another has ended over it."""
STOPPED_SECONDS = 4.0
"""
The time that the other ranks have to say first which messages of a stopped one they
wait for: they cannot before it has joined them.
"""
Streams = tuple[IO[bytes] | int | None, IO[bytes] | int | None]


def start_ranks(
    module: str, argv: Sequence[str], count: int, patience: float | None = None
) -> int:
    """
    Run a module of this package with these arguments in so many processes, and return
    the exit code of the first that has failed, or 0. Rank 0 speaks; errors of the
    others are shown only for one that fails by itself. A rank that is stopped for
    `patience` seconds and a bit has failed.
    """
    with ExitStack() as stack:
        streams = [_streams(rank, stack) for rank in range(count)]
        started = _start(module, argv, streams)
        stack.callback(_end, started)
        stops = None if patience is None else Stops(started, patience)
        return _wait(started, streams, stops)


def _streams(rank: int, stack: ExitStack) -> Streams:
    """Where the output and the errors of a rank go."""
    if rank == 0:
        return None, None
    return subprocess.DEVNULL, stack.enter_context(tempfile.TemporaryFile())


def _start(
    module: str, argv: Sequence[str], streams: Sequence[Streams]
) -> list[subprocess.Popen[bytes]]:
    count = len(streams)
    ends: dict[tuple[int, int], socket.socket] = {}
    for first in range(count):
        for second in range(first):
            ends[first, second], ends[second, first] = socket.socketpair()
    started: list[subprocess.Popen[bytes]] = []
    for rank, (output, errors) in enumerate(streams):
        own = {peer: x.fileno() for (me, peer), x in ends.items() if me == rank}
        told = " ".join(f"{peer}={number}" for peer, number in own.items())
        started.append(
            subprocess.Popen(
                [*child_command(module), *argv],
                env={
                    **os.environ,
                    RANK: str(rank),
                    SOCKETS: told,
                    STARTER: str(os.getpid()),
                },
                pass_fds=[*own.values()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
            )
        )
    # A rank must see that another one has ended.
    for connection in ends.values():
        connection.close()
    return started


class Stops:
    """The seconds for which each process is stopped, as by SIGSTOP, as systems tell."""

    def __init__(self, started: Sequence[subprocess.Popen[bytes]], patience: float):
        self._started, self._limit = started, patience + STOPPED_SECONDS
        self._seconds = [0.0] * len(started)
        self._last = time.monotonic()

    def look(self) -> str | None:
        """Look at all processes; the text about one that is stopped for too long."""
        now = time.monotonic()
        # Where this process was stopped itself, as by a terminal, that does not count.
        passed, self._last = min(now - self._last, 10 * LOOK_SECONDS), now
        for rank, process in enumerate(self._started):
            is_on = process.returncode is None and is_stopped(process.pid)
            self._seconds[rank] = (self._seconds[rank] + passed) * is_on
            if (seconds := self._seconds[rank]) > self._limit:
                text = f"rank {rank} is frozen: its process has been stopped"
                return f"{text} for {seconds:.1f} s"
        return None


def is_stopped(pid: int) -> bool:
    """Whether a child of this process is stopped; False where systems do not tell."""
    if sys.platform == "win32" or not hasattr(os, "waitid"):
        return False
    try:
        found = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return found is not None


def _wait(
    started: Sequence[subprocess.Popen[bytes]],
    streams: Sequence[Streams],
    stops: Stops | None,
) -> int:
    """Wait for all ranks, and end them once one has failed; the exit code."""
    failed: int | None = None
    deadline = float("inf")
    try:
        while any(process.poll() is None for process in started):
            codes = [process.returncode for process in started]
            if failed is None and any(codes):
                failed = next(iter(_guilty(codes)), None)
                left = PEER_SECONDS if failed is None else GRACE_SECONDS
                deadline = min(deadline, time.monotonic() + left)
            if time.monotonic() > deadline:
                break
            if stops is not None and (text := stops.look()) is not None:
                _say(f"error: {text}")
                return EXIT_FAILED
            time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        # A terminal interrupts the ranks as well, of which the first tells it.
        with suppress(subprocess.TimeoutExpired):
            started[0].wait(GRACE_SECONDS)
        if started[0].returncode is None:
            _say("error: interrupted")
        return EXIT_INTERRUPTED
    codes = [process.poll() for process in started]
    guilty = _guilty(codes)
    if not guilty:
        return EXIT_FAILED if any(codes) else 0
    rank = guilty[0] if failed not in guilty else failed
    code = codes[rank] or 0
    if code < 0:
        name = signal.Signals(-code).name
        _say(f"rank {rank} was ended by {name}")
        return EXIT_FAILED
    errors = streams[rank][1]
    if rank > 0 and not isinstance(errors, int | None):
        errors.seek(0)
        for line in errors.read().decode(errors="replace").splitlines():
            _say(f"rank {rank}: {line}")
    return code


def _guilty(codes: Sequence[int | None]) -> list[int]:
    """The ranks that have failed by themselves, not over another rank."""
    return [r for r, x in enumerate(codes) if x not in (0, None, EXIT_PEER)]


def _say(text: str) -> None:
    print(printable(f"penstock-run: {text}"), file=sys.stderr)


def _end(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """End all processes that are still there."""
    for process in started:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                process.kill()
    for process in started:
        process.wait()
