"""
Synchronization of the threads of a run: worker locks, sleep and wake-up, the end of it.

A thread that holds the lock of a worker lets its actors act. Idle threads poll for a
while and then sleep on one futex. `penstock.runtime.core.state_layout` describes the
words.
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
"""The time for which an idle thread polls before it sleeps, outside of runs."""
PATIENCE = 2000 * MICROSECOND
"""
The time for which it polls during a run, giving way to others: longer than most tasks
of one thread. To wake a core that sleeps takes up to a third of a millisecond on
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
def signal_event(state: State) -> None:
    """Wake the threads that sleep, after something was written that they wait for."""
    control = state.control
    fence()
    if control[w.SLEEPERS] > 0:
        fetch_add(control, w.EVENT, 1)
        wake_all(address_of(control, w.EVENT))


@compiled(inline=False)
def keep_off_core(state: State) -> None:
    """Keep all other threads off the core of this one, if it is the caller's."""
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
def wake_threads(state: State) -> None:
    """
    Wake the threads that sleep because there is work for them.

    Linux prefers to run them on the core of the thread that wakes them, where they wait
    until that one has nothing more to do. So they are kept off the caller's core; also
    if none sleeps, as the system may have moved the caller to the core of a polling
    thread, which may go nowhere else.
    """
    control = state.control
    fence()
    keep_off_core(state)
    if control[w.SLEEPERS] > 0:
        fetch_add(control, w.EVENT, 1)
        wake_all(address_of(control, w.EVENT))


@compiled(inline=False)
def stop(state: State, reason: Integer) -> None:
    """End the run for a reason, unless it has ended."""
    if replace(state.control, w.STOP, w.RUNNING, reason):
        signal_event(state)


@compiled()
def sleep_until_event(state: State, event: Integer, is_caller: bool) -> None:
    """
    Sleep until the event is signalled again, for at most `SLEEP_LIMIT` during a run. In
    a stream, which may be idle for long, only the caller looks again.
    """
    control = state.control
    running = control[w.STOP] == w.RUNNING and load_acquire(control, w.OPEN) > 0
    running = running and (is_caller or control[w.MODE] != w.STREAM)
    limit = address_of(control, w.SLEEP_LIMIT) if running else 0
    sleep_on(address_of(control, w.EVENT), event, limit)


@compiled(inline=False)
def has_come(state: State) -> bool:
    """Whether the counter that the caller's thread works for has its value."""
    counter = state.control[w.UNTIL]
    if counter == 0:
        return False
    return load_acquire(state.counters, counter - 1) >= state.control[w.UNTIL_VALUE]


@compiled(inline=False)
def fail(state: State, actor: Integer, call: Integer, code: Integer) -> None:
    """End the run because a call failed, unless it has ended."""
    control = state.control
    if replace(control, w.STOP, w.RUNNING, w.FAILING):
        control[w.FAILED_ACTOR] = actor
        control[w.FAILED_CALL] = call
        control[w.FAILED_CODE] = code
        # Others may have ended the run for another reason meanwhile.
        replace(control, w.STOP, w.FAILING, w.FAILED)
        signal_event(state)


# Worker locks ------------------------------------------------------------------------


@compiled()
def try_lock(state: State, base: Integer) -> bool:
    """Lock a worker, whose actors may then act, unless another thread has locked it."""
    taken = load_acquire(state.workers, base + w.LOCKED)
    return taken == 0 and replace(state.workers, base + w.LOCKED, 0, 1)


@compiled(inline=False)
def lock_all(state: State) -> bool:
    """Lock all workers, so that no actor acts; False if one is locked already."""
    for base in range(0, state.workers.size, w.WORKER_WORDS):
        if not try_lock(state, base):
            for locked in range(0, base, w.WORKER_WORDS):
                store_release(state.workers, locked + w.LOCKED, 0)
            return False
    return True


@compiled(inline=False)
def unlock_all(state: State) -> None:
    """Unlock all workers."""
    for base in range(0, state.workers.size, w.WORKER_WORDS):
        store_release(state.workers, base + w.LOCKED, 0)
