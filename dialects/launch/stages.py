"""
Attributes of the stages of a kernel: structured ops, and upstream ops.

Upstream ops declare no discardable attributes, so those that builders of kernels and
passes write on them are declared here: `schedule`, `no_schedule`, `no_raise` and
`accumulate`.
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.builtin import StringAttr, f32
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.interface import (
    ACCUMULATE,
    REFUSAL,
    SCHEDULE,
    StructuredOp,
    element_of,
)
from penstock.dialects.launch.schedules.schedule import ScheduleAttr
from penstock.dialects.utils.attributes import own_attributes, verify_known
from penstock.dialects.utils.half_precision import is_half

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
        more += [ACCUMULATE] if isinstance(op, GenericOp) else []
        verify_known(op, [*known, *more])
    if (schedule := own.get(SCHEDULE)) is not None:
        _verify_schedule(op, schedule)
    if (why := own.get(REFUSAL)) and not isinstance(why, StringAttr):
        raise VerifyException(f"why there is no schedule is a text, got {why}")
    if (why := own.get(NO_RAISE)) and not isinstance(why, StringAttr):
        raise VerifyException(f"why it is not raised is a text, got {why}")
    if (total := own.get(ACCUMULATE)) is not None:
        _verify_accumulate(op, total)


def _verify_accumulate(op: Operation, total: Attribute) -> None:
    assert isinstance(op, GenericOp), "known of no other op"
    elements = [element_of(out) for out in op.outputs]
    if len(elements) != 1 or not is_half(elements[0]) or total != f32:
        got = ", ".join(map(str, elements))
        raise VerifyException(
            f"sums with one result of 16 bits accumulate in f32, got {total} for {got}"
        )


def _verify_schedule(op: Operation, schedule: Attribute) -> None:
    if not isinstance(schedule, ScheduleAttr):
        raise VerifyException(
            f"a schedule is an attribute such as #launch.contraction, got {schedule}"
        )
    if not isinstance(op, schedule.ops):
        raise VerifyException(f"{schedule} is no schedule of {op.name}")
