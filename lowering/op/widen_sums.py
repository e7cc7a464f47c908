"""
`f32` accumulation of `f16` and `bf16`: matmuls, convolutions, `op.reduce_sum`,
`op.reduce_mean` and `op.reduce_prod` whose elements have 16 bits are computed in `f32`,
between casts of their operands, one for each value and placement, and of their result.

Other ops need no pass: kernels compute each element in `f32` and round it once. But a
sum of many terms lies in its result while it grows, and would be rounded at each step,
so that a `bf16` stops to grow after a few hundred terms; and only `f32` has tiles. An
op with hints of its own about memory is left as it is, and so are matmuls and
convolutions on `cuda`, whose kernels accumulate `f16` and `bf16` in `f32` (but for
those with one channel a group).

Example: `test/lowering/op/op-widen-sums-example.mlir`.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp, f32
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.job import JobOp
from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.convolution import Conv2dOp
from penstock.dialects.op.in_place import IN_PLACE
from penstock.dialects.op.linear import GemmOp, MatmulOp
from penstock.dialects.op.reduction import ReduceMeanOp, ReduceProdOp, ReduceSumOp
from penstock.dialects.op.tensor_op import ContractionOp, TensorOp
from penstock.dialects.utils.attributes import replace_op
from penstock.dialects.utils.half_precision import is_half
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.analysis.body_jobs import jobs_and_bodies
from penstock.lowering.analysis.op_devices import kind_of

SUMS = ContractionOp | ReduceMeanOp | ReduceProdOp | ReduceSumOp


def widen_sums(job: JobOp, device: str | None = None) -> None:
    """Let the sums of a job, which may be moved to a device, be of 32 bits."""
    wide: dict[Hashable, SSAValue] = {}
    for op in tuple(job.body.block.ops):
        if not isinstance(op, SUMS) or not is_narrow(op):
            continue
        if kind_of(op, job, device) != "cuda" or not has_tensor_cores(op):
            widen(op, wide)


def has_tensor_cores(op: TensorOp) -> bool:
    """Whether devices add the products of an op in 32 bits as they are."""
    if isinstance(op, Conv2dOp):
        return not op.is_depthwise
    return isinstance(op, MatmulOp | GemmOp)


def is_narrow(op: TensorOp) -> bool:
    """Whether an op makes floats of 16 bits, and nobody says where they lie."""
    types = [tensor_type(result).element_type for result in op.results]
    return any(map(is_half, types)) and IN_PLACE not in op.attributes


def widen(op: TensorOp, wide: dict[Hashable, SSAValue]) -> None:
    """Compute an op with one result between casts."""
    (result,) = op.results
    operands = [widened(op, operand, wide) for operand in op.operands]
    new = type(op).inferred(operands, op.properties)
    new.attributes |= op.attributes
    element = tensor_type(result).element_type
    assert isinstance(element, AnyFloat), "halves are floats"
    back = CastOp(new.results[0], element)
    for made in (new, back):
        made.location = op.location
    set_placement(op, back)
    if hint := result.name_hint:
        new.results[0].name_hint = f"{hint}_wide"
    replace_op(op, [new, back])


def widened(op: TensorOp, value: SSAValue, wide: dict[Hashable, SSAValue]) -> SSAValue:
    """An operand of an op as 32 bits, cast before the op unless it was before."""
    if not is_half(tensor_type(value).element_type):
        return value
    key = value, op.attributes.get("placement")
    if key not in wide:
        cast = CastOp(value, f32)
        cast.location = op.location
        set_placement(op, cast)
        Rewriter.insert_op(cast, InsertPoint.before(op))
        if hint := value.name_hint:
            cast.result.name_hint = f"{hint}_wide"
        wide[key] = cast.result
    return wide[key]


def set_placement(op: TensorOp, cast: CastOp) -> None:
    """Let a cast run where an op does."""
    if placement := op.attributes.get("placement"):
        cast.attributes["placement"] = placement


@dataclass(frozen=True)
class OpWidenSumsPass(ModulePass):
    """Compute sums of `f16` and `bf16` in `f32`."""

    name = "op-widen-sums"

    device: str | None = None
    """The kind of device that `job-place` will move jobs to, if it will."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for job in jobs_and_bodies(op):
            widen_sums(job, self.device)
