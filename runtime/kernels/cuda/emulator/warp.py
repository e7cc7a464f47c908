"""
Tensor-core functions of a warp in NumPy, on arrays whose last dimension is the lanes of
a warp, or all threads of a block, warp after warp.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

WARP = 32
Bits16 = NDArray[np.uint16]
Bits32 = NDArray[np.uint32]
Singles = NDArray[np.float32]


def from_bf16(bits: NDArray[np.generic]) -> Singles:
    """Numbers of `bfloat16`, given as their bits."""
    words = np.asarray(bits).view(np.uint16).astype(np.uint32) << 16
    return words.view(np.float32)[()]


def to_bf16(values: NDArray[np.generic]) -> Bits16:
    """The bits of the nearest `bfloat16`, the even one of two; a NaN stays one."""
    exact = np.asarray(values, np.float64)
    single = exact.astype(np.float32)
    bits = single.view(np.uint32).astype(np.int64)
    # Rounded to odd, so that rounding again is as rounding once.
    back = single.astype(np.float64)
    bits = np.where(np.abs(back) > np.abs(exact), bits - 1, bits)
    bits = np.where(back != exact, bits | 1, bits)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(exact), 0x7FFF, rounded).astype(np.uint16)[()]


def matrices_of(rows: Bits16, turned: bool) -> list[Bits32]:
    """
    The registers of each lane after four matrices are loaded, given the 8 elements of
    the row that each lane names: `[lanes, 8]`, lanes 0 to 7 of a warp those of the
    first matrix, and so on.
    """
    matrices = rows.reshape(-1, 4, 8, 8)
    if turned:
        matrices = matrices.swapaxes(2, 3)
    pairs = np.ascontiguousarray(matrices).view(np.uint32)
    return [np.ascontiguousarray(pairs[:, k]).reshape(-1) for k in range(4)]


def numbers_in(words: Bits32, name: str) -> NDArray[np.float64]:
    """The two numbers in each word of a lane: `[warps, 8, 8]`, a matrix each."""
    halves = np.ascontiguousarray(words).view(np.uint16).reshape(-1, 8, 8)
    if name == "bf16":
        return from_bf16(halves).astype(np.float64)
    return halves.view(np.float16).astype(np.float64)


def product_of(
    sums: Sequence[Singles], a: Sequence[Bits32], b: Sequence[Bits32], name: str
) -> list[Singles]:
    """
    Sums of 16 by 8 elements and the product of 16 by 16 and 16 by 8 ones, all in the
    parts that the instruction `mma.m16n8k16` gives each lane; terms are added exactly.
    """
    parts = [numbers_in(words, name) for words in a]
    left = np.block([[parts[0], parts[2]], [parts[1], parts[3]]])
    columns = np.concatenate([numbers_in(words, name) for words in b], axis=2)
    product = left @ columns.swapaxes(1, 2)
    # Rows 0 to 7, then 8 to 15: two columns a lane.
    found = product.reshape(-1, 2, 8, 4, 2)
    made = (found[:, k // 2, :, :, k % 2].reshape(-1) for k in range(4))
    return [(s.astype(np.float64) + p).astype(np.float32) for s, p in zip(sums, made)]  # noqa: B905
