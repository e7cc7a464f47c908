"""The fill of a chunk of a plan, for `memory` of its `launch.chunk` and for reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, i64

from penstock.dialects.plan import TaskOp
from penstock.dialects.regst import BlockOp, ChunkOp, RegisterOp
from penstock.lowering.algorithms.packing.problem import end_of, side_by_side
from penstock.lowering.analysis.memory_bound import Liveness


class Fill(NamedTuple):
    """
    The bytes of some chunks: of blocks that hold variables only, and of all others
    together their sizes, their lower bound, and what they would take side by side.
    """

    variables: int
    peak: int
    bound: int
    sum: int


def together(fills: Iterable[Fill]) -> Fill:
    """The bytes of several chunks."""
    return Fill(*map(sum, zip(*fills, strict=True)))


def fill_of(chunk: ChunkOp, liveness: Liveness) -> Fill:
    """
    The fill of a chunk, in bytes. Where blocks lie over each other, as those of jobs
    that exclude each other do, it is that of the job that needs most.
    """
    held = {block: registers_in(block) for block in blocks_of(chunk)}
    weights = [
        block
        for block, registers in held.items()
        if registers and all(map(liveness.is_variable, registers))
    ]
    shared = [block for block in held if block not in weights]
    turns = in_turns(shared)
    found = [[x for block in turn for x in held[block]] for turn in turns]
    return Fill(
        sum(b.size.value.data for b in weights),
        max(sum(b.size.value.data for b in turn) for turn in turns),
        max(map(liveness.bound, found)),
        sum(sum_of(b, held[b], chunk.memory_case.alignment) for b in shared),
    )


def memory_report(chunk: ChunkOp, liveness: Liveness) -> DictionaryAttr | None:
    """The fill of a chunk, in bytes; None unless its blocks say how they are shared."""
    if all(block.sum is None for block in blocks_of(chunk)):
        return None
    bytes_of = sorted(fill_of(chunk, liveness)._asdict().items())
    return DictionaryAttr({key: IntegerAttr(n, i64) for key, n in bytes_of})


def blocks_of(chunk: ChunkOp) -> list[BlockOp]:
    """The blocks of a chunk."""
    uses = (use.operation for use in chunk.chunk.uses)
    return [op for op in uses if isinstance(op, BlockOp)]


def registers_in(block: BlockOp) -> list[RegisterOp]:
    """The registers that lie in a block."""
    uses = (use.operation for use in block.block.uses)
    return [op for op in uses if isinstance(op, RegisterOp)]


def sum_of(block: BlockOp, registers: Sequence[RegisterOp], alignment: int) -> int:
    """The size of a block if nothing were shared."""
    if block.sum is not None:
        return block.sum.value.data
    sizes = [register.size for register in registers]
    return end_of(side_by_side(sizes, alignment), sizes)


def in_turns(blocks: Sequence[BlockOp]) -> list[list[BlockOp]]:
    """
    Blocks of a chunk by what uses them at one time: all, but if some lie over others
    those of each job, because such jobs exclude each other.
    """
    spans = sorted((b.offset.value.data, b.size.value.data) for b in blocks)
    if all(at + size <= after for (at, size), (after, _) in pairwise(spans)):
        return [[*blocks]]
    of_jobs: dict[frozenset[str], list[BlockOp]] = {}
    for block in blocks:
        of_jobs.setdefault(frozenset(jobs_of(block)), []).append(block)
    return list(of_jobs.values())


def jobs_of(block: BlockOp) -> Iterator[str]:
    """The jobs whose tasks use the registers of a block."""
    for register in registers_in(block):
        for use in register.register.uses:
            if isinstance(task := use.operation, TaskOp) and task.job is not None:
                yield task.job.data
