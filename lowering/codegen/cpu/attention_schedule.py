"""Schedule of attention on a CPU: form, tile, blocks of keys, and room on the stack."""

from __future__ import annotations

from functools import lru_cache
from math import ceil, lcm

from penstock.dialects.kernel.attention import AttentionOp
from penstock.dialects.kernel.attention_gradient import AttentionGradientOp
from penstock.dialects.kernel.interface import REFUSAL, SCHEDULE
from penstock.dialects.launch import (
    AttentionAttr,
    AttentionGradientAttr,
    KernelOp,
)
from penstock.lowering.codegen.body.attention import Attention
from penstock.lowering.codegen.body.attention_gradient import AttentionGradient
from penstock.lowering.codegen.body.scheduling import set_schedule
from penstock.lowering.codegen.cpu.attention import (
    KEPT,
    MAX_STACK_BYTES,
    attention_misfit,
    cpu_attention_of,
    is_packed,
)
from penstock.lowering.codegen.cpu.attention_gradient import (
    cpu_gradient_of,
    gradient_misfit,
)
from penstock.lowering.codegen.cpu.tile_model import evenly, strip_time, tile_time
from penstock.lowering.codegen.cpu.vector_width import REGISTERS

BYTES = {"f32": 4, "f64": 8}
MAX_VECTORS, MAX_HEIGHT = 4, 14
MAX_MIXED, MAX_MIXED_ROWS = 6, 8
KEYS, KEYS_OF_ROWS = 144, 2048
FEW_ROWS, KEYS_AT_ONCE = 4, 4
SHARED = 72
"""About the keys and the queries of a block of gradients, whose shares stay in L2."""


def height_of(vectors: int, registers: int, most: int = MAX_HEIGHT) -> int:
    """The rows of the largest tile that leaves registers for one of its lines."""
    return max(1, min(most, (registers - 1 - vectors) // vectors))


def scores_time(vectors: int, registers: int) -> float:
    """The time of a key for each term and block of queries, in products of vectors."""
    height = height_of(vectors, registers)
    return tile_time(height, vectors) / height


@lru_cache(maxsize=1024)
def best_vectors(rows: int, lanes: int, registers: int) -> int:
    """The vectors of queries that all blocks take least time with."""

    def time(vectors: int) -> float:
        whole, rest = divmod(rows, vectors * lanes)
        last = scores_time(ceil(rest / lanes), registers) if rest else 0
        return whole * scores_time(vectors, registers) + last

    most = min(MAX_VECTORS, ceil(rows / lanes))
    fitting = (n for n in range(1, most + 1) if n == 1 or 2 * n + 1 < registers)
    return min(fitting, key=lambda vectors: (time(vectors), -vectors))


@lru_cache(maxsize=1024)
def best_mix(depth: int, rows: int, lanes: int, registers: int) -> tuple[int, int]:
    """
    The rows and vectors of the tiles in which values are added to so many rows of the
    result, those of a block.
    """
    vectors = ceil(depth / lanes)
    tiles = [
        (height, width)
        for width in range(1, min(MAX_MIXED, vectors) + 1)
        if vectors % width == 0
        for height in range(
            1, min(height_of(width, registers, MAX_MIXED_ROWS), rows) + 1
        )
    ]

    def time(tile: tuple[int, int]) -> float:
        return vectors // tile[1] * strip_time(tile, rows, tile[1], KEYS)

    return min(tiles, key=lambda tile: (time(tile), tile))


def attention_schedule_of(attention: Attention, vector_bytes: int) -> AttentionAttr:
    """The schedule of attention that can have one."""
    lanes, registers = vector_bytes // BYTES[attention.element], REGISTERS[vector_bytes]

    def mix(queries: int) -> tuple[int, int]:
        rows = min(queries, attention.rows)
        return best_mix(attention.depth, rows, lanes, registers)

    if attention.rows <= FEW_ROWS:
        found = AttentionAttr(
            "rows",
            (KEYS_AT_ONCE, 1, lanes),
            mix(attention.rows),
            keys_of(attention.keys, KEYS_OF_ROWS, KEYS_AT_ONCE),
        )
        if attention_misfit(attention, found) is None:
            return found
    vectors = best_vectors(attention.rows, lanes, registers)
    while vectors > 1 and not room_of(attention, vectors, lanes, registers):
        vectors -= 1
    height = height_of(vectors, registers)
    most = room_of(attention, vectors, lanes, registers) or height
    keys, whole = keys_of(attention.keys, most, height), lcm(height, lanes)
    transposes = any(is_packed(operand) for _, operand in attention.inputs)
    if transposes and whole <= most < attention.keys:
        keys = most // whole * whole
    return AttentionAttr(
        "columns", (height, vectors, lanes), mix(vectors * lanes), keys
    )


def room_of(attention: Attention, vectors: int, lanes: int, registers: int) -> int:
    """The keys of a block for whose whole tiles the stack has room; 0 for no tile."""
    line = vectors * lanes * BYTES[attention.element]
    panels = 1 + sum(is_packed(operand) for _, operand in attention.inputs)
    room = (MAX_STACK_BYTES // line - attention.terms - KEPT) // panels
    height = height_of(vectors, registers)
    return KEYS if room >= KEYS + height else max(0, room // height * height)


def keys_of(keys: int, most: int, tile: int) -> int:
    """The keys of a block: whole tiles."""
    return ceil(evenly(keys, most) / tile) * tile


def schedule_attention(kernel: KernelOp, vector_bytes: int) -> None:
    """Schedule the attention of a kernel, and gradients of attention."""
    for op in kernel.body.block.ops:
        if SCHEDULE in op.attributes or REFUSAL in op.attributes:
            continue
        if isinstance(op, AttentionOp):
            set_schedule(op, schedule_or_refusal(op, vector_bytes))
        elif isinstance(op, AttentionGradientOp):
            set_schedule(op, gradient_schedule_or_refusal(op, vector_bytes))


def gradient_schedule_of(
    found: AttentionGradient, vector_bytes: int
) -> AttentionGradientAttr:
    """The schedule of gradients of attention that can have one."""
    lanes, registers = vector_bytes // BYTES[found.element], REGISTERS[vector_bytes]
    vectors = best_vectors(found.rows, lanes, registers)
    while True:
        height = height_of(vectors, registers)
        whole = lcm(height, vectors * lanes)
        queries = whole * ceil(min(found.rows, SHARED) / whole)
        keys = keys_of(found.keys, SHARED, height)
        widest = ceil(max(found.terms, found.depth) / lanes)
        mix = height, min(vectors, widest)
        schedule = AttentionGradientAttr((height, vectors, lanes), mix, queries, keys)
        if vectors == 1 or gradient_misfit(found, schedule) is None:
            return schedule
        vectors -= 1


def gradient_schedule_or_refusal(
    op: AttentionGradientOp, vector_bytes: int
) -> AttentionGradientAttr | str:
    """The schedule of gradients of attention, or why they have none."""
    found = cpu_gradient_of(op)
    if isinstance(found, str):
        return found
    schedule = gradient_schedule_of(found, vector_bytes)
    return gradient_misfit(found, schedule) or schedule


def schedule_or_refusal(op: AttentionOp, vector_bytes: int) -> AttentionAttr | str:
    """The schedule of attention, or why it has none."""
    found = cpu_attention_of(op)
    if isinstance(found, str):
        return found
    schedule = attention_schedule_of(found, vector_bytes)
    return attention_misfit(found, schedule) or schedule
