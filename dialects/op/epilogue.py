"""`op.epilogue`: epilogue fusion of a contraction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    irdl_op_definition,
    opt_prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsolatedFromAbove, NoMemoryEffect, RecursivelySpeculatable
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.builder import PARALLEL, broadcast_map, memref_type
from penstock.dialects.op.elementwise import AddOp
from penstock.dialects.op.fused import YieldOp, evaluate_block, verify_broadcast
from penstock.dialects.op.tensor_op import (
    AccumulatingOp,
    ContractionOp,
    ElementwiseOp,
    InPlacePair,
    TensorOp,
)
from penstock.dialects.utils.tensors import tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array


@irdl_op_definition
class EpilogueOp(TensorOp):
    """
    A contraction, and an elementwise op on it that keeps its type: on a CPU that one is
    computed while the sums are in registers.

    Where it `starts`, the first op after the sums is an `op.add` of an operand of their
    type, from whose elements the sums start: the result may lie over it. The terms are
    the same, but not in the same order; an elementwise op may follow.

    ```mlir
    %r = op.epilogue %x, %w, %b
      : tensor<4x8xf32>, tensor<8x2xf32>, tensor<2xf32> -> tensor<4x2xf32> {
    ^bb0(%p: tensor<4x8xf32>, %q: tensor<8x2xf32>, %c: tensor<2xf32>):
      %m = op.matmul %p, %q : tensor<4x8xf32>, tensor<8x2xf32> -> tensor<4x2xf32>
      %s = op.add %m, %c : tensor<4x2xf32>, tensor<2xf32> -> tensor<4x2xf32>
      op.yield %s : tensor<4x2xf32>
    }
    %t = op.epilogue %x, %w, %r
      : tensor<4x8xf32>, tensor<8x2xf32>, tensor<4x2xf32> -> tensor<4x2xf32> starts {
    ^bb0(%p: tensor<4x8xf32>, %q: tensor<8x2xf32>, %c: tensor<4x2xf32>):
      %m = op.matmul %p, %q : tensor<4x8xf32>, tensor<8x2xf32> -> tensor<4x2xf32>
      %s = op.add %m, %c : tensor<4x2xf32>, tensor<4x2xf32> -> tensor<4x2xf32>
      op.yield %s : tensor<4x2xf32>
    }
    ```
    """

    name = "op.epilogue"

    ins = var_operand_def(TensorType)
    starts = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    body = region_def("single_block")

    traits = traits_def(
        IsolatedFromAbove(), NoMemoryEffect(), RecursivelySpeculatable()
    )

    assembly_format = (
        "$ins `:` type($ins) `->` type($result) (`starts` $starts^)? "
        "attr-dict-with-keyword $body"
    )

    def __init__(self, ins: Sequence[SSAValue], body: Region):
        terminator = body.block.last_op
        assert isinstance(terminator, YieldOp), "such a body ends in op.yield"
        super().__init__(
            operands=[ins], result_types=[terminator.value.type], regions=[body]
        )

    @property
    def members(self) -> tuple[ContractionOp, Sequence[ElementwiseOp]]:
        """The contraction and the ops that follow it."""
        first, *rest = self.body.block.ops
        assert isinstance(first, ContractionOp), "checked by the verifier"
        return first, [op for op in rest if isinstance(op, ElementwiseOp)]

    @property
    def start(self) -> BlockArgument | None:
        """The argument of the body that sums start from."""
        if self.starts is None:
            return None
        first, (added, *_) = self.members
        (start,) = (x for x in added.operands if x is not first.results[0])
        assert isinstance(start, BlockArgument), "checked by the verifier"
        return start

    def infer_types(self) -> Sequence[TensorType]:
        block = self.body.block
        if [arg.type for arg in block.args] != [value.type for value in self.ins]:
            raise VerifyException(
                "the body's arguments should be those of the operands"
            )
        self._verify_members()
        first, after = self.members
        type = tensor_type(first.results[0])
        for op in after:
            result = tensor_type(op.results[0])
            if type != result:
                raise VerifyException(
                    f"{op.name} should keep the type {type}, got {result}"
                )
            for operand in op.operands:
                verify_broadcast(tensor_type(operand), result)
        return (type,)

    def _verify_members(self) -> None:
        ops = list(self.body.block.ops)
        kinds = [ContractionOp, ElementwiseOp, YieldOp]
        text = "a sum of products, an elementwise op and op.yield"
        if self.starts is not None:
            text = f"{text}, or an op.add before that op or alone"
            if len(ops) > len(kinds):
                kinds.insert(1, AddOp)
            else:
                kinds[1] = AddOp
        if len(ops) != len(kinds) or not all(map(isinstance, ops, kinds)):
            raise VerifyException(
                f"the body should hold {text}, got {', '.join(op.name for op in ops)}"
            )
        if ops[-1].operands[0] is not ops[-2].results[0]:
            raise VerifyException("the body should yield what its elementwise op makes")
        if self.starts is not None:
            self._verify_start(ops[0], ops[1])

    def _verify_start(self, first: Operation, added: Operation) -> None:
        """
        Raise `VerifyException` unless sums can start from the tensor that is added to
        them.
        """
        if not isinstance(first, AccumulatingOp) or not first.can_start:
            raise VerifyException(f"the sums of {first.name} cannot start from others")
        made = first.results[0]
        others = [value for value in added.operands if value is not made]
        if len(others) != 1 or not made.has_one_use():
            raise VerifyException("only the first op.add should read the sums")
        (start,) = others
        if not isinstance(start, BlockArgument) or start.type != made.type:
            raise VerifyException(
                f"sums should start from an argument of their type {made.type}"
            )

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        start = self.start
        if start is None or not start.has_one_use():
            return ()
        # A start that is a factor, too, would be overwritten too early.
        same = [value for value in self.ins if value is self.ins[start.index]]
        return (InPlacePair(start.index, 0),) if len(same) == 1 else ()

    def flops(self) -> int:
        first, after = self.members
        return first.flops() + sum(op.flops() for op in after)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        buffers: dict[SSAValue, SSAValue] = dict(
            zip(self.body.block.args, ins, strict=True)
        )
        first, after = self.members
        given = [buffers[value] for value in first.operands]
        made = first.results[0]
        if (start := self.start) is None:
            first.build_kernel(k, given, outs)
        else:
            assert isinstance(first, AccumulatingOp), "checked by the verifier"
            first.build_sums(k, given, outs[0], buffers[start])
            added, *after = after
            made = added.results[0]
        for op in after:
            self._build_after(k, op, made, buffers, outs[0])

    def _build_after(
        self,
        k: KernelBuilder,
        op: ElementwiseOp,
        made: SSAValue,
        buffers: Mapping[SSAValue, SSAValue],
        out: SSAValue,
    ) -> None:
        """The stage of an op on the sums, which are in the result."""
        addends = [*dict.fromkeys(value for value in op.operands if value is not made)]
        rank = memref_type(out).get_num_dims()

        def body(k: KernelBuilder, scalars: Sequence[SSAValue]) -> SSAValue:
            names = dict(zip((*addends, made), scalars, strict=True))
            return op.scalar(k, [names[value] for value in op.operands])

        maps = [
            broadcast_map(tensor_type(value).get_shape(), rank) for value in addends
        ]
        k.generic(
            [buffers[value] for value in addends],
            out,
            [*maps, AffineMap.identity(rank)],
            [PARALLEL] * rank,
            body,
        )

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        block = self.body.block
        values: dict[SSAValue, Array] = dict(zip(block.args, operands, strict=True))
        return (evaluate_block(block, values)[self.members[1][-1].results[0]],)
