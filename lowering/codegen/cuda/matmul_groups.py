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
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith
from xdsl.ir import Attribute, Operation

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import StructuredOp
from penstock.dialects.launch.schedules.cuda_matmul import (
    MAX_SHARED_ELEMENTS,
    TilesAttr,
)
from penstock.lowering.codegen.body.contraction import (
    Contraction,
    device_contraction_of,
    result_of,
)
from penstock.lowering.codegen.body.epilogue import (
    Epilogue,
    Input,
    Unfit,
    VectorScalars,
    epilogue_in,
)
from penstock.lowering.codegen.body.scalars import HALVES, Scalars


@dataclass(frozen=True)
class TiledMatmul:
    """A contraction with a schedule of tiles, and what is computed with it."""

    op: ContractOp
    contraction: Contraction
    schedule: TilesAttr
    finish: Epilogue

    @property
    def results(self) -> list[Input]:
        """The result that holds the sums, then the others."""
        found = self.contraction
        held = Input(
            result_of(self.op),
            found.stride(-1, found.row),
            found.stride(-1, found.column),
            found.outer_strides(access := found.nest.accesses[-1]),
            access.offset,
        )
        return [held, *self.finish.results]

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


def tiled_matmul_of(op: StructuredOp, schedule: Attribute) -> TiledMatmul | str:
    """The contraction of an op with a schedule, or why it cannot be computed so."""
    assert isinstance(op, ContractOp), "no other op has this printer"
    assert isinstance(schedule, TilesAttr), "no other schedule has it"
    found = device_contraction_of(op)
    if not isinstance(found, Contraction):
        return f"no tiles compute {op.name}: {found}"
    if (found.element in HALVES) != schedule.has_warps:
        where = "on tensor cores" if schedule.has_warps else "of threads"
        return f"there are no tiles of {found.element} {where}"
    if found.element == "f64" and 2 * schedule.shared_elements > MAX_SHARED_ELEMENTS:
        return f"{schedule} does not fit into shared memory for f64"
    finish, unfit = epilogue_in(op, found)
    why = unfit.start or unfit.finish
    return why or TiledMatmul(op, found, schedule, finish)


def unfit_of_device_tiles(op: StructuredOp) -> Unfit:
    """The start and finish of sums that tiles leave to stages before and after them."""
    found = device_contraction_of(op)
    if not isinstance(op, ContractOp) or not isinstance(found, Contraction):
        return Unfit()
    return epilogue_in(op, found)[1]


class FoldedScalars(VectorScalars):
    """Prints a finish for one element, with the names of other scalars."""

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
