"""
The layout of the state that the threads of a run share, in words of 64 bits.

Python and compiled code both read it; modules import it as `w`. A thread holds the lock
of a worker to let its actors act. The words of the worker also describe the kernel that
it shares with other threads, if there is one.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.runtime.program.tables import CACHE_LINE, Words

SLICE = 50_000_000
"""Nanoseconds that the main thread works until Python may handle signals."""
FOREVER = 1 << 60
"""Nanoseconds that other threads work that call."""

# Words of `State.control`, on lines of their own where all write them.
STOP, TARGET, ROUND = range(3)
LOOP, LOG, TABLES, MODE = range(3, 7)
"""The addresses of the scheduler, 0 for the static one, of the logs, 0 if no acts are
recorded, and of the table of arrays; and the mode, which is one of these:"""
STATIC, DATAFLOW, STREAM = 0, 1, 2
OPEN = 1 * CACHE_LINE
"""The workers that have acts left in the run."""
EVENT = 2 * CACHE_LINE
"""The futex that idle threads sleep on, which counts how often they were woken."""
SLEEPERS = 3 * CACHE_LINE
"""The threads that sleep, or are about to."""
FAILED_ACTOR = 4 * CACHE_LINE
FAILED_CALL = FAILED_ACTOR + 1
FAILED_CODE = FAILED_ACTOR + 2
WHOLE_ACTS = FAILED_ACTOR + 3
"""Whether acts that have begun come to their end, also when the run has stopped."""
SLEEP_LIMIT = 5 * CACHE_LINE
"""Seconds and nanoseconds after which a sleeping thread looks again."""
CORES = 6 * CACHE_LINE
LEFT_OUT, OTHERS = CORES + 1, CORES + 2
UNTIL, UNTIL_VALUE = CORES + 3, CORES + 4
"""The caller's thread works until a counter, whose index is one less, has a value."""
BINDINGS = CORES + 5
"""The address of the table of registers bound to the caller's arrays, or 0."""
THREAD_OF_CALLER, WAKE = CORES + 6, CORES + 7
"""The number of the caller's thread, and whether a run wakes the others at once."""
REMOTE = 7 * CACHE_LINE
"""Whether actors wait for other processes, so that nobody here sees a deadlock."""
BY_PYTHON = REMOTE + 1
"""Whether Python has to begin the next run, which is one of these:"""
NO, YES, UNCLEAN = 0, 1, 2
"""UNCLEAN if the last run has to be brought to its end before."""
MESSAGES = REMOTE + 2
"""The address of the `MessageTable` that compiled code moves, or 0."""
CONTROL_WORDS = 8 * CACHE_LINE

# Values of `control[STOP]`.
RUNNING, INTERRUPTED, FAILED, DEADLOCKED, CLOSED, FAILING = 0, 1, 2, 3, 4, 5
"""FAILING while a thread that ends a run by a failure notes it, before FAILED."""

# Whether the caller's thread is to go on with a run.
ENDED_WELL, UNFINISHED, STOPPED = 0, 1, 2

# Words of a worker in `State.workers`: its lock and its actors left to act, which idle
# threads poll; its ring, for the thread that holds the lock; the descriptor of the
# kernel that it shares.
LOCKED, LEFT = 0, 1
HEAD, TAIL, FRESH = range(CACHE_LINE, CACHE_LINE + 3)
WRONG_ACTOR, WRONG_CALL, WRONG_CODE = range(CACHE_LINE + 3, CACHE_LINE + 6)
"""The number after that of the actor that has failed, 0 if none; its call and code."""
TURNS = CACHE_LINE + 6
"""
The iterations of loops that were begun, which are progress for watchdogs. Each writes
it, so that idle threads must not poll its line.
"""
CLAIMS = 2 * CACHE_LINE
KERNEL, ROW, PARTS = range(3 * CACHE_LINE, 3 * CACHE_LINE + 3)
DONE, FAILURE = 4 * CACHE_LINE, 4 * CACHE_LINE + 1
WORKER_WORDS = 5 * CACHE_LINE

# Words of an actor in `State.actors`.
ACTS, QUEUED, CONDITION, PHASE = 0, 1, 2, 3

# Values of the phase, which the static scheduler does not use.
NORMAL, DRAINING, ENDED = 0, 1, 2
ENDLESS = 1 << 40
"""The iterations of a stream, which ends when there are no more pieces."""

# The outlook of a stream while no actor acts: a deadlock, a step of an actor, or a wait
# for the caller.
STUCK, GOES_ON, WAITS = 0, 1, 2

BAD_NUMBER = -1
"""The call that fails where an actor reads a number out of range, which is its code."""
NOT_HELD = -2
"""
The call that fails where a lock gets back a section that is not held, which is its
code.
"""

FIRST_LOOP = -16
"""
The call that fails where the first loop of an actor has a wrong count, which is its
code; the one below it, where its condition is true too often. Those of the next loops
follow below.
"""

# Words of a forwarded counter: the value that others see, how often its owner has moved
# the counter on that they would see, and whether they ever saw more moves than that.
SEEN, MOVES, AHEAD = 0, 1, 2

# The table of zero-copy bindings: the number of words of rows that are addresses of
# registers which can be bound, and for each the address of the word, that of the
# caller's pointer, where the register lies if it is not bound, bytes from the pointer
# to it, and the bits that no pointer may have.
WORD_AT, POINTER_AT, HOME, SHIFT, MISALIGNED = range(5)
BINDING_ROW = 5

CLAIM_BITS = 16
CLAIM = (1 << CLAIM_BITS) - 1
"""
The bits of `CLAIMS` for the parts that are left: the number after the last one, and
above it the first one. The bits above these count the kernels that were shared.
"""
NO_PART = -1
NO_FAILURE = 1 << 62
HALF = (1 << 32) - 1

OBSERVER = -1
"""The number of a thread that only waits for the others."""


class State(NamedTuple):
    """
    The words that threads write: counters, `ACTOR_WORDS` for each actor, argument rows,
    rings, `WORKER_WORDS` for each worker, numbers of threads in the system, and words
    for all.
    """

    counters: Words
    actors: Words
    rows: Words
    rings: Words
    workers: Words
    threads: Words
    control: Words


# The log of a worker, a ring: how many rows it has had and for how many there is room;
# how many were taken from it, which Python writes; then the rows. A free row is zero.
ROWS, ROOM, GONE = 0, 1, CACHE_LINE
LOG_HEAD = 2 * CACHE_LINE
"""Words before the first row."""
WHAT, ACTOR, ACT, START, END, CODE = range(6)
LOG_ROW = 6
"""
Words of a row: the call, or WHOLE for all of an act; actor and number of the act; its
start and end on the monotonic clock in nanoseconds, 0 while it has not ended; its code.
"""
WHOLE = -1
CUT_SHORT = 1 << 40
"""The code of a call that other threads ended, as the run has stopped."""
REFUSED = CUT_SHORT + 1
"""The code of an act that was given a wrong number, which `FAILED_CODE` is."""
