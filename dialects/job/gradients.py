"""`job.gradients`: the gradients of a scalar by values that it depends on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    RangeOf,
    RangeVarConstraint,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job.ports import AnyTensor
from penstock.dialects.utils.attributes import OF_VALUES, KnownAttributes
from penstock.dialects.utils.hints import isa


@irdl_op_definition
class GradientsOp(IRDLOperation):
    """
    The gradients of a scalar, the loss, by some values that it depends on: variables,
    inputs or values between. With `scale` they are those of the product of the loss
    with a scalar of its type.

    ```mlir
    %g, %h = job.gradients of %loss by %w, %b
      : tensor<f32>, tensor<784x10xf32>, tensor<10xf32>
    %k = job.gradients of %loss by %w scale %s : tensor<f32>, tensor<784x10xf32>
    ```
    """

    name = "job.gradients"

    T: ClassVar = VarConstraint("T", AnyTensor)
    BY: ClassVar = RangeVarConstraint("BY", RangeOf(AnyTensor))

    loss = operand_def(T)
    by = var_operand_def(BY)
    scale = opt_operand_def(T)
    gradients = var_result_def(BY)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    traits = traits_def(KnownAttributes(*OF_VALUES), Pure())

    assembly_format = (
        "`of` $loss `by` $by (`scale` $scale^)? attr-dict "
        "`:` type($loss) `,` type($gradients)"
    )

    def __init__(
        self,
        loss: SSAValue | Operation,
        by: Sequence[SSAValue],
        scale: SSAValue | None = None,
    ):
        super().__init__(
            operands=[loss, by, scale],
            result_types=[[value.type for value in by]],
        )

    def verify_(self) -> None:
        scalar = self.loss.type
        if not isa(scalar, TensorType[AnyFloat]) or scalar.get_shape():
            raise VerifyException(f"the loss should be a scalar float, got {scalar}")
        if not self.by:
            raise VerifyException("expected at least one value to derive by")
        for value in self.by:
            if not isa(value.type, TensorType[AnyFloat]):
                raise VerifyException(f"there is no gradient by a {value.type}")
