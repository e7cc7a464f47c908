"""Schedules of stages whose loops are vectors on a CPU."""

from __future__ import annotations

from collections.abc import Collection

from penstock.dialects.kernel.row import RowOp
from penstock.dialects.launch.schedules.fields import choice, numbers
from penstock.dialects.launch.schedules.schedule import (
    ScheduleAttr,
    schedule_definition,
)


@schedule_definition
class VectorLoopsAttr(ScheduleAttr):
    """
    The CPU schedule of a stage that is computed as the loops that it stands for
    (`convert-kernel-to-loops`), some of which are vectors: in the form `lines` those
    over the points of a row, in the form `columns` that over rows which lie next to
    each other. The extents and strides of the loops in `fixed` are in the code, not
    arguments of the kernel.

    ```mlir
    #launch.vector_loops<lines, fixed [0]>
    ```
    """

    name = "launch.vector_loops"
    ops = (RowOp,)

    form: str = choice("lines", "columns")
    fixed: tuple[int, ...] = numbers(None, least=0, default=())

    def loops_in_code(self, count: int) -> Collection[int]:
        return self.fixed
