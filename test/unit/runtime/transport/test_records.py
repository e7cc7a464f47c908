"""Records of ranks: the tasks and messages that others read in them."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.core import Core
from penstock.runtime.core.io_kernels import Callback
from penstock.runtime.program.tables import Actor, Call, Register, Slot, Tables
from penstock.runtime.transport import record_folder
from penstock.runtime.transport.record_folder import folder_for_records, new_folder
from penstock.runtime.transport.records import NAMES, Record, tasks_text

FULL = Path("/dev/full")
"""A device to which nothing can be written."""


@pytest.mark.parametrize("dataflow", [False, True])
def test_the_task_of_an_act_is_read(tmp_path: Path, *, dataflow: bool) -> None:
    said: list[str] = []

    def note(args: int, part: int, parts: int) -> None:
        said.append(tasks_text(tmp_path, os.getpid()))

    kernel = Callback(note)
    call = Call(kernel.address, (Slot(0),))
    actors = [
        Actor("near", 0, (), (0,)),
        Actor("far", 0, (0,), (), (call,), place="net.mlir:3:4"),
    ]
    tables = Tables([Register("x", 0, 2, 0, 1000, 10)], actors, callbacks=[kernel])
    assert tasks_text(tmp_path, os.getpid()) == ""
    with Core(tables, dataflow=dataflow, record=Record(tmp_path)) as core:
        assert tasks_text(tmp_path, os.getpid()) == "outside of runs"
        core.run(2)
    assert said == ["in task 'far' (net.mlir:3:4)"] * 2
    assert tasks_text(tmp_path, os.getpid()) == "outside of runs"
    assert tasks_text(tmp_path, 0) == ""
    del core
    assert not [*tmp_path.iterdir()]


def test_the_messages_that_are_waited_for_are_read(tmp_path: Path) -> None:
    record = Record(tmp_path)
    counters = record.words("counters", 4)
    record.words("actors", 1)
    record.words("workers", w.WORKER_WORDS)
    control = record.words("control", w.CONTROL_WORDS)
    control[w.OPEN] = 1
    messages = [("message 1 of rank 0", 0, 1), ("message 2 to rank 0", 2, 3)]
    record.describe([], messages)
    counters[:] = 3, 3, 4, 3
    text = "while it waited for message 1 of rank 0"
    assert tasks_text(tmp_path, os.getpid()) == text
    counters[0] = 4
    assert tasks_text(tmp_path, os.getpid()) == "between two tasks"


@pytest.mark.skipif(not FULL.exists(), reason="systems without a full device")
def test_a_record_without_room_has_words_that_others_do_not_read(
    tmp_path: Path,
) -> None:
    record = Record(tmp_path)
    counters = record.words("counters", 4)
    (path,) = tmp_path.iterdir()
    path.with_suffix(".actors").symlink_to(FULL)
    actors = record.words("actors", 8)
    record.describe([], [])
    assert not [*tmp_path.iterdir()]
    for words in (counters, actors):
        assert not words.any()
        words[:] = 3


def test_records_are_left_out_where_their_folder_is_gone(tmp_path: Path) -> None:
    tables = Tables([Register("x", 0, 2, 0, 1000, 10)], [Actor("near", 0, (), (0,))])
    with Core(tables, record=Record(tmp_path / "gone")) as core:
        core.run(2)
    assert not [*tmp_path.iterdir()]


def test_records_lie_in_memory_that_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_folder, "MEMORY", tmp_path)
    assert folder_for_records() == tmp_path

    def refuse(path: Path, mode: int) -> bool:
        return False

    monkeypatch.setattr(record_folder.os, "access", refuse)
    assert folder_for_records() == Path(tempfile.gettempdir())


@pytest.mark.skipif(sys.platform != "linux", reason="processes have no such numbers")
def test_folders_of_processes_that_were_killed_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_folder, "MEMORY", tmp_path)
    first = new_folder()
    (first / "file").touch()
    *head, pid, start, _ = first.name.split("-")
    assert pid == str(os.getpid())
    # The numbers of processes come again.
    earlier = tmp_path / "-".join([*head, pid, "1", "x"])
    ended = tmp_path / "-".join([*head, str(1 << 23), start])
    of_guard = tmp_path / "-".join([*head, pid, start])
    other = tmp_path / "-".join(["penstock", "0", "0", pid, "1"])
    for path in (earlier, ended, of_guard, other):
        path.mkdir()
    second = new_folder()
    assert {*tmp_path.iterdir()} == {first, second, of_guard, other}


def test_a_record_that_is_removed_is_whole_as_long_as_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, unlink = Record(tmp_path), Path.unlink
    for name in NAMES:
        record.words(name, w.CONTROL_WORDS)
    record.describe([], [])
    said: list[str] = []

    def unlink_and_read(path: Path) -> None:
        unlink(path)
        said.append(tasks_text(tmp_path, os.getpid()))

    monkeypatch.setattr(Path, "unlink", unlink_and_read)
    assert tasks_text(tmp_path, os.getpid()) == "outside of runs"
    record.close()
    assert {*said} == {""}
