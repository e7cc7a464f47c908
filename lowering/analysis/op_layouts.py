"""The layouts of operands and results on several devices that ops of a job declare."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import BoxingOp, PlacementAttr, SbpAttr
from penstock.dialects.op.sbp import Layout
from penstock.dialects.utils.hints import isa

RESULTS, OPERANDS = "sbp", "operand_sbp"
"""The attributes of ops: one SBP for all results (or one each), and one an operand."""


def sbps_in(
    op: Operation, key: str, placement: PlacementAttr
) -> tuple[SbpAttr, ...] | None:
    """
    The SBP of each result or operand in one of the attributes of an op, None without
    it.

    Raises `VerifyException` if there is not one SBP for each, or if one of them has not
    an entry for each dimension of the placement's hierarchy.
    """
    if (attr := op.attributes.get(key)) is None:
        return None
    count = len(op.results if key == RESULTS else op.operands)
    sbps = _as_list(attr, key, count)
    for sbp in sbps:
        if len(sbp.dims) != (dims := len(placement.shape)):
            raise VerifyException(
                f"{key} should have one entry for each of the {dims} dimensions of "
                f"{placement}, got {sbp}"
            )
    return sbps


def _as_list(attr: Attribute, key: str, count: int) -> tuple[SbpAttr, ...]:
    if isinstance(attr, SbpAttr) and key == RESULTS:
        return (attr,) * count
    if isa(attr, ArrayAttr[SbpAttr]) and len(attr) == count:
        return attr.data
    what = "result" if key == RESULTS else "operand"
    raise VerifyException(f"{key} should be a #job.sbp for each {what}, got {attr}")


def as_attribute(sbps: tuple[SbpAttr, ...]) -> Attribute:
    """The attribute that says how results lie: one SBP if that is true of all."""
    return sbps[0] if len(set(sbps)) == 1 else ArrayAttr(sbps)


def target_of(boxing: BoxingOp, placement: PlacementAttr) -> Layout:
    """
    The layout of the result of a boxing, on this placement as `JobDevices` has it.
    """
    return normal(Layout(placement, boxing.target_sbp))


def normal(layout: Layout) -> Layout:
    """The layout, where on one device all is whole."""
    if layout.is_single:
        return Layout.whole_on(layout.placement)
    return layout
