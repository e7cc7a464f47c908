"""
What the threads of a run share: words for all of them, a seat and a board per worker.

A thread takes the seat of a worker to let its actors act. On its board it puts a kernel
that other threads may do parts of.
"""

# Most of numba carries no types.
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

from numba import types

from penstock.runtime.atomics import (
    Integer,
    address_of,
    arrays_at,
    compiled,
    fence,
    fetch_add,
    load_acquire,
    replace,
    store_release,
    words,
)
from penstock.runtime.system import (
    MICROSECOND,
    allow_cores,
    core_number,
    sleep_on,
    thread_number,
    wake_all,
)
from penstock.runtime.tables import CACHE_LINE, Layout, Words

SPIN = 50 * MICROSECOND
"""How long a thread without work looks for some before it sleeps."""

# Words of `State.control`, on lines of their own where all write them.
STOP, TARGET, MOST_PARTS, ROUND = 0, 1, 2, 3
OPEN = 1 * CACHE_LINE
BELL = 2 * CACHE_LINE
SLEEPERS = 3 * CACHE_LINE
FAILED_ACTOR = 4 * CACHE_LINE
FAILED_CALL = FAILED_ACTOR + 1
FAILED_CODE = FAILED_ACTOR + 2
NAP = 5 * CACHE_LINE
CORES = 6 * CACHE_LINE
LEFT_OUT, OTHERS = CORES + 1, CORES + 2
CONTROL_WORDS = 7 * CACHE_LINE

# Values of `control[STOP]`.
RUNNING, INTERRUPTED, FAILED, DEADLOCKED, CLOSED = 0, 1, 2, 3, 4

# Words of a worker in `State.seats`: who is in it; its ring and its actors left to act,
# for who is in it; the board.
TAKEN = 0
HEAD, TAIL, LEFT, FRESH = range(CACHE_LINE, CACHE_LINE + 4)
CLAIMS = 2 * CACHE_LINE
KERNEL, ROW, PARTS = range(3 * CACHE_LINE, 3 * CACHE_LINE + 3)
DONE, FAILURE = 4 * CACHE_LINE, 4 * CACHE_LINE + 1
SEAT_WORDS = 5 * CACHE_LINE

# Words of an actor in `State.actors`.
ACTS, QUEUED, CONDITION = 0, 1, 2

NO_FAILURE = 1 << 62
HALF = (1 << 32) - 1

OBSERVER = -1
"""The number of a thread that only waits for the others."""


class State(NamedTuple):
    """
    What threads write: counters, `ACTOR_WORDS` for each actor, argument rows, rings,
    `SEAT_WORDS` for each worker, the numbers of threads in the system, words for all.
    """

    counters: Words
    actors: Words
    rows: Words
    rings: Words
    seats: Words
    threads: Words
    control: Words


layout_type = types.NamedUniTuple(words, len(Layout._fields), Layout)
state_type = types.NamedUniTuple(words, len(State._fields), State)
layout_at = cast("Callable[[Integer], Layout]", arrays_at(layout_type))
state_at = cast("Callable[[Integer], State]", arrays_at(state_type))
STATE_OFFSET = 16 * len(Layout._fields)
"""Bytes from the table of the layout's arrays to that of the state's."""


# Sleep and wake-up -------------------------------------------------------------------


@compiled(types.void(state_type))
def ring_bell(state: State) -> None:
    """Wake the threads that sleep, after something was written that they wait for."""
    control = state.control
    fence()
    if control[SLEEPERS] > 0:
        fetch_add(control, BELL, 1)
        wake_all(address_of(control, BELL))


@compiled(types.void(state_type), inline=False)
def keep_off(state: State) -> None:
    """If this is the caller's thread, keep all others off the core it is on."""
    control = state.control
    core = core_number()
    if control[CORES] == 0 or core == control[LEFT_OUT]:
        return
    own = thread_number()
    for thread in state.threads:
        if thread == own:
            return
    control[LEFT_OUT] = core
    control[OTHERS] = control[CORES] & ~(1 << core)
    for thread in state.threads:
        if thread != 0:
            allow_cores(thread, address_of(control, OTHERS))


@compiled(types.void(state_type), inline=False)
def call_threads(state: State) -> None:
    """
    Wake the threads that sleep because there is work for them.

    The system would like to run them on the core that wakes them, where they wait until
    its thread has nothing more to do, so they are kept off the core of the caller.
    """
    control = state.control
    fence()
    if control[SLEEPERS] > 0:
        keep_off(state)
        fetch_add(control, BELL, 1)
        wake_all(address_of(control, BELL))


@compiled(types.void(state_type, types.int64), inline=False)
def stop(state: State, reason: Integer) -> None:
    """End the run for a reason, unless it has ended."""
    if replace(state.control, STOP, RUNNING, reason):
        ring_bell(state)


@compiled(types.void(state_type, types.int64))
def doze(state: State, bell: Integer) -> None:
    """Sleep until the bell rings again, for at most a while during a run."""
    control = state.control
    running = control[STOP] == RUNNING and load_acquire(control, OPEN) > 0
    limit = address_of(control, NAP) if running else 0
    sleep_on(address_of(control, BELL), bell, limit)


@compiled(types.void(state_type, types.int64, types.int64, types.int64), inline=False)
def fail(state: State, actor: Integer, call: Integer, code: Integer) -> None:
    """End the run because a call failed, unless it has ended."""
    control = state.control
    if replace(control, STOP, RUNNING, FAILED):
        control[FAILED_ACTOR] = actor
        control[FAILED_CALL] = call
        control[FAILED_CODE] = code
        ring_bell(state)


# Seats -------------------------------------------------------------------------------


@compiled(types.boolean(state_type, types.int64))
def enter(state: State, seat: Integer) -> bool:
    """Take a seat, and with it the worker's actors, unless another thread has it."""
    taken = load_acquire(state.seats, seat + TAKEN)
    return taken == 0 and replace(state.seats, seat + TAKEN, 0, 1)


@compiled(types.boolean(state_type), inline=False)
def seize(state: State) -> bool:
    """Take all seats, so that nobody acts; False if one is taken."""
    for seat in range(0, state.seats.size, SEAT_WORDS):
        if not enter(state, seat):
            for entered in range(0, seat, SEAT_WORDS):
                store_release(state.seats, entered + TAKEN, 0)
            return False
    return True


@compiled(types.void(state_type), inline=False)
def release(state: State) -> None:
    """Leave all seats."""
    for seat in range(0, state.seats.size, SEAT_WORDS):
        store_release(state.seats, seat + TAKEN, 0)
