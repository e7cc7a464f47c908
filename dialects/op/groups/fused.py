"""`op.fused`: ops that are computed together, without tensors between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Operation, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    opt_prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.rewriter import Rewriter
from xdsl.traits import (
    IsolatedFromAbove,
    NoMemoryEffect,
    RecursivelySpeculatable,
)
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.backward import gradients_of_body
from penstock.dialects.op.body import BodyOp, clone_body, yield_of
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.groups.contraction_form import ContractionForm
from penstock.dialects.op.groups.elementwise_form import ElementwiseForm
from penstock.dialects.op.groups.group_form import GroupForm, evaluate_block
from penstock.dialects.op.groups.row_form import RowForm
from penstock.dialects.op.reduction import ReduceOp
from penstock.dialects.op.row_ops import RowOp
from penstock.dialects.op.sbp import Part, SbpSignature
from penstock.dialects.op.tensor_op import (
    ContractionOp,
    FusibleOp,
    InPlacePair,
    TensorOp,
)
from penstock.dialects.utils.attributes import replace_op
from penstock.dialects.utils.tensors import tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array


@irdl_op_definition
class FusedOp(FusibleOp, BodyOp):
    """
    Ops that are computed together, without tensors between them: ops on elements (and
    constants all of whose elements are the same), around a *root* or without one.

    Without a root they are computed element by element, and the results have one shape.

    ```mlir
    %r, %u = op.fused %x, %b
      : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>, tensor<4x8xf32> {
    ^bb0(%p: tensor<4x8xf32>, %q: tensor<8xf32>):
      %s = op.add %p, %q : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
      %t = op.relu %s : tensor<4x8xf32> -> tensor<4x8xf32>
      op.yield %t, %s : tensor<4x8xf32>, tensor<4x8xf32>
    }
    ```

    A root may be a contraction, whose sums the others follow, in results of their type,
    which may be the sums: on a CPU they are computed while these are in registers.
    Where the group
    `starts`, the first op after the sums is an `op.add` of an operand of their type,
    from whose elements the sums start: the result may lie over it. The terms are the
    same, but not in the same order.

    ```mlir
    %r = op.fused %x, %w, %b, %c
      : tensor<4x8xf32>, tensor<8x2xf32>, tensor<4x2xf32>, tensor<2xf32>
      -> tensor<4x2xf32> starts {
    ^bb0(%p: tensor<4x8xf32>, %q: tensor<8x2xf32>, %b: tensor<4x2xf32>,
         %c: tensor<2xf32>):
      %m = op.matmul %p, %q : tensor<4x8xf32>, tensor<8x2xf32> -> tensor<4x2xf32>
      %s = op.add %m, %b : tensor<4x2xf32>, tensor<4x2xf32> -> tensor<4x2xf32>
      %t = op.mul %s, %c : tensor<4x2xf32>, tensor<2xf32> -> tensor<4x2xf32>
      op.yield %t : tensor<4x2xf32>
    }
    ```

    Or roots are ops on rows: reductions, all along the same axes of one shape, softmax
    and normalizations along the last dimension. The group is computed row by row: the
    others are about all elements of rows, or one element for each, and so are results.

    ```mlir
    %l = op.fused %x, %t : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4xf32> {
    ^bb0(%p: tensor<4x8xf32>, %q: tensor<4x8xf32>):
      %d = op.sub %p, %q : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
      %s = op.mul %d, %d : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
      %m = op.reduce_mean %s axes [1] : tensor<4x8xf32> -> tensor<4xf32>
      op.yield %m : tensor<4xf32>
    }
    ```

    A variance about a mean takes a second pass over each row, and what is scaled by it
    a third.

    ```mlir
    %y, %v = op.fused %x : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<4x1xf32> {
    ^bb0(%p: tensor<4x8xf32>):
      %m = op.reduce_mean %p axes [1] keepdims : tensor<4x8xf32> -> tensor<4x1xf32>
      %d = op.sub %p, %m : tensor<4x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
      %s = op.mul %d, %d : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
      %v = op.reduce_mean %s axes [1] keepdims : tensor<4x8xf32> -> tensor<4x1xf32>
      %r = op.sqrt %v : tensor<4x1xf32> -> tensor<4x1xf32>
      %y = op.div %d, %r : tensor<4x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
      op.yield %y, %v : tensor<4x8xf32>, tensor<4x1xf32>
    }
    ```
    """

    name = "op.fused"

    ins = var_operand_def(TensorType)
    starts = opt_prop_def(UnitAttr)
    outs = var_result_def(TensorType)
    body = region_def("single_block")

    traits = traits_def(
        IsolatedFromAbove(), NoMemoryEffect(), RecursivelySpeculatable()
    )

    assembly_format = (
        "($ins^ `:` type($ins))? `->` type($outs) (`starts` $starts^)? "
        "attr-dict-with-keyword $body"
    )

    def __init__(self, ins: Sequence[SSAValue | Operation], body: Region):
        types = [value.type for value in yield_of(body.block).values]
        super().__init__(operands=[ins], result_types=[types], regions=[body])

    @property
    def form(self) -> GroupForm:
        """The way in which the group is computed."""
        block = self.body.block
        if any(isinstance(op, ReduceOp | RowOp) for op in block.ops):
            return RowForm(block)
        if any(isinstance(op, ContractionOp) for op in block.ops):
            return ContractionForm(block, starts=self.starts is not None)
        return ElementwiseForm(block)

    @property
    def roots(self) -> list[TensorOp]:
        """The contraction, or the reductions and ops on rows in their order."""
        ops = self.body.block.ops
        return [op for op in ops if isinstance(op, ContractionOp | ReduceOp | RowOp)]

    @property
    def members(self) -> list[TensorOp]:
        """The ops that are fused, in order."""
        return self.form.members

    @property
    def yielded(self) -> Sequence[SSAValue]:
        """The values inside the body that the results are."""
        return self.form.yielded

    @property
    def is_elementwise(self) -> bool:
        return len(self.outs) == 1 and not self.roots

    @property
    def label(self) -> str:
        """Groups with a root show it: `op.fused(matmul)`."""
        roots = ", ".join(op.kernel_name for op in self.roots)
        return f"{self.name}({roots})" if roots else self.name

    @property
    def computes(self) -> Sequence[str]:
        members = (op for op in self.members if not isinstance(op, ConstantOp))
        return [name for op in members for name in op.computes]

    @property
    def kernel_name(self) -> str:
        """Groups with a root are named after it: `fused_matmul`."""
        return "_".join([super().kernel_name, *(op.kernel_name for op in self.roots)])

    def argument_types(self) -> Sequence[TensorType]:
        return [tensor_type(value) for value in self.ins]

    def infer_types(self) -> Sequence[TensorType]:
        block = self.body.block
        if [arg.type for arg in block.args] != [value.type for value in self.ins]:
            raise VerifyException(
                "the body's arguments should be those of the operands"
            )
        if not yield_of(block).values:
            raise VerifyException("a group has results")
        form = self.form
        if self.starts is not None and not isinstance(form, ContractionForm):
            raise VerifyException("only the sums of a contraction start from a tensor")
        return form.infer_types()

    def flops(self) -> int:
        return self.form.flops()

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        return self.form.in_place_pairs(self.ins)

    def views(self) -> Sequence[InPlacePair]:
        return ()

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return self.form.sbp_signatures()

    def part(self, operands: Sequence[SSAValue], parts: Sequence[Part]) -> FusedOp:
        fused = self.remade(operands, parts, self.properties)
        if self.roots:
            return fused
        shape = tensor_type(self.outs[0]).get_shape()
        body = fused.body.block
        for argument, operand in zip(tuple(body.args), operands, strict=True):
            Rewriter.replace_value_with_new_type(argument, operand.type)
        for member in fused.members:
            cut = _broadcast_part(tensor_type(member.results[0]), shape, parts[0])
            new = member.part(member.operands, [cut])
            replace_op(member, new)
        return fused

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        form = self.form
        assert isinstance(form, ElementwiseForm), "asked of elementwise ops only"
        (value,) = form.scalars(k, operands)
        return value

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        self.form.build_kernel(k, ins, outs)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        values: dict[SSAValue, Array] = dict(
            zip(self.body.block.args, operands, strict=True)
        )
        made = evaluate_block(self.body.block, values)
        return [made[value] for value in self.yielded]

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        """That of its members, which are computed anew."""
        made: list[Operation] = []
        block = self.body.block
        known: dict[SSAValue, SSAValue] = dict(zip(block.args, self.ins, strict=True))
        ends = clone_body(block, known, made)
        return gradients_of_body(o, made, self.operands, zip(ends, grads, strict=True))


def _broadcast_part(type: TensorType, shape: Sequence[int], part: Part) -> Part:
    """The part of a tensor that is broadcast to a part of this shape."""
    own = type.get_shape()
    skipped = len(shape) - len(own)
    offsets, extents = list(part.offsets[skipped:]), list(part.shape[skipped:])
    for axis, extent in enumerate(own):
        if extent != shape[axis + skipped]:
            offsets[axis], extents[axis] = 0, extent
    return Part(tuple(offsets), tuple(extents))
