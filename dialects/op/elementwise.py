"""
Base classes of elementwise ops, and arithmetic.

Operands are broadcast as NumPy does. `penstock.dialects.op.activation`, `cast`,
`comparison` and `functions` hold the other elementwise ops.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.interfaces import (
    ConditionallySpeculatableInterface,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.traits import Commutative, NoMemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.canonicalization import (
    CanonicalOp,
    OpPattern,
    has_floats,
    is_filled,
    keep_operand,
)
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.sbp import BROADCAST, PARTIAL, SbpSignature
from penstock.dialects.op.tensor_op import ElementwiseOp
from penstock.dialects.op.verify import same_element_type
from penstock.dialects.utils.gradients import only
from penstock.dialects.utils.signless import UNSIGNED, is_unsigned
from penstock.dialects.utils.tensors import broadcast_shapes, element_count, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder, ScalarOp
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array

################################################################################
# Base classes of elementwise ops                                              #
################################################################################


class Elements(NamedTuple):
    """A class of element types, under the name that error messages call it by."""

    name: str
    types: tuple[Attribute, ...]

    def verify(self, *tensors: TensorType) -> None:
        """Raise `VerifyException` if a tensor has elements of another class."""
        for tensor in tensors:
            if tensor.element_type not in self.types:
                raise VerifyException(
                    f"expected {self.name}, got {tensor.element_type}"
                )


BOOLEANS = Elements("booleans", (i1,))
FLOATS = Elements("floats", (bf16, f16, f32, f64))
INTEGERS = Elements("integers", (i8, i16, i32, i64, *UNSIGNED))
NUMBERS = Elements("numbers", (*FLOATS.types, *INTEGERS.types))
ANY_ELEMENTS = Elements("numbers or booleans", (*NUMBERS.types, i1))


UNARY_SUM = SbpSignature((PARTIAL,), (PARTIAL,))
"""The op of the terms of a sum is the terms of the op of the sum."""

SUMS = SbpSignature((PARTIAL, PARTIAL), (PARTIAL,))
"""A sum of sums is the sum of all their terms."""

PRODUCTS = (
    SbpSignature((PARTIAL, BROADCAST), (PARTIAL,)),
    SbpSignature((BROADCAST, PARTIAL), (PARTIAL,)),
)
"""A product with a sum is the sum of the products with its terms."""


def broadcast_type(element: Attribute, tensors: Sequence[TensorType]) -> TensorType:
    """
    The tensor of `element` that the shapes of the tensors are broadcast to.

    Raises `VerifyException` when they do not fit.
    """
    shape = broadcast_shapes([tensor.get_shape() for tensor in tensors])
    return TensorType(element, shape)


class ArrayOp(ElementwiseOp, ABC):
    """
    An elementwise op whose meaning is one expression on arrays: a function of NumPy and
    a scalar op, or `compute` and `scalar` of a subclass.
    """

    NUMPY: ClassVar[str]
    """The function of NumPy that computes the result."""

    SCALAR: ClassVar[ScalarOp]
    """The scalar op, or the method of the builder, that computes one element."""

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        return k.apply(self.SCALAR, *operands)

    def compute(self, *operands: Array) -> Array:
        """
        The result in terms of NumPy, of the dtype of the result.

        Overflow, NaN and division of floats by zero raise no warnings in here.
        """
        import numpy as np

        return getattr(np, self.NUMPY)(*operands)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        with np.errstate(all="ignore"):
            return (np.asarray(self.compute(*operands)),)

    def scalar_flops(self) -> int:
        """
        Scalar operations for one element of the result, where a call of a function
        such as exp, a comparison, a selection and a conversion each count as one.
        """
        return self.FLOPS

    def flops(self) -> int:
        return element_count(self.results[0].type) * self.scalar_flops()


class UnaryOp(ArrayOp, ABC):
    """
    An elementwise op whose result has the type of its operand.
    """

    ELEMENTS: ClassVar[Elements] = FLOATS
    """The element types that the operand may have."""

    operand = operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    def __init__(self, operand: SSAValue | Operation):
        operand = SSAValue.get(operand)
        super().__init__(operands=[operand], result_types=[operand.type])

    def infer_types(self) -> Sequence[TensorType]:
        type = tensor_type(self.operand)
        self.ELEMENTS.verify(type)
        return (type,)


class BinaryOp(ArrayOp, ABC):
    """
    An elementwise op on two tensors of one element type, which is also that of the
    result.
    """

    ELEMENTS: ClassVar[Elements] = NUMBERS
    """The element types that the operands may have."""

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)

    assembly_format = (
        "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)"
    )

    def infer_types(self) -> Sequence[TensorType]:
        types = tensor_type(self.lhs), tensor_type(self.rhs)
        self.ELEMENTS.verify(*types)
        return (broadcast_type(same_element_type(self.operands), types),)


################################################################################
# Two numbers                                                                  #
################################################################################


class AddZero(OpPattern["AddOp"]):
    """
    x + 0 = 0 + x = x, where the zero of floats is -0.0: 0.0 would make 0.0 of -0.0.
    """

    def rewrite(self, op: AddOp, rewriter: PatternRewriter) -> None:
        zero = -0.0 if has_floats(op.result) else 0
        if is_filled(op.rhs, zero):
            keep_operand(op, op.lhs, rewriter)
        elif is_filled(op.lhs, zero):
            keep_operand(op, op.rhs, rewriter)


@irdl_op_definition
class AddOp(BinaryOp, CanonicalOp):
    """
    The sum of two tensors.

    ```mlir
    %r = op.add %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
    ```
    """

    name = "op.add"
    NUMPY: ClassVar = "add"
    SCALAR: ClassVar = "add"
    PATTERNS: ClassVar = (AddZero,)

    traits = traits_def(Commutative(), Pure())

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return (*super().sbp_signatures(devices), SUMS)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        g = only(grads)
        return [o.unbroadcast(g, operand) for operand in self.operands]


class SubtractZero(OpPattern["SubOp"]):
    """
    x - 0 = x, where the zero of floats is 0.0: -0.0 would make 0.0 of -0.0.
    """

    def rewrite(self, op: SubOp, rewriter: PatternRewriter) -> None:
        if is_filled(op.rhs, 0):
            keep_operand(op, op.lhs, rewriter)


@irdl_op_definition
class SubOp(BinaryOp, CanonicalOp):
    """
    The difference of two tensors.

    ```mlir
    %r = op.sub %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
    ```
    """

    name = "op.sub"
    NUMPY: ClassVar = "subtract"
    SCALAR: ClassVar = "sub"
    PATTERNS: ClassVar = (SubtractZero,)

    traits = traits_def(Pure())

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return (*super().sbp_signatures(devices), SUMS)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        g = only(grads)
        return [o.unbroadcast(g, self.lhs), o.neg(o.unbroadcast(g, self.rhs))]


class MultiplyByOne(OpPattern["MulOp"]):
    """
    x * 1 = 1 * x = x.
    """

    def rewrite(self, op: MulOp, rewriter: PatternRewriter) -> None:
        if is_filled(op.rhs, 1):
            keep_operand(op, op.lhs, rewriter)
        elif is_filled(op.lhs, 1):
            keep_operand(op, op.rhs, rewriter)


@irdl_op_definition
class MulOp(BinaryOp, CanonicalOp):
    """
    The product of two tensors, element by element.

    ```mlir
    %r = op.mul %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
    ```
    """

    name = "op.mul"
    NUMPY: ClassVar = "multiply"
    SCALAR: ClassVar = "mul"
    PATTERNS: ClassVar = (MultiplyByOne,)

    traits = traits_def(Commutative(), Pure())

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return (*super().sbp_signatures(devices), *PRODUCTS)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        g = only(grads)
        pairs = (self.lhs, self.rhs), (self.rhs, self.lhs)
        return [o.unbroadcast(o.mul(g, other), operand) for operand, other in pairs]


DIVISION_BY_ZERO = "integer division by zero"


class DivideByOne(OpPattern["DivOp"]):
    """
    x / 1 = x.
    """

    def rewrite(self, op: DivOp, rewriter: PatternRewriter) -> None:
        if is_filled(op.rhs, 1):
            keep_operand(op, op.lhs, rewriter)


@irdl_op_definition
class DivOp(BinaryOp, ConditionallySpeculatableInterface, CanonicalOp):
    """
    The quotient of two tensors; that of integers is rounded toward zero.

    An integer divided by zero stops the kernel (`ZeroDivisionError` in NumPy); the
    least integer divided by -1 is itself.

    ```mlir
    %r = op.div %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
    ```
    """

    name = "op.div"
    PATTERNS: ClassVar = (DivideByOne,)

    traits = traits_def(NoMemoryEffect())

    def is_speculatable(self) -> bool:
        if isinstance(tensor_type(self.rhs).element_type, AnyFloat):
            return True
        divisor = self.rhs.owner
        return isinstance(divisor, ConstantOp) and 0 not in divisor.value.get_values()

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        a, b = operands
        if isinstance(a.type, AnyFloat):
            return k.div(a, b)
        zero, one = k.constant(0, a.type), k.constant(1, a.type)
        k.check(k.compare("ne", b, zero), DIVISION_BY_ZERO)
        if is_unsigned(a.type):
            return k.div(a, k.select(k.compare("eq", b, zero), one, b))
        # The machine's division traps where the quotient by -1 overflows.
        negated = k.compare("eq", b, k.constant(-1, b.type))
        quotient = k.div(a, k.select(negated, one, b))
        return k.select(negated, k.sub(zero, a), quotient)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        splits = super().sbp_signatures(devices)
        # The quotients of integers are rounded.
        is_float = isinstance(tensor_type(self.lhs).element_type, AnyFloat)
        return (*splits, PRODUCTS[0]) if is_float else splits

    def compute(self, *operands: Array) -> Array:
        import numpy as np

        if operands[0].dtype.kind == "f":
            return np.divide(*operands)
        a, b = np.broadcast_arrays(*operands)
        if not np.all(b):
            raise ZeroDivisionError(DIVISION_BY_ZERO)
        return np.floor_divide(np.subtract(a, np.fmod(a, b)), b)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        scaled = o.div(only(grads), self.rhs)
        turned = o.neg(o.mul(scaled, self.result))
        return [o.unbroadcast(scaled, self.lhs), o.unbroadcast(turned, self.rhs)]


@irdl_op_definition
class PowOp(BinaryOp):
    """
    The first tensor to the power of the second, element by element, of floats.

    ```mlir
    %r = op.pow %a, %b : tensor<4x8xf32>, tensor<f32> -> tensor<4x8xf32>
    ```
    """

    name = "op.pow"
    PRECISION: ClassVar = "black"
    ELEMENTS: ClassVar[Elements] = FLOATS
    NUMPY: ClassVar = "power"
    SCALAR: ClassVar = math.PowFOp

    traits = traits_def(Pure())

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        # Of 0 to the power of 0 there is no logarithm, and 0 is the limit of x log x.
        g, (a, b) = only(grads), (self.lhs, self.rhs)
        base = o.mul(o.mul(g, b), o.pow(a, o.sub(b, 1)))
        log = o.log(o.where(o.greater(a, 0), a, 1))
        power = o.mul(o.mul(g, self.result), log)
        return [o.unbroadcast(base, a), o.unbroadcast(power, b)]


def gradients_of_choice(
    o: GradientBuilder,
    op: BinaryOp,
    is_first: SSAValue,
    grads: Sequence[SSAValue | None],
) -> Gradients:
    """The gradients of an op that chooses one of two: the first if they are equal."""
    g = only(grads)
    first, second = o.where(is_first, g, 0), o.where(is_first, 0, g)
    return [o.unbroadcast(first, op.lhs), o.unbroadcast(second, op.rhs)]


@irdl_op_definition
class MaximumOp(BinaryOp):
    """
    The larger of two elements, or a NaN if either is one.

    ```mlir
    %r = op.maximum %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
    ```
    """

    name = "op.maximum"
    PRECISION: ClassVar = "clear"
    NUMPY: ClassVar = "maximum"
    SCALAR: ClassVar = "maximum"

    traits = traits_def(Commutative(), Pure())

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return gradients_of_choice(o, self, o.greater_equal(self.lhs, self.rhs), grads)


@irdl_op_definition
class MinimumOp(BinaryOp):
    """
    The smaller of two elements, or a NaN if either is one.

    ```mlir
    %r = op.minimum %a, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
    ```
    """

    name = "op.minimum"
    PRECISION: ClassVar = "clear"
    NUMPY: ClassVar = "minimum"
    SCALAR: ClassVar = "minimum"

    traits = traits_def(Commutative(), Pure())

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return gradients_of_choice(o, self, o.greater_equal(self.rhs, self.lhs), grads)


################################################################################
# One number                                                                   #
################################################################################


@irdl_op_definition
class NegOp(UnaryOp):
    """
    Each element with the opposite sign; the least integer stays itself.

    ```mlir
    %r = op.neg %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.neg"
    PRECISION: ClassVar = "clear"
    ELEMENTS: ClassVar[Elements] = NUMBERS
    NUMPY: ClassVar = "negative"

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        a = operands[0]
        if isinstance(a.type, AnyFloat):
            return k.insert(arith.NegfOp(a))
        return k.sub(k.constant(0, a.type), a)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return (*super().sbp_signatures(devices), UNARY_SUM)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.neg(only(grads))]


@irdl_op_definition
class AbsOp(UnaryOp):
    """
    Each element without its sign; the least integer stays itself.

    ```mlir
    %r = op.abs %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.abs"
    PRECISION: ClassVar = "clear"
    ELEMENTS: ClassVar[Elements] = NUMBERS
    NUMPY: ClassVar = "absolute"

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        a = operands[0]
        if isinstance(a.type, AnyFloat):
            return k.insert(math.AbsFOp(a))
        return a if is_unsigned(a.type) else k.insert(math.AbsIOp(a))

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        g, x = only(grads), self.operand
        at_least = o.where(o.greater(x, 0), g, 0)
        return [o.where(o.greater(0, x), o.neg(g), at_least)]


@irdl_op_definition
class ReciprocalOp(UnaryOp):
    """
    One divided by each element, of floats.

    ```mlir
    %r = op.reciprocal %a : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "op.reciprocal"
    PRECISION: ClassVar = "black"
    NUMPY: ClassVar = "reciprocal"

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        return k.div(k.constant(1, operands[0].type), operands[0])

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.neg(o.mul(only(grads), o.square(self.result)))]
