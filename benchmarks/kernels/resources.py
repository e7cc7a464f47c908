"""
Kernels for `cuda` before and after a change as machine code, for which no device is
needed: their registers, spilled bytes, shared memory and instructions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.cubins import ARCHITECTURES
from benchmarks.kernels.lists import (
    Difference,
    differences,
    list_at,
    pairs_of,
    read_list,
    source_in,
)

if TYPE_CHECKING:
    from penstock.runtime.jit.cubin import CompiledStage

_OF_CUDA = "penstock.runtime.kernels.cuda"
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?!NOP\b)\S", re.MULTILINE)
COLUMNS = ("registers", "spilled", "stack", "shared", "threads", "instructions")


class Resources(NamedTuple):
    """The resources of a stage: in bytes, but for registers, threads, instructions."""

    registers: int
    spilled: int
    stack: int
    shared: int
    threads: int
    instructions: int | None
    """None where there is no disassembler."""


def resources_of(stage: CompiledStage) -> Resources:
    """The resources of a compiled stage."""
    return Resources(
        stage.registers,
        stage.spill_stores + stage.spill_loads,
        stage.stack,
        stage.shared + stage.dynamic_shared,
        stage.threads,
        instructions_of(stage.cubin),
    )


def instructions_of(cubin: bytes) -> int | None:
    """The instructions of machine code, or None without a disassembler."""
    from xdsl.utils.exceptions import DiagnosticException

    from penstock.tools.reports.cuda_targets import disassembled

    try:
        return len(_INSTRUCTION.findall(disassembled(cubin)))
    except DiagnosticException:
        return None


class Pair(NamedTuple):
    """A kernel by one of its cases, and its source before and after."""

    name: str
    old: str
    new: str


def pairs_in(old: Path, new: Path) -> Iterator[Pair]:
    """The kernels for `cuda` that differ and have sources in both folders."""
    found = pairs_of(differences(read_list(old), read_list(new)))
    folders = list_at(old).parent, list_at(new).parent
    for keys, ones in found.items():
        texts = [source_in(*each) for each in zip(folders, keys, strict=True)]
        was, now = texts
        if was and now and _OF_CUDA in was and _OF_CUDA in now:
            yield Pair(_name_of(ones), was, now)


def _name_of(ones: Sequence[Difference]) -> str:
    first = ones[0]
    kernel = first.new.kernel if first.new else ""
    more = f" (and {len(ones) - 1} more)" if len(ones) > 1 else ""
    return f"{first.case} {kernel}{more}"


def compare_resources(
    pairs: Sequence[Pair], architectures: Sequence[str] = ARCHITECTURES
) -> int:
    """Print what kernels take before and after; the number of those that take more."""
    worse = 0
    for architecture in architectures:
        was = _compiled(
            {str(n): pair.old for n, pair in enumerate(pairs)}, architecture
        )
        now = _compiled(
            {str(n): pair.new for n, pair in enumerate(pairs)}, architecture
        )
        for number, pair in enumerate(pairs):
            print(f"{architecture} {pair.name}")
            worse += _print_stages(was[str(number)], now[str(number)])
    print(f"stages that take more of a device: {worse}")
    return worse


def _compiled(
    sources: Mapping[str, str], architecture: str
) -> dict[str, tuple[CompiledStage, ...]]:
    from penstock.runtime.jit.cubin import capability_of, compile_kernels

    return compile_kernels(sources, capability_of(architecture))


def _print_stages(old: Sequence[CompiledStage], new: Sequence[CompiledStage]) -> int:
    """Print stages side by side; the number of those that take more."""
    worse = 0
    if len(old) != len(new):
        print(f"  {len(old)} -> {len(new)} stages")
    for was, now in zip(old, new, strict=False):
        before, after = resources_of(was), resources_of(now)
        print(f"  {now.name}: {described(before, after)}")
        worse += is_worse(before, after)
    return worse


def described(old: Resources, new: Resources) -> str:
    """The resources of a stage before and after, as a line."""
    return ", ".join(
        f"{column} {was}" if was == now else f"{column} {was} -> {now}"
        for column, was, now in zip(COLUMNS, old, new, strict=True)
    )


def is_worse(old: Resources, new: Resources) -> bool:
    """Whether a stage takes more of a device, whatever its instructions are."""
    return any(now > was for was, now in zip(old[:4], new[:4], strict=True))
