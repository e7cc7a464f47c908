"""
What the threads of a run share: words for all of them, a seat and a board per worker.

A thread takes the seat of a worker to let its actors act. On its board it puts a kernel
that other threads may do parts of.
"""

# Most of numba carries no types.
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from typing import Protocol, TypeVar

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.atomics import (
    Integer,
    address_of,
    arrays_at,
    compiled,
    fence,
    fetch_add,
    load_acquire,
    replace,
    store_release,
)
from penstock.runtime.core.os_calls import (
    MICROSECOND,
    allow_cores,
    core_number,
    sleep_on,
    thread_number,
    wake_all,
)
from penstock.runtime.core.state_layout import State
from penstock.runtime.program.tables import Layout

SPIN = 50 * MICROSECOND
"""How long a thread without work looks for some before it sleeps, outside of runs."""
PATIENCE = 2000 * MICROSECOND
"""
How long it does so during a run, giving way to others: longer than most tasks which one
thread does alone. To wake a core that sleeps takes up to a third of a millisecond on
virtual machines.
"""

layout_at = arrays_at(Layout)
state_at = arrays_at(State)
STATE_OFFSET = 16 * len(Layout._fields)
"""Bytes from the table of the layout's arrays to that of the state's."""


class Machine(Protocol):
    """The arrays that a scheduler works on."""

    @property
    def layout(self) -> Layout:
        """The flat tables of the program."""
        ...

    @property
    def state(self) -> State:
        """The words that threads write."""
        ...


AnyMachine = TypeVar("AnyMachine", bound=Machine)
"""The tuple of arrays that a scheduler is compiled for."""


# Sleep and wake-up -------------------------------------------------------------------


@compiled()
def ring_bell(state: State) -> None:
    """Wake the threads that sleep, after something was written that they wait for."""
    control = state.control
    fence()
    if control[w.SLEEPERS] > 0:
        fetch_add(control, w.BELL, 1)
        wake_all(address_of(control, w.BELL))


@compiled(inline=False)
def keep_off(state: State) -> None:
    """If this is the caller's thread, keep all others off the core it is on."""
    control = state.control
    core = core_number()
    if control[w.CORES] == 0 or core == control[w.LEFT_OUT]:
        return
    own = thread_number()
    for thread in state.threads:
        if thread == own:
            return
    control[w.LEFT_OUT] = core
    control[w.OTHERS] = control[w.CORES] & ~(1 << core)
    for thread in state.threads:
        if thread != 0:
            allow_cores(thread, address_of(control, w.OTHERS))


@compiled(inline=False)
def call_threads(state: State) -> None:
    """
    Wake the threads that sleep because there is work for them.

    The system would like to run them on the core that wakes them, where they wait until
    its thread has nothing more to do, so they are kept off the core of the caller: also
    if none sleeps, as the caller may have been moved to the core of one that looks for
    work, which may go nowhere else.
    """
    control = state.control
    fence()
    keep_off(state)
    if control[w.SLEEPERS] > 0:
        fetch_add(control, w.BELL, 1)
        wake_all(address_of(control, w.BELL))


@compiled(inline=False)
def stop(state: State, reason: Integer) -> None:
    """End the run for a reason, unless it has ended."""
    if replace(state.control, w.STOP, w.RUNNING, reason):
        ring_bell(state)


@compiled()
def doze(state: State, bell: Integer, is_caller: bool) -> None:
    """
    Sleep until the bell rings again, for at most a while during a run. In a stream,
    which may have nothing to do for long, only the caller looks again.
    """
    control = state.control
    running = control[w.STOP] == w.RUNNING and load_acquire(control, w.OPEN) > 0
    running = running and (is_caller or control[w.MODE] != w.STREAM)
    limit = address_of(control, w.NAP) if running else 0
    sleep_on(address_of(control, w.BELL), bell, limit)


@compiled(inline=False)
def has_come(state: State) -> bool:
    """Whether there is what the caller's thread works for."""
    counter = state.control[w.UNTIL]
    if counter == 0:
        return False
    return load_acquire(state.counters, counter - 1) >= state.control[w.UNTIL_VALUE]


@compiled(inline=False)
def fail(state: State, actor: Integer, call: Integer, code: Integer) -> None:
    """End the run because a call failed, unless it has ended."""
    control = state.control
    if replace(control, w.STOP, w.RUNNING, w.FAILED):
        control[w.FAILED_ACTOR] = actor
        control[w.FAILED_CALL] = call
        control[w.FAILED_CODE] = code
        ring_bell(state)


# Seats -------------------------------------------------------------------------------


@compiled()
def enter(state: State, seat: Integer) -> bool:
    """Take a seat, and with it the worker's actors, unless another thread has it."""
    taken = load_acquire(state.seats, seat + w.TAKEN)
    return taken == 0 and replace(state.seats, seat + w.TAKEN, 0, 1)


@compiled(inline=False)
def seize(state: State) -> bool:
    """Take all seats, so that nobody acts; False if one is taken."""
    for seat in range(0, state.seats.size, w.SEAT_WORDS):
        if not enter(state, seat):
            for entered in range(0, seat, w.SEAT_WORDS):
                store_release(state.seats, entered + w.TAKEN, 0)
            return False
    return True


@compiled(inline=False)
def release(state: State) -> None:
    """Leave all seats."""
    for seat in range(0, state.seats.size, w.SEAT_WORDS):
        store_release(state.seats, seat + w.TAKEN, 0)
