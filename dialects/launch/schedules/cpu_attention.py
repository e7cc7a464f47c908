"""Schedules of attention, and of its gradients, on the CPU."""

from __future__ import annotations

from penstock.dialects.kernel.attention import AttentionOp
from penstock.dialects.kernel.attention_gradient import AttentionGradientOp
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


@schedule_definition
class AttentionGradientAttr(ScheduleAttr):
    """
    The CPU schedule of `kernel.attention_gradient`: all gradients of one iteration of
    the stack, for some `keys` and `queries` at a time, whose shares are on the stack of
    the thread.

    Scores, and the gradients of shares, are made in tiles of R keys and V vectors of L
    queries, which are copied to panels before. `mix [R, V]` says the rows and vectors
    of the tiles in which products with shares are added to results.

    ```mlir
    #launch.attention_gradient<tile [6, 2, 8], mix [6, 2], queries 48, keys 66>
    ```
    """

    name = "launch.attention_gradient"
    ops = (AttentionGradientOp,)

    tile: tuple[int, int, int] = numbers(3)
    mix: tuple[int, int] = numbers(2)
    queries: int = number()
    keys: int = number()

    @property
    def width(self) -> int:
        """The queries of a panel."""
        _, vectors, lanes = self.tile
        return vectors * lanes

    def verify(self) -> None:
        height, vectors, lanes = self.tile
        for rows, columns in ((height, vectors), self.mix):
            refuse(
                rows * columns > MAX_ACCUMULATORS,
                f"{rows} x {columns} vectors of sums do not fit into "
                f"{MAX_ACCUMULATORS} registers",
            )
        verify_lanes(lanes)
        for name, extent, whole in (
            ("keys", self.keys, height),
            ("keys", self.keys, self.mix[0]),
            ("queries", self.queries, self.width),
            ("queries", self.queries, self.mix[0]),
        ):
            refuse(
                extent % whole != 0,
                f"a block should have whole tiles of {whole} {name}, got {extent}",
            )
        refuse(
            self.keys * self.queries > MAX_PANEL_ELEMENTS,
            f"{self.keys} x {self.queries} shares are more than the stack allows: "
            f"{MAX_PANEL_ELEMENTS}",
        )
