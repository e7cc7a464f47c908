"""
The printers of `kernel.contract` for devices: tiles of blocks, shared terms, and
libraries.
"""

from __future__ import annotations

from xdsl.ir import Attribute

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import SCHEDULE, StructuredOp
from penstock.dialects.launch.schedules.cuda_matmul import TilesAttr
from penstock.dialects.launch.schedules.cuda_rows import RowsAttr
from penstock.dialects.launch.schedules.library import LibraryAttr
from penstock.lowering.codegen.body.epilogue import Unfit
from penstock.lowering.codegen.cuda.fold_schedule import (
    shared_terms_of,
    unfit_of_shared_terms,
)
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


class SharedTermsPrinter(CudaStagePrinter):
    """Prints a contraction whose terms the threads of a warp or a block share."""

    OP = ContractOp
    SCHEDULES = (RowsAttr,)

    def __init__(self, printer: DevicePrinter, op: StructuredOp):
        schedule = op.attributes[SCHEDULE]
        assert isinstance(op, ContractOp), "found by its op"
        assert isinstance(schedule, RowsAttr), "found by its schedule"
        found = shared_terms_of(op, schedule)
        assert not isinstance(found, str), "asked by misfit"
        self._out, self._schedule = printer, schedule
        self._computation = found.computation

    @classmethod
    def misfit(cls, op: StructuredOp, schedule: Attribute) -> str | None:
        assert isinstance(op, ContractOp), "found by its op"
        assert isinstance(schedule, RowsAttr), "found by its schedule"
        found = shared_terms_of(op, schedule)
        is_fit = not isinstance(found, str)
        return None if is_fit else f"{schedule} is for other sums: {found}"

    @classmethod
    def unfit(cls, op: StructuredOp) -> Unfit:
        assert isinstance(op, ContractOp), "found by its op"
        return unfit_of_shared_terms(op)

    def print(self) -> None:
        self._out.print_fold(self._computation, self._schedule)


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
