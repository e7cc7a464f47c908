"""Bitwise ops, shifts and bitcasts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    FixedBitwidthType,
    TensorType,
    UnrealizedConversionCastOp,
    i16,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Commutative, Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.elementwise import (
    INTEGERS,
    NUMBERS,
    ArrayOp,
    BinaryOp,
    Elements,
)
from penstock.dialects.utils.gradients import NO_FLOATS
from penstock.dialects.utils.signless import is_unsigned, signless
from penstock.dialects.utils.tensors import tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array


@irdl_op_definition
class BitAndOp(BinaryOp):
    """
    The bits that both elements have.

    ```mlir
    %r = op.bit_and %a, %b : tensor<4x8xi32>, tensor<8xi32> -> tensor<4x8xi32>
    ```
    """

    name = "op.bit_and"
    NO_GRADIENT: ClassVar = NO_FLOATS
    ELEMENTS: ClassVar[Elements] = INTEGERS
    NUMPY: ClassVar = "bitwise_and"
    SCALAR: ClassVar = arith.AndIOp

    traits = traits_def(Commutative(), Pure())


@irdl_op_definition
class BitOrOp(BinaryOp):
    """
    The bits that at least one of two elements has.

    ```mlir
    %r = op.bit_or %a, %b : tensor<4x8xi32>, tensor<8xi32> -> tensor<4x8xi32>
    ```
    """

    name = "op.bit_or"
    NO_GRADIENT: ClassVar = NO_FLOATS
    ELEMENTS: ClassVar[Elements] = INTEGERS
    NUMPY: ClassVar = "bitwise_or"
    SCALAR: ClassVar = arith.OrIOp

    traits = traits_def(Commutative(), Pure())


@irdl_op_definition
class BitXorOp(BinaryOp):
    """
    The bits that just one of two elements has.

    ```mlir
    %r = op.bit_xor %a, %b : tensor<4x8xi32>, tensor<8xi32> -> tensor<4x8xi32>
    ```
    """

    name = "op.bit_xor"
    NO_GRADIENT: ClassVar = NO_FLOATS
    ELEMENTS: ClassVar[Elements] = INTEGERS
    NUMPY: ClassVar = "bitwise_xor"
    SCALAR: ClassVar = arith.XOrIOp

    traits = traits_def(Commutative(), Pure())


@irdl_op_definition
class ShiftLeftOp(BinaryOp):
    """
    The bits of the first element moved up by as many places as the second says, with
    zeros below. All are moved out by as many places as there are bits, or more.

    ```mlir
    %r = op.shift_left %a, %b : tensor<4x8xui8>, tensor<8xui8> -> tensor<4x8xui8>
    ```
    """

    name = "op.shift_left"
    NO_GRADIENT: ClassVar = NO_FLOATS
    ELEMENTS: ClassVar[Elements] = INTEGERS
    NUMPY: ClassVar = "left_shift"
    FLOPS: ClassVar = 3

    traits = traits_def(Pure())

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        a, b = operands
        zero = k.constant(0, a.type)
        fits = _are_places(k, b)
        shifted = k.insert(arith.ShLIOp(a, k.select(fits, b, zero)))
        return k.select(fits, shifted, zero)


@irdl_op_definition
class ShiftRightOp(BinaryOp):
    """
    The bits of the first element moved down by as many places as the second says, with
    zeros above, or for signed integers copies of the sign. All are moved out by as many
    places as there are bits, or more.

    ```mlir
    %r = op.shift_right %a, %b : tensor<4x8xui8>, tensor<8xui8> -> tensor<4x8xui8>
    ```
    """

    name = "op.shift_right"
    NO_GRADIENT: ClassVar = NO_FLOATS
    ELEMENTS: ClassVar[Elements] = INTEGERS
    NUMPY: ClassVar = "right_shift"
    FLOPS: ClassVar = 3

    traits = traits_def(Pure())

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        a, b = operands
        fits = _are_places(k, b)
        if is_unsigned(a.type):
            zero = k.constant(0, a.type)
            shifted = k.insert(arith.ShRUIOp(a, k.select(fits, b, zero)))
            return k.select(fits, shifted, zero)
        most = k.constant(_width(a.type) - 1, a.type)
        return k.insert(arith.ShRSIOp(a, k.select(fits, b, most)))


def _are_places(k: KernelBuilder, b: SSAValue) -> SSAValue:
    """Whether a shift moves some bits not out; negative ones move all."""
    return k.insert(arith.CmpiOp(b, k.constant(_width(b.type), b.type), "ult"))


def _width(type: Attribute) -> int:
    assert isinstance(type, FixedBitwidthType), "numbers have a width"
    return type.bitwidth


@irdl_op_definition
class BitcastOp(ArrayOp):
    """
    The element of another type that has the same bits; of numbers of one size, where
    floats have 32 or 64 bits.

    ```mlir
    %r = op.bitcast %a to i32 : tensor<4xf32> -> tensor<4xi32>
    ```
    """

    name = "op.bitcast"
    NO_GRADIENT: ClassVar = "numbers do not follow from bits without jumps"

    operand = operand_def(TensorType)
    to = prop_def(Attribute)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$operand `to` $to attr-dict `:` type($operand) `->` type($result)"
    )

    def infer_types(self) -> Sequence[TensorType]:
        operand = tensor_type(self.operand)
        result = TensorType(self.to, operand.get_shape())
        NUMBERS.verify(operand, result)
        types = operand.element_type, self.to
        are_same = signless(types[0]) == signless(types[1])
        if _width(types[0]) != _width(types[1]):
            raise VerifyException(
                f"expected elements of one size, got {types[0]} and {types[1]}"
            )
        if _width(self.to) == i16.bitwidth and not are_same:
            raise VerifyException("the bits of floats of 16 bits are not at hand")
        return (result,)

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        value = operands[0]
        if signless(value.type) == signless(self.to):
            return k.insert(UnrealizedConversionCastOp.get([value], [self.to]))
        plain = signless(value.type)
        source = k.insert(UnrealizedConversionCastOp.get([value], [plain]))
        bits = k.insert(arith.BitcastOp(source, signless(self.to)))
        return k.insert(UnrealizedConversionCastOp.get([bits], [self.to]))

    def compute(self, *operands: Array) -> Array:
        from penstock.dialects.utils.numpy_types import dtype_of

        return operands[0].view(dtype_of(self.to))
