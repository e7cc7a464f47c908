"""
The entry points of the compiled core, for Python.

Their machine code is looked up in the cache folder; only if it is not there is Numba
imported to compile it. A call lets go of the GIL. All get the address of one table of
arrays: to pass arrays from Python would take longer than a short run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeAlias

from penstock.runtime.core.object_key import core_folder
from penstock.runtime.core.state_layout import SLICE
from penstock.runtime.jit.first_start import first_start
from penstock.runtime.jit.lease import lease
from penstock.runtime.jit.object_file import (
    ObjectCode,
    load_object,
    read_object,
    write_object,
)

_Core = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
_Loop = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 3)
Starter: TypeAlias = Callable[[int, int], int]
_NOBODY = -1
_ATTEND, _BEGIN, _TAKE_PART, _HALT, _LOCK_ALL_WORKERS, _UNLOCK_ALL_WORKERS = range(6)
_MOVE_ON, _START, _MOVE_MESSAGES, _CLOSE_MESSAGES = range(6, 10)


@cache
def address_of_entry(name: str) -> int:
    """
    The address of the C function `core`, `direct`, `recorder`, `dataflow`,
    `dataflow_recorder`, `feed`, `fetch`, `copy` or `fault`.
    """
    path = core_folder() / f"{name}.o"
    if (address := _find(path)) is not None:
        return address
    with lease(path):
        # The process that had the lease before may have made it.
        return _find(path) or _make(path, name)


def _find(path: Path) -> int | None:
    found = read_object(path)
    return None if found is None else load_object(found)


def _make(path: Path, name: str) -> int:
    made = _compiled(name)
    write_object(path, made)
    address = load_object(made)
    assert address is not None, "Numba has been imported, with all that it needs"
    return address


def _compiled(name: str) -> ObjectCode:
    first_start.begin("the executor")
    try:
        from penstock.runtime.core.entry_module import compile_entry

        return compile_entry(name)
    finally:
        first_start.end()


@cache
def compiled_core() -> Callable[[int | ctypes.c_int64], int]:
    """
    The compiled core. It is asked for when a program is loaded, so that no run, which
    may have to end fast, is the first to.
    """
    return _Core(address_of_entry("core"))


def _call(verb: int, tables: int, first: int = 0, second: int = 0) -> int:
    words = (ctypes.c_int64 * 4)(verb, tables, first, second)
    return compiled_core()(ctypes.addressof(words))


def attend(tables: int, thread: int) -> None:
    """Let a thread take part in all runs until the core is closed."""
    _call(_ATTEND, tables, thread)


def begin(tables: int, acts: int, wake: bool) -> None:
    """Start a run of so many acts, while no other run is under way."""
    _call(_BEGIN, tables, acts, wake)


def take_part(tables: int, thread: int, limit: int) -> int:
    """
    Let the caller's thread take part in a run until it ends or sleeps, or for about a
    number of nanoseconds. Returns `ENDED_WELL`, `UNFINISHED` or `STOPPED`.
    """
    return _call(_TAKE_PART, tables, thread, limit)


def run_starter(tables: int) -> Starter:
    """
    A function that begins a run of so many acts, and takes part in it like `take_part`,
    in one call of the core, whose arguments are there already if they are those of the
    last one.
    """
    words = (ctypes.c_int64 * 4)(_START, tables, 0, 0)
    address = ctypes.c_int64(ctypes.addressof(words))
    last, until = 0, 0
    core = compiled_core()

    def start(acts: int, limit: int) -> int:
        nonlocal last, until
        if acts != last or limit != until:
            words[2], words[3] = last, until = acts, limit
        return core(address)

    return start


def start_words(tables: int) -> tuple[object, int]:
    """
    The words by which the core begins a run of one act, and takes part in it for a
    slice of time, and their address.
    """
    words = (ctypes.c_int64 * 4)(_START, tables, 1, SLICE)
    return words, ctypes.addressof(words)


def halt(tables: int, reason: int) -> None:
    """End a run for a reason, whether or not it has ended, and wake all threads."""
    _call(_HALT, tables, reason)


def lock_all_workers(tables: int) -> bool:
    """Keep all threads from acting until `unlock_all_workers`; False if one acts."""
    return _call(_LOCK_ALL_WORKERS, tables) != 0


def unlock_all_workers(tables: int) -> None:
    """Let threads act again."""
    _call(_UNLOCK_ALL_WORKERS, tables)


def outlook(tables: int, loop: int) -> int:
    """
    The outlook while all workers are locked: `STUCK`, `GOES_ON` or `WAITS`. `loop` is
    the address of the dataflow scheduler.
    """
    return _Loop(loop)(tables, _NOBODY, 0)


def move_on(tables: int, counter: int, value: int) -> None:
    """
    Set a counter of the caller, unless its index is negative, and wake the threads that
    wait for it.
    """
    _call(_MOVE_ON, tables, counter, value)


def move_messages(tables: int) -> bool:
    """
    Begin and end the messages of the `MessageTable` of a core, unless a thread of a run
    does; whether one has ended.
    """
    return _call(_MOVE_MESSAGES, tables) != 0


def close_messages(tables: int) -> None:
    """Let no thread look at them any more, from when this returns."""
    _call(_CLOSE_MESSAGES, tables)
