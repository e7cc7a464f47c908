"""
`f32` accumulation of `f16` and `bf16`: matmuls, convolutions, attention and its
gradients, `op.reduce_sum`, `op.reduce_mean` and `op.reduce_prod` whose elements have 16
bits are computed in `f32`, between casts of their operands, one for each value and
placement, and of their results.

A CPU that multiplies pairs of `bf16` (AVX512-BF16) is given the factors as they are:
matmuls of `bf16`, and convolutions of single pixels without pads, become `wide` ones,
whose result alone is cast.

Other ops need no pass: kernels compute each element in `f32` and round it once. But a
sum of many terms lies in its result while it grows, and would be rounded at each step,
so that a `bf16` stops to grow after a few hundred terms; and only `f32` has tiles. An
op with hints of its own about memory is left as it is, and so are matmuls, attention
and convolutions on `cuda`, whose kernels accumulate `f16` and `bf16` in `f32` (but for
those with one channel a group).

Example: `test/lowering/op/op-widen-sums-example.mlir`.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp, UnitAttr, bf16, f32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.job import JobOp
from penstock.dialects.kernel.contract import FACTORS
from penstock.dialects.op.attention import AttentionOp
from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.in_place import IN_PLACE
from penstock.dialects.op.linear import GemmOp, MatmulOp
from penstock.dialects.op.reduction import ReduceMeanOp, ReduceProdOp, ReduceSumOp
from penstock.dialects.op.tensor_op import ContractionOp, TensorOp
from penstock.dialects.op.training.attention_gradient import AttentionGradientOp
from penstock.dialects.op.windows.convolution import Conv2dOp
from penstock.dialects.utils.attributes import replace_op
from penstock.dialects.utils.half_precision import is_half
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.analysis.body_jobs import jobs_and_bodies
from penstock.lowering.analysis.op_devices import kind_of
from penstock.lowering.codegen.cpu.vector_width import multiplies_pairs_here

OF_ATTENTION = AttentionOp | AttentionGradientOp
SUMS = ContractionOp | OF_ATTENTION | ReduceMeanOp | ReduceProdOp | ReduceSumOp


def widen_sums(job: JobOp, pairs: bool, device: str | None = None) -> None:
    """
    Let the sums of a job, which may be moved to a device, be of 32 bits; on a CPU that
    multiplies `pairs` of `bf16`, of these.
    """
    wide: dict[Hashable, SSAValue] = {}
    for op in tuple(job.body.block.ops):
        if not isinstance(op, SUMS) or not is_narrow(op):
            continue
        kind = kind_of(op, job, device)
        if kind != "cuda" or not is_wide_on_device(op):
            widen(op, wide, pairs and kind == "cpu" and is_of_pairs(op))


def is_wide_on_device(op: TensorOp) -> bool:
    """Whether devices add the products of an op in 32 bits as they are."""
    if isinstance(op, Conv2dOp):
        return not op.is_depthwise
    return isinstance(op, MatmulOp | GemmOp | OF_ATTENTION)


def is_of_pairs(op: TensorOp) -> bool:
    """Whether tiles on a CPU can multiply pairs of the factors of an op."""
    if any(tensor_type(x).element_type != bf16 for x in op.operands[:FACTORS]):
        return False
    if isinstance(op, Conv2dOp):
        _, channels, *taps = tensor_type(op.weights).get_shape()
        is_padded = any(op.pads.iter_values())
        return channels > 1 and taps == [1, 1] and not is_padded
    return isinstance(op, MatmulOp | GemmOp)


def is_narrow(op: TensorOp) -> bool:
    """Whether an op is of floats of 16 bits, and nobody says where they lie."""
    values = op.operands if isinstance(op, OF_ATTENTION) else op.results
    types = [tensor_type(value).element_type for value in values]
    return any(map(is_half, types)) and IN_PLACE not in op.attributes


def widen(op: TensorOp, wide: dict[Hashable, SSAValue], pairs: bool) -> None:
    """Compute an op between casts, but for those of its factors if it is of pairs."""
    kept = FACTORS if pairs else 0
    others = (widened(op, operand, wide) for operand in op.operands[kept:])
    flags = {"wide": UnitAttr()} if pairs else {}
    operands = [*op.operands[:kept], *others]
    new = type(op).inferred(operands, {**op.properties, **flags})
    new.attributes |= op.attributes
    new.location = op.location
    made: list[Operation] = [new]
    results: list[SSAValue] = []
    for result, found in zip(op.results, new.results, strict=True):
        hint, element = result.name_hint, tensor_type(result).element_type
        if found.type == result.type:
            found.name_hint = hint
            results.append(found)
            continue
        assert isinstance(element, AnyFloat), "halves are floats"
        back = CastOp(found, element)
        back.location = op.location
        set_placement(op, back)
        if hint:
            found.name_hint = f"{hint}_wide"
        made.append(back)
        results.append(back.result)
    replace_op(op, made, results)


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

    pairs: bool | None = None
    """Whether CPUs multiply pairs of `bf16`. By default if this one does."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pairs = multiplies_pairs_here() if self.pairs is None else self.pairs
        for job in jobs_and_bodies(op):
            widen_sums(job, pairs, self.device)
