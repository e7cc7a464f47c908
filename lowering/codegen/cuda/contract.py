"""The printers of `kernel.contract` for devices: tiles of blocks, and libraries."""

from __future__ import annotations

from xdsl.ir import Attribute

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import SCHEDULE, StructuredOp
from penstock.dialects.launch.schedules.cuda_matmul import TilesAttr
from penstock.dialects.launch.schedules.library import LibraryAttr
from penstock.lowering.codegen.body.epilogue import Unfit
from penstock.lowering.codegen.cuda.library_calls import (
    LibraryStage,
    library_stage_of,
    unfit_of_libraries,
)
from penstock.lowering.codegen.cuda.matmul import TiledMatmulPrinter
from penstock.lowering.codegen.cuda.matmul_groups import (
    TiledMatmul,
    tiled_matmul_of,
    unfit_of_device_tiles,
)
from penstock.lowering.codegen.cuda.matmul_tensor_core import TensorCorePrinter
from penstock.lowering.codegen.cuda.stage_printer import CudaStagePrinter
from penstock.lowering.codegen.cuda.statements import DevicePrinter


class TiledContractPrinter(CudaStagePrinter):
    """Prints a contraction in tiles, with what starts and finishes its sums."""

    OP = ContractOp
    SCHEDULES = (TilesAttr,)

    def __init__(self, printer: DevicePrinter, op: StructuredOp):
        group = tiled_matmul_of(op, op.attributes[SCHEDULE])
        assert isinstance(group, TiledMatmul), "asked by misfit"
        self._out, self._group = printer, group

    @classmethod
    def misfit(cls, op: StructuredOp, schedule: Attribute) -> str | None:
        found = tiled_matmul_of(op, schedule)
        return found if isinstance(found, str) else None

    @classmethod
    def unfit(cls, op: StructuredOp) -> Unfit:
        return unfit_of_device_tiles(op)

    def print(self) -> None:
        form = TensorCorePrinter if self._group.schedule.stages else TiledMatmulPrinter
        out = self._out
        out.add_stage(form(out, self._group).print(out.next_stage))


class LibraryContractPrinter(CudaStagePrinter):
    """Lists a contraction among the calls of libraries."""

    OP = ContractOp
    SCHEDULES = (LibraryAttr,)

    def __init__(self, printer: DevicePrinter, op: StructuredOp):
        stage = library_stage_of(op, op.attributes[SCHEDULE])
        assert isinstance(stage, LibraryStage), "asked by misfit"
        self._out, self._stage = printer, stage

    @classmethod
    def misfit(cls, op: StructuredOp, schedule: Attribute) -> str | None:
        found = library_stage_of(op, schedule)
        return found if isinstance(found, str) else None

    @classmethod
    def unfit(cls, op: StructuredOp) -> Unfit:
        return unfit_of_libraries(op)

    def print(self) -> None:
        self._out.calls.append(self._stage.entry(self._out.next_stage))
