"""Concatenation, split and slice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    TensorType,
)
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.op.axes import (
    I64Attr,
    I64List,
    copy_part,
    dense,
    offset_by,
    one_per_axis,
    place_of_part,
)
from penstock.dialects.op.canonicalization import (
    CanonicalOp,
    OpPattern,
    same_static_type,
)
from penstock.dialects.op.sbp import PARTIAL, SbpSignature, signature
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.op.verify import known, may_equal, normal_axis, same_element_type
from penstock.dialects.utils.attributes import replace_by_value
from penstock.dialects.utils.gradients import only
from penstock.dialects.utils.tensors import element_bytes, shape_text, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array


def bytes_before(
    part: SSAValue, whole: SSAValue, starts: Sequence[int], steps: Sequence[int]
) -> int | None:
    """
    The bytes of a tensor before a part of it, at `start + step * place` on each axis;
    None unless all shapes are known and the part's elements are contiguous.
    """
    inner, outer = tensor_type(part), tensor_type(whole)
    if not (inner.has_static_shape() and outer.has_static_shape()):
        return None
    place = place_of_part(inner.get_shape(), outer.get_shape(), starts, steps)
    return None if place is None else place * element_bytes(outer)


def bytes_before_parts(
    parts: Sequence[SSAValue], whole: SSAValue, axis: int
) -> Sequence[int]:
    """
    The bytes of a tensor before each of its consecutive parts along an axis; none
    unless all shapes are known and the elements of each part are contiguous.
    """
    rank = tensor_type(whole).get_num_dims()
    axis, offset, found = normal_axis(axis, rank), 0, list[int]()
    for part in parts:
        before = bytes_before(part, whole, offset_by(rank, axis, offset), [1] * rank)
        if before is None:
            return ()
        found.append(before)
        offset += tensor_type(part).get_shape()[axis]
    return found


################################################################################
# Concat and split                                                             #
################################################################################


class ConcatOfOne(OpPattern["ConcatOp"]):
    """
    concat(x) = x.
    """

    def rewrite(self, op: ConcatOp, rewriter: PatternRewriter) -> None:
        if len(op.ins) == 1 and op.ins[0].type == op.result.type:
            replace_by_value(op, op.ins[0], rewriter)


@irdl_op_definition
class ConcatOp(TensorOp, CanonicalOp):
    """
    Tensors one after the other along an axis; all other extents are the same.

    ```mlir
    %r = op.concat %a, %b axis 1
      : tensor<4x2xf32>, tensor<4x3xf32> -> tensor<4x5xf32>
    ```
    """

    name = "op.concat"
    PRECISION: ClassVar = "clear"
    FLOPS: ClassVar = 0
    PATTERNS: ClassVar = (ConcatOfOne,)

    ins = var_operand_def(TensorType)
    axis = prop_def(I64Attr)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = "$ins `axis` $axis attr-dict `:` type($ins) `->` type($result)"

    def __init__(self, ins: Sequence[SSAValue | Operation], axis: int):
        self.call(ins, axis=axis)

    def infer_types(self) -> Sequence[TensorType]:
        return (concatenated(self.ins, self.axis.value.data),)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return _other_axes(self, self.axis.value.data)

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        before = bytes_before_parts(self.ins, self.result, self.axis.value.data)
        return tuple(
            InPlacePair(index, 0, -offset, view=True)
            for index, offset in enumerate(before)
        )

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        return (np.concatenate(operands, self.axis.value.data),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        rank = memref_type(outs[0]).get_num_dims()
        axis = normal_axis(self.axis.value.data, rank)
        offset = 0
        for part in ins:
            starts = offset_by(rank, axis, offset)
            copy_part(k, part, outs[0], starts, [1] * rank, is_target=False)
            offset += memref_type(part).get_shape()[axis]

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        axis = normal_axis(self.axis.value.data, len(o.shape(self.result)))
        found: list[SSAValue] = []
        start = 0
        for part in self.ins:
            end = start + o.shape(part)[axis]
            found.append(o.slice(only(grads), axis, start, end))
            start = end
        return found


def concatenated(ins: Sequence[SSAValue], axis: int) -> TensorType:
    """
    The type of tensors put one after the other along `axis`.

    Raises `VerifyException` when they do not fit together.
    """
    if not ins:
        raise VerifyException("expected at least one operand")
    element = same_element_type(ins)
    first, *others = (tensor_type(value).get_shape() for value in ins)
    axis = normal_axis(axis, len(first))
    extents = list(first)
    for shape in others:
        if not _fit(extents, shape, axis):
            raise VerifyException(
                f"shapes {shape_text(extents)} and {shape_text(shape)} "
                f"do not fit together along axis {axis}"
            )
        total = _total(extents[axis], shape[axis])
        extents = list(map(known, extents, shape))
        extents[axis] = total
    return TensorType(element, extents)


def _fit(a: Sequence[int], b: Sequence[int], axis: int) -> bool:
    """Whether shapes may be the same but for their extents on `axis`."""
    return len(a) == len(b) and all(
        index == axis or may_equal(*pair)
        for index, pair in enumerate(zip(a, b, strict=True))
    )


def _total(a: int, b: int) -> int:
    """The sum of two extents, unknown if one of them is."""
    return DYNAMIC_INDEX if DYNAMIC_INDEX in (a, b) else a + b


class SplitIntoOne(OpPattern["SplitOp"]):
    """
    split(x, [n]) = x.
    """

    def rewrite(self, op: SplitOp, rewriter: PatternRewriter) -> None:
        if len(op.parts) == 1 and op.parts[0].type == op.source.type:
            replace_by_value(op, op.source, rewriter)


@irdl_op_definition
class SplitOp(TensorOp, CanonicalOp):
    """
    A tensor cut along an axis into parts of the given sizes.

    ```mlir
    %p, %q = op.split %a axis 1 sizes [2, 3]
      : tensor<4x5xf32> -> tensor<4x2xf32>, tensor<4x3xf32>
    ```
    """

    name = "op.split"
    PRECISION: ClassVar = "clear"
    FLOPS: ClassVar = 0
    PATTERNS: ClassVar = (SplitIntoOne,)

    source = operand_def(TensorType)
    axis = prop_def(I64Attr)
    sizes = prop_def(I64List)
    parts = var_result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$source `axis` $axis `sizes` $sizes attr-dict "
        "`:` type($source) `->` type($parts)"
    )

    def __init__(self, source: SSAValue | Operation, axis: int, sizes: Sequence[int]):
        self.call(source, axis=axis, sizes=sizes)

    def infer_types(self) -> Sequence[TensorType]:
        source, sizes = tensor_type(self.source), self.sizes.get_values()
        return split_types(source, self.axis.value.data, sizes)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return _other_axes(self, self.axis.value.data)

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        before = bytes_before_parts(self.parts, self.source, self.axis.value.data)
        return tuple(
            InPlacePair(0, index, offset, view=True)
            for index, offset in enumerate(before)
        )

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        ends = np.cumsum(self.sizes.get_values())[:-1]
        parts = np.split(operands[0], ends, self.axis.value.data)
        return [dense(part) for part in parts]

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        rank = memref_type(ins[0]).get_num_dims()
        axis = normal_axis(self.axis.value.data, rank)
        offset = 0
        for part, size in zip(outs, self.sizes.get_values(), strict=True):
            starts = offset_by(rank, axis, offset)
            copy_part(k, part, ins[0], starts, [1] * rank, is_target=True)
            offset += size

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        parts = [
            o.zeros(part) if grad is None else grad
            for part, grad in zip(self.parts, grads, strict=True)
        ]
        return [o.concat(parts, self.axis.value.data)]


def split_types(
    source: TensorType, axis: int, sizes: Sequence[int]
) -> list[TensorType]:
    """
    The types of the parts of `source` along `axis`.

    Raises `VerifyException` when the sizes do not add up to the axis.
    """
    shape = source.get_shape()
    axis = normal_axis(axis, len(shape))
    if not sizes or any(size < 0 for size in sizes):
        raise VerifyException(
            f"expected at least one size and none negative, got {list(sizes)}"
        )
    if shape[axis] not in (DYNAMIC_INDEX, sum(sizes)):
        raise VerifyException(
            f"sizes {list(sizes)} add up to {sum(sizes)}, "
            f"but axis {axis} has extent {shape[axis]}"
        )
    return [
        TensorType(source.element_type, [*shape[:axis], size, *shape[axis + 1 :]])
        for size in sizes
    ]


################################################################################
# Slice                                                                        #
################################################################################


class SliceOfEverything(OpPattern["SliceOp"]):
    """
    slice(x) = x if every element is taken, in x's own order.
    """

    def rewrite(self, op: SliceOp, rewriter: PatternRewriter) -> None:
        if any(step != 1 for step in op.steps.get_values()):
            return
        if same_static_type(op.source, op.result):
            replace_by_value(op, op.source, rewriter)


@irdl_op_definition
class SliceOp(TensorOp, CanonicalOp):
    """
    The elements from `starts` up to but without `ends` by `steps`, one of each an
    axis, read as Python reads `start:end:step`: negative places count from the end,
    places past an end are moved to it. To go down to element 0, let `end` be below
    minus the extent.

    ```mlir
    %r = op.slice %a from [1, -1] to [3, -100] by [1, -2]
      : tensor<4x5xf32> -> tensor<2x3xf32>
    ```
    """

    name = "op.slice"
    PRECISION: ClassVar = "clear"
    FLOPS: ClassVar = 0
    PATTERNS: ClassVar = (SliceOfEverything,)

    source = operand_def(TensorType)
    starts = prop_def(I64List)
    ends = prop_def(I64List)
    steps = prop_def(I64List)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$source `from` $starts `to` $ends `by` $steps attr-dict "
        "`:` type($source) `->` type($result)"
    )

    def __init__(
        self,
        source: SSAValue | Operation,
        starts: Sequence[int],
        ends: Sequence[int],
        steps: Sequence[int],
    ):
        self.call(source, starts=starts, ends=ends, steps=steps)

    @property
    def slices(self) -> tuple[slice, ...]:
        """One slice an axis."""
        bounds = (self.starts, self.ends, self.steps)
        return tuple(map(slice, *(values.get_values() for values in bounds)))

    def infer_types(self) -> Sequence[TensorType]:
        bounds = (self.starts, self.ends, self.steps)
        values = (values.get_values() for values in bounds)
        return (sliced(tensor_type(self.source), *values),)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        shape = tensor_type(self.source).get_shape()
        slices = zip(self.slices, shape, strict=True)
        kept = [axis for axis, cut in enumerate(slices) if _takes_all(*cut)]
        return _along(self, kept)

    def _starts_and_steps(self, shape: Sequence[int]) -> tuple[list[int], list[int]]:
        """The first place on each axis of a shape, and the step to the next one."""
        ranges = [
            range(*part.indices(extent))
            for part, extent in zip(self.slices, shape, strict=True)
        ]
        return [places.start for places in ranges], [places.step for places in ranges]

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        type = tensor_type(self.source)
        if not type.has_static_shape():
            return ()
        starts, steps = self._starts_and_steps(type.get_shape())
        before = bytes_before(self.result, self.source, starts, steps)
        return () if before is None else (InPlacePair(0, 0, before, view=True),)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        return (dense(operands[0][(*self.slices, ...)]),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        starts, steps = self._starts_and_steps(memref_type(ins[0]).get_shape())
        copy_part(k, outs[0], ins[0], starts, steps, is_target=True)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        grad, shape = only(grads), o.shape(self.source)
        if 0 in o.shape(grad):
            return [None]
        befores: list[int] = []
        afters: list[int] = []
        for axis, (extent, cut) in enumerate(zip(shape, self.slices, strict=True)):
            places = range(*cut.indices(extent))
            if places.step < 0:
                grad, places = o.reversed(grad, axis), places[::-1]
            grad = _spaced(o, grad, axis, places.step)
            befores.append(places[0])
            afters.append(extent - 1 - places[-1])
        return [o.pad(grad, befores, afters)]


def _spaced(o: GradientBuilder, value: SSAValue, axis: int, step: int) -> SSAValue:
    """The elements along an axis, each `step` after the last, with zeros between."""
    shape = o.shape(value)
    extent = shape[axis]
    if step == 1 or extent == 1:
        return value
    value = o.reshape(value, [*shape[: axis + 1], 1, *shape[axis + 1 :]])
    after = [0] * (len(shape) + 1)
    after[axis + 1] = step - 1
    value = o.pad(value, [0] * len(after), after)
    value = o.reshape(value, [*shape[:axis], extent * step, *shape[axis + 1 :]])
    return o.slice(value, axis, 0, (extent - 1) * step + 1)


def sliced(
    source: TensorType, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int]
) -> TensorType:
    """
    The type of a slice of `source`; an extent that is unknown stays so.

    Raises `VerifyException` unless there is one slice an axis, and no step is 0.
    """
    shape = source.get_shape()
    for what, values in (("starts", starts), ("ends", ends), ("steps", steps)):
        one_per_axis(what, values, len(shape))
    if 0 in steps:
        raise VerifyException(f"steps must not be 0, got {list(steps)}")
    extents = [
        DYNAMIC_INDEX
        if extent == DYNAMIC_INDEX
        else len(range(*slice(*bounds).indices(extent)))
        for extent, *bounds in zip(shape, starts, ends, steps, strict=True)
    ]
    return TensorType(source.element_type, extents)


def _takes_all(part: slice, extent: int) -> bool:
    """Whether a slice is the whole axis, in order."""
    return extent >= 0 and part.indices(extent) == (0, extent, 1)


def _other_axes(op: TensorOp, axis: int) -> list[SbpSignature]:
    """The signatures of an op that does the same at all places of the other axes."""
    rank = tensor_type(op.operands[0]).get_num_dims()
    cut = normal_axis(axis, rank)
    return _along(op, [other for other in range(rank) if other != cut])


def _along(op: TensorOp, axes: Sequence[int]) -> list[SbpSignature]:
    """The signatures that cut all operands and results along one of these axes."""
    operands, results = len(op.operands), len(op.results)
    return [
        signature([entry] * operands, [entry] * results) for entry in (*axes, PARTIAL)
    ]
