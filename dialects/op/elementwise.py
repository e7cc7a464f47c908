"""The ops of the op dialect that work element by element."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Commutative, Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.interfaces import (
    ElementwiseOp,
    broadcast_shapes,
    tensor_type,
)

if TYPE_CHECKING:
    from penstock.dialects.interfaces import Array
    from penstock.dialects.kernel import KernelBuilder


class UnaryOp(ElementwiseOp, ABC):
    """
    An elementwise op whose result has the type of its operand.
    """

    operand = operand_def(TensorType)
    result = result_def(TensorType)

    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    def __init__(self, operand: SSAValue | Operation):
        operand = SSAValue.get(operand)
        super().__init__(operands=[operand], result_types=[operand.type])

    def infer_types(self) -> Sequence[TensorType]:
        return (tensor_type(self.operand),)


class BinaryOp(ElementwiseOp, ABC):
    """
    An elementwise op on two tensors of one element type, which are broadcast.
    """

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)

    assembly_format = (
        "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)"
    )

    def infer_types(self) -> Sequence[TensorType]:
        lhs, rhs = tensor_type(self.lhs), tensor_type(self.rhs)
        if lhs.element_type != rhs.element_type:
            raise VerifyException(
                f"operands have different element types {lhs.element_type} "
                f"and {rhs.element_type}"
            )
        shape = broadcast_shapes([lhs.get_shape(), rhs.get_shape()])
        return (TensorType(lhs.element_type, shape),)


@irdl_op_definition
class AddOp(BinaryOp):
    """
    The sum of two tensors.

    ```mlir
    %r = op.add %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
    ```
    """

    name = "op.add"

    traits = traits_def(Commutative(), Pure())

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        return k.add(*operands)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        return (np.add(*operands),)


@irdl_op_definition
class ReluOp(UnaryOp):
    """
    Each element, or zero where it is negative.

    ```mlir
    %r = op.relu %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.relu"

    traits = traits_def(Pure())

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        return k.maximum(operands[0], k.constant(0, operands[0].type))

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        return (np.maximum(operands[0], operands[0].dtype.type(0)),)
