"""Schedules of Winograd transforms on the CPU."""

from __future__ import annotations

from types import MappingProxyType

from penstock.dialects.kernel.tile_transform import TileTransformOp
from penstock.dialects.launch.schedules.fields import number
from penstock.dialects.launch.schedules.schedule import (
    ScheduleAttr,
    schedule_definition,
)

MIN_LANES = 4
MAX_LANES = 64

_IN_THE_OP = "kernel.tile_transform has the start and finish of its sums"


@schedule_definition
class TransformAttr(ScheduleAttr):
    """
    The schedule of a Winograd transform `o[i, j, t] += p[i, k] * q[j, l] * d[k, l, t]`:
    rows first, then columns, of as many tiles t at once as vectors have lanes.

    ```mlir
    #launch.transform<lanes 16>
    ```
    """

    name = "launch.transform"
    ops = (TileTransformOp,)
    FORMER = MappingProxyType(dict.fromkeys(("after", "folds"), _IN_THE_OP))

    lanes: int = number(least=MIN_LANES, most=MAX_LANES, power=True)
