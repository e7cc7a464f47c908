"""How full a chunk of a plan is: what its `launch.chunk` says in `memory`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, i64
from xdsl.ir import SSAValue

from penstock.dialects.plan import TaskOp
from penstock.dialects.regst import BlockOp, ChunkOp, RegisterOp


def memory_report(
    chunk: ChunkOp, variables: Collection[SSAValue]
) -> DictionaryAttr | None:
    """
    What a chunk holds, in bytes; None unless its blocks say how they are shared.
    """
    blocks = [
        use.operation for use in chunk.chunk.uses if isinstance(use.operation, BlockOp)
    ]
    if all(block.sum is None for block in blocks):
        return None
    weights = [block for block in blocks if holds_only(block, variables)]
    shared = [block for block in blocks if block not in weights]
    turns = in_turns(shared)
    bytes_of = {
        "bound": max(sum((b.bound or b.size).value.data for b in x) for x in turns),
        "peak": max(sum(b.size.value.data for b in x) for x in turns),
        "sum": sum((b.sum or b.size).value.data for b in shared),
        "variables": sum(b.size.value.data for b in weights),
    }
    return DictionaryAttr({key: IntegerAttr(n, i64) for key, n in bytes_of.items()})


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
    for held in block.block.uses:
        if isinstance(held.operation, RegisterOp):
            for use in held.operation.register.uses:
                if isinstance(task := use.operation, TaskOp) and task.job is not None:
                    yield task.job.data


def holds_only(block: BlockOp, registers: Collection[SSAValue]) -> bool:
    """Whether something lies in a block, and nothing but these registers."""
    held = [use.operation for use in block.block.uses]
    return bool(held) and all(
        isinstance(op, RegisterOp) and op.register in registers for op in held
    )
