"""Widths of vector registers, in bytes: of this CPU, or as a pass is asked for."""

from __future__ import annotations

from xdsl.utils.exceptions import PassFailedException

from penstock.cpu_target import VECTOR_BYTES, features

REGISTERS = {16: 16, 32: 16, 64: 32}
"""Vector registers of CPUs with vectors of this many bytes."""


def vector_bytes_here() -> int:
    """The bytes of the widest vectors of this CPU that code may use."""
    here = features()
    if "avx512f" in here:
        return 64
    return 32 if "avx2" in here else 16


def checked_vector_bytes(asked: int | None) -> int:
    """
    The bytes of vectors that a pass is asked for, by default those of this CPU. Raises
    `PassFailedException` if there are no such vectors.
    """
    if asked not in (None, *VECTOR_BYTES):
        known = ", ".join(map(str, VECTOR_BYTES))
        raise PassFailedException(f"vectors have {known} bytes, got {asked}")
    return asked or vector_bytes_here()


def multiplies_pairs_here() -> bool:
    """Whether this CPU has an instruction for pairs of `bf16` that code may use."""
    return "avx512bf16" in features()


def has_matrices_here() -> bool:
    """Whether this CPU has AMX instructions for int8 matmuls that code may use."""
    return "amx-int8" in features()
