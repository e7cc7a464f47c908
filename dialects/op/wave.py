"""`op.wave`: independent ops in one task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    lazy_traits_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    NoMemoryEffect,
    Pure,
    RecursivelySpeculatable,
)
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.backward import gradients_of_body
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.attributes import KnownAttributes
from penstock.dialects.utils.tensors import tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array


@irdl_op_definition
class YieldWaveOp(IRDLOperation):
    """
    All results of the members of an `op.wave`, in order.

    ```mlir
    op.yield_wave %a, %b : tensor<4xf32>, tensor<8xf32>
    ```
    """

    name = "op.yield_wave"

    values = var_operand_def(TensorType)

    traits = lazy_traits_def(
        lambda: (KnownAttributes(), HasParent(WaveOp), IsTerminator(), Pure())
    )

    assembly_format = "$values attr-dict `:` type($values)"

    def __init__(self, values: Sequence[SSAValue]):
        super().__init__(operands=[values])


@irdl_op_definition
class WaveOp(TensorOp):
    """
    Ops that need nothing of each other, the *members*: they may be computed in any
    order, and at once. Each reads operands only, and nothing is written over these:
    operands and results of all members are in memory together.

    ```mlir
    %y, %z = op.wave %x, %w : tensor<4xf32>, tensor<8xf32>
      -> tensor<4xf32>, tensor<8xf32> {
    ^bb0(%p: tensor<4xf32>, %q: tensor<8xf32>):
      %a = op.exp %p : tensor<4xf32> -> tensor<4xf32>
      %b = op.tanh %q : tensor<8xf32> -> tensor<8xf32>
      op.yield_wave %a, %b : tensor<4xf32>, tensor<8xf32>
    }
    ```
    """

    name = "op.wave"

    ins = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    body = region_def("single_block")

    traits = traits_def(
        IsolatedFromAbove(), NoMemoryEffect(), RecursivelySpeculatable()
    )

    assembly_format = (
        "$ins `:` type($ins) `->` type($outs) attr-dict-with-keyword $body"
    )

    def __init__(self, ins: Sequence[SSAValue], body: Region):
        terminator = body.block.last_op
        assert isinstance(terminator, YieldWaveOp), "such a body ends in op.yield_wave"
        types = [value.type for value in terminator.values]
        super().__init__(operands=[ins], result_types=[types], regions=[body])

    @property
    def members(self) -> list[TensorOp]:
        """The ops that are computed."""
        return [op for op in self.body.block.ops if isinstance(op, TensorOp)]

    def operands_of(self, member: TensorOp) -> list[int]:
        """The operands of the wave that are those of a member, by number."""
        return [self.body.block.args.index(value) for value in member.operands]

    def infer_types(self) -> Sequence[TensorType]:
        block = self.body.block
        if [arg.type for arg in block.args] != [value.type for value in self.ins]:
            raise VerifyException(
                "the body's arguments should be those of the operands"
            )
        if not isinstance(terminator := block.last_op, YieldWaveOp):
            raise VerifyException("the body should end in op.yield_wave")
        for op in block.ops:
            if op is not terminator and not isinstance(op, TensorOp):
                raise VerifyException(f"{op.name} is no op on tensors")
            if isinstance(op, WaveOp):
                raise VerifyException("a wave is no member of another one")
        made = [result for member in self.members for result in member.results]
        if len(self.members) < 2:
            raise VerifyException(
                f"a wave should have two members or more, got {len(self.members)}"
            )
        for member in self.members:
            if any(value in made for value in member.operands):
                raise VerifyException(
                    f"{member.name} reads what another member of the wave makes"
                )
        if tuple(terminator.values) != tuple(made):
            raise VerifyException(
                "the body should yield the results of all members, in order"
            )
        return [tensor_type(value) for value in made]

    def flops(self) -> int:
        return sum(member.flops() for member in self.members)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        left = list(outs)
        for member in self.members:
            own, left = left[: len(member.results)], left[len(member.results) :]
            member.build_kernel(k, [ins[i] for i in self.operands_of(member)], own)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        return [
            array
            for member in self.members
            for array in member.evaluate(
                *map(operands.__getitem__, self.operands_of(member))
            )
        ]

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        """Those of its members, which are computed anew."""
        known: dict[SSAValue, SSAValue] = dict(
            zip(self.body.block.args, self.ins, strict=True)
        )
        made = [member.clone(known) for member in self.members]
        ends = [result for op in made for result in op.results]
        return gradients_of_body(o, made, self.operands, zip(ends, grads, strict=True))
