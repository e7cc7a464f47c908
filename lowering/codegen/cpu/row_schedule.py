"""The schedules of rows on a CPU: which of their loops are vectors."""

from __future__ import annotations

from xdsl.dialects import scf

from penstock.dialects.kernel.reference import loops_of
from penstock.dialects.kernel.row import RowOp
from penstock.dialects.launch.schedules.cpu_vector_loops import VectorLoopsAttr
from penstock.lowering.codegen.body.vector_loop import vector_loop_of_for
from penstock.lowering.codegen.cpu.outer_vector_loop import outer_vector_loop_of


def rows_schedule(row: RowOp) -> VectorLoopsAttr | str:
    """The schedule of rows, or why none of their loops is one of vectors."""
    region = loops_of(row)
    *_, rows = region.block.ops
    assert isinstance(rows, scf.ParallelOp), "rows are independent"
    if outer_vector_loop_of(rows) is not None:
        return VectorLoopsAttr("columns")
    loops = (op for op in rows.walk() if isinstance(op, scf.ForOp))
    if any(vector_loop_of_for(loop) is not None for loop in loops):
        return VectorLoopsAttr("lines")
    return "neither points of a row nor rows lie so that vectors could load them"
