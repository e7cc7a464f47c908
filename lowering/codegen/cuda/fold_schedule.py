"""The schedules of folds over points that do not follow each other."""

from __future__ import annotations

from xdsl.dialects.linalg.ops import GenericOp

from penstock.dialects.kernel.loops import merged
from penstock.dialects.kernel.reference import loops_of
from penstock.dialects.kernel.row import RowOp
from penstock.dialects.launch.schedules.cuda_matmul import WARP
from penstock.dialects.launch.schedules.cuda_rows import RowsAttr
from penstock.lowering.codegen.body.contraction import nest_of
from penstock.lowering.codegen.body.statements import Computation
from penstock.lowering.codegen.cuda.block_reduction import block_reduction_of
from penstock.lowering.codegen.cuda.matmul_groups import summed_in_f32
from penstock.lowering.codegen.cuda.warp_reduction import warp_reduction_of


def fold_schedule(row: RowOp) -> RowsAttr | str:
    """The schedule of rows that are folded by stages, or why they have none."""
    region = loops_of(row)
    folding = next(op for op in region.block.ops if isinstance(op, GenericOp))
    fold = summed_in_f32(folding) or folding
    nest = nest_of(fold)
    if isinstance(nest, str):
        return nest
    computation = Computation(fold, merged(nest))
    if (dots := warp_reduction_of(computation)) is not None:
        return RowsAttr("warp", WARP, dots.width)
    if (sums := block_reduction_of(computation)) is not None:
        return RowsAttr("grid", sums.threads, sums.width)
    return "rows whose points lie apart have a thread each unless they are few and long"
