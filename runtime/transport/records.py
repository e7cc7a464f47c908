"""
Records of ranks: the words by which a core schedules tasks, in files of memory that
outlive the process. Another one reads in them the task in which a rank was ended.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

import numpy as np

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.loops_under_way import is_in_act
from penstock.runtime.program.tables import Words
from penstock.runtime.transport.record_folder import RECORDS

NAMES = ("counters", "actors", "workers", "control")
"""The names of the words of a core."""

_numbers = count()


class Record:
    """
    The words of one core of this process, until it is closed; or words that others
    cannot read, where there is no room for files.
    """

    def __init__(self, folder: Path):
        self._is_kept = True
        self._stem = folder / f"{os.getpid()}-{next(_numbers)}"
        self._made: list[Path] = []

    def words(self, name: str, size: int) -> Words:
        """Zeros that others may read by this name."""
        zeros = bytes(max(size, 1) * np.dtype(np.int64).itemsize)
        path = self._path(name)
        try:
            # Written, as words of a sparse file have no room yet where memory is full.
            path.write_bytes(zeros)
            with path.open("r+b") as file:
                memory = mmap.mmap(file.fileno(), 0)
        except OSError:
            self._is_kept = False
            memory = mmap.mmap(-1, len(zeros))
        return np.frombuffer(memory, np.int64)[:size]

    def describe(
        self,
        actors: Sequence[tuple[str, int, int, int]],
        messages: Sequence[tuple[str, int, int]],
    ) -> None:
        """
        Tell of each actor its text, its worker, the place of its words and the number
        behind that of its last condition; of each message its name, and the counters
        of how many there were and of how many were taken. From now on it can be read.
        """
        draft, whole = self._path("draft"), self._path("json")
        try:
            draft.write_text(json.dumps([actors, messages]), "utf-8")
            if self._is_kept:
                draft.replace(whole)
        except OSError:
            self._is_kept = False
        if not self._is_kept:
            self.close()

    def close(self) -> None:
        """Remove it, and first the file without which the others are not read."""
        for path in reversed(self._made):
            with suppress(OSError):
                path.unlink()

    def _path(self, name: str) -> Path:
        path = self._stem.with_suffix(f".{name}")
        self._made.append(path)
        return path


def own_record() -> Record | None:
    """A new record of this process, if it is one of several ranks that keep some."""
    folder = os.environ.get(RECORDS)
    return None if folder is None else Record(Path(folder))


def tasks_text(folder: Path, pid: int) -> str:
    """
    The tasks that a process was in when it ended, or else the messages that it waited
    for, as words behind that; empty if it had no program, or none that keeps records.
    """
    found = [_Found(path) for path in sorted(folder.glob(f"{pid}-*.json"))]
    running = [each for each in found if each.is_running]
    tasks = [text for each in running for text in each.tasks()]
    if tasks:
        return f"in {'tasks' if len(tasks) > 1 else 'task'} {', '.join(tasks)}"
    messages = [name for each in running for name in each.messages()]
    if messages:
        return f"while it waited for {', '.join(messages)}"
    if running:
        return "between two tasks"
    return "outside of runs" if found else ""


class _Found:
    """The record of a process that has ended."""

    def __init__(self, path: Path):
        self._actors, self._messages = json.loads(path.read_text("utf-8"))
        words = {
            name: np.fromfile(path.with_suffix(f".{name}"), np.int64) for name in NAMES
        }
        self._counters, self._words, self._workers = (words[x] for x in NAMES[:-1])
        self.is_running = bool(words[NAMES[-1]][w.OPEN])
        """Whether it was in a run."""

    def tasks(self) -> list[str]:
        """The text of each actor that was in an act."""
        return [
            text
            for text, worker, place, last in self._actors
            if is_in_act(
                self._workers[worker * w.WORKER_WORDS :], self._words[place:], last
            )
        ]

    def messages(self) -> list[str]:
        """The name of each message that had not come, or was not taken."""
        return [
            name
            for name, had, taken in self._messages
            if self._counters[had] <= self._counters[taken]
        ]
