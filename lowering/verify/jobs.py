"""
Check that what jobs of a module know by one name is one thing.

A variable of one name in several jobs has one type, one initialiser with one seed, and
lies in one way on one group of devices; an input or an output one type and one host,
and one `max_shape` where its extents are open. A name is that of a variable, or of
inputs and outputs; a job has an input or an output of a name that other jobs have too,
not both. An error shows both definitions. No jobs take from each other in a ring, of
which none could run first.

Example: `test/lowering/verify/verify-jobs-example.mlir`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from penstock.dialects.utils.diagnostics import fail_if_any
from penstock.lowering.analysis.shared_ports import (
    findings_about,
    jobs_in,
    shared_ports,
)


@dataclass(frozen=True)
class VerifyJobsPass(ModulePass):
    """
    Check that what jobs of a module know by one name is one thing.
    """

    name = "verify-jobs"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fail_if_any(findings_about(shared_ports(jobs_in(op))))
