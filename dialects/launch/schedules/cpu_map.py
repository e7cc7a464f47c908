"""Schedules of maps on a CPU."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects.linalg.ops import GenericOp

from penstock.dialects.launch.schedules.fields import numbers
from penstock.dialects.launch.schedules.schedule import (
    ScheduleAttr,
    schedule_definition,
)


@schedule_definition
class MapAttr(ScheduleAttr):
    """
    The CPU schedule of loops that are computed as they are written: the extents and
    strides of the loops in `fixed` are in the code, not arguments of the kernel.

    ```mlir
    #launch.map<fixed [0, 1]>
    ```
    """

    name = "launch.map"
    ops = (GenericOp,)

    fixed: tuple[int, ...] = numbers(None, least=0)

    def loops_in_code(self, count: int) -> Collection[int]:
        return self.fixed
