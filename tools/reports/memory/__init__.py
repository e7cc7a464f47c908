"""
The target `memory-report`: which registers own the bytes of a plan, when, and why no
others do; the same of the bodies of its loops and conditions, each of which has one
register of the plan as its memory.

    penstock-opt plan.mlir -t memory-report
    penstock-opt plan.mlir -t 'memory-report{format=json}'

All numbers are counted anew from the plan: nothing is taken from the planner. They are
of the order of the plan, in *steps*; variables take no step. A register is alive from
the first step that uses it to the last one, both included and under any name. It is
alive *always* if it is a variable, an interface or a header, or if no task uses it. An
alias has no bytes of its own. `lowering/analysis/memory_bound.py` defines the
bound.
"""

from penstock.tools.reports.memory.as_json import Json, json_of, json_text
from penstock.tools.reports.memory.model import (
    Block,
    Body,
    Chunk,
    Register,
    Report,
    Step,
    Usage,
    Zone,
)
from penstock.tools.reports.memory.reports import NO_PLACES, report_of, reports_of
from penstock.tools.reports.memory.target import MemoryReportTarget
from penstock.tools.reports.memory.text import (
    bound_text,
    jobs_text,
    plan_title,
    text_of,
    unplaced_text,
    zone_head,
)

__all__ = [
    "NO_PLACES",
    "Block",
    "Body",
    "Chunk",
    "Json",
    "MemoryReportTarget",
    "Register",
    "Report",
    "Step",
    "Usage",
    "Zone",
    "bound_text",
    "jobs_text",
    "json_of",
    "json_text",
    "plan_title",
    "report_of",
    "reports_of",
    "text_of",
    "unplaced_text",
    "zone_head",
]
