"""
The processes of `penstock-run --ranks N`: it starts one a rank, with a socket between
each two, and ends all of them when one has failed.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, NamedTuple

from penstock.runtime.jit.child import child_command
from penstock.runtime.transport.join import RANK, SOCKETS, STARTER
from penstock.runtime.transport.record_folder import RECORDS, new_folder
from penstock.runtime.transport.records import tasks_text
from penstock.runtime.transport.stops import Stops
from penstock.tools.cli.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_PEER
from penstock.tools.driver.errors import printable

LOOK_SECONDS = 0.01
"""The time between two looks whether a process has ended."""
GRACE_SECONDS = 2.0
"""The time that other ranks have to end by themselves once one has failed."""
PEER_SECONDS = 60.0
"""The time that a rank has to tell why it fails once another has ended over it."""
Streams = tuple[IO[bytes] | int | None, IO[bytes] | int | None]


class Ranks(NamedTuple):
    """The process of each rank, its streams, and the folder of the records of all."""

    started: Sequence[subprocess.Popen[bytes]]
    streams: Sequence[Streams]
    records: Path


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
        records = new_folder()
        stack.callback(shutil.rmtree, records, ignore_errors=True)
        started = _start(module, argv, streams, records)
        stack.callback(_end, started)
        ranks = Ranks(started, streams, records)
        return _wait(ranks, patience)


def _streams(rank: int, stack: ExitStack) -> Streams:
    """Where the output and the errors of a rank go."""
    if rank == 0:
        return None, None
    return subprocess.DEVNULL, stack.enter_context(tempfile.TemporaryFile())


def _start(
    module: str, argv: Sequence[str], streams: Sequence[Streams], records: Path
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
                    RECORDS: str(records),
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


def is_stopped(pid: int) -> bool:
    """Whether a child of this process is stopped; False where systems do not tell."""
    if sys.platform == "win32" or not hasattr(os, "waitid"):
        return False
    try:
        found = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return found is not None


def _wait(ranks: Ranks, patience: float | None) -> int:
    """Wait for all ranks, and end them once one has failed; the exit code."""
    started, streams, records = ranks
    stops = Stops(lambda rank: is_stopped(started[rank].pid))
    failed: int | None = None
    deadline = float("inf")
    try:
        while any(process.poll() is None for process in started):
            codes = [process.returncode for process in started]
            if failed is None and any(codes):
                failed = next(iter(_guilty(codes)), None)
                grace = PEER_SECONDS if failed is None else GRACE_SECONDS
                deadline = min(deadline, time.monotonic() + grace)
            if time.monotonic() > deadline:
                break
            if patience is not None and failed is None:
                left = [r for r, x in enumerate(started) if x.returncode is None]
                text = stops.look(left, patience, LOOK_SECONDS)
                if text is not None:
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
        tasks = tasks_text(records, started[rank].pid)
        _say(f"rank {rank} was ended by {name} {tasks}".rstrip())
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
