"""Jobs of the system: where the caller's arrays are, and names that only these have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp

from penstock.dialects.job import JobOp, PlacementAttr
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.analysis.shared_ports import SYSTEM

CALLER = PlacementAttr("cpu", [(0, 0)])
"""Where the caller's arrays are."""


def name_findings(module: ModuleOp, wanted: Sequence[JobOp]) -> Iterator[Finding]:
    """The findings about ops that have the name of a system job, but are none."""
    names = {job.sym_name for job in wanted}
    for op in module.body.block.ops:
        if op.get_attr_or_prop("sym_name") not in names:
            continue
        if not isinstance(op, JobOp) or SYSTEM not in op.attributes:
            name = op.get_attr_or_prop("sym_name")
            yield op, f"@{name} is the name of a job of the system"
