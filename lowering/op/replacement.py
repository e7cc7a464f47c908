"""Replacement of some ops of a job by others that compute the same."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.utils.attributes import ask_for_slots, carry
from penstock.dialects.utils.diagnostics import fused_location


def replace_by(
    made: Sequence[Operation],
    ops: Sequence[Operation],
    *,
    root: Operation,
    lead: Operation,
) -> None:
    """
    Replace ops, the last one first, by others where that one stood and as it ran.

    The last op that is made has its result and slots; `root`, which is one of those
    that are made, the notes of all ops, and their locations after that of `lead`. Only
    the last op may be used by ops that stay.
    """
    last = ops[0]
    result, old = made[-1].results[0], last.results[0]
    root.location = fused_location([lead, *ops])
    for op in ops:
        carry(op, root)
    for op in made:
        if "placement" in last.attributes:
            op.attributes["placement"] = last.attributes["placement"]
    ask_for_slots(last, made[-1])
    Rewriter.insert_op(made, InsertPoint.before(last))
    old.replace_all_uses_with(result)
    result.name_hint = old.name_hint
    for op in ops:
        op.detach()
        op.drop_all_references()
    for op in ops:
        op.erase(drop_references=False)
