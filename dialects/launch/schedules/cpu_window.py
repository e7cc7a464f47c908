"""Schedules of depthwise convolutions and of pooling on the CPU."""

from __future__ import annotations

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.pool import PoolOp
from penstock.dialects.launch.schedules.fields import number
from penstock.dialects.launch.schedules.schedule import (
    ScheduleAttr,
    schedule_definition,
)

MAX_LANES = 64
MAX_LINES = 64


@schedule_definition
class WindowsAttr(ScheduleAttr):
    """
    The CPU schedule of a `kernel.pool`, and of a `kernel.contract` that is a depthwise
    convolution: in tiles of so many lines of the result, with
    vectors along them. Elements outside of the image are zeros, and the lowest number
    where the largest one is looked for. Vectors of pools run on from one line to the
    next.

    ```mlir
    #launch.windows<lanes 16, lines 8>
    ```
    """

    name = "launch.windows"
    ops = (PoolOp, ContractOp)

    lanes: int = number(most=MAX_LANES, power=True)
    lines: int = number(most=MAX_LINES)
