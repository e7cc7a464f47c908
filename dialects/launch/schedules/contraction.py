"""The base class of schedules of contractions."""

from __future__ import annotations

from types import MappingProxyType

from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.launch.schedules.schedule import ScheduleAttr


class ContractionSchedule(ScheduleAttr):
    """
    A schedule of a `kernel.contract`, or of an op of `linalg` that becomes one
    (`raise-linalg-to-kernel`).
    """

    ops = (ContractOp, LinalgStructuredOperation)
    FORMER = MappingProxyType(
        {"folds": "kernel.contract has the start and finish of its sums"}
    )
