"""Records of ranks: the tasks and messages that others read in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.core import Core
from penstock.runtime.core.io_kernels import Callback
from penstock.runtime.program.tables import Actor, Call, Register, Slot, Tables
from penstock.runtime.transport.records import Record, tasks_text


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
