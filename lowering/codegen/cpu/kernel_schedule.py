"""Schedules of the stages of a CPU kernel: contractions, windows and Winograd."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from xdsl.dialects.builtin import ArrayAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, Operation

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import REFUSAL, SCHEDULE
from penstock.dialects.kernel.pool import PoolOp
from penstock.dialects.kernel.row import RowOp
from penstock.dialects.kernel.tile_transform import TileTransformOp
from penstock.dialects.launch import KernelOp, PanelsAttr
from penstock.dialects.launch.packed_layout import PANELS
from penstock.dialects.launch.schedules.cpu_matmul import ContractionAttr
from penstock.dialects.launch.schedules.cpu_window import WindowsAttr
from penstock.lowering.codegen.body.contraction import Contraction, contraction_of
from penstock.lowering.codegen.body.epilogue import (
    Unfit,
    epilogue_in,
    stages_of,
)
from penstock.lowering.codegen.body.printer_table import Facts
from penstock.lowering.codegen.body.scheduling import set_schedule
from penstock.lowering.codegen.body.sums_split import split_sums
from penstock.lowering.codegen.cpu.matmul_schedule import schedule_or_refusal
from penstock.lowering.codegen.cpu.packed_operands import (
    argument_of,
    element_count,
    matrices_of,
    panels_of,
    uses_of,
)
from penstock.lowering.codegen.cpu.padded_copy import copy_by_rows
from penstock.lowering.codegen.cpu.row_schedule import rows_schedule
from penstock.lowering.codegen.cpu.stage_printer import printers
from penstock.lowering.codegen.cpu.window import (
    NO_FINISH_OF_WINDOWS,
    Windowed,
    depthwise_of,
    depthwise_schedule,
    pool_schedule,
)
from penstock.lowering.codegen.cpu.winograd import (
    schedule_or_refusal as transform_schedule,
)


def stored_operand(
    op: Operation, contraction: Contraction, constants: Collection[int]
) -> str:
    """The operand that can lie in panels, as nobody else reads it, or nothing."""
    for name, number in (("a", contraction.a), ("b", contraction.b)):
        value = op.operands[number]
        argument = argument_of(value)
        if argument is None or argument.index not in constants:
            continue
        elements = element_count(argument)
        if uses_of(argument) == [op] and matrices_of(contraction, name, elements):
            return name
    return ""


def schedule_transform(op: TileTransformOp, vector_bytes: int) -> None:
    """Schedule a transform of tiles, or say why it has no schedule."""
    found = transform_schedule(op, vector_bytes)
    if isinstance(found, str) or (found[1].finish and op.held is None):
        set_schedule(op, found if isinstance(found, str) else found[1].finish or "")
        return
    schedule, unfit = found
    set_schedule(split_sums(op, unfit), schedule)


def schedule_depthwise(
    op: ContractOp, found: Windowed | str, vector_bytes: int
) -> None:
    """Give a depthwise convolution a schedule, without its finish, or say why not."""
    schedule = depthwise_schedule(found, vector_bytes)
    if op.finish is not None and isinstance(schedule, WindowsAttr):
        op = split_sums(op, Unfit(finish=NO_FINISH_OF_WINDOWS))
    set_schedule(op, schedule)


def schedule_kernel(
    kernel: KernelOp,
    vector_bytes: int,
    parts: int = 1,
    constants: Collection[int] = (),
    matrices: bool = False,
) -> None:
    """
    Schedule the contractions of a kernel that runs in about so many parts.

    `constants` are the numbers of arguments that may lie in panels; the attribute
    `panels` says which ones have to. With `matrices` bytes are multiplied in registers
    of these.
    """
    panels: list[Attribute] = [UnitAttr()] * len(kernel.body.block.args)
    for op in stages_of(kernel.body.block):
        if SCHEDULE in op.attributes or REFUSAL in op.attributes:
            continue
        if copy_by_rows(op):
            continue
        if isinstance(op, RowOp):
            set_schedule(op, rows_schedule(op))
            continue
        if isinstance(op, PoolOp):
            set_schedule(op, pool_schedule(op, vector_bytes))
            continue
        if isinstance(op, TileTransformOp):
            schedule_transform(op, vector_bytes)
            continue
        if not isinstance(op, ContractOp):
            continue
        if (windowed := depthwise_of(op)) is not None:
            schedule_depthwise(op, windowed, vector_bytes)
            continue
        found = contraction_of(op)
        assert found is not None, "it is a contraction"
        schedule = found
        if isinstance(found, Contraction):
            _, unfit = epilogue_in(op, found)
            found = replace(found, starts=found.starts and unfit.start is None)
            constant = stored_operand(op, found, constants)
            facts = vector_bytes, parts, constant, matrices
            schedule = schedule_or_refusal(found, *facts)
            if isinstance(schedule, ContractionAttr):
                if any(unfit) and op.held is None:
                    schedule = unfit.finish or unfit.start or ""
                else:
                    op = split_sums(op, unfit)
        if isinstance(schedule, str):
            op.attributes[REFUSAL] = StringAttr(schedule)
        elif isinstance(found, Contraction) and isinstance(schedule, ContractionAttr):
            op.attributes[SCHEDULE] = schedule
            if schedule.panels:
                number = found.a if schedule.panels == "a" else found.b
                argument = argument_of(op.operands[number])
                assert argument is not None, "has been looked at"
                lies = panels_of(found, schedule, element_count(argument))
                assert lies is not None, "has been looked at"
                panels[argument.index] = lies
    if any(isinstance(lies, PanelsAttr) for lies in panels):
        kernel.attributes[PANELS] = ArrayAttr(panels)
    printers().schedule_kernel(kernel, Facts(parts, vector_bytes))
