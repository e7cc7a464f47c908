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

Combine: TypeAlias = Callable[
    [KernelBuilder, Sequence[SSAValue], Sequence[SSAValue]], Sequence[SSAValue]
]
"""Builds one set of values, of two."""


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


def all_reduce_by(
    k: KernelBuilder,
    values: Sequence[SSAValue],
    inits: Sequence[SSAValue],
    combine: Combine,
) -> Sequence[SSAValue]:
    """Build the fold of values by what makes one set of two of them."""
    types = [value.type for value in values]
    block = Block(arg_types=types * 2)
    inside = KernelBuilder(InsertPoint.at_end(block))
    count = len(types)
    made = combine(inside, block.args[:count], block.args[count:])
    inside.effect(YieldOp(*made))
    fold = AllReduceOp.by(values, inits, Region(block))
    k.effect(fold)
    return fold.results


def keep(k: KernelBuilder, value: SSAValue) -> SSAValue:
    """Build that a value is kept from one pass over a row to the next."""
    return k.insert(KeepOp(value))
