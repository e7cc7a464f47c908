"""
The schedules of folds that threads share: rows whose points do not follow each other,
and contractions with few results and many terms.
"""

from __future__ import annotations

from functools import partial
from math import prod

from xdsl.dialects.arith import TruncFOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation, Region, SSAValue

from penstock.dialects.kernel.body_ops import AllReduceOp
from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.fold_stages import build_fold_stages, is_fold_of_stages
from penstock.dialects.kernel.interface import element_of
from penstock.dialects.kernel.loops import merged
from penstock.dialects.kernel.reference import stages_by
from penstock.dialects.kernel.row import RowOp
from penstock.dialects.kernel.row_passes import passes_of
from penstock.dialects.launch.schedules.cuda_matmul import WARP
from penstock.dialects.launch.schedules.cuda_rows import RowsAttr
from penstock.dialects.utils.half_precision import is_half
from penstock.lowering.codegen.body.contraction import nest_of, sums_nest
from penstock.lowering.codegen.body.epilogue import Unfit
from penstock.lowering.codegen.body.statements import Computation
from penstock.lowering.codegen.cuda.block_reduction import (
    FEW_AND_LONG,
    LEAST_TERMS,
    MOST_ELEMENTS,
    BlockReduction,
    block_reduction_of,
    scheduled_block_reduction,
    threads_of,
    too_large,
    width_beside,
)
from penstock.lowering.codegen.cuda.device_limits import SIZES
from penstock.lowering.codegen.cuda.rows import (
    dtype_of,
    has_regions,
    kept_words,
    lie_apart,
    most_kept,
    points_of,
    rows_schedule,
    unshared,
)
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


def row_schedule(row: RowOp) -> RowsAttr | str:
    """The schedule of rows, or why they have none."""
    if fold_stages_of(row) is not None:
        return fold_schedule(row)
    return grid_schedule(row) if lie_apart(row) else rows_schedule(row)


def grid_schedule(row: RowOp) -> RowsAttr | str:
    """The schedule of rows side by side, or why threads cannot share them."""
    if (reason := unshared(row)) is not None:
        return reason
    if has_regions(row):
        return "a thread folds by a region where points lie apart"
    pairs = zip(*row.loops(), strict=True)
    count = prod(extent for extent, reduces in pairs if not reduces)
    points = points_of(row)
    if count > MOST_ELEMENTS or points < LEAST_TERMS:
        return FEW_AND_LONG
    width = width_beside(count)
    threads = threads_of(-(-count // width), points)
    while (reason := unfit_of_grid(row, threads, width)) and threads > 2 * WARP:
        threads //= 2
    if reason is not None:
        return reason
    words = kept_words(row)
    turns = -(-points // (threads // width))
    is_kept = words > 0 and turns * words <= most_kept(threads)
    return RowsAttr("grid", threads, width, is_kept)


def unfit_of_grid(row: RowOp, threads: int, width: int) -> str | None:
    """
    The reason that a block of so many threads does not hold the folds of so many rows
    side by side, if any.
    """
    folds = [op for op in row.body.block.ops if isinstance(op, AllReduceOp)]
    size = max((SIZES[dtype_of(fold.value.type)] for fold in folds), default=0)
    return too_large(threads, len(folds) * (threads // WARP) * width * size)


def fold_schedule(row: RowOp) -> RowsAttr | str:
    """The schedule of rows that are folded by stages, or why they have none."""
    computation = _folding(row)
    if isinstance(computation, str):
        return computation
    return shared_fold(computation) or FEW_AND_LONG


def shared_fold(computation: Computation) -> RowsAttr | None:
    """The schedule of folds that threads share, where each has terms enough."""
    if (dots := warp_reduction_of(computation)) is not None:
        return RowsAttr("warp", WARP, dots.width)
    if (sums := block_reduction_of(computation)) is not None:
        return RowsAttr("grid", sums.threads, sums.width, sums.row is not None)
    return None


def shared_terms(op: ContractOp) -> RowsAttr | None:
    """The schedule of a contraction whose terms threads share, if it has enough."""
    computation = None if op.held is None else _summing(op)
    return shared_fold(computation) if isinstance(computation, Computation) else None


def unfit_of_shared_terms(op: ContractOp) -> Unfit:
    """The start and the finish that threads which share terms leave to other stages."""
    why = "threads add their terms to the result"
    return Unfit(
        None if op.is_started_by_itself else why,
        None if op.finish is None else why,
    )


def shared_terms_of(
    op: ContractOp, schedule: RowsAttr
) -> WarpReduction | BlockReduction | str:
    """The folds of a contraction whose terms threads share, or why they cannot."""
    unfit = unfit_of_shared_terms(op)
    if (why := unfit.start or unfit.finish) is not None:
        return why
    if isinstance(computation := _summing(op), str):
        return computation
    return scheduled_fold(computation, schedule)


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
    nest = nest_of(stage)
    if isinstance(nest, str):
        return nest
    if not any(nest.reductions):
        return "no loop folds"
    return Computation(_in_registers(stage), merged(nest))


def _folding(row: RowOp) -> Computation | str:
    """The fold among the stages of rows."""
    region = fold_stages_of(row)
    assert region is not None, "has been asked whether they are one"
    stages = region.block.ops
    return folding_of(next(op for op in stages if isinstance(op, GenericOp)))


def _summing(op: ContractOp) -> Computation | str:
    """The stage that adds the terms of a contraction to its result."""
    if sums_nest(op).has_bounds:
        return "a factor has padding around it"
    (stage,) = stages_by(op.build_sums).block.ops
    return folding_of(stage)


def _in_registers(stage: GenericOp) -> GenericOp:
    """
    A stage that folds in `f32` into a result of 16 bits with a body that goes on from
    the fold so far as it is, without rounding it; any other one as it is.
    """
    if not is_half(element_of(stage.outputs[0])):
        return stage
    copy = stage.clone()
    so_far, last = copy.body.block.args[-1], copy.body.block.last_op
    assert last is not None, "a linalg body ends in linalg.yield"
    casts: list[tuple[Operation, SSAValue]]
    casts = [(use.operation, so_far) for use in so_far.uses]
    if isinstance(rounded := last.operands[0].owner, TruncFOp):
        casts.append((rounded, rounded.input))
    for cast, value in casts:
        cast.results[0].replace_all_uses_with(value)
        cast.detach()
        cast.erase()
    return copy
