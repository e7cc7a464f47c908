"""
Loops and conditions of actors on CUDA devices, which the host drives: it launches the
calls of each iteration at their addresses. Numbers and conditions that it needs are
copied to the host, once all that comes before is done.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence

from penstock.runtime.cuda.driver import Driver, Handle
from penstock.runtime.cuda.launches import WORD as STATUS
from penstock.runtime.errors import TaskError
from penstock.runtime.loading.memory import host_bytes
from penstock.runtime.program.actors import Actor, Argument, Cell, Fixed
from penstock.runtime.program.control_flow import (
    BadLoop,
    Begin,
    ControlFlow,
    Do,
    LoopMemory,
    Next,
    Walk,
    loop_failure,
)

MOST_CAPTURED = 4096
"""The most launches of loops that become part of a graph."""
WORD, FLAG = 8, 1
"""The bytes of a number and of a condition."""
MOST_STATUSES = 4096
"""The most statuses of a call in loops."""
HOST_BYTES = STATUS * MOST_STATUSES
"""The bytes of the host for what is copied from a device in an act."""


class DeviceMemory:
    """
    The memory of a device, in the order of a stream; at `word` the host has room for
    what comes and goes.
    """

    def __init__(self, driver: Driver, stream: Handle, word: int):
        self._driver, self._stream, self._word = driver, stream, word

    def word(self, address: int) -> int:
        """The word at an address."""
        self._fetch(address, WORD)
        return ctypes.c_int64.from_address(self._word).value

    def flag(self, address: int) -> bool:
        """Whether the byte at an address is not 0."""
        self._fetch(address, FLAG)
        return ctypes.c_uint8.from_address(self._word).value != 0

    def write(self, address: int, word: int) -> None:
        """Write a word."""
        ctypes.c_int64.from_address(self._word).value = word
        self._driver.copy(address, self._word, WORD, self._stream)
        # The next one takes its place.
        self._driver.synchronize_stream(self._stream)

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy bytes."""
        self._driver.copy(target, source, size, self._stream)

    def has_bits(self, address: int, size: int) -> bool:
        """Whether any of some bytes, `HOST_BYTES` at most, is not 0."""
        self._fetch(address, size)
        return bool(host_bytes(self._word, size).any())

    def _fetch(self, address: int, size: int) -> None:
        self._driver.copy(self._word, address, size, self._stream)
        self._driver.synchronize_stream(self._stream)


def is_known(control: ControlFlow) -> bool:
    """Whether loops launch the same calls in each act, and not too many for a graph."""
    code = control.code
    return (
        not any(loop.is_bounded for loop in control.loops)
        and all(isinstance(x, Begin | Do | Next) for x in code)
        and sum(control.times(x.call) for x in code if isinstance(x, Do))
        <= MOST_CAPTURED
    )


def arguments_of(actor: Actor) -> tuple[Argument, ...]:
    """
    The arguments of all calls, of which those that change in an act are 0, then what
    its loops and conditions work on.
    """
    given = (arg for call in actor.calls for arg in call.args)
    return (*(Fixed(0) if isinstance(x, Cell) else x for x in given), *actor.roots)


def calls_in_act(
    actor: Actor, act: int, words: Sequence[int], memory: LoopMemory
) -> Iterator[tuple[int, Sequence[int], tuple[int, ...]]]:
    """
    The calls of an act of an actor with loops or conditions, each with the words of all
    arguments and the numbers of the iterations of the loops around it. Raises TaskError
    if a loop cannot go on.
    """
    assert actor.control is not None, "checked by the caller"
    given = list(words[: len(words) - len(actor.roots)])
    walk = Walk(actor.control, words[len(given) :], memory)
    cells = [list(x) for x in _cells_of(actor)]
    try:
        for call in walk.calls():
            for place, cell in cells[call]:
                given[place] = walk.cells[cell]
            yield call, given, walk.iterations(walk.loop)
    except BadLoop as bad:
        loop = actor.control.loops[bad.loop]
        text = loop_failure(loop, bad.code, is_count=bad.is_count)
        error = TaskError(actor.name, act, bad.code, text)
        error.iterations = walk.iterations(loop.around)
        raise error from None


def _cells_of(actor: Actor) -> Iterator[Iterator[tuple[int, int]]]:
    """For each call its arguments that are cells: their places, and their cells."""
    first = 0
    for call in actor.calls:
        places = list(enumerate(call.args, first))
        yield ((at, arg.number) for at, arg in places if isinstance(arg, Cell))
        first += len(call.args)


MemoryOf = Callable[[Handle], DeviceMemory]
"""The memory of a device in the order of a stream."""
