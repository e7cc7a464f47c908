"""`op.require`: a value that is only there under a condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.traits import NoMemoryEffect

from penstock.dialects.op.canonicalization import (
    CanonicalOp,
    OpPattern,
    is_filled,
    keep_operand,
)
from penstock.dialects.op.elementwise import (
    ANY_ELEMENTS,
    BOOLEANS,
    ArrayOp,
    broadcast_type,
)
from penstock.dialects.utils.gradients import only
from penstock.dialects.utils.tensors import tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array


class RequireTruth(OpPattern["RequireOp"]):
    """
    The condition holds: the value.
    """

    def rewrite(self, op: RequireOp, rewriter: PatternRewriter) -> None:
        if is_filled(op.condition, 1):
            keep_operand(op, op.operand, rewriter)


@irdl_op_definition
class RequireOp(ArrayOp, CanonicalOp):
    """
    The elements of a tensor, each of which needs a condition to hold: where it does not
    the op ends in an error of this `message` (`ValueError` in NumPy).

    ```mlir
    %r = op.require %c, %n "the count is too large"
      : tensor<i1>, tensor<i64> -> tensor<i64>
    ```
    """

    name = "op.require"
    FLOPS: ClassVar = 0
    PATTERNS: ClassVar = (RequireTruth,)

    condition = operand_def(TensorType)
    operand = operand_def(TensorType)
    message = prop_def(StringAttr)
    result = result_def(TensorType)

    # Not speculatable: a condition that does not hold is an error.
    traits = traits_def(NoMemoryEffect())

    assembly_format = (
        "$condition `,` $operand $message attr-dict "
        "`:` type($condition) `,` type($operand) `->` type($result)"
    )

    def infer_types(self) -> Sequence[TensorType]:
        condition, operand = map(tensor_type, self.operands)
        BOOLEANS.verify(condition)
        ANY_ELEMENTS.verify(operand)
        return (broadcast_type(operand.element_type, [condition, operand]),)

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        condition, value = operands
        k.check(condition, self.message.data)
        return value

    def compute(self, *operands: Array) -> Array:
        import numpy as np

        condition, values = np.broadcast_arrays(*operands)
        if not np.all(condition):
            raise ValueError(self.message.data)
        return values.copy()

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [None, o.unbroadcast(only(grads), self.operand)]
