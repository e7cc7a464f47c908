"""
The processor that machine code is made for: this one, or as much of it as is allowed.

    PENSTOCK_VECTOR_BYTES=32              in the environment
        |
        v
    features() -> {"avx2", "fma", ...}    those of LLVM, without what needs more
        |            |           |
        v            v           v
    schedules    keys of code    Numba's target machine, by `limit_numba`

So code of AVX2 alone (32) or SSE (16) can be measured and looked at on a processor with
AVX-512. This module stands below all rooms, as all of them have to agree; it imports
Python alone, and llvmlite where it is asked.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from functools import cache
from typing import cast

LIMIT_VARIABLE = "PENSTOCK_VECTOR_BYTES"
"""The variable of the environment with the bytes of the widest vectors allowed."""
VECTOR_BYTES = (16, 32, 64)
"""The bytes that vectors may have."""
_NUMBA = "NUMBA_CPU_FEATURES"
_OF_WIDER = {
    16: ("avx", "amx", "fma", "f16c", "vaes", "vpclmulqdq", "xop"),
    32: ("avx512", "avx10", "amx"),
    64: (),
}
"""How the features begin that need wider vectors, or registers of matrices."""


def features() -> frozenset[str]:
    """The features that code may use, by their names in LLVM."""
    return _allowed(most_vector_bytes())


def flat_features() -> str:
    """All features that LLVM knows here, each with `+` or, if it is left out, `-`."""
    allowed = features()
    names = sorted(_known())
    return ",".join(f"{'+' if name in allowed else '-'}{name}" for name in names)


def limit_numba() -> None:
    """
    Let Numba, and child processes, make code of the allowed features alone. Nothing is
    done where all are allowed, and where the environment names features to Numba.
    """
    if most_vector_bytes() < max(VECTOR_BYTES):
        os.environ.setdefault(_NUMBA, flat_features())


def most_vector_bytes() -> int:
    """
    The bytes that the environment allows vectors to have. Warns, once, of a limit that
    is none, and goes by the widest.
    """
    text = os.environ.get(LIMIT_VARIABLE, "").strip()
    return _limit_of(text) if text else max(VECTOR_BYTES)


@cache
def _limit_of(text: str) -> int:
    if text in map(str, VECTOR_BYTES):
        return int(text)
    known = ", ".join(map(str, VECTOR_BYTES))
    warnings.warn(
        f"{LIMIT_VARIABLE} should be one of {known}, got '{text}'",
        RuntimeWarning,
        stacklevel=4,
    )
    return max(VECTOR_BYTES)


@cache
def _allowed(most: int) -> frozenset[str]:
    return within(_known(), most)


def within(known: Mapping[str, bool], most: int) -> frozenset[str]:
    """The features of a processor, of those known, that need no wider vectors."""
    left_out = _OF_WIDER[most]
    names = (name for name, has in known.items() if has)
    return frozenset(name for name in names if not name.startswith(left_out))


def _known() -> Mapping[str, bool]:
    """Whether the processor has each feature that LLVM knows."""
    from llvmlite import binding

    return cast("dict[str, bool]", binding.get_host_cpu_features())
