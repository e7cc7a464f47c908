"""
Kernels that several threads do at once.

A kernel that can be done in parts is put on the board of its worker, where all threads
claim parts until none is left. Who put it there works too, and waits only for parts
that others have claimed, never for a thread that has not woken up.
"""

from __future__ import annotations

from numba import types

from penstock.runtime.atomics import (
    Integer,
    call_kernel,
    compiled,
    fetch_add,
    fetch_min,
    load_acquire,
    replace,
    store_release,
)
from penstock.runtime.state import (
    PATIENCE,
    SPIN,
    call_threads,
    doze,
    ring_bell,
    state_type,
)
from penstock.runtime.system import give_way, now, pause
from penstock.runtime.words import (
    BELL,
    CLAIMS,
    DONE,
    FAILURE,
    HALF,
    KERNEL,
    NO_FAILURE,
    PARTS,
    ROW,
    RUNNING,
    SLEEPERS,
    STOP,
    State,
)


@compiled(types.int64(state_type, types.int64))
def claim(state: State, seat: Integer) -> int:
    """How many parts of the kernel on a board are left with one that is now ours."""
    seats = state.seats
    while True:
        claims = load_acquire(seats, seat + CLAIMS)
        left = claims & HALF
        if left == 0 or replace(seats, seat + CLAIMS, claims, claims - 1):
            return left


@compiled(types.int64(state_type, types.int64), inline=False)
def do_parts(state: State, seat: Integer) -> int:
    """
    Do parts of the kernel on a board until all are claimed; how many.

    The code of the first part that fails counts: the ones after it need not be done.
    """
    seats, count = state.seats, 0
    left = claim(state, seat)
    while left > 0:
        parts = seats[seat + PARTS]
        part = parts - left
        failed = load_acquire(seats, seat + FAILURE) >> 32
        if part < failed and load_acquire(state.control, STOP) == RUNNING:
            code = call_kernel(seats[seat + KERNEL], seats[seat + ROW], part, parts)
            if code != 0:
                fetch_min(seats, seat + FAILURE, part << 32 | (code & HALF))
        count += 1
        left = claim(state, seat)
    return count


@compiled(types.boolean(state_type, types.int64), inline=False)
def help_with(state: State, seat: Integer) -> bool:
    """Do parts that another thread has put on a board; False if there are none."""
    count = do_parts(state, seat)
    if count == 0:
        return False
    fetch_add(state.seats, seat + DONE, count)
    ring_bell(state)
    return True


@compiled(types.void(state_type, types.int64, types.int64), inline=False)
def await_parts(state: State, seat: Integer, count: Integer) -> None:
    """Wait until other threads have done this many parts of the kernel on a board."""
    seats, control = state.seats, state.control
    start = now()
    while load_acquire(seats, seat + DONE) < count:
        waited = now() - start
        if waited < SPIN:
            pause()
            continue
        if waited < PATIENCE:
            give_way()
            continue
        bell = load_acquire(control, BELL)
        fetch_add(control, SLEEPERS, 1)
        if load_acquire(seats, seat + DONE) < count:
            doze(state, bell, True)
        fetch_add(control, SLEEPERS, -1)


@compiled(
    types.int64(state_type, types.int64, types.int64, types.int64, types.int64),
    inline=False,
)
def share_out(
    state: State, seat: Integer, kernel: Integer, row: Integer, parts: Integer
) -> int:
    """The code of a kernel that this thread does with all that have time for it."""
    seats = state.seats
    seats[seat + KERNEL] = kernel
    seats[seat + ROW] = row
    seats[seat + PARTS] = parts
    seats[seat + DONE] = 0
    seats[seat + FAILURE] = NO_FAILURE
    # Numbered, as a thread may be between its look at the claims and its own.
    turn = ((seats[seat + CLAIMS] >> 32) + 1) & (HALF >> 1)
    store_release(seats, seat + CLAIMS, turn << 32 | parts)
    call_threads(state)
    await_parts(state, seat, parts - do_parts(state, seat))
    failure = seats[seat + FAILURE]
    return 0 if failure == NO_FAILURE else ((failure & HALF) << 32) >> 32
