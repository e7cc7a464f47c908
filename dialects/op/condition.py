"""`op.if`: ops of which a condition decides that they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Operation, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsolatedFromAbove, NoMemoryEffect, RecursivelySpeculatable
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.body import FlowOp, verify_members, yield_of
from penstock.dialects.op.group_form import evaluate_block
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.attributes import KnownAttributes
from penstock.dialects.utils.tensors import are_compatible, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array

CONDITION = TensorType(i1, [])
"""The type of a condition."""


@irdl_op_definition
class IfOp(FlowOp):
    """
    Ops of which a condition, one `i1`, decides that they run: those of the first body
    if it is true, those of the second one if it is not. Each has the values that the op
    `reads` as its arguments, and yields the results.

    ```mlir
    %y = op.if %c reads(%x : tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%a: tensor<4xf32>):
      %e = op.exp %a : tensor<4xf32> -> tensor<4xf32>
      op.yield %e : tensor<4xf32>
    } else {
    ^bb0(%b: tensor<4xf32>):
      op.yield %b : tensor<4xf32>
    }
    ```
    """

    name = "op.if"

    condition = operand_def(CONDITION)
    reads = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    then = region_def("single_block")
    otherwise = region_def("single_block")

    traits = traits_def(
        KnownAttributes("no_select"),
        IsolatedFromAbove(),
        NoMemoryEffect(),
        RecursivelySpeculatable(),
    )

    assembly_format = (
        "$condition (`reads` `(` $reads^ `:` type($reads) `)`)? "
        "(`->` type($outs)^)? attr-dict-with-keyword $then `else` $otherwise"
    )

    def __init__(
        self,
        condition: SSAValue | Operation,
        reads: Sequence[SSAValue | Operation],
        then: Region,
        otherwise: Region,
    ):
        types = [value.type for value in yield_of(then.block).values]
        super().__init__(
            operands=[condition, reads],
            result_types=[types],
            regions=[then, otherwise],
        )

    def argument_types(self) -> Sequence[TensorType]:
        return [tensor_type(value) for value in self.reads]

    def infer_types(self) -> Sequence[TensorType]:
        wanted = self.argument_types()
        yielded: list[list[TensorType]] = []
        for region in self.regions:
            verify_members(region.block, "of a branch")
            given = [tensor_type(arg) for arg in region.block.args]
            if given != wanted:
                raise VerifyException(
                    "the arguments of both bodies should be the values that it reads"
                )
            yielded.append([*map(tensor_type, yield_of(region.block).values)])
        then, otherwise = yielded
        if len(then) != len(otherwise):
            raise VerifyException(
                f"the first body yields {len(then)} values, the second one "
                f"{len(otherwise)}"
            )
        for number, (a, b) in enumerate(zip(then, otherwise, strict=True)):
            if not are_compatible(a, b):
                raise VerifyException(
                    f"value {number} of the first body is {a}, of the second one {b}"
                )
        return then

    def flops(self) -> int:
        """Those of the body with more of them."""
        return max(
            sum(op.flops() for op in region.block.ops if isinstance(op, TensorOp))
            for region in self.regions
        )

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        condition, *given = operands
        block = (self.then if bool(condition) else self.otherwise).block
        values = evaluate_block(block, dict(zip(block.args, given, strict=True)))
        return [values[value] for value in yield_of(block).values]

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        raise VerifyException(
            "a condition has no kernel of its own: op-select-branches comes before"
        )
