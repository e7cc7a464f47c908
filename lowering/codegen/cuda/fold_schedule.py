"""The schedules of folds over points that do not follow each other."""

from __future__ import annotations

from functools import partial

from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation, Region

from penstock.dialects.kernel.fold_stages import build_fold_stages, is_fold_of_stages
from penstock.dialects.kernel.loops import merged
from penstock.dialects.kernel.reference import stages_by
from penstock.dialects.kernel.row import RowOp
from penstock.dialects.kernel.row_passes import passes_of
from penstock.dialects.launch.schedules.cuda_matmul import WARP
from penstock.dialects.launch.schedules.cuda_rows import RowsAttr
from penstock.lowering.codegen.body.contraction import nest_of
from penstock.lowering.codegen.body.statements import Computation
from penstock.lowering.codegen.cuda.block_reduction import (
    BlockReduction,
    block_reduction_of,
    scheduled_block_reduction,
)
from penstock.lowering.codegen.cuda.matmul_groups import summed_in_registers
from penstock.lowering.codegen.cuda.warp_reduction import (
    WarpReduction,
    scheduled_warp_reduction,
    warp_reduction_of,
)


def fold_stages_of(row: RowOp) -> Region | None:
    """The stages that compute rows which are one fold, in registers, if they are."""
    derived = passes_of(row)
    if not is_fold_of_stages(row, derived, in_registers=True):
        return None
    return stages_by(partial(build_fold_stages, row, derived))


def fold_schedule(row: RowOp) -> RowsAttr | str:
    """The schedule of rows that are folded by stages, or why they have none."""
    computation = _folding(row)
    if isinstance(computation, str):
        return computation
    if (dots := warp_reduction_of(computation)) is not None:
        return RowsAttr("warp", WARP, dots.width)
    if (sums := block_reduction_of(computation)) is not None:
        return RowsAttr("grid", sums.threads, sums.width, sums.row is not None)
    return "rows whose points lie apart have a thread each unless they are few and long"


def fold_misfit(row: RowOp, schedule: RowsAttr) -> str | None:
    """The reason that rows which are folded by stages cannot be computed so, if any."""
    computation = _folding(row)
    if isinstance(computation, str):
        return computation
    found = scheduled_fold(computation, schedule)
    return found if isinstance(found, str) else None


def scheduled_fold(
    computation: Computation, schedule: RowsAttr
) -> WarpReduction | BlockReduction | str:
    """A fold as a schedule has it, or why it cannot be computed so."""
    match schedule.form:
        case "grid":
            threads, width = schedule.threads, schedule.width
            return scheduled_block_reduction(
                computation, threads, width, kept=schedule.kept
            )
        case "warp":
            return scheduled_warp_reduction(computation, schedule.width)
        case _:
            return "a block has a row of points that follow each other"


def folding_of(stage: Operation) -> Computation | str:
    """The fold that a stage is, or why it is none that threads share."""
    if not isinstance(stage, GenericOp):
        return f"{stage.name} folds nothing"
    fold = summed_in_registers(stage) or stage
    nest = nest_of(fold)
    if isinstance(nest, str):
        return nest
    return Computation(fold, merged(nest)) if any(nest.reductions) else "no loop folds"


def _folding(row: RowOp) -> Computation | str:
    """The fold among the stages of rows."""
    region = fold_stages_of(row)
    assert region is not None, "has been asked whether they are one"
    stages = region.block.ops
    return folding_of(next(op for op in stages if isinstance(op, GenericOp)))
