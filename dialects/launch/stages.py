"""
Attributes of the stages of a kernel, which are upstream ops.

Upstream ops declare no discardable attributes, so those that builders of kernels and
passes write on them are declared here: `schedule`, `no_schedule` and `windows`.
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, StringAttr, i64
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from penstock.dialects.launch.schedules.cpu_attention import AttentionAttr
from penstock.dialects.launch.schedules.cpu_matmul import (
    REFUSAL,
    SCHEDULE,
    ContractionAttr,
)
from penstock.dialects.launch.schedules.cpu_window import WindowsAttr
from penstock.dialects.launch.schedules.cpu_winograd import TransformAttr
from penstock.dialects.launch.schedules.cuda_attention import QueriesAttr
from penstock.dialects.launch.schedules.cuda_matmul import TilesAttr
from penstock.dialects.launch.schedules.library import LibraryAttr
from penstock.dialects.utils.attributes import own_attributes, verify_known

WINDOWS = "windows"
"""
The attribute of a stage that is a depthwise convolution or a pool: how windows move, by
which it is known where it is scheduled.
"""

NUMBERS_OF_WINDOWS = (6, 8, 12)
"""The numbers that this takes for a convolution, a maximum, and a mean."""

OF_LINALG = (ContractionAttr, LibraryAttr, TilesAttr, TransformAttr)
OF_LOOPS = (AttentionAttr, QueriesAttr, WindowsAttr)


def verify_stage(op: Operation) -> None:
    """
    Raise `VerifyException` if an upstream op of a kernel has an attribute of ours that
    is none of a stage, or is not what the op can have by this name.
    """
    if not (own := own_attributes(op)):
        return
    is_loop = isinstance(op, scf.ParallelOp)
    is_stage = is_loop or isinstance(op, LinalgStructuredOperation)
    known = [SCHEDULE, REFUSAL] if is_stage else []
    verify_known(op, [*known, *([WINDOWS] if is_loop else [])])
    schedules = OF_LOOPS if is_loop else OF_LINALG
    if (schedule := own.get(SCHEDULE)) and not isinstance(schedule, schedules):
        names = ", ".join(f"#{each.name}" for each in schedules)
        raise VerifyException(f"a schedule of {op.name} is {names}, got {schedule}")
    if (why := own.get(REFUSAL)) and not isinstance(why, StringAttr):
        raise VerifyException(f"why there is no schedule is a text, got {why}")
    if (windows := own.get(WINDOWS)) and not _are_windows(windows):
        *counts, last = map(str, NUMBERS_OF_WINDOWS)
        raise VerifyException(
            f"windows are array<i64> of {', '.join(counts)} or {last} numbers, got "
            f"{windows}"
        )


def _are_windows(windows: Attribute) -> bool:
    return (
        isa(windows, DenseArrayBase)
        and windows.elt_type == i64
        and len(windows) in NUMBERS_OF_WINDOWS
    )
