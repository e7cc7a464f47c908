"""
Loops whose extents and strides are in the code because the schedule of a stage says so.
The printer of CPU kernels makes arguments of the others.

The schedule of a map names its own loops. The schedule of rows names loops of the op;
its loops as stages note theirs in an attribute, as long as they are printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.loops import Nest
from penstock.lowering.codegen.body.contraction import nest_of, sums_nest
from penstock.lowering.codegen.body.numbers import loops_in_code

FIXED = "fixed"
"""The attribute of a stage with the numbers of its loops that are in the code."""

Nested: TypeAlias = ContractOp | LinalgStructuredOperation
"""A stage whose loops a schedule may keep in the code."""


def keep_in_code(stage: Operation, fixed: Sequence[int], rows: Sequence[int]) -> None:
    """
    Note which loops of a stage are in the code, given the loops of rows that are, and
    those that the loops of an `scf.parallel` are for. Other stages keep all.
    """
    if not fixed:
        return
    if isinstance(stage, scf.ParallelOp):
        loops = [place for place, loop in enumerate(rows) if loop in fixed]
        stage.attributes[FIXED] = DenseArrayBase.from_list(i64, loops)
    elif isinstance(stage, GenericOp):
        count = len(stage.iterator_types)
        stage.attributes[FIXED] = DenseArrayBase.from_list(i64, [*range(count)])


def fixed_loops(stage: Operation) -> set[int]:
    """The loops of a stage that are in the code because a schedule says so."""
    noted = stage.attributes.get(FIXED)
    if isinstance(noted, DenseArrayBase):
        return {*noted.iter_values()}
    return {*loops_in_code(stage)}


def fixed_loops_of(stage: Nested, nest: Nest) -> set[int]:
    """The loops of the nest of a stage, merged, that are in the code."""
    whole = _whole_nest(stage)
    loops = nest_loops(whole, nest)
    return {loops[loop] for loop in fixed_loops(stage) if loop < len(loops)}


def unfixable(stage: Nested) -> str | None:
    """Why the loops that the schedule of a stage says cannot be in the code, if so."""
    count, fixed = len(_whole_nest(stage).extents), fixed_loops(stage)
    if not fixed or max(fixed) < count:
        return None
    return f"there are {count} loops, got fixed {sorted(fixed)}"


def _whole_nest(stage: Nested) -> Nest:
    """The loops of a stage as they are written."""
    whole = sums_nest(stage) if isinstance(stage, ContractOp) else nest_of(stage)
    assert not isinstance(whole, str), "it has a nest"
    return whole


def nest_loops(whole: Nest, nest: Nest) -> list[int]:
    """
    The loop of a nest that each loop of the whole one is in; none where all run once.
    """
    if not nest.extents:
        return []
    if len(nest.extents) == len(whole.extents):
        return [*range(len(nest.extents))]
    return merged_loops(whole.extents, nest)


def merged_loops(extents: Sequence[int], merged: Nest) -> list[int]:
    """
    The loop of a nest that each loop of these extents has become; those that run once
    are a part of the next one.
    """
    found: list[int] = []
    at, product = 0, 1
    last = len(merged.extents) - 1
    for extent in extents:
        if product == merged.extents[at] and extent != 1 and at < last:
            at, product = at + 1, 1
        product *= extent
        found.append(at)
    return found
