"""
The tiling of columns for transposed micro-kernels.

Columns are cut into *turns* that are alike: one line of windows, or as many short lines
as one tile takes, or one tile where all columns have one stride.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from penstock.lowering.codegen.body.contraction import Contraction


@dataclass(frozen=True)
class Lines:
    """The cut of columns into tiles."""

    tiles: tuple[tuple[int, int, int], ...]
    """Of one turn: how many follow each other, their lines, and the columns of each."""
    steps: tuple[int, int]
    """From a line and from a column to the next in b."""
    turns: int
    turn: int
    """From a turn to the next in b."""
    tail: tuple[int, int] = (0, 0)
    """The lines and the columns of each of the last tile, if it is none of a turn."""

    @property
    def columns(self) -> int:
        """The columns of a turn."""
        return sum(count * lines * width for count, lines, width in self.tiles)

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """The columns of tiles, and how many such tiles there are."""
        found = [(lines * width, n * self.turns) for n, lines, width in self.tiles]
        lines, width = self.tail
        return [*found, (lines * width, 1)] if lines else found


def lines_of(contraction: Contraction, most: int) -> Lines | None:
    """
    The columns in tiles of up to `most` columns; None if there are more than two loops
    of columns, or none.
    """
    loops = contraction.windows(contraction.columns)
    if len(loops) == 1:
        ((extent, step),) = loops
        width = min(most, extent)
        turns, rest = divmod(extent, width)
        tail = (1, rest) if rest else (0, 0)
        return Lines(((1, 1, width),), (0, step), turns, width * step, tail)
    if len(loops) != 2:
        return None
    (count, of_line), (width, step) = loops
    steps = of_line, step
    if width > most:
        return Lines(_cut(width, most), steps, count, of_line)
    lines = min(most // width, count)
    turns, rest = divmod(count, lines)
    tail = (rest, width) if rest else (0, 0)
    return Lines(((1, lines, width),), steps, turns, lines * of_line, tail)


def _cut(width: int, most: int) -> tuple[tuple[int, int, int], ...]:
    """The columns of a line in tiles of about one size."""
    count = ceil(width / most)
    size, larger = divmod(width, count)
    tiles = (larger, 1, size + 1), (count - larger, 1, size)
    return tiles if larger else tiles[1:]
