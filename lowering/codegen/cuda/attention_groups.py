"""
The scheduling of attention on GPUs: the blocks that compute it, and their memory.

Elements of `f16` and `bf16` are computed as `f32`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from penstock.dialects.kernel.attention import AttentionOp
from penstock.dialects.launch.schedules.cuda_attention import SIDE, QueriesAttr
from penstock.dialects.launch.schedules.cuda_matmul import (
    MAX_SHARED_BYTES,
    NARROW_PADDING,
)
from penstock.lowering.codegen.body.attention import Attention, attention_of, kept_as
from penstock.lowering.codegen.body.scalars import HALVES
from penstock.lowering.codegen.cuda.device_limits import (
    CHUNK,
    SIZES,
    STATIC_BYTES,
    VECTORS,
)

FEW_ROWS = 4
WARP_BLOCK = (64, 64)
"""The queries and keys of a block on tensor cores."""
MOST_DEPTH = 128
"""The columns of the result that a warp has registers for."""
WARPS, KEYS_OF_WARP = 8, 4
TILES = ((64, 32), (32, 32), (32, 16), (16, 16))
"""The queries and keys of a block, the best first."""
MOST_COLUMNS = 16
"""The columns of the result that a thread may have, for each of its rows."""


@dataclass(frozen=True)
class CudaAttention:
    """Attention with a schedule for devices."""

    attention: Attention
    schedule: QueriesAttr
    kept: str
    """The type of the elements in memory."""

    @property
    def blocks(self) -> int:
        """The blocks of queries of a stack."""
        return -(-self.attention.rows // self.schedule.queries)

    @property
    def items(self) -> int:
        """All blocks of queries."""
        return prod(self.attention.outer) * self.blocks


def device_attention_of(op: AttentionOp) -> tuple[Attention, str] | str:
    """The facts of attention and the type of its elements, or why it has no blocks."""
    found, kept = attention_of(op), kept_as(op)
    if isinstance(found, str):
        return found
    if kept not in (*VECTORS, *HALVES):
        return f"elements are {kept or 'of several types'}"
    extents = (*found.outer, found.rows, found.terms, found.depth, found.keys)
    return "there are no elements" if 0 in extents else (found, kept)


def shared_parts(attention: Attention, queries: int, keys: int) -> Sequence[int]:
    """
    The elements of shared memory for queries, for keys or values, and for powers, in
    the form `tiles`.
    """
    pad = VECTORS[attention.element]
    terms, depth = attention.terms, padded(attention.depth)
    both = max(terms * (keys + pad), keys * (depth + pad))
    return terms * (queries + pad), both, keys * (queries + pad)


def padded(depth: int) -> int:
    """The columns of the result with those that threads compute in vain."""
    return -(-depth // SIDE) * SIDE


def best_queries(attention: Attention, kept: str) -> QueriesAttr | None:
    """The blocks that compute attention, or None if none can."""
    if attention.rows <= FEW_ROWS:
        return QueriesAttr("rows", 1, KEYS_OF_WARP)
    if fits_warps(attention, kept, *WARP_BLOCK):
        return QueriesAttr("warps", *WARP_BLOCK)
    for queries, keys in TILES:
        if fits(attention, queries, keys):
            return QueriesAttr("tiles", queries, keys)
    return None


def fits_warps(attention: Attention, kept: str, queries: int, keys: int) -> bool:
    """Whether tensor cores compute it: rows of 16 bits are copied 16 bytes at once."""
    operands = attention.q, attention.k, attention.v
    numbers = [attention.terms, attention.depth]
    for operand in operands:
        numbers += (*operand.outer, operand.row, operand.key)
    return (
        kept in HALVES
        and all(operand.column == 1 for operand in (*operands, attention.out))
        and not any(number % CHUNK for number in numbers)
        and padded(attention.depth) <= MOST_DEPTH
        and warp_bytes(attention, queries, keys) <= MAX_SHARED_BYTES
        and any(fits(attention, *sizes) for sizes in TILES)
    )


def warp_bytes(attention: Attention, queries: int, keys: int) -> int:
    """The bytes of shared memory in the form `warps`, keys and values in two stages."""
    terms, depth = (
        padded(length) + NARROW_PADDING for length in (attention.terms, attention.depth)
    )
    return 2 * (queries * terms + 2 * keys * (terms + depth))


def tiles_of(group: CudaAttention) -> CudaAttention | None:
    """The same attention in the form `tiles`, or None if it does not fit into that."""
    for queries, keys in TILES:
        if fits(group.attention, queries, keys):
            return replace(group, schedule=QueriesAttr("tiles", queries, keys))
    return None


def fits(attention: Attention, queries: int, keys: int) -> bool:
    """Whether tiles fit into shared memory, and those of threads into registers."""
    elements = sum(shared_parts(attention, queries, keys))
    registers = queries // SIDE * padded(attention.depth) // SIDE
    return (
        elements * SIZES[attention.element] <= STATIC_BYTES
        and registers * SIZES[attention.element] <= 4 * 32
    )


def cuda_attention_of(op: AttentionOp, schedule: QueriesAttr) -> CudaAttention | str:
    """Attention as a schedule says, or why it cannot be computed so."""
    found = device_attention_of(op)
    if isinstance(found, str):
        return found
    attention, kept = found
    if schedule.form == "tiles" and not fits(
        attention, schedule.queries, schedule.keys
    ):
        return f"{schedule} does not fit into shared memory and registers"
    if schedule.form == "warps" and not fits_warps(
        attention, kept, schedule.queries, schedule.keys
    ):
        return f"{schedule} is not for rows of {attention.terms} {kept} as they lie"
    return CudaAttention(attention, schedule, kept)
