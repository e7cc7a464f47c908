"""Reductions along axes."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    IntegerAttr,
    TensorType,
    UnitAttr,
    i1,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.body_ops import Fold
from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.kernel.row_builder import all_reduce, build_row
from penstock.dialects.op.axes import I64Attr, I64List, int_list
from penstock.dialects.op.elementwise import (
    ANY_ELEMENTS,
    FLOATS,
    NUMBERS,
    UNARY_SUM,
    Elements,
)
from penstock.dialects.op.sbp import PARTIAL, Part, SbpSignature, signature
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import normal_axis
from penstock.dialects.utils.gradients import only
from penstock.dialects.utils.signless import is_unsigned
from penstock.dialects.utils.tensors import element_count, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array


class Folds(NamedTuple):
    """The kinds of a fold by the types of elements."""

    floats: Fold
    signed: Fold
    unsigned: Fold
    booleans: Fold


LARGEST = Folds(Fold.MAXIMUMF, Fold.MAXSI, Fold.MAXUI, Fold.ORI)
SMALLEST = Folds(Fold.MINIMUMF, Fold.MINSI, Fold.MINUI, Fold.ANDI)
SUM, PRODUCT = (Folds(kind, kind, kind, kind) for kind in (Fold.ADD, Fold.MUL))


class ReduceOp(TensorOp, ABC):
    """
    An op that combines all elements along some axes: all of them if none is named.

    With `keepdims` each of these axes stays, with an extent of 1.
    """

    ELEMENTS: ClassVar[Elements]
    """The element types that the op combines."""

    NUMPY: ClassVar[str]
    """The function of NumPy that combines two elements."""

    FOLDS: ClassVar[Folds]
    """The kinds of fold that combine elements."""

    operand = operand_def(TensorType)
    axes = prop_def(I64List, default_value=int_list([]))
    keepdims = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    assembly_format = (
        "$operand (`axes` $axes^)? (`keepdims` $keepdims^)? attr-dict "
        "`:` type($operand) `->` type($result)"
    )

    def check_not_empty(self) -> None:
        """Called where results have no elements to be made from."""

    @property
    def normal_axes(self) -> tuple[int, ...]:
        """The axes along which to combine, counted from the first one."""
        rank = tensor_type(self.operand).get_num_dims()
        given = list(self.axes.iter_values())
        axes = sorted({normal_axis(axis, rank) for axis in given})
        if len(axes) != len(given):
            raise VerifyException(f"axes {given} name a dimension twice")
        return tuple(axes or range(rank))

    def infer_types(self) -> Sequence[TensorType]:
        type = tensor_type(self.operand)
        self.ELEMENTS.verify(type)
        axes = self.normal_axes
        extents = type.get_shape()
        kept = [extent for axis, extent in enumerate(extents) if axis not in axes]
        unknown = 0 in kept or DYNAMIC_INDEX in kept
        if not unknown and any(extents[axis] == 0 for axis in axes):
            self.check_not_empty()
        if self.keepdims is not None:
            kept = [1 if axis in axes else e for axis, e in enumerate(extents)]
        return (TensorType(type.element_type, kept),)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        rank, gone = tensor_type(self.operand).get_num_dims(), self.normal_axes
        kept = [axis for axis in range(rank) if axis not in gone]
        places = kept if self.keepdims is not None else range(len(kept))
        return [signature([a], [b]) for a, b in zip(kept, places, strict=True)]

    def flops(self) -> int:
        return element_count(self.operand.type)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        (array,) = operands
        with np.errstate(all="ignore"):
            result = getattr(np, self.NUMPY).reduce(
                array,
                axis=self.normal_axes,
                dtype=array.dtype,
                keepdims=self.keepdims is not None,
            )
        return (np.asarray(result),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        input, out = ins[0], outs[0]
        rank, axes = memref_type(input).get_num_dims(), self.normal_axes
        gone = [AffineExpr.constant(0)] if self.keepdims is not None else []
        place = [
            expr
            for axis in range(rank)
            for expr in (gone if axis in axes else [AffineExpr.dimension(axis)])
        ]
        if self.is_of_rows:
            # Rows are two dimensions: so a target sees that they follow each other.
            shape = memref_type(input).get_shape()
            split = rank - len(axes)
            rows, columns = prod(shape[:split]), prod(shape[split:])
            input, out = k.view(input, [rows, columns]), k.view(out, [rows])
            rank, axes, place = 2, (1,), [AffineExpr.dimension(0)]
        build_row(
            k,
            axes,
            [input],
            [out],
            [AffineMap.identity(rank), AffineMap(rank, 0, tuple(place))],
            lambda k, args: [self.build_point(k, args[0])],
        )

    @property
    def is_of_rows(self) -> bool:
        """Whether the elements that are combined are contiguous."""
        rank, axes = tensor_type(self.operand).get_num_dims(), self.normal_axes
        return axes == tuple(range(rank - len(axes), rank))

    def build_point(self, k: KernelBuilder, value: SSAValue) -> SSAValue:
        """Build the result of a row, in the body of a `kernel.row`, from a value."""
        return self.finish(k, all_reduce(k, self.fold(value.type), value))

    def fold(self, type: Attribute) -> Fold:
        """The kind of fold that combines elements of a type."""
        if type == i1:
            return self.FOLDS.booleans
        if isinstance(type, AnyFloat):
            return self.FOLDS.floats
        return self.FOLDS.unsigned if is_unsigned(type) else self.FOLDS.signed

    def finish(self, k: KernelBuilder, total: SSAValue) -> SSAValue:
        """Build the result from all elements combined."""
        return total

    def shared(self, o: GradientBuilder, grad: SSAValue) -> SSAValue:
        """A gradient in equal parts for all elements that equal the result."""
        is_one = o.equal(self.operand, self.spread(o, self.result))
        ones = o.cast(is_one, o.element(grad))
        count = o.reshape(o.sum(ones, self.normal_axes), o.shape(grad))
        return o.where(is_one, self.spread(o, o.div(grad, count)), 0)

    def spread(self, o: GradientBuilder, value: SSAValue) -> SSAValue:
        """A value like the result for each of the elements that are combined."""
        extents, axes = o.shape(self.operand), self.normal_axes
        kept = [1 if axis in axes else extent for axis, extent in enumerate(extents)]
        return o.expand(o.reshape(value, kept), extents)


@irdl_op_definition
class ReduceMaxOp(ReduceOp):
    """
    The largest element along some axes; a NaN where there is one.

    ```mlir
    %r = op.reduce_max %x axes [1] : tensor<4x8xf32> -> tensor<4xf32>
    ```
    """

    name = "op.reduce_max"

    ELEMENTS: ClassVar = ANY_ELEMENTS
    NUMPY: ClassVar = "maximum"
    FOLDS: ClassVar = LARGEST

    traits = traits_def(Pure())

    def check_not_empty(self) -> None:
        raise VerifyException("reduction of an empty axis has no maximum")

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [self.shared(o, only(grads))]


@irdl_op_definition
class ReduceMeanOp(ReduceOp):
    """
    The mean of the floats along some axes; a NaN where there are none.

    It is the sum as `op.reduce_sum` has it, divided by the number of terms. That is
    given `of` a mean whose other terms are elsewhere, so that it is added to theirs.

    ```mlir
    %r = op.reduce_mean %x axes [-2, -1] keepdims
      : tensor<4x8x8xf32> -> tensor<4x1x1xf32>
    ```

    ```mlir
    %r = op.reduce_mean %x axes [0] of 64 : tensor<16xf32> -> tensor<f32>
    ```
    """

    name = "op.reduce_mean"

    ELEMENTS: ClassVar = FLOATS
    NUMPY: ClassVar = "add"
    FOLDS: ClassVar = SUM

    # Properties of a class come before those of its base: `terms` is to be the last.
    axes = prop_def(I64List, default_value=int_list([]))
    keepdims = opt_prop_def(UnitAttr)
    terms = opt_prop_def(I64Attr)

    traits = traits_def(Pure())

    assembly_format = (
        "$operand (`axes` $axes^)? (`keepdims` $keepdims^)? (`of` $terms^)? attr-dict "
        "`:` type($operand) `->` type($result)"
    )

    def infer_types(self) -> Sequence[TensorType]:
        types = super().infer_types()
        own = self._own_terms
        if self.terms is not None and own > self._terms:
            raise VerifyException(f"a mean of {self._terms} terms is given {own}")
        return types

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        sums = [signature([axis], [PARTIAL]) for axis in self.normal_axes]
        return (*super().sbp_signatures(devices), *sums, UNARY_SUM)

    def part(self, operands: Sequence[SSAValue], parts: Sequence[Part]) -> Self:
        made = super().part(operands, parts)
        if made._own_terms != self._terms:
            made.terms = IntegerAttr(self._terms, i64)
        return made

    def flops(self) -> int:
        return super().flops() + element_count(self.result.type)

    @property
    def _terms(self) -> int:
        """The number of terms of each mean."""
        return self._own_terms if self.terms is None else self.terms.value.data

    @property
    def _own_terms(self) -> int:
        """The number of the terms that are here."""
        extents = tensor_type(self.operand).get_shape()
        return prod(extents[axis] for axis in self.normal_axes)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        (total,) = super().evaluate(*operands)
        with np.errstate(invalid="ignore"):
            return (np.asarray(np.divide(total, total.dtype.type(self._terms))),)

    def finish(self, k: KernelBuilder, total: SSAValue) -> SSAValue:
        return k.div(total, k.constant(self._terms, total.type))

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [self.spread(o, o.div(only(grads), self._terms))]


@irdl_op_definition
class ReduceMinOp(ReduceOp):
    """
    The smallest element along some axes; a NaN where there is one.

    ```mlir
    %r = op.reduce_min %x axes [1] : tensor<4x8xf32> -> tensor<4xf32>
    ```
    """

    name = "op.reduce_min"

    ELEMENTS: ClassVar = ANY_ELEMENTS
    NUMPY: ClassVar = "minimum"
    FOLDS: ClassVar = SMALLEST

    traits = traits_def(Pure())

    def check_not_empty(self) -> None:
        raise VerifyException("reduction of an empty axis has no minimum")

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [self.shared(o, only(grads))]


@irdl_op_definition
class ReduceProdOp(ReduceOp):
    """
    The product of the numbers along some axes; 1 where there are none.

    Products are in the element type: those of integers wrap, the error of those of
    floats grows with the number of factors.

    ```mlir
    %r = op.reduce_prod %x axes [1] : tensor<4x8xf32> -> tensor<4xf32>
    ```
    """

    name = "op.reduce_prod"

    ELEMENTS: ClassVar = NUMBERS
    NUMPY: ClassVar = "multiply"
    FOLDS: ClassVar = PRODUCT

    traits = traits_def(Pure())

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        """That of an element is the product of all others, also where one is 0."""
        shape, axes = o.shape(self.operand), self.normal_axes
        order = [axis for axis in range(len(shape)) if axis not in axes] + [*axes]
        kept = order[: len(shape) - len(axes)]
        x = o.transpose(self.operand, order)
        moved = o.shape(x)
        rows = [*(shape[axis] for axis in kept), prod(shape[axis] for axis in axes)]
        x = o.reshape(x, rows)
        flags = {"axis": len(kept), "exclusive": True}
        before = o.one("op.cum_prod", x, **flags)
        after = o.one("op.cum_prod", x, **flags, reverse=True)
        others = o.reshape(o.mul(before, after), moved)
        back = sorted(range(len(order)), key=lambda axis: order[axis])
        return [o.mul(self.spread(o, only(grads)), o.transpose(others, back))]


@irdl_op_definition
class ReduceSumOp(ReduceOp):
    """
    The sum of the numbers along some axes; 0 where there are none.

    Sums are in the element type: those of integers wrap, the error of those of floats
    grows with the number of terms: at most like it, about like its square root for
    random terms.

    ```mlir
    %r = op.reduce_sum %x axes [0, 2] : tensor<4x8x8xf32> -> tensor<8xf32>
    ```
    """

    name = "op.reduce_sum"

    ELEMENTS: ClassVar = NUMBERS
    NUMPY: ClassVar = "add"
    FOLDS: ClassVar = SUM

    traits = traits_def(Pure())

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        sums = [signature([axis], [PARTIAL]) for axis in self.normal_axes]
        return (*super().sbp_signatures(devices), *sums, UNARY_SUM)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [self.spread(o, only(grads))]
