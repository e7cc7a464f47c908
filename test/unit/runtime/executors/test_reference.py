"""The reference executor on its own; test_core holds it against the compiled one."""

import ctypes

import numpy as np
import pytest

from penstock.runtime.core.io_kernels import Callback
from penstock.runtime.errors import PenstockError, TaskError
from penstock.runtime.executors.reference import run_sequential
from penstock.runtime.program.tables import Actor, Call, Fixed, Register, Slot, Tables


def counting(slots: int) -> tuple[Tables, list[int]]:
    """A source that writes 1, 2, 3, ... and a sink that notes what it reads."""
    buffer = np.zeros(slots, np.int64)
    total = np.zeros(1, np.int64)
    seen: list[int] = []

    def count(args: int, part: int, parts: int) -> None:
        addresses = (ctypes.c_int64 * 2).from_address(args)
        total[0] += 1
        ctypes.c_int64.from_address(addresses[0]).value = int(total[0])
        assert addresses[1] == total.ctypes.data

    def note(args: int, part: int, parts: int) -> None:
        address = ctypes.c_int64.from_address(args).value
        offset = (address - buffer.ctypes.data) // buffer.itemsize
        seen.append(int(buffer[offset]))

    kernels = [Callback(count), Callback(note)]
    source = Call(kernels[0].address, (Slot(0), Fixed(total.ctypes.data)))
    sink = Call(kernels[1].address, (Slot(0),))
    tables = Tables(
        [Register("x", 0, slots, 0, buffer.ctypes.data, buffer.itemsize)],
        [Actor("source", 0, (), (0,), (source,)), Actor("sink", 1, (0,), (), (sink,))],
        callbacks=kernels,
    )
    return tables, seen


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_every_piece_arrives_once_and_in_order(slots: int):
    tables, seen = counting(slots)
    run_sequential(tables, 12)
    assert seen == list(range(1, 13))


def test_every_run_starts_from_the_first_slots():
    tables, seen = counting(3)
    run_sequential(tables, 2)
    run_sequential(tables, 2)
    assert seen == [1, 2, 3, 4]


def test_error_ends_the_run_at_once():
    tables, seen = counting(2)
    fail = Callback(lambda args, part, parts: 9 if len(seen) == 3 else 0)
    sink = tables.actors[1]
    calls = (*sink.calls, Call(fail.address))
    actors = [tables.actors[0], Actor("sink", 0, sink.reads, (), calls)]
    callbacks = [*tables.callbacks.values(), fail]
    with pytest.raises(TaskError, match="task 'sink' failed at act 2 with code 9"):
        run_sequential(Tables(tables.registers, actors, callbacks), 10)
    assert seen == [1, 2, 3]


def test_number_of_acts_must_not_be_negative():
    with pytest.raises(PenstockError) as caught:
        run_sequential(counting(1)[0], -2)
    assert str(caught.value) == "the number of acts must not be negative, got -2"
