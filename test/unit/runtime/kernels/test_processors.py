"""
Machine code for processors of each kind, whatever this one is: the code generator is
asked for it, and LLVM writes it as text. Its results are tested where it can run.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from llvmlite import binding

from penstock.runtime.jit.c_function import assembly_of
from penstock.runtime.kernels.cpu import halves
from penstock.runtime.kernels.cpu.matmul import amx as matrices
from penstock.runtime.kernels.cpu.matmul import groups
from penstock.runtime.kernels.cpu.outer_vector_loop import OuterLoopLanes, columns
from penstock.runtime.kernels.cpu.vector_loop import (
    InnerLoopLanes,
    end_streams,
    line,
)
from penstock.runtime.kernels.cpu_features import Processor, processor_here

X86 = "x86_64-unknown-linux-gnu"
ARM = "aarch64-unknown-linux-gnu"
SSE2 = frozenset({"sse2"})
AVX2 = SSE2 | {"avx2", "fma", "f16c"}
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512vl"}


class Kind(NamedTuple):
    """A kind of processors: a model of it as LLVM names it, and what it can do."""

    triple: str
    model: str
    processor: Processor


KINDS = {
    "SSE2": Kind(X86, "x86-64", Processor(SSE2)),
    "AVX2": Kind(X86, "haswell", Processor(AVX2)),
    "AVX-VNNI": Kind(X86, "alderlake", Processor(AVX2 | {"avxvnni"})),
    "AVX-512": Kind(X86, "skylake-avx512", Processor(AVX512)),
    "VNNI": Kind(X86, "cascadelake", Processor(AVX512 | {"avx512vnni"})),
    "BF16": Kind(X86, "cooperlake", Processor(AVX512 | {"avx512vnni", "avx512bf16"})),
    "AMX": Kind(
        X86,
        "sapphirerapids",
        Processor(AVX512 | {"avx512vnni", "amx-int8"}, matrices=True),
    ),
    "NEON": Kind(ARM, "apple-m1", Processor(frozenset({"neon"}))),
}
all_kinds = pytest.mark.parametrize("kind", KINDS)


def text_for(kind: Kind, function: Callable[..., int], words: int) -> str:
    """The assembly of a function for a kind of processors."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple(kind.triple)
    machine = target.create_target_machine(cpu=kind.model, opt=3)
    return assembly_of(function, words, 32, machine)


def instructions(text: str) -> set[str]:
    """The names of the instructions in an assembly text."""
    return set(re.findall(r"^\t(?:{\w+}\s*)?([a-z]\w*)", text, re.MULTILINE))


# Lines and columns -------------------------------------------------------------------


def added(lanes: InnerLoopLanes, a: Any, b: Any) -> Any:
    return [a + b], ()


def line_for(processor: Processor, memory: Sequence[str] = ()) -> Callable[..., int]:
    add: Any = line("f32", 1000, added, 2, 1, memory=memory, processor=processor)

    def function(a: int, b: int, c: int) -> int:
        add((a, b, c))
        return 0

    return function


def columns_for(processor: Processor) -> Callable[..., int]:
    def body(lanes: OuterLoopLanes, a: Any, b: Any) -> None:
        lanes.store(lanes.load(a, 0) + lanes.load(a, 1000), b, 0)

    add: Any = columns("f32", 1000, body, processor)

    def function(a: int, b: int, c: int) -> int:
        add((a, b))
        return 0

    return function


@all_kinds
@pytest.mark.parametrize("make", [line_for, columns_for])
def test_vectors_are_those_of_the_processor(
    kind: str, make: Callable[[Processor], Callable[..., int]]
) -> None:
    found = KINDS[kind]
    text = text_for(found, make(found.processor), 3)
    widest = {64: "zmm", 32: "ymm", 16: "xmm"}
    if kind == "NEON":
        assert re.search(r"\tfadd\tv\d+\.4s, ", text) or "\tfadd.4s\t" in text
        return
    name = "addps" if kind == "SSE2" else "vaddps"
    adds = re.findall(rf"^\t{name}\t.*", text, re.MULTILINE)
    assert adds
    assert any(widest[found.processor.vector_bytes] in add for add in adds)
    wider = [r for size, r in widest.items() if size > found.processor.vector_bytes]
    assert not any(register in add for register in wider for add in adds)


@all_kinds
def test_floats_of_16_bits_are_computed_in_32(kind: str) -> None:
    """Also where the processor knows products of `bf16`, which round otherwise."""
    found = KINDS[kind]
    text = text_for(found, line_for(found.processor, ["bf16", "bf16", "bf16"]), 3)
    names = instructions(text)
    assert not names & {"vdpbf16ps", "vcvtneps2bf16", "bfdot", "bfcvtn"}
    assert names & {"vaddps", "addps", "fadd"}


@all_kinds
def test_floats_of_16_bits_need_no_library(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = KINDS[kind]
    monkeypatch.setattr(halves, "processor_here", lambda: found.processor)
    text = text_for(found, line_for(found.processor, ["f16", "f16", "f16"]), 3)
    names = instructions(text)
    assert not names & {"call", "callq", "bl"}
    if kind != "NEON":
        of_halves = "vcvtph2ps", "vcvtps2ph", "vaddph"
        has_any = any(name.startswith(of_halves) for name in names)
        assert has_any == found.processor.converts_f16 == (kind != "SSE2")


@all_kinds
def test_results_are_written_past_the_caches_of_each(kind: str) -> None:
    found = KINDS[kind]
    add: Any = line("f32", None, added, 2, 1, streamed=True, processor=found.processor)

    def function(a: int, b: int, c: int, count: int) -> int:
        add((a, b, c, count))
        return 0

    stores = {"vmovntps", "movntps", "stnp"}
    assert instructions(text_for(found, function, 4)) & stores


def test_stores_past_the_caches_are_seen_in_order() -> None:
    end: Any = end_streams

    def function(address: int) -> int:
        end()
        return 0

    has_fence = "sfence" in instructions(assembly_of(function, 1, 32))
    assert has_fence == processor_here().needs_fence


# Products of bytes -------------------------------------------------------------------


def strip_for(kind: Kind, factors: groups.Factors, lanes: int) -> str:
    strip: Any = groups.group_micro_kernel(
        factors, 3, 1, lanes, b=lanes, c=lanes, rest=0, processor=kind.processor
    )

    def function(a: int, b: int, c: int) -> int:
        strip(a, b, c, 3, lanes, 3, 1, 1, ())
        return 0

    return text_for(kind, function, 3)


DOTS = {
    "SSE2": "pmaddwd",
    "AVX2": "vpmaddwd",
    "AVX-VNNI": "vpdpbusd",
    "AVX-512": "vpmaddwd",
    "VNNI": "vpdpbusd",
    "BF16": "vpdpbusd",
    "AMX": "vpdpbusd",
    "NEON": "mla",
}
"""The instructions of int8 matmuls."""


@all_kinds
@pytest.mark.parametrize("factors", [("ui8", "i8"), ("i8", "i8")])
def test_products_of_bytes_are_those_of_the_processor(
    kind: str, factors: groups.Factors
) -> None:
    found = KINDS[kind]
    lanes = found.processor.vector_bytes // 4
    text = strip_for(found, factors, lanes)
    names = instructions(text)
    assert DOTS[kind] in names or f"{DOTS[kind]}.4s" in text
    assert not names & {"pmaddwd", "vpmaddwd", "vpdpbusd"} - {DOTS[kind]}
    # Where both have a sign, what VNNI takes for no sign is turned.
    turned = groups.is_sign_flipped(factors, lanes, found.processor)
    assert turned == (DOTS[kind] == "vpdpbusd" and factors == ("i8", "i8"))
    widest = {64: "zmm", 32: "ymm", 16: "xmm"}[found.processor.vector_bytes]
    if kind != "NEON":
        dots = re.findall(rf"^\t(?:{{\w+}}\s*)?{DOTS[kind]}\t.*", text, re.MULTILINE)
        assert dots
        assert all(widest in dot for dot in dots)


@all_kinds
def test_products_of_pairs_are_those_of_the_processor(kind: str) -> None:
    found = KINDS[kind]
    lanes = found.processor.vector_bytes // 4
    text = strip_for(found, ("bf16", "bf16"), lanes)
    dots = re.findall(r"^\tvdpbf16ps\t.*", text, re.MULTILINE)
    assert bool(dots) == found.processor.multiplies_pairs(lanes) == (kind == "BF16")
    assert all("zmm" in dot for dot in dots)
    if not dots:
        names = instructions(text)
        assert any("fmadd" in x or x in ("mulps", "fmla") for x in names)


@pytest.mark.parametrize("kind", ["AMX", "VNNI"])
def test_registers_of_matrices_are_used_where_they_may_be(kind: str) -> None:
    found = KINDS[kind]
    strip: Any = matrices.amx_micro_kernel(
        ("ui8", "i8"), 32, 1, 16, b=16, c=16, rest=19, processor=found.processor
    )

    def function(a: int, b: int, c: int) -> int:
        strip(a, b, c, 19, 16, 18, 1, 1, ())
        return 0

    names = instructions(text_for(found, function, 3))
    of_matrices = {"ldtilecfg", "tdpbusd", "tileloadd", "tilestored", "tilerelease"}
    assert names & of_matrices == (of_matrices if kind == "AMX" else set())
    # Rows are multiplied as plain bytes else.
    assert ("vpmaddwd" in names) == (kind == "VNNI")


# Facts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("features", "lanes", "plain", "kind"),
    [
        ({"avx512vnni", "avx512bw"}, 16, False, "vnni"),
        ({"avx512vnni", "avx512bw"}, 16, True, "pairs"),
        ({"avx512f"}, 16, False, None),
        ({"avx512vnni", "avx2"}, 8, False, "pairs"),
        ({"avx512vnni", "avx512vl"}, 8, False, "vnni"),
        ({"avxvnni", "sse2"}, 4, False, "vnni"),
        ({"sse2"}, 4, False, "pairs"),
        ({"sse2"}, 8, False, None),
        ({"neon"}, 4, False, None),
        ({"avx2", "avxvnni"}, 2, False, None),
    ],
)
def test_how_bytes_are_multiplied(
    features: set[str], lanes: int, plain: bool, kind: str | None
) -> None:
    assert Processor(frozenset(features)).dot_product(lanes, plain) == kind


@pytest.mark.parametrize(
    ("features", "lanes", "known"),
    [
        ({"avx512bf16"}, 16, True),
        ({"avx512bf16"}, 8, False),
        ({"avx512bf16", "avx512vl"}, 8, True),
        ({"avx512bf16", "avx512vl"}, 2, False),
        ({"avx512f", "avx512vl"}, 16, False),
    ],
)
def test_where_pairs_are_multiplied(
    features: set[str], lanes: int, known: bool
) -> None:
    assert Processor(frozenset(features)).multiplies_pairs(lanes) == known


def test_this_processor_is_described_as_llvm_does() -> None:
    known = binding.get_host_cpu_features()
    assert processor_here().features == {name for name in known if known[name]}
