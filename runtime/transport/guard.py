"""
A process beside the ranks of a host that MPI has started, which sees them from outside.

MPI ends all ranks at once when one of them is killed, so that none of them can tell
which one it was, and waits for ever for one that is stopped before it has joined. The
guard tells of both, once, and is in a session of its own, which MPI leaves alone. It is
started by the first of them that is there, before MPI starts.

    python -m penstock.runtime.transport.guard FOLDER PARENT COUNT

The ranks are the COUNT children of the process PARENT that have a rank, or below such
ones, as a script may start Penstock. FOLDER has their records, and files by which they
say that they end by themselves, and how many seconds one may be stopped.
"""

from __future__ import annotations

import atexit
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from penstock.runtime.errors import printable
from penstock.runtime.jit.child import child_command
from penstock.runtime.transport.record_folder import (
    PARENT,
    facts_of,
    folder_for_records,
    folder_name,
    remove_unused,
)
from penstock.runtime.transport.stops import Stops

OF_RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK")
"""The variables with the rank of a process that an MPI has started."""
OF_COUNTS = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")
"""The variables with the number of such processes on its host."""
LOOK_SECONDS = 0.1
"""The time between two looks at what processes do."""
GUARD_SECONDS = 5.0
"""The time that a guard has to end a rank that has seen the end of another one."""
LEFT, OVER, PATIENCE = "left", "over", "patience"
"""
The names of files: of a process that ends by itself, where one has ended all, and of
the seconds.
"""


def is_stopped(pid: int) -> bool:
    """Whether a process of this host is stopped."""
    try:
        return facts_of(pid)[0] in "tT"
    except OSError:
        return False


def ranks_below(parent: int) -> dict[int, int]:
    """The process of each rank that another one has started."""
    found: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            pid = int(entry.name)
            if int(facts_of(pid)[PARENT]) == parent:
                found[_rank_of(entry)] = pid
    return found


def _rank_of(process: Path) -> int:
    """The rank of a process. Raises ValueError if it has none."""
    given = _variables(process)
    return int(next((given[name] for name in OF_RANKS if name in given), ""))


def _variables(process: Path) -> dict[str, str]:
    """The environment that a process was started with. Raises OSError without one."""
    text = (process / "environ").read_bytes().decode("utf-8", "replace")
    return dict(x.split("=", 1) for x in text.split("\0") if "=" in x)


def first_of(process: int) -> int:
    """
    The process that MPI has started for the rank of this one: itself, or one above it
    that was told the same rank and count, such as a shell.
    """
    with suppress(OSError):
        parent = int(facts_of(process)[PARENT])
        own, above = (_variables(Path(f"/proc/{x}")) for x in (process, parent))
        # Shells of Slurm have a rank, and no count: what they start are others.
        if any(name in above for name in OF_COUNTS) and all(
            own.get(name) == above.get(name) for name in (*OF_RANKS, *OF_COUNTS)
        ):
            return first_of(parent)
    return process


class Guarded:
    """
    This process as one that a guard sees, whose files lie in a folder; `first` is the
    process that MPI has started for it.
    """

    def __init__(self, folder: Path, parent: int, count: int, first: int):
        self.folder, self._parent, self._count = folder, parent, count
        self._first = first

    def leave(self) -> None:
        """Say that this process ends by itself."""
        with suppress(OSError):
            (self.folder / f"{self._first}.{LEFT}").touch()

    def end_all(self) -> None:
        """
        Say that this process ends all others, which tells why; unless one has ended
        before, of which the guard tells, and ends this process, too.
        """
        left = [*self.folder.glob(f"*.{LEFT}")]
        if len(left) + len(ranks_below(self._parent)) < self._count:
            time.sleep(GUARD_SECONDS)
        with suppress(OSError):
            (self.folder / OVER).touch()

    def be_patient(self, seconds: float) -> None:
        """Say for how long a process may be stopped."""
        draft = self.folder / f"{os.getpid()}.{PATIENCE}"
        with suppress(OSError):
            draft.write_text(repr(seconds), "ascii")
            draft.replace(self.folder / PATIENCE)


def guarded() -> Guarded | None:
    """
    This process with the guard of its host, which is started if there is none; None
    where it was not started by an MPI that says how many there are, or where systems do
    not tell of the ends of processes.
    """
    counts = [os.environ[name] for name in OF_COUNTS if name in os.environ]
    if not counts or not hasattr(os, "pidfd_open"):
        return None
    try:
        first = first_of(os.getpid())
        parent = int(facts_of(first)[PARENT])
        folder = folder_for_records() / folder_name(parent)
        is_first = _made(folder)
    except OSError:
        return None
    if is_first:
        remove_unused()
        command = [*child_command("penstock.runtime.transport.guard"), str(folder)]
        nothing = subprocess.DEVNULL
        subprocess.Popen(
            [*command, str(parent), counts[0]],
            stdin=nothing,
            stdout=nothing,
            start_new_session=True,
        )
    found = Guarded(folder, parent, int(counts[0]), first)
    atexit.register(found.leave)
    return found


def _made(folder: Path) -> bool:
    """Whether this process has made a folder. Raises OSError if others own it."""
    try:
        folder.mkdir(0o700)
    except FileExistsError:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise
        return False
    return True


class Guard:
    """The ends of the ranks of a host, which are so many children of a process."""

    def __init__(self, folder: Path, parent: int, count: int):
        self._folder, self._parent, self._count = folder, parent, count
        self.pids: dict[int, int] = {}
        """The process of each rank that has been found."""
        self._poller = select.epoll()
        self._ranks: dict[int, int] = {}
        """The rank of each handle of a process that has not ended."""
        self._stops = Stops(lambda rank: is_stopped(self.pids[rank]))

    def wait(self) -> str | None:
        """
        Wait until all have ended. The text about the first one that has not ended by
        itself, or that is stopped for too long; None if there is none, or if a rank
        that has ended all others tells why.
        """
        while True:
            if len(self.pids) < self._count:
                self._find()
            if not self._ranks:
                return None
            # In the order in which they have ended: one brings about the others.
            for handle, _ in self._poller.poll(LOOK_SECONDS):
                rank = self._ranks.pop(handle)
                self._poller.unregister(handle)
                os.close(handle)
                if (self._folder / OVER).exists():
                    return None
                if not (self._folder / f"{self.pids[rank]}.{LEFT}").exists():
                    return self._end_text(rank)
            with suppress(OSError, ValueError):
                patience = float((self._folder / PATIENCE).read_text("ascii"))
                text = self._stops.look(self._ranks.values(), patience, LOOK_SECONDS)
                if text is not None:
                    return text

    def _find(self) -> None:
        for rank, pid in ranks_below(self._parent).items():
            if rank in self.pids:
                continue
            with suppress(ProcessLookupError):
                handle = os.pidfd_open(pid)
                self._poller.register(handle, select.EPOLLIN)
                self.pids[rank], self._ranks[handle] = pid, rank

    def end(self) -> None:
        """
        End all ranks that are there. The numbers of others may be those of processes
        that have nothing to do with them by now.
        """
        for handle in self._ranks:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)

    def _end_text(self, rank: int) -> str:
        from penstock.runtime.transport.records import tasks_text

        pid = self.pids[rank]
        tasks = tasks_text(self._folder, pid)
        return f"rank {rank}, process {pid}, was ended {tasks}".rstrip()


def main(argv: list[str]) -> None:
    """Guard the ranks of a host, and end them once one is missed."""
    folder, parent, count = Path(argv[0]), int(argv[1]), int(argv[2])
    guard = Guard(folder, parent, count)
    try:
        text = guard.wait()
        if text is not None:
            print(printable(f"penstock: error: {text}"), file=sys.stderr, flush=True)
            guard.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
