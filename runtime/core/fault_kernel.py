"""
The kernel that injects faults in front of another one.

Its first argument is the address of a table, the others are those of the kernel:

    [address of the number of acts that the actor has made, address of the word that is
     not 0 once the run stops, address of the kernel, number of faults,
     act, kind, amount, ...]

A fault of kind FAIL returns its amount as the code, without a call of the kernel. DELAY
waits for its amount of nanoseconds before the call. The amount of HOLD is the address
of two words: it sets the second one, and waits until the first one is not 0. Only part
0 waits.
"""

from __future__ import annotations

from penstock.runtime.core.atomics import call_kernel, compiled, load_word, store_word
from penstock.runtime.core.os_calls import now, sleep

FAIL, DELAY, HOLD = 0, 1, 2
HEAD, ROW = 4, 3
"""Words before the first fault, and of a fault."""
LOOK_PERIOD = 1_000_000
"""Nanoseconds after which a call that waits looks whether the run has stopped."""


@compiled(inline=False)
def wait(nanoseconds: int, stop: int) -> None:
    """Wait, unless the run stops meanwhile."""
    end = now() + nanoseconds
    left = nanoseconds
    while left > 0 and load_word(stop) == 0:
        sleep(min(left, LOOK_PERIOD))
        left = end - now()


@compiled(inline=False)
def hold(gate: int, stop: int) -> None:
    """Say so, and wait until a word is not 0, unless the run stops meanwhile."""
    store_word(gate + 8, 1)
    while load_word(gate) == 0 and load_word(stop) == 0:
        sleep(LOOK_PERIOD)


def fault(args: int, part: int, parts: int) -> int:
    """Inject the faults of a table, and call the kernel that it names."""
    table = load_word(args)
    act, last = load_word(load_word(table)), table + 8 * HEAD
    last += 8 * ROW * load_word(table + 24)
    for row in range(table + 8 * HEAD, last, 8 * ROW):
        if load_word(row) != act:
            continue
        if load_word(row + 8) == FAIL:
            return load_word(row + 16)
        if load_word(row + 8) == DELAY and part == 0:
            wait(load_word(row + 16), load_word(table + 8))
        if load_word(row + 8) == HOLD and part == 0:
            hold(load_word(row + 16), load_word(table + 8))
    return call_kernel(load_word(table + 16), args + 8, part, parts)
