"""
Work sharing: how a stage is cut into parts that threads compute at once.

A stage is cut along the outermost parallel loop that has an iteration for each part, or
else the one with the most, but not within a vectorized loop. Several stages are cut
alike if each writes rows of one result, as many and as far apart, and none reads
another's output: the copies of a concatenation. A part is worth it if it has
`WORK_OF_A_PART` scalar operations, a few microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from xdsl.dialects import linalg, scf
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Operation

from penstock.dialects.kernel.loops import Nest, loop_order, merged
from penstock.dialects.kernel.views import root_of
from penstock.lowering.codegen.body.contraction import nest_of
from penstock.lowering.codegen.body.statements import Computation
from penstock.lowering.codegen.body.vector_loop import (
    BLOCK,
    is_cut,
    number_of,
    vector_loop_of,
)
from penstock.lowering.codegen.cpu.outer_vector_loop import outer_vector_loop_of
from penstock.lowering.codegen.cpu.transposition import transposition_of
from penstock.lowering.codegen.cpu.work import ACCESS_WEIGHT, weight

WORK_OF_A_PART = 1 << 18

SHARED_WORK = WORK_OF_A_PART // 4
"""
The least work whose loop is that of a part, though it is worth one part alone: so small
and large kernels have one form. Two divisions take 1 % of this work at most.
"""


@dataclass(frozen=True)
class Split:
    """A loop of a stage, and into how many parts at most it is worth cutting."""

    op: Operation
    loop: int
    parts: int
    is_shared: bool
    """Whether it runs over the share of a part, be it of one."""


def split_of(op: Operation) -> Split | None:
    """The cut of a stage, or None if it cannot be cut."""
    match op:
        case scf.ParallelOp():
            return _split_parallel(op)
        case LinalgStructuredOperation():
            return _split_computation(op)
        case _:
            return None


def _split_parallel(op: scf.ParallelOp) -> Split | None:
    bounds = zip(op.lowerBound, op.upperBound, op.step, strict=True)
    extents: list[int] = []
    for ends in bounds:
        lower, upper, step = map(number_of, ends)
        if lower != 0 or upper is None or step != 1:
            return None
        extents.append(upper)
    work = prod(extents) * weight(op.body.block)
    if (found := outer_vector_loop_of(op)) is not None:
        extents = found.loop_extents
    split = _best(op, dict(enumerate(extents)), work)
    # Loops of several statements take up to 9 % longer with a start that is not 0.
    return split and replace(split, is_shared=split.parts > 1)


def splits_of(ops: Sequence[Operation]) -> Sequence[Split]:
    """
    The cuts of stages such that any part of all can be done at once; empty if there are
    none.
    """
    if len(ops) == 1:
        alone = split_of(ops[0])
        return [] if alone is None else [alone]
    stages = [op for op in ops if isinstance(op, LinalgStructuredOperation)]
    if len(stages) != len(ops) or any(len(op.outputs) != 1 for op in stages):
        return []
    written = {root_of(op.outputs[0]) for op in stages}
    if len(written) != 1 or any(
        root_of(x) in written for op in stages for x in op.inputs
    ):
        return []
    rows = [_rows_of(op) for op in stages]
    if not rows or rows[0] is None or any(found != rows[0] for found in rows):
        return []
    works = [found for op in stages if (found := _loops_of(op)) is not None]
    work = sum(work for _, _, work in works)
    count = max(1, min(rows[0].extent, work // WORK_OF_A_PART))
    return [Split(op, rows[0].loop, count, work >= SHARED_WORK) for op in stages]


class _Rows(NamedTuple):
    """The loop over rows of a result, how many there are, and how far apart."""

    loop: int
    extent: int
    step: int


def _rows_of(op: LinalgStructuredOperation) -> _Rows | None:
    """The first loop each turn of which writes to a row of its own, if there is one."""
    if (found := _loops_of(op)) is None:
        return None
    nest, extents, _ = found
    strides, start = nest.accesses[-1].strides, nest.accesses[-1].offset
    for loop, count in extents.items():
        ends = (
            stride * (extent - 1)
            for other, (stride, extent) in enumerate(
                zip(strides, nest.extents, strict=True)
            )
            if other != loop
        )
        is_apart = start >= 0 and start + sum(ends) < strides[loop]
        if is_apart and min(strides) >= 0:
            return _Rows(loop, count, strides[loop])
    return None


def _split_computation(op: LinalgStructuredOperation) -> Split | None:
    if (found := _loops_of(op)) is None:
        return None
    _, extents, work = found
    return _best(op, extents, work)


def _loops_of(
    op: LinalgStructuredOperation,
) -> tuple[Nest, dict[int, int], int] | None:
    """The loops of a stage, the extents of those that can be cut, and its work."""
    nest = nest_of(op)
    if isinstance(nest, str) or not op.outputs or op.res:
        return None
    if not any(isinstance(inner, linalg.ops.IndexOp) for inner in op.body.walk()):
        nest = merged(nest)
    order = loop_order(nest)
    computation = Computation(op, nest)
    line = vector_loop_of(computation, order)
    extents = {
        loop: nest.extents[loop] for loop in order.loops if not nest.reductions[loop]
    }
    if line is not None and is_cut(order, line):
        extents = {0: -(-line.extent // BLOCK)}
    elif line is not None:
        for loop in order.loops[-line.loops :]:
            extents.pop(loop, None)
    elif (found := transposition_of(computation, order)) is not None:
        extents |= found.blocks(nest.extents)
    accesses = ACCESS_WEIGHT * len(op.operands)
    return nest, extents, prod(nest.extents) * (weight(op.body.block) + accesses)


def _best(op: Operation, extents: dict[int, int], work: int) -> Split | None:
    """The loop that is cut, so that parts have enough work."""
    if not extents:
        return None
    parts = max(1, work // WORK_OF_A_PART)
    enough = (loop for loop, extent in extents.items() if extent >= parts)
    loop = next(enough, max(extents, key=extents.__getitem__))
    count = min(max(1, extents[loop]), parts)
    return Split(op, loop, count, work >= SHARED_WORK)
