"""
Schedule of a CPU contraction: form, tile, blocks, packing and panels of an operand.

The rules are told in `penstock.lowering.launch.schedule_contractions`, the pass that
schedules kernels by them.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf, prod

from penstock.dialects.launch.schedules.cpu_matmul import (
    GROUP,
    MAX_PANEL_ELEMENTS,
    SIDE,
    ContractionAttr,
)
from penstock.lowering.codegen.body.contraction import Contraction
from penstock.lowering.codegen.cpu.tile_model import (
    BYTES,
    IN_FLIGHT,
    LINE,
    NEAR_BYTES,
    PACKING,
    PACKING_APART,
    best_edged_tile,
    best_reusing_tile,
    best_tile,
    evenly,
    in_place_tile,
    reuse_depth,
    strip_time,
    tile_seconds,
    transposed_tiles,
)
from penstock.lowering.codegen.cpu.transposed_tiles import lines_of
from penstock.lowering.codegen.cpu.vector_width import REGISTERS

FEW_ROWS = 8
LEAST_VECTORS = 8
"""The least vectors of terms that are worth the sum of their lanes."""
PACKED_ROWS, CACHED_BYTES = 64, 1 << 18
"""The rows that make packing worth it, and the bytes of `b` from which on they do."""
PANEL_BESIDE_BYTES = 20 << 10
"""
The largest panel that stays in L1 while panels of `a`, which are read once for it, go
through it.
"""
CACHED_TERMS, CACHED_ELEMENTS = 256, 1 << 14
REUSE_ROWS, REUSE_PACKED_ROWS, REUSE_ELEMENTS = 16, 32, 1 << 15
"""
The least rows and elements that are worth a copy of rows, and the rows from which on
columns have to be packed for it.
"""
COPIED_BYTES = 3 << 17
"""
The largest copy of rows, which each panel of columns reads: it stays in L2. For each
copy all columns are packed anew.
"""
PACKING_ELEMENT = 1
"""The time of packing an element of rows or columns, in products of vectors."""
UNITS_OF_A_PART = 4
MIN_HEIGHT = 64


def has_lines(contraction: Contraction) -> bool:
    """Whether the columns of `b` are contiguous."""
    columns = contraction.extents[1]
    return not contraction.has_windows and (columns == 1 or contraction.b_steps[1] == 1)


def is_along_terms(contraction: Contraction, lanes: int, constant: str) -> bool:
    """Whether vectors should run along the terms of the sum."""
    rows, columns, terms = contraction.extents
    if contraction.has_windows:
        return False
    is_narrow = 8 * columns <= 5 * lanes and terms >= LEAST_VECTORS * lanes
    if constant == "b" and is_narrow:
        return contraction.a_steps[1] == 1
    if rows >= FEW_ROWS:
        return False
    if has_lines(contraction) and columns > 1:
        return False
    # Panels need no sums of lanes, where tiles have enough vectors to be busy.
    if constant == "b" and rows * columns >= IN_FLIGHT * lanes:
        return False
    steps = contraction.a_steps[1], contraction.b_steps[0]
    return terms == 1 or steps == (1, 1)


def most_terms(columns: int, terms: int, size: int, packed: bool, stored: bool) -> int:
    """
    The terms that a block of so many columns of elements of a size may have. Where `a`
    lies in panels, only the columns need be near.
    """
    if packed:
        most = MAX_PANEL_ELEMENTS
        if stored and columns * terms * size > 2 * NEAR_BYTES:
            most = PANEL_BESIDE_BYTES // size
        return max(1, most // columns)
    return max(CACHED_TERMS, CACHED_ELEMENTS // columns)


def depth_of(contraction: Contraction, most: int) -> int:
    """The terms of a block: whole windows, if there are any."""
    if not contraction.has_windows:
        return evenly(contraction.extents[2], most)
    inner = contraction.inner_terms
    outer = contraction.extents[2] // inner
    return evenly(outer, max(1, most // inner)) * inner


def is_shared(units: int, parts: int) -> bool:
    """
    Whether there are enough units of work to keep all parts busy. As many as parts are
    not, even if all take as long: cores do not, where other programs run.
    """
    return parts == 1 or units >= UNITS_OF_A_PART * parts


def height_of(
    contraction: Contraction, tile_rows: int, columns: int, least: int, parts: int
) -> int:
    """The rows of a unit of work: a multiple of those of a tile."""
    rows, all_columns, _ = contraction.extents
    units = prod(contraction.outer_extents) * ceil(all_columns / columns)
    most = max(1, rows // max(least, tile_rows))
    pieces = range(1, most + 1)
    count = next((n for n in pieces if is_shared(units * n, parts)), most)
    return ceil(ceil(rows / count) / tile_rows) * tile_rows


def reuse_schedule(
    contraction: Contraction,
    vector_bytes: int,
    parts: int,
    constant: str,
) -> ContractionAttr | None:
    """The schedule with which columns reuse a copy of rows, if that is worth it."""
    rows, columns, terms = contraction.extents
    size = BYTES[contraction.element]
    lanes, registers = vector_bytes // size, REGISTERS[vector_bytes]
    least = REUSE_ROWS if constant == "b" else REUSE_PACKED_ROWS
    if contraction.has_windows or constant == "a":
        return None
    if rows < least or rows * terms < REUSE_ELEMENTS:
        return None
    tile = best_reusing_tile(rows, columns, terms, lanes, size, registers)
    if columns <= tile[1] * lanes:
        return None
    height, depth, reuse = reuse_block(contraction, tile, lanes, parts)
    return ContractionAttr(
        "outer",
        (*tile, lanes),
        (height, depth),
        packed=constant != "b",
        reuse=reuse,
        panels=constant,
    )


def reuse_block(
    contraction: Contraction, tile: tuple[int, int], lanes: int, parts: int
) -> tuple[int, int, int]:
    """
    The rows and the terms of a block that is copied, and the panels that reuse a copy.
    Threads share blocks of rows and groups of panels: of all numbers of them those with
    which the last one is done first.
    """
    height, width = tile[0], tile[1] * lanes
    rows, columns, terms = contraction.extents
    unit = contraction.group
    size = BYTES[contraction.element]
    depth = reuse_depth(width, ceil(terms / unit), size)
    most = max(1, COPIED_BYTES // size // depth // height)
    tiles, panels = ceil(rows / height), ceil(columns / width)
    fewest = ceil(tiles / most)
    outer = prod(contraction.outer_extents)
    units = UNITS_OF_A_PART * parts

    def sizes(groups: int) -> Iterator[tuple[int, int]]:
        """The tiles and panels of a unit, if there are so many groups of panels."""
        for wanted in range(parts, units + 1, parts):
            blocks = max(fewest, min(tiles, ceil(wanted / outer / groups)))
            yield ceil(tiles / blocks), ceil(panels / groups)

    def time(down: int, across: int) -> float:
        """The time of all threads for each term, in products of vectors."""
        blocks, groups = ceil(tiles / down), ceil(panels / across)
        packed = (blocks * columns + groups * rows) * PACKING_ELEMENT
        # Where other programs run, threads end half a unit apart.
        turns = ceil(outer * blocks * groups / parts) + (parts > 1) / 2
        return outer * packed / parts + turns * down * height * across * width / lanes

    counts = range(1, min(panels, units) + 1)
    found = {pair for groups in counts for pair in sizes(groups)}
    down, across = min(found, key=lambda pair: (time(*pair), pair))
    return down * height, depth * unit, across


def grouped_schedule(
    contraction: Contraction,
    vector_bytes: int,
    parts: int,
    constant: str,
    matrices: bool,
) -> ContractionAttr:
    """
    The schedule of a matmul of groups of terms, in AMX tiles (`matrices`) if these are
    of bytes and that is worth it.
    """
    rows, columns, terms = contraction.extents
    group = contraction.group
    lanes, registers = vector_bytes // GROUP, REGISTERS[vector_bytes]
    is_whole = terms % (GROUP * SIDE) == columns % SIDE == 0
    in_matrices = matrices and group == GROUP and rows >= SIDE and lanes == SIDE
    if in_matrices and (constant != "b" or is_whole):
        tile = SIDE * min(2, ceil(rows / SIDE)), min(2, ceil(columns / SIDE))
        height, depth, reuse = reuse_block(contraction, tile, lanes, parts)
        return ContractionAttr(
            "outer",
            (*tile, lanes),
            (height, ceil(depth / (GROUP * SIDE)) * GROUP * SIDE),
            packed=constant != "b",
            reuse=reuse,
            matrices=True,
            panels="b" if constant == "b" else "",
        )
    groups = ceil(terms / group)
    tile = best_reusing_tile(rows, columns, groups, lanes, GROUP, registers)
    height, depth, reuse = reuse_block(contraction, tile, lanes, parts)
    is_stored = constant == "b" and terms % group == 0
    return ContractionAttr(
        "outer",
        (*tile, lanes),
        (height, depth),
        packed=not is_stored,
        reuse=reuse,
        group=group,
        panels="b" if is_stored else "",
    )


def unpacked_schedule(
    contraction: Contraction,
    vector_bytes: int,
    parts: int,
    constant: str,
    least: float,
) -> ContractionAttr | None:
    """
    The schedule that reads windows where they lie, upright or line by line, if that
    takes less than some time.
    """
    facts = contraction, vector_bytes
    time, tile = in_place_tile(*facts) or (inf, (1, 1))
    if constant == "a" and contraction.starts:
        upright, its_tile = min(transposed_tiles(*facts), default=(inf, (1, 1)))
        if upright < min(time, least):
            return upright_schedule(contraction, vector_bytes, parts, its_tile)
    if time >= least:
        return None
    lines, (height, vectors) = contraction.in_lines, tile
    lanes = vector_bytes // BYTES[contraction.element]
    rows, _, terms = lines.extents
    return ContractionAttr(
        "outer",
        (height, vectors, lanes),
        (height_of(lines, height, vectors * lanes, MIN_HEIGHT, parts), terms),
        panels="a" if constant == "a" and rows > 1 else "",
    )


def upright_schedule(
    contraction: Contraction, vector_bytes: int, parts: int, tile: tuple[int, int]
) -> ContractionAttr:
    """The schedule in upright tiles."""
    lanes = vector_bytes // BYTES[contraction.element]
    most, vectors = tile
    block = transposed_length(contraction, most, parts)
    return ContractionAttr(
        "upright",
        (most, vectors, lanes),
        (block, contraction.extents[2]),
        panels="a",
    )


def transposed_length(contraction: Contraction, most: int, parts: int) -> int:
    """
    The columns of a unit of work of upright tiles of so many columns at most: whole
    turns. Parts share columns rather than rows: they are pixels, of which the next
    kernel, too, reads all rows.
    """
    lines = lines_of(contraction, most)
    assert lines is not None, "has been looked at"
    turns = lines.turns + (lines.tail[0] > 0)
    units, pieces = prod(contraction.outer_extents), range(1, turns + 1)
    count = next((n for n in pieces if is_shared(units * n, parts)), turns)
    return ceil(turns / count) * lines.columns


def schedule_of(
    contraction: Contraction,
    vector_bytes: int,
    parts: int,
    constant: str = "",
) -> ContractionAttr:
    """The schedule of a contraction, of which one operand may lie in panels."""
    size = BYTES[contraction.element]
    lanes = vector_bytes // size
    rows, columns, terms = contraction.extents
    if is_along_terms(contraction, lanes, constant):
        most = 5 if REGISTERS[vector_bytes] > 16 else 2
        if rows < FEW_ROWS:
            most = 8 if rows < 3 else 4
        tile = min(rows, 4), evenly(columns, most)
        block = height_of(contraction, *tile, MIN_HEIGHT, parts), terms
        is_stored = constant == "b" and contraction.b_steps[0] != 1
        panels = "b" if is_stored else ""
        return ContractionAttr("inner", (*tile, lanes), block, panels=panels)
    reusing = reuse_schedule(contraction, vector_bytes, parts, constant)
    if reusing is not None:
        return reusing
    facts = rows, columns, terms, lanes, REGISTERS[vector_bytes]
    edged = best_edged_tile(*facts) if constant == "a" else None
    if edged is not None and not fits_windows(contraction, edged[1] * lanes + 1):
        edged = None
    height, width = edged or best_tile(*facts)
    if contraction.has_windows and edged is None:
        width = min(width, MAX_PANEL_ELEMENTS // (contraction.inner_terms * lanes))
    panel = width * lanes + (edged is not None)
    is_split = contraction.b_steps[0] * size % LINE != 0
    is_large = columns * terms * size > CACHED_BYTES
    many = rows >= PACKED_ROWS and (is_split or is_large)
    packed = many or not has_lines(contraction)
    if contraction.has_windows:
        follow = contraction.b_steps[1] == 1
        time = ceil(columns / lanes) * terms * (PACKING if follow else PACKING_APART)
        if edged is None:
            time += tile_seconds((height, width), rows, columns, terms, lanes)
        else:
            time += columns // panel * strip_time(edged, rows, width, terms, 1)
        shape = contraction, vector_bytes, parts, constant
        if (unpacked := unpacked_schedule(*shape, time)) is not None:
            return unpacked
    in_order = packed or (columns > panel and is_large)
    is_stored = (constant == "a" and rows > 1) or (constant == "b" and in_order)
    most = most_terms(panel, terms, size, packed, is_stored and constant == "a")
    packed = packed and not (is_stored and constant == "b")
    depth = depth_of(contraction, most) if packed or rows > height else terms
    return ContractionAttr(
        "outer",
        (height, width, lanes),
        (height_of(contraction, height, panel, MIN_HEIGHT, parts), depth),
        packed=packed,
        edge=int(edged is not None),
        panels=constant if is_stored else "",
    )


def fits_windows(contraction: Contraction, width: int) -> bool:
    """Whether panels of so many columns hold all terms of a window, if it has any."""
    terms = contraction.inner_terms
    return not contraction.has_windows or terms * width <= MAX_PANEL_ELEMENTS


def window_refusal(contraction: Contraction, lanes: int) -> str | None:
    """Why windows cannot be packed, if so."""
    if not fits_windows(contraction, lanes):
        return f"windows of {contraction.inner_terms} terms do not fit into panels"
    return None


def schedule_or_refusal(
    contraction: Contraction,
    vector_bytes: int,
    parts: int,
    constant: str,
    matrices: bool = False,
) -> ContractionAttr | str:
    """The schedule of a contraction, or why it has none."""
    facts = contraction, vector_bytes, parts
    if contraction.factors is not None:
        return grouped_schedule(*facts, constant, matrices)
    lanes = vector_bytes // BYTES[contraction.element]
    if (refusal := window_refusal(contraction, lanes)) is None:
        return schedule_of(*facts, constant)
    return unpacked_schedule(*facts, constant, inf) or refusal
