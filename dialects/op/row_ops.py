"""
`RowOp`: ops that map each row along one axis to a row (softmax, layer norm, and their
gradients), and the lines of elements that loops go through.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType, f64, i64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import eq, prop_def, result_def

from penstock.dialects.kernel.body_ops import Fold
from penstock.dialects.kernel.builder import KernelBuilder, memref_type
from penstock.dialects.kernel.row_builder import all_reduce, build_row
from penstock.dialects.op.axes import I64Attr
from penstock.dialects.op.elementwise import FLOATS
from penstock.dialects.op.sbp import SbpSignature, signature
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.op.verify import (
    check_shape,
    normal_axis,
    same_element_type,
)
from penstock.dialects.utils.gradients import GradientBuilder, in_f32
from penstock.dialects.utils.tensors import tensor_type

EPSILON = 1e-5
"""The default `epsilon`, which is added to a variance."""


class Line(NamedTuple):
    """The elements of a memref along one dimension, at a place in the others."""

    memref: SSAValue
    before: Sequence[SSAValue]
    """The indices into the dimensions before that of the line."""
    after: Sequence[SSAValue] = ()
    """The indices into the dimensions after it."""

    @property
    def extent(self) -> int:
        """The number of elements of the line."""
        return memref_type(self.memref).get_shape()[len(self.before)]

    def load(self, k: KernelBuilder, index: SSAValue) -> SSAValue:
        """One element."""
        return k.load(self.memref, [*self.before, index, *self.after])

    def store(self, k: KernelBuilder, value: SSAValue, index: SSAValue) -> None:
        """Write one element."""
        k.store(value, self.memref, [*self.before, index, *self.after])


class RowOp(TensorOp, ABC):
    """
    An op whose first operands and only result have one type of floats, and whose
    results depend on lines of these operands, and on parameters that are the same for
    all lines.
    """

    @property
    def rows_read(self) -> int:
        """The number of operands that have lines; the others are parameters."""
        return 1

    @property
    def parameters(self) -> Sequence[SSAValue]:
        """The operands that all lines share."""
        return self.operands[self.rows_read :]

    @abstractmethod
    def is_of_rows(self) -> bool:
        """Whether its lines are those of the last dimension."""

    @abstractmethod
    def build_point(
        self, k: KernelBuilder, values: Sequence[SSAValue], extent: int
    ) -> SSAValue:
        """
        Build, in the body of a `kernel.row` of lines of so many elements, an element of
        the result from those of the operands at the same place.
        """

    def type_of_rows(self) -> TensorType:
        """
        The type that all operands with lines have. Raises `VerifyException` unless
        there is one, of floats.
        """
        same_element_type(self.operands)
        first, *others = map(tensor_type, self.operands[: self.rows_read])
        FLOATS.verify(first)
        for other in others:
            check_shape("each operand with rows", other, first.get_shape())
        return first

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        return [InPlacePair(operand, 0) for operand in range(self.rows_read)]


class LineOp(RowOp, ABC):
    """
    An op on floats whose results depend on the elements of lines along one axis.
    """

    axis = prop_def(I64Attr, default_value=IntegerAttr(-1, i64))
    result = result_def(TensorType)

    @property
    def rows_read(self) -> int:
        return len(self.operands)

    def infer_types(self) -> Sequence[TensorType]:
        type = self.type_of_rows()
        normal_axis(self.axis.value.data, type.get_num_dims())
        return (type,)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        rank = tensor_type(self.operands[0]).get_num_dims()
        line = normal_axis(self.axis.value.data, rank)
        axes = [axis for axis in range(rank) if axis != line]
        return [signature([axis] * len(self.operands), [axis]) for axis in axes]

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        extents = memref_type(ins[0]).get_shape()
        shape = lines_shape(extents, self.axis.value.data)
        viewed = [k.view(value, shape) for value in (*ins, *outs)]
        maps = [AffineMap.identity(len(shape))] * len(viewed)
        build_row(
            k,
            [1],
            viewed[: len(ins)],
            viewed[len(ins) :],
            maps,
            lambda k, args: [self.build_point(k, args, shape[1])],
        )

    def is_of_rows(self) -> bool:
        rank = tensor_type(self.operands[0]).get_num_dims()
        return normal_axis(self.axis.value.data, rank) == rank - 1


def lines_shape(extents: Sequence[int], axis: int) -> list[int]:
    """
    The shape of a tensor as lines along an axis: the elements before it, along it, and
    after it, if there are several. Lines of two dimensions follow each other.
    """
    axis = normal_axis(axis, len(extents))
    after = prod(extents[axis + 1 :])
    return [prod(extents[:axis]), extents[axis], *([after] if after != 1 else [])]


class ScaledRowsOp(RowOp, ABC):
    """
    An op that scales floats by what all elements from one axis on have in common, and
    then by a number each.
    """

    axis = prop_def(I64Attr, default_value=IntegerAttr(-1, i64))
    epsilon = prop_def(FloatAttr.constr(eq(f64)), default_value=FloatAttr(EPSILON, f64))
    result = result_def(TensorType)

    def infer_types(self) -> Sequence[TensorType]:
        type = self.type_of_rows()
        _, columns = self.split(type.get_shape())
        parameters = zip(("scale", "bias"), self.parameters, strict=False)
        for name, parameter in parameters:
            check_shape(f"the {name}", tensor_type(parameter), columns)
        return (type,)

    def split(self, shape: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """The extents before the axis, and those from it on."""
        axis = normal_axis(self.axis.value.data, len(shape))
        return shape[:axis], shape[axis:]

    @property
    def values(self) -> Mapping[str, object]:
        """Its properties as Python values."""
        return {"axis": self.axis.value.data, "epsilon": self.epsilon.value.data}

    def axes_of(self, shape: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """The axes before the axis, and those from it on."""
        axis = normal_axis(self.axis.value.data, len(shape))
        return range(axis), range(axis, len(shape))

    def scale_gradient(
        self, o: GradientBuilder, centered: SSAValue, grad: SSAValue
    ) -> SSAValue:
        """
        The gradient of the scale, from the input (less its mean, where this is
        subtracted) in the type that it is computed in.
        """
        rows, along = self.axes_of(o.shape(grad))
        square = o.mean(o.square(centered), along, keepdims=True)
        factor = o.rsqrt(o.add(square, self.epsilon.value.data))
        terms = o.mul(in_f32(o, grad), o.mul(centered, factor))
        return o.cast(o.sum(terms, rows), o.element(grad))

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        rows, _ = self.split(tensor_type(self.operands[0]).get_shape())
        parameters = [None] * len(self.parameters)
        return [
            signature([*[axis] * self.rows_read, *parameters], [axis])
            for axis in range(len(rows))
        ]

    def is_of_rows(self) -> bool:
        shape = tensor_type(self.operands[0]).get_shape()
        return normal_axis(self.axis.value.data, len(shape)) == len(shape) - 1

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        rows, columns = map(prod, self.split(memref_type(ins[0]).get_shape()))
        count = self.rows_read
        viewed = [k.view(value, [rows, columns]) for value in (*ins[:count], outs[0])]
        parameters = [k.view(value, [columns]) for value in ins[count:]]
        identity = AffineMap.identity(2)
        of_column = AffineMap(2, 0, (AffineExpr.dimension(1),))
        maps = [*[identity] * count, *[of_column] * len(parameters), identity]
        build_row(
            k,
            [1],
            [*viewed[:count], *parameters],
            viewed[count:],
            maps,
            lambda k, args: [self.build_point(k, args, columns)],
        )

    def factor_of(self, k: KernelBuilder, value: SSAValue, extent: int) -> SSAValue:
        """
        Build one over the root of the mean square of a value of rows, which have so
        many points.
        """
        type = value.type
        total = all_reduce(k, Fold.ADD, k.mul(value, value))
        square = k.div(total, k.constant(extent, type))
        root = k.sqrt(k.add(square, k.constant(self.epsilon.value.data, type)))
        return k.div(k.constant(1, type), root)
