"""
Sums of products that libraries compute: what the runtime is told of them.

A contraction can be a product of matrices of a library if no windows are in it, if rows
or columns of each factor follow each other, and if its other loops are equally far
apart. Its schedule is then a `#launch.library`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import FloatAttr
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import BlockArgument, Operation

from penstock.dialects.launch.library import LibraryAttr
from penstock.dialects.launch.schedule import SCHEDULE
from penstock.lowering.numba.contractions import (
    DEVICE_ELEMENTS,
    Contraction,
    contraction_of,
)
from penstock.lowering.numba.finishing import root_of


@dataclass(frozen=True)
class LibraryPhase:
    """A sum of products with a library, and what is computed with it."""

    op: LinalgStructuredOperation
    library: str
    arguments: tuple[int, int, int]
    """The numbers of the factors and of the result among the kernel's arguments."""
    facts: dict[str, object]
    """A `penstock.runtime.cuda_products.Product` by its fields."""
    start: Operation | None
    """The phase before, if it is part of it."""

    def entry(self, phase: str) -> str:
        """How the phase of this name is listed among calls of libraries."""
        return repr((phase, self.library, self.arguments, self.facts))


def library_phase_of(op: Operation, phases: Sequence[Operation]) -> LibraryPhase | str:
    """What an op with a `#launch.library` becomes, or why it cannot."""
    schedule = op.attributes[SCHEDULE]
    assert isinstance(schedule, LibraryAttr), "whoever asks has seen it"
    found = None
    if isinstance(op, LinalgStructuredOperation):
        found = contraction_of(op, DEVICE_ELEMENTS)
    if not isinstance(found, Contraction):
        return f"{op.name} is no sum of products, which {schedule} is for"
    assert isinstance(op, LinalgStructuredOperation), "a contraction is one"
    start = start_of(op, phases) if schedule.folds else None
    if schedule.folds and start is None:
        return f"no phase sets the result of {op.name} to 0 before"
    facts = facts_of(found, adds=start is None)
    if isinstance(facts, str):
        return f"no library computes {op.name}: {facts}"
    arguments = arguments_of(op, found)
    if arguments is None:
        return f"the operands of {op.name} are no arguments of the kernel"
    return LibraryPhase(op, schedule.library.data, arguments, facts, start)


def arguments_of(
    op: LinalgStructuredOperation, contraction: Contraction
) -> tuple[int, int, int] | None:
    """The numbers of the factors and of the result among the kernel's arguments."""
    operands = (*op.inputs, op.outputs[0])
    roots = (root_of(operands[number]) for number in (contraction.a, contraction.b, -1))
    found = [root.index for root in roots if isinstance(root, BlockArgument)]
    return (found[0], found[1], found[2]) if len(found) == 3 else None


def start_of(
    op: LinalgStructuredOperation, phases: Sequence[Operation]
) -> Operation | None:
    """The phase before an op, if it sets all of its result to 0."""
    position = phases.index(op)
    before = phases[position - 1] if position else None
    if not isinstance(before, linalg.ops.FillOp):
        return None
    value = before.inputs[0].owner
    if root_of(before.outputs[0]) is not root_of(op.outputs[0]):
        return None
    if not isinstance(value, arith.ConstantOp):
        return None
    number = value.value
    is_zero = isinstance(number, FloatAttr) and number.value.data == 0
    return before if is_zero else None


def facts_of(contraction: Contraction, *, adds: bool) -> dict[str, object] | str:
    """A contraction as a product of matrices, or why it is none."""
    if contraction.has_windows:
        return "it has windows"
    if any(access.offset for access in contraction.nest.accesses):
        return "its operands do not begin at their first elements"
    rows, columns, terms = contraction.extents
    a, b = contraction.a_steps, contraction.b_steps
    if not follows(a, (rows, terms)):
        return "neither rows nor terms of the first factor follow each other"
    if not follows(b, (terms, columns)):
        return "neither terms nor columns of the second factor follow each other"
    row = contraction.stride(-1, contraction.row)
    outer = batch_of(contraction)
    if outer is None:
        return "its products are not equally far apart"
    batch, strides = outer
    return {
        "element": contraction.element,
        "extents": (rows, columns, terms),
        "a_steps": a,
        "b_steps": b,
        "row_step": row if rows > 1 else columns,
        "batch": batch,
        "strides": strides,
        "adds": adds,
    }


def follows(steps: tuple[int, int], extents: tuple[int, int]) -> bool:
    """
    Whether the elements of a matrix follow each other in one of its loops, and the
    lines that they make do not overlap.
    """
    for inner, outer in ((0, 1), (1, 0)):
        if steps[inner] == 1 or extents[inner] == 1:
            return extents[outer] == 1 or steps[outer] >= extents[inner]
    return False


def batch_of(contraction: Contraction) -> tuple[int, tuple[int, int, int]] | None:
    """
    How many products there are, and from each to the next in both factors and in the
    result; None if not equally far.
    """
    loops = sorted(
        (loop for loop in contraction.outer if contraction.nest.extents[loop] > 1),
        key=lambda loop: -contraction.stride(-1, loop),
    )
    count, steps = 1, (0, 0, 0)
    for loop in loops:
        count *= contraction.nest.extents[loop]
    operands = contraction.a, contraction.b, -1
    for number in operands:
        strides = [contraction.stride(number, loop) for loop in loops]
        extents = [contraction.nest.extents[loop] for loop in loops]
        for (outer, inner), extent in zip(pairwise(strides), extents[1:], strict=True):
            if outer != inner * extent:
                return None
    if loops:
        a, b, o = (contraction.stride(number, loops[-1]) for number in operands)
        steps = a, b, o
    return count, steps
