"""
The op dialect as functions on values, for converters that make several ops of one.

Results of known values alone are computed at once, and are known values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import (
    AnyFloat,
    IntegerType,
    TensorType,
    i1,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa
from xdsl.utils.test_value import create_ssa_value

from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.comparison import NotEqualOp, WhereOp
from penstock.dialects.op.elementwise import AddOp, DivOp, MulOp, SubOp
from penstock.dialects.op.movement import ExpandOp, ReshapeOp, TransposeOp
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


Given: TypeAlias = Value | Sequence[Value] | None
"""An operand of a call: one value, a list of them, or none."""

Tensors: TypeAlias = SSAValue | Sequence[SSAValue] | None
"""An operand of a call whose values are tensors of the job."""


def flat(operands: Iterable[Given]) -> Iterator[Value]:
    """The values of all operands of a call."""
    for operand in operands:
        if isinstance(operand, SSAValue | np.ndarray | np.generic):
            yield operand
        else:
            yield from operand or ()


def mapped(
    operands: Iterable[Given], change: Callable[[Value], SSAValue]
) -> list[list[SSAValue]]:
    """The operands of a call, each of whose values is changed to a tensor."""
    return [[change(value) for value in flat([operand])] for operand in operands]


class Adder(Protocol):
    """The protocol of builders that add ops to a job."""

    def as_tensor(self, value: Value) -> SSAValue: ...
    def add(
        self, op: type[TensorOp], *operands: Tensors, **values: object
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

    def results(
        self, op: type[TensorOp], *operands: Given, **values: object
    ) -> Sequence[Value]:
        """The results of an op that is called as by `TensorOp.of`."""
        if not any(isinstance(value, SSAValue) for value in flat(operands)):
            return computed(op, operands, values)
        return self._adder.add(op, *mapped(operands, self._adder.as_tensor), **values)

    def one(self, op: type[TensorOp], *operands: Given, **values: object) -> Value:
        """The only result of an op on values."""
        return self.results(op, *operands, **values)[0]

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
        return self.one(op, value, axes=axes, keepdims=keepdims)

    # Shapes

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """The same elements in another shape."""
        if self.shape(value) == list(shape):
            return value
        return self.one(ReshapeOp, value, shape=shape)

    def transpose(self, value: Value, order: Sequence[int]) -> Value:
        """The axes in another order."""
        if list(order) == sorted(order):
            return value
        return self.one(TransposeOp, value, permutation=order)

    def moved(self, value: Value, source: int, target: int) -> Value:
        """One axis at another place among the others."""
        rank = len(self.shape(value))
        order = [axis for axis in range(rank) if axis != normal_axis(source, rank)]
        order.insert(normal_axis(target, rank), normal_axis(source, rank))
        return self.transpose(value, order)

    def expand(self, value: Value, shape: Sequence[int]) -> Value:
        """A value broadcast to a shape."""
        if self.shape(value) == list(shape):
            return value
        return self.one(ExpandOp, value, shape=shape)

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
        return self.one(SliceOp, value, starts=starts, ends=ends, steps=steps)

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
        return self.one(ConcatOp, values, axis=axis)

    def stack(self, values: Sequence[Value], axis: int) -> Value:
        """Values of one shape along a new axis."""
        shape = self.shape(values[0])
        shape.insert(axis, 1)
        return self.concat([self.reshape(value, shape) for value in values], axis)

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
        return self.one(PadOp, value, before=before, after=after, value=number)

    def tile(self, value: Value, repeats: Sequence[int]) -> Value:
        """A value repeated along each of its axes."""
        shape = self.shape(value)
        pairs = list(zip(repeats, shape, strict=True))
        split = [extent for _, own in pairs for extent in (1, own)]
        whole = [extent for pair in pairs for extent in pair]
        repeated = self.expand(self.reshape(value, split), whole)
        return self.reshape(repeated, [prod(pair) for pair in pairs])


def computed(
    op: type[TensorOp], operands: Sequence[Given], values: Mapping[str, object]
) -> Sequence[Array]:
    """The results of an op on arrays."""
    arrays: list[Array] = []

    def stand_in(array: Value) -> SSAValue:
        assert not isinstance(array, SSAValue), "all values are known"
        arrays.append(array)
        return create_ssa_value(TensorType(element_type_of(array.dtype), array.shape))

    made = op.of(*mapped(operands, stand_in), **values)
    return made.meaning(*arrays)
