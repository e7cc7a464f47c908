"""
The op dialect as functions on values, for rules that make several ops of one: gradients
of ops, and the converters of front ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod
from typing import Generic, TypeAlias, TypeVar

from typing_extensions import TypeIs
from xdsl.dialects.builtin import AnyFloat, IntegerType, i1
from xdsl.ir import Attribute, Block, Operation

from penstock.dialects.utils.tensors import broadcast_shapes

V = TypeVar("V")

OpName: TypeAlias = "type[Operation] | str"
"""An op by its class, or by its name in the text of IR."""

Given: TypeAlias = "V | Sequence[V] | None"
"""An operand of a call: one value, a list of them, or none."""


def is_number(value: object) -> TypeIs[float]:
    """Whether a value is a Python number; NumPy's scalars are arrays."""
    return type(value) in (bool, int, float)


class OpFunctions(ABC, Generic[V]):
    """
    Functions that make an op of the dialect and return its result.

    All raise `VerifyException` if the operands do not fit. A Python number stands for
    a scalar of the element type of the other operand.
    """

    # Values

    @abstractmethod
    def shape(self, value: V) -> list[int]:
        """The shape of a value."""

    @abstractmethod
    def element(self, value: V) -> AnyFloat | IntegerType:
        """The element type of a value."""

    @abstractmethod
    def filled(self, number: float, shape: Sequence[int], like: V) -> V:
        """A number in all places of a shape, in the element type of `like`."""

    def scalar(self, number: float, like: V) -> V:
        """A number as a scalar of the element type of `like`."""
        return self.filled(number, [], like)

    # Any op

    def insert(self, op: Operation) -> None:
        """Put an op that is made already where others are put."""
        raise TypeError("ops are put into jobs only")

    def within(self, block: Block) -> OpFunctions[V]:
        """The same functions, which put ops at the end of a block."""
        raise TypeError("ops are put into jobs only")

    def gradient_of(
        self, op: Operation, grads: Sequence[V | None]
    ) -> Sequence[V | None]:
        """
        The gradients of the operands of an op by those of its results, None for one
        that is zero. Raises NoGradient with the reason where there are none.
        """
        raise TypeError("ops are put into jobs only")

    def refuse_without_gradient(self, op: Operation) -> None:
        """
        Raise NoGradient for an op that is known to have no gradient, whatever those of
        its results are.
        """
        raise TypeError("ops are put into jobs only")

    @abstractmethod
    def results(self, op: OpName, *operands: Given[V], **values: object) -> Sequence[V]:
        """The results of an op that is called as by `TensorOp.of`."""

    def one(self, op: OpName, *operands: Given[V], **values: object) -> V:
        """The only result of an op on values."""
        return self.results(op, *operands, **values)[0]

    def two(self, op: OpName, a: V | float, b: V | float) -> V:
        """The result of an op on two values, of which one may be a number."""
        return self.one(op, *self._alike(a, b))

    def like(self, value: V | float, other: V) -> V:
        """A value, or a number as a scalar of the element type of `other`."""
        return self.scalar(value, other) if is_number(value) else value

    def _alike(self, a: V | float, b: V | float) -> tuple[V, V]:
        """Two values, of which one may be a number of the type of the other."""
        if not is_number(a):
            return a, self.like(b, a)
        assert not is_number(b), "one is a tensor"
        return self.like(a, b), b

    # Numbers

    def add(self, a: V | float, b: V | float) -> V:
        """The sum."""
        return self.two("op.add", a, b)

    def sub(self, a: V | float, b: V | float) -> V:
        """The difference."""
        return self.two("op.sub", a, b)

    def mul(self, a: V | float, b: V | float) -> V:
        """The product."""
        return self.two("op.mul", a, b)

    def div(self, a: V | float, b: V | float) -> V:
        """The quotient."""
        return self.two("op.div", a, b)

    def neg(self, value: V) -> V:
        """The number of the other sign."""
        return self.one("op.neg", value)

    def maximum(self, a: V | float, b: V | float) -> V:
        """The larger one."""
        return self.two("op.maximum", a, b)

    def minimum(self, a: V | float, b: V | float) -> V:
        """The smaller one."""
        return self.two("op.minimum", a, b)

    def pow(self, a: V | float, b: V | float) -> V:
        """The power."""
        return self.two("op.pow", a, b)

    def square(self, value: V) -> V:
        """The product of a value with itself."""
        return self.mul(value, value)

    def exp(self, value: V) -> V:
        """The power of e."""
        return self.one("op.exp", value)

    def log(self, value: V) -> V:
        """The natural logarithm."""
        return self.one("op.log", value)

    def sqrt(self, value: V) -> V:
        """The square root."""
        return self.one("op.sqrt", value)

    def rsqrt(self, value: V) -> V:
        """The reciprocal of the square root."""
        return self.one("op.rsqrt", value)

    def erf(self, value: V) -> V:
        """The error function."""
        return self.one("op.erf", value)

    def tanh(self, value: V) -> V:
        """The hyperbolic tangent."""
        return self.one("op.tanh", value)

    def sigmoid(self, value: V) -> V:
        """The logistic function."""
        return self.one("op.sigmoid", value)

    # Booleans

    def greater(self, a: V | float, b: V | float) -> V:
        """Whether `a` is greater."""
        return self.two("op.greater", a, b)

    def greater_equal(self, a: V | float, b: V | float) -> V:
        """Whether `a` is greater, or both are equal."""
        return self.two("op.greater_equal", a, b)

    def equal(self, a: V | float, b: V | float) -> V:
        """Whether both are equal."""
        return self.two("op.equal", a, b)

    def both(self, a: V, b: V) -> V:
        """Whether two conditions hold."""
        return self.one("op.logical_and", a, b)

    def where(self, condition: V, a: V | float, b: V | float) -> V:
        """`a` where the condition holds, else `b`; one of them is a tensor."""
        return self.one("op.where", condition, *self._alike(a, b))

    def cast(self, value: V, element: Attribute) -> V:
        """The same numbers in another type."""
        if self.element(value) == element:
            return value
        if element == i1:
            # A boolean is whether a number is not zero.
            return self.two("op.not_equal", value, 0)
        return self.one("op.cast", value, to=element)

    def reduce(
        self,
        op: OpName,
        value: V,
        axes: Sequence[int],
        *,
        keepdims: bool = True,
    ) -> V:
        """One number for all elements along some axes; all along none."""
        if not axes:
            return value
        return self.one(op, value, axes=axes, keepdims=keepdims)

    def sum(self, value: V, axes: Sequence[int], *, keepdims: bool = False) -> V:
        """The sum of all elements along some axes."""
        return self.reduce("op.reduce_sum", value, axes, keepdims=keepdims)

    def mean(self, value: V, axes: Sequence[int], *, keepdims: bool = False) -> V:
        """The mean of all elements along some axes."""
        return self.reduce("op.reduce_mean", value, axes, keepdims=keepdims)

    def matmul(
        self, a: V, b: V, *, transpose_a: bool = False, transpose_b: bool = False
    ) -> V:
        """The product of matrices, or of stacks of them."""
        flags = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        return self.one("op.matmul", a, b, **flags)

    # Shapes

    def reshape(self, value: V, shape: Sequence[int]) -> V:
        """The same elements in another shape."""
        if self.shape(value) == list(shape):
            return value
        return self.one("op.reshape", value, shape=shape)

    def transpose(self, value: V, order: Sequence[int]) -> V:
        """The axes in another order."""
        if list(order) == sorted(order):
            return value
        return self.one("op.transpose", value, permutation=order)

    def moved(self, value: V, source: int, target: int) -> V:
        """One axis at another place among the others."""
        rank = len(self.shape(value))
        order = [axis for axis in range(rank) if axis != range(rank)[source]]
        order.insert(range(rank)[target], range(rank)[source])
        return self.transpose(value, order)

    def expand(self, value: V, shape: Sequence[int]) -> V:
        """A value broadcast to a shape."""
        if self.shape(value) == list(shape):
            return value
        return self.one("op.expand", value, shape=shape)

    def broadcast(self, value: V, shape: Sequence[int]) -> V:
        """A value and a shape broadcast with each other."""
        return self.expand(value, broadcast_shapes([self.shape(value), shape]))

    def slice(self, value: V, axis: int, start: int, end: int, step: int = 1) -> V:
        """The elements from `start` up to but without `end` along one axis."""
        shape = self.shape(value)
        axis = range(len(shape))[axis]
        if (start, end, step) == (0, shape[axis], 1):
            return value
        starts, ends, steps = [0] * len(shape), list(shape), [1] * len(shape)
        starts[axis], ends[axis], steps[axis] = start, end, step
        return self.one("op.slice", value, starts=starts, ends=ends, steps=steps)

    def reversed(self, value: V, axis: int) -> V:
        """The elements along one axis from the last to the first."""
        extent = self.shape(value)[axis]
        if extent < 2:
            return value
        return self.slice(value, axis, extent - 1, -extent - 1, -1)

    def pick(self, value: V, axis: int, place: int) -> V:
        """The elements at one place of an axis, without this axis."""
        shape = self.shape(value)
        part = self.slice(value, axis, place, place + 1)
        return self.reshape(part, shape[:axis] + shape[axis + 1 :])

    def concat(self, values: Sequence[V], axis: int) -> V:
        """Values one after the other along an axis."""
        if len(values) == 1:
            return values[0]
        return self.one("op.concat", values, axis=axis)

    def stack(self, values: Sequence[V], axis: int) -> V:
        """Values of one shape along a new axis."""
        shape = self.shape(values[0])
        shape.insert(axis, 1)
        return self.concat([self.reshape(value, shape) for value in values], axis)

    def pad(
        self,
        value: V,
        before: Sequence[int],
        after: Sequence[int],
        number: float = 0.0,
    ) -> V:
        """More elements before and after those of a value."""
        if not any((*before, *after)):
            return value
        return self.one("op.pad", value, before=before, after=after, value=number)

    def tile(self, value: V, repeats: Sequence[int]) -> V:
        """A value repeated along each of its axes."""
        shape = self.shape(value)
        pairs = list(zip(repeats, shape, strict=True))
        split = [extent for _, own in pairs for extent in (1, own)]
        whole = [extent for pair in pairs for extent in pair]
        repeated = self.expand(self.reshape(value, split), whole)
        return self.reshape(repeated, [prod(pair) for pair in pairs])

    def zeros(self, like: V) -> V:
        """Zeros of the type of a value."""
        return self.filled(0, self.shape(like), like)

    def unbroadcast(self, value: V, like: V) -> V:
        """The sum over all elements that one element of `like` was broadcast to."""
        shape, target = self.shape(value), self.shape(like)
        lead = len(shape) - len(target)
        extents = enumerate(target, start=lead)
        axes = [axis for axis, extent in extents if extent == 1 != shape[axis]]
        return self.reshape(self.sum(value, [*range(lead), *axes]), target)
