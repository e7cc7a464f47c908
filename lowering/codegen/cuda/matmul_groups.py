"""
The analysis of contractions that the blocks of a GPU compute tile by tile.

    for each tile of the result:
        bring the first terms of its rows and columns to shared memory
        for all terms, some at once:
            fetch the next ones into registers
            add the products of those in shared memory to the sums of each thread
            bring the next ones to the other half of shared memory
        apply the epilogue to the sums, and store them
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Operation

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import SCHEDULE
from penstock.dialects.launch.schedules.cuda_attention import QueriesAttr
from penstock.dialects.launch.schedules.cuda_matmul import (
    MAX_SHARED_ELEMENTS,
    TilesAttr,
)
from penstock.dialects.utils.half_precision import is_half
from penstock.lowering.codegen.body.contraction import (
    Contraction,
    ContractionLike,
    device_contraction_of,
    factors_of,
)
from penstock.lowering.codegen.body.epilogue import (
    Epilogue,
    Unfit,
    VectorScalars,
    epilogue_in,
    epilogue_of,
)
from penstock.lowering.codegen.body.scalars import HALVES, Scalars


@dataclass(frozen=True)
class TiledMatmul:
    """A contraction with a schedule of tiles, and what is computed with it."""

    op: ContractionLike
    contraction: Contraction
    schedule: TilesAttr
    finish: Epilogue

    @property
    def grid(self) -> tuple[int, int]:
        """The tiles down the rows and along the columns."""
        rows, columns, _ = self.contraction.extents
        height, width, _ = self.schedule.block
        return -(-rows // height), -(-columns // width)

    @property
    def tiles(self) -> int:
        """All tiles of the result."""
        return prod(self.contraction.outer_extents) * prod(self.grid)

    @property
    def steps(self) -> int:
        """The number of times that terms are brought to shared memory."""
        return -(-self.contraction.extents[2] // self.schedule.block[2])


def tiled_matmul_of(
    op: Operation, stages: Sequence[Operation]
) -> TiledMatmul | str | None:
    """
    The contraction of an op that has a schedule, None for one without, or why it cannot
    be computed so.
    """
    schedule = op.attributes.get(SCHEDULE)
    if schedule is None or isinstance(schedule, QueriesAttr):
        return None
    if not isinstance(schedule, TilesAttr):
        return f"{schedule} is no schedule for devices"
    found = device_contraction_of(op)
    if found is None:
        return f"{op.name} is no sum of products, which {schedule} is for"
    if isinstance(found, str):
        return f"no tiles compute {op.name}: {found}"
    if (found.element in HALVES) != schedule.has_warps:
        where = "on tensor cores" if schedule.has_warps else "of threads"
        return f"there are no tiles of {found.element} {where}"
    if found.element == "f64" and 2 * schedule.shared_elements > MAX_SHARED_ELEMENTS:
        return f"{schedule} does not fit into shared memory for f64"
    assert isinstance(op, ContractionLike), "a contraction is one"
    if isinstance(op, ContractOp):
        finish, unfit = device_epilogue_in(op, found)
        why = unfit.start or unfit.finish
        return why or TiledMatmul(op, found, schedule, finish)
    found = replace(found, starts=schedule.folds[0] > 0)
    finish = epilogue_of(found, stages, stages.index(op), schedule.folds)
    if finish is None:
        before, after = schedule.folds
        return f"{before} stages before and {after} after cannot be folded in {op.name}"
    return TiledMatmul(op, found, schedule, finish)


def device_epilogue_in(
    op: ContractOp, contraction: Contraction
) -> tuple[Epilogue, Unfit]:
    """As `epilogue_in`, for tiles on devices."""
    found, unfit = epilogue_in(op, contraction)
    if len(op.outs) == 1:
        return found, unfit
    return found, Unfit(unfit.start, "tiles on devices store one result")


class FoldedScalars(VectorScalars):
    """Prints folded stages for one element, with the names of other scalars."""

    def __init__(self, scalars: Scalars):
        super().__init__()
        self.names = scalars.names

    def call(self, function: str, *arguments: str) -> str:
        return Scalars.call(self, function, *arguments)

    def expression(self, op: Operation, operands: Sequence[str]) -> str | None:
        # Values of 16 bits are computed in 32, and rounded when they are stored.
        if isinstance(op, arith.ExtFOp | arith.TruncFOp):
            return operands[0]
        return super().expression(op, operands)


def summed_in_f32(op: Operation) -> LinalgStructuredOperation | None:
    """
    A copy of a contraction of `f16` or `bf16` whose body goes on from the sum so
    far as it is, without rounding it; None for any other op, and for one that adds in
    16 bits, as named ops of linalg do.
    """
    if not isinstance(op, LinalgStructuredOperation) or len(op.outputs) != 1:
        return None
    if not is_half(op.body.block.args[-1].type) or factors_of(op) is None:
        return None
    copy = op.clone()
    so_far, last = copy.body.block.args[-1], copy.body.block.last_op
    assert last is not None, "a linalg body ends in linalg.yield"
    rounded = last.operands[0].owner
    if not isinstance(rounded, arith.TruncFOp):
        copy.erase()
        return None
    extended = [use.operation for use in so_far.uses]
    last.operands[0] = rounded.input
    for cast in (rounded, *extended):
        if isinstance(cast, arith.ExtFOp):
            cast.result.replace_all_uses_with(so_far)
        cast.detach()
        cast.erase()
    return copy
