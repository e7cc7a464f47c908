"""The schedules of rows on a CPU: which of their loops are vectors."""

from __future__ import annotations

from functools import partial

from xdsl.dialects import scf
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation, Region

from penstock.dialects.kernel.fold_stages import is_fold_of_stages
from penstock.dialects.kernel.loops import loop_order, merged
from penstock.dialects.kernel.reference import loops_of, stages_by
from penstock.dialects.kernel.row import RowOp
from penstock.dialects.kernel.row_loops import build_first_pass
from penstock.dialects.kernel.row_passes import passes_of
from penstock.dialects.launch.schedules.cpu_vector_loops import VectorLoopsAttr
from penstock.lowering.codegen.body.contraction import nest_of
from penstock.lowering.codegen.body.statements import Computation
from penstock.lowering.codegen.body.vector_loop import (
    VectorLoop,
    vector_loop_of,
    vector_loop_of_for,
)
from penstock.lowering.codegen.cpu.outer_vector_loop import outer_vector_loop_of


def rows_schedule(row: RowOp) -> VectorLoopsAttr | str:
    """The schedule of rows, or why none of their loops is one of vectors."""
    derived = passes_of(row)
    is_of_loops = bool(derived.passes) and not is_fold_of_stages(row, derived)
    # Most rows are lines from the first pass on, and the others need not be built.
    if (
        is_of_loops
        and not _may_be_of_columns(row)
        and _has_line(stages_by(partial(build_first_pass, row)))
    ):
        return VectorLoopsAttr("lines")
    return schedule_of_loops(loops_of(row))


def schedule_of_loops(region: Region) -> VectorLoopsAttr | str:
    """The schedule of the stages that rows stand for, or why they have none."""
    if any(map(_is_of_columns, region.block.ops)):
        return VectorLoopsAttr("columns")
    if _has_line(region):
        return VectorLoopsAttr("lines")
    return "neither points of a row nor rows lie so that vectors could load them"


def _may_be_of_columns(row: RowOp) -> bool:
    """Whether elements of all results of a row are next to those of the next row."""
    rows, accesses = row.roles()["row"], row.accesses()
    return bool(rows) and all(
        accesses[number].strides[rows[-1]] == 1 for number in row.outs_at()
    )


def _has_line(region: Region) -> bool:
    """Whether a loop of some stages is one of vectors."""
    return any(_is_line(op) for stage in region.block.ops for op in stage.walk())


def _is_of_columns(stage: Operation) -> bool:
    """Whether a stage runs over rows in vectors."""
    if isinstance(stage, scf.ParallelOp):
        return outer_vector_loop_of(stage) is not None
    line = _line_of(stage)
    return line is not None and not line.folds


def _is_line(op: Operation) -> bool:
    """Whether a loop, or the innermost one of a stage, is one of vectors."""
    if isinstance(op, scf.ForOp):
        return vector_loop_of_for(op) is not None
    return _line_of(op) is not None


def _line_of(stage: Operation) -> VectorLoop | None:
    """The innermost loop of a reduction, as one of vectors."""
    if not isinstance(stage, GenericOp):
        return None
    nest = nest_of(stage)
    if isinstance(nest, str) or not any(nest.reductions):
        return None
    computation = Computation(stage, merged(nest))
    return vector_loop_of(computation, loop_order(computation.nest))
