"""`op.triangle`: triangular matrices of two numbers."""

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
from penstock.dialects.op.axes import I64List
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


def filled(
    shape: Sequence[int], numbers: Sequence[Array | np.generic], offset: int
) -> Array:
    """An array of triangles."""
    import numpy as np

    result = np.full(shape, numbers[0])
    after = np.triu(np.ones(result.shape[-2:], np.bool_), offset + 1)
    result[..., after] = numbers[1]
    return result


@irdl_op_definition
class TriangleOp(TensorOp):
    """
    Matrices of a shape whose row i has the first number up to column i + `offset`, and
    the second one after that: a mask that is written down without its elements.

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
        for value in self.operands:
            if tensor_type(value).get_num_dims():
                shape = tensor_type(value).get_shape()
                raise VerifyException(f"numbers have no shape, got {shape_text(shape)}")
        shape = self.shape.get_values()
        if len(shape) < 2 or min(shape) < 0:
            raise VerifyException(
                f"expected at least 2 extents of no less than 0, got {[*shape]}"
            )
        return (TensorType(element, shape),)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        return (filled(self.shape.get_values(), operands, self.offset.value.data),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        offset = self.offset.value.data

        def element(k: KernelBuilder, at: Sequence[SSAValue]) -> None:
            *_, row, column = at
            is_inside = k.compare("le", column, k.add(row, k.index(offset)))
            inside, outside = (k.load(number, ()) for number in ins)
            k.store(k.select(is_inside, inside, outside), outs[0], at)

        k.parallel(memref_type(outs[0]).get_shape(), element)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        g = only(grads)
        numbers = o.scalar(1, g), o.scalar(0, g)
        shape, offset = self.shape.get_values(), self.offset.value.data
        ones = o.one(TriangleOp, *numbers, shape=shape, offset=offset)
        is_inside = o.greater(ones, 0)
        parts = o.where(is_inside, g, 0), o.where(is_inside, 0, g)
        return [o.sum(part, range(len(shape))) for part in parts]
