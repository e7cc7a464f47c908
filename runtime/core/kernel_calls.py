"""
The calls of an act, in compiled code: plainly, or each noted in the log of the worker.
"""

from __future__ import annotations

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
from penstock.runtime.core.state import fail
from penstock.runtime.core.state_layout import State
from penstock.runtime.core.work_sharing import share_out
from penstock.runtime.program.tables import Layout


@compiled()
def make_call(
    layout: Layout, state: State, seat: Integer, actor: Integer, call: Integer
) -> int:
    """
    Make a call of an actor. Its code, which is noted if it is not 0; CUT_SHORT if the
    run has stopped meanwhile.
    """
    control = state.control
    row = address_of(state.rows, peek(layout.row, call))
    parts = min(peek(layout.parts, call), control[w.MOST_PARTS])
    if parts == 1:
        code = int(call_kernel(peek(layout.kernel, call), row, 0, 1))
    else:
        code = share_out(state, seat, peek(layout.kernel, call), row, parts)
    if code != 0:
        state.seats[seat + w.WRONG_ACTOR] = actor + 1
        state.seats[seat + w.WRONG_CALL] = call
        state.seats[seat + w.WRONG_CODE] = code
        fail(state, actor, call, code)
    elif (
        parts > 1
        and load_acquire(control, w.STOP) != w.RUNNING
        and not control[w.WHOLE_ACTS]
    ):
        return w.CUT_SHORT
    return code


@compiled()
def call_kernels(layout: Layout, state: State, seat: Integer, actor: Integer) -> bool:
    """Make the calls of an actor; False if one fails, which is noted, or all stop."""
    last = peek(layout.call_start, actor + 1)
    for call in range(peek(layout.call_start, actor), last):
        if make_call(layout, state, seat, actor, call) != 0:
            return False
    return True


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
    # Who reads the log meanwhile knows that it starts from now on.
    store_word(row + 8 * w.START, now())
    return row


@compiled()
def close_row(row: Integer, code: Integer) -> None:
    """Note that something has ended with a code."""
    store_word(row + 8 * w.CODE, code)
    # A row is whole once it has an end.
    store_word(row + 8 * w.END, now())


@compiled()
def record_calls(
    layout: Layout, state: State, seat: Integer, worker: Integer, actor: Integer
) -> bool:
    """
    What `call_kernels` does, with a row in the log of the worker for the act, and one
    for each call unless it is the only one.
    """
    log = load_word(state.control[w.LOG] + 8 * worker)
    act = int(state.actors[layout.place[actor] + w.ACTS])
    first, last = layout.call_start[actor], layout.call_start[actor + 1]
    whole = open_row(log, w.WHOLE, actor, act)
    code = 0
    for call in range(first, last):
        row = open_row(log, call - first, actor, act) if last - first > 1 else 0
        code = make_call(layout, state, seat, actor, call)
        if row != 0:
            close_row(row, code)
        if code != 0:
            break
    close_row(whole, code)
    return code == 0
