"""
The bytes that the plan of a job needs, which the passes that make plans are asked for:
`job-recompute` compares them with its budget.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.job import JobOp
from penstock.dialects.plan import PlanOp
from penstock.dialects.utils.pass_events import apply_nested, counting
from penstock.lowering import pass_of

PLANNING = (
    "op-raise-patterns",
    "op-split-taps",
    "op-widen-sums",
    "op-split-pads",
    "job-clean",
    "job-place",
    "job-infer-sbp",
    "job-insert-boxing",
    "op-assign-layouts",
    "op-fuse-attention",
    "op-fuse-elementwise",
    "op-fuse-epilogues",
    "op-fuse-rows",
    "job-clean",
    "convert-job-to-plan",
    "plan-order-updates",
    "plan-order-commits",
    "plan-order-tasks",
)
"""The passes of standard pipelines that decide what is alive when."""

OF_DEVICES = frozenset({"op-split-taps", "op-widen-sums", "op-split-pads", "job-place"})


def planned_peak(job: JobOp, ctx: Context, device: str | None) -> int:
    """
    The largest number of bytes that are alive at once in the plan of a job, which stays
    as it is, summed over all memories.
    """
    module = ModuleOp([job.clone()])
    for name in PLANNING:
        options: dict[str, object] = {}
        if name in OF_DEVICES:
            options["device"] = device
        elif name == "plan-order-tasks":
            options["in_place"] = True
        with counting(_not_counted):
            apply_nested(pass_of(name)(**options), ctx, module)
    plan = next(op for op in module.ops if isinstance(op, PlanOp))
    report = plan.attributes.get("live_bytes")
    if not isinstance(report, DictionaryAttr):
        raise PassFailedException("a budget needs a job of known sizes on known places")
    ordered = report.data["ordered"]
    assert isinstance(ordered, IntegerAttr), "plan-order-tasks writes numbers"
    return ordered.value.data


def _not_counted(_name: str, _number: int) -> None:
    """Trials are no part of what the pass that asks has done."""
