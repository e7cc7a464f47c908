"""Builders of `kernel.row`, and of the ops that its body has besides scalar ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import InsertPoint

from penstock.dialects.kernel.body_ops import AllReduceOp, Fold, KeepOp, YieldOp
from penstock.dialects.kernel.builder import KernelBuilder
from penstock.dialects.kernel.interface import element_of
from penstock.dialects.kernel.row import RowOp

Point: TypeAlias = Callable[[KernelBuilder, Sequence[SSAValue]], Sequence[SSAValue]]
"""Builds one point of a row: an element of each result, of those of the operands."""


def build_row(
    k: KernelBuilder,
    along: Sequence[int],
    ins: Sequence[SSAValue],
    outs: Sequence[SSAValue],
    maps: Sequence[AffineMap],
    point: Point,
) -> RowOp:
    """
    Build a stage that computes `outs` row by row: `maps` are those of `ins`, then of
    `outs`, and `along` the loops of a row.
    """
    block = Block(arg_types=[element_of(value) for value in ins])
    inside = KernelBuilder(InsertPoint.at_end(block))
    inside.effect(YieldOp(*point(inside, block.args)))
    row = RowOp(along, maps, ins, outs, Region(block))
    k.effect(row)
    return row


def all_reduce(k: KernelBuilder, kind: Fold, value: SSAValue) -> SSAValue:
    """Build the fold of a value over all points of a row."""
    return k.insert(AllReduceOp(kind, value))


def keep(k: KernelBuilder, value: SSAValue) -> SSAValue:
    """Build that a value is kept from one pass over a row to the next."""
    return k.insert(KeepOp(value))
