"""
Group elementwise ops of a job into `op.fused`, so that no tensors lie between them.

From the last op of the job to the first, an elementwise op joins a group of ops that
use its result if its result has the shape of the group's results (so nothing is
computed more often), it runs in the same place and in the same parts, it asks for no
`slots` of its own, and the group has fewer than `max_ops` members; else it is the last
op of a new group. Its other users have to come after the group, which stands where its
last op stood (so no cycles come of this), but for `job.output` and `job.assign`, which
move there: then its result is one of the group's, too, and is not read again. The three
updates of an Adam step are one kernel so.

Groups that read what a contraction or an op on rows makes, or make what one on rows
reads, have one result: they become parts of its kernel, which saves more
(`op-fuse-epilogues`, `op-fuse-rows`).

Constants all of whose elements are the same are cloned into the groups that use them,
whatever their shape. A group of one op without such constants stays as it is, and so do
ops with regions, among them `op.fused`, ops whose result has no static shape, those
that say `not_fused`, and on several devices those that make terms of a sum (`P`), or
whose operands do not lie yet as they are used (`job-insert-boxing`).

Hints (`in_place`) go on to the group where the result and the operand they are about
are still there. A hint `must` keeps both: such an op is the last one of its group, the
op that makes the operand is in another group, and so are other readers of the operand,
unless they are in the same one.

Example: `test/lowering/op/op-fuse-elementwise-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.job import JobOp, SbpAttr, placement_of
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.row_ops import RowOp
from penstock.dialects.op.sbp import PARTIAL
from penstock.dialects.op.tensor_op import ContractionOp, ElementwiseOp
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.pass_events import count
from penstock.lowering.analysis.body_jobs import jobs_and_bodies
from penstock.lowering.analysis.in_place_hints import (
    Overwritten,
    must_lie_over,
    never_over,
)
from penstock.lowering.analysis.op_layouts import OPERANDS, RESULTS
from penstock.lowering.kernel_times.keys import NOT_FUSED
from penstock.lowering.op.outline import (
    MOVABLE,
    Splats,
    move_behind,
    outline,
)


@dataclass
class Group:
    """Ops to be computed together, from the last one, whose result is the first."""

    ops: dict[Operation, None] = field(default_factory=dict[Operation, None])
    is_several: bool = False
    """Whether results of other ops leave it, too."""
    is_with_root: bool = False
    """Whether the kernel of a contraction or of rows may compute it."""

    @property
    def last(self) -> Operation:
        """The op where the group stands."""
        return next(iter(self.ops))

    def add(self, op: Operation) -> None:
        """Let an op be part of it."""
        self.is_several |= has_others(op, self)
        self.is_with_root |= is_with_root(op)
        self.ops[op] = None

    @property
    def results(self) -> list[SSAValue]:
        """The values that others use, and that of the last op."""
        first, *others = self.ops
        made = [op.results[0] for op in reversed(others)]
        used = [x for x in made if any(u.operation not in self.ops for u in x.uses)]
        return [first.results[0], *used]


def find_groups(
    positions: dict[Operation, int], job: JobOp, max_ops: int, overwritten: Overwritten
) -> list[Group]:
    """Sort the elementwise ops of a job into groups, the last group first."""
    groups: list[Group] = []
    group_of: dict[Operation, Group] = {}
    for op in reversed(positions):
        if not is_fusible(op):
            continue
        group = group_of_users(op, group_of, positions)
        if (
            group is None
            or not can_join(op, group, job, max_ops)
            or overwritten.keeps_apart(op, group.last)
        ):
            groups.append(group := Group())
        group.add(op)
        group_of[op] = group
    return groups


def has_others(op: Operation, group: Group) -> bool:
    """Whether ops that are in no group with the result of an op use it."""
    users = (use.operation for use in op.results[0].uses)
    return bool(group.ops) and any(user not in group.ops for user in users)


def is_fusible(op: Operation) -> bool:
    """Whether an op may be in a group at all."""
    return (
        isinstance(op, ElementwiseOp)
        and not op.regions
        and shape_of(op.results[0]) is not None
        and OPERANDS not in op.attributes
        and NOT_FUSED not in op.attributes
        and not makes_terms(op)
        and not reads_oddly(op)
    )


def reads_oddly(op: Operation) -> bool:
    """
    Whether an op must write over a constant, which groups have none of, or over what it
    is never to lie over under another number: an error that is told later.
    """
    musts = must_lie_over(op)
    constant = any(isinstance(value.owner, ConstantOp) for value in musts)
    return constant or any(value in musts for value in never_over(op))


def makes_terms(op: Operation) -> bool:
    """Whether the result of an op is partial on several devices."""
    sbp = op.attributes.get(RESULTS)
    return isinstance(sbp, SbpAttr) and PARTIAL in sbp.dims.data


def shape_of(value: SSAValue) -> tuple[int, ...] | None:
    """The shape of a tensor, or None if an extent of it is not known."""
    if not isa(type := value.type, TensorType) or not type.has_static_shape():
        return None
    return type.get_shape()


def group_of_users(
    op: Operation,
    group_of: Mapping[Operation, Group],
    positions: Mapping[Operation, int],
) -> Group | None:
    """
    The group that uses an op's result before all other users do, if there is one.
    """
    users = list(dict.fromkeys(use.operation for use in op.results[0].uses))
    found = [group_of[user] for user in users if user in group_of]
    first = min(found, key=lambda group: positions[group.last], default=None)
    if first is None:
        return None
    for user in users:
        group = group_of.get(user)
        place = user if group is None else group.last
        is_before = positions.get(place, -1) < positions[first.last]
        if is_before and not isinstance(user, MOVABLE):
            return None
    return first


def is_with_root(op: Operation) -> bool:
    """Whether an op reads or makes what the kernel of a contraction or rows may."""
    users = (use.operation for use in op.results[0].uses)
    makers = (value.owner for value in op.operands)
    return any(isinstance(user, RowOp) for user in users) or any(
        isinstance(maker, ContractionOp | RowOp) for maker in makers
    )


def can_join(op: Operation, group: Group, job: JobOp, max_ops: int) -> bool:
    """Whether an op can be computed as part of a group that uses it."""
    last = group.last
    is_several = group.is_several or has_others(op, group)
    if is_several and (group.is_with_root or is_with_root(op)):
        return False
    return (
        len(group.ops) < max_ops
        and "slots" not in op.attributes
        and shape_of(op.results[0]) == shape_of(last.results[0])
        and placement_of(op, job) == placement_of(last, job)
        and op.attributes.get(RESULTS) == last.attributes.get(RESULTS)
    )


def splats_of(job: JobOp) -> Splats:
    """The constants of a job all of whose elements are the same."""
    return {
        op.result: op
        for op in job.body.block.ops
        if isinstance(op, ConstantOp) and op.splat is not None
    }


def erase_unused(constants: Iterable[ConstantOp]) -> None:
    """Remove the constants that have no uses left."""
    for constant in constants:
        if not constant.result.uses:
            Rewriter.erase_op(constant)


def fuse_job(job: JobOp, max_ops: int) -> None:
    """Group the elementwise ops of a job."""
    splats = splats_of(job)
    used = [op for value, op in splats.items() if value.uses]
    positions = {op: number for number, op in enumerate(job.body.block.ops)}
    overwritten = Overwritten(positions)
    for group in find_groups(positions, job, max_ops, overwritten):
        members = [*reversed(group.ops)]
        has_splats = any(value in splats for op in members for value in op.operands)
        if len(members) > 1 or has_splats:
            count("groups")
            count("ops fused", len(members))
            made = outline(
                members, group.results, overwritten, lead=group.last, splats=splats
            )
            move_behind(made, positions, positions[group.last])
    erase_unused(used)


@dataclass(frozen=True)
class OpFuseElementwisePass(ModulePass):
    """
    Group elementwise ops into `op.fused`, where no op is then computed more often.
    """

    name = "op-fuse-elementwise"

    max_ops: int = 64
    """A group has no more ops than this, constants not counted."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.max_ops < 1:
            raise PassFailedException(f"max_ops must be at least 1, got {self.max_ops}")
        for job in jobs_and_bodies(op):
            fuse_job(job, self.max_ops)
