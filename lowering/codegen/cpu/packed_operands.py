"""
The layout of contractions' operands: packed panels as a schedule needs them, and
prepacked constants.

The panels of a kernel's argument follow from the schedule of the contraction that reads
it: as wide as its tiles have rows (`a`) or columns (`b`). Panels of `a` are cut at the
blocks of terms, so that a micro-kernel call reads contiguous memory.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import BlockArgument, Operation, SSAValue

from penstock.dialects.kernel.interface import SCHEDULE
from penstock.dialects.kernel.views import root_of
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.packed_layout import PanelsAttr
from penstock.dialects.launch.schedules.cpu_matmul import GROUP, SIDE, ContractionAttr
from penstock.dialects.utils.hints import isa
from penstock.lowering.codegen.body.contraction import Contraction
from penstock.lowering.codegen.body.epilogue import NO_STAGES
from penstock.lowering.codegen.cpu.transposed_tiles import lines_of


def matrices_of(
    contraction: Contraction, operand: str, elements: int
) -> tuple[tuple[int, int, int], int] | None:
    """
    The matrices that the operand `a` or `b` of so many elements is, and which of their
    axes its rows (of `a`) or columns (of `b`) are; None if it is not made of dense
    matrices of all rows or columns and all terms.
    """
    rows, columns, terms = contraction.extents
    if operand == "a":
        number, extent, (step, of_term) = contraction.a, rows, contraction.a_steps
    else:
        number, extent = contraction.b, columns
        of_term, step = contraction.b_steps
        if contraction.has_windows:
            return None
    access = contraction.nest.accesses[number]
    size = extent * terms
    whole = elements % size == 0 and access.offset == 0
    outer = contraction.outer_strides(access)
    if not whole or any(stride % size for stride in outer):
        return None
    if extent > 1 and terms > 1:
        steps = step, of_term
    else:
        steps = (terms, 1) if operand == "a" else (1, extent)
    if steps == (terms, 1):
        return (elements // size, extent, terms), 1
    if steps == (1, extent):
        return (elements // size, terms, extent), 2
    return None


def panels_of(
    contraction: Contraction, schedule: ContractionAttr, elements: int
) -> PanelsAttr | None:
    """The panels in which a schedule takes its stored operand, None if it cannot."""
    operand = schedule.panels
    found = matrices_of(contraction, operand, elements) if operand else None
    if found is None:
        return None
    shape, axis = found
    terms = shape[3 - axis]
    width, depth = schedule.columns, terms
    if operand == "a" and not schedule.is_transposed:
        width, depth = schedule.tile[0], min(schedule.block[1], terms)
    if schedule.is_inner:
        width = 1
    if terms % schedule.terms_at_once:
        return None
    # Registers are read whole, also at the end of a variable.
    if schedule.matrices and (terms % (GROUP * SIDE) or shape[axis] % SIDE):
        return None
    width = min(width, shape[axis])
    return PanelsAttr(shape, axis, width, depth, schedule.terms_at_once)


def argument_of(value: SSAValue) -> BlockArgument | None:
    """The argument of a kernel that a memref is a view of, if it is one."""
    root = root_of(value)
    return root if isinstance(root, BlockArgument) else None


def element_count(value: SSAValue) -> int:
    """The elements of a memref."""
    assert isa(value.type, MemRefType), "kernels work on memrefs"
    return prod(value.type.get_shape())


def misstored(
    op: Operation, contraction: Contraction, schedule: ContractionAttr
) -> str | None:
    """Why the operands do not lie in the panels that a schedule reads, if so."""
    for name, number in (("a", contraction.a), ("b", contraction.b)):
        argument = argument_of(op.operands[number])
        kernel = None if argument is None else argument.owner.parent_op()
        lies = None
        if argument is not None and isinstance(kernel, KernelOp):
            lies = kernel.panels[argument.index]
        wanted = None
        if schedule.panels == name:
            elements = element_count(root_of(op.operands[number]))
            wanted = panels_of(contraction, schedule, elements)
            if wanted is None:
                return f"{name} is not made of matrices that panels hold"
        if lies != wanted:
            order = "the usual order"
            return f"{name} lies in {lies or order}, and is read in {wanted or order}"
    return None


def is_read_by_tiles(op: Operation, argument: BlockArgument) -> bool:
    """Whether an op uses an argument as a factor of tiles, and for nothing else."""
    if not isinstance(op.attributes.get(SCHEDULE), ContractionAttr):
        return False
    return all(root_of(value) is not argument for value in op.operands[2:])


def misfit(contraction: Contraction, schedule: ContractionAttr) -> str | None:
    """Why the elements of a contraction do not lie as a schedule needs it, if so."""
    if (terms := schedule.terms_at_once) != contraction.group:
        wanted = contraction.group
        return f"groups of these factors have {wanted} terms, not {terms}"
    if schedule.is_grouped:
        return None
    if schedule.is_transposed:
        return _transposed_misfit(contraction, schedule)
    if contraction.has_windows:
        if not schedule.packed:
            return _in_place_misfit(contraction, schedule)
        if (inner := contraction.inner_terms) and schedule.block[1] % inner:
            return f"a block has no whole windows of {inner} terms"
        return None
    of_term, of_column = contraction.b_steps
    _, columns, terms = contraction.extents
    if schedule.is_outer:
        if schedule.panels == "b":
            return None
        if of_column != 1 and columns > 1 and not schedule.packed:
            return f"columns are {of_column} elements apart, and not packed"
        return None
    of_term = 1 if schedule.panels == "b" else of_term
    if terms > 1 and (contraction.a_steps[1], of_term) != (1, 1):
        return "the terms do not follow each other"
    return None


def reads_windows(contraction: Contraction, schedule: ContractionAttr) -> bool:
    """Whether tiles read windows where they lie, line by line."""
    return contraction.has_windows and schedule.is_outer and not schedule.packed


def _in_place_misfit(contraction: Contraction, schedule: ContractionAttr) -> str | None:
    """Why windows cannot be read where they lie, if so."""
    if not reads_windows(contraction, schedule) or schedule.edge or schedule.reuse:
        return "windows are not packed"
    if contraction.bounds:
        return "windows with padding around them are not packed"
    if contraction.b_steps[1] != 1:
        return f"windows {contraction.b_steps[1]} elements apart are not packed"
    if schedule.block[1] < (terms := contraction.extents[2]):
        return f"windows that are not packed add all {terms} terms at once"
    return None


def _transposed_misfit(
    contraction: Contraction, schedule: ContractionAttr
) -> str | None:
    """Why upright tiles cannot compute a contraction, if so."""
    most, _, lanes = schedule.tile
    rows, _, terms = contraction.extents
    if contraction.bounds:
        return "upright tiles read no padding"
    if rows % lanes:
        return f"{rows} rows are no whole vectors of {lanes}"
    if schedule.block[1] < terms:
        return f"upright tiles add all {terms} terms at once"
    if not contraction.starts:
        return "upright tiles start their sums"
    lines = lines_of(contraction, most)
    if lines is None:
        count = len(contraction.columns)
        return f"upright tiles need 1 or 2 loops of columns, not {count}"
    if schedule.block[0] % lines.columns:
        return f"a block has no whole turns of {lines.columns} columns"
    return None


def uses_of(value: SSAValue) -> list[Operation]:
    """The stages that use a memref or a view of it."""
    found: list[Operation] = []
    for use in value.uses:
        if isinstance(use.operation, NO_STAGES):
            for result in use.operation.results:
                found += uses_of(result)
        else:
            found.append(use.operation)
    return found
