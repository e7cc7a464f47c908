"""
The facts of `kernel.attention` that schedules and printers ask: extents, and how far
apart the elements of its operands are along its loops.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from penstock.dialects.kernel.attention import AttentionOp
from penstock.dialects.kernel.interface import element_of
from penstock.dialects.kernel.views import root_of
from penstock.lowering.codegen.body.contraction import ELEMENTS
from penstock.lowering.codegen.body.scalars import type_name
from penstock.lowering.codegen.body.vector_loop import is_vector_op


@dataclass(frozen=True)
class Operand:
    """A memref, and how far apart its elements are along the loops."""

    memref: SSAValue
    outer: tuple[int, ...]
    row: int
    key: int
    column: int
    """Along the terms of a score, or along a row of values or of the result."""


@dataclass(frozen=True)
class Scores:
    """The ops that make a score of a sum of products."""

    element: str
    """The type of sums and scores."""
    sum: SSAValue
    made: tuple[SSAValue, ...]
    """The score, and its derivative if that is yielded, too."""
    changes: tuple[Operation, ...]
    """The ops that make them, in order."""
    inputs: tuple[SSAValue, ...]
    """The values that are loaded for these, as the ops take them."""


@dataclass(frozen=True)
class Attention:
    """The loops of attention."""

    op: AttentionOp
    element: str
    """The type of sums and scores, and in memory but for halves."""
    outer: tuple[int, ...]
    """The trip counts of the loops around rows."""
    rows: int
    keys: int
    terms: int
    """Of a score."""
    depth: int
    """The elements of a row of the result."""
    q: Operand
    k: Operand
    v: Operand
    out: Operand
    lse: Operand | None
    """The logarithms of the sums of rows, if these are wanted."""
    scores: Scores
    inputs: tuple[tuple[SSAValue, Operand], ...]
    """The values that are loaded for scores, as their ops take them."""

    @property
    def offset(self) -> int | None:
        """The number of keys past its own number that a row sees; all if None."""
        return self.op.offset

    @property
    def work(self) -> int:
        """About how many scalar operations all of it takes."""
        return self.op.work()


def attention_of(op: AttentionOp) -> Attention | str:
    """The facts of attention, or why vectors cannot compute its scores."""
    scores = scores_in(op.score.block)
    if isinstance(scores, str):
        return scores
    roles, extents = op.roles(), op.loops().extents
    (row,), (key,) = roles["row"], roles["key"]
    (term,), (column,) = roles["term"], roles["column"]
    found: list[Operand] = []
    for number, (value, access) in enumerate(
        zip(op.accessed(), op.accesses(), strict=True)
    ):
        if access.offset or access.bounds:
            return "an operand has padding around it, or begins inside of its memref"
        steps = [*access.strides]
        if value not in op.written():
            # A loop that runs once leads nowhere.
            steps = [n * (run != 1) for n, run in zip(steps, extents, strict=True)]
        along = term if number < 2 else column
        outer = tuple(steps[loop] for loop in roles["stack"])
        found.append(
            Operand(root_of(value), outer, *(steps[loop] for loop in (row, key, along)))
        )
    first = op.outs_at()[0]
    q, k, v, *inputs = found[:first]
    out, *sums = found[first:]
    return Attention(
        op,
        scores.element,
        tuple(extents[loop] for loop in roles["stack"]),
        extents[row],
        extents[key],
        extents[term],
        extents[column],
        q,
        k,
        v,
        out,
        sums[0] if sums else None,
        scores,
        tuple(zip(scores.inputs, inputs, strict=True)),
    )


def scores_in(block: Block) -> Scores | str:
    """The scores that a region makes, or why vectors cannot compute them."""
    score, *scalars = block.args
    if (element := ELEMENTS.get(score.type)) is None:
        return f"scores are {score.type}"
    end = block.last_op
    assert end is not None, "checked by the verifier"
    widened = [_extended(scalar) for scalar in scalars]
    changes = [
        inner
        for inner in block.ops
        if inner is not end
        and not isinstance(inner, arith.ConstantOp)
        and (not inner.results or inner.results[0] not in widened)
    ]
    for inner in changes:
        if not is_vector_op(inner, element):
            return f"there is no {inner.name} of vectors for scores"
    made = tuple(end.operands)
    return Scores(element, score, made, tuple(changes), tuple(widened))


def _extended(scalar: SSAValue) -> SSAValue:
    """The value that an element is computed as: halves are extended first."""
    uses = [use.operation for use in scalar.uses]
    if len(uses) == 1 and isinstance(uses[0], arith.ExtFOp):
        return uses[0].result
    return scalar


def kept_as(op: AttentionOp) -> str | None:
    """
    The type of the elements in memory, if that is one for all operands; sums of rows
    are of the type of scores.
    """
    types = {element_of(value) for value in op.operands if value is not op.lse}
    return type_name(types.pop()) if len(types) == 1 else None
