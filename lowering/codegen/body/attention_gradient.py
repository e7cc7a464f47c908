"""
The facts of `kernel.attention_gradient` that schedules and printers ask: extents, and
how far apart the elements of its operands are along its loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue

from penstock.dialects.kernel.attention_gradient import AttentionGradientOp
from penstock.dialects.kernel.interface import element_of
from penstock.dialects.kernel.views import root_of
from penstock.lowering.codegen.body.attention import Operand, Scores, scores_in
from penstock.lowering.codegen.body.scalars import type_name

NAMES = ("q", "k", "v", "grad", "lse", "delta")
"""The operands besides those of scores."""
RESULTS = ("q_grad", "k_grad", "v_grad")
OF_COLUMNS = ("v", "grad", "v_grad")
"""The operands that have columns, and no terms."""


@dataclass(frozen=True)
class AttentionGradient:
    """The loops of the gradients of attention."""

    op: AttentionGradientOp
    scores: Scores
    kept: str
    """The type of the elements of queries, keys, values and the gradient."""
    stack: tuple[int, ...]
    """The trip counts of the loops of the stack."""
    missing: Mapping[str, tuple[int, ...]]
    """
    The loops of the stack, by their places in it, that each result is added up over:
    those that run more than once and that its map does not have.
    """
    rows: int
    keys: int
    terms: int
    """Of a score."""
    depth: int
    """The elements of a row of values."""
    operands: Mapping[str, Operand]
    """Those of `NAMES`, and the results."""
    inputs: tuple[tuple[SSAValue, Operand], ...]
    """The values that are loaded for scores, as their ops take them."""

    @property
    def element(self) -> str:
        """The type of sums, scores and results."""
        return self.scores.element

    @property
    def offset(self) -> int | None:
        """The number of keys past its own number that a row sees; all if None."""
        return self.op.offset

    @property
    def work(self) -> int:
        """About how many scalar operations all of it takes."""
        return self.op.work()

    @property
    def rest(self) -> tuple[int, ...]:
        """The loops of the stack that a result is added up over."""
        return tuple(sorted({loop for each in self.missing.values() for loop in each}))

    @property
    def common(self) -> tuple[int, ...]:
        """The loops of the stack that all results have: units of work of their own."""
        return tuple(n for n in range(len(self.stack)) if n not in self.rest)

    @property
    def has_elements(self) -> bool:
        """Whether no extent is 0."""
        return 0 not in (*self.stack, self.rows, self.keys, self.terms, self.depth)


def attention_gradient_of(op: AttentionGradientOp) -> AttentionGradient | str:
    """The facts of the gradients of attention, or why vectors cannot compute scores."""
    scores = scores_in(op.score.block)
    if isinstance(scores, str):
        return scores
    given = op.q, op.k, op.v, op.grad, *op.score_inputs
    kinds = {element_of(value) for value in given}
    kept = type_name(kinds.pop()) if len(kinds) == 1 else None
    if kept is None:
        return "elements are of several types"
    roles, extents, maps = op.roles(), op.loops().extents, op.maps()
    (row,), (key,), (term,), (column,) = (
        roles[role] for role in ("row", "key", "term", "column")
    )
    first = op.outs_at()[0]
    inputs = [f"input_{n}" for n in range(len(op.score_inputs))]
    names = [*NAMES, *inputs, *RESULTS]
    found: dict[str, Operand] = {}
    for name, value, access in zip(names, op.accessed(), op.accesses(), strict=True):
        if access.offset or access.bounds:
            return "an operand has padding around it, or begins inside of its memref"
        # A loop that runs once leads nowhere.
        steps = [
            step * (extent != 1)
            for step, extent in zip(access.strides, extents, strict=True)
        ]
        along = column if name in OF_COLUMNS else term
        outer = tuple(steps[loop] for loop in roles["stack"])
        ends = (steps[loop] for loop in (row, key, along))
        found[name] = Operand(root_of(value), outer, *ends)
    missing = {
        name: tuple(
            place
            for place, loop in enumerate(roles["stack"])
            if extents[loop] != 1 and loop not in map.used_dims()
        )
        for name, map in zip(RESULTS, maps[first:], strict=True)
    }
    return AttentionGradient(
        op,
        scores,
        kept,
        tuple(extents[loop] for loop in roles["stack"]),
        missing,
        extents[row],
        extents[key],
        extents[term],
        extents[column],
        {name: found[name] for name in (*NAMES, *RESULTS)},
        tuple(
            (value, found[name])
            for value, name in zip(scores.inputs, inputs, strict=True)
        ),
    )
