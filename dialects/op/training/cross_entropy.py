"""Softmax cross entropy of integer labels, and its gradient."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    FloatAttr,
    IndexType,
    IntegerAttr,
    TensorType,
    f64,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    eq,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import NoMemoryEffect
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.body_ops import Fold
from penstock.dialects.kernel.builder import PARALLEL, memref_type
from penstock.dialects.kernel.row_builder import all_reduce, build_row, keep
from penstock.dialects.op.axes import I64Attr
from penstock.dialects.op.elementwise import FLOATS
from penstock.dialects.op.movement import check_indices
from penstock.dialects.op.row_ops import lines_shape
from penstock.dialects.op.sbp import SbpSignature, signature
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.op.verify import check_shape, normal_axis, same_element_type
from penstock.dialects.utils.gradients import (
    NO_SECOND,
    GradientBuilder,
    Gradients,
    in_f32,
    only,
)
from penstock.dialects.utils.tensors import element_count, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array

NO_CLASS = "label out of range"


class LabelsOp(TensorOp, ABC):
    """
    An op on scores (floats, one a class along an axis) and integer labels, one for each
    line of scores.
    """

    axis = prop_def(I64Attr, default_value=IntegerAttr(-1, i64))
    ignore_index = opt_prop_def(I64Attr)
    smoothing = prop_def(FloatAttr.constr(eq(f64)), default_value=FloatAttr(0.0, f64))
    result = result_def(TensorType)

    # Not speculatable: a label out of range is an error.
    traits = traits_def(NoMemoryEffect())

    def check_operands(self) -> tuple[TensorType, TensorType]:
        """
        The types of the scores and of one number for each line. Raises
        `VerifyException` unless labels are those of the lines.
        """
        scores, labels = map(tensor_type, self.operands[:2])
        FLOATS.verify(scores)
        check_indices(labels)
        shape = list(scores.get_shape())
        axis = normal_axis(self.axis.value.data, len(shape))
        if shape[axis] == 0:
            raise VerifyException("there should be a class at least")
        del shape[axis]
        check_shape("the labels", labels, shape)
        if not 0 <= (smoothing := self.smoothing.value.data) <= 1:
            raise VerifyException(f"smoothing should be from 0 to 1, got {smoothing}")
        return scores, TensorType(scores.element_type, shape)

    @property
    def ignored(self) -> int | None:
        """The label of lines that do not count, if there is one."""
        return None if self.ignore_index is None else self.ignore_index.value.data

    def line_axes(self) -> list[tuple[int, int]]:
        """The axes of scores but that of classes, each with the one of labels."""
        rank = tensor_type(self.operands[0]).get_num_dims()
        line = normal_axis(self.axis.value.data, rank)
        return list(
            zip((n for n in range(rank) if n != line), range(rank), strict=False)
        )

    def in_lines(
        self, k: KernelBuilder, scores: SSAValue, *others: SSAValue
    ) -> tuple[SSAValue, list[SSAValue]]:
        """Views of the scores as lines, and of tensors with a number for each line."""
        shape = lines_shape(memref_type(scores).get_shape(), self.axis.value.data)
        of_lines = [shape[0], *shape[2:]]
        return k.view(scores, shape), [k.view(value, of_lines) for value in others]

    def weights(self, scores: Array, labels: Array) -> tuple[Array, Array]:
        """
        The weights of the classes of each line in the loss, and whether each line
        counts, in terms of NumPy. Raises `IndexError` for a label that is no class.
        """
        import numpy as np

        axis = normal_axis(self.axis.value.data, scores.ndim)
        extent, wide = scores.shape[axis], labels.astype(np.int64)
        counts = np.ones(labels.shape, np.bool_)
        if self.ignored is not None:
            counts = np.not_equal(wide, self.ignored)
        if np.any(counts & ((wide < 0) | (wide >= extent))):
            raise IndexError(NO_CLASS)
        shape = [extent if at == axis else 1 for at in range(scores.ndim)]
        classes = np.reshape(np.arange(extent, dtype=np.int64), shape)
        smoothing = self.smoothing.value.data
        is_label = np.equal(classes, np.expand_dims(wide, axis))
        weights = is_label * (1 - smoothing) + smoothing / extent
        return weights.astype(scores.dtype), np.expand_dims(counts, axis)

    def place_of(
        self, k: KernelBuilder, label: SSAValue, extent: int
    ) -> tuple[SSAValue, SSAValue | None]:
        """
        Build the checked place of a label among so many classes, and whether its line
        is ignored, if any may be. The place of one that is ignored is 0.
        """
        if self.ignored is None:
            is_ignored = None
        else:
            is_ignored = k.compare("eq", label, k.constant(self.ignored, label.type))
            label = k.select(is_ignored, k.constant(0, label.type), label)
        place, zero = k.insert(arith.IndexCastOp(label, IndexType())), k.index(0)
        above = k.compare("ge", place, zero)
        below = k.compare("lt", place, k.index(extent))
        k.check(k.insert(arith.AndIOp(above, below)), NO_CLASS)
        return place, is_ignored


@irdl_op_definition
class SoftmaxCrossEntropyOp(LabelsOp):
    """
    The loss of each line of scores along an axis, given the label of its class: minus
    the logarithm of the share that the label has in the softmax of the line. With
    `smoothing` s the label weighs 1 - s, and all classes s together, in equal parts.

    A line whose label is `ignore_index` has loss 0. A label that is no class is an
    error when the op runs. Sums are in the element type.

    ```mlir
    %l = op.softmax_cross_entropy %x[%t] axis 1 ignore_index -100 smoothing 1.000000e-01
      : tensor<4x10x2xf32>, tensor<4x2xi64> -> tensor<4x2xf32>
    ```
    """

    name = "op.softmax_cross_entropy"

    scores = operand_def(TensorType)
    labels = operand_def(TensorType)

    assembly_format = (
        "$scores `[` $labels `]` (`axis` $axis^)? (`ignore_index` $ignore_index^)? "
        "(`smoothing` $smoothing^)? attr-dict `:` type($scores) `,` type($labels) `->` "
        "type($result)"
    )

    def infer_types(self) -> Sequence[TensorType]:
        _, of_lines = self.check_operands()
        return (of_lines,)

    def flops(self) -> int:
        # A maximum, a difference, a power and a sum; another sum for smoothing.
        smooth = self.smoothing.value.data != 0
        lines = element_count(self.result.type)
        return (4 + smooth) * element_count(self.scores.type) + (3 + smooth) * lines

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return [signature([a, b], [b]) for a, b in self.line_axes()]

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        # The rest of a share near 1 has few bits in a half.
        scores, grad = in_f32(o, self.scores), in_f32(o, only(grads))
        found = o.one(
            SoftmaxCrossEntropyGradientOp,
            scores,
            self.labels,
            grad,
            axis=self.axis.value.data,
            ignore_index=self.ignored,
            smoothing=self.smoothing.value.data,
        )
        return [o.cast(found, o.element(self.scores)), None]

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        scores, labels = operands
        axis, type = self.axis.value.data, scores.dtype.type
        weights, counts = self.weights(scores, labels)
        with np.errstate(all="ignore"):
            centered = np.subtract(scores, np.max(scores, axis, keepdims=True))
            powers = np.exp(centered)
            total = np.log(np.add.reduce(powers, axis, scores.dtype, keepdims=True))
            # A class without weight does not count, also if it has no share.
            missed = np.where(weights == 0, type(0), np.multiply(weights, centered))
            missed = np.add.reduce(missed, axis, scores.dtype, keepdims=True)
            losses = np.where(counts, np.subtract(total, missed), type(0))
        return (np.ascontiguousarray(np.squeeze(losses, axis)),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        scores, (labels, out) = self.in_lines(k, *ins, outs[0])
        _, extent, *_ = shape = memref_type(scores).get_shape()

        def pick(k: KernelBuilder, at: Sequence[SSAValue]) -> None:
            place, _ = self.place_of(k, k.load(labels, at), extent)
            k.store(k.load(scores, [at[0], place, *at[1:]]), out, at)

        k.parallel(memref_type(out).get_shape(), pick)
        identity = AffineMap.identity(len(shape))
        loops = [AffineExpr.dimension(n) for n in range(len(shape)) if n != 1]
        of_line = AffineMap(len(shape), 0, tuple(loops))
        maps = [identity, of_line, of_line]

        def point(k: KernelBuilder, args: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return [self._loss(k, args[0], args[1], extent)]

        build_row(k, [1], [scores, out], [out], maps, point)
        if self.ignored is not None:
            number = self.ignored

            def forget(k: KernelBuilder, scalars: Sequence[SSAValue]) -> SSAValue:
                label, loss = scalars
                is_ignored = k.compare("eq", label, k.constant(number, label.type))
                return k.select(is_ignored, k.constant(0, loss.type), loss)

            rank = memref_type(out).get_num_dims()
            maps = [AffineMap.identity(rank)] * 2
            k.generic([labels], out, maps, [PARALLEL] * rank, forget)

    def _loss(
        self, k: KernelBuilder, score: SSAValue, picked: SSAValue, extent: int
    ) -> SSAValue:
        """
        Build the loss of a line, from a score and that of the label, which lies where
        the loss will.
        """
        type, smoothing = score.type, self.smoothing.value.data
        # The label's score is one of the line: threads that share it read that first.
        largest = all_reduce(k, Fold.MAXNUMF, k.larger(score, picked))
        less = k.sub(score, largest)
        total = k.log(all_reduce(k, Fold.ADD, k.exp(less)))
        missed = k.mul(k.constant(1 - smoothing, type), k.sub(picked, largest))
        if smoothing:
            share = k.constant(smoothing / extent, type)
            missed = k.add(missed, k.mul(share, all_reduce(k, Fold.ADD, less)))
        return k.sub(total, missed)


@irdl_op_definition
class SoftmaxCrossEntropyGradientOp(LabelsOp):
    """
    The gradient of the scores of `op.softmax_cross_entropy`, from its operands and the
    gradients of the losses: the softmax of each line less the weights of its classes,
    times the gradient of its loss; 0 in lines that are ignored. The element of a label
    is rounded before its weight is subtracted, too.

    ```mlir
    %r = op.softmax_cross_entropy_gradient %x[%t], %g axis 1
      : tensor<4x10x2xf32>, tensor<4x2xi64>, tensor<4x2xf32> -> tensor<4x10x2xf32>
    ```
    """

    name = "op.softmax_cross_entropy_gradient"
    NO_GRADIENT: ClassVar = NO_SECOND

    scores = operand_def(TensorType)
    labels = operand_def(TensorType)
    grad = operand_def(TensorType)

    assembly_format = (
        "$scores `[` $labels `]` `,` $grad (`axis` $axis^)? "
        "(`ignore_index` $ignore_index^)? (`smoothing` $smoothing^)? attr-dict "
        "`:` type($scores) `,` type($labels) `,` type($grad) `->` type($result)"
    )

    def infer_types(self) -> Sequence[TensorType]:
        scores, of_lines = self.check_operands()
        same_element_type([self.scores, self.grad])
        check_shape("the gradient", tensor_type(self.grad), of_lines.get_shape())
        return (scores,)

    def flops(self) -> int:
        # A maximum, two differences, a power, a sum and two products.
        smooth = self.smoothing.value.data != 0
        lines = element_count(self.grad.type)
        return (6 + smooth) * element_count(self.scores.type) + 3 * lines

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        return (InPlacePair(0, 0),)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return [signature([a, b, b], [a]) for a, b in self.line_axes()]

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        scores, labels, grad = operands
        axis, type = self.axis.value.data, scores.dtype.type
        weights, counts = self.weights(scores, labels)
        with np.errstate(all="ignore"):
            powers = np.exp(np.subtract(scores, np.max(scores, axis, keepdims=True)))
            total = np.add.reduce(powers, axis, scores.dtype, keepdims=True)
            rest = np.subtract(np.divide(powers, total), weights)
            found = np.multiply(rest, np.expand_dims(grad, axis))
        return (np.where(counts, found, type(0)),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        scores, (labels, grad) = self.in_lines(k, *ins)
        out, _ = self.in_lines(k, outs[0])
        _, extent, *_ = shape = memref_type(scores).get_shape()
        identity = AffineMap.identity(len(shape))
        loops = [AffineExpr.dimension(n) for n in range(len(shape)) if n != 1]
        maps = [identity, AffineMap(len(shape), 0, tuple(loops)), identity]
        build_row(
            k,
            [1],
            [scores, grad],
            [out],
            maps,
            lambda k, x: [self._rest(k, x[0], x[1], extent)],
        )

        def finish(k: KernelBuilder, at: Sequence[SSAValue]) -> None:
            place, is_ignored = self.place_of(k, k.load(labels, at), extent)
            rate, target = k.load(grad, at), [at[0], place, *at[1:]]
            weight = k.constant(1 - self.smoothing.value.data, rate.type)
            found = k.sub(k.load(out, target), k.mul(weight, rate))
            k.store(found, out, target)
            if is_ignored is not None:
                zero = k.constant(0, rate.type)
                k.when(
                    is_ignored,
                    lambda k: k.each(
                        extent, lambda k, n: k.store(zero, out, [at[0], n, *at[1:]])
                    ),
                )

        k.parallel(memref_type(grad).get_shape(), finish)

    def _rest(
        self, k: KernelBuilder, score: SSAValue, rate: SSAValue, extent: int
    ) -> SSAValue:
        """Build an element of the gradient but for the weight of the label."""
        type, smoothing = score.type, self.smoothing.value.data
        less = k.sub(score, all_reduce(k, Fold.MAXNUMF, score))
        power = keep(k, k.exp(less))
        share = k.div(rate, all_reduce(k, Fold.ADD, power))
        found = k.mul(power, share)
        if smoothing:
            found = k.sub(found, k.mul(rate, k.constant(smoothing / extent, type)))
        return found
