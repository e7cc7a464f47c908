"""
What a processor can do that machine code is made for: by default this one, but whoever
makes code can describe any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import cast

from llvmlite import binding

from penstock.runtime.kernels.cpu.amx_permission import may_use_matrices


@dataclass(frozen=True)
class Processor:
    """
    The features of a processor, as LLVM names them. Where the system has to allow that
    registers of matrices are used, it has done so if `matrices`.
    """

    features: frozenset[str] = frozenset()
    matrices: bool = False

    @property
    def vector_bytes(self) -> int:
        """The bytes of the widest vectors."""
        if "avx512f" in self.features:
            return 64
        return 32 if "avx2" in self.features else 16

    @property
    def has_scaling(self) -> bool:
        """Whether it scales by powers of two in one instruction."""
        return "avx512f" in self.features

    def dot_product(self, lanes: int, plain: bool = False) -> str | None:
        """
        How it adds the products of vectors of quads of bytes: by `vnni`, but for
        `plain` ones of which no bits are turned, or in `pairs` of 16 bits; None if it
        has neither.
        """
        has = self.features.__contains__
        if lanes == 16:
            short, pairs = has("avx512vnni"), has("avx512bw")
        else:
            short = has("avxvnni") or (has("avx512vnni") and has("avx512vl"))
            pairs = has("avx2") if lanes == 8 else has("sse2")
        if lanes not in (4, 8, 16):
            return None
        if short and not plain:
            return "vnni"
        return "pairs" if pairs else None


@cache
def processor_here() -> Processor:
    """The processor of this process."""
    features = cast("dict[str, bool]", binding.get_host_cpu_features())
    here = frozenset(name for name, has in features.items() if has)
    return Processor(here, may_use_matrices())
