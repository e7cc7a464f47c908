"""Schedules of rows, and of terms that threads share, on GPUs."""

from __future__ import annotations

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.row import RowOp
from penstock.dialects.launch.schedules.cuda_matmul import WARP
from penstock.dialects.launch.schedules.fields import choice, flag, number, refuse
from penstock.dialects.launch.schedules.schedule import (
    ScheduleAttr,
    schedule_definition,
)


@schedule_definition
class RowsAttr(ScheduleAttr):
    """
    The GPU schedule of rows (`kernel.row`): in the form `warp` the threads of a warp
    have a row, in the form `block` those of a block, so many `threads`. They move
    `width` elements at once. Where elements are `kept`, they stay in registers from one
    pass over the row to the next, so that each is read and written once. Folds by a
    region are of the form `warp` alone.

    In the form `grid`, for points that do not follow each other, a block has as many
    rows side by side as its `width`, and divides the points of each among its threads.
    Of one fold alone `kept` says that a thread has all of a loop over up to 16 rows in
    which an operand does not vary, and reads that once for them. Such a fold may be of
    the form `warp`, too, if its points follow each other in memory.

    So is a contraction (`kernel.contract`) with few results or terms that follow each
    other: threads share the terms of each sum, and add it to what the result has.

    ```mlir
    #launch.rows<block, threads 256, width 4, kept>
    ```
    """

    name = "launch.rows"
    ops = (RowOp, ContractOp)

    form: str = choice("warp", "block", "grid")
    threads: int = number(least=WARP, most=1024, power=True)
    width: int = number(most=WARP, power=True)
    kept: bool = flag(default=False)

    def verify(self) -> None:
        is_warp = self.form == "warp"
        refuse(
            is_warp != (self.threads == WARP),
            f"a warp has {WARP} threads, and a block more, got {self.form} of "
            f"{self.threads}",
        )
