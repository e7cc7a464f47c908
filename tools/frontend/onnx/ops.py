"""
The op dialect as functions on values, for converters that make several ops of one.

Results of known values alone are computed at once, and are known values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    UnitAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa
from xdsl.utils.test_value import create_ssa_value

from penstock.dialects.op.axes import int_list
from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.comparison import NotEqualOp, WhereOp
from penstock.dialects.op.elementwise import AddOp, DivOp, MulOp, SubOp
from penstock.dialects.op.linear import MatmulOp
from penstock.dialects.op.movement import ExpandOp, GatherOp, ReshapeOp, TransposeOp
from penstock.dialects.op.padding import PadOp
from penstock.dialects.op.reduction import ReduceOp
from penstock.dialects.op.slicing import ConcatOp, SliceOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import normal_axis
from penstock.dialects.utils.numpy_types import dtype_of, element_type_of
from penstock.dialects.utils.tensors import broadcast_shapes, tensor_type

Array: TypeAlias = npt.NDArray[np.generic]
Value: TypeAlias = SSAValue | Array
Operand: TypeAlias = Value | float | int


class Adder(Protocol):
    """The protocol of builders that add ops to a job."""

    def as_tensor(self, value: Value) -> SSAValue: ...
    def add(
        self,
        op: type[TensorOp],
        operands: Sequence[SSAValue],
        properties: Mapping[str, Attribute | None] | None = None,
        *,
        names: Sequence[str] = ("",),
    ) -> Sequence[SSAValue]: ...


class Ops:
    """
    Functions that add an op to a job and return its result.

    All raise `VerifyException` if the operands do not fit. A Python number stands for
    a scalar of the element type of the other operand.
    """

    def __init__(self, adder: Adder):
        self._adder = adder

    # Values

    @staticmethod
    def shape(value: Value) -> list[int]:
        """The shape of a value."""
        if isinstance(value, SSAValue):
            return list(tensor_type(value).get_shape())
        return list(value.shape)

    @staticmethod
    def element(value: Value) -> AnyFloat | IntegerType:
        """The element type of a value."""
        if not isinstance(value, SSAValue):
            return element_type_of(value.dtype)
        element = tensor_type(value).element_type
        assert isinstance(element, AnyFloat) or isa(element, IntegerType)
        return element

    def like(self, value: Operand, other: Value) -> Value:
        """A Python number as a scalar of the element type of `other`."""
        if isinstance(value, SSAValue | np.ndarray | np.generic):
            return value
        return np.asarray(value, dtype_of(self.element(other)))

    # Any op

    def apply(
        self,
        op: type[TensorOp],
        operands: Sequence[Value],
        properties: Mapping[str, Attribute | None] | None = None,
        count: int = 1,
    ) -> Sequence[Value]:
        """The results of an op on values."""
        arrays = [value for value in operands if not isinstance(value, SSAValue)]
        if len(arrays) == len(operands):
            return computed(op, arrays, properties, count)
        tensors = [self._adder.as_tensor(value) for value in operands]
        return self._adder.add(op, tensors, properties, names=[""] * count)

    def one(
        self, op: type[TensorOp], *operands: Value, **properties: Attribute | None
    ) -> Value:
        """The only result of an op on values."""
        return self.apply(op, operands, properties)[0]

    def two(self, op: type[TensorOp], a: Operand, b: Operand) -> Value:
        """The result of an op on two values, of which one may be a number."""
        if isinstance(a, SSAValue | np.ndarray | np.generic):
            return self.one(op, a, self.like(b, a))
        assert isinstance(b, SSAValue | np.ndarray | np.generic), "one is a tensor"
        return self.one(op, self.like(a, b), b)

    # Numbers

    def add(self, a: Operand, b: Operand) -> Value:
        """The sum."""
        return self.two(AddOp, a, b)

    def sub(self, a: Operand, b: Operand) -> Value:
        """The difference."""
        return self.two(SubOp, a, b)

    def mul(self, a: Operand, b: Operand) -> Value:
        """The product."""
        return self.two(MulOp, a, b)

    def div(self, a: Operand, b: Operand) -> Value:
        """The quotient."""
        return self.two(DivOp, a, b)

    def where(self, condition: Value, a: Operand, b: Operand) -> Value:
        """`a` where the condition holds, else `b`; one of them is a tensor."""
        if not isinstance(a, SSAValue | np.ndarray | np.generic):
            assert isinstance(b, SSAValue | np.ndarray | np.generic)
            return self.one(WhereOp, condition, self.like(a, b), b)
        return self.one(WhereOp, condition, a, self.like(b, a))

    def cast(self, value: Value, element: Attribute) -> Value:
        """The same numbers in another type."""
        if self.element(value) == element:
            return value
        if element == i1:
            # A boolean is whether a number is not zero.
            return self.two(NotEqualOp, value, 0)
        return self.one(CastOp, value, to=element)

    def matmul(
        self,
        a: Value,
        b: Value,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        wide: bool = False,
    ) -> Value:
        """The matmul; with `wide` the int8 matmul with `i32` accumulators."""
        flags = {
            "transpose_a": UnitAttr() if transpose_a else None,
            "transpose_b": UnitAttr() if transpose_b else None,
            "wide": UnitAttr() if wide else None,
        }
        return self.one(MatmulOp, a, b, **flags)

    def reduce(
        self,
        op: type[ReduceOp],
        value: Value,
        axes: Sequence[int],
        *,
        keepdims: bool = True,
    ) -> Value:
        """One number for all elements along some axes; all along none."""
        if not axes:
            return value
        flag = UnitAttr() if keepdims else None
        return self.one(op, value, axes=int_list(axes), keepdims=flag)

    # Shapes

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """The same elements in another shape."""
        if self.shape(value) == list(shape):
            return value
        return self.one(ReshapeOp, value, shape=int_list(shape))

    def transpose(self, value: Value, order: Sequence[int]) -> Value:
        """The axes in another order."""
        if list(order) == sorted(order):
            return value
        return self.one(TransposeOp, value, permutation=int_list(order))

    def expand(self, value: Value, shape: Sequence[int]) -> Value:
        """A value broadcast to a shape."""
        if self.shape(value) == list(shape):
            return value
        return self.one(ExpandOp, value, shape=int_list(shape))

    def broadcast(self, value: Value, shape: Sequence[int]) -> Value:
        """A value and a shape broadcast with each other."""
        return self.expand(value, broadcast_shapes([self.shape(value), shape]))

    def slice(
        self, value: Value, axis: int, start: int, end: int, step: int = 1
    ) -> Value:
        """The elements from `start` up to but without `end` along one axis."""
        shape = self.shape(value)
        axis = normal_axis(axis, len(shape))
        if (start, end, step) == (0, shape[axis], 1):
            return value
        starts, ends, steps = [0] * len(shape), list(shape), [1] * len(shape)
        starts[axis], ends[axis], steps[axis] = start, end, step
        return self.one(
            SliceOp,
            value,
            starts=int_list(starts),
            ends=int_list(ends),
            steps=int_list(steps),
        )

    def reversed(self, value: Value, axis: int) -> Value:
        """The elements along one axis from the last to the first."""
        extent = self.shape(value)[axis]
        if extent < 2:
            return value
        return self.slice(value, axis, extent - 1, -extent - 1, -1)

    def pick(self, value: Value, axis: int, place: int) -> Value:
        """The elements at one place of an axis, without this axis."""
        shape = self.shape(value)
        part = self.slice(value, axis, place, place + 1)
        return self.reshape(part, shape[:axis] + shape[axis + 1 :])

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """Values one after the other along an axis."""
        if len(values) == 1:
            return values[0]
        return self.one(ConcatOp, *values, axis=IntegerAttr(axis, i64))

    def stack(self, values: Sequence[Value], axis: int) -> Value:
        """Values of one shape along a new axis."""
        shape = self.shape(values[0])
        shape.insert(axis, 1)
        return self.concat([self.reshape(value, shape) for value in values], axis)

    def gather(self, value: Value, indices: Value, axis: int) -> Value:
        """The slices along an axis that the indices name."""
        return self.one(GatherOp, value, indices, axis=IntegerAttr(axis, i64))

    def pad(
        self,
        value: Value,
        before: Sequence[int],
        after: Sequence[int],
        number: float = 0.0,
    ) -> Value:
        """More elements before and after those of a value."""
        if not any((*before, *after)):
            return value
        return self.one(
            PadOp,
            value,
            before=int_list(before),
            after=int_list(after),
            value=FloatAttr(number, f64),
        )

    def tile(self, value: Value, repeats: Sequence[int]) -> Value:
        """A value repeated along each of its axes."""
        shape = self.shape(value)
        pairs = list(zip(repeats, shape, strict=True))
        split = [extent for _, own in pairs for extent in (1, own)]
        whole = [extent for pair in pairs for extent in pair]
        repeated = self.expand(self.reshape(value, split), whole)
        return self.reshape(repeated, [prod(pair) for pair in pairs])


def computed(
    op: type[TensorOp],
    arrays: Sequence[Array],
    properties: Mapping[str, Attribute | None] | None,
    count: int,
) -> Sequence[Array]:
    """The results of an op on arrays."""
    types = [TensorType(element_type_of(a.dtype), a.shape) for a in arrays]
    made = op.inferred(list(map(create_ssa_value, types)), properties)
    return made.meaning(*arrays)
