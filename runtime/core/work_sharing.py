"""
Work sharing: several threads compute the parts of one kernel.

The thread of a worker writes a descriptor of the kernel to the worker's words, from
which all threads claim parts until none is left. It computes parts too, and waits only
for those that others have claimed, never for a thread that has not woken up.

It claims the first part that is left and others claim the last one. So a thread is more
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
    signal_event,
    sleep_until_event,
    wake_threads,
)
from penstock.runtime.core.state_layout import State


@compiled()
def claim(state: State, base: Integer, is_own: bool) -> int:
    """Claim a part of the kernel that a worker shares; NO_PART if none is left."""
    workers = state.workers
    while True:
        claims = load_acquire(workers, base + w.CLAIMS)
        first, end = claims >> w.CLAIM_BITS & w.CLAIM, claims & w.CLAIM
        if first == end:
            return w.NO_PART
        left = claims + (1 << w.CLAIM_BITS) if is_own else claims - 1
        if replace(workers, base + w.CLAIMS, claims, left):
            return first if is_own else end - 1


@compiled(inline=False)
def do_parts(state: State, base: Integer, is_own: bool) -> int:
    """
    Compute parts of the kernel that a worker shares until all are claimed. Returns how
    many. The code of the first part that fails counts: later ones need not be computed.
    """
    workers, control, count = state.workers, state.control, 0
    part = claim(state, base, is_own)
    while part != w.NO_PART:
        failed = load_acquire(workers, base + w.FAILURE) >> 32
        is_wanted = control[w.WHOLE_ACTS] or load_acquire(control, w.STOP) == w.RUNNING
        if part < failed and is_wanted:
            kernel, row = workers[base + w.KERNEL], workers[base + w.ROW]
            code = call_kernel(kernel, row, part, workers[base + w.PARTS])
            if code != 0:
                fetch_min(workers, base + w.FAILURE, part << 32 | (code & w.HALF))
        count += 1
        part = claim(state, base, is_own)
    return count


@compiled(inline=False)
def help_with(state: State, base: Integer) -> bool:
    """Compute parts of the kernel that a worker shares; False if none is left."""
    count = do_parts(state, base, False)
    if count == 0:
        return False
    fetch_add(state.workers, base + w.DONE, count)
    signal_event(state)
    return True


@compiled(inline=False)
def await_parts(state: State, base: Integer, count: Integer) -> None:
    """Wait until other threads have computed so many parts of the shared kernel."""
    workers, control = state.workers, state.control
    start = now()
    while load_acquire(workers, base + w.DONE) < count:
        waited = now() - start
        if waited < SPIN:
            pause()
            continue
        if waited < PATIENCE:
            give_way()
            continue
        event = load_acquire(control, w.EVENT)
        fetch_add(control, w.SLEEPERS, 1)
        if load_acquire(workers, base + w.DONE) < count:
            sleep_until_event(state, event, True)
        fetch_add(control, w.SLEEPERS, -1)


@compiled(inline=False)
def share_out(
    state: State, base: Integer, kernel: Integer, row: Integer, parts: Integer
) -> int:
    """Compute a kernel together with all threads that are idle. Returns its code."""
    workers = state.workers
    workers[base + w.KERNEL] = kernel
    workers[base + w.ROW] = row
    workers[base + w.PARTS] = parts
    workers[base + w.DONE] = 0
    workers[base + w.FAILURE] = w.NO_FAILURE
    # The number of the kernel tells a thread whose look at the claims is outdated.
    number = ((workers[base + w.CLAIMS] >> 32) + 1) & (w.HALF >> 1)
    store_release(workers, base + w.CLAIMS, number << 32 | parts)
    wake_threads(state)
    await_parts(state, base, parts - do_parts(state, base, True))
    failure = workers[base + w.FAILURE]
    return 0 if failure == w.NO_FAILURE else ((failure & w.HALF) << 32) >> 32
