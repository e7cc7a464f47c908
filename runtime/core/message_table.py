"""
The table of messages that compiled code begins and ends, in words of 64 bits.

The library that moves them has two functions of C, which get the address of a *request*
of a place: one starts the next message from or to it, the other asks whether that has
ended. Python fills the table; `messages_compiled` reads it.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.runtime.program.tables import CACHE_LINE, Words

# Words of `MessageTable.head`.
LOCKED = 0
"""Whether a thread looks at messages, and for ever once they are closed."""
START, TEST, STATUS = range(CACHE_LINE, CACHE_LINE + 3)
"""The addresses of both functions, and of the bytes that the second one writes more."""
FLAG = CACHE_LINE + 3
"""The place for its answer, a C `int`."""
FAILURE = CACHE_LINE + 4
"""The code of the first call that has failed, or 0."""
HEAD_WORDS = 2 * CACHE_LINE

# Words of a channel in `MessageTable.channels`.
BEGUN, ENDED = 0, 1
"""The messages that have begun, and those that have ended."""
DONE = 2
"""The counter of those that have ended, in `State.counters`."""
REQUESTS, PLACES = 3, 4
"""The first of its requests, and their number: the messages on their way at most."""
LIMITS, LAST_LIMIT = 5, 6
"""Its rows in `MessageTable.limits`."""
REPETITIONS = 7
"""The messages of an iteration."""
CHANNEL_WORDS = 8

# Words of a row of `MessageTable.limits`: a counter times a factor, and more.
COUNTER, FACTOR, MORE = 0, 1, 2
LIMIT_WORDS = 3


class MessageTable(NamedTuple):
    """The arrays of messages: words for all, channels, limits, requests by address."""

    head: Words
    channels: Words
    limits: Words
    requests: Words
