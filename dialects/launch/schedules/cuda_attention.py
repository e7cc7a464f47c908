"""Schedules of attention, and of its gradients, on GPUs."""

from __future__ import annotations

from penstock.dialects.kernel.attention import AttentionOp
from penstock.dialects.kernel.attention_gradient import AttentionGradientOp
from penstock.dialects.launch.schedules.fields import choice, number, refuse
from penstock.dialects.launch.schedules.schedule import (
    ScheduleAttr,
    schedule_definition,
)

SIDE = 16
"""The rows and columns of threads in the form `tiles`, and of a matrix in `warps`."""
MAX_QUERIES = 128
MAX_KEYS = 1024
"""The most keys at once: those of all warps are counted in 32 bits."""


@schedule_definition
class QueriesAttr(ScheduleAttr):
    """
    The GPU schedule of `kernel.attention`, by thread blocks: each takes some
    `queries` of one stack, and goes through the keys, so many `keys` at once, whose
    scores are never in memory of the device.

    In the form `tiles`, 16 by 16 threads have a tile of scores, and one of the result,
    in registers. In the form `warps`, for `f16` and `bf16`, a warp has 16 queries on
    tensor cores. In the form `rows` a block has one query, its warps some keys each,
    which they go through alone, and add up in the end.

    ```mlir
    #launch.queries<tiles, queries 64, keys 32>
    ```
    """

    name = "launch.queries"
    ops = (AttentionOp,)

    form: str = choice("rows", "tiles", "warps")
    queries: int = number(power=True)
    keys: int = number(power=True, most=MAX_KEYS)

    def verify(self) -> None:
        if self.form == "rows":
            refuse(
                self.queries != 1,
                f"in the form rows a block has one query, got {self.queries}",
            )
            return
        is_small = min(self.queries, self.keys) < SIDE
        refuse(
            is_small or self.queries > MAX_QUERIES,
            f"a block has {SIDE} to {MAX_QUERIES} queries and {SIDE} keys at "
            f"least, got {self.queries} and {self.keys}",
        )


@schedule_definition
class GradientTilesAttr(ScheduleAttr):
    """
    The GPU schedule of `kernel.attention_gradient`, by thread blocks of 16 by 16: first
    each takes some `queries` of one stack and goes through the keys, so many `keys` at
    once, for the gradient by queries; then each takes some `keys` and goes through the
    queries, for those by keys and values. Shares are made in both, and are never in
    memory of the device.

    ```mlir
    #launch.gradient_tiles<queries 32, keys 32>
    ```
    """

    name = "launch.gradient_tiles"
    ops = (AttentionGradientOp,)

    queries: int = number(power=True, most=MAX_QUERIES)
    keys: int = number(power=True, most=MAX_QUERIES)

    def verify(self) -> None:
        refuse(
            min(self.queries, self.keys) < SIDE,
            f"a block has {SIDE} queries and {SIDE} keys at least, got {self.queries} "
            f"and {self.keys}",
        )
