"""
Column tiling for transposed micro-kernels, whose SIMD lanes run along rows.

A transposed micro-kernel multiplies single elements of `b` with vectors of `a`, and
transposes the accumulators before it stores them: so a `b` seen through windows (an
implicit im2col) needs no packing. The schedule, the cost model, the check of panels and
the printer `matmul_transposed` call `lines_of`, so they agree on tiles.

A *line* is one run of the innermost loop of columns, such as a row of output pixels.
Columns are cut into *turns*, iterations of one loop with the same tiles in each: a long
line in several tiles, or several short lines in one tile; with a single loop of columns
one tile is a turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from penstock.lowering.codegen.body.contraction import Contraction


@dataclass(frozen=True)
class Lines:
    """Tiles of the columns of a contraction; strides are in elements of `b`."""

    tiles: tuple[tuple[int, int, int], ...]
    """Tiles of one turn: how many in a row, lines in each, columns of each line."""
    steps: tuple[int, int]
    """Strides in `b` from line to line, and from column to column."""
    turns: int
    """The number of turns."""
    turn: int
    """The stride in `b` from turn to turn."""
    tail: tuple[int, int] = (0, 0)
    """Lines, and columns of each, of the tile left after all turns; or zeros."""

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
