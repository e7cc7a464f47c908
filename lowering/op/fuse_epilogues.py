"""
Compute elementwise ops together with the contractions that they follow (epilogue
fusion).

An elementwise op (or an `op.fused` of such ops) becomes an `op.fused` with an op whose
result it reads (a matmul or a convolution, or a group that it is in; its last such
operand, where there are several), if both have one type and run in the same place, the
contraction asks for no `slots` of its own, and the op is one that a kernel computes in
registers: all its parts work on floats of one type, and all its results depend on the
operand. If others read that result, it is
one of the group's, too, and these stand behind the group: on one device only.
Depthwise convolutions are left alone: their sums are no tiles.
On several devices, where ops say how they are cut in parts, they stay apart, and so do
ops that say `not_fused`. Ops that
must write over an operand by a hint (`in_place`), or whose operand another op must, do
too; other hints go on to the whole where the operand they are about is still there.
A new value of a variable that can be written over the old one stays apart as well:
sums may lie in a result until they are complete, and the old value is needed then. That
moves no more than a copy to the variable would.

This saves a tensor that is written and read again. On a CPU the epilogue costs next to
nothing (`launch-schedule-contractions`); on any device the two are one kernel.

On a `cpu`, a tensor of the type of the sums (`f32` or `f64`) that is added to them, be
it after others, is the initial value of the accumulators (`starts`): so the result may
lie over it, and each element is read before it is written. The other addends follow;
the order of additions changes.

Example: `test/lowering/op/op-fuse-epilogues-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp, UnitAttr, f32, f64
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.job import AssignOp, DeviceAttr, JobOp, placement_of
from penstock.dialects.op.elementwise import AddOp
from penstock.dialects.op.groups.fused import FusedOp
from penstock.dialects.op.tensor_op import (
    ContractionOp,
    FusibleOp,
    is_elementwise,
)
from penstock.dialects.op.windows.convolution import Conv2dOp
from penstock.dialects.utils.attributes import carry, replace_op
from penstock.dialects.utils.pass_events import count
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.analysis.body_jobs import jobs_and_bodies
from penstock.lowering.analysis.in_place_hints import (
    Overwritten,
    must_lie_over,
    wanted_pairs,
)
from penstock.lowering.analysis.op_layouts import OPERANDS, RESULTS
from penstock.lowering.kernel_times.keys import NOT_FUSED
from penstock.lowering.op.outline import MOVABLE, move_behind, outline


@dataclass
class EpilogueFusion:
    """The ops of a job, as elementwise ones become parts of contractions' kernels."""

    job: JobOp
    positions: dict[Operation, int]
    overwritten: Overwritten

    def root_of(self, op: FusibleOp) -> Root | None:
        """
        The contraction that an elementwise op can be computed with, if any, or a group
        that has one already.
        """
        if not is_of_floats(op) or is_cut(op) or must_lie_over(op):
            return None
        if is_update_in_place(op):
            return None
        owners = dict.fromkeys(value.owner for value in op.operands)
        roots = [root for root in owners if is_root(root)]
        fitting = (root for root in reversed(roots) if self._fits(root, op))
        return next(
            (root for root in fitting if not self.overwritten.keeps_apart(root, op)),
            None,
        )

    def _fits(self, root: Root, op: FusibleOp) -> bool:
        types = {value.type for value in (*root.results, *op.results)}
        if is_cut(root) or "slots" in root.attributes or len(types) > 1:
            return False
        if isinstance(root, Conv2dOp) and root.is_depthwise:
            return False
        if not is_made_of(op, root):
            return False
        if placement_of(root, self.job) != placement_of(op, self.job):
            return False
        others = [user for user in users_of(root) if user is not op]
        is_several = others or len(root.results) > 1 or len(op.results) > 1
        return not is_several or (
            self._device_of(op) is not None
            and all(self._may_follow(x, op) for x in others)
        )

    def _device_of(self, op: Operation) -> DeviceAttr | None:
        """The device that an op runs on, if it is one."""
        return placement_of(op, self.job).single_device()

    def _is_on_cpu(self, op: Operation) -> bool:
        device = self._device_of(op)
        return device is not None and device.kind.data == "cpu"

    def _may_follow(self, user: Operation, op: Operation) -> bool:
        """Whether a reader of a result can stand behind a group in an op's place."""
        is_behind = self.positions.get(user, -1) > self.positions[op]
        return is_behind or (user in self.positions and isinstance(user, MOVABLE))

    def fuse(self, root: Root, op: FusibleOp) -> None:
        """Replace both ops by one, where the elementwise op stood."""
        starts = isinstance(root, FusedOp) and root.starts is not None
        kept = [x for x in root.results if any(u.operation is not op for u in x.uses)]
        position = self.positions[op]
        group = outline([root, op], [*op.results, *kept], self.overwritten, lead=root)
        self.positions[group] = position
        move_behind(group, self.positions, position)
        (made,) = group.roots
        assert isinstance(made, ContractionOp), "the root of the group"
        if starts:
            group.starts = UnitAttr()
        elif made.can_start and self._is_on_cpu(group) and is_wide(group):
            start_sums(made, group)

    def run(self) -> None:
        """Give each contraction the elementwise ops that follow it."""
        for op in tuple(self.positions):
            if is_pointwise(op) and (root := self.root_of(op)):
                count("epilogues")
                self.fuse(root, op)


Root: TypeAlias = ContractionOp | FusedOp


def is_root(op: Operation | Block) -> TypeGuard[Root]:
    """Whether an op is a contraction, or a group around one."""
    if isinstance(op, Operation) and NOT_FUSED in op.attributes:
        return False
    if isinstance(op, FusedOp):
        return any(isinstance(root, ContractionOp) for root in op.roots)
    return isinstance(op, ContractionOp)


def is_pointwise(op: Operation) -> TypeGuard[FusibleOp]:
    """Whether an op is computed element by element, maybe with several results."""
    if NOT_FUSED in op.attributes:
        return False
    return is_elementwise(op) or (isinstance(op, FusedOp) and not op.roots)


def users_of(op: Operation) -> Iterator[Operation]:
    """The ops that read results of an op."""
    return (use.operation for value in op.results for use in value.uses)


def is_made_of(op: FusibleOp, root: Root) -> bool:
    """Whether all results of an op that reads a root depend on one of the root's."""
    if not isinstance(op, FusedOp):
        return True
    pairs = zip(op.body.block.args, op.operands, strict=True)
    made: set[SSAValue] = {inside for inside, value in pairs if value.owner is root}
    for member in op.members:
        if made.intersection(member.operands):
            made.update(member.results)
    return made.issuperset(op.yielded)


def is_wide(group: FusedOp) -> bool:
    """Whether sums are in the type of their result."""
    return tensor_type(group.results[0]).element_type in (f32, f64)


def is_update_in_place(op: FusibleOp) -> bool:
    """
    Whether a result of an op is assigned alone to a variable that the op can write it
    over.
    """
    return any(
        not pair.view
        and is_assigned_to(op.results[pair.result], op.operands[pair.operand])
        for pair in wanted_pairs(op)
    )


def is_assigned_to(value: SSAValue, variable: SSAValue) -> bool:
    """Whether an assignment of a value to a variable is all that reads it."""
    uses = list(value.uses)
    user = uses[0].operation if len(uses) == 1 else None
    return isinstance(user, AssignOp) and user.target is variable


def is_cut(op: Operation) -> bool:
    """Whether an op says how it runs in parts."""
    return OPERANDS in op.attributes or RESULTS in op.attributes


def is_of_floats(op: FusibleOp) -> bool:
    """Whether all that an op computes is of the type of its results, and static."""
    result = tensor_type(op.results[0])
    return (
        isinstance(result.element_type, AnyFloat)
        and result.has_static_shape()
        and all(
            tensor_type(value).element_type == result.element_type
            for value in _tensors(op)
        )
    )


def _tensors(op: FusibleOp) -> Iterator[SSAValue]:
    yield from (*op.operands, *op.results)
    if isinstance(op, FusedOp):
        for member in op.members:
            yield from (*member.operands, *member.results)


def start_sums(root: ContractionOp, group: FusedOp) -> None:
    """Let sums start from a tensor of their type that is added to them, if one is."""
    made = root.results[0]
    if (found := added_to(made)) is None:
        return
    added, start = found
    group.starts = UnitAttr()
    if made in added.operands:
        return
    sums = AddOp.of(made, start)
    sums.location = added.location
    carry(added, sums)
    Rewriter.insert_op(sums, InsertPoint.after(root))
    made.replace_uses_with_if(sums.result, lambda use: use.operation is not sums)
    (before,) = (value for value in added.operands if value is not start)
    replace_op(added, [], [before])


def added_to(made: SSAValue) -> tuple[AddOp, BlockArgument] | None:
    """
    The op that adds an operand of the type of the sums `made` to these, or to what
    others were added to, and that operand.
    """
    value = made
    while value.has_one_use():
        (use,) = value.uses
        added = use.operation
        if not isinstance(added, AddOp) or added.result.type != made.type:
            break
        other = added.operands[1 - use.index]
        if (
            isinstance(other, BlockArgument)
            and other.type == made.type
            and readers_of_elements(other) == [added]
        ):
            return added, other
        value = added.result
    return None


def readers_of_elements(value: SSAValue) -> list[Operation]:
    """The ops of a group but for the contraction that read a value, each time."""
    users = [use.operation for use in value.uses]
    return [op for op in users if not isinstance(op, ContractionOp)]


def fuse_job(job: JobOp) -> None:
    """Give each contraction of a job the elementwise ops that follow it."""
    positions = {op: n for n, op in enumerate(job.body.block.ops)}
    EpilogueFusion(job, positions, Overwritten(positions)).run()


@dataclass(frozen=True)
class OpFuseEpiloguesPass(ModulePass):
    """Compute elementwise ops in the kernels of the contractions that they follow."""

    name = "op-fuse-epilogues"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for job in jobs_and_bodies(op):
            fuse_job(job)
