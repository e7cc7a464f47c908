"""The compiled core as one C function, and the I/O kernels, for `entry_points`."""

from __future__ import annotations

from collections.abc import Callable

from penstock.runtime.core.atomics import load_word
from penstock.runtime.core.dataflow_rules import DATAFLOW_OFFSET, dataflow_at
from penstock.runtime.core.dataflow_scheduler import (
    DataflowMachine,
    outlook,
    scheduling,
)
from penstock.runtime.core.direct_calls_compiled import direct
from penstock.runtime.core.fault_kernel import fault
from penstock.runtime.core.io_kernels_compiled import copy, feed, fetch
from penstock.runtime.core.messages_compiled import close_messages, move_messages
from penstock.runtime.core.scheduler import (
    NOBODY,
    StaticMachine,
    acting,
    attend,
    begin,
    halt,
    lock_all_workers,
    move_on,
    start,
    take_part,
    unlock_all_workers,
)
from penstock.runtime.core.state import STATE_OFFSET, layout_at, state_at
from penstock.runtime.jit.c_function import compile_c_function
from penstock.runtime.jit.object_file import ObjectCode


def core(words: int) -> int:
    """
    Run a function of `penstock.runtime.core.entry_points`, given the address of its
    number there and of its three arguments.
    """
    verb, tables = load_word(words), load_word(words + 8)
    first, second = load_word(words + 16), load_word(words + 24)
    if verb == 0:
        attend(tables, first)
    elif verb == 1:
        begin(tables, first, second != 0)
    elif verb == 2:
        return int(take_part(tables, first, second))
    elif verb == 3:
        halt(tables, first)
    elif verb == 4:
        return int(lock_all_workers(tables))
    elif verb == 5:
        unlock_all_workers(tables)
    elif verb == 6:
        move_on(tables, first, second)
    elif verb == 7:
        return int(start(tables, first, second))
    elif verb == 8:
        return int(move_messages(state_at(tables + STATE_OFFSET)))
    elif verb == 9:
        close_messages(state_at(tables + STATE_OFFSET))
    return 0


def make_recorder() -> Callable[[int, int, int], int]:
    """The static scheduler that records acts."""
    act = acting(True)

    def recorder(tables: int, worker: int, deadline: int) -> int:
        machine = StaticMachine(layout_at(tables), state_at(tables + STATE_OFFSET))
        return 1 if act(machine, worker, deadline) else 0

    return recorder


def make_dataflow(is_recorded: bool) -> Callable[[int, int, int], int]:
    """The dynamic dataflow scheduler, which records acts or not."""
    loop = scheduling(is_recorded)

    def dataflow(tables: int, worker: int, deadline: int) -> int:
        machine = DataflowMachine(
            layout_at(tables),
            state_at(tables + STATE_OFFSET),
            dataflow_at(tables + DATAFLOW_OFFSET),
        )
        if worker == NOBODY:
            return outlook(machine)
        return 1 if loop(machine, worker, deadline) else 0

    return dataflow


_MAKERS: dict[str, tuple[Callable[[], Callable[..., int]], int, int]] = {
    "core": (lambda: core, 1, 64),
    "direct": (lambda: direct, 3, 64),
    "feed": (lambda: feed, 3, 32),
    "fetch": (lambda: fetch, 3, 32),
    "copy": (lambda: copy, 3, 32),
    "fault": (lambda: fault, 3, 32),
    "recorder": (make_recorder, 3, 32),
    "dataflow": (lambda: make_dataflow(False), 3, 32),
    "dataflow_recorder": (lambda: make_dataflow(True), 3, 32),
}
"""By name: the maker of the function, its number of words, the bits of its result."""


def compile_entry(name: str) -> ObjectCode:
    """The machine code of the function of that name, as a C function."""
    make, words, bits = _MAKERS[name]
    return compile_c_function(make(), f"penstock_{name}", words, bits)
