"""
The features of a CPU that machine code is generated for: this one by default; callers
may describe any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from penstock.cpu_target import features
from penstock.runtime.kernels.cpu.amx_permission import may_use_amx


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

    @property
    def needs_fence(self) -> bool:
        """Whether stores past the caches may be seen after those that follow them."""
        return "sse2" in self.features

    @property
    def converts_f16(self) -> bool:
        """Whether it has instructions between `f16` and `f32`: of x86 not all do."""
        return "f16c" in self.features or "sse2" not in self.features

    def multiplies_pairs(self, lanes: int) -> bool:
        """Whether it multiplies and adds pairs of `bf16` in so many lanes of `f32`."""
        has = self.features.__contains__
        is_known = lanes == 16 or (lanes in (4, 8) and has("avx512vl"))
        return has("avx512bf16") and is_known

    def dot_product(self, lanes: int, plain: bool = False) -> str | None:
        """
        The instruction for dot products of groups of four bytes: `vnni`, but for
        `plain` ones without flipped sign bits, or `pairs` of `i16`; None if it has
        neither.
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
    """The processor of this process, as much of it as code may use."""
    here = features()
    return Processor(here, "amx-int8" in here and may_use_amx())
