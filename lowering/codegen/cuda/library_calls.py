"""
Library calls: contractions that cuBLAS or cuDNN compute. The printer of CUDA kernels
lists them for the runtime, and autotuning offers them beside generated code.

A contraction can be a library's matmul if it has no windows, if rows or columns of each
factor are contiguous, and if each of its other loops has one stride; with windows it
can be a convolution (`penstock.lowering.codegen.cuda.library_convolution`). Its
schedule is then a `#launch.library`. A library starts at zero, or adds to what the
result holds, and stores sums: what else a contraction says is of stages around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod

from xdsl.ir import Attribute, BlockArgument, Operation

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import StructuredOp
from penstock.dialects.kernel.views import root_of
from penstock.dialects.launch.schedules.library import LibraryAttr
from penstock.lowering.codegen.body.contraction import (
    Contraction,
    device_contraction_of,
    result_of,
)
from penstock.lowering.codegen.body.epilogue import Unfit
from penstock.lowering.codegen.cuda.library_convolution import convolution_of

PRODUCT, CONVOLUTION = "Product", "Convolution"
"""
The problems that libraries solve, by their names in
`penstock.runtime.cuda.libraries.problems`.
"""


@dataclass(frozen=True)
class LibraryContraction:
    """A contraction that a library can compute."""

    op: ContractOp
    kind: str
    """Its kind of library problem: a `Product`, or a `Convolution`."""
    arguments: tuple[int, int, int]
    """The numbers of the factors and of the result among the kernel's arguments."""
    facts: dict[str, object]
    """The fields of the problem, but for `adds`."""
    count: int
    """The products of elements."""


@dataclass(frozen=True)
class LibraryStage:
    """A contraction by a library."""

    sum: LibraryContraction
    schedule: LibraryAttr

    def entry(self, stage: str) -> str:
        """The line of the stage of this name in the list of library calls."""
        found, library = self.sum, self.schedule.library
        facts = {**found.facts, "adds": found.op.is_started_by_itself}
        return repr((stage, library, found.arguments, found.kind, facts))


def library_stage_of(op: StructuredOp, schedule: Attribute) -> LibraryStage | str:
    """The library call of an op with a schedule, or why there is none."""
    assert isinstance(op, ContractOp), "no other op has this printer"
    assert isinstance(schedule, LibraryAttr), "no other schedule has it"
    found = library_contraction_of(op)
    if not isinstance(found, LibraryContraction):
        return f"no library computes {op.name}: {found}"
    unfit = unfit_of_libraries(op)
    if (why := unfit.start or unfit.finish) is not None:
        return f"no library computes {op.name}: {why}"
    return LibraryStage(found, schedule)


def unfit_of_libraries(op: StructuredOp) -> Unfit:
    """The start and finish that a library leaves to stages before and after it."""
    assert isinstance(op, ContractOp), "no other op is by a library"
    is_started = op.start is not None and not op.is_started_by_itself
    return Unfit(
        "a library starts at zero" if is_started else None,
        "a library stores sums" if op.finish is not None else None,
    )


def library_contraction_of(op: Operation) -> LibraryContraction | str | None:
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
    assert isinstance(op, ContractOp), "a contraction is one"
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
    return LibraryContraction(op, kind, arguments, facts, count)


def arguments_of(
    op: ContractOp, factors: tuple[int, int]
) -> tuple[int, int, int] | None:
    """The numbers of the factors and of the result among the kernel's arguments."""
    values = (*(op.operands[number] for number in factors), result_of(op))
    roots = map(root_of, values)
    found = [root.index for root in roots if isinstance(root, BlockArgument)]
    return (found[0], found[1], found[2]) if len(found) == 3 else None


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
