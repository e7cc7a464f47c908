"""Schedules of depthwise convolutions and of pooling on GPUs."""

from __future__ import annotations

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.pool import PoolOp
from penstock.dialects.launch.schedules.fields import choice
from penstock.dialects.launch.schedules.schedule import (
    ScheduleAttr,
    schedule_definition,
)


@schedule_definition
class WindowThreadsAttr(ScheduleAttr):
    """
    The GPU schedule of a `kernel.pool`, and of a `kernel.contract` that is a depthwise
    convolution: a thread has one element of the result, neighbouring threads have
    neighbours. In the form `taps` the code has each tap of a window, one after the
    other, in the form `loops` it has loops over them.

    ```mlir
    #launch.window_threads<taps>
    ```
    """

    name = "launch.window_threads"
    ops = (PoolOp, ContractOp)

    form: str = choice("taps", "loops")
