"""
Compaction: the places of elements that are not zero, and the slices that a mask keeps.

The number of them is only known at run time. The result has room for the most there
can be, zeros stand behind the last one, and a second result is the count.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from xdsl.dialects import arith
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, i1, i64
from xdsl.interfaces import ConditionallySpeculatableInterface
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import NoMemoryEffect
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.op.axes import I64Attr, dense
from penstock.dialects.op.counted.heap_sort import to_i64, within
from penstock.dialects.op.elementwise import ANY_ELEMENTS
from penstock.dialects.op.row_ops import Line
from penstock.dialects.op.sbp import SbpSignature, signature
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import check_rank, normal_axis
from penstock.dialects.utils.gradients import NO_FLOATS
from penstock.dialects.utils.tensors import element_bytes, element_count, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array

COUNT = TensorType(i64, [])
"""The type of a number of elements that is known at run time."""

LEAST_BRANCH_BYTES = 64
"""
The bytes of a slice above which to ask whether it is kept is faster than to write it
anyway: the next one is written over it, and what a mask says is not foreseen.
"""


class CountedOp(TensorOp, ConditionallySpeculatableInterface, ABC):
    """
    An op whose first result has room for the most elements there can be, and whose
    second one is their count. With `max` there is room for so many; that there are more
    is an error when the op runs.
    """

    # Speculatable only where all elements have room.
    traits = traits_def(NoMemoryEffect())

    max = opt_prop_def(I64Attr)

    def room(self, bound: int) -> int:
        """
        The extent of the axis that is counted, of which there are at most so many.
        Raises `VerifyException` for a maximum below 0.
        """
        if self.max is None:
            return bound
        if (given := self.max.value.data) < 0:
            raise VerifyException(f"there is no room for {given} elements")
        return given if bound == DYNAMIC_INDEX else min(given, bound)

    @abstractmethod
    def bound(self) -> int:
        """The number of elements that there can be; `DYNAMIC_INDEX` if unknown."""

    def is_speculatable(self) -> bool:
        bound = self.bound()
        if self.max is None:
            return True
        return bound != DYNAMIC_INDEX and self.max.value.data >= bound

    @property
    def too_many(self) -> str:
        """The error of a count above the maximum."""
        assert self.max is not None, "asked where there is one"
        return f"there are more elements than the maximum {self.max.value.data}"

    def check_count(self, k: KernelBuilder, count: SSAValue) -> None:
        """Stop a kernel with more elements than there is room for."""
        if not self.is_speculatable():
            room = k.index(self.room(self.bound()))
            k.check(k.compare("le", count, room), self.too_many)

    def refuse_more(self, count: int) -> None:
        """Raise `ValueError` for more elements than there is room for."""
        if self.max is not None and count > self.max.value.data:
            raise ValueError(self.too_many)


def once(k: KernelBuilder, body: Callable[[KernelBuilder], None]) -> None:
    """A stage that is one sequence of steps."""
    k.parallel([1], lambda k, _: body(k))


def is_set(k: KernelBuilder, value: SSAValue) -> SSAValue:
    """Whether an element is not zero; a NaN is not."""
    if value.type == i1:
        return value
    return k.compare("ne", value, k.constant(0, value.type))


def more(k: KernelBuilder, count: SSAValue, condition: SSAValue) -> SSAValue:
    """The count, and one more where the condition holds."""
    return k.select(condition, k.add(count, k.index(1)), count)


@irdl_op_definition
class NonZeroOp(CountedOp):
    """
    The places of all elements that are not zero, in row-major order, one a column, and
    the number of them; zeros stand behind the last one. There is room for all elements
    of the operand, or for `max`: that more are not zero is an error when the op runs.

    ```mlir
    %places, %count = op.non_zero %a
      : tensor<4x8xf32> -> tensor<2x32xi64>, tensor<i64>
    %few, %n = op.non_zero %a max 5 : tensor<4x8xf32> -> tensor<2x5xi64>, tensor<i64>
    ```
    """

    name = "op.non_zero"
    NO_GRADIENT: ClassVar = NO_FLOATS

    operand = operand_def(TensorType)
    places = result_def(TensorType)
    count = result_def(TensorType)

    assembly_format = (
        "$operand (`max` $max^)? attr-dict "
        "`:` type($operand) `->` type($places) `,` type($count)"
    )

    def bound(self) -> int:
        type = tensor_type(self.operand)
        return element_count(type) if type.has_static_shape() else DYNAMIC_INDEX

    def infer_types(self) -> Sequence[TensorType]:
        type = tensor_type(self.operand)
        ANY_ELEMENTS.verify(type)
        if not (rank := type.get_num_dims()):
            raise VerifyException("a scalar has no places")
        return TensorType(i64, [rank, self.room(self.bound())]), COUNT

    def flops(self) -> int:
        return element_count(self.operand.type)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        found = np.stack(np.nonzero(operands[0]))
        self.refuse_more(found.shape[1])
        places = np.zeros(tensor_type(self.places).get_shape(), np.int64)
        places[:, : found.shape[1]] = found
        return places, np.asarray(found.shape[1])

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        once(k, lambda k: self._list(k, ins[0], *outs))

    def _list(
        self, k: KernelBuilder, source: SSAValue, places: SSAValue, count: SSAValue
    ) -> None:
        room = memref_type(places).get_shape()[1]

        def step(k: KernelBuilder, at: Sequence[SSAValue], found: SSAValue) -> SSAValue:
            hit = is_set(k, k.load(source, at))
            has_room = k.compare("lt", found, k.index(room))
            k.when(
                k.insert(arith.AndIOp(hit, has_room)),
                lambda k: self._write(k, places, at, found),
            )
            return more(k, found, hit)

        zero = k.index(0)
        bounds = [(zero, k.index(each)) for each in memref_type(source).get_shape()]
        found = k.accumulate(bounds, zero, step)
        self.check_count(k, found)
        k.store(to_i64(k, found), count, [])
        for axis in range(memref_type(places).get_shape()[0]):
            zeros_from(k, Line(places, [k.index(axis)]), found, k.constant(0, i64))

    def _write(
        self,
        k: KernelBuilder,
        places: SSAValue,
        at: Sequence[SSAValue],
        found: SSAValue,
    ) -> None:
        room = memref_type(places).get_shape()[1]
        if not room:
            return
        column = within(k, found, room)
        for axis, index in enumerate(at):
            k.store(to_i64(k, index), places, [k.index(axis), column])


@irdl_op_definition
class CompressOp(CountedOp):
    """
    The slices along one axis at which a mask holds, one after the other, and the number
    of them; zeros stand behind the last one. The mask may be shorter than the axis.
    There is room for as many slices as the mask has elements, or for `max`: that more
    are kept is an error when the op runs.

    ```mlir
    %kept, %count = op.compress %a by %mask axis 1
      : tensor<4x8xf32>, tensor<8xi1> -> tensor<4x8xf32>, tensor<i64>
    %few, %n = op.compress %a by %mask axis 1 max 3
      : tensor<4x8xf32>, tensor<8xi1> -> tensor<4x3xf32>, tensor<i64>
    ```
    """

    name = "op.compress"
    FLOPS: ClassVar = 0

    operand = operand_def(TensorType)
    mask = operand_def(TensorType)
    axis = prop_def(I64Attr)
    kept = result_def(TensorType)
    count = result_def(TensorType)

    assembly_format = (
        "$operand `by` $mask `axis` $axis (`max` $max^)? attr-dict "
        "`:` type($operand) `,` type($mask) `->` type($kept) `,` type($count)"
    )

    def bound(self) -> int:
        return tensor_type(self.mask).get_shape()[0]

    def infer_types(self) -> Sequence[TensorType]:
        type, mask = tensor_type(self.operand), tensor_type(self.mask)
        ANY_ELEMENTS.verify(type)
        check_rank("the mask", mask, 1)
        if mask.element_type != i1:
            raise VerifyException(f"the mask should be of i1, got {mask.element_type}")
        shape = list(type.get_shape())
        axis = normal_axis(self.axis.value.data, len(shape))
        length = mask.get_shape()[0]
        if DYNAMIC_INDEX not in (length, shape[axis]) and length > shape[axis]:
            raise VerifyException(
                f"a mask of {length} elements is longer than the axis of {shape[axis]}"
            )
        shape[axis] = self.room(length)
        return TensorType(type.element_type, shape), COUNT

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        rank = tensor_type(self.operand).get_num_dims()
        own = normal_axis(self.axis.value.data, rank)
        others = [axis for axis in range(rank) if axis != own]
        return [signature([axis, None], [axis, None]) for axis in others]

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        array, mask = operands
        axis = normal_axis(self.axis.value.data, array.ndim)
        found = np.take(array, np.flatnonzero(mask), axis)
        count = found.shape[axis]
        self.refuse_more(count)
        shape = list(array.shape)
        shape[axis] = tensor_type(self.kept).get_shape()[axis]
        kept = np.zeros(shape, array.dtype)
        np.moveaxis(kept, axis, 0)[:count] = np.moveaxis(found, axis, 0)
        return dense(kept), np.asarray(count)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        shape = memref_type(ins[0]).get_shape()
        axis = normal_axis(self.axis.value.data, len(shape))
        room = memref_type(outs[0]).get_shape()[axis]
        outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
        if not outer * inner * room:
            once(k, lambda k: self._end(k, self._kept(k, ins[1]), outs[1]))
            return
        source = k.view(ins[0], [outer, shape[axis], inner])
        target = k.view(outs[0], [outer, room, inner])
        # All zeros that stand behind the last slice are one line.
        line = k.view(outs[0], [outer, room * inner])

        def compress(k: KernelBuilder, at: Sequence[SSAValue]) -> None:
            found = self._kept(k, ins[1], _Slices(source, target, at[0]))
            is_first = k.compare("eq", at[0], k.index(0))
            k.when(is_first, lambda k: self._end(k, found, outs[1]))
            zero = k.constant(0, memref_type(line).element_type)
            zeros_from(k, Line(line, at), k.mul(found, k.index(inner)), zero)

        k.parallel([outer], compress)

    def _end(self, k: KernelBuilder, found: SSAValue, count: SSAValue) -> None:
        self.check_count(k, found)
        k.store(to_i64(k, found), count, [])

    def _kept(
        self, k: KernelBuilder, mask: SSAValue, slices: _Slices | None = None
    ) -> SSAValue:
        """The number of slices that a mask keeps, which are written if given."""

        def step(
            k: KernelBuilder, index: SSAValue, carried: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            is_kept = k.load(mask, [index])
            if slices is not None:
                slices.write(k, index, carried[0], is_kept)
            return [more(k, carried[0], is_kept)]

        return k.loop(k.index(0), k.index(self.bound()), [k.index(0)], step)[0]

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        """Each slice that is kept has the gradient at the number of those before it."""
        g, _ = grads
        shape = o.shape(self.operand)
        axis = normal_axis(self.axis.value.data, len(shape))
        if g is None or not o.shape(g)[axis]:
            return [None, None]
        left = shape[axis] - o.shape(self.mask)[0]
        mask = o.cast(o.pad(o.cast(self.mask, i64), [0], [left]), i1)
        before = o.one("op.cum_sum", o.cast(mask, i64), axis=0, exclusive=True)
        places = o.minimum(before, o.shape(g)[axis] - 1)
        column = o.reshape(mask, [-1 if i == axis else 1 for i in range(len(shape))])
        return [o.where(column, o.one("op.gather", g, places, axis=axis), 0), None]


class _Slices(NamedTuple):
    """The slices of an operand and of a result at an index of the axes before."""

    source: SSAValue
    target: SSAValue
    outer: SSAValue

    def write(
        self, k: KernelBuilder, index: SSAValue, place: SSAValue, is_kept: SSAValue
    ) -> None:
        """Write the slice at an index to a place, if it is kept and there is room."""
        type = memref_type(self.target)
        _, room, inner = type.get_shape()
        is_written = k.compare("lt", place, k.index(room))
        if inner * element_bytes(type) > LEAST_BRANCH_BYTES:
            is_written = k.insert(arith.AndIOp(is_kept, is_written))
        own = within(k, place, room)

        def copy(k: KernelBuilder, i: SSAValue) -> None:
            value = k.load(self.source, [self.outer, index, i])
            k.store(value, self.target, [self.outer, own, i])

        k.when(is_written, lambda k: k.each(inner, copy))


def zeros_from(k: KernelBuilder, line: Line, first: SSAValue, zero: SSAValue) -> None:
    """Write one number to all elements of a line from a place on."""

    def step(
        k: KernelBuilder, index: SSAValue, carried: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        line.store(k, zero, index)
        return ()

    start = within(k, first, line.extent + 1)
    k.loop(start, k.index(line.extent), (), step)
