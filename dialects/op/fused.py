"""`op.fused`: fusion of elementwise ops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.rewriter import Rewriter
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    NoMemoryEffect,
    OpTrait,
    Pure,
    RecursivelySpeculatable,
)
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.sbp import Part
from penstock.dialects.op.tensor_op import ElementwiseOp, TensorOp
from penstock.dialects.utils.attributes import KnownAttributes
from penstock.dialects.utils.diagnostics import LocatedVerifyException
from penstock.dialects.utils.tensors import (
    are_compatible,
    broadcast_shapes,
    element_count,
    shape_text,
    tensor_type,
)

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array


@dataclass(frozen=True)
class HasParentNamed(OpTrait):
    """
    An op stands in an op of one of these names, like `HasParent`, which takes classes:
    those of other files use this one.
    """

    names: tuple[str, ...]

    def verify(self, op: Operation) -> None:
        """Raise a `VerifyException` for another parent."""
        parent = op.parent_op()
        if parent is not None and parent.name not in self.names:
            names = ", ".join(f"'{name}'" for name in self.names)
            raise VerifyException(f"'{op.name}' expects parent op to be one of {names}")


@irdl_op_definition
class YieldOp(IRDLOperation):
    """
    The result of an `op.fused` or an `op.epilogue`, of the ops inside.

    ```mlir
    op.yield %r : tensor<4xf32>
    ```
    """

    name = "op.yield"

    value = operand_def(TensorType)

    traits = traits_def(
        KnownAttributes(),
        HasParentNamed(("op.fused", "op.epilogue")),
        IsTerminator(),
        Pure(),
    )

    assembly_format = "$value attr-dict `:` type($value)"

    def __init__(self, value: SSAValue | Operation):
        super().__init__(operands=[value])


@irdl_op_definition
class FusedOp(ElementwiseOp):
    """
    Elementwise ops (and constants all of whose elements are the same) that are
    computed element by element, without tensors between them.

    ```mlir
    %r = op.fused %x, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32> {
    ^bb0(%p: tensor<4x8xf32>, %q: tensor<8xf32>):
      %s = op.add %p, %q : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
      %t = op.relu %s : tensor<4x8xf32> -> tensor<4x8xf32>
      op.yield %t : tensor<4x8xf32>
    }
    ```
    """

    name = "op.fused"

    ins = var_operand_def(TensorType)
    result = result_def(TensorType)
    body = region_def("single_block")

    traits = traits_def(
        IsolatedFromAbove(), NoMemoryEffect(), RecursivelySpeculatable()
    )

    assembly_format = (
        "($ins^ `:` type($ins))? `->` type($result) attr-dict-with-keyword $body"
    )

    def __init__(self, ins: Sequence[SSAValue | Operation], body: Region):
        terminator = body.block.last_op
        assert isinstance(terminator, YieldOp), "a fused body ends in op.yield"
        super().__init__(
            operands=[ins], result_types=[terminator.value.type], regions=[body]
        )

    @property
    def yielded(self) -> SSAValue:
        """The value inside the body that the result is."""
        terminator = self.body.block.last_op
        assert isinstance(terminator, YieldOp), "checked by the verifier"
        return terminator.value

    def members(self) -> Iterator[ElementwiseOp | ConstantOp]:
        """The ops that are fused, in order."""
        for op in self.body.block.ops:
            if isinstance(op, ElementwiseOp | ConstantOp):
                yield op

    def infer_types(self) -> Sequence[TensorType]:
        self._verify_body()
        result = tensor_type(self.yielded)
        for operand in map(tensor_type, self.ins):
            verify_broadcast(operand, result)
        return (result,)

    def _verify_body(self) -> None:
        block = self.body.block
        if [arg.type for arg in block.args] != [value.type for value in self.ins]:
            raise VerifyException(
                "the body's arguments should be those of the operands"
            )
        if not isinstance(block.last_op, YieldOp):
            raise VerifyException("the body should end in op.yield")
        for op in block.ops:
            if isinstance(op, ElementwiseOp | YieldOp):
                continue
            if not isinstance(op, ConstantOp) or op.splat is None:
                text = f"{op.name} cannot be fused element by element"
                raise LocatedVerifyException([(op, text)])

    def flops(self) -> int:
        """
        Scalar operations of one execution, which computes every member once for each
        element of the result, also those that alone would have fewer elements.
        """
        count = element_count(self.result.type)
        return sum(
            op.flops() * count // max(1, element_count(op.results[0].type))
            for op in self.members()
        )

    def part(self, operands: Sequence[SSAValue], parts: Sequence[Part]) -> FusedOp:
        fused = self.remade(operands, parts, self.properties)
        shape = tensor_type(self.result).get_shape()
        body = fused.body.block
        for argument, operand in zip(tuple(body.args), operands, strict=True):
            Rewriter.replace_value_with_new_type(argument, operand.type)
        for member in tuple(fused.members()):
            cut = _broadcast_part(tensor_type(member.results[0]), shape, parts[0])
            new = member.part(member.operands, [cut])
            Rewriter.replace_op(member, new)
        return fused

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        values: dict[SSAValue, SSAValue] = dict(
            zip(self.body.block.args, operands, strict=True)
        )
        for op in self.members():
            values[op.results[0]] = self._member_scalar(k, op, values)
        return values[self.yielded]

    def _member_scalar(
        self,
        k: KernelBuilder,
        op: ElementwiseOp | ConstantOp,
        values: dict[SSAValue, SSAValue],
    ) -> SSAValue:
        if isinstance(op, ConstantOp):
            assert op.splat is not None, "checked by the verifier"
            return k.constant(op.splat, op.value.get_element_type())
        return op.scalar(k, [values[operand] for operand in op.operands])

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        values: dict[SSAValue, Array] = dict(
            zip(self.body.block.args, operands, strict=True)
        )
        return (evaluate_block(self.body.block, values)[self.yielded],)


def _broadcast_part(type: TensorType, shape: Sequence[int], part: Part) -> Part:
    """The part of a tensor that is broadcast to a part of this shape."""
    own = type.get_shape()
    skipped = len(shape) - len(own)
    offsets, extents = list(part.offsets[skipped:]), list(part.shape[skipped:])
    for axis, extent in enumerate(own):
        if extent != shape[axis + skipped]:
            offsets[axis], extents[axis] = 0, extent
    return Part(tuple(offsets), tuple(extents))


def verify_broadcast(operand: TensorType, result: TensorType) -> None:
    """Raise `VerifyException` unless NumPy broadcasts the operand to the result."""
    shapes = operand.get_shape(), result.get_shape()
    shape = broadcast_shapes(shapes)
    if not are_compatible(result, TensorType(result.element_type, shape)):
        raise VerifyException(
            f"an operand of shape {shape_text(shapes[0])} does not broadcast to the "
            f"result's {shape_text(shapes[1])}"
        )


def evaluate_block(
    block: Block, values: dict[SSAValue, Array]
) -> dict[SSAValue, Array]:
    """
    The values of a block of tensor ops in terms of NumPy, given those it starts from.
    """
    for op in block.ops:
        if isinstance(op, TensorOp):
            results = op.evaluate(*(values[operand] for operand in op.operands))
            values.update(zip(op.results, results, strict=True))
    return values
