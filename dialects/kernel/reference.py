"""The reference meaning of structured ops: stages of upstream ops."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Block, Operation, Region
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.kernel.builder import KernelBuilder
from penstock.dialects.kernel.interface import StructuredOp
from penstock.dialects.utils.half_precision import compute_in_f32


def loops_of(op: StructuredOp) -> Region:
    """
    The stages of upstream ops that a structured op stands for, on its operands, in a
    region of their own.
    """
    return stages_by(op.build_loops)


def stages_by(build: Callable[[KernelBuilder], None]) -> Region:
    """The stages that are built, in a region of their own."""
    block = Block()
    build(KernelBuilder(InsertPoint.at_end(block)))
    region = Region(block)
    compute_in_f32(region)
    return region


def replace_by_loops(op: StructuredOp) -> list[Operation]:
    """Put the stages that a structured op stands for in its place; all their ops."""
    region = loops_of(op)
    stages = [*region.block.ops]
    for stage in stages:
        stage.location = op.location
    Rewriter.inline_block(region.block, InsertPoint.before(op))
    op.detach()
    op.erase()
    return stages
