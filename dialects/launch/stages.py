"""
Attributes of the stages of a kernel: structured ops, and upstream ops.

Upstream ops declare no discardable attributes, so those that builders of kernels and
passes write on them are declared here: `schedule`, `no_schedule` and `no_raise`.
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.interface import REFUSAL, SCHEDULE, StructuredOp
from penstock.dialects.launch.schedules.schedule import ScheduleAttr
from penstock.dialects.utils.attributes import own_attributes, verify_known

NO_RAISE = "no_raise"
"""The attribute of an op that says why it is no structured op, a text."""


def verify_stage(op: Operation) -> None:
    """
    Raise `VerifyException` if an upstream op of a kernel has an attribute of ours that
    is none of a stage, or is not what the op can have by this name.
    """
    if not (own := own_attributes(op)):
        return
    is_loop = isinstance(op, scf.ParallelOp)
    is_stage = is_loop or isinstance(op, LinalgStructuredOperation | StructuredOp)
    known = [SCHEDULE, REFUSAL] if is_stage else []
    if not isinstance(op, StructuredOp):
        more = [NO_RAISE] if is_stage and not is_loop else []
        verify_known(op, [*known, *more])
    if (schedule := own.get(SCHEDULE)) is not None:
        _verify_schedule(op, schedule)
    if (why := own.get(REFUSAL)) and not isinstance(why, StringAttr):
        raise VerifyException(f"why there is no schedule is a text, got {why}")
    if (why := own.get(NO_RAISE)) and not isinstance(why, StringAttr):
        raise VerifyException(f"why it is not raised is a text, got {why}")


def _verify_schedule(op: Operation, schedule: Attribute) -> None:
    if not isinstance(schedule, ScheduleAttr):
        raise VerifyException(
            f"a schedule is an attribute such as #launch.contraction, got {schedule}"
        )
    if not isinstance(op, schedule.ops):
        raise VerifyException(f"{schedule} is no schedule of {op.name}")
