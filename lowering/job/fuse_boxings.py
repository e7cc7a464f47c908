"""
Sum several small tensors over devices as one: gradients in buckets.

Of boxings from partial sums (`P`) to whole tensors (`B`) on the same devices those of
one element type are put together, in the order of the list, while their tensors have at
most `bytes` together: an `op.concat` of them along one axis is boxed, and slices of the
result stand for theirs. Where memory allows it, terms are made in the bucket, and sums
are read from it.

A bucket ends before an op that reads a sum of it, so that no op has to move: gradients
are there before the first update. It is boxed after its last tensor is made, while
other gradients are computed. Boxings that ask for `slots` stay, and those of dynamic
shape.

Example: `test/lowering/job/job-fuse-boxings-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.job import BoxingOp, BroadcastAttr, JobOp, PartialAttr
from penstock.dialects.op.movement import ReshapeOp
from penstock.dialects.op.slicing import ConcatOp, SliceOp
from penstock.dialects.utils.attributes import replace_op
from penstock.dialects.utils.tensors import element_bytes, tensor_type
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.op_layouts import RESULTS

Key: TypeAlias = tuple[Attribute, Attribute, Attribute, Attribute]
"""The layouts and the element type that the boxings of a bucket have alike."""


@dataclass
class Bucket:
    """Boxings that may become one."""

    key: Key
    boxings: list[BoxingOp] = field(default_factory=list[BoxingOp])
    bytes: int = 0


def bytes_of(boxing: BoxingOp) -> int | None:
    """The bytes of the tensor that a boxing sums; None for one that stays."""
    pairs = zip(boxing.source_sbp.dims.data, boxing.target_sbp.dims.data, strict=True)
    kinds = {(type(a), type(b)) for a, b in pairs}
    adds = (PartialAttr, BroadcastAttr)
    if adds not in kinds or kinds > {adds, (BroadcastAttr, BroadcastAttr)}:
        return None
    tensor, is_here = tensor_type(boxing.source), boxing.source_placement
    if boxing.target_placement != is_here or not tensor.has_static_shape():
        return None
    if "slots" in boxing.attributes:
        return None
    return prod(tensor.get_shape()) * element_bytes(tensor) or None


def buckets_of(job: JobOp, most: int) -> Iterator[list[BoxingOp]]:
    """The boxings of a job that become one each time, of at most so many bytes."""
    open_ones: dict[Key, Bucket] = {}
    within: dict[SSAValue, Bucket] = {}
    for op in job.body.block.ops:
        for value in (value for each in op.walk() for value in each.operands):
            bucket = within.get(value)
            if bucket is not None and open_ones.get(bucket.key) is bucket:
                yield open_ones.pop(bucket.key).boxings
        if not isinstance(op, BoxingOp) or (size := bytes_of(op)) is None:
            continue
        element = tensor_type(op.source).element_type
        key = (op.source_sbp, op.target_sbp, op.source_placement, element)
        bucket = open_ones.setdefault(key, Bucket(key))
        if bucket.bytes + size > most:
            yield bucket.boxings
            bucket = open_ones[key] = Bucket(key)
        bucket.boxings.append(op)
        bucket.bytes += size
        within[op.result] = bucket
    for bucket in open_ones.values():
        yield bucket.boxings


class Fusion:
    """Makes one boxing of several."""

    def __init__(self, job: JobOp, boxings: list[BoxingOp]) -> None:
        self._boxings, self._last = boxings, boxings[-1]
        place = self._last.source_placement
        self._place = {} if job.placement == place else {"placement": place}
        self._ops: list[Operation] = []

    def fuse(self) -> None:
        """Put the ops in place of the boxings."""
        own, last = self._boxings, self._last
        before, after = last.source_sbp, last.target_sbp
        flat = [self._flat(boxing, before) for boxing in own]
        joined = self._add(ConcatOp(flat, 0), last, before)
        place = last.source_placement
        summed = BoxingOp(joined, before, place, after, place)
        summed.location = last.location
        summed.result.name_hint = last.result.name_hint
        self._ops.append(summed)
        results: list[SSAValue] = []
        start = 0
        for boxing in own:
            shape = tensor_type(boxing.source).get_shape()
            end = start + prod(shape)
            cut = SliceOp(summed.result, [start], [end], [1])
            value = self._add(cut, boxing, after)
            if len(shape) != 1:
                value = self._add(ReshapeOp(value, shape), boxing, after)
            results.append(value)
            start = end
        Rewriter.insert_op(self._ops, InsertPoint.after(last))
        for boxing, value in zip(own, results, strict=True):
            replace_op(boxing, (), [value])

    def _flat(self, boxing: BoxingOp, sbp: Attribute) -> SSAValue:
        """The tensor of a boxing with one axis."""
        shape = tensor_type(boxing.source).get_shape()
        if len(shape) == 1:
            return boxing.source
        return self._add(ReshapeOp(boxing.source, [prod(shape)]), boxing, sbp)

    def _add(self, op: Operation, like: BoxingOp, sbp: Attribute) -> SSAValue:
        """The result of an op that lies in such a layout."""
        op.attributes |= {RESULTS: sbp, **self._place}
        op.location = like.location
        op.results[0].name_hint = like.result.name_hint
        self._ops.append(op)
        return op.results[0]


@dataclass(frozen=True)
class JobFuseBoxingsPass(ModulePass):
    """Sum several small tensors over devices as one: gradients in buckets."""

    name = "job-fuse-boxings"

    bytes: int = 1 << 22
    """The bytes of the tensors of a bucket at most."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.bytes < 1:
            raise PassFailedException(f"a bucket has at least a byte, got {self.bytes}")
        for job in outermost(op, JobOp):
            for boxings in list(buckets_of(job, self.bytes)):
                if len(boxings) > 1:
                    Fusion(job, boxings).fuse()
