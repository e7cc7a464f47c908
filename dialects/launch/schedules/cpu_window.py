"""Schedules of depthwise convolutions and of pooling on the CPU."""

from __future__ import annotations

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.pool import PoolOp
from penstock.dialects.launch.schedules.fields import flag, number, refuse
from penstock.dialects.launch.schedules.schedule import (
    ScheduleAttr,
    schedule_definition,
)

MAX_LANES = 64
MAX_LINES = 64
MAX_VECTORS = 16


@schedule_definition
class WindowsAttr(ScheduleAttr):
    """
    The CPU schedule of a `kernel.pool`, and of a `kernel.contract` that is a depthwise
    convolution: in tiles of so many lines of the result, with
    vectors along them. Elements outside of the image are zeros, and the lowest number
    where the largest one is looked for. Vectors of pools run on from one line to the
    next. Tiles of convolutions may have several vectors of a line; those of one line
    may be `looped`, with the lines of a window in a loop.

    ```mlir
    #launch.windows<lanes 16, lines 8>
    #launch.windows<lanes 16, lines 1, vectors 8, looped>
    ```
    """

    name = "launch.windows"
    ops = (PoolOp, ContractOp)

    lanes: int = number(most=MAX_LANES, power=True)
    lines: int = number(most=MAX_LINES)
    vectors: int = number(most=MAX_VECTORS, default=1)
    looped: bool = flag(default=False)

    def verify(self) -> None:
        refuse(
            self.looped and self.lines > 1,
            f"looped tiles have one line, got {self.lines}",
        )
