"""
Give sums of products in kernels for `cpu` a schedule: tiles in vector registers.

A `linalg` op is scheduled if it adds products of two floats or integers of 32 or 64
bits to its output, or of two bytes to one of 32 bits, and its loops can be sorted into
rows, columns and terms (`penstock.lowering.codegen.body.contraction`); so can those of
matrix products and of convolutions. A sum of products for which that does not hold gets
the attribute `no_schedule` with the reason, and so does one with windows that fewer
than four rows share. What has one of both already keeps it. The attribute `schedule`, a
`#launch.contraction`, says all that the source depends on, and may be written by hand:

* *Form*. `outer` (vectors along columns), unless columns of `b` do not follow each
  other, terms of `a` and of `b` do, and there are few rows: then `inner` (vectors along
  terms); so too where columns are at most five eighths of a vector, terms of `a` follow
  each other and are eight vectors or more, and `b` is a constant that only this kernel
  reads: its columns then lie in panels, one after the other.
  Or `upright` (vectors along rows), if columns would have to be packed, rows
  are whole vectors and `a` lies in panels, and if transposing the sums, and reading
  panels of `a` that are not near, takes less time than packing.
* *Tile*. Of all tiles that fit into the registers, the one with the least modelled
  time: for each term a tile takes as long as its products, as its loads, or as eight
  products, whichever takes longest; tiles at the edges count like the others.
* *Panels*, if an operand is a constant that only this kernel reads, in this one place
  (`penstock.lowering.analysis.constant_arguments`): `a`, or a `b` that would be packed,
  or one of more than 256 KiB that one tile of all rows reads once, at the pace of
  memory. The variable then lies in the order in which tiles read it, from when it is
  loaded on.
* *Edge*, if `a` lies in panels, and tiles of whole vectors and one column more take
  less time: 49 columns.
* *Packed*, if columns do not follow each other or are windows, or if at least 64 rows
  read a `b` of more than 256 KiB, or one whose terms do not all begin at the same place
  of a 64-byte line, so that vectors lie across lines. The panel has up to 32768
  elements; where `a` lies in panels, up to 20 KiB, unless all fits into 64. Where
  nothing is packed, blocks of up to 256 terms (or 16384 elements) keep columns in the
  cache. Zeros around `b` (`launch.padded`) are left out when it is packed, so that it
  always is; other factors with zeros around them get no schedule.
* *Reuse*. Where columns take several tiles, and there are at least 16 rows of together
  32768 elements in `a`, which lies in no panels and has no windows: blocks of rows are
  copied in the order in which tiles read them, and all columns computed with the copy.
  Then `b` is packed as well, for at least 32 rows, and a block has as many terms as
  leave 32 KiB to a panel, and as many rows as the stack allows.
* *Quads*, if factors are bytes, whose sums have 32 bits: four terms at once. Then rows
  are copied always, and columns packed, unless `b` is a constant that only this kernel
  reads, of whole quads of terms: that lies in panels. With `matrices`, and 16 rows or
  more, tiles are registers of these, if such a `b` has whole ones.
* *Height*. All rows; for several `parts` as many as give each at least four units of
  work.
* *Folds*. As many phases around it as can be computed in registers
  (`penstock.lowering.codegen.body.epilogue`).

What is computed of each window of an image says its `windows`, and gets a
`#launch.windows`, or a `no_schedule`: for a convolution of channels on their own
vectors no longer than lines, and tiles of up to 8 lines; for largest elements and means
vectors that run on from line to line, and tiles in which at most 200 are combined.

Vectors have `vector_bytes`; by default what the processor has that compiles, so that a
plan made elsewhere should be given this number. The number stands in the schedule: a
processor with narrower vectors computes the same, if not as fast.

Example: `test/lowering/launch/launch-schedule-contractions-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf, prod
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.launch import KernelOp, PanelsAttr
from penstock.dialects.launch.packed_layout import PANELS
from penstock.dialects.launch.schedules.cpu_matmul import (
    MAX_PANEL_ELEMENTS,
    QUAD,
    REFUSAL,
    SCHEDULE,
    SIDE,
    ContractionAttr,
)
from penstock.dialects.launch.schedules.cpu_winograd import TransformAttr
from penstock.lowering.analysis.constant_arguments import called_kernels
from penstock.lowering.codegen.body.contraction import Contraction, contraction_of
from penstock.lowering.codegen.body.epilogue import most_fused, phases_of
from penstock.lowering.codegen.cpu.packed_operands import (
    argument_of,
    element_count,
    matrices_of,
    panels_of,
    uses_of,
)
from penstock.lowering.codegen.cpu.transposed_tiles import lines_of
from penstock.lowering.codegen.cpu.window import windowed_of, windows_schedule
from penstock.lowering.codegen.cpu.winograd import transform_folds, transform_of

BYTES = {"f32": 4, "f64": 8, "i32": 4, "i64": 8}
VECTOR_BYTES = (16, 32, 64)
REGISTERS = {16: 16, 32: 16, 64: 32}
"""Vector registers of processors with vectors of this many bytes."""
IN_FLIGHT = 8
"""Products that have to be independent to keep a processor busy."""
TILE_OVERHEAD = 20
"""What a tile takes besides its products, in products."""
UNEVEN = 1.02
"""What strips of two kinds are worth less: they take twice as long to compile."""
MAX_WIDTH = 24
"""The vectors of a tile of one row."""
FEW_ROWS = 8
LEAST_VECTORS = 8
"""The least vectors of terms that are worth the sum of their lanes."""
MIN_EDGED_ROWS = 4
"""The least rows of a tile whose vectors along rows are worth it."""
PACKING, PACKING_APART = 7, 10
"""
What it takes to copy a vector of windows to a panel, in products; and one of windows
that do not follow each other.
"""
IN_WAIT = 4
"""Registers of upright tiles that hold elements of `b` until they are multiplied."""
FROM_AFAR = 1
"""
What a vector of an upright panel of `a` takes besides, in products, if the panel does
not fit into the nearest cache: all of it is read again for each tile.
"""
PANEL_BYTES, PANEL_VECTORS = 1 << 19, 2
"""What an upright panel of `a` may have: it has to come from the second cache."""
TRANSPOSING = 128
"""What it takes to transpose and store as many columns as there are lanes."""
PACKED_ROWS, CACHED_BYTES, LINE = 64, 1 << 18, 64
NEAR_BYTES = 1 << 15
"""What stays in the nearest cache while tiles run over it."""
PANEL_BESIDE_BYTES = 20 << 10
"""What does while panels of `a`, which are read once for it, go through that cache."""
CACHED_TERMS, CACHED_ELEMENTS = 256, 1 << 14
REUSE_ROWS, REUSE_PACKED_ROWS, REUSE_ELEMENTS = 16, 32, 1 << 15
"""What makes a copy of rows worth it; and where columns have to be packed for it."""
REUSE_TERMS, REUSE_PANELS = 192, 4
"""The most terms of a copy, and the panels that a part of the work should have."""
SUMMING, LOADING = 4, 1 / 8
"""What it takes to load and to store a vector of sums, in products; and what a load
takes besides what `tile_time` says, where all else is near."""
UNITS_OF_A_PART = 4
MIN_HEIGHT = 64
MIN_WINDOW_ROWS = 4
MAX_WINDOW_TERMS = 200
PREFETCH = 8


def vector_bytes_here() -> int:
    """The bytes of the widest vectors of this processor."""
    from llvmlite import binding

    features = cast("Mapping[str, bool]", binding.get_host_cpu_features())
    if features.get("avx512f"):
        return 64
    return 32 if features.get("avx2") else 16


def checked_vector_bytes(asked: int | None) -> int:
    """
    The bytes of vectors that a pass is asked for, by default those of this processor.
    Raises `PassFailedException` if there are no such vectors.
    """
    if asked not in (None, *VECTOR_BYTES):
        known = ", ".join(map(str, VECTOR_BYTES))
        raise PassFailedException(f"vectors have {known} bytes, got {asked}")
    return asked or vector_bytes_here()


def has_matrices_here() -> bool:
    """Whether this processor multiplies matrices of bytes."""
    from llvmlite import binding

    features = cast("Mapping[str, bool]", binding.get_host_cpu_features())
    return bool(features.get("amx-int8"))


def tile_time(rows: int, vectors: int, edge: int = 0) -> float:
    """What a tile takes for each term, in products of vectors."""
    products, loads = rows * vectors + edge, rows + vectors + 2 * edge
    return max(products, loads, IN_FLIGHT) + loads / 16


def strip_time(
    tile: tuple[int, int], rows: int, vectors: int, terms: int, edge: int = 0
) -> float:
    """What all rows of a strip take, which may have fewer vectors than a tile has."""
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
    """What all strips of a tile take, in products of vectors."""
    of_columns = ceil(columns / lanes)
    whole, rest = divmod(of_columns, tile[1])
    total = whole * strip_time(tile, rows, tile[1], terms)
    if not rest:
        return total
    return (total + strip_time(tile, rows, rest, terms)) * UNEVEN


@lru_cache(maxsize=1024)
def best_tile(
    rows: int, columns: int, terms: int, lanes: int, registers: int
) -> tuple[int, int]:
    """The rows and vectors of the tile with which all strips take least time."""
    tiles = [
        tile
        for tile in fitting_tiles(registers)
        if tile[0] <= rows and tile[1] <= ceil(columns / lanes)
    ]
    return min(
        tiles, key=lambda tile: (tile_seconds(tile, rows, columns, terms, lanes), tile)
    )


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


def has_lines(contraction: Contraction) -> bool:
    """Whether the columns of `b` follow each other."""
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
    The tile with which all strips take least time, if sums are added to for each block
    of terms.
    """

    def time(tile: tuple[int, int]) -> tuple[float, tuple[int, int]]:
        height, vectors = tile
        across, down = ceil(columns / lanes / vectors), ceil(rows / height)
        blocks = ceil(terms / reuse_depth(vectors * lanes, terms, size))
        sums = rows * ceil(columns / lanes) * blocks * SUMMING
        loads = across * down * terms * (height + vectors) * LOADING
        time = tile_seconds(tile, rows, columns, terms, lanes)
        return time + sums + loads, tile

    tiles = (
        tile
        for tile in fitting_tiles(registers)
        if tile[0] <= rows and tile[1] <= ceil(columns / lanes)
    )
    return min(tiles, key=time)


def reuse_schedule(
    contraction: Contraction,
    vector_bytes: int,
    parts: int,
    folds: tuple[int, int],
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
    *block, reuse = reuse_block(contraction, tile, lanes, parts)
    return ContractionAttr(
        "outer",
        (*tile, lanes),
        block,
        packed=constant != "b",
        folds=folds,
        reuse=reuse,
        panels=constant,
    )


def reuse_block(
    contraction: Contraction, tile: tuple[int, int], lanes: int, parts: int
) -> tuple[int, int, int]:
    """
    The rows and the terms of a block that is copied, and the panels that reuse a copy.
    There are as many blocks and shares of the panels as make enough units of work for
    all parts; of these those for which least is read: all rows for each share of the
    panels, all panels for each block.
    """
    height, width = tile[0], tile[1] * lanes
    rows, columns, terms = contraction.extents
    unit = 1 if contraction.signs is None else QUAD
    depth = reuse_depth(width, ceil(terms / unit), BYTES[contraction.element])
    most = max(1, MAX_PANEL_ELEMENTS // depth // height)
    tiles, panels = ceil(rows / height), ceil(columns / width)
    fewest = ceil(tiles / most)
    highest = max(fewest, tiles // min(most, ceil(MIN_HEIGHT / height)))
    shares = range(1, max(1, panels // REUSE_PANELS) + 1)
    pairs = [(share, n) for share in shares for n in range(fewest, highest + 1)]
    outer = prod(contraction.outer_extents)
    share, blocks = min(
        (pair for pair in pairs if is_shared(outer * prod(pair), parts)),
        key=lambda pair: pair[0] * rows + pair[1] * columns,
        default=pairs[-1],
    )
    return ceil(tiles / blocks) * height, depth * unit, ceil(panels / share)


def quad_schedule(
    contraction: Contraction,
    vector_bytes: int,
    parts: int,
    folds: tuple[int, int],
    constant: str,
    matrices: bool,
) -> ContractionAttr:
    """The schedule of a sum of products of bytes, in `matrices` if that is worth it."""
    rows, columns, terms = contraction.extents
    lanes, registers = vector_bytes // QUAD, REGISTERS[vector_bytes]
    is_whole = terms % (QUAD * SIDE) == columns % SIDE == 0
    if matrices and rows >= SIDE and lanes == SIDE and (constant != "b" or is_whole):
        tile = SIDE * min(2, ceil(rows / SIDE)), min(2, ceil(columns / SIDE))
        height, depth, reuse = reuse_block(contraction, tile, lanes, parts)
        return ContractionAttr(
            "outer",
            (*tile, lanes),
            (height, ceil(depth / (QUAD * SIDE)) * QUAD * SIDE),
            packed=constant != "b",
            folds=folds,
            reuse=reuse,
            matrices=True,
            panels="b" if constant == "b" else "",
        )
    quads = ceil(terms / QUAD)
    tile = best_reusing_tile(rows, columns, quads, lanes, QUAD, registers)
    *block, reuse = reuse_block(contraction, tile, lanes, parts)
    is_stored = constant == "b" and terms % QUAD == 0
    return ContractionAttr(
        "outer",
        (*tile, lanes),
        block,
        packed=not is_stored,
        folds=folds,
        reuse=reuse,
        quads=True,
        panels="b" if is_stored else "",
    )


def upright_seconds(
    contraction: Contraction, tile: tuple[int, int], lanes: int
) -> float | None:
    """What upright tiles take, in products of vectors; None if they do not fit."""
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
            time = terms * (upright_time(columns, height) + afar * height)
            time += TILE_OVERHEAD + height * ceil(columns / lanes) * TRANSPOSING
            total += panels * count * time
    return total * (UNEVEN if len(lines.sizes) > 1 else 1)


def upright_time(columns: int, vectors: int) -> float:
    """
    What an upright tile takes for each term, in products. Single elements of `b` are
    loaded at less than the speed of products.
    """
    products, loads = columns * vectors, columns + vectors
    return max(products, 1.3 * loads, IN_FLIGHT) + loads / 16


def upright_tiles(
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
        and (time := upright_seconds(contraction, tile, lanes)) is not None
    ]


def upright_schedule(
    contraction: Contraction,
    vector_bytes: int,
    parts: int,
    folds: tuple[int, int],
    least: float,
) -> ContractionAttr | None:
    """The schedule in upright tiles, if that takes less than some time."""
    lanes = vector_bytes // BYTES[contraction.element]
    time, tile = min(upright_tiles(contraction, vector_bytes), default=(inf, (1, 1)))
    if not folds[0] or time >= least:
        return None
    most, vectors = tile
    block = upright_length(contraction, most, parts)
    return ContractionAttr(
        "upright",
        (most, vectors, lanes),
        (block, contraction.extents[2]),
        folds=folds,
        panels="a",
    )


def upright_length(contraction: Contraction, most: int, parts: int) -> int:
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


def stored_operand(
    op: LinalgStructuredOperation, contraction: Contraction, constants: Collection[int]
) -> str:
    """The operand that can lie in panels, as nobody else reads it, or nothing."""
    for name, number in (("a", contraction.a), ("b", contraction.b)):
        value = op.operands[number]
        argument = argument_of(value)
        if argument is None or argument.index not in constants:
            continue
        elements = element_count(argument)
        if uses_of(argument) == [op] and matrices_of(contraction, name, elements):
            return name
    return ""


def schedule_of(
    contraction: Contraction,
    vector_bytes: int,
    parts: int,
    folds: tuple[int, int],
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
        return ContractionAttr(
            "inner", (*tile, lanes), block, folds=folds, panels=panels
        )
    reusing = reuse_schedule(contraction, vector_bytes, parts, folds, constant)
    if reusing is not None:
        return reusing
    facts = rows, columns, terms, lanes, REGISTERS[vector_bytes]
    edged = best_edged_tile(*facts) if constant == "a" else None
    height, width = edged or best_tile(*facts)
    if contraction.has_windows and edged is None:
        width = min(width, MAX_PANEL_ELEMENTS // (contraction.inner_terms * lanes))
    panel = width * lanes + (edged is not None)
    is_split = contraction.b_steps[0] * size % LINE != 0
    is_large = columns * terms * size > CACHED_BYTES
    many = rows >= PACKED_ROWS and (is_split or is_large)
    packed = many or not has_lines(contraction)
    if contraction.has_windows and constant == "a":
        follow = contraction.b_steps[1] == 1
        time = ceil(columns / lanes) * terms * (PACKING if follow else PACKING_APART)
        if edged is None:
            time += tile_seconds((height, width), rows, columns, terms, lanes)
        else:
            time += columns // panel * strip_time(edged, rows, width, terms, 1)
        upright = upright_schedule(contraction, vector_bytes, parts, folds, time)
        if upright is not None:
            return upright
    in_order = packed or (columns > panel and is_large)
    is_stored = (constant == "a" and rows > 1) or (constant == "b" and in_order)
    most = most_terms(panel, terms, size, packed, is_stored and constant == "a")
    depth = depth_of(contraction, most) if packed or rows > height else terms
    return ContractionAttr(
        "outer",
        (height, width, lanes),
        (height_of(contraction, height, panel, MIN_HEIGHT, parts), depth),
        packed=packed and not (is_stored and constant == "b"),
        prefetch=PREFETCH if rows == 1 and not packed else 0,
        folds=folds,
        edge=int(edged is not None),
        panels=constant if is_stored else "",
    )


def window_refusal(contraction: Contraction) -> str | None:
    """Why windows are not worth a panel, if so."""
    if not contraction.has_windows:
        return None
    if contraction.extents[0] < MIN_WINDOW_ROWS:
        return "too few rows share the windows"
    if contraction.signs is None and contraction.inner_terms > MAX_WINDOW_TERMS:
        return f"windows of {contraction.inner_terms} terms do not fit into panels"
    return None


def schedule_or_refusal(
    contraction: Contraction,
    vector_bytes: int,
    parts: int,
    folds: tuple[int, int],
    constant: str,
    matrices: bool = False,
) -> ContractionAttr | str:
    """The schedule of a contraction, or why it has none."""
    facts = contraction, vector_bytes, parts, folds
    refusal = window_refusal(contraction)
    if contraction.signs is not None:
        return refusal or quad_schedule(*facts, constant, matrices)
    if refusal is None:
        return schedule_of(*facts, constant)
    upright = upright_schedule(*facts, inf) if constant == "a" else None
    return upright or refusal


def schedule_kernel(
    kernel: KernelOp,
    vector_bytes: int,
    parts: int = 1,
    constants: Collection[int] = (),
    matrices: bool = False,
) -> None:
    """
    Schedule the contractions of a kernel that runs in about so many parts.

    `constants` are the numbers of arguments that may lie in panels; the attribute
    `panels` says which ones have to. With `matrices` bytes are multiplied in registers
    of these.
    """
    phases = phases_of(kernel.body.block)
    panels: list[Attribute] = [UnitAttr()] * len(kernel.body.block.args)
    for position, op in enumerate(phases):
        if SCHEDULE in op.attributes or REFUSAL in op.attributes:
            continue
        if (windowed := windowed_of(op)) is not None:
            own = windowed
            if not isinstance(own, str):
                own = windows_schedule(own, vector_bytes)
            if isinstance(own, str):
                op.attributes[REFUSAL] = StringAttr(own)
            else:
                op.attributes[SCHEDULE] = own
            continue
        if not isinstance(op, LinalgStructuredOperation):
            continue
        if (transform := transform_of(op)) is not None:
            folds = transform_folds(transform, phases, position)
            if folds is not None:
                lanes = vector_bytes // BYTES[transform.element]
                op.attributes[SCHEDULE] = TransformAttr(max(4, lanes), folds)
            continue
        found = contraction_of(op)
        if found is None:
            continue
        schedule = found
        if isinstance(found, Contraction):
            folds = most_fused(found, phases, position)
            constant = stored_operand(op, found, constants)
            facts = vector_bytes, parts, folds, constant, matrices
            schedule = schedule_or_refusal(found, *facts)
        if isinstance(schedule, str):
            op.attributes[REFUSAL] = StringAttr(schedule)
        elif isinstance(found, Contraction) and isinstance(schedule, ContractionAttr):
            op.attributes[SCHEDULE] = schedule
            if schedule.stored:
                number = found.a if schedule.stored == "a" else found.b
                argument = argument_of(op.operands[number])
                assert argument is not None, "has been looked at"
                lies = panels_of(found, schedule, element_count(argument))
                assert lies is not None, "has been looked at"
                panels[argument.index] = lies
    if any(isinstance(lies, PanelsAttr) for lies in panels):
        kernel.attributes[PANELS] = ArrayAttr(panels)


@dataclass(frozen=True)
class LaunchScheduleContractionsPass(ModulePass):
    """
    Compute sums of products in kernels for `cpu` in tiles that stay in registers.
    """

    name = "launch-schedule-contractions"

    vector_bytes: int | None = None
    """The bytes of a vector: 16, 32 or 64. By default what this processor has."""

    parts: int = 1
    """How many threads may share the work of a kernel."""

    matrices: bool | None = None
    """
    Whether registers of matrices multiply bytes. By default if this processor has them,
    and nothing is said of vectors.
    """

    panels: bool = True
    """
    Whether variables may lie in panels: not if others find them by their address.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.parts < 1:
            raise PassFailedException(f"parts must be at least 1, got {self.parts}")
        width, matrices = checked_vector_bytes(self.vector_bytes), self.matrices
        if matrices is None:
            matrices = self.vector_bytes is None and has_matrices_here()
        for kernel, constants in called_kernels(op):
            if kernel.target.data != "cpu" or PANELS in kernel.attributes:
                continue
            constants = constants if self.panels else {}
            schedule_kernel(kernel, width, self.parts, constants, matrices)
            for number, variables in constants.items():
                for variable in variables:
                    variable.panels = kernel.panels[number]
