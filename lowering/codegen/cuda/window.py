"""
The source of pools and depthwise convolutions for devices: a thread for each element of
the result.

Neighbouring threads load neighbours, or elements a stride apart, so that the lines of
an image come from memory once. Taps outside of an image load the nearest element.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod

from xdsl.ir import Attribute
from xdsl.transforms.common_subexpression_elimination import cse

from penstock.dialects.kernel.builder import KernelBuilder
from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import SCHEDULE, StructuredOp, shape_of
from penstock.dialects.kernel.pool import PoolOp
from penstock.dialects.kernel.reference import stages_by
from penstock.dialects.kernel.windows import MAX_MULTIPLIED, MAX_UNROLLED
from penstock.dialects.launch.schedules.cuda_window import WindowThreadsAttr
from penstock.lowering.codegen.cuda.stage_printer import CudaStagePrinter
from penstock.lowering.codegen.cuda.statements import DevicePrinter

NO_WINDOWS = "there are no windows"


def pool_windows(op: PoolOp) -> WindowThreadsAttr | str:
    """The schedule of a pool, or why it has none."""
    if 0 in shape_of(op.out):
        return NO_WINDOWS
    return WindowThreadsAttr("loops" if in_loops(op, MAX_UNROLLED) else "taps")


def in_loops(op: PoolOp, most: int) -> str | None:
    """The reason that the taps of a pool are in loops, if there are at most so many."""
    if any(window.dilation != 1 for window in op.windows):
        return "the nearest element is no tap of a dilated window"
    if 0 in shape_of(op.input):
        return "windows have no taps"
    if (taps := prod(window.taps for window in op.windows)) > most:
        return f"{taps} taps are in loops"
    return None


def depthwise_windows(op: ContractOp) -> WindowThreadsAttr | str | None:
    """The schedule of a depthwise convolution, or why it has none; None for others."""
    if op.depthwise() is None:
        return None
    extents = op.loops().extents
    if 0 in extents:
        return NO_WINDOWS
    taps = prod(extents[loop] for loop in op.terms())
    return WindowThreadsAttr("taps" if taps <= MAX_UNROLLED else "loops")


class WindowThreadsPrinter(CudaStagePrinter, ABC):
    """Prints an op on windows, a thread for each element of the result."""

    SCHEDULES = (WindowThreadsAttr,)

    def __init__(self, printer: DevicePrinter, op: StructuredOp):
        schedule = op.attributes[SCHEDULE]
        assert isinstance(schedule, WindowThreadsAttr), "found by its schedule"
        is_unrolled = schedule.form == "taps"
        region = stages_by(lambda k: self.build(op, k, is_unrolled))
        # Taps of one line have its place.
        cse(region)
        self._out, self._stages = printer, [*region.block.ops]

    @classmethod
    @abstractmethod
    def build(cls, op: StructuredOp, k: KernelBuilder, is_unrolled: bool) -> None:
        """Build a stage with a turn for each element of the result."""

    def print(self) -> None:
        for stage in self._stages:
            self._out.print_stage(stage)


class PoolPrinter(WindowThreadsPrinter):
    """Prints a pool."""

    OP = PoolOp

    @classmethod
    def misfit(cls, op: StructuredOp, schedule: Attribute) -> str | None:
        assert isinstance(op, PoolOp), "found by its op"
        assert isinstance(schedule, WindowThreadsAttr), "found by its schedule"
        return None if schedule.form == "loops" else in_loops(op, MAX_MULTIPLIED)

    @classmethod
    def build(cls, op: StructuredOp, k: KernelBuilder, is_unrolled: bool) -> None:
        assert isinstance(op, PoolOp), "found by its op"
        op.build_windows(k, is_unrolled)


class DepthwisePrinter(WindowThreadsPrinter):
    """Prints a depthwise convolution."""

    OP = ContractOp

    @classmethod
    def misfit(cls, op: StructuredOp, schedule: Attribute) -> str | None:
        assert isinstance(op, ContractOp), "found by its op"
        if op.depthwise() is None:
            return f"{schedule} is for depthwise convolutions, which this is none of"
        return None

    @classmethod
    def build(cls, op: StructuredOp, k: KernelBuilder, is_unrolled: bool) -> None:
        assert isinstance(op, ContractOp), "found by its op"
        op.build_elements(k, is_unrolled)
