"""Widths of vector registers, in bytes: of this CPU, or as a pass is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from xdsl.utils.exceptions import PassFailedException

VECTOR_BYTES = (16, 32, 64)
REGISTERS = {16: 16, 32: 16, 64: 32}
"""Vector registers of CPUs with vectors of this many bytes."""


def vector_bytes_here() -> int:
    """The bytes of the widest vectors of this CPU."""
    from llvmlite import binding

    features = cast("Mapping[str, bool]", binding.get_host_cpu_features())
    if features.get("avx512f"):
        return 64
    return 32 if features.get("avx2") else 16


def checked_vector_bytes(asked: int | None) -> int:
    """
    The bytes of vectors that a pass is asked for, by default those of this CPU. Raises
    `PassFailedException` if there are no such vectors.
    """
    if asked not in (None, *VECTOR_BYTES):
        known = ", ".join(map(str, VECTOR_BYTES))
        raise PassFailedException(f"vectors have {known} bytes, got {asked}")
    return asked or vector_bytes_here()


def has_matrices_here() -> bool:
    """Whether this CPU has AMX instructions for int8 matmuls."""
    from llvmlite import binding

    features = cast("Mapping[str, bool]", binding.get_host_cpu_features())
    return bool(features.get("amx-int8"))
