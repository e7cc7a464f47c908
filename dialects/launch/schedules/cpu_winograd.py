"""Schedules of Winograd transforms on the CPU."""

from __future__ import annotations

from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation

from penstock.dialects.launch.schedules.fields import (
    number,
    numbers,
    refuse,
)
from penstock.dialects.launch.schedules.schedule import (
    ScheduleAttr,
    schedule_definition,
)

MIN_LANES = 4
MAX_LANES = 64


@schedule_definition
class TransformAttr(ScheduleAttr):
    """
    The schedule of a Winograd transform `o[i, j, t] += p[i, k] * q[j, l] * d[k, l, t]`:
    rows first, then columns, of as many tiles t at once as vectors have lanes. `folds
    [1, A]` says that the stage before, which starts the sums, and the A stages after
    are computed with it.

    ```mlir
    #launch.transform<lanes 16, folds [1, 2]>
    ```
    """

    name = "launch.transform"
    ops = (LinalgStructuredOperation,)

    lanes: int = number(least=MIN_LANES, most=MAX_LANES, power=True)
    folds: tuple[int, int] = numbers(2, least=0)

    def verify(self) -> None:
        refuse(
            self.folds[0] != 1,
            "a transform is computed with the stage before and any number after, got "
            f"folds {[*self.folds]}",
        )
