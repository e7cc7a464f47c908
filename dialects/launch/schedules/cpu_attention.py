"""Schedules of attention on the CPU."""

from __future__ import annotations

from penstock.dialects.kernel.attention import AttentionOp
from penstock.dialects.launch.schedules.cpu_matmul import (
    MAX_ACCUMULATORS,
    MAX_PANEL_ELEMENTS,
    verify_lanes,
)
from penstock.dialects.launch.schedules.fields import (
    choice,
    number,
    numbers,
    refuse,
)
from penstock.dialects.launch.schedules.schedule import (
    ScheduleAttr,
    schedule_definition,
)


@schedule_definition
class AttentionAttr(ScheduleAttr):
    """
    The CPU schedule of `kernel.attention`: in blocks of `keys`, whose scores are on the
    stack of the thread, for one block of queries at a time.

    In the form `columns`, scores are made in tiles of R keys and V vectors of L
    queries, which are all the queries of a block, copied to a panel on the stack
    before. In the form `rows` there is one block of all queries, and the scores of one
    at a time are sums of vectors of L terms, R keys at a time (V is 1). `mix [R, V]`
    says the rows and vectors of the tiles in which values are added to the result.

    ```mlir
    #launch.attention<columns, tile [6, 4, 16], mix [4, 4], keys 126>
    ```
    """

    name = "launch.attention"
    ops = (AttentionOp,)

    form: str = choice("columns", "rows")
    tile: tuple[int, int, int] = numbers(3)
    mix: tuple[int, int] = numbers(2)
    keys: int = number()

    @property
    def is_columns(self) -> bool:
        """Whether vectors of scores are along queries."""
        return self.form == "columns"

    def verify(self) -> None:
        keys, vectors, lanes = self.tile
        for rows, columns in ((keys, vectors), self.mix):
            refuse(
                rows * columns > MAX_ACCUMULATORS,
                f"{rows} x {columns} vectors of sums do not fit into "
                f"{MAX_ACCUMULATORS} registers",
            )
        verify_lanes(lanes)
        refuse(
            not self.is_columns and vectors != 1,
            f"the form rows has one vector of scores, got {vectors}",
        )
        refuse(
            self.keys % keys != 0,
            f"a block should have whole tiles of {keys} keys, got {self.keys} keys",
        )
        width = vectors * lanes if self.is_columns else 1
        refuse(
            self.keys * width > MAX_PANEL_ELEMENTS,
            f"{self.keys} x {width} scores are more than the stack allows: "
            f"{MAX_PANEL_ELEMENTS}",
        )
