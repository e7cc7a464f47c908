"""Schedules of stages whose loops are vectors on a CPU."""

from __future__ import annotations

from penstock.dialects.kernel.row import RowOp
from penstock.dialects.launch.schedules.fields import choice
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
    each other.

    ```mlir
    #launch.vector_loops<lines>
    ```
    """

    name = "launch.vector_loops"
    ops = (RowOp,)

    form: str = choice("lines", "columns")
