"""
Shape inference: fill in the extents that the types of a job leave open.

The ops of each job are visited in order. The type of a result becomes the one that both
its declared type and the op's own inference allow, so that what is known of the inputs
reaches every op after them, also those inside `op.fused`. A `job.copy` has the type of
what it copies, a `job.after` that of its first operand. Everything that does not fit is
reported at once:

* operands that do not fit together, now that more is known of them,
* a declared type that contradicts the inferred one,
* an op that is neither a tensor op nor one of `job`, whose result is not static.

Extents that follow from nothing stay open.

Example: `test/lowering/op/op-infer-shapes-example.mlir`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from penstock.dialects.job import JobOp
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.shape_refinement import refine_block


def findings_of(module: ModuleOp) -> Iterator[Finding]:
    """Refine all jobs of a module, and yield each op that does not fit."""
    for op in outermost(module, JobOp):
        yield from refine_block(op.body.block)


@dataclass(frozen=True)
class OpInferShapesPass(ModulePass):
    """
    Fill in the extents that the types of a job leave open.
    """

    name = "op-infer-shapes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fail_if_any(findings_of(op))
