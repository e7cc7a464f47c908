"""
Library calls: contractions that cuBLAS or cuDNN compute. The printer of CUDA kernels
lists them for the runtime, and autotuning offers them beside generated code.

A contraction can be a library's matmul if it has no windows, if rows or columns of each
factor are contiguous, and if each of its other loops has one stride; with windows it
can be a convolution (`penstock.lowering.codegen.cuda.library_convolution`). Its
schedule is then a `#launch.library`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import BlockArgument, Operation

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import SCHEDULE
from penstock.dialects.kernel.views import root_of
from penstock.dialects.launch.schedules.library import LibraryAttr
from penstock.lowering.codegen.body.contraction import (
    Contraction,
    ContractionLike,
    device_contraction_of,
    result_of,
)
from penstock.lowering.codegen.cuda.library_convolution import convolution_of

PRODUCT, CONVOLUTION = "Product", "Convolution"
"""
The problems that libraries solve, by their names in
`penstock.runtime.cuda.libraries.problems`.
"""


@dataclass(frozen=True)
class LibraryContraction:
    """A contraction that a library can compute."""

    op: ContractionLike
    kind: str
    """Its kind of library problem: a `Product`, or a `Convolution`."""
    arguments: tuple[int, int, int]
    """The numbers of the factors and of the result among the kernel's arguments."""
    facts: dict[str, object]
    """The fields of the problem, but for `adds`."""
    start: Operation | None
    """The stage before, if it sets the result to 0."""
    count: int
    """The products of elements."""


@dataclass(frozen=True)
class LibraryStage:
    """A contraction by a library."""

    sum: LibraryContraction
    schedule: LibraryAttr

    @property
    def start(self) -> Operation | None:
        """The stage before, if it is part of it."""
        return self.sum.start if self.schedule.folds else None

    @property
    def adds(self) -> bool:
        """Whether the products are added to what the result holds."""
        op = self.sum.op
        if isinstance(op, ContractOp):
            return op.is_started_by_itself
        return self.start is None

    def entry(self, stage: str) -> str:
        """The line of the stage of this name in the list of library calls."""
        found, library = self.sum, self.schedule.library
        facts = {**found.facts, "adds": self.adds}
        return repr((stage, library, found.arguments, found.kind, facts))


def library_stage_of(op: Operation, stages: Sequence[Operation]) -> LibraryStage | str:
    """The library call of an op with a `#launch.library`, or why there is none."""
    schedule = op.attributes[SCHEDULE]
    assert isinstance(schedule, LibraryAttr), "whoever asks has seen it"
    found = library_contraction_of(op, stages)
    if found is None:
        return f"{op.name} is no sum of products, which {schedule} is for"
    if isinstance(found, str):
        return f"no library computes {op.name}: {found}"
    if isinstance(found.op, ContractOp):
        why = library_misfit(found.op)
        return why or LibraryStage(found, schedule)
    if schedule.folds and found.start is None:
        return f"no stage sets the result of {op.name} to 0 before"
    return LibraryStage(found, schedule)


def library_misfit(op: ContractOp) -> str | None:
    """Why a library does not start or finish sums as a contraction says, if so."""
    if op.finish is not None:
        return f"no library finishes the sums of {op.name}"
    if op.start is not None and not op.is_started_by_itself:
        return f"no library starts the sums of {op.name} so"
    return None


def library_contraction_of(
    op: Operation, stages: Sequence[Operation]
) -> LibraryContraction | str | None:
    """
    The matmul or convolution that a library would compute for a stage; None if it is no
    contraction, or why no library computes it.
    """
    found = device_contraction_of(op)
    if not isinstance(found, Contraction):
        return found
    if any(access.offset for access in found.nest.accesses):
        return "its operands do not begin at their first elements"
    is_product = not found.has_windows
    assert isinstance(op, ContractionLike), "a contraction is one"
    facts = product_of(found) if is_product else convolution_of(op, found)
    if isinstance(facts, str):
        return facts
    # A convolution is told of the image first, then of the filters.
    factors = (found.a, found.b) if is_product else (found.b, found.a)
    arguments = arguments_of(op, factors)
    if arguments is None:
        return "its operands are no arguments of the kernel"
    kind = PRODUCT if is_product else CONVOLUTION
    count = prod(found.extents) * prod(found.outer_extents)
    return LibraryContraction(op, kind, arguments, facts, start_of(op, stages), count)


def arguments_of(
    op: ContractionLike, factors: tuple[int, int]
) -> tuple[int, int, int] | None:
    """The numbers of the factors and of the result among the kernel's arguments."""
    values = (*(op.operands[number] for number in factors), result_of(op))
    roots = map(root_of, values)
    found = [root.index for root in roots if isinstance(root, BlockArgument)]
    return (found[0], found[1], found[2]) if len(found) == 3 else None


def start_of(op: ContractionLike, stages: Sequence[Operation]) -> Operation | None:
    """The stage before an op, if it sets all of its result to 0."""
    if isinstance(op, ContractOp):
        return None
    position = stages.index(op)
    before = stages[position - 1] if position else None
    if not isinstance(before, linalg.ops.FillOp):
        return None
    value = before.inputs[0].owner
    if root_of(before.outputs[0]) is not root_of(result_of(op)):
        return None
    if not isinstance(value, arith.ConstantOp):
        return None
    number = value.value
    is_zero = isinstance(number, FloatAttr) and number.value.data == 0
    return before if is_zero else None


def product_of(contraction: Contraction) -> dict[str, object] | str:
    """
    A contraction as a `penstock.runtime.cuda.libraries.problems.Product` by its fields
    but `adds`, or why it is none.
    """
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
    }


def follows(steps: tuple[int, int], extents: tuple[int, int]) -> bool:
    """
    Whether the elements of a matrix are contiguous in one of its loops, and the lines
    that they make do not overlap.
    """
    for inner, outer in ((0, 1), (1, 0)):
        if steps[inner] == 1 or extents[inner] == 1:
            return extents[outer] == 1 or steps[outer] >= extents[inner]
    return False


def batch_of(contraction: Contraction) -> tuple[int, tuple[int, int, int]] | None:
    """
    The number of matmuls in a batch, and the strides of both factors and of the result
    from each to the next; None if they are not constant.
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
