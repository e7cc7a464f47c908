"""
Loops and conditions among the calls of an actor, as the executors run them.

A *cell* holds an address: that of an actor's current slot, of a variable, or of what a
local name stands for. Cells of local names are set when the loop that they change with
begins an iteration, those that change with none when an act begins. So each loop has a
list of *points*, and the code is short: calls, and jumps.

An iteration of a loop that can still go on, number k of those made, begins like this:
the places of carried values are swapped, the condition is tested, the number of the
iteration is set, then the points of the loop.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

NONE = -1
"""No cell, no loop."""

ROWS_EACH = 64
"""The iterations of a call in an act up to which each of them has a row in a log."""


class Point(NamedTuple):
    """
    Set a cell to `offset + number * step` bytes after another one. So many bytes are
    there, if that is known.
    """

    cell: int
    source: int
    offset: int
    step: int = 0
    size: int = 0


class Carry(NamedTuple):
    """
    Cells for the value of the iteration before and for that of this one, of `size`
    bytes, and its one or two places: a cell, and bytes from there on.
    """

    before: int
    after: int
    places: tuple[tuple[int, int], ...]
    size: int

    def place(self, parity: int) -> tuple[int, int]:
        """The place of a parity."""
        return self.places[parity % len(self.places)]


@dataclass(frozen=True)
class Loop:
    """
    A loop of `times` iterations, or of so many at most if it has the cell of a count or
    of a condition. `made` is the cell for the number of those that it made. `around` is
    the number of the loop that it is in.
    """

    times: int
    count: int = NONE
    condition: int = NONE
    made: int = NONE
    is_backward: bool = False
    around: int = NONE
    carried: tuple[Carry, ...] = ()
    points: tuple[Point, ...] = ()
    start: int = 0
    end: int = 0
    """The first instruction of its body, and that after it."""

    @property
    def is_bounded(self) -> bool:
        """Whether its iterations are known when it runs alone."""
        return self.count != NONE or self.condition != NONE

    def number(self, made: int, count: int) -> int:
        """The number of an iteration, if so many of `count` were made before it."""
        return count - 1 - made if self.is_backward else made

    def parity(self, made: int, count: int) -> int:
        """The place that an iteration reads carried values at."""
        return (made if self.is_bounded else count - made) % 2


class Do(NamedTuple):
    """Make a call of the actor."""

    call: int


class Begin(NamedTuple):
    """Begin a loop."""

    loop: int


class Next(NamedTuple):
    """End an iteration of a loop, and begin the next one if there is one."""

    loop: int


class Branch(NamedTuple):
    """Go on elsewhere unless the byte at a cell's address is 0 no more."""

    condition: int
    otherwise: int


class Jump(NamedTuple):
    """Go on elsewhere."""

    to: int


class Number(NamedTuple):
    """Write the number of the iteration of a loop."""

    target: int
    loop: int


Instruction: TypeAlias = Do | Begin | Next | Branch | Jump | Number


@dataclass(frozen=True)
class ControlFlow:
    """
    The loops and conditions of an actor. Its first cells are the `roots` of the actor.
    """

    cells: int
    points: tuple[Point, ...]
    loops: tuple[Loop, ...]
    code: tuple[Instruction, ...]
    loop_of: tuple[int, ...]
    """Call: the innermost loop around it."""

    def loops_around(self, loop: int) -> list[int]:
        """A loop and those that it is in, the outermost first."""
        found: list[int] = []
        while loop != NONE:
            found.append(loop)
            loop = self.loops[loop].around
        return found[::-1]

    def times(self, call: int) -> int:
        """The times that a call is made in an act at most."""
        times = 1
        for loop in self.loops_around(self.loop_of[call]):
            times *= self.loops[loop].times
        return times

    def rows(self, call: int) -> int:
        """
        The rows of a call in the log of an act at most: one for each time, or, where
        these are more than `ROWS_EACH`, one for all.
        """
        return 1 if self.is_summed(call) else self.times(call)

    def is_summed(self, call: int) -> bool:
        """Whether a call has one row for all times."""
        return self.times(call) > ROWS_EACH


# Failures ----------------------------------------------------------------------------


class BadLoop(Exception):
    """A loop that cannot go on, given its number and the code of the failure."""

    def __init__(self, loop: int, code: int, *, is_count: bool):
        super().__init__(loop, code)
        self.loop = loop
        self.code = code
        self.is_count = is_count


def loop_failure(loop: Loop, code: int, *, is_count: bool) -> str:
    """Why a loop cannot go on: its count, or a condition that is still true."""
    if is_count:
        return f"a loop of at most {loop.times} iterations was to make {code}"
    return (
        f"the condition of a loop of at most {loop.times} iterations is still true "
        f"after iteration {loop.times - 1}"
    )


# The meaning -------------------------------------------------------------------------


class LoopMemory(Protocol):
    """The memory that loops and conditions read and write themselves."""

    def word(self, address: int) -> int:
        """The word at an address."""
        ...

    def flag(self, address: int) -> bool:
        """Whether the byte at an address is not 0."""
        ...

    def write(self, address: int, word: int) -> None:
        """Write a word."""
        ...

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy bytes."""
        ...


class HostMemory:
    """The memory of the host."""

    def word(self, address: int) -> int:
        """The word at an address."""
        return ctypes.c_int64.from_address(address).value

    def flag(self, address: int) -> bool:
        """Whether the byte at an address is not 0."""
        return ctypes.c_uint8.from_address(address).value != 0

    def write(self, address: int, word: int) -> None:
        """Write a word."""
        ctypes.c_int64.from_address(address).value = word

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy bytes."""
        ctypes.memmove(target, source, size)


class Walk:
    """
    The way through an act of an actor with loops and conditions, in plain Python.

    `cells` has the addresses at the moment, `numbers` those of the iterations of loops.
    """

    def __init__(
        self,
        control: ControlFlow,
        roots: Sequence[int],
        memory: LoopMemory,
        is_stopped: Callable[[], bool] = lambda: False,
    ):
        self.control = control
        self.cells = [*roots, *[0] * (control.cells - len(roots))]
        self.numbers = [0] * len(control.loops)
        self.loop = NONE
        """The innermost loop around the last call."""
        self._made = [0] * len(control.loops)
        self._counts = [0] * len(control.loops)
        self._memory = memory
        self._is_stopped = is_stopped

    def calls(self) -> Iterator[int]:
        """
        The calls to be made, one after the other. Raises BadLoop. It ends early if it
        is stopped.
        """
        self._point(self.control.points, 0)
        code, at = self.control.code, 0
        while at < len(code):
            match code[at]:
                case Do(call):
                    self.loop = self.control.loop_of[call]
                    yield call
                    at += 1
                case Begin(loop):
                    self._begin(loop)
                    at = self._go_on(loop)
                case Next(loop):
                    self._made[loop] += 1
                    at = self._go_on(loop)
                case Branch(condition, otherwise):
                    is_true = self._memory.flag(self.cells[condition])
                    at = at + 1 if is_true else otherwise
                case Jump(to):
                    at = to
                case Number(target, loop):
                    self._memory.write(self.cells[target], self.numbers[loop])
                    at += 1
            if self._is_stopped():
                return

    def iterations(self, loop: int) -> tuple[int, ...]:
        """The numbers of the iterations of a loop and of those around it."""
        return tuple(self.numbers[x] for x in self.control.loops_around(loop))

    def _point(self, points: Sequence[Point], number: int) -> None:
        for cell, source, offset, step, _ in points:
            self.cells[cell] = self.cells[source] + offset + number * step

    def _begin(self, index: int) -> None:
        loop = self.control.loops[index]
        count = loop.times
        if loop.count != NONE:
            count = self._memory.word(self.cells[loop.count])
            if not 0 <= count <= loop.times:
                raise BadLoop(index, count, is_count=True)
        self._made[index], self._counts[index] = 0, count

    def _go_on(self, index: int) -> int:
        """Begin the next iteration of a loop, or end it; the instruction after that."""
        loop = self.control.loops[index]
        made, count = self._made[index], self._counts[index]
        self._swap(loop, loop.parity(made, count))
        if not self._goes_on(index, made == count):
            return self._end(loop, made)
        self.numbers[index] = loop.number(made, count)
        self._point(loop.points, self.numbers[index])
        return loop.start

    def _goes_on(self, index: int, is_last: bool) -> bool:
        loop = self.control.loops[index]
        if loop.condition == NONE:
            return not is_last
        if not self._memory.flag(self.cells[loop.condition]):
            return False
        if is_last and loop.count == NONE:
            raise BadLoop(index, loop.times + 1, is_count=False)
        return not is_last

    def _swap(self, loop: Loop, parity: int) -> None:
        for carry in loop.carried:
            for cell, place in (carry.before, parity), (carry.after, parity + 1):
                source, offset = carry.place(place)
                self.cells[cell] = self.cells[source] + offset

    def _end(self, loop: Loop, made: int) -> int:
        if loop.is_bounded and made % 2:
            for carry in loop.carried:
                if len(carry.places) == 2:
                    target, source = (self.cells[x] + at for x, at in carry.places)
                    self._memory.copy(target, source, carry.size)
        if loop.made != NONE:
            self._memory.write(self.cells[loop.made], made)
        return loop.end
