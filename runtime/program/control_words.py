"""
The loops and conditions of an actor as words, which the compiled executor walks.

The words of an actor are those of the points of an act, then instructions, of which the
first word is a verb:

    DO      call
    BEGIN   loop            the first word of the facts of a loop
    NEXT    loop
    BRANCH  condition, to   the word of rows with the address; the word of code
    JUMP    to
    NUMBER  target, frame
    END

The facts of a loop are its number, frame, times, and words of rows for its count,
condition and number of iterations made, -1 for none; whether it is backward; the words
of code after it and of its body; then its carried values, the points of an iteration,
the rows of the next one that are fetched into the caches, and the copies of carried
values to their first place, each behind their number.

Points are `[count, (word, source, offset, step) ...]`: words of rows that become the
one in another word and so many bytes. A cell is a word of rows, and so is each argument
of a call that is one: all of them are set. Carried values are `[count, (word, parity,
source, offset, source, offset) ...]`, copies `[count, (source, offset, source, offset,
size) ...]`: to the first, from the second. Rows to fetch are `[count, (cell, step,
lines) ...]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.runtime.program.control_flow import (
    NONE,
    Begin,
    Branch,
    Carry,
    ControlFlow,
    Do,
    Instruction,
    Jump,
    Loop,
    Next,
    Point,
)

DO, BEGIN, NEXT, BRANCH, JUMP, NUMBER, END = range(7)

LOOP, FRAME, TIMES, COUNT, CONDITION, MADE, BACKWARD, AFTER, BODY = range(9)
"""The facts of a loop."""
LOOP_WORDS = 9
POINT_WORDS, CARRY_WORDS, COPY_WORDS, FETCH_WORDS = 4, 6, 5, 3

DONE, ALL, CURRENT = range(3)
"""Words of a frame: iterations made, those to be made, and the number of this one."""
FRAME_WORDS = 3

LINE = 64
"""The bytes of a line of a cache."""
MOST_FETCHED = 4096
"""
The bytes of a row from which on it is not fetched while the iteration before computes:
it would take the place in the nearest cache of what that one reads.
"""


class ControlPlaces(NamedTuple):
    """The first words of rows for the cells of an actor, and for frames of loops."""

    cells: int
    frames: int

    def number_at(self, loop: int) -> int:
        """The word for the number of the iteration of a loop."""
        return self.frames + FRAME_WORDS * loop + CURRENT


def control_words(
    control: ControlFlow,
    places: ControlPlaces,
    arguments: Mapping[int, Sequence[int]],
    first_call: int,
    start: int,
) -> list[int]:
    """
    The words of loops and conditions, which begin at a word of code. `arguments` has
    for a cell the words of rows that are arguments.
    """
    return _Writer(control, places, arguments, first_call, start).write()


class _Writer:
    def __init__(
        self,
        control: ControlFlow,
        places: ControlPlaces,
        arguments: Mapping[int, Sequence[int]],
        first_call: int,
        start: int,
    ):
        self.control = control
        self.places = places
        self.arguments = arguments
        self.first_call = first_call
        self.start = start

    def write(self) -> list[int]:
        head = self._points(self.control.points)
        sizes = [len(self._instruction(x, {}, {})) for x in self.control.code]
        at = self.start + len(head)
        jumps: dict[int, int] = {}
        for number, size in enumerate([*sizes, 1]):
            jumps[number] = at
            at += size
        about: dict[int, int] = {}
        loops: list[int] = []
        for number, loop in enumerate(self.control.loops):
            about[number] = at + len(loops)
            loops += self._loop(number, loop, jumps)
        code = [
            x for i in self.control.code for x in self._instruction(i, jumps, about)
        ]
        return [*head, *code, END, *loops]

    def _cell(self, cell: int) -> int:
        return NONE if cell == NONE else self.places.cells + cell

    def _words(self, cell: int) -> list[int]:
        return [self._cell(cell), *self.arguments.get(cell, ())]

    def _instruction(
        self,
        instruction: Instruction,
        jumps: Mapping[int, int],
        about: Mapping[int, int],
    ) -> list[int]:
        match instruction:
            case Do(call):
                return [DO, self.first_call + call]
            case Begin(loop):
                return [BEGIN, about.get(loop, 0)]
            case Next(loop):
                return [NEXT, about.get(loop, 0)]
            case Branch(condition, otherwise):
                return [BRANCH, self._cell(condition), jumps.get(otherwise, 0)]
            case Jump(to):
                return [JUMP, jumps.get(to, 0)]
            case _:
                target = self._cell(instruction.target)
                return [NUMBER, target, self.places.number_at(instruction.loop)]

    def _loop(self, number: int, loop: Loop, jumps: Mapping[int, int]) -> list[int]:
        cells = map(self._cell, (loop.count, loop.condition, loop.made))
        frame = self.places.frames + FRAME_WORDS * number
        words = [number, frame, loop.times, *cells, int(loop.is_backward)]
        words += [jumps[loop.end], jumps[loop.start]]
        carried = [x for carry in loop.carried for x in self._carry(carry)]
        words += [len(carried) // CARRY_WORDS, *carried]
        words += self._points(loop.points)
        rows = [x for point in loop.points for x in self._fetch(loop, point)]
        words += [len(rows) // FETCH_WORDS, *rows]
        copies = [x for carry in loop.carried for x in self._copy(loop, carry)]
        return [*words, len(copies) // COPY_WORDS, *copies]

    def _points(self, points: Sequence[Point]) -> list[int]:
        found = [
            (word, self._cell(source), offset, step)
            for cell, source, offset, step, _ in points
            for word in self._words(cell)
        ]
        return [len(found), *(x for words in found for x in words)]

    def _carry(self, carry: Carry) -> list[int]:
        places = [(self._cell(cell), at) for cell, at in map(carry.place, range(2))]
        flat = [x for place in places for x in place]
        words = [(word, 0) for word in self._words(carry.before)]
        words += [(word, 1) for word in self._words(carry.after)]
        return [x for word, parity in words for x in (word, parity, *flat)]

    def _fetch(self, loop: Loop, point: Point) -> list[int]:
        if point.step == 0 or not 0 < point.size < MOST_FETCHED:
            return []
        step = -point.step if loop.is_backward else point.step
        return [self._cell(point.cell), step, -(-point.size // LINE)]

    def _copy(self, loop: Loop, carry: Carry) -> list[int]:
        if not loop.is_bounded or len(carry.places) == 1:
            return []
        places = [x for cell, at in carry.places for x in (self._cell(cell), at)]
        return [*places, carry.size]
