"""
The compiled executor: worker threads that run actors without Python or the GIL.

A worker keeps a ring of its actors that can act. After each act it looks at the actors
which that act can have made ready; those that wait for other workers it polls. All that
is shared are counters with one writer each, so there is no lock.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
from numba import types

from penstock.runtime.atomics import (
    Integer,
    address_of,
    call_kernel,
    compiled,
    fetch_add,
    load_acquire,
    replace,
    sched_yield,
    store_release,
    usleep,
    words,
)
from penstock.runtime.edges import CALLBACK_FAILED
from penstock.runtime.errors import DeadlockError, PenstockError, TaskError
from penstock.runtime.tables import CACHE_LINE, Layout, Tables, Words

POLL_PERIOD = 64
"""Acts after which a busy worker looks at what other workers have done."""
SPINS = 200
YIELDS = 2000
"""Fruitless polls before a worker yields its core, and before it sleeps."""
SLEEP_MICROSECONDS = 50

# Words of `State.control`, on cache lines of their own as all workers read the first.
STOP = 0
RESTING = 1 * CACHE_LINE
REVIVALS = 2 * CACHE_LINE
TARGET = 3 * CACHE_LINE
FAILED_ACTOR = 4 * CACHE_LINE
FAILED_CALL = FAILED_ACTOR + 1
FAILED_CODE = FAILED_ACTOR + 2
CONTROL_WORDS = 5 * CACHE_LINE

# Values of `control[STOP]`.
RUNNING, INTERRUPTED, FAILED, DEADLOCKED = 0, 1, 2, 3


class State(NamedTuple):
    """
    What workers write: counters, and for each actor the acts done, whether it is in the
    ring and the next condition to look at; argument rows; and words for all workers.
    """

    counters: Words
    acts: Words
    queued: Words
    condition: Words
    rows: Words
    control: Words


layout_type = types.NamedUniTuple(words, len(Layout._fields), Layout)
state_type = types.NamedUniTuple(words, len(State._fields), State)


@compiled(types.boolean(layout_type, state_type, types.int64))
def can_act(layout: Layout, state: State, actor: Integer) -> bool:
    """
    Whether all conditions of an actor hold.

    A condition that holds does so until the actor acts, so it is looked at only once.
    """
    counters = state.counters
    condition = int(state.condition[actor])
    last = layout.condition_start[actor + 1]
    while condition < last:
        watched = load_acquire(counters, layout.watched[condition])
        own = counters[layout.own[condition]]
        if watched + layout.credits[condition] - own <= 0:
            break
        condition += 1
    state.condition[actor] = condition
    return condition == last


@compiled(types.int64(layout_type, state_type, words, types.int64, types.int64))
def enqueue(
    layout: Layout, state: State, ring: Words, tail: Integer, actor: Integer
) -> Integer:
    """Add an actor to the ring if it is not there and can act; the ring's new tail."""
    if state.queued[actor] or state.acts[actor] >= state.control[TARGET]:
        return tail
    if not can_act(layout, state, actor):
        return tail
    state.queued[actor] = 1
    ring[tail & (ring.size - 1)] = actor
    return tail + 1


@compiled(types.boolean(layout_type, state_type, types.int64))
def call_kernels(layout: Layout, state: State, actor: Integer) -> bool:
    """Make the calls of an actor; False, and the error is noted, if one fails."""
    control = state.control
    for call in range(layout.call_start[actor], layout.call_start[actor + 1]):
        row = address_of(state.rows, layout.row[call])
        code = call_kernel(layout.kernel[call], row, 0, 1)
        if code != 0:
            if replace(control, STOP, RUNNING, FAILED):
                control[FAILED_ACTOR] = actor
                control[FAILED_CALL] = call
                control[FAILED_CODE] = code
            return False
    return True


@compiled(types.void(layout_type, state_type, types.int64))
def finish_act(layout: Layout, state: State, actor: Integer) -> None:
    """Move an actor on to its next slots and let its neighbours see that it acted."""
    rows, counters = state.rows, state.counters
    for i in range(layout.rotation_start[actor], layout.rotation_start[actor + 1]):
        address = rows[layout.rotating[i]] + layout.stride[i]
        rows[layout.rotating[i]] = (
            layout.first[i] if address == layout.limit[i] else address
        )
    state.acts[actor] += 1
    state.condition[actor] = layout.condition_start[actor]
    for i in range(layout.owned_start[actor], layout.owned_start[actor + 1]):
        counter = int(layout.owned[i])
        store_release(counters, counter, counters[counter] + 1)


@compiled(types.boolean(layout_type, state_type))
def quiescent(layout: Layout, state: State) -> bool:
    """
    Whether nothing can ever happen: all workers rest and no actor can act.

    A worker that goes on stops resting first and then counts a revival. So if all rest
    before and after the look, without a revival, none has changed anything meanwhile.
    """
    control = state.control
    workers = layout.member_start.size - 1
    revivals = load_acquire(control, REVIVALS)
    if load_acquire(control, RESTING) < workers:
        return False
    for actor in range(state.acts.size):
        ready = state.acts[actor] < control[TARGET]
        first, last = layout.condition_start[actor], layout.condition_start[actor + 1]
        for condition in range(first, last):
            watched = load_acquire(state.counters, layout.watched[condition])
            own = load_acquire(state.counters, layout.own[condition])
            if watched + layout.credits[condition] - own <= 0:
                ready = False
                break
        if ready:
            return False
    resting = load_acquire(control, RESTING)
    return resting == workers and load_acquire(control, REVIVALS) == revivals


@compiled(types.void(layout_type, state_type, types.int64))
def rest(layout: Layout, state: State, polls: Integer) -> None:
    """Wait for other workers, the longer the more polls have found nothing to do."""
    control = state.control
    if layout.member_start.size == 2:
        replace(control, STOP, RUNNING, DEADLOCKED)
    elif polls > YIELDS:
        if polls == YIELDS + 1:
            fetch_add(control, RESTING, 1)
        usleep(SLEEP_MICROSECONDS)
        if quiescent(layout, state):
            replace(control, STOP, RUNNING, DEADLOCKED)
    elif polls > SPINS:
        sched_yield()


@compiled(types.void(state_type, types.int64))
def revive(state: State, polls: Integer) -> None:
    """End the rest of a worker; the order of the two is what `quiescent` relies on."""
    if polls > YIELDS:
        fetch_add(state.control, RESTING, -1)
        fetch_add(state.control, REVIVALS, 1)


@compiled(types.void(types.int64, layout_type, state_type, words))
def work(worker: int, layout: Layout, state: State, ring: Words) -> None:
    """Let the actors of a worker act until each has reached the target or all stop."""
    control = state.control
    shared = layout.member_start.size > 2
    boundary = range(layout.boundary_start[worker], layout.boundary_start[worker + 1])
    members = range(layout.member_start[worker], layout.member_start[worker + 1])
    left = len(members)
    head = tail = since_poll = fruitless = 0
    for i in members:
        tail = enqueue(layout, state, ring, tail, layout.members[i])

    while left > 0:
        if load_acquire(control, STOP) != RUNNING:
            return
        since_poll += 1
        if shared and (head == tail or since_poll == POLL_PERIOD):
            since_poll = 0
            for i in boundary:
                tail = enqueue(layout, state, ring, tail, layout.boundary[i])
        if head == tail:
            fruitless += 1
            rest(layout, state, fruitless)
            continue
        revive(state, fruitless)
        fruitless = 0

        actor = ring[head & (ring.size - 1)]
        head += 1
        state.queued[actor] = 0
        if not call_kernels(layout, state, actor):
            return
        finish_act(layout, state, actor)
        left -= state.acts[actor] == control[TARGET]
        for i in range(
            layout.neighbour_start[actor], layout.neighbour_start[actor + 1]
        ):
            tail = enqueue(layout, state, ring, tail, layout.neighbours[i])
    fetch_add(control, RESTING, 1)


class _Worker:
    """
    A thread that runs `body` each time it is started, and is parked in between.

    What counts are the two round numbers, the locks only wake: so a start or a wait cut
    short by an exception can be repeated.
    """

    def __init__(self, name: str, body: Callable[[], None], control: Words):
        self._body = body
        self._control = control
        self._asked = self._finished = 0
        self._closing = False
        self._wake, self._done = threading.Lock(), threading.Lock()
        self._wake.acquire()
        self._done.acquire()
        self.error: BaseException | None = None
        # A daemon, as else Python waits for parked threads before it lets anyone close
        # them; `Core` joins them at exit.
        self.thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            self._wake.acquire()
            if self._closing:
                return
            asked = self._asked
            if asked == self._finished:
                continue
            try:
                self._body()
            except BaseException as error:
                self.error = error
                self._control[STOP] = INTERRUPTED
            self._finished = asked
            _release(self._done)

    def start(self, number: int) -> None:
        """Run the body once for each round number that is new."""
        self._asked = number
        _release(self._wake)

    def wait(self) -> None:
        """Return once the body has run for the last round asked for."""
        while self._finished != self._asked:
            self._done.acquire(timeout=0.1)

    def close(self) -> None:
        """End the thread once its body has returned."""
        self._closing = True
        _release(self._wake)
        self.thread.join()


def _release(lock: threading.Lock) -> None:
    if lock.locked():
        lock.release()


def _close_workers(workers: list[_Worker], control: Words) -> None:
    control[STOP] = INTERRUPTED
    while workers:
        workers[-1].close()
        workers.pop()


class Core:
    """
    The executor of one program, with a thread per worker that lives until `close`.

    It is also closed when it is collected, when a `with` block over it ends and when
    Python exits. After a failed run it is as new, but for what is in the registers.
    """

    def __init__(self, tables: Tables):
        self.tables = tables
        self._state = State(
            counters=tables.counters(),
            acts=np.zeros(len(tables.actors), np.int64),
            queued=np.zeros(len(tables.actors), np.int64),
            condition=tables.layout.condition_start[:-1].copy(),
            rows=tables.rows.copy(),
            control=np.zeros(CONTROL_WORDS, np.int64),
        )
        self._lock = threading.Lock()
        self._workers: list[_Worker] = []
        self._round = 0
        self._clean = True
        self._closed = False
        self._close_workers = weakref.finalize(
            self, _close_workers, self._workers, self._state.control
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def run(self, acts: int) -> None:
        """
        Let every actor act this many times; one thread at a time, others wait.

        Raises TaskError if a kernel fails, DeadlockError if no actor can go on, and
        what a signal raises in the calling thread, once all workers have stopped.
        """
        if acts < 0:
            raise PenstockError(f"the number of acts must not be negative, got {acts}")
        self._check_caller()
        with self._lock:
            if self._closed:
                raise PenstockError("the core is closed")
            if not self._clean:
                self._stop()
            if acts > 0 and self.tables.actors:
                self._run(acts)

    def close(self) -> None:
        """Stop a run that another thread is in, and end the threads."""
        self._check_caller()
        self._closed = True
        self._state.control[STOP] = INTERRUPTED
        with self._lock:
            self._close_workers()

    def _check_caller(self) -> None:
        if any(w.thread is threading.current_thread() for w in self._workers):
            raise PenstockError("a callback cannot run or close the core that calls it")

    def _run(self, acts: int) -> None:
        self._start_threads()
        control = self._state.control
        self._clean = False
        control[RESTING] = 0
        control[TARGET] += acts
        self._round += 1
        try:
            for worker in self._workers:
                worker.start(self._round)
            for worker in self._workers:
                worker.wait()
            if control[STOP] != RUNNING:
                raise self._error(acts)
        except BaseException:
            self._stop()
            raise
        self._clean = True

    def _start_threads(self) -> None:
        tables = self.tables
        for worker in range(len(self._workers), tables.workers):
            members = tables.layout.member_start[worker : worker + 2]
            size = 1 << int(members[1] - members[0]).bit_length()
            ring = np.zeros(size, np.int64)
            body = partial(work, worker, tables.layout, self._state, ring)
            name, control = f"penstock-worker-{worker}", self._state.control
            self._workers.append(_Worker(name, body, control))

    def _stop(self) -> None:
        """Stop all workers and go back to the state before the first act."""
        self._state.control[STOP] = INTERRUPTED
        for worker in self._workers:
            worker.start(self._round)
        for worker in self._workers:
            worker.wait()
        self._reset()

    def _reset(self) -> None:
        tables, state = self.tables, self._state
        state.counters[:] = tables.counters()
        state.acts[:] = 0
        state.queued[:] = 0
        state.condition[:] = tables.layout.condition_start[:-1]
        state.rows[:] = tables.rows
        state.control[1:] = 0
        self._clean = True
        if not self._closed:
            state.control[STOP] = RUNNING

    def _error(self, acts: int) -> PenstockError:
        """What the first worker that stopped has noted."""
        control = self._state.control
        if control[STOP] == FAILED:
            return self._task_error(int(control[TARGET]) - acts)
        if control[STOP] == DEADLOCKED:
            # Cycles without a token never turn, so no run has ended well before.
            done = [int(count) for count in self._state.acts]
            return DeadlockError(self.tables.stuck(self._state.counters, done, acts))
        for worker in self._workers:
            if worker.error:
                return PenstockError(f"a worker's thread failed: {worker.error!r}")
        return PenstockError("the core was closed during a run")

    def _task_error(self, start: int) -> TaskError:
        tables, control = self.tables, self._state.control
        index, code = int(control[FAILED_ACTOR]), int(control[FAILED_CODE])
        actor, act = tables.actors[index], int(self._state.acts[index]) - start
        # All calls are numbered through, actor by actor.
        first = int(tables.layout.call_start[index])
        call = actor.calls[int(control[FAILED_CALL]) - first]
        error = TaskError(actor.name, act, code, call.message_of(code))
        if code == CALLBACK_FAILED and call.kernel in tables.callbacks:
            error.__cause__ = tables.callbacks[call.kernel].take_error()
        return error
