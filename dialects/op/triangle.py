"""`op.triangle`: matrices of two parts, up to a diagonal and after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    eq,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.op.axes import I64List, dense, int_list
from penstock.dialects.op.sbp import Part, SbpSignature, signature
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import same_element_type
from penstock.dialects.utils.gradients import only
from penstock.dialects.utils.tensors import shape_text, tensor_type

if TYPE_CHECKING:
    import numpy as np

    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array


@dataclass(frozen=True)
class Triangle:
    """The numbers of matrices with one up to a diagonal, and another one after it."""

    inside: float
    outside: float
    offset: int
    """Row i has the first one up to column i + offset."""


def triangle_of(array: Array) -> Triangle | None:
    """
    The numbers of an array of matrices of at least 2 rows and columns; None if they are
    no such triangles bit by bit, or all the same.
    """
    import numpy as np

    if array.ndim < 2 or min(array.shape) < 1 or min(array.shape[-2:]) < 2:
        return None
    first: Array = array.reshape((-1, *array.shape[-2:]))[0]
    inside, outside = first[-1, 0], first[0, -1]
    row, column = first[0] == inside, first[:, 0] == inside
    # Most arrays are told by their first row.
    if inside == outside or not np.all(row | (first[0] == outside)):
        return None
    offset = int(row.sum()) - 1 if row[0] else -int(column.argmax())
    wanted = filled(first.shape, (inside, outside), offset)
    if array.tobytes() != wanted.tobytes() * (array.size // first.size):
        return None
    return Triangle(float(inside), float(outside), offset)


def near_offset(shape: Sequence[int], offset: int) -> int:
    """The least offset, but for its sign, with the same triangles of a shape."""
    rows, columns = shape[-2:]
    return max(-rows, min(offset, columns - 1))


def filled(
    shape: Sequence[int], numbers: Sequence[Array | np.generic], offset: int
) -> Array:
    """An array of triangles of numbers, or of elements of arrays."""
    import numpy as np

    rows, columns = shape[-2:]
    inside = np.tri(rows, columns, near_offset(shape, offset), dtype=np.bool_)
    return dense(np.broadcast_to(np.where(inside, *numbers), shape))


@irdl_op_definition
class TriangleOp(TensorOp):
    """
    Matrices of a shape whose row i has the elements of the first operand up to column
    i + `offset`, and those of the second one after that. An operand has this shape, or
    is a number: of two numbers it is a mask, written down without its elements.

    ```mlir
    %m = op.triangle %zero, %lowest to [3, 5] offset 2
      : tensor<f32>, tensor<f32> -> tensor<3x5xf32>
    ```
    """

    name = "op.triangle"
    FLOPS: ClassVar = 0

    inside = operand_def(TensorType)
    outside = operand_def(TensorType)
    shape = prop_def(I64List)
    offset = prop_def(IntegerAttr.constr(eq(i64)))
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$inside `,` $outside `to` $shape `offset` $offset attr-dict "
        "`:` type($inside) `,` type($outside) `->` type($result)"
    )

    def infer_types(self) -> Sequence[TensorType]:
        element = same_element_type(self.operands)
        shape = self.shape.get_values()
        if len(shape) < 2 or min(shape) < 0:
            raise VerifyException(
                f"expected at least 2 extents of no less than 0, got {[*shape]}"
            )
        for value in self.operands:
            own = tensor_type(value).get_shape()
            if own not in ((), tuple(shape)):
                wanted, found = shape_text(shape), shape_text(own)
                raise VerifyException(
                    f"expected numbers or tensors of the shape {wanted}, got {found}"
                )
        return (TensorType(element, shape),)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        ranks = [tensor_type(value).get_num_dims() for value in self.operands]
        return [
            signature([axis if rank else None for rank in ranks], [axis])
            for axis in range(len(self.shape.get_values()) - 2)
        ]

    def part(self, operands: Sequence[SSAValue], parts: Sequence[Part]) -> TriangleOp:
        shape = int_list(parts[0].shape)
        return self.remade(operands, parts, {**self.properties, "shape": shape})

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        return (filled(self.shape.get_values(), operands, self.offset.value.data),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        offset = near_offset(self.shape.get_values(), self.offset.value.data)

        def element(k: KernelBuilder, at: Sequence[SSAValue]) -> None:
            *_, row, column = at
            is_inside = k.compare("le", column, k.add(row, k.index(offset)))
            inside, outside = (
                k.load(x, at if memref_type(x).get_num_dims() else ()) for x in ins
            )
            k.store(k.select(is_inside, inside, outside), outs[0], at)

        k.parallel(memref_type(outs[0]).get_shape(), element)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        g = only(grads)
        zero, shape = o.scalar(0, g), self.shape.get_values()

        def part(operands: Sequence[SSAValue], of: SSAValue) -> SSAValue:
            offset = self.offset.value.data
            found = o.one(TriangleOp, *operands, shape=shape, offset=offset)
            is_number = not tensor_type(of).get_num_dims()
            return o.sum(found, range(len(shape))) if is_number else found

        return [part((g, zero), self.inside), part((zero, g), self.outside)]
