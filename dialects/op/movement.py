"""Reshape, transpose, expand, gather and other ops that move whole tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntegerType,
    TensorType,
)
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.traits import NoMemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects import kernel
from penstock.dialects.job import BoxingOp
from penstock.dialects.kernel.builder import PARALLEL, memref_type
from penstock.dialects.kernel.indices import OUT_OF_RANGE
from penstock.dialects.op.axes import (
    I64Attr,
    I64List,
    dense,
    int_list,
)
from penstock.dialects.op.canonicalization import (
    CanonicalOp,
    OpPattern,
    same_static_type,
)
from penstock.dialects.op.elementwise import UNARY_SUM
from penstock.dialects.op.sbp import (
    PARTIAL,
    Part,
    SbpSignature,
    broadcast_signatures,
    signature,
)
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.op.verify import normal_axis
from penstock.dialects.utils.attributes import replace_by_value, replace_op
from penstock.dialects.utils.gradients import GradientBuilder, Gradients, in_f32, only
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.signless import is_unsigned
from penstock.dialects.utils.tensors import shape_text, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array

################################################################################
# Reshape                                                                      #
################################################################################


class ReshapeToSameType(OpPattern["ReshapeOp"]):
    """
    reshape(x) = x if the shape is x's own, and no other layout is asked for.
    """

    def rewrite(self, op: ReshapeOp, rewriter: PatternRewriter) -> None:
        if same_static_type(op.source, op.result) and not asks_for_layout(op):
            replace_by_value(op, op.source, rewriter)


class ReshapeOfReshape(OpPattern["ReshapeOp"]):
    """
    reshape(reshape(x, a), b) = reshape(x, b), unless the inner one asks for a layout.
    """

    def rewrite(self, op: ReshapeOp, rewriter: PatternRewriter) -> None:
        inner = op.source.owner
        if not isinstance(inner, ReshapeOp) or asks_for_layout(inner):
            return
        outer = ReshapeOp.create(
            operands=[inner.source],
            result_types=[op.result.type],
            properties=op.properties,
            attributes=op.attributes,
            location=op.location,
        )
        replace_op(op, outer, rewriter=rewriter)


def asks_for_layout(op: ReshapeOp) -> bool:
    """Whether a reshape says how its result lies, and its operand does not lie so."""
    if (sbp := op.attributes.get("sbp")) is None:
        return False
    owner = op.source.owner
    if isinstance(owner, BoxingOp):
        return owner.target_sbp != sbp
    return not isinstance(owner, Operation) or owner.attributes.get("sbp") != sbp


@irdl_op_definition
class ReshapeOp(TensorOp, CanonicalOp):
    """
    The same elements in the same row-major order under another shape. One extent may be
    -1, and follows from the number of elements.

    ```mlir
    %r = op.reshape %a to [2, -1] : tensor<4x3xf32> -> tensor<2x6xf32>
    ```
    """

    name = "op.reshape"
    PRECISION: ClassVar = "clear"
    FLOPS: ClassVar = 0
    PATTERNS: ClassVar = (ReshapeToSameType, ReshapeOfReshape)

    source = operand_def(TensorType)
    shape = prop_def(I64List)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$source `to` $shape attr-dict `:` type($source) `->` type($result)"
    )

    def __init__(self, source: SSAValue | Operation, shape: Sequence[int]):
        self.call(source, shape=shape)

    def infer_types(self) -> Sequence[TensorType]:
        return (reshaped(tensor_type(self.source), self.shape.get_values()),)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        source = tensor_type(self.source).get_shape()
        result = tensor_type(self.result).get_shape()
        axes = [
            signature([a], [b])
            for a, b in leading_axes(source, result)
            if source[a] == result[b] or source[a] % devices == 0 == result[b] % devices
        ]
        return (*axes, UNARY_SUM)

    def part(self, operands: Sequence[SSAValue], parts: Sequence[Part]) -> ReshapeOp:
        return self.remade(operands, parts, {"shape": int_list(parts[0].shape)})

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        return (InPlacePair(0, 0, view=True),)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        return (dense(operands[0]).reshape(self.shape.get_values()),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        k.copy(k.view(ins[0], memref_type(outs[0]).get_shape()), outs[0])

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.reshape(only(grads), o.shape(self.source))]


def leading_axes(source: Sequence[int], result: Sequence[int]) -> list[tuple[int, int]]:
    """
    The pairs of axes of two shapes of as many elements that a cut along the one is a
    cut along the other: those with as many elements from there on. There are none if
    an extent is 0 or not known.
    """
    if min((*source, *result), default=1) < 1:
        return []
    ends: dict[int, int] = {}
    for axis, extent in enumerate(result):
        if extent != 1:
            ends[prod(result[axis:])] = axis
    return [
        (axis, ends[rest])
        for axis, extent in enumerate(source)
        if extent != 1 and (rest := prod(source[axis:])) in ends
    ]


def reshaped(source: TensorType, shape: Sequence[int]) -> TensorType:
    """
    The type of `source`'s elements under `shape`, in which one extent may be -1.

    Raises `VerifyException` when the elements do not fit.
    """
    text = list(shape)
    if shape.count(-1) > 1:
        raise VerifyException(f"at most one extent may be -1, got {text}")
    if any(extent < -1 for extent in shape):
        raise VerifyException(f"extents must not be below -1, got {text}")
    if -1 in shape and 0 in shape:
        raise VerifyException(f"beside an extent of 0, -1 may be any, got {text}")
    known = prod(extent for extent in shape if extent != -1)
    rest = DYNAMIC_INDEX
    if source.has_static_shape():
        count = source.element_count()
        rest = count // known if -1 in shape else 1
        if rest * known != count:
            raise VerifyException(f"cannot reshape {count} elements to {text}")
    extents = [rest if extent == -1 else extent for extent in shape]
    return TensorType(source.element_type, extents)


################################################################################
# Transpose and expand                                                         #
################################################################################


class IdentityTranspose(OpPattern["TransposeOp"]):
    """
    transpose(x, [0, 1, ...]) = x.
    """

    def rewrite(self, op: TransposeOp, rewriter: PatternRewriter) -> None:
        permutation = op.permutation.get_values()
        if permutation != tuple(range(len(permutation))):
            return
        if op.source.type == op.result.type:
            replace_by_value(op, op.source, rewriter)


class TransposeOfTranspose(OpPattern["TransposeOp"]):
    """
    transpose(transpose(x, p), q) = transpose(x, [p[q[0]], p[q[1]], ...]).
    """

    def rewrite(self, op: TransposeOp, rewriter: PatternRewriter) -> None:
        if not isinstance(inner := op.source.owner, TransposeOp):
            return
        axes = inner.permutation.get_values()
        permutation = [axes[axis] for axis in op.permutation.get_values()]
        outer = TransposeOp.create(
            operands=[inner.source],
            result_types=[op.result.type],
            properties={"permutation": int_list(permutation)},
            attributes=op.attributes,
            location=op.location,
        )
        replace_op(op, outer, rewriter=rewriter)


@irdl_op_definition
class TransposeOp(TensorOp, CanonicalOp):
    """
    A tensor with its axes in another order: axis `i` of the result is axis
    `permutation[i]` of the operand.

    ```mlir
    %r = op.transpose %a by [1, 0] : tensor<4x3xf32> -> tensor<3x4xf32>
    ```
    """

    name = "op.transpose"
    PRECISION: ClassVar = "clear"
    FLOPS: ClassVar = 0
    PATTERNS: ClassVar = (IdentityTranspose, TransposeOfTranspose)

    source = operand_def(TensorType)
    permutation = prop_def(I64List)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$source `by` $permutation attr-dict `:` type($source) `->` type($result)"
    )

    def __init__(self, source: SSAValue | Operation, permutation: Sequence[int]):
        self.call(source, permutation=permutation)

    def infer_types(self) -> Sequence[TensorType]:
        return (transposed(tensor_type(self.source), self.permutation.get_values()),)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        axes = enumerate(self.permutation.get_values())
        return (*(signature([axis], [index]) for index, axis in axes), UNARY_SUM)

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        shape, order = tensor_type(self.source).get_shape(), self.permutation
        moved = [axis for axis in order.get_values() if shape[axis] != 1]
        # Where axes of extent 1 stand makes no difference in memory.
        return (InPlacePair(0, 0, view=True),) if moved == sorted(moved) else ()

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        return (dense(operands[0].transpose(self.permutation.get_values())),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        permutation = self.permutation.get_values()
        rank = len(permutation)
        exprs = [AffineExpr.dimension(permutation.index(axis)) for axis in range(rank)]
        k.generic(
            ins,
            outs[0],
            [AffineMap(rank, 0, tuple(exprs)), AffineMap.identity(rank)],
            [PARALLEL] * rank,
            lambda k, scalars: scalars[0],
        )

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        order = self.permutation.get_values()
        back = sorted(range(len(order)), key=lambda axis: order[axis])
        return [o.transpose(only(grads), back)]


def transposed(source: TensorType, permutation: Sequence[int]) -> TensorType:
    """
    The type of `source` with its axes in another order.

    Raises `VerifyException` unless each axis is named once.
    """
    shape = source.get_shape()
    if sorted(permutation) != list(range(len(shape))):
        raise VerifyException(
            f"expected a permutation of {len(shape)} axes, got {list(permutation)}"
        )
    return TensorType(source.element_type, [shape[axis] for axis in permutation])


class ExpandToSameType(OpPattern["ExpandOp"]):
    """
    expand(x) = x if the shape is x's own.
    """

    def rewrite(self, op: ExpandOp, rewriter: PatternRewriter) -> None:
        if same_static_type(op.source, op.result):
            replace_by_value(op, op.source, rewriter)


@irdl_op_definition
class ExpandOp(TensorOp, CanonicalOp):
    """
    A tensor broadcast to a shape as NumPy does: missing axes in front are added, and
    extents of 1 are repeated.

    ```mlir
    %r = op.expand %a to [2, 4, 3] : tensor<4x1xf32> -> tensor<2x4x3xf32>
    ```
    """

    name = "op.expand"
    PRECISION: ClassVar = "clear"
    FLOPS: ClassVar = 0
    PATTERNS: ClassVar = (ExpandToSameType,)

    source = operand_def(TensorType)
    shape = prop_def(I64List)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$source `to` $shape attr-dict `:` type($source) `->` type($result)"
    )

    def __init__(self, source: SSAValue | Operation, shape: Sequence[int]):
        self.call(source, shape=shape)

    def infer_types(self) -> Sequence[TensorType]:
        return (expanded(tensor_type(self.source), self.shape.get_values()),)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        source = tensor_type(self.source).get_shape()
        result = tensor_type(self.result).get_shape()
        return (*broadcast_signatures([source], result), UNARY_SUM)

    def part(self, operands: Sequence[SSAValue], parts: Sequence[Part]) -> ExpandOp:
        return self.remade(operands, parts, {"shape": int_list(parts[0].shape)})

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        source = tensor_type(self.source)
        if not source.has_static_shape():
            return ()
        repeats = source.element_count() != prod(self.shape.get_values())
        return () if repeats else (InPlacePair(0, 0, view=True),)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        return (dense(np.broadcast_to(operands[0], self.shape.get_values())),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        k.elementwise(ins, outs[0], lambda k, scalars: scalars[0])

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.unbroadcast(only(grads), self.source)]


def expanded(source: TensorType, shape: Sequence[int]) -> TensorType:
    """
    The type of `source` broadcast to `shape`.

    Raises `VerifyException` when it does not broadcast to exactly that shape.
    """
    if any(extent < 0 for extent in shape):
        raise VerifyException(f"extents must not be negative, got {list(shape)}")
    own = source.get_shape()
    last = shape[len(shape) - len(own) :]
    if len(own) > len(shape) or any(
        extent not in (1, DYNAMIC_INDEX, target)
        for extent, target in zip(own, last, strict=True)
    ):
        raise VerifyException(
            f"shape {shape_text(own)} does not broadcast to {shape_text(shape)}"
        )
    return TensorType(source.element_type, shape)


################################################################################
# Gather                                                                       #
################################################################################


@irdl_op_definition
class GatherOp(TensorOp):
    """
    The slices of `data` along an axis that `indices` name: the axis is replaced by the
    axes of `indices`. Negative indices count from the end; one that is out of range
    is an error when the op runs.

    ```mlir
    %r = op.gather %d[%i] axis 0
      : tensor<9x4xf32>, tensor<2x3xi64> -> tensor<2x3x4xf32>
    ```
    """

    name = "op.gather"
    PRECISION: ClassVar = "clear"
    FLOPS: ClassVar = 0

    data = operand_def(TensorType)
    indices = operand_def(TensorType)
    axis = prop_def(I64Attr)
    result = result_def(TensorType)

    # Not speculatable: an index out of range is an error.
    traits = traits_def(NoMemoryEffect())

    assembly_format = (
        "$data `[` $indices `]` `axis` $axis attr-dict "
        "`:` type($data) `,` type($indices) `->` type($result)"
    )

    def __init__(
        self, data: SSAValue | Operation, indices: SSAValue | Operation, axis: int
    ):
        self.call(data, indices, axis=axis)

    def infer_types(self) -> Sequence[TensorType]:
        data, indices = tensor_type(self.data), tensor_type(self.indices)
        return (gathered(data, indices, self.axis.value.data),)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        data, indices = (tensor_type(value).get_num_dims() for value in self.operands)
        axis = normal_axis(self.axis.value.data, data)
        moved = indices - 1
        by_index = [signature([None, i], [axis + i]) for i in range(indices)]
        before = [signature([i, None], [i]) for i in range(axis)]
        after = [signature([i, None], [i + moved]) for i in range(axis + 1, data)]
        return (*by_index, *before, *after, signature([PARTIAL, None], [PARTIAL]))

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        data, indices = operands[0], operands[1].astype(np.int64)
        axis = normal_axis(self.axis.value.data, data.ndim)
        extent = data.shape[axis]
        if ((indices < -extent) | (indices >= extent)).any():
            raise IndexError(OUT_OF_RANGE)
        return (dense(np.take(data, indices, axis)),)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        shape, grad = o.shape(self.data), only(grads)
        axis, places = range(len(shape))[self.axis.value.data], o.shape(self.indices)
        # The axes of indices come first.
        rank = len(shape) - 1 + len(places)
        named = range(axis, axis + len(places))
        order = [*named, *(other for other in range(rank) if other not in named)]
        rows = o.transpose(in_f32(o, grad), order)
        found = o.one("op.embedding_gradient", rows, self.indices, rows=shape[axis])
        return [o.cast(o.moved(found, 0, axis), o.element(grad)), None]

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        data, indices = ins
        axis = normal_axis(self.axis.value.data, memref_type(data).get_num_dims())
        k.effect(kernel.GatherOp(data, indices, outs[0], axis))


def gathered(data: TensorType, indices: TensorType, axis: int) -> TensorType:
    """
    The type of the slices of `data` along `axis` that `indices` name.

    Raises `VerifyException` when they do not fit.
    """
    check_indices(indices)
    shape = data.get_shape()
    axis = normal_axis(axis, len(shape))
    extents = [*shape[:axis], *indices.get_shape(), *shape[axis + 1 :]]
    return TensorType(data.element_type, extents)


def check_indices(indices: TensorType) -> None:
    """Raise `VerifyException` unless indices are signed integers."""
    kind = indices.element_type
    if not isa(kind, IntegerType) or is_unsigned(kind):
        raise VerifyException(f"indices should be signed integers, got {kind}")
