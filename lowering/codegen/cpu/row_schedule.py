"""The schedules of rows on a CPU: which of their loops are vectors."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation

from penstock.dialects.kernel.loops import loop_order, merged
from penstock.dialects.kernel.reference import loops_of
from penstock.dialects.kernel.row import RowOp
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
    region = loops_of(row)
    stages = [*region.block.ops]
    if any(map(_is_of_columns, stages)):
        return VectorLoopsAttr("columns")
    loops = (op for stage in stages for op in stage.walk())
    if any(map(_is_line, loops)):
        return VectorLoopsAttr("lines")
    return "neither points of a row nor rows lie so that vectors could load them"


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
