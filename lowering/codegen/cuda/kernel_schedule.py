"""Schedules of the stages of a CUDA kernel: tiles of contractions and attention."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import TypeAlias

from xdsl.dialects.builtin import StringAttr

from penstock.dialects.kernel.attention import AttentionOp
from penstock.dialects.kernel.attention_gradient import AttentionGradientOp
from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import REFUSAL, SCHEDULE
from penstock.dialects.kernel.row import RowOp
from penstock.dialects.launch import KernelOp
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
from penstock.lowering.codegen.cuda.fold_schedule import row_schedule
from penstock.lowering.codegen.cuda.stage_printer import printers

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


def is_worth_tiles(contraction: Contraction) -> bool:
    """Whether a contraction is large enough for tiles."""
    rows, columns, terms = contraction.extents
    return (
        min(rows, columns) >= LEAST_SIDE
        and rows * columns >= LEAST_ELEMENTS
        and terms >= LEAST_TERMS
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


def schedule_attention(op: AttentionOp) -> None:
    """Give attention a schedule, or say why it has none."""
    found = device_attention_of(op)
    if isinstance(found, str):
        op.attributes[REFUSAL] = StringAttr(found)
    elif (queries := best_queries(*found)) is not None:
        op.attributes[SCHEDULE] = queries
    else:
        text = "blocks of queries and keys do not fit into shared memory and registers"
        op.attributes[REFUSAL] = StringAttr(text)


def schedule_kernel(kernel: KernelOp, processors: int) -> None:
    """Schedule the contractions of a kernel."""
    for op in stages_of(kernel.body.block):
        if SCHEDULE in op.attributes:
            continue
        if isinstance(op, AttentionOp):
            schedule_attention(op)
            continue
        if isinstance(op, AttentionGradientOp):
            set_schedule(op, gradient_tiles(op))
            continue
        if isinstance(op, RowOp):
            set_schedule(op, row_schedule(op))
            continue
        if not isinstance(op, ContractOp):
            continue
        found = device_contraction_of(op)
        if not isinstance(found, Contraction) or not is_worth_tiles(found):
            continue
        if is_thin(found, processors):
            continue
        rows, columns, _ = found.extents
        others = prod(found.outer_extents)
        is_narrow = found.element in HALVES
        choices = CHOICES_OF.get(found.element, TENSOR_CHOICES)
        block, thread = best_tiles(rows, columns, others, processors, choices)
        _, unfit = epilogue_in(op, found)
        if any(unfit) and op.held is None:
            op.attributes[REFUSAL] = StringAttr(unfit.finish or unfit.start or "")
            continue
        op = split_sums(op, unfit)
        if is_narrow:
            tiles = TilesAttr(block, warp=thread, stages=TENSOR_STAGES)
        else:
            tiles = TilesAttr(block, thread)
        op.attributes[SCHEDULE] = tiles
    printers().schedule_kernel(kernel, Facts(processors=processors))
