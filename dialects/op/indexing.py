"""Gather and scatter ops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, i1, i64
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import Block, Region, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.rewriter import InsertPoint
from xdsl.traits import NoMemoryEffect
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from penstock.dialects import kernel
from penstock.dialects.kernel.builder import KernelBuilder, memref_type
from penstock.dialects.kernel.indices import checked_place, places_from_front
from penstock.dialects.op.axes import I64Attr, dense
from penstock.dialects.op.movement import check_indices
from penstock.dialects.op.sbp import SbpSignature, signature
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.op.verify import check_shape, normal_axis, same_element_type
from penstock.dialects.utils.gradients import (
    GradientBuilder,
    Gradients,
    NoGradient,
    in_f32,
    only,
)
from penstock.dialects.utils.tensors import element_count, shape_text, tensor_type

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from penstock.dialects.utils.tensors import Array

    Places: TypeAlias = NDArray[np.int64]

################################################################################
# Reading                                                                      #
################################################################################


@irdl_op_definition
class GatherElementsOp(TensorOp):
    """
    For each element of `indices`, the element of `data` at its place, but along one
    axis at the place that the index says. Negative indices count from the end; one that
    is out of range is an error when the op runs.

    ```mlir
    %r = op.gather_elements %d[%i] axis 1
      : tensor<4x9xf32>, tensor<4x2xi64> -> tensor<4x2xf32>
    ```
    """

    name = "op.gather_elements"
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

    def infer_types(self) -> Sequence[TensorType]:
        data, indices = tensor_type(self.data), tensor_type(self.indices)
        check_indices(indices)
        axis = normal_axis(self.axis.value.data, data.get_num_dims())
        check_inside(indices, data, axis)
        return (TensorType(data.element_type, indices.get_shape()),)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        axis = normal_axis(self.axis.value.data, tensor_type(self.data).get_num_dims())
        return [signature([None, axis], [axis])]

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        grad = in_f32(o, only(grads))
        zeros, axis = o.filled(0, o.shape(self.data), grad), self.axis.value.data
        operands = zeros, self.indices, grad
        found = o.one(ScatterElementsOp, *operands, axis=axis, mode="add")
        return [o.cast(found, o.element(self.data)), None]

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        data, indices = operands
        axis = normal_axis(self.axis.value.data, data.ndim)
        return (data[places_along(data.shape, indices, axis)],)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        data, indices = ins
        shape = memref_type(data).get_shape()
        axis = normal_axis(self.axis.value.data, len(shape))

        def read(k: KernelBuilder, loops: Sequence[SSAValue]) -> None:
            place = list(loops)
            place[axis] = checked_place(k, k.load(indices, loops), shape[axis])
            k.store(k.load(data, place), outs[0], loops)

        k.parallel(memref_type(outs[0]).get_shape(), read)


@irdl_op_definition
class GatherNdOp(TensorOp):
    """
    The parts of `data` that the last axis of `indices` names: its n elements are the
    places on the first n axes of `data`, after `batch` axes that both tensors have in
    common. Negative indices count from the end; one that is out of range is an error
    when the op runs.

    ```mlir
    %r = op.gather_nd %d[%i] batch 0
      : tensor<4x5x6xf32>, tensor<7x2xi64> -> tensor<7x6xf32>
    ```
    """

    name = "op.gather_nd"
    FLOPS: ClassVar = 0

    data = operand_def(TensorType)
    indices = operand_def(TensorType)
    batch = prop_def(I64Attr)
    result = result_def(TensorType)

    # Not speculatable: an index out of range is an error.
    traits = traits_def(NoMemoryEffect())

    assembly_format = (
        "$data `[` $indices `]` `batch` $batch attr-dict "
        "`:` type($data) `,` type($indices) `->` type($result)"
    )

    def infer_types(self) -> Sequence[TensorType]:
        data, indices = tensor_type(self.data), tensor_type(self.indices)
        check_indices(indices)
        batch, shape = self.batch.value.data, data.get_shape()
        depth = index_depth(indices, len(shape) - batch)
        *places, _ = indices.get_shape()
        if not 0 <= batch <= len(places) or batch > len(shape):
            raise VerifyException(f"there are no {batch} axes in common")
        check_shape("the batch axes", batch_type(indices, batch), shape[:batch])
        rest = shape[batch + depth :]
        return (TensorType(data.element_type, [*places, *rest]),)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        batch = self.batch.value.data
        places = tensor_type(self.indices).get_num_dims() - 1
        common = [signature([axis, axis], [axis]) for axis in range(batch)]
        return [
            *common,
            *(signature([None, axis], [axis]) for axis in range(batch, places)),
        ]

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        grad = in_f32(o, only(grads))
        zeros = o.filled(0, o.shape(self.data), grad)
        operands = zeros, self._whole_indices(o), grad
        found = o.one(ScatterNdOp, *operands, mode="add")
        return [o.cast(found, o.element(self.data)), None]

    def _whole_indices(self, o: GradientBuilder) -> SSAValue:
        """The indices with the places on the first axes, which they have in common."""
        shape = [*o.shape(self.indices)[:-1], 1]
        own = [
            o.cast(places_on(o, shape, axis, self.indices), o.element(self.indices))
            for axis in range(self.batch.value.data)
        ]
        return o.concat([*own, self.indices], -1)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        data, indices = operands
        batch, depth = self.batch.value.data, indices.shape[-1]
        extents = data.shape[batch : batch + depth]
        places = places_of(extents, indices)
        grid = np.indices(indices.shape[:-1], sparse=True)[:batch]
        return (dense(data[(*grid, *places)]),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        data, indices = ins
        shape, batch = memref_type(data).get_shape(), self.batch.value.data
        *places, depth = memref_type(indices).get_shape()
        extents = shape[batch : batch + depth]
        rank = memref_type(outs[0]).get_num_dims()

        def read(k: KernelBuilder, loops: Sequence[SSAValue]) -> None:
            index = read_index(k, indices, loops[: len(places)], extents)
            place = [*loops[:batch], *index, *loops[len(places) : rank]]
            k.store(k.load(data, place), outs[0], loops[:rank])

        # A loop over no extents is none: a scalar is computed by one iteration.
        k.parallel(memref_type(outs[0]).get_shape() or (1,), read)


################################################################################
# Writing                                                                      #
################################################################################


class ScatterMode(StrEnum):
    """The modes by which an update is combined with an element."""

    SET = "set"
    ADD = "add"
    MUL = "mul"
    MAX = "max"
    MIN = "min"


@irdl_attr_definition
class ScatterModeAttr(EnumAttribute[ScatterMode], SpacedOpaqueSyntaxAttribute):
    """
    The mode by which an update is combined with an element: `set` takes the update,
    `add`, `mul`, `max` and `min` combine both.
    """

    name = "op.scatter_mode"


class ScatterOp(TensorOp, ABC):
    """
    A tensor with updates written to places that indices say, in their order: of several
    to one place the last one stays, or all are combined.
    """

    data = operand_def(TensorType)
    indices = operand_def(TensorType)
    updates = operand_def(TensorType)
    mode = prop_def(ScatterModeAttr, default_value=ScatterModeAttr(ScatterMode.SET))
    result = result_def(TensorType)

    # Not speculatable: an index out of range is an error.
    traits = traits_def(NoMemoryEffect())

    @abstractmethod
    def places(self, shape: Sequence[int], indices: Array) -> tuple[Places, ...]:
        """The index into `data` of each update, in terms of NumPy."""

    @abstractmethod
    def check_operands(self, data: TensorType, indices: TensorType) -> None:
        """Raise `VerifyException` unless operands fit together."""

    def infer_types(self) -> Sequence[TensorType]:
        data, indices = tensor_type(self.data), tensor_type(self.indices)
        check_indices(indices)
        element = same_element_type([self.data, self.updates])
        if element == i1 and self.mode.data != ScatterMode.SET:
            raise VerifyException(f"booleans cannot be combined by {self.mode.data}")
        self.check_operands(data, indices)
        return (data,)

    def flops(self) -> int:
        combines = self.mode.data != ScatterMode.SET
        return element_count(self.updates.type) if combines else 0

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        return (InPlacePair(0, 0),)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        data, indices, updates = operands
        result, places = data.copy(), self.places(data.shape, indices)
        ufuncs: dict[ScatterMode, np.ufunc] = {
            ScatterMode.ADD: np.add,
            ScatterMode.MUL: np.multiply,
            ScatterMode.MAX: np.maximum,
            ScatterMode.MIN: np.minimum,
        }
        with np.errstate(all="ignore"):
            if self.mode.data == ScatterMode.SET:
                result[places] = updates
            elif updates.size:
                ufuncs[self.mode.data].at(result, places, updates)
        return (result,)

    @abstractmethod
    def read_at_places(self, o: GradientBuilder, source: SSAValue) -> SSAValue:
        """The elements of a tensor like `data` at the place of each update."""

    @abstractmethod
    def write_at_places(
        self, o: GradientBuilder, data: SSAValue, updates: SSAValue, mode: str
    ) -> SSAValue:
        """A tensor like `data` with updates that are written to the same places."""

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        grad = in_f32(o, only(grads))
        match self.mode.data:
            case ScatterMode.ADD:
                found = [grad, self.read_at_places(o, grad)]
            case ScatterMode.SET:
                found = self._of_last(o, grad)
            case ScatterMode.MAX | ScatterMode.MIN:
                found = self._of_best(o, grad)
            case ScatterMode.MUL:
                raise NoGradient("updates of one place are multiplied with each other")
        data, updates = (o.cast(x, o.element(self.data)) for x in found)
        return [data, None, updates]

    def _of_last(self, o: GradientBuilder, grad: SSAValue) -> list[SSAValue]:
        """The gradients where of several updates to one place the last one stays."""
        zeros = o.filled(0, o.shape(self.updates), grad)
        data = self.write_at_places(o, grad, zeros, "set")
        count = prod(shape := o.shape(self.updates))
        numbers = o.reshape(places_on(o, [count], 0, self.indices), shape)
        none = o.filled(-1, o.shape(self.data), numbers)
        last = self.read_at_places(o, self.write_at_places(o, none, numbers, "set"))
        return [
            data,
            o.where(o.equal(last, numbers), self.read_at_places(o, grad), 0),
        ]

    def _of_best(self, o: GradientBuilder, grad: SSAValue) -> list[SSAValue]:
        """The gradients where the best number stays; equal ones have equal shares."""
        wins = o.equal(self.data, self.result)
        update_wins = o.equal(self.updates, self.read_at_places(o, self.result))
        element = o.element(grad)
        counts = o.cast(wins, element), o.cast(update_wins, element)
        share = o.div(grad, self.write_at_places(o, *counts, "add"))
        return [
            o.where(wins, share, 0),
            o.where(update_wins, self.read_at_places(o, share), 0),
        ]

    def combine(self, k: KernelBuilder, old: SSAValue, new: SSAValue) -> SSAValue:
        """The element that is written where `new` meets `old`."""
        functions = {"add": k.add, "mul": k.mul, "max": k.maximum, "min": k.minimum}
        if self.mode.data == ScatterMode.SET:
            return new
        return functions[self.mode.data](old, new)

    def region(self) -> Region:
        """The element that is written, of an update and of the element before."""
        element = tensor_type(self.data).element_type
        block = Block(arg_types=[element, element])
        k = KernelBuilder(InsertPoint.at_end(block))
        new, old = block.args
        k.effect(kernel.YieldOp(self.combine(k, old, new)))
        return Region(block)


@irdl_op_definition
class ScatterElementsOp(ScatterOp):
    """
    A tensor in which each element of `updates` is written to its own place, but along
    one axis to the place that the element of `indices` says. Negative indices count
    from the end; one that is out of range is an error when the op runs.

    ```mlir
    %r = op.scatter_elements %d[%i], %u axis 1 mode add
      : tensor<4x9xf32>, tensor<4x2xi64>, tensor<4x2xf32> -> tensor<4x9xf32>
    ```
    """

    name = "op.scatter_elements"

    axis = prop_def(I64Attr)

    assembly_format = (
        "$data `[` $indices `]` `,` $updates `axis` $axis (`mode` $mode^)? attr-dict "
        "`:` type($data) `,` type($indices) `,` type($updates) `->` type($result)"
    )

    def check_operands(self, data: TensorType, indices: TensorType) -> None:
        axis = normal_axis(self.axis.value.data, data.get_num_dims())
        check_inside(indices, data, axis)
        check_shape("the updates", tensor_type(self.updates), indices.get_shape())

    def places(self, shape: Sequence[int], indices: Array) -> tuple[Places, ...]:
        axis = normal_axis(self.axis.value.data, len(shape))
        return places_along(shape, indices, axis)

    def read_at_places(self, o: GradientBuilder, source: SSAValue) -> SSAValue:
        axis = self.axis.value.data
        return o.one(GatherElementsOp, source, self.indices, axis=axis)

    def write_at_places(
        self, o: GradientBuilder, data: SSAValue, updates: SSAValue, mode: str
    ) -> SSAValue:
        operands, axis = (data, self.indices, updates), self.axis.value.data
        return o.one(ScatterElementsOp, *operands, axis=axis, mode=mode)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        data, indices, updates = ins
        k.copy(data, outs[0])
        shape, extents = (memref_type(m).get_shape() for m in (data, indices))
        axis = normal_axis(self.axis.value.data, len(shape))

        def write(k: KernelBuilder, loops: Sequence[SSAValue], index: SSAValue) -> None:
            source = [*loops[:axis], index, *loops[axis:]]
            place = list(source)
            place[axis] = checked_place(k, k.load(indices, source), shape[axis])
            old, new = k.load(outs[0], place), k.load(updates, source)
            k.store(self.combine(k, old, new), outs[0], place)

        # Updates on different lines never meet; those on one are written in order.
        others = [*extents[:axis], *extents[axis + 1 :]]
        k.parallel(
            others or [1],
            lambda k, loops: k.each(
                extents[axis], lambda k, i: write(k, loops[: len(others)], i)
            ),
        )


@irdl_op_definition
class ScatterNdOp(ScatterOp):
    """
    A tensor in which parts of `updates` are written to where the last axis of
    `indices` says: its n elements are the places on the first n axes of `data`.
    Negative indices count from the end; one that is out of range is an error when the
    op runs.

    ```mlir
    %r = op.scatter_nd %d[%i], %u mode add
      : tensor<4x5x6xf32>, tensor<7x2xi64>, tensor<7x6xf32> -> tensor<4x5x6xf32>
    ```
    """

    name = "op.scatter_nd"

    assembly_format = (
        "$data `[` $indices `]` `,` $updates (`mode` $mode^)? attr-dict "
        "`:` type($data) `,` type($indices) `,` type($updates) `->` type($result)"
    )

    def check_operands(self, data: TensorType, indices: TensorType) -> None:
        shape = data.get_shape()
        depth = index_depth(indices, len(shape))
        wanted = [*indices.get_shape()[:-1], *shape[depth:]]
        check_shape("the updates", tensor_type(self.updates), wanted)

    def places(self, shape: Sequence[int], indices: Array) -> tuple[Places, ...]:
        return places_of(shape[: indices.shape[-1]], indices)

    def read_at_places(self, o: GradientBuilder, source: SSAValue) -> SSAValue:
        return o.one(GatherNdOp, source, self.indices, batch=0)

    def write_at_places(
        self, o: GradientBuilder, data: SSAValue, updates: SSAValue, mode: str
    ) -> SSAValue:
        return o.one(ScatterNdOp, data, self.indices, updates, mode=mode)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        data, indices, updates = ins
        k.copy(data, outs[0])
        shape = memref_type(data).get_shape()
        *places, depth = memref_type(indices).get_shape()
        count, rest = prod(places), shape[depth:]
        if 0 in (count, prod(rest)):
            return
        updates = k.view(updates, [count, *rest])
        if depth == 1:
            indices = k.view(indices, [count])
            k.effect(kernel.ScatterOp(indices, updates, outs[0], 0, self.region()))
            return
        indices = k.view(indices, [count, depth])

        def write(k: KernelBuilder, loops: Sequence[SSAValue], index: SSAValue) -> None:
            place = [*read_index(k, indices, [index], shape[:depth]), *loops]
            old, new = k.load(outs[0], place), k.load(updates, [index, *loops])
            k.store(self.combine(k, old, new), outs[0], place)

        # Elements of a part never meet; parts are written in order.
        k.parallel(
            rest or [1],
            lambda k, loops: k.each(
                count, lambda k, i: write(k, loops[: len(rest)], i)
            ),
        )


################################################################################
# Indices                                                                      #
################################################################################


def places_on(
    o: GradientBuilder, shape: Sequence[int], axis: int, indices: SSAValue
) -> SSAValue:
    """
    The place on one axis of each element of a shape, from 0 on, in `i64`; `indices` are
    any integers of the job.
    """
    ones = o.cast(o.filled(1, [shape[axis]], indices), i64)
    places = o.sub(o.one("op.cum_sum", ones, axis=0), 1)
    line = [extent if at == axis else 1 for at, extent in enumerate(shape)]
    return o.expand(o.reshape(places, line), shape)


def check_inside(indices: TensorType, data: TensorType, axis: int) -> None:
    """Refuse indices that reach past the data along any other axis."""
    ours, theirs = indices.get_shape(), data.get_shape()
    fits = len(ours) == len(theirs) and all(
        a <= b or DYNAMIC_INDEX in (a, b) or other == axis
        for other, (a, b) in enumerate(zip(ours, theirs, strict=True))
    )
    if not fits:
        raise VerifyException(
            f"indices {shape_text(ours)} do not fit in {shape_text(theirs)} "
            f"but for axis {axis}"
        )


def index_depth(indices: TensorType, most: int) -> int:
    """The number of axes that the last axis of indices names, of at most so many."""
    shape = indices.get_shape()
    if not shape or not 1 <= shape[-1] <= most:
        raise VerifyException(
            f"the last of the axes {shape_text(shape)} should name 1 to {most} places"
        )
    return shape[-1]


def batch_type(indices: TensorType, batch: int) -> TensorType:
    """The tensor of the first axes of indices."""
    return TensorType(indices.element_type, indices.get_shape()[:batch])


def read_index(
    k: KernelBuilder,
    indices: SSAValue,
    place: Sequence[SSAValue],
    extents: Sequence[int],
) -> list[SSAValue]:
    """The checked places that the last axis of indices names."""
    return [
        checked_place(k, k.load(indices, [*place, k.index(axis)]), extent)
        for axis, extent in enumerate(extents)
    ]


def places_of(extents: Sequence[int], indices: Array) -> tuple[Places, ...]:
    """The places that the last axis of indices names, checked, in terms of NumPy."""
    found = [indices[..., axis] for axis in range(indices.shape[-1])]
    return tuple(map(places_from_front, found, extents))


def places_along(shape: Sequence[int], indices: Array, axis: int) -> tuple[Places, ...]:
    """The own place of each index, but along one axis the one that it says."""
    import numpy as np

    own = np.indices(indices.shape, sparse=True)
    found = places_from_front(indices, shape[axis])
    return tuple(found if at == axis else own[at] for at in range(len(shape)))
