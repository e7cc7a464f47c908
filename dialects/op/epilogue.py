"""The op of the op dialect that computes an op together with what follows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    irdl_op_definition,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsolatedFromAbove, NoMemoryEffect, RecursivelySpeculatable
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.interfaces import (
    ContractionOp,
    ElementwiseOp,
    TensorOp,
    tensor_type,
)
from penstock.dialects.kernel import PARALLEL, broadcast_map, memref_type
from penstock.dialects.op.fused import YieldOp, evaluate_block, verify_broadcast

if TYPE_CHECKING:
    from penstock.dialects.interfaces import Array
    from penstock.dialects.kernel import KernelBuilder


@irdl_op_definition
class EpilogueOp(TensorOp):
    """
    A sum of products, and an elementwise op on it that keeps its type: on a processor
    that one is computed while the sums are in registers.

    ```mlir
    %r = op.epilogue %x, %w, %b
      : tensor<4x8xf32>, tensor<8x2xf32>, tensor<2xf32> -> tensor<4x2xf32> {
    ^bb0(%p: tensor<4x8xf32>, %q: tensor<8x2xf32>, %c: tensor<2xf32>):
      %m = op.matmul %p, %q : tensor<4x8xf32>, tensor<8x2xf32> -> tensor<4x2xf32>
      %s = op.add %m, %c : tensor<4x2xf32>, tensor<2xf32> -> tensor<4x2xf32>
      op.yield %s : tensor<4x2xf32>
    }
    ```
    """

    name = "op.epilogue"

    ins = var_operand_def(TensorType)
    result = result_def(TensorType)
    body = region_def("single_block")

    traits = traits_def(
        IsolatedFromAbove(), NoMemoryEffect(), RecursivelySpeculatable()
    )

    assembly_format = (
        "$ins `:` type($ins) `->` type($result) attr-dict-with-keyword $body"
    )

    def __init__(self, ins: Sequence[SSAValue], body: Region):
        terminator = body.block.last_op
        assert isinstance(terminator, YieldOp), "such a body ends in op.yield"
        super().__init__(
            operands=[ins], result_types=[terminator.value.type], regions=[body]
        )

    @property
    def members(self) -> tuple[ContractionOp, ElementwiseOp]:
        """The sum of products and the op that follows it."""
        first, last, *_ = self.body.block.ops
        assert isinstance(first, ContractionOp), "checked by the verifier"
        assert isinstance(last, ElementwiseOp), "checked by the verifier"
        return first, last

    def infer_types(self) -> Sequence[TensorType]:
        block = self.body.block
        if [arg.type for arg in block.args] != [value.type for value in self.ins]:
            raise VerifyException(
                "the body's arguments should be those of the operands"
            )
        self._verify_members()
        first, last = self.members
        result = tensor_type(last.results[0])
        if first.results[0].type != result:
            raise VerifyException(
                f"{last.name} should keep the type {first.results[0].type}, "
                f"got {result}"
            )
        for operand in last.operands:
            verify_broadcast(tensor_type(operand), result)
        return (result,)

    def _verify_members(self) -> None:
        ops = list(self.body.block.ops)
        kinds = (ContractionOp, ElementwiseOp, YieldOp)
        if len(ops) != len(kinds) or not all(map(isinstance, ops, kinds)):
            raise VerifyException(
                "the body should hold a sum of products, an elementwise op and "
                f"op.yield, got {', '.join(op.name for op in ops)}"
            )
        if ops[2].operands[0] is not ops[1].results[0]:
            raise VerifyException("the body should yield what its elementwise op makes")

    def flops(self) -> int:
        return sum(member.flops() for member in self.members)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        first, last = self.members
        buffers: dict[SSAValue, SSAValue] = dict(
            zip(self.body.block.args, ins, strict=True)
        )
        first.build_kernel(k, [buffers[value] for value in first.operands], outs)
        made = first.results[0]
        addends = [
            *dict.fromkeys(value for value in last.operands if value is not made)
        ]
        rank = memref_type(outs[0]).get_num_dims()

        def body(k: KernelBuilder, scalars: Sequence[SSAValue]) -> SSAValue:
            names = dict(zip((*addends, made), scalars, strict=True))
            return last.scalar(k, [names[value] for value in last.operands])

        maps = [
            broadcast_map(tensor_type(value).get_shape(), rank) for value in addends
        ]
        k.generic(
            [buffers[value] for value in addends],
            outs[0],
            [*maps, AffineMap.identity(rank)],
            [PARALLEL] * rank,
            body,
        )

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        block = self.body.block
        values: dict[SSAValue, Array] = dict(zip(block.args, operands, strict=True))
        return (evaluate_block(block, values)[self.members[1].results[0]],)
