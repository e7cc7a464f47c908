"""Schedules of the stages of a CUDA kernel."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import TypeAlias

from penstock.dialects.kernel.attention import AttentionOp
from penstock.dialects.kernel.attention_gradient import AttentionGradientOp
from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import REFUSAL, SCHEDULE, StructuredOp
from penstock.dialects.kernel.pool import PoolOp
from penstock.dialects.kernel.row import RowOp
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.schedules.cuda_attention import QueriesAttr
from penstock.dialects.launch.schedules.cuda_matmul import TilesAttr
from penstock.lowering.codegen.body.contraction import (
    Contraction,
    device_contraction_of,
)
from penstock.lowering.codegen.body.epilogue import epilogue_in, stages_of
from penstock.lowering.codegen.body.printer_table import Facts
from penstock.lowering.codegen.body.scalars import HALVES
from penstock.lowering.codegen.body.scheduling import set_schedule
from penstock.lowering.codegen.body.sums_split import split_sums
from penstock.lowering.codegen.cuda.attention_gradient import gradient_tiles
from penstock.lowering.codegen.cuda.attention_groups import (
    best_queries,
    device_attention_of,
)
from penstock.lowering.codegen.cuda.block_reduction import MOST_ROWS
from penstock.lowering.codegen.cuda.fold_schedule import (
    row_schedule,
    shared_terms,
    unfit_of_shared_terms,
)
from penstock.lowering.codegen.cuda.stage_printer import printers
from penstock.lowering.codegen.cuda.window import depthwise_windows, pool_windows

Choice: TypeAlias = tuple[tuple[int, int, int], tuple[int, int], float]

CHOICES: Sequence[Choice] = (
    ((128, 128, 8), (8, 8), 1.0),
    ((64, 64, 16), (4, 4), 0.7),
    ((32, 64, 16), (4, 4), 0.55),
    ((16, 64, 16), (2, 4), 0.35),
)
"""The tiles of a block and of a thread, and the share of time in which they compute."""
DOUBLE_CHOICES: Sequence[Choice] = (
    ((64, 64, 8), (4, 4), 1.0),
    ((32, 64, 8), (4, 4), 0.7),
    ((16, 64, 16), (2, 4), 0.4),
)
"""The same for `f64`, which takes twice the registers and the shared memory."""
TENSOR_CHOICES: Sequence[Choice] = (
    ((128, 128, 32), (64, 32), 1.0),
    ((64, 128, 32), (32, 32), 0.75),
    ((64, 64, 32), (32, 32), 0.6),
    ((32, 64, 32), (16, 32), 0.4),
    ((16, 64, 32), (16, 16), 0.25),
)
"""The same on tensor cores, with the tiles of warps."""
TENSOR_STAGES = 4
PROCESSORS = 132
"""Those of an H100."""
CHOICES_OF = {"f32": CHOICES, "f64": DOUBLE_CHOICES}
THIN_TERMS = 512
LEAST_SIDE, LEAST_ELEMENTS, LEAST_TERMS = 4, 256, 8


def is_thin(contraction: Contraction, processors: int) -> bool:
    """
    Whether so few tiles have so many terms that blocks had better divide these
    (`penstock.lowering.codegen.cuda.block_reduction`), where columns are contiguous.
    """
    rows, columns, terms = contraction.extents
    tiles = prod(contraction.outer_extents) * ceil(columns / 64)
    return (
        rows <= MOST_ROWS
        and terms >= THIN_TERMS
        and 2 * tiles <= processors
        and contraction.b_steps[1] == 1
        and not contraction.has_windows
    )


def too_small(contraction: Contraction) -> str | None:
    """Why a contraction has no tiles, if it is too small for them."""
    rows, columns, terms = contraction.extents
    if (
        min(rows, columns) >= LEAST_SIDE
        and rows * columns >= LEAST_ELEMENTS
        and terms >= LEAST_TERMS
    ):
        return None
    return (
        f"{rows} x {columns} sums of {terms} terms are too few for tiles, which have "
        f"at least {LEAST_SIDE} rows and columns, {LEAST_ELEMENTS} sums and "
        f"{LEAST_TERMS} terms"
    )


def best_tiles(
    rows: int,
    columns: int,
    others: int,
    processors: int,
    choices: Sequence[Choice] = CHOICES,
) -> tuple[tuple[int, int, int], tuple[int, int]]:
    """The tiles of a block and of a thread with the least modelled time."""

    def time(block: tuple[int, int, int], share: float) -> float:
        tiles = others * ceil(rows / block[0]) * ceil(columns / block[1])
        return ceil(tiles / processors) * block[0] * block[1] / share

    block, thread, _ = min(choices, key=lambda choice: time(choice[0], choice[2]))
    return block, thread


def attention_schedule(op: AttentionOp) -> QueriesAttr | str:
    """The schedule of attention, or why it has none."""
    found = device_attention_of(op)
    if isinstance(found, str):
        return found
    text = "blocks of queries and keys do not fit into shared memory and registers"
    return best_queries(*found) or text


def tiles_of(contraction: Contraction, processors: int) -> TilesAttr:
    """The tiles of a contraction that is large enough for them."""
    rows, columns, _ = contraction.extents
    choices = CHOICES_OF.get(contraction.element, TENSOR_CHOICES)
    others = prod(contraction.outer_extents)
    block, thread = best_tiles(rows, columns, others, processors, choices)
    if contraction.element in HALVES:
        return TilesAttr(block, warp=thread, stages=TENSOR_STAGES)
    return TilesAttr(block, thread)


def schedule_contraction(op: ContractOp, processors: int) -> None:
    """
    Give a contraction a schedule, or say why it has none: tiles, or else threads that
    share the terms of each element.
    """
    found = device_contraction_of(op)
    assert found is not None, "it is a contraction"
    if isinstance(found, Contraction):
        found = too_small(found) or found
    shared = None
    if isinstance(found, str) or is_thin(found, processors):
        shared = shared_terms(op)
    if shared is not None:
        set_schedule(split_sums(op, unfit_of_shared_terms(op)), shared)
    elif isinstance(found, str):
        set_schedule(op, found)
    elif any(unfit := epilogue_in(op, found)[1]) and op.held is None:
        set_schedule(op, unfit.finish or unfit.start or "")
    else:
        set_schedule(split_sums(op, unfit), tiles_of(found, processors))


def schedule_stage(op: StructuredOp, processors: int) -> None:
    """Give a stage a schedule, or say why it has none."""
    match op:
        case AttentionOp():
            set_schedule(op, attention_schedule(op))
        case AttentionGradientOp():
            set_schedule(op, gradient_tiles(op))
        case RowOp():
            set_schedule(op, row_schedule(op))
        case PoolOp():
            set_schedule(op, pool_windows(op))
        case ContractOp():
            if (windows := depthwise_windows(op)) is not None:
                set_schedule(op, windows)
            else:
                schedule_contraction(op, processors)
        case _:
            pass


def schedule_kernel(kernel: KernelOp, processors: int) -> None:
    """Schedule the stages of a kernel."""
    for op in stages_of(kernel.body.block):
        is_left = SCHEDULE in op.attributes or REFUSAL in op.attributes
        if isinstance(op, StructuredOp) and not is_left:
            schedule_stage(op, processors)
    printers().schedule_kernel(kernel, Facts(processors=processors))
