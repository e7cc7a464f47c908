"""
The kernel database: measured times of kernel variants.

A file of SQLite, with a table of keys (`penstock.lowering.kernel_times.keys`: found by
digest, compared by text) and one of times, a row for each variant of a key. Any number
of processes may read and write it at once; each measurement is written whole or not at
all. A row that does not fit its checksum counts as missing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Self, cast

from penstock.lowering.kernel_times.keys import Key

APPLICATION = 0x50454E53
"""The application number of an SQLite file that is a kernel database."""
VERSION = 2
"""The version of the tables."""
WAIT_SECONDS = 30.0
"""The time to wait for other processes that write."""

_TABLES = (
    """CREATE TABLE subject (
        id INTEGER PRIMARY KEY,
        digest TEXT NOT NULL,
        text TEXT NOT NULL,
        op TEXT NOT NULL,
        target TEXT NOT NULL,
        UNIQUE (digest, text)
    )""",
    """CREATE TABLE time (
        subject INTEGER NOT NULL REFERENCES subject (id),
        alternative TEXT NOT NULL,
        source TEXT NOT NULL,
        median_ns REAL NOT NULL,
        least_ns REAL NOT NULL,
        samples INTEGER NOT NULL,
        measured_at TEXT NOT NULL,
        checksum TEXT NOT NULL,
        PRIMARY KEY (subject, alternative)
    ) WITHOUT ROWID""",
)


class DatabaseError(Exception):
    """A file cannot be used as a kernel database."""


@dataclass(frozen=True)
class Time:
    """The measured time of one variant: nanoseconds over a number of samples."""

    median_ns: float
    least_ns: float
    samples: int
    measured_at: str
    """The date and time, in UTC, as ISO 8601 writes it."""
    source: str = "penstock"
    """The origin of the alternative: `penstock`, or a module of a plug-in."""


@dataclass(frozen=True)
class Entry:
    """A row of the database: an alternative of something that computes an op."""

    op: str
    target: str
    alternative: str
    time: Time


def _text_of(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def checksum_of(text: str, alternative: str, time: Time) -> str:
    """The checksum that is kept with a row, to see whether it is damaged."""
    numbers = float(time.median_ns), float(time.least_ns), int(time.samples)
    facts = text, alternative, time.source, *numbers, time.measured_at
    return sha256(repr(facts).encode()).hexdigest()


class KernelDatabase:
    """
    An open database; close it after use.

    Opened to be read, the file must be there; opened to be written, it is made if it is
    not. Raises `DatabaseError` if it cannot be opened, is no kernel database, is
    damaged, or has tables of another version.
    """

    def __init__(self, path: Path, *, write: bool = False):
        self.path = path
        if not write and not path.is_file():
            raise DatabaseError(f"cannot read {path}: no such file")
        mode = "rwc" if write else "ro"
        with self._explaining():
            uri = f"{path.absolute().as_uri()}?mode={mode}"
            self._file = sqlite3.connect(
                uri, uri=True, timeout=WAIT_SECONDS, isolation_level=None
            )
            # Damaged text is found by its checksum.
            self._file.text_factory = _text_of
        try:
            with self._explaining():
                if write:
                    self._make()
                self._check()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ending: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    @contextmanager
    def _explaining(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            text = f"cannot use {self.path} as a kernel database: {error}"
            raise DatabaseError(text) from error

    @contextmanager
    def _writing(self) -> Generator[None]:
        """A transaction that others wait for."""
        self._file.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._file.execute("ROLLBACK")
            raise
        self._file.execute("COMMIT")

    def _make(self) -> None:
        """Make the tables of a file that has none yet."""
        if self._number("application_id") == APPLICATION:
            return
        # It cannot be done within a transaction, and only while nobody else writes.
        self._file.execute("PRAGMA journal_mode = WAL")
        with self._writing():
            query = "SELECT count(*) FROM sqlite_schema"
            if self._file.execute(query).fetchone() != (0,):
                return
            for table in _TABLES:
                self._file.execute(table)
            self._file.execute(f"PRAGMA application_id = {APPLICATION}")
            self._file.execute(f"PRAGMA user_version = {VERSION}")

    def _number(self, pragma: str) -> int:
        return cast("int", self._file.execute(f"PRAGMA {pragma}").fetchone()[0])

    def _check(self) -> None:
        if self._number("application_id") != APPLICATION:
            raise DatabaseError(f"{self.path} is no kernel database")
        if (version := self._number("user_version")) != VERSION:
            raise DatabaseError(
                f"the kernel database {self.path} has tables of version {version}, "
                f"expected {VERSION}"
            )
        found = self._file.execute("PRAGMA quick_check(1)").fetchone()
        if found != ("ok",):
            raise DatabaseError(f"the kernel database {self.path} is damaged: {found}")

    def times(self, key: Key) -> dict[str, Time]:
        """The measured times of a key, by the name of the variant."""
        query = (
            "SELECT alternative, checksum, "
            "median_ns, least_ns, samples, measured_at, source "
            "FROM time JOIN subject ON subject = id WHERE digest = ? AND text = ? "
            "ORDER BY alternative"
        )
        with self._explaining():
            rows = self._file.execute(query, (key.digest, key.text)).fetchall()
        return {
            name: time
            for name, checksum, *facts in rows
            if checksum == checksum_of(key.text, name, time := Time(*facts))
        }

    def record(
        self,
        key: Key,
        times: Mapping[str, Time],
        *,
        op: str = "",
        target: str = "cpu",
        overwrite: bool = True,
    ) -> None:
        """
        Keep times of a key by the names of alternatives; without `overwrite`, those
        that are there already stay what they are.
        """
        insert = "INSERT OR REPLACE INTO time VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        with self._explaining(), self._writing():
            subject = self._subject(key, op, target)
            there = frozenset[str]() if overwrite else self.times(key).keys()
            for alternative, time in times.items():
                if alternative in there:
                    continue
                numbers = time.median_ns, time.least_ns, time.samples
                checksum = checksum_of(key.text, alternative, time)
                facts = alternative, time.source, *numbers, time.measured_at, checksum
                self._file.execute(insert, (subject, *facts))

    def _subject(self, key: Key, op: str, target: str) -> int:
        insert = "INSERT OR IGNORE INTO subject VALUES (NULL, ?, ?, ?, ?)"
        self._file.execute(insert, (key.digest, key.text, op, target))
        query = "SELECT id FROM subject WHERE digest = ? AND text = ?"
        found = self._file.execute(query, (key.digest, key.text)).fetchone()
        return cast("int", found[0])

    def entries(
        self,
        *,
        op: str | None = None,
        target: str | None = None,
        source: str | None = None,
    ) -> Sequence[Entry]:
        """All rows, or those of an op, a target, or the origin of the alternative."""
        wanted = {"op": op, "target": target, "source": source}
        conditions = {name: text for name, text in wanted.items() if text is not None}
        where = " AND ".join(f"{name} = ?" for name in conditions) or "1"
        query = (
            "SELECT op, target, text, alternative, checksum, "
            "median_ns, least_ns, samples, measured_at, source "
            f"FROM time JOIN subject ON subject = id WHERE {where} "
            "ORDER BY op, target, digest, alternative"
        )
        with self._explaining():
            rows = self._file.execute(query, (*conditions.values(),)).fetchall()
        return [
            Entry(op, target, alternative, time)
            for op, target, text, alternative, checksum, *facts in rows
            if checksum == checksum_of(text, alternative, time := Time(*facts))
        ]
