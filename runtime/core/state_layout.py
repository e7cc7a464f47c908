"""
What the words mean that the threads of a run share, for Python and for compiled code.

A thread takes the seat of a worker to let its actors act. On its board it puts a kernel
that other threads may do parts of.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.runtime.program.tables import CACHE_LINE, Words

SLICE = 50_000_000
"""Nanoseconds that the main thread works until Python may handle signals."""
FOREVER = 1 << 60
"""Nanoseconds that other threads work that call."""

# Words of `State.control`, on lines of their own where all write them.
STOP, TARGET, MOST_PARTS, ROUND = 0, 1, 2, 3
LOOP, LOG, TABLES, MODE = 4, 5, 6, 7
"""The address of who lets actors act, 0 if that is the plain loop; of the log, 0 if no
acts are recorded; always, of the table of arrays. The mode is one of these:"""
PLAIN_LOOP, TURNS, STREAM = 0, 1, 2
OPEN = 1 * CACHE_LINE
BELL = 2 * CACHE_LINE
SLEEPERS = 3 * CACHE_LINE
FAILED_ACTOR = 4 * CACHE_LINE
FAILED_CALL = FAILED_ACTOR + 1
FAILED_CODE = FAILED_ACTOR + 2
WHOLE_ACTS = FAILED_ACTOR + 3
"""Whether acts that have begun come to their end, also when the run has stopped."""
NAP = 5 * CACHE_LINE
CORES = 6 * CACHE_LINE
LEFT_OUT, OTHERS = CORES + 1, CORES + 2
UNTIL, UNTIL_VALUE = CORES + 3, CORES + 4
"""The caller's thread works until a counter, whose index is one less, has a value."""
LENT = CORES + 5
"""The address of a table of registers that are lent, 0 if there are none."""
THREAD_OF_CALLER, WAKE = CORES + 6, CORES + 7
"""The number of the caller's thread, and whether a run wakes the others at once."""
CONTROL_WORDS = 7 * CACHE_LINE

# Values of `control[STOP]`.
RUNNING, INTERRUPTED, FAILED, DEADLOCKED, CLOSED = 0, 1, 2, 3, 4

# Whether the caller's thread is to go on with a run.
ENDED_WELL, UNFINISHED, STOPPED = 0, 1, 2

# Words of a worker in `State.seats`: who is in it; its ring and its actors left to act,
# for who is in it; the board.
TAKEN = 0
HEAD, TAIL, LEFT, FRESH = range(CACHE_LINE, CACHE_LINE + 4)
WRONG_ACTOR, WRONG_CALL, WRONG_CODE = range(CACHE_LINE + 4, CACHE_LINE + 7)
"""The number after that of the actor that has failed, 0 if none; its call and code."""
CLAIMS = 2 * CACHE_LINE
KERNEL, ROW, PARTS = range(3 * CACHE_LINE, 3 * CACHE_LINE + 3)
DONE, FAILURE = 4 * CACHE_LINE, 4 * CACHE_LINE + 1
SEAT_WORDS = 5 * CACHE_LINE

# Words of an actor in `State.actors`.
ACTS, QUEUED, CONDITION, PHASE = 0, 1, 2, 3

# Values of the phase, which the plain loop does not know.
NORMAL, DRAINING, ENDED = 0, 1, 2
ENDLESS = 1 << 40
"""The turns of a stream, which ends when there are no more pieces."""

# What can be expected in a stream while nobody acts: nothing, that actors act, that the
# caller does something.
STUCK, GOES_ON, WAITS = 0, 1, 2

BAD_NUMBER = -1
"""The call that fails where an actor is given a number that there is nothing for; its
code is that number."""
NOT_HELD = -2
"""The call that fails where a lock gets back a section that nobody has: its code."""

# What a wire is: what others see, how often its owner has moved on the counter that
# they would see, and whether they ever saw more moves than there were.
SEEN, MOVES, AHEAD = 0, 1, 2

# A table of registers that are lent: how many words of rows are addresses of them, and
# for each the address of the word, that of the pointer, where the register lies if it
# is not lent, bytes from the pointer to it, and the bits that no pointer may have.
WORD_AT, POINTER_AT, OWN, SHIFT, MISALIGNED = range(5)
LENT_ROW = 5

CLAIM_BITS = 16
CLAIM = (1 << CLAIM_BITS) - 1
"""
The bits of `CLAIMS` that say which parts are left: of the number after the last one,
and above them of the first one. What is above these counts the kernels on the board.
"""
NO_PART = -1
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


# The log of a worker: how many rows it has had and for how many there is room; how many
# were taken from it, which Python writes; then the rows, of which the first follows the
# last one. A row that is free is zero.
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
