"""The acme dialect: two ops on tensors that `op` does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Dialect, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.op.tensor_op import ElementwiseOp, TensorOp
from penstock.dialects.utils.tensors import element_count, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array


def float_tensor(value: SSAValue) -> TensorType:
    """The type of a tensor of f32. Raises `VerifyException` if it is none."""
    type = tensor_type(value)
    if type.element_type != f32:
        raise VerifyException(f"expected elements of f32, got {type.element_type}")
    return type


@irdl_op_definition
class SwishOp(ElementwiseOp):
    """
    Each element x times 1 / (1 + exp(-x)).

    ```mlir
    %y = acme.swish %x : tensor<4x8xf32> -> tensor<4x8xf32>
    ```
    """

    name = "acme.swish"

    operand = operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    def infer_types(self) -> Sequence[TensorType]:
        return (float_tensor(self.operand),)

    def flops(self) -> int:
        return 4 * element_count(self.result.type)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        (x,) = operands
        with np.errstate(over="ignore"):
            return (np.divide(x, np.add(1, np.exp(np.negative(x)))),)

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        (x,) = operands
        zero, one = k.constant(0, f32), k.constant(1, f32)
        return k.div(x, k.add(one, k.exp(k.sub(zero, x))))


@irdl_op_definition
class RowNormOp(TensorOp):
    """
    Each row of a matrix, divided by its Euclidean length.

    ```mlir
    %y = acme.row_norm %x : tensor<4x8xf32> -> tensor<4x8xf32>
    ```
    """

    name = "acme.row_norm"

    operand = operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    def infer_types(self) -> Sequence[TensorType]:
        type = float_tensor(self.operand)
        if type.get_num_dims() != 2:
            raise VerifyException(f"expected a matrix, got {type}")
        return (type,)

    def flops(self) -> int:
        rows, columns = tensor_type(self.operand).get_shape()
        return rows * (3 * columns + 1)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        (x,) = operands
        return (np.divide(x, np.linalg.norm(x, axis=1, keepdims=True)),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        (x,), (y,) = ins, outs
        rows, columns = memref_type(x).get_shape()

        def row(k: KernelBuilder, place: Sequence[SSAValue]) -> None:
            def add_square(
                k: KernelBuilder, column: Sequence[SSAValue], total: SSAValue
            ) -> SSAValue:
                element = k.load(x, [*place, *column])
                return k.add(total, k.mul(element, element))

            all_columns = [(k.index(0), k.index(columns))]
            length = k.sqrt(k.accumulate(all_columns, k.constant(0, f32), add_square))

            def write(k: KernelBuilder, column: SSAValue) -> None:
                at = [*place, column]
                k.store(k.div(k.load(x, at), length), y, at)

            k.each(columns, write)

        k.parallel([rows], row)


Acme = Dialect("acme", [RowNormOp, SwishOp])
