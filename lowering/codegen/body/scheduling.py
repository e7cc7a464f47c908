"""The outcome of looking for a schedule, in the attributes of a stage."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute

from penstock.dialects.kernel.interface import REFUSAL, SCHEDULE, StructuredOp


def set_schedule(op: StructuredOp, found: Attribute | str) -> None:
    """Give an op its schedule, or the reason that it has none."""
    if isinstance(found, str):
        op.attributes[REFUSAL] = StringAttr(found)
    else:
        op.attributes[SCHEDULE] = found
