"""Argmax, argmin and top-k."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    IntegerType,
    TensorType,
    UnitAttr,
    i1,
    i64,
)
from xdsl.ir import SSAValue
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

from penstock.dialects.kernel.body_ops import IndexOp
from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.kernel.folds import folded, neutral
from penstock.dialects.kernel.row_builder import all_reduce, all_reduce_by, build_row
from penstock.dialects.op.axes import I64Attr, dense
from penstock.dialects.op.elementwise import NUMBERS
from penstock.dialects.op.reduction import LARGEST, SMALLEST
from penstock.dialects.op.row_ops import Line
from penstock.dialects.op.sbp import SbpSignature, signature
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import normal_axis
from penstock.dialects.utils.gradients import GradientBuilder, Gradients
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.signless import is_unsigned
from penstock.dialects.utils.tensors import element_count, tensor_type

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array

################################################################################
# Places of the largest or smallest                                            #
################################################################################


class ArgOp(TensorOp, ABC):
    """
    The place of the largest or smallest element along one axis, from 0 on: the first
    of equal ones, or with `last` the last one. The first NaN comes before all numbers.

    The axis stays, with an extent of 1.
    """

    NO_GRADIENT: ClassVar = "its result is a place"
    RELATION: ClassVar[str]
    """The relation of an element to those that it wins against."""

    operand = operand_def(TensorType)
    axis = prop_def(I64Attr)
    last = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$operand `axis` $axis (`last` $last^)? attr-dict "
        "`:` type($operand) `->` type($result)"
    )

    def infer_types(self) -> Sequence[TensorType]:
        type = tensor_type(self.operand)
        NUMBERS.verify(type)
        shape = list(type.get_shape())
        axis = normal_axis(self.axis.value.data, len(shape))
        if shape[axis] == 0:
            raise VerifyException("an empty axis has no place to name")
        shape[axis] = 1
        return (TensorType(i64, shape),)

    def flops(self) -> int:
        return element_count(self.operand.type)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        rank = tensor_type(self.operand).get_num_dims()
        line = normal_axis(self.axis.value.data, rank)
        return [signature([axis], [axis]) for axis in range(rank) if axis != line]

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        array = operands[0]
        axis = normal_axis(self.axis.value.data, array.ndim)
        first = self._first(array, axis)
        if self.last is None:
            return (dense(first),)
        has_nan = np.isnan(array.astype(np.float64)).any(axis, keepdims=True)
        last = array.shape[axis] - 1 - self._first(np.flip(array, axis), axis)
        return (dense(np.where(has_nan, first, last)),)

    def _first(self, array: Array, axis: int) -> NDArray[np.int64]:
        import numpy as np

        if self.RELATION == "gt":
            return np.argmax(array, axis, keepdims=True)
        return np.argmin(array, axis, keepdims=True)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        outer, extent, inner = lines_of(self.operand, self.axis.value.data)
        # Lines that lie apart have a loop of their own around them.
        shape = (outer, extent, inner) if inner > 1 else (outer, extent)
        input = k.view(ins[0], shape)
        out = k.view(outs[0], (outer, *shape[2:]))
        loops = [AffineExpr.dimension(n) for n in range(len(shape)) if n != 1]
        maps = [AffineMap.identity(len(shape)), AffineMap(len(shape), 0, tuple(loops))]

        def point(k: KernelBuilder, args: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return [self._place(k, args[0], extent)]

        build_row(k, [1], [input], [out], maps, point)

    def _place(self, k: KernelBuilder, value: SSAValue, extent: int) -> SSAValue:
        """
        Build the place of an element in its row: of those that equal the best one the
        first or last, but the first NaN where there is one.
        """
        place = k.insert(arith.IndexCastOp(k.insert(IndexOp(1)), i64))
        end, none = k.constant(extent, i64), k.constant(-1, i64)
        best = self._best(k, value)
        is_best, is_nan = k.compare("eq", value, best), None
        if isinstance(value.type, AnyFloat):
            is_nan = k.compare("ne", value, value)
        if self.last is None:
            if is_nan is not None:
                is_best = k.insert(arith.OrIOp(is_best, is_nan))
            return _first_of(k, "lt", k.select(is_best, place, end), end)
        last = _first_of(k, "gt", k.select(is_best, place, none), none)
        if is_nan is None:
            return last
        first = _first_of(k, "lt", k.select(is_nan, place, end), end)
        return k.select(k.compare("ne", best, best), first, last)

    def _best(self, k: KernelBuilder, value: SSAValue) -> SSAValue:
        """Build the best element of a row, a NaN where there is one."""
        folds = LARGEST if self.RELATION == "gt" else SMALLEST
        type = value.type
        if isinstance(type, AnyFloat):
            return all_reduce(k, folds.floats, value)
        assert isa(type, IntegerType), "checked by the verifier"
        worst = neutral(folds.signed, type)
        if is_unsigned(type):
            worst = 0 if self.RELATION == "gt" else (1 << type.width.data) - 1
        return _first_of(k, self.RELATION, value, k.constant(worst, type))


def _first_of(
    k: KernelBuilder, relation: str, value: SSAValue, init: SSAValue
) -> SSAValue:
    """Build the integer of a row before others by a region, which warps join."""

    def combine(
        k: KernelBuilder, first: Sequence[SSAValue], second: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        is_first = k.compare(relation, first[0], second[0])
        return [k.select(is_first, first[0], second[0])]

    (found,) = all_reduce_by(k, [value], [init], combine)
    return found


def lines_of(value: SSAValue, axis: int) -> tuple[int, int, int]:
    """The elements before an axis, along it and after it."""
    shape = tensor_type(value).get_shape()
    axis = normal_axis(axis, len(shape))
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


@irdl_op_definition
class ArgMaxOp(ArgOp):
    """
    The place of the largest element along one axis, whose extent becomes 1: the first
    of equal ones, or with `last` the last one. The first NaN comes before all numbers.

    ```mlir
    %r = op.arg_max %a axis 1 : tensor<4x8xf32> -> tensor<4x1xi64>
    ```
    """

    name = "op.arg_max"
    RELATION: ClassVar[str] = "gt"


@irdl_op_definition
class ArgMinOp(ArgOp):
    """
    The place of the smallest element along one axis, whose extent becomes 1: the first
    of equal ones, or with `last` the last one. The first NaN comes before all numbers.

    ```mlir
    %r = op.arg_min %a axis 1 last : tensor<4x8xf32> -> tensor<4x1xi64>
    ```
    """

    name = "op.arg_min"
    RELATION: ClassVar[str] = "lt"


################################################################################
# The first of all in order                                                    #
################################################################################

BLOCK = 64
"""The elements of a line of which the best one is compared first."""

MOST_STEPS = 16
"""The longest list in which an element finds its place by steps of their own."""


@irdl_op_definition
class TopKOp(TensorOp):
    """
    The `count` largest elements along one axis in descending order, and their places;
    with `smallest` the smallest ones in ascending order. Of equal elements the first
    comes first. A NaN counts as larger than all numbers.

    ```mlir
    %v, %p = op.top_k %a count 3 axis 1 smallest
      : tensor<4x8xf32> -> tensor<4x3xf32>, tensor<4x3xi64>
    ```
    """

    name = "op.top_k"

    operand = operand_def(TensorType)
    count = prop_def(I64Attr)
    axis = prop_def(I64Attr)
    smallest = opt_prop_def(UnitAttr)
    values = result_def(TensorType)
    indices = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$operand `count` $count `axis` $axis (`smallest` $smallest^)? attr-dict "
        "`:` type($operand) `->` type($values) `,` type($indices)"
    )

    def infer_types(self) -> Sequence[TensorType]:
        type, count = tensor_type(self.operand), self.count.value.data
        NUMBERS.verify(type)
        shape = list(type.get_shape())
        axis = normal_axis(self.axis.value.data, len(shape))
        most = shape[axis]
        if count < 0 or (count > most and most != DYNAMIC_INDEX):
            raise VerifyException(f"there are no {count} elements among {most}")
        shape[axis] = count
        return TensorType(type.element_type, shape), TensorType(i64, shape)

    def flops(self) -> int:
        # Each is compared with the last of the best, and some with all of these.
        return 2 * element_count(self.operand.type)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        rank = tensor_type(self.operand).get_num_dims()
        line = normal_axis(self.axis.value.data, rank)
        axes = [axis for axis in range(rank) if axis != line]
        return [signature([axis], [axis, axis]) for axis in axes]

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        values, _ = grads
        if values is None:
            return [None]
        zeros = o.filled(0, o.shape(self.operand), values)
        operands = zeros, self.indices, values
        axis = self.axis.value.data
        return [o.one("op.scatter_elements", *operands, axis=axis)]

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        array = operands[0]
        axis = normal_axis(self.axis.value.data, array.ndim)
        if self.smallest is not None:
            order = np.argsort(array, axis, kind="stable")
        else:
            # Equal elements keep their order, so that the array is turned twice.
            turned = np.argsort(np.flip(array, axis), axis, kind="stable")
            order = array.shape[axis] - 1 - np.flip(turned, axis)
        places = np.take(order, range(self.count.value.data), axis)
        found = np.take_along_axis(array, places, axis)
        return dense(found), dense(places.astype(np.int64))

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        """
        The best so far are in order in the results. Another element is put there if it
        comes before the last one of them; of a block of elements that lie together none
        does if its largest one does not.
        """
        outer, extent, inner = lines_of(self.operand, self.axis.value.data)
        count = self.count.value.data
        input = k.view(ins[0], [outer, extent, inner])
        values, places = (k.view(out, [outer, count, inner]) for out in outs)
        type = tensor_type(self.operand).element_type
        blocks = range(0)
        if isinstance(type, AnyFloat) and inner == 1:
            blocks = range((extent - count) // BLOCK)

        def select(k: KernelBuilder, at: Sequence[SSAValue]) -> None:
            line, *targets = (
                Line(memref, at[:1], at[1:]) for memref in (input, values, places)
            )
            best = _Best(self, line, *targets)
            k.each(count, best.clear)
            k.each(count, lambda k, index: best.insert(k, index, index))
            if blocks:
                k.each_in(blocks, partial(best.visit_block, first=count))
            k.each_in(range(count + BLOCK * len(blocks), extent), best.visit)

        if count:
            k.parallel([outer, inner], select)

    def comes_before(self, k: KernelBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
        """Whether `a` comes before `b`, whatever their places."""
        if self.smallest is not None:
            a, b = b, a
        larger = k.compare("gt", a, b)
        if not isinstance(a.type, AnyFloat):
            return larger
        only_a = k.insert(arith.AndIOp(k.compare("ne", a, a), k.compare("eq", b, b)))
        return k.insert(arith.OrIOp(larger, only_a))


@dataclass(frozen=True)
class _Best:
    """The best elements of a line, in order, and their places."""

    op: TopKOp
    line: Line
    values: Line
    places: Line

    def clear(self, k: KernelBuilder, rank: SSAValue) -> None:
        """Build that a place of the list is written before it is read."""
        for target in (self.values, self.places):
            type = memref_type(target.memref).element_type
            target.store(k, k.constant(0, type), rank)

    def insert(
        self, k: KernelBuilder, index: SSAValue, known: SSAValue | None = None
    ) -> None:
        """
        Build that an element is put in its place in the list, of which so many elements
        are known, or all: those after it move on, and the last one leaves.
        """
        new = self.line.load(k, index), k.insert(arith.IndexCastOp(index, i64))
        if (count := self.values.extent) <= MOST_STEPS:
            self._store(k, new, self._rank(k, new, known, count - 1))
        else:
            self._pass(k, new, known)

    def _at(
        self,
        k: KernelBuilder,
        new: Sequence[SSAValue],
        known: SSAValue | None,
        rank: SSAValue,
    ) -> Sequence[SSAValue]:
        """Whether an element comes before one of the list, and this one."""
        old = [each.load(k, rank) for each in (self.values, self.places)]
        # Of equal elements the one that was found later comes later.
        is_first = self.op.comes_before(k, new[0], old[0])
        if known is not None:
            is_unknown = k.compare("ge", rank, known)
            is_first = k.insert(arith.OrIOp(is_unknown, is_first))
        return is_first, *old

    def _store(
        self, k: KernelBuilder, element: Sequence[SSAValue], rank: SSAValue
    ) -> None:
        for target, value in zip((self.values, self.places), element, strict=True):
            target.store(k, value, rank)

    def _rank(
        self,
        k: KernelBuilder,
        new: Sequence[SSAValue],
        known: SSAValue | None,
        rank: int,
    ) -> SSAValue:
        """Build the rank of an element up to one, to which those after it move on."""
        if not rank:
            return k.index(0)
        is_earlier, *before = self._at(k, new, known, k.index(rank - 1))

        def move(k: KernelBuilder) -> SSAValue:
            self._store(k, before, k.index(rank))
            return self._rank(k, new, known, rank - 1)

        return k.either(is_earlier, move, lambda k: k.index(rank))

    def _pass(
        self, k: KernelBuilder, new: Sequence[SSAValue], known: SSAValue | None
    ) -> None:
        """Build that each rank of a list gets its element, from the last one on."""
        last, one, zero = k.index(self.values.extent - 1), k.index(1), k.index(0)

        def step(
            k: KernelBuilder, number: SSAValue, carried: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            rank = k.sub(last, number)
            is_first, *here = carried
            is_earlier, *before = found = self._at(k, new, known, k.sub(rank, one))
            moved = [
                k.select(is_earlier, x, y) for x, y in zip(before, new, strict=True)
            ]
            own = [k.select(is_first, x, y) for x, y in zip(moved, here, strict=True)]
            self._store(k, own, rank)
            return found

        is_first, *here = k.loop(zero, last, self._at(k, new, known, last), step)
        own = [k.select(is_first, x, y) for x, y in zip(new, here, strict=True)]
        self._store(k, own, zero)

    def visit(self, k: KernelBuilder, index: SSAValue) -> None:
        """Build that an element is inserted into a full list if it belongs there."""
        count = self.values.extent
        last = self.values.load(k, k.index(count - 1))
        value = self.line.load(k, index)
        k.when(
            self.op.comes_before(k, value, last),
            lambda k: self.insert(k, index),
        )

    def visit_block(self, k: KernelBuilder, block: SSAValue, first: int) -> None:
        """Build that a block is visited if one of its elements may belong there."""
        start = k.add(k.mul(block, k.index(BLOCK)), k.index(first))
        is_largest = self.op.smallest is None
        fold = LARGEST.floats if is_largest else SMALLEST.floats

        def step(
            k: KernelBuilder, number: SSAValue, carried: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            value = self.line.load(k, k.add(start, number))
            return [folded(k, fold, carried[0], value)]

        type = tensor_type(self.op.operand).element_type
        worst = k.constant(neutral(fold, type), type)
        (best,) = k.loop(k.index(0), k.index(BLOCK), [worst], step)
        last = self.values.load(k, k.index(self.values.extent - 1))
        # A NaN compares with nothing.
        none = k.compare("ge" if is_largest else "le", last, best)
        one = k.constant(1, i1)
        k.when(
            k.insert(arith.XOrIOp(none, one)),
            lambda k: k.each(
                BLOCK, lambda k, number: self.visit(k, k.add(start, number))
            ),
        )
