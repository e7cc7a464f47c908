"""
Kernels that several threads do at once.

A kernel that can be done in parts is put on the board of its worker, where all threads
claim parts until none is left. Who put it there works too, and waits only for parts
that others have claimed, never for a thread that has not woken up.

It claims the first part that is left and others claim the last one: so a thread is more
likely to find in the caches of its core what it wrote there in the kernel before.
"""

from __future__ import annotations

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.atomics import (
    Integer,
    call_kernel,
    compiled,
    fetch_add,
    fetch_min,
    load_acquire,
    replace,
    store_release,
)
from penstock.runtime.core.os_calls import give_way, now, pause
from penstock.runtime.core.state import (
    PATIENCE,
    SPIN,
    call_threads,
    doze,
    ring_bell,
)
from penstock.runtime.core.state_layout import State


@compiled()
def claim(state: State, seat: Integer, is_own: bool) -> int:
    """The part of the kernel on a board that is now ours; NO_PART if none is left."""
    seats = state.seats
    while True:
        claims = load_acquire(seats, seat + w.CLAIMS)
        first, end = claims >> w.CLAIM_BITS & w.CLAIM, claims & w.CLAIM
        if first == end:
            return w.NO_PART
        left = claims + (1 << w.CLAIM_BITS) if is_own else claims - 1
        if replace(seats, seat + w.CLAIMS, claims, left):
            return first if is_own else end - 1


@compiled(inline=False)
def do_parts(state: State, seat: Integer, is_own: bool) -> int:
    """
    Do parts of the kernel on a board until all are claimed; how many.

    The code of the first part that fails counts: the ones after it need not be done.
    """
    seats, control, count = state.seats, state.control, 0
    part = claim(state, seat, is_own)
    while part != w.NO_PART:
        failed = load_acquire(seats, seat + w.FAILURE) >> 32
        is_wanted = control[w.WHOLE_ACTS] or load_acquire(control, w.STOP) == w.RUNNING
        if part < failed and is_wanted:
            kernel, row = seats[seat + w.KERNEL], seats[seat + w.ROW]
            code = call_kernel(kernel, row, part, seats[seat + w.PARTS])
            if code != 0:
                fetch_min(seats, seat + w.FAILURE, part << 32 | (code & w.HALF))
        count += 1
        part = claim(state, seat, is_own)
    return count


@compiled(inline=False)
def help_with(state: State, seat: Integer) -> bool:
    """Do parts that another thread has put on a board; False if there are none."""
    count = do_parts(state, seat, False)
    if count == 0:
        return False
    fetch_add(state.seats, seat + w.DONE, count)
    ring_bell(state)
    return True


@compiled(inline=False)
def await_parts(state: State, seat: Integer, count: Integer) -> None:
    """Wait until other threads have done this many parts of the kernel on a board."""
    seats, control = state.seats, state.control
    start = now()
    while load_acquire(seats, seat + w.DONE) < count:
        waited = now() - start
        if waited < SPIN:
            pause()
            continue
        if waited < PATIENCE:
            give_way()
            continue
        bell = load_acquire(control, w.BELL)
        fetch_add(control, w.SLEEPERS, 1)
        if load_acquire(seats, seat + w.DONE) < count:
            doze(state, bell, True)
        fetch_add(control, w.SLEEPERS, -1)


@compiled(inline=False)
def share_out(
    state: State, seat: Integer, kernel: Integer, row: Integer, parts: Integer
) -> int:
    """The code of a kernel that this thread does with all that have time for it."""
    seats = state.seats
    seats[seat + w.KERNEL] = kernel
    seats[seat + w.ROW] = row
    seats[seat + w.PARTS] = parts
    seats[seat + w.DONE] = 0
    seats[seat + w.FAILURE] = w.NO_FAILURE
    # Numbered, as a thread may be between its look at the claims and its own.
    turn = ((seats[seat + w.CLAIMS] >> 32) + 1) & (w.HALF >> 1)
    store_release(seats, seat + w.CLAIMS, turn << 32 | parts)
    call_threads(state)
    await_parts(state, seat, parts - do_parts(state, seat, True))
    failure = seats[seat + w.FAILURE]
    return 0 if failure == w.NO_FAILURE else ((failure & w.HALF) << 32) >> 32
