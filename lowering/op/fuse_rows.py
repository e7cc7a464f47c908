"""
Compute ops on rows together with each other, and with the ops on elements around them.

An op on rows is a softmax or a normalization of floats along the last dimension, or a
reduction (`op.reduce_sum` and so on) along any axes, of at least `min_rows` rows. It
becomes an `op.fused` with

* the ops that use results of the group, in their order: ops on elements of rows, or on
  one element for each row, and other ops on the same rows. So a sum of powers and the
  quotients, or a mean, a variance about it and what is scaled by that, are one kernel;
* reductions of the same rows that read what the group reads, or what an op on elements
  makes of that: folds that do not need each other are of one pass;
* and then the ops on elements that make rows which the group reads.

A result of the group is what others use as well. They have to come after the whole,
which stands where its last op stood: the first user that cannot join is the end of the
group, and an op that makes rows does not join if others use them before that. Each
member runs in the same place, asks for no `slots` of its own unless it is the last, and
is computed in the type of the rows. With reductions operands have this type, too, but
for those that a single one combines. Along other axes than the last, a single reduction
has results of its own type, as it lies there until it is done; on GPUs a cast may be
the last op. There such a group makes no rows for others, as few blocks compute it, and
a grid has more threads for ops on elements: it leaves its last ops until that is so.

An op on rows that reads results of a group but could not join it says why: `no_rows`.

Fusion saves bytes that are moved. A tensor between two ops is written once and read at
least once; in one op it is not written unless others use it, and not read again, or as
often as what it is made of. Nothing has more elements than before, so that ops as above
are always fused, but for those that say `not_fused`. On several devices, where ops say
how they are cut in parts, they stay apart. Ops that must write over an operand by a
hint (`in_place`), or whose operand another op must, do too; other hints go on to the
whole where the result and the operand they are about are still there.

Example: `test/lowering/op/op-fuse-rows-example.mlir`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from penstock.dialects.job import JobOp
from penstock.dialects.utils.pass_events import count
from penstock.lowering.analysis.body_jobs import jobs_and_bodies
from penstock.lowering.op.outline import NO_ROWS, outline
from penstock.lowering.op.row_groups import JobOps, RowGroup


def fuse_job(job: JobOp, min_rows: int, max_ops: int) -> None:
    """Compute each op on rows of a job with what is around it."""
    known = JobOps(job, min_rows, max_ops)
    for op in [*known.ops]:
        if op.parent is not job.body.block or (root := known.root(op)) is None:
            continue
        group = RowGroup(known, root)
        group.grow()
        if len(group.members) > 1:
            count("groups")
            count("ops fused", len(group.members))
            fuse(group)


def fuse(group: RowGroup) -> None:
    """Replace the ops of a group by one where the last of them stood."""
    known, members = group.known, group.ordered
    reasons = [op.attributes[NO_ROWS] for op in members if NO_ROWS in op.attributes]
    place = known.at[members[-1]]
    made = outline(members, group.results, known.overwritten, lead=group.roots[-1])
    for reason in reasons:
        made.attributes[NO_ROWS] = reason
    known.at[made], known.ops[place] = place, made


@dataclass(frozen=True)
class OpFuseRowsPass(ModulePass):
    """
    Compute ops on elements in the kernels of the ops on rows that they feed or follow,
    and ops on the same rows in one kernel.
    """

    name = "op-fuse-rows"

    min_rows: int = 16
    """
    The least rows of a reduction that is computed with others. Those of fewer are
    computed by few threads, and ops on elements by many.
    """

    max_ops: int = 64
    """A group has no more ops than this; a group of ops on elements is one."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for job in jobs_and_bodies(op):
            fuse_job(job, self.min_rows, self.max_ops)
