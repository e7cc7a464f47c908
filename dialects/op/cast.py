"""`op.cast`: conversion of element types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    FixedBitwidthType,
    IntegerType,
    TensorType,
    UnrealizedConversionCastOp,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.traits import Pure

from penstock.dialects.op.canonicalization import CanonicalOp, OpPattern
from penstock.dialects.op.elementwise import ANY_ELEMENTS, UNARY_SUM, ArrayOp
from penstock.dialects.op.sbp import SbpSignature
from penstock.dialects.utils.attributes import replace_by_value
from penstock.dialects.utils.gradients import only
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.signless import is_unsigned
from penstock.dialects.utils.tensors import tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array


class CastToSameType(OpPattern["CastOp"]):
    """
    cast(x) = x if the type is x's own.
    """

    def rewrite(self, op: CastOp, rewriter: PatternRewriter) -> None:
        if op.operand.type == op.result.type:
            replace_by_value(op, op.operand, rewriter)


@irdl_op_definition
class CastOp(ArrayOp, CanonicalOp):
    """
    Each element as the nearest number of another type.

    A float becomes an integer by dropping its fraction (what becomes of one that does
    not fit is not specified), an integer becomes a narrower one by dropping its upper
    bits, and a number becomes the boolean that says whether it is not zero. True is 1.

    ```mlir
    %r = op.cast %a to i32 : tensor<4xf32> -> tensor<4xi32>
    ```
    """

    name = "op.cast"
    PRECISION: ClassVar = "black"
    PATTERNS: ClassVar = (CastToSameType,)

    operand = operand_def(TensorType)
    to = prop_def(Attribute)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$operand `to` $to attr-dict `:` type($operand) `->` type($result)"
    )

    def __init__(self, operand: SSAValue | Operation, to: AnyFloat | IntegerType):
        self.call(operand, to=to)

    def infer_types(self) -> Sequence[TensorType]:
        operand = tensor_type(self.operand)
        result = TensorType(self.to, operand.get_shape())
        ANY_ELEMENTS.verify(operand, result)
        return (result,)

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        value = operands[0]
        if value.type == self.to:
            return value
        if self.to == i1:
            return k.compare("ne", value, k.constant(0, value.type))
        if isinstance(self.to, AnyFloat):
            return k.insert(to_float(value, self.to))
        assert isa(self.to, IntegerType), "checked by the verifier"
        return k.insert(to_integer(value, self.to))

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        splits = super().sbp_signatures(devices)
        types = tensor_type(self.operand).element_type, self.to
        is_linear = all(isinstance(type, AnyFloat) for type in types)
        return (*splits, UNARY_SUM) if is_linear else splits

    def compute(self, *operands: Array) -> Array:
        from penstock.dialects.utils.numpy_types import dtype_of

        return operands[0].astype(dtype_of(self.to))

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.cast(only(grads), o.element(self.operand))]


def to_float(value: SSAValue, target: AnyFloat) -> Operation:
    """The scalar op that converts a number or boolean to another type of float."""
    if isa(value.type, IntegerType):
        unsigned = is_unsigned(value.type)
        return (arith.UIToFPOp if unsigned else arith.SIToFPOp)(value, target)
    if bits(value.type) < bits(target):
        return arith.ExtFOp(value, target)
    return arith.TruncFOp(value, target)


def to_integer(value: SSAValue, target: IntegerType) -> Operation:
    """The scalar op that converts a number or boolean to another type of integer."""
    if isinstance(value.type, AnyFloat):
        unsigned = is_unsigned(target)
        return (arith.FPToUIOp if unsigned else arith.FPToSIOp)(value, target)
    if bits(value.type) < bits(target):
        unsigned = is_unsigned(value.type)
        return (arith.ExtUIOp if unsigned else arith.ExtSIOp)(value, target)
    if bits(value.type) > bits(target):
        return arith.TruncIOp(value, target)
    # The same bits: nothing is left of it once integers have lost their signs.
    return UnrealizedConversionCastOp.get([value], [target])


def bits(type: Attribute) -> int:
    """The width of a scalar type."""
    assert isinstance(type, FixedBitwidthType), "numbers and booleans have a width"
    return type.bitwidth
