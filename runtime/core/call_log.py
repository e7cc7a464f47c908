"""The log of a worker, as compiled code fills it: rows of acts and calls."""

from __future__ import annotations

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.atomics import Integer, compiled, load_word, store_word
from penstock.runtime.core.os_calls import now
from penstock.runtime.core.state_layout import State


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


@compiled()
def note_row(
    log: Integer,
    what: Integer,
    actor: Integer,
    act: Integer,
    start: Integer,
    end: Integer,
    code: Integer,
) -> None:
    """Note something that has a start, an end and a code."""
    row = open_row(log, what, actor, act)
    store_word(row + 8 * w.START, start)
    store_word(row + 8 * w.CODE, code)
    store_word(row + 8 * w.END, end)
