"""Comparisons, logical ops and `op.where`."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Commutative, Pure

from penstock.dialects.op.elementwise import (
    ANY_ELEMENTS,
    BOOLEANS,
    ArrayOp,
    BinaryOp,
    Elements,
    UnaryOp,
    broadcast_type,
)
from penstock.dialects.op.sbp import BROADCAST, PARTIAL, SbpSignature
from penstock.dialects.op.verify import same_element_type
from penstock.dialects.utils.gradients import NO_FLOATS, only
from penstock.dialects.utils.tensors import tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array

################################################################################
# Relations                                                                    #
################################################################################


class ComparisonOp(BinaryOp, ABC):
    """
    Whether the elements of two tensors of one element type stand in a relation.

    Of booleans, false is less than true; with a NaN only `op.not_equal` holds.
    """

    ELEMENTS: ClassVar[Elements] = ANY_ELEMENTS

    NO_GRADIENT: ClassVar = NO_FLOATS

    PREDICATE: ClassVar[str]
    """The relation, as `KernelBuilder.compare` calls it."""

    traits = traits_def(Pure())

    def infer_types(self) -> Sequence[TensorType]:
        (type,) = super().infer_types()
        return (TensorType(i1, type.get_shape()),)

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        return k.compare(self.PREDICATE, *operands)


@irdl_op_definition
class EqualOp(ComparisonOp):
    """
    Whether two elements are equal.

    ```mlir
    %r = op.equal %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xi1>
    ```
    """

    name = "op.equal"
    PREDICATE: ClassVar[str] = "eq"
    NUMPY: ClassVar = "equal"

    traits = traits_def(Commutative())


@irdl_op_definition
class NotEqualOp(ComparisonOp):
    """
    Whether two elements differ.

    ```mlir
    %r = op.not_equal %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xi1>
    ```
    """

    name = "op.not_equal"
    PREDICATE: ClassVar[str] = "ne"
    NUMPY: ClassVar = "not_equal"

    traits = traits_def(Commutative())


@irdl_op_definition
class LessOp(ComparisonOp):
    """
    Whether the element of the first tensor is the smaller one.

    ```mlir
    %r = op.less %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xi1>
    ```
    """

    name = "op.less"
    PREDICATE: ClassVar[str] = "lt"
    NUMPY: ClassVar = "less"


@irdl_op_definition
class LessEqualOp(ComparisonOp):
    """
    Whether the element of the first tensor is not the larger one.

    ```mlir
    %r = op.less_equal %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xi1>
    ```
    """

    name = "op.less_equal"
    PREDICATE: ClassVar[str] = "le"
    NUMPY: ClassVar = "less_equal"


@irdl_op_definition
class GreaterOp(ComparisonOp):
    """
    Whether the element of the first tensor is the larger one.

    ```mlir
    %r = op.greater %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xi1>
    ```
    """

    name = "op.greater"
    PREDICATE: ClassVar[str] = "gt"
    NUMPY: ClassVar = "greater"


@irdl_op_definition
class GreaterEqualOp(ComparisonOp):
    """
    Whether the element of the first tensor is not the smaller one.

    ```mlir
    %r = op.greater_equal %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xi1>
    ```
    """

    name = "op.greater_equal"
    PREDICATE: ClassVar[str] = "ge"
    NUMPY: ClassVar = "greater_equal"


################################################################################
# Booleans                                                                     #
################################################################################


@irdl_op_definition
class LogicalAndOp(BinaryOp):
    """
    Whether both elements are true.

    ```mlir
    %r = op.logical_and %a, %b : tensor<4x8xi1>, tensor<8xi1> -> tensor<4x8xi1>
    ```
    """

    name = "op.logical_and"
    NO_GRADIENT: ClassVar = NO_FLOATS
    ELEMENTS: ClassVar[Elements] = BOOLEANS
    NUMPY: ClassVar = "logical_and"
    SCALAR: ClassVar = arith.AndIOp

    traits = traits_def(Commutative(), Pure())


@irdl_op_definition
class LogicalOrOp(BinaryOp):
    """
    Whether at least one of two elements is true.

    ```mlir
    %r = op.logical_or %a, %b : tensor<4x8xi1>, tensor<8xi1> -> tensor<4x8xi1>
    ```
    """

    name = "op.logical_or"
    NO_GRADIENT: ClassVar = NO_FLOATS
    ELEMENTS: ClassVar[Elements] = BOOLEANS
    NUMPY: ClassVar = "logical_or"
    SCALAR: ClassVar = arith.OrIOp

    traits = traits_def(Commutative(), Pure())


@irdl_op_definition
class LogicalXorOp(BinaryOp):
    """
    Whether just one of two elements is true.

    ```mlir
    %r = op.logical_xor %a, %b : tensor<4x8xi1>, tensor<8xi1> -> tensor<4x8xi1>
    ```
    """

    name = "op.logical_xor"
    NO_GRADIENT: ClassVar = NO_FLOATS
    ELEMENTS: ClassVar[Elements] = BOOLEANS
    NUMPY: ClassVar = "logical_xor"
    SCALAR: ClassVar = arith.XOrIOp

    traits = traits_def(Commutative(), Pure())


@irdl_op_definition
class LogicalNotOp(UnaryOp):
    """
    Whether each element is false.

    ```mlir
    %r = op.logical_not %a : tensor<4xi1> -> tensor<4xi1>
    ```
    """

    name = "op.logical_not"
    NO_GRADIENT: ClassVar = NO_FLOATS
    ELEMENTS: ClassVar[Elements] = BOOLEANS
    NUMPY: ClassVar = "logical_not"

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        return k.insert(arith.XOrIOp(operands[0], k.constant(1, i1)))


@irdl_op_definition
class WhereOp(ArrayOp):
    """
    The element of the second tensor where the first is true, else that of the third.

    ```mlir
    %r = op.where %c, %a, %b : tensor<4xi1>, tensor<4xf32>, tensor<f32> -> tensor<4xf32>
    ```
    """

    name = "op.where"
    PRECISION: ClassVar = "clear"
    SCALAR: ClassVar = "select"

    condition = operand_def(TensorType)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$condition `,` $lhs `,` $rhs attr-dict `:` "
        "type($condition) `,` type($lhs) `,` type($rhs) `->` type($result)"
    )

    def infer_types(self) -> Sequence[TensorType]:
        condition, *choices = map(tensor_type, self.operands)
        BOOLEANS.verify(condition)
        ANY_ELEMENTS.verify(*choices)
        element = same_element_type([self.lhs, self.rhs])
        return (broadcast_type(element, [condition, *choices]),)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        choice = SbpSignature((BROADCAST, PARTIAL, PARTIAL), (PARTIAL,))
        return (*super().sbp_signatures(devices), choice)

    def compute(self, *operands: Array) -> Array:
        import numpy as np

        condition, a, b = operands
        return np.where(condition.astype(np.bool_), a, b)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        g, condition = only(grads), self.condition
        first, second = o.where(condition, g, 0), o.where(condition, 0, g)
        return [None, o.unbroadcast(first, self.lhs), o.unbroadcast(second, self.rhs)]
