"""Schedules of contractions that a library computes, such as cuBLAS."""

from __future__ import annotations

from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.launch.schedules.fields import number, text
from penstock.dialects.launch.schedules.schedule import (
    ScheduleAttr,
    schedule_definition,
)


@schedule_definition
class LibraryAttr(ScheduleAttr):
    """
    The library that computes a contraction on a GPU; it has to be there when the
    program runs. `folds 1` says that the stage before, which sets the result to 0, is
    part of that.

    ```mlir
    #launch.library<"cublas", folds 1>
    ```
    """

    name = "launch.library"
    ops = (ContractOp, LinalgStructuredOperation)

    library: str = text()
    folds: int = number(least=0, most=1, default=0)
