"""
Clean jobs, and nothing else.

xDSL's `canonicalize` and `cse` run on each job apart: what folds does, what is computed
twice is computed once, and what nobody uses goes. The tasks of a plan keep the ops they
have, so that a plan, which may be written by hand, comes out of a pipeline with the
tasks it went in with.

Example: `test/lowering/job/job-clean-example.mlir`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import (
    CommonSubexpressionElimination,
)

from penstock.dialects.job import JobOp
from penstock.dialects.utils.pass_events import apply_nested


def clean(job: JobOp, ctx: Context) -> None:
    """Run `canonicalize` and `cse` on one job of a module."""
    block, following = job.parent_block(), job.next_op
    assert block is not None, "a job is an op of a module"
    place = InsertPoint(block, following)
    job.detach()
    alone = ModuleOp([job])
    apply_nested(CanonicalizePass(), ctx, alone)
    apply_nested(CommonSubexpressionElimination(), ctx, alone)
    job.detach()
    Rewriter.insert_op(job, place)


@dataclass(frozen=True)
class JobCleanPass(ModulePass):
    """
    Run `canonicalize` and `cse` on jobs alone, not on the tasks of plans.
    """

    name = "job-clean"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for job in [job for job in op.ops if isinstance(job, JobOp)]:
            clean(job, ctx)
