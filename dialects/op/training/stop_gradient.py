"""`op.stop_gradient`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from penstock.dialects.op.elementwise import UNARY_SUM
from penstock.dialects.op.sbp import SbpSignature, broadcast_signatures
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.utils.tensors import tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array


@irdl_op_definition
class StopGradientOp(TensorOp):
    """
    The operand itself, as a constant to `job.gradients`: no gradient flows back through
    it. `job-add-gradients` replaces it by its operand.

    ```mlir
    %s = op.stop_gradient %x : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.stop_gradient"
    FLOPS: ClassVar = 0

    operand = operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    def __init__(self, operand: SSAValue):
        self.call(operand)

    def infer_types(self) -> Sequence[TensorType]:
        return [tensor_type(self.operand)]

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        return operands

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [None]

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        return (InPlacePair(0, 0, view=True),)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        shape = tensor_type(self.operand).get_shape()
        return (*broadcast_signatures([shape], shape), UNARY_SUM)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        k.copy(ins[0], outs[0])
