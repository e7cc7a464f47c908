"""
Cost model of register tiles of a CPU contraction, in products of vectors.

A tile computes so many rows by so many vectors of columns for all terms; its time is
the largest of its products, its loads and what keeps products in flight. An *edged*
tile has one more column, an *upright* one has vectors along rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import ceil, inf

from penstock.lowering.codegen.body.contraction import Contraction
from penstock.lowering.codegen.cpu.transposed_tiles import lines_of
from penstock.lowering.codegen.cpu.vector_width import REGISTERS

BYTES = {"f32": 4, "f64": 8, "i32": 4, "i64": 8}
IN_FLIGHT = 8
"""The number of independent products that keep a CPU core busy."""
TILE_OVERHEAD = 20
"""The overhead of a tile, in products."""
COMMON = {32: ((8, 3), (4, 4)), 16: ((6, 2), (4, 3))}
"""The rows and vectors of tiles that most kernels have, for so many registers."""
CLOSE = 1.02
"""The time of a common tile, over that of the fastest, which is no loss if measured."""
UNEVEN = 1.02
"""The penalty of strips of two kinds: they take twice as long to compile."""
MAX_WIDTH = 24
"""The vectors of a tile of one row."""
MIN_EDGED_ROWS = 4
"""The least rows of a tile whose vectors along rows are worth it."""
PACKING, PACKING_APART = 7, 10
"""
The time of packing a vector of windows, in products; and one of windows that are not
contiguous.
"""
IN_WAIT = 4
"""Registers of transposed tiles that hold elements of `b` until they are multiplied."""
FROM_AFAR = 1
"""
The extra time of a vector of a transposed panel of `a`, in products, if the panel does
not fit into L1: all of it is read again for each tile.
"""
PANEL_BYTES, PANEL_VECTORS = 1 << 19, 2
"""The largest transposed panel of `a`, in bytes and vectors: it has to come from L2."""
TRANSPOSING = 128
"""
The time of transposing and storing as many columns as there are lanes, in products.
"""
ACROSS, LOADING_ACROSS, STORING_ACROSS = 1.05, 2, 8
"""
The penalty of vectors that lie across cache lines, as those of windows do in place, and
the time of loading one and of storing one of a line, in products.
"""
LINE = 64
"""The bytes of a cache line."""
NEAR_BYTES = 1 << 15
"""The bytes that stay in L1 while tiles run over them."""
REUSE_TERMS = 192
"""The most terms of a copy of rows."""
SUMMING, LOADING = 4, 1 / 8
"""
The time of loading and storing a vector of sums, in products; and the extra time of a
load over `tile_time`, where all else is in L1.
"""


def tile_time(rows: int, vectors: int, edge: int = 0) -> float:
    """The time of a tile for each term, in products of vectors."""
    products, loads = rows * vectors + edge, rows + vectors + 2 * edge
    return max(products, loads, IN_FLIGHT) + loads / 16


def strip_time(
    tile: tuple[int, int], rows: int, vectors: int, terms: int, edge: int = 0
) -> float:
    """The time of all rows of a strip, which may have fewer vectors than a tile has."""
    height = tile[0]
    whole, rest = divmod(rows, height)
    time = whole * (terms * tile_time(height, vectors, edge) + TILE_OVERHEAD)
    last = terms * tile_time(rest, vectors, edge) + TILE_OVERHEAD if rest else 0
    return time + last


def fitting_tiles(registers: int) -> Iterator[tuple[int, int]]:
    """The rows and vectors of tiles that leave registers for one row of `b`."""
    for vectors in range(1, MAX_WIDTH + 1):
        for rows in range(1, registers):
            needed = vectors + 1 if rows == 1 else rows * vectors + vectors + 1
            if needed <= registers:
                yield rows, vectors


def tile_seconds(
    tile: tuple[int, int], rows: int, columns: int, terms: int, lanes: int
) -> float:
    """The time of all strips of a tile, in products of vectors."""
    of_columns = ceil(columns / lanes)
    whole, rest = divmod(of_columns, tile[1])
    total = whole * strip_time(tile, rows, tile[1], terms)
    if not rest:
        return total
    return total + strip_time(tile, rows, rest, terms)


def fastest_tile(
    times: Mapping[tuple[int, int], float], columns: int, lanes: int
) -> tuple[int, int]:
    """The tile of least time, where strips of two kinds are worth a little."""

    def time(tile: tuple[int, int]) -> tuple[float, tuple[int, int]]:
        return times[tile] * (UNEVEN if leaves(tile, columns, lanes) else 1), tile

    return min(times, key=time)


def common_tile(
    times: Mapping[tuple[int, int], float], columns: int, lanes: int, registers: int
) -> tuple[int, int]:
    """
    A tile that many kernels have, if it takes hardly more time than the fastest one:
    one that leaves no columns before others. Kernels of few tiles have few forms.
    """
    most = CLOSE * min(times.values())
    near = [tile for tile in COMMON[registers] if times.get(tile, inf) <= most]
    if not near:
        return fastest_tile(times, columns, lanes)
    return min(near, key=lambda tile: leaves(tile, columns, lanes))


def leaves(tile: tuple[int, int], columns: int, lanes: int) -> bool:
    """Whether whole strips of a tile leave columns."""
    return ceil(columns / lanes) % tile[1] > 0


def tiles_of(
    rows: int, columns: int, lanes: int, registers: int
) -> Iterator[tuple[int, int]]:
    """The tiles that fit, and are no larger than the result."""
    for tile in fitting_tiles(registers):
        if tile[0] <= rows and tile[1] <= ceil(columns / lanes):
            yield tile


@lru_cache(maxsize=1024)
def best_tile(
    rows: int, columns: int, terms: int, lanes: int, registers: int
) -> tuple[int, int]:
    """The rows and vectors of a tile with which all strips take little time."""
    times = {
        tile: tile_seconds(tile, rows, columns, terms, lanes)
        for tile in tiles_of(rows, columns, lanes, registers)
    }
    return common_tile(times, columns, lanes, registers)


@lru_cache(maxsize=1024)
def best_edged_tile(
    rows: int, columns: int, terms: int, lanes: int, registers: int
) -> tuple[int, int] | None:
    """
    The tile with which all strips take least time whose columns are vectors and one
    more, if that is less than what tiles of vectors take.
    """
    usual = best_tile(rows, columns, terms, lanes, registers)
    least = tile_seconds(usual, rows, columns, terms, lanes)
    found = None
    for tile in fitting_tiles(registers):
        height, vectors = tile
        count, rest = divmod(columns, vectors * lanes + 1)
        needed = height * vectors + vectors + 3
        if rest or not MIN_EDGED_ROWS <= height <= min(rows, lanes):
            continue
        time = count * strip_time(tile, rows, vectors, terms, 1)
        if needed <= registers and time < least:
            found, least = tile, time
    return found


def evenly(extent: int, most: int) -> int:
    """The size of parts, none larger than `most`, that are as even as can be."""
    return ceil(extent / ceil(extent / most))


def reuse_depth(width: int, terms: int, size: int) -> int:
    """The terms of a block whose panel of columns stays near: whole lines of rows."""
    most = max(1, min(REUSE_TERMS, NEAR_BYTES // (width * size)))
    step = LINE // size
    return min(terms, ceil(evenly(terms, most) / step) * step)


@lru_cache(maxsize=1024)
def best_reusing_tile(
    rows: int, columns: int, terms: int, lanes: int, size: int, registers: int
) -> tuple[int, int]:
    """
    A tile with which all strips take little time, if sums are added to for each block
    of terms.
    """

    def time(tile: tuple[int, int]) -> float:
        height, vectors = tile
        across, down = ceil(columns / lanes / vectors), ceil(rows / height)
        blocks = ceil(terms / reuse_depth(vectors * lanes, terms, size))
        sums = rows * ceil(columns / lanes) * blocks * SUMMING
        loads = across * down * terms * (height + vectors) * LOADING
        return tile_seconds(tile, rows, columns, terms, lanes) + sums + loads

    times = {tile: time(tile) for tile in tiles_of(rows, columns, lanes, registers)}
    return common_tile(times, columns, lanes, registers)


def in_place_tile(
    contraction: Contraction, vector_bytes: int
) -> tuple[float, tuple[int, int]] | None:
    """
    The time of the best tile that reads windows where they lie, line by line, and this
    tile; None if they have padding, or columns are no neighbours.
    """
    if contraction.bounds or contraction.b_steps[1] != 1:
        return None
    rows, columns, terms = contraction.in_lines.extents
    lanes = vector_bytes // BYTES[contraction.element]
    tiles = tiles_of(rows, columns, lanes, REGISTERS[vector_bytes])
    times = {tile: tile_seconds(tile, rows, columns, terms, lanes) for tile in tiles}
    tile = fastest_tile(times, columns, lanes)
    lines, vectors = contraction.extents[1] // columns, ceil(columns / lanes)
    loads = LOADING_ACROSS * ceil(rows / tile[0]) * vectors * terms
    time = max(times[tile], loads)
    return lines * (time * ACROSS + STORING_ACROSS * rows * vectors), tile


def transposed_seconds(
    contraction: Contraction, tile: tuple[int, int], lanes: int
) -> float | None:
    """The time of transposed tiles, in products of vectors; None if they do not fit."""
    rows, _, terms = contraction.extents
    most, vectors = tile
    lines = lines_of(contraction, most)
    if lines is None or rows % lanes or contraction.bounds:
        return None
    whole, rest = divmod(rows // lanes, vectors)
    total = 0.0
    size = terms * lanes * BYTES[contraction.element]
    for height, panels in ((vectors, whole), (rest, int(rest > 0))):
        afar = FROM_AFAR * (height * size > NEAR_BYTES)
        for columns, count in lines.sizes:
            time = terms * (transposed_time(columns, height) + afar * height)
            time += TILE_OVERHEAD + height * ceil(columns / lanes) * TRANSPOSING
            total += panels * count * time
    return total * (UNEVEN if len(lines.sizes) > 1 else 1)


def transposed_time(columns: int, vectors: int) -> float:
    """
    The time of a transposed tile for each term, in products. Single elements of `b` are
    loaded at less than the speed of products.
    """
    products, loads = columns * vectors, columns + vectors
    return max(products, 1.3 * loads, IN_FLIGHT) + loads / 16


def transposed_tiles(
    contraction: Contraction, vector_bytes: int
) -> list[tuple[float, tuple[int, int]]]:
    """The time of each upright tile that fits, and its columns and vectors."""
    rows, _, terms = contraction.extents
    lanes = vector_bytes // BYTES[contraction.element]
    most = min(PANEL_VECTORS, PANEL_BYTES // (terms * vector_bytes))
    return [
        (time, tile)
        for tile in fitting_tiles(REGISTERS[vector_bytes] - IN_WAIT)
        if tile[1] <= max(1, min(most, rows // lanes))
        and (time := transposed_seconds(contraction, tile, lanes)) is not None
    ]
