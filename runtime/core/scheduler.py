"""
The static scheduler, and the threads of a run, compiled to run without Python.

A *worker* is a set of actors that act one at a time, and a ring of those that can. No
thread owns it: a thread that finds nothing to do locks any worker that is free, so a
run never waits for a thread that has not woken up. Only a worker that calls Python
keeps to one thread.

The static scheduler lets an actor act when all of its conditions hold, each of which
compares two counters. Workers share counters with one writer each, so the locks of
workers are the only ones.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.atomics import (
    Integer,
    call_kernel,
    compiled,
    fetch_add,
    load_acquire,
    load_word,
    peek,
    poke,
    store_release,
    store_word,
)
from penstock.runtime.core.kernel_calls import calling, noting
from penstock.runtime.core.messages_compiled import move_messages
from penstock.runtime.core.os_calls import give_way, now, pause
from penstock.runtime.core.scheduler_loop import (
    HAS_ENDED,
    HAS_FAILED,
    HAS_STEPPED,
    Loop,
    looping,
    queueing,
)
from penstock.runtime.core.state import (
    PATIENCE,
    SPIN,
    STATE_OFFSET,
    has_come,
    layout_at,
    lock_all,
    signal_event,
    sleep_until_event,
    state_at,
    stop,
    try_lock,
    unlock_all,
    wake_threads,
)
from penstock.runtime.core.state_layout import State
from penstock.runtime.core.work_sharing import help_with
from penstock.runtime.program.tables import Layout

STEAL_AFTER = 16
"""Fruitless looks at its own worker before a thread takes another one."""
NOBODY = -1
"""The worker that a scheduler is called for to ask whether any actor can go on."""


class StaticMachine(NamedTuple):
    """The arrays that the static scheduler works on."""

    layout: Layout
    state: State


# Acts --------------------------------------------------------------------------------


@compiled()
def can_act(layout: Layout, state: State, actor: Integer) -> bool:
    """
    Whether all conditions of an actor hold.

    A condition that holds does so until the actor acts, so it is looked at only once.
    """
    counters = state.counters
    place = peek(layout.place, actor)
    condition = peek(state.actors, place + w.CONDITION)
    last = peek(layout.condition_start, actor + 1)
    while condition < last:
        watched = load_acquire(counters, peek(layout.watched, condition))
        own = peek(counters, peek(layout.own, condition))
        if watched + peek(layout.credits, condition) - own <= 0:
            break
        condition += 1
    poke(state.actors, place + w.CONDITION, condition)
    return condition == last


@compiled()
def is_next(machine: StaticMachine, actor: Integer) -> bool:
    """Whether an actor has an act left in the run, and can act."""
    layout, state = machine.layout, machine.state
    acts = peek(state.actors, peek(layout.place, actor) + w.ACTS)
    return bool(acts < state.control[w.TARGET]) and can_act(layout, state, actor)


@compiled()
def finish_act(layout: Layout, state: State, actor: Integer) -> None:
    """Move an actor on to its next slots, and publish that it has acted."""
    rows, counters = state.rows, state.counters
    last = peek(layout.rotation_start, actor + 1)
    for i in range(peek(layout.rotation_start, actor), last):
        word = peek(layout.rotating, i)
        address = peek(rows, word) + peek(layout.stride, i)
        if address == peek(layout.limit, i):
            address = peek(layout.first, i)
        poke(rows, word, address)
    place = peek(layout.place, actor)
    poke(state.actors, place + w.ACTS, peek(state.actors, place + w.ACTS) + 1)
    poke(state.actors, place + w.CONDITION, peek(layout.condition_start, actor))
    last = peek(layout.owned_start, actor + 1)
    for i in range(peek(layout.owned_start, actor), last):
        counter = peek(layout.owned, i)
        store_release(counters, counter, peek(counters, counter) + 1)
    if peek(layout.crosses, actor) != 0:
        signal_event(state)


# Runs --------------------------------------------------------------------------------


@compiled(inline=False)
def is_stuck(layout: Layout, state: State) -> bool:
    """Whether the run is in a deadlock: no actor acts, and none can."""
    control = state.control
    if control[w.REMOTE] != 0 or not lock_all(state):
        return False
    if control[w.MODE] != w.STATIC:
        asked = call_kernel(control[w.LOOP], control[w.TABLES], NOBODY, 0)
        unlock_all(state)
        return asked == 0 and control[w.OPEN] > 0
    stuck = control[w.OPEN] > 0
    for actor in range(layout.place.size):
        if is_next(StaticMachine(layout, state), actor):
            stuck = False
            break
    unlock_all(state)
    return stuck


@compiled()
def every_call(
    machine: StaticMachine, actor: Integer, call: Integer, read: Integer
) -> bool:
    """Whether a call of an actor is made: each is."""
    return True


@compiled()
def any_room(machine: StaticMachine, worker: Integer, actor: Integer) -> bool:
    """Whether a log has room: that of a run has as many rows as the run needs."""
    return True


def acting(is_recorded: bool) -> Loop[StaticMachine]:
    """The static scheduler, which leaves rows in the log of the worker if recorded."""
    make_calls = calling(StaticMachine, is_recorded, every_call)

    @compiled()
    def call_all(
        machine: StaticMachine, base: Integer, actor: Integer, log: Integer
    ) -> int:
        """Make the calls of an actor; 0, or the code of the first that fails."""
        return make_calls(machine, base, actor, -1, log)

    make_act = noting(StaticMachine, is_recorded, call_all)

    @compiled()
    def step(
        machine: StaticMachine, worker: Integer, base: Integer, actor: Integer
    ) -> int:
        """Let an actor act that can."""
        layout, state = machine.layout, machine.state
        if make_act(machine, worker, base, actor) != 0:
            return HAS_FAILED
        finish_act(layout, state, actor)
        acts = peek(state.actors, peek(layout.place, actor) + w.ACTS)
        return HAS_ENDED if acts == state.control[w.TARGET] else HAS_STEPPED

    enqueue = queueing(StaticMachine, is_next, inline=True)
    return looping(StaticMachine, enqueue, any_room, step)


act = acting(False)
"""The static scheduler without a log; its loop has no test for one."""


@compiled(inline=False)
def tend(worker: Integer, layout: Layout, state: State, deadline: Integer) -> bool:
    """
    Let the actors of a worker act as long as they can, or until past the deadline if
    that is not 0. False if another thread has locked it or none of them can act.
    """
    base, workers, control = worker * w.WORKER_WORDS, state.workers, state.control
    if load_acquire(workers, base + w.LEFT) == 0:
        return False
    while not try_lock(state, base):
        if layout.free[worker]:
            return False
        pause()
    # The lock makes all writes before the run visible.
    loop = control[w.LOOP]
    if loop != 0:
        return call_kernel(loop, control[w.TABLES], worker, deadline) != 0
    return act(StaticMachine(layout, state), worker, deadline)


# Threads -----------------------------------------------------------------------------


@compiled(inline=False)
def find_work(
    thread: Integer, layout: Layout, state: State, looks: Integer, deadline: Integer
) -> bool:
    """
    Run a worker or do parts of a shared kernel; False if there is nothing to do. A
    thread with a worker that no other thread may run does nothing else.
    """
    workers = layout.free.size
    if thread < workers and tend(thread, layout, state, deadline):
        return True
    if thread < workers and not layout.free[thread]:
        return False
    if looks >= STEAL_AFTER:
        for worker in range(workers):
            if layout.free[worker] and tend(worker, layout, state, deadline):
                return True
    helped = False
    for worker in range(workers):
        helped |= help_with(state, worker * w.WORKER_WORDS)
    return helped


@compiled(inline=False)
def serve(thread: Integer, layout: Layout, state: State, deadline: Integer) -> None:
    """
    Take part in runs. The caller's thread does until the run ends, it has slept or the
    deadline has passed; other threads, whose deadline is 0, until the core is closed.
    """
    control, is_caller = state.control, deadline != 0
    looks = seen_round = event = since = 0
    is_listed = was_open = False
    while True:
        reason = load_acquire(control, w.STOP)
        is_open = reason == w.RUNNING and load_acquire(control, w.OPEN) > 0
        if reason == w.CLOSED or (is_caller and (not is_open or has_come(state))):
            break
        if seen_round != control[w.ROUND] or was_open != is_open:
            seen_round, was_open, looks = int(control[w.ROUND]), is_open, 0
        if (
            is_open
            and thread != w.OBSERVER
            and find_work(thread, layout, state, looks, deadline)
        ):
            # All that can act has: now it is known which messages begin.
            if control[w.MESSAGES] != 0:
                move_messages(state)
            looks = 0
            if is_listed:
                fetch_add(control, w.SLEEPERS, -1)
                is_listed = False
            if is_caller and now() > deadline:
                break
            continue
        if is_open and control[w.MESSAGES] != 0 and move_messages(state):
            looks = 0
            continue
        looks += 1
        if looks == 1:
            since = now()
        elif is_listed:
            if is_open and is_stuck(layout, state):
                stop(state, w.DEADLOCKED)
            elif not (
                # A thread that looked for a deadlock may have had all locks.
                is_open
                and thread != w.OBSERVER
                and find_work(thread, layout, state, STEAL_AFTER, deadline)
            ):
                sleep_until_event(state, event, is_caller)
            fetch_add(control, w.SLEEPERS, -1)
            is_listed, looks = False, 0
            if is_caller:
                break
        else:
            waited = now() - since if looks > STEAL_AFTER else 0
            if waited <= SPIN:
                pause()
            elif is_open and waited <= PATIENCE:
                give_way()
            else:
                # From here on every change signals the event: look once more.
                event = load_acquire(control, w.EVENT)
                fetch_add(control, w.SLEEPERS, 1)
                is_listed = True
    if is_listed:
        fetch_add(control, w.SLEEPERS, -1)


@compiled(inline=False)
def bind_io(table: Integer, is_single: bool) -> None:
    """Bind registers to the caller's arrays in a run of one act, or to their places."""
    row = int(table) + 8
    for _ in range(load_word(table)):
        address = load_word(row + 8 * w.HOME)
        pointer = load_word(load_word(row + 8 * w.POINTER_AT))
        if is_single and pointer & load_word(row + 8 * w.MISALIGNED) == 0:
            address = pointer + load_word(row + 8 * w.SHIFT)
        store_word(load_word(row + 8 * w.WORD_AT), address)
        row += 8 * w.BINDING_ROW


@compiled(inline=False)
def begin(tables: Integer, acts: Integer, wake: bool) -> None:
    """Start a run of so many acts, while no other one is under way."""
    layout, state = layout_at(tables), state_at(tables + STATE_OFFSET)
    workers, control = state.workers, state.control
    while not lock_all(state):
        pause()
    control[w.TARGET] += acts
    control[w.ROUND] += 1
    if control[w.BINDINGS] != 0:
        bind_io(control[w.BINDINGS], acts == 1)
    count = 0
    for worker in range(layout.free.size):
        base = worker * w.WORKER_WORDS
        left = layout.member_start[worker + 1] - layout.member_start[worker]
        workers[base + w.HEAD] = workers[base + w.TAIL] = 0
        workers[base + w.LEFT] = left
        workers[base + w.FRESH] = 1
        count += left > 0
    store_release(control, w.OPEN, count)
    unlock_all(state)
    if wake:
        wake_threads(state)


@compiled(inline=False)
def take_part(tables: Integer, thread: Integer, limit: Integer) -> int:
    """
    Let the caller's thread take part in a run until it ends or sleeps, or for about a
    number of nanoseconds. Returns ENDED_WELL, UNFINISHED or STOPPED.
    """
    state = state_at(tables + STATE_OFFSET)
    serve(thread, layout_at(tables), state, now() + limit)
    if state.control[w.STOP] != w.RUNNING:
        return w.STOPPED
    return w.UNFINISHED if load_acquire(state.control, w.OPEN) > 0 else w.ENDED_WELL


@compiled(inline=False)
def start(tables: Integer, acts: Integer, limit: Integer) -> int:
    """Start a run of so many acts, and let the caller's thread take part in it."""
    control = state_at(tables + STATE_OFFSET).control
    begin(tables, acts, control[w.WAKE] != 0)
    return take_part(tables, control[w.THREAD_OF_CALLER], limit)


@compiled(inline=False)
def attend(tables: Integer, thread: Integer) -> None:
    """Let a thread take part in all runs until the core is closed."""
    serve(thread, layout_at(tables), state_at(tables + STATE_OFFSET), 0)


@compiled(inline=False)
def halt(tables: Integer, reason: Integer) -> None:
    """End a run for a reason, whether or not it has ended, and wake all threads."""
    state = state_at(tables + STATE_OFFSET)
    store_release(state.control, w.STOP, reason)
    signal_event(state)


@compiled(inline=False)
def move_on(tables: Integer, counter: Integer, value: Integer) -> None:
    """Set a counter of the caller, and wake the threads that wait for it."""
    state = state_at(tables + STATE_OFFSET)
    if counter >= 0:
        store_release(state.counters, counter, value)
    signal_event(state)


@compiled(inline=False)
def lock_all_workers(tables: Integer) -> bool:
    """Keep all threads from acting until `unlock_all_workers`; False if one acts."""
    return lock_all(state_at(tables + STATE_OFFSET))


@compiled(inline=False)
def unlock_all_workers(tables: Integer) -> None:
    """Let threads act again."""
    unlock_all(state_at(tables + STATE_OFFSET))
