"""
The calls of kernels in an act, and their rows in the log of the worker.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.atomics import (
    Integer,
    address_of,
    call_kernel,
    compiled,
    load_acquire,
    load_word,
    peek,
    store_word,
)
from penstock.runtime.core.os_calls import now
from penstock.runtime.core.state import AnyMachine, fail
from penstock.runtime.core.state_layout import State
from penstock.runtime.core.work_sharing import share_out
from penstock.runtime.program.tables import Layout


@compiled()
def make_call(
    layout: Layout, state: State, base: Integer, actor: Integer, call: Integer
) -> int:
    """
    Make a call of an actor. Returns its code, which is noted if it is not 0; CUT_SHORT
    if the run has stopped meanwhile.
    """
    control = state.control
    row = address_of(state.rows, peek(layout.row, call))
    parts = min(peek(layout.parts, call), control[w.MOST_PARTS])
    if parts == 1:
        code = int(call_kernel(peek(layout.kernel, call), row, 0, 1))
    else:
        code = share_out(state, base, peek(layout.kernel, call), row, parts)
    if code != 0:
        state.workers[base + w.WRONG_ACTOR] = actor + 1
        state.workers[base + w.WRONG_CALL] = call
        state.workers[base + w.WRONG_CODE] = code
        fail(state, actor, call, code)
    elif (
        parts > 1
        and load_acquire(control, w.STOP) != w.RUNNING
        and not control[w.WHOLE_ACTS]
    ):
        return w.CUT_SHORT
    return code


# The log -----------------------------------------------------------------------------


@compiled()
def has_rows(log: Integer, rows: Integer) -> bool:
    """Whether there is room for so many rows in a log."""
    left = load_word(log + 8 * w.GONE) + load_word(log + 8 * w.ROOM) - load_word(log)
    return bool(rows <= left)


@compiled()
def open_row(log: Integer, what: Integer, actor: Integer, act: Integer) -> int:
    """Note in a log that something starts; the address of its row."""
    count = load_word(log)
    place = count % load_word(log + 8 * w.ROOM)
    row = int(log) + 8 * (w.LOG_HEAD + w.LOG_ROW * place)
    store_word(row + 8 * w.WHAT, what)
    store_word(row + 8 * w.ACTOR, actor)
    store_word(row + 8 * w.ACT, act)
    store_word(log, count + 1)
    # A reader of the log takes a row without a start for one that starts from now on.
    store_word(row + 8 * w.START, now())
    return row


@compiled()
def close_row(row: Integer, code: Integer) -> None:
    """Note that something has ended with a code."""
    store_word(row + 8 * w.CODE, code)
    # A row is whole once it has an end.
    store_word(row + 8 * w.END, now())


@compiled()
def log_of(state: State, worker: Integer) -> int:
    """The log of a worker, 0 if there is none."""
    logs = state.control[w.LOG]
    return load_word(logs + 8 * worker) if logs != 0 else 0


# Acts --------------------------------------------------------------------------------


def calling(
    kind: type[AnyMachine],
    is_recorded: bool,
    is_made: Callable[[AnyMachine, Integer, Integer, Integer], bool],
) -> Callable[[AnyMachine, Integer, Integer, Integer, Integer], int]:
    """
    The function that makes the calls of an act, each with a row in the log if there are
    several. `is_made` says whether a call of an actor is made for a piece of an entry.
    """

    @compiled(bound={AnyMachine: kind})
    def make_calls(
        machine: AnyMachine, base: Integer, actor: Integer, read: Integer, log: Integer
    ) -> int:
        """Make the calls of the next act; 0, or the code of the first that fails."""
        layout, state = machine.layout, machine.state
        first, last = peek(layout.call_start, actor), peek(layout.call_start, actor + 1)
        for call in range(first, last):
            if not is_made(machine, actor, call, read):
                continue
            row = 0
            if is_recorded and log != 0 and last - first > 1:
                act = peek(state.actors, peek(layout.place, actor) + w.ACTS)
                row = open_row(log, call - first, actor, act)
            code = make_call(layout, state, base, actor, call)
            if is_recorded and row != 0:
                close_row(row, code)
            if code != 0:
                return code
        return 0

    return make_calls


def noting(
    kind: type[AnyMachine],
    is_recorded: bool,
    act: Callable[[AnyMachine, Integer, Integer, Integer], int],
) -> Callable[[AnyMachine, Integer, Integer, Integer], int]:
    """The function that lets an actor act, with a row in the log for the whole act."""

    @compiled(bound={AnyMachine: kind})
    def noted(
        machine: AnyMachine, worker: Integer, base: Integer, actor: Integer
    ) -> int:
        """Let an actor of a worker act; 0, or the code by which it fails."""
        state = machine.state
        log = whole = 0
        if is_recorded:
            log = log_of(state, worker)
            if log != 0:
                number = peek(state.actors, peek(machine.layout.place, actor) + w.ACTS)
                whole = open_row(log, w.WHOLE, actor, number)
        code = act(machine, base, actor, log)
        if is_recorded and whole != 0:
            close_row(
                whole, state.control[w.FAILED_CODE] if code == w.REFUSED else code
            )
        return code

    return noted
