"""
`op.matmul` and `op.gemm`: contractions of two matrices, with batches and transposes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    FloatAttr,
    TensorType,
    UnitAttr,
    bf16,
    f32,
    f64,
    i8,
    i32,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    eq,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.builder import broadcast_map, memref_type
from penstock.dialects.kernel.finish_builder import (
    Finish,
    broadcast_operand,
    build_contract,
)
from penstock.dialects.kernel.interface import element_of
from penstock.dialects.op.elementwise import NUMBERS, PRODUCTS
from penstock.dialects.op.sbp import (
    PARTIAL,
    Entry,
    SbpSignature,
    broadcast_signatures,
    signature,
)
from penstock.dialects.op.tensor_op import ContractionOp, Ending
from penstock.dialects.op.verify import (
    check_rank,
    may_equal,
    same_element_type,
)
from penstock.dialects.utils.gradients import only
from penstock.dialects.utils.signless import is_unsigned, ui8
from penstock.dialects.utils.tensors import (
    broadcast_shapes,
    element_count,
    shape_text,
    tensor_type,
)

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.kernel.sums import Operand
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array

BYTES = (i8, ui8)
"""The bytes of which sums may be wide."""

WIDE: Mapping[Attribute, Attribute] = {**dict.fromkeys(BYTES, i32), bf16: f32}
"""The elements of which sums may be wide, with the type of these."""


@irdl_op_definition
class MatmulOp(ContractionOp):
    """
    The products of two stacks of matrices, as `numpy.matmul` has them: the last two
    dimensions are multiplied, those before are broadcast, and a tensor of one dimension
    is a row on the left and a column on the right. `transpose_a` and `transpose_b` swap
    the last two dimensions of an operand first.

    Sums are in the element type, so that the error of a float grows with the number
    of its terms: at most like it, about like its square root for random terms. With
    `wide` the elements are bytes, `i8` or `ui8`, and the sums `i32`, or `bf16` and
    `f32`: `op-widen-sums`.

    ```mlir
    %c = op.matmul %a, %b transpose_b
      : tensor<8x2x4xf32>, tensor<3x4xf32> -> tensor<8x2x3xf32>
    %f = op.matmul %d, %e wide : tensor<2x4xui8>, tensor<4x3xi8> -> tensor<2x3xi32>
    ```
    """

    name = "op.matmul"

    a = operand_def(TensorType)
    b = operand_def(TensorType)
    transpose_a = opt_prop_def(UnitAttr)
    transpose_b = opt_prop_def(UnitAttr)
    wide = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$a `,` $b (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)? "
        "(`wide` $wide^)? attr-dict `:` type($a) `,` type($b) `->` type($result)"
    )

    def infer_types(self) -> Sequence[TensorType]:
        element = element_of_sums(self.operands, self.wide is not None)
        a = self._matrix_shape(self.a, self.transpose_a is not None)
        b = self._matrix_shape(self.b, self.transpose_b is not None)
        rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else []
        _check_inner(a[-1], b[-2] if len(b) > 1 else b[0])
        stack = broadcast_shapes([a[:-2], b[:-2]])
        return (TensorType(element, [*stack, *rows, *columns]),)

    @staticmethod
    def _matrix_shape(operand: SSAValue, transpose: bool) -> list[int]:
        """The shape of an operand after it is transposed."""
        shape = list(tensor_type(operand).get_shape())
        if not shape:
            raise VerifyException("matrices should not be scalars")
        if not transpose:
            return shape
        if len(shape) == 1:
            raise VerifyException(
                f"a tensor of one dimension has no transpose, got {operand.type}"
            )
        return [*shape[:-2], shape[-1], shape[-2]]

    def flops(self) -> int:
        return 2 * element_count(self.result.type) * self._inner_extent

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        ranks = [tensor_type(value).get_num_dims() for value in self.operands]
        rows, columns = (rank > 1 for rank in ranks)
        rank = tensor_type(self.result).get_num_dims()
        stack = [tensor_type(value).get_shape()[:-2] for value in self.operands]
        found = broadcast_signatures(
            stack, tensor_type(self.result).get_shape()[: rank - rows - columns]
        )
        row, inner_a = _last_axes(ranks[0], self.transpose_a is not None)
        inner_b, column = _last_axes(ranks[1], self.transpose_b is not None)
        if rows:
            found.append(signature([row, None], [rank - 1 - columns]))
        if columns:
            found.append(signature([None, column], [rank - 1]))
        inner = signature([inner_a, inner_b if columns else 0], [PARTIAL])
        # Sums of bytes are cut to bytes before they are multiplied.
        sums = PRODUCTS if self.wide is None else ()
        return (*found, inner, *sums)

    @property
    def _inner_extent(self) -> int:
        shape = tensor_type(self.a).get_shape()
        return shape[-1 if self.transpose_a is None else -2]

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        a, b = operands
        if self.transpose_a is not None:
            a = a.swapaxes(-1, -2)
        if self.transpose_b is not None:
            b = b.swapaxes(-1, -2)
        if self.wide is not None:
            a, b = widened(a), widened(b)
        return (np.asarray(np.matmul(a, b)),)

    @property
    def can_start(self) -> bool:
        return True

    def build_sums(
        self,
        k: KernelBuilder,
        ins: Sequence[SSAValue],
        outs: Sequence[SSAValue],
        ending: Ending,
    ) -> None:
        a, b = ins
        of_a, of_b, result = self._maps(
            [memref_type(value).get_shape() for value in ins],
            memref_type(outs[0]).get_num_dims(),
        )
        finish = Finish(element_of(outs[0]))
        ending.build(finish, result)
        build_contract(
            k,
            ((a, of_a), (b, of_b)),
            [(out, result) for out in outs],
            None if ending.start is None else (ending.start, result),
            finish,
            unsigned_of(ins, self.wide is not None),
        )

    def _maps(
        self, shapes: Sequence[Sequence[int]], rank: int
    ) -> tuple[AffineMap, AffineMap, AffineMap]:
        """
        The indices of both factors and of the result, by loops over the result's
        dimensions, then over the terms of a sum.
        """
        has_rows, has_columns = (len(shape) > 1 for shape in shapes)
        stack_rank = rank - has_rows - has_columns
        row, column, inner = (
            [AffineExpr.dimension(stack_rank)] * has_rows,
            [AffineExpr.dimension(rank - 1)] * has_columns,
            [AffineExpr.dimension(rank)],
        )
        matrices = (
            [*inner, *row] if self.transpose_a is not None else [*row, *inner],
            [*column, *inner] if self.transpose_b is not None else [*inner, *column],
        )
        of_a, of_b = (
            AffineMap(
                rank + 1, 0, (*broadcast_map(shape[:-2], stack_rank).results, *matrix)
            )
            for shape, matrix in zip(shapes, matrices, strict=True)
        )
        out = tuple(AffineExpr.dimension(axis) for axis in range(rank))
        return of_a, of_b, AffineMap(rank + 1, 0, out)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        g, flags = (
            only(grads),
            (self.transpose_a is not None, self.transpose_b is not None),
        )
        shapes = o.shape(self.a), o.shape(self.b)
        a, b = self.a, self.b
        # A tensor of one dimension is a row on the left, and a column on the right.
        if len(shapes[0]) == 1:
            a, g = o.reshape(a, [1, *shapes[0]]), with_axis(o, g, -2)
            flags = False, flags[1]
        if len(shapes[1]) == 1:
            b, g = o.reshape(b, [*shapes[1], 1]), with_axis(o, g, -1)
            flags = flags[0], False
        found = matmul_gradients(o, a, b, flags, g)
        return [o.reshape(x, shape) for x, shape in zip(found, shapes, strict=True)]


def with_axis(o: GradientBuilder, value: SSAValue, axis: int) -> SSAValue:
    """A value with one more axis of one element, counted from behind."""
    shape = o.shape(value)
    shape.insert(len(shape) + 1 + axis, 1)
    return o.reshape(value, shape)


def matmul_gradients(
    o: GradientBuilder, a: SSAValue, b: SSAValue, flags: tuple[bool, bool], g: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """
    The gradients of the operands of a product of stacks of matrices, where `flags` say
    whether the one and the other is transposed first.
    """
    (turn_a, turn_b), shape, element = flags, o.shape(a), o.element(a)
    if o.element(g) != element:
        # Sums are wide, and so are those of gradients.
        a, b = (o.cast(x, o.element(g)) for x in (a, b))
        left, right = matmul_gradients(o, a, b, flags, g)
        return o.cast(left, element), o.cast(right, element)
    if len(shape) > 2 and len(o.shape(b)) == 2 and not turn_a:
        # The rows of all matrices of the stack are those of one.
        rows = [prod(shape[:-1]), shape[-1]]
        flat = o.reshape(g, [rows[0], o.shape(g)[-1]])
        left, right = matmul_gradients(o, o.reshape(a, rows), b, flags, flat)
        return o.reshape(left, shape), right
    if turn_a:
        left = o.matmul(b, g, transpose_a=turn_b, transpose_b=True)
    else:
        left = o.matmul(g, b, transpose_b=not turn_b)
    if turn_b:
        right = o.matmul(g, a, transpose_a=True, transpose_b=turn_a)
    else:
        right = o.matmul(a, g, transpose_a=not turn_a)
    return o.unbroadcast(left, a), o.unbroadcast(right, b)


@irdl_op_definition
class GemmOp(ContractionOp):
    """
    `alpha * A * B + beta * C`, where `transpose_a` and `transpose_b` swap the
    dimensions of the matrices A and B first, and C, if there is one, is broadcast to
    the result.

    Sums are in the element type, as in `op.matmul`. Integers need whole factors. With
    `wide` A and B are `bf16` or bytes, and C and the sums `f32` or `i32`.

    ```mlir
    %y = op.gemm %a, %b, %c transpose_b alpha 5.000000e-01
      : tensor<2x4xf32>, tensor<3x4xf32>, tensor<3xf32> -> tensor<2x3xf32>
    ```
    """

    name = "op.gemm"

    a = operand_def(TensorType)
    b = operand_def(TensorType)
    c = opt_operand_def(TensorType)
    transpose_a = opt_prop_def(UnitAttr)
    transpose_b = opt_prop_def(UnitAttr)
    alpha = prop_def(FloatAttr.constr(eq(f64)), default_value=FloatAttr(1.0, f64))
    beta = prop_def(FloatAttr.constr(eq(f64)), default_value=FloatAttr(1.0, f64))
    wide = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$a `,` $b (`,` $c^)? (`transpose_a` $transpose_a^)? "
        "(`transpose_b` $transpose_b^)? (`alpha` $alpha^)? (`beta` $beta^)? "
        "(`wide` $wide^)? attr-dict "
        "`:` type($a) `,` type($b) (`,` type($c)^)? `->` type($result)"
    )

    @property
    def factors(self) -> tuple[float, float]:
        """Alpha and beta."""
        return self.alpha.value.data, self.beta.value.data

    def infer_types(self) -> Sequence[TensorType]:
        element = self._element()
        if not isinstance(element, AnyFloat):
            self._check_whole_factors()
        a = self._matrix_shape("A", self.a, self.transpose_a is not None)
        b = self._matrix_shape("B", self.b, self.transpose_b is not None)
        _check_inner(a[1], b[0])
        if self.c is not None:
            _check_broadcast(tensor_type(self.c).get_shape(), [a[0], b[1]])
        return (TensorType(element, [a[0], b[1]]),)

    def _element(self) -> Attribute:
        """The element type of the result, which C has."""
        if self.wide is None:
            element = same_element_type(self.operands)
            NUMBERS.verify(tensor_type(self.a))
            return element
        element = element_of_sums([self.a, self.b], wide=True)
        if self.c is not None and tensor_type(self.c).element_type != element:
            raise VerifyException(
                f"the C of sums of {element} should be so, got {self.c.type}"
            )
        return element

    def _check_whole_factors(self) -> None:
        for name, factor in zip(("alpha", "beta"), self.factors, strict=True):
            if not factor.is_integer():
                raise VerifyException(
                    f"{name} should be whole for integers, got {factor}"
                )

    @staticmethod
    def _matrix_shape(name: str, operand: SSAValue, transpose: bool) -> list[int]:
        """The shape of an operand after it is transposed."""
        type = tensor_type(operand)
        check_rank(name, type, 2)
        shape = list(type.get_shape())
        return shape[::-1] if transpose else shape

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        row, inner_a = _last_axes(2, self.transpose_a is not None)
        inner_b, column = _last_axes(2, self.transpose_b is not None)
        c: list[int | Entry | None] = [PARTIAL] if self.c is not None else []
        return (
            signature([row, None, *self._axis_of_c(0)], [0]),
            signature([None, column, *self._axis_of_c(1)], [1]),
            signature([inner_a, inner_b, *c], [PARTIAL]),
            signature([PARTIAL, None, *c], [PARTIAL]),
            signature([None, PARTIAL, *c], [PARTIAL]),
        )

    def _axis_of_c(self, axis: int) -> list[int | None]:
        """The axis of C, if there is one, that an axis of the result is."""
        if self.c is None:
            return []
        shape = tensor_type(self.c).get_shape()
        own = axis - 2 + len(shape)
        return [None if own < 0 or shape[own] == 1 else own]

    def flops(self) -> int:
        results = element_count(self.result.type)
        inner = tensor_type(self.a).get_shape()[0 if self.transpose_a else 1]
        flops = 2 * results * inner
        alpha, beta = self.factors
        if alpha != 1:
            flops += results
        if self.c is not None:
            flops += results + (element_count(self.c.type) if beta != 1 else 0)
        return flops

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        a, b, *c = operands
        if self.wide is not None:
            a, b = widened(a), widened(b)
        if self.transpose_a is not None:
            a = a.T
        if self.transpose_b is not None:
            b = b.T
        alpha, beta = (a.dtype.type(factor) for factor in self.factors)
        result = np.multiply(alpha, np.matmul(a, b))
        for addend in c:
            result = np.add(result, np.multiply(beta, addend))
        return (result,)

    def build_sums(
        self,
        k: KernelBuilder,
        ins: Sequence[SSAValue],
        outs: Sequence[SSAValue],
        ending: Ending,
    ) -> None:
        a, b, *_ = ins
        row, column, inner = (AffineExpr.dimension(index) for index in range(3))
        exprs = (
            (row, inner) if self.transpose_a is None else (inner, row),
            (inner, column) if self.transpose_b is None else (column, inner),
            (row, column),
        )
        of_a, of_b, result = (AffineMap(3, 0, places) for places in exprs)
        c = [broadcast_operand(value, result) for value in ins[2:]]
        finish = Finish(element_of(outs[0]))
        start = c[0] if c and self.factors == (1, 1) else None
        if start is None:
            self._build_scaling(finish, c)
        ending.build(finish, result)
        places = [(out, result) for out in outs]
        unsigned = unsigned_of(ins, self.wide is not None)
        build_contract(k, ((a, of_a), (b, of_b)), places, start, finish, unsigned)

    def _build_scaling(self, finish: Finish, c: Sequence[Operand]) -> None:
        """Scale the products, and add C."""

        def body(k: KernelBuilder, scalars: Sequence[SSAValue]) -> Sequence[SSAValue]:
            *addends, product = scalars
            scaled = self._scale(k, product, 0)
            if not addends:
                return [scaled]
            terms = scaled, self._scale(k, addends[0], 1)
            # Where products are not scaled, sums seem to start from C.
            return [k.add(*(terms if self.factors[0] != 1 else terms[::-1]))]

        finish.then(c, body)

    def _scale(self, k: KernelBuilder, value: SSAValue, index: int) -> SSAValue:
        """Multiply by one of the factors, unless that is one."""
        factor = self.factors[index]
        return value if factor == 1 else k.mul(value, k.constant(factor, value.type))

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        g, (alpha, beta) = only(grads), self.factors
        flags = self.transpose_a is not None, self.transpose_b is not None
        scaled = g if alpha == 1 else o.mul(g, alpha)
        found: list[SSAValue | None] = [
            *matmul_gradients(o, self.a, self.b, flags, scaled)
        ]
        if self.c is not None:
            total = o.unbroadcast(g, self.c)
            found.append(total if beta == 1 else o.mul(total, beta))
        return found


def _last_axes(rank: int, transpose: bool) -> tuple[int, int]:
    """The axes of an operand that are the last two once it is transposed."""
    return (rank - 1, rank - 2) if transpose else (rank - 2, rank - 1)


def element_of_sums(factors: Sequence[SSAValue], wide: bool) -> Attribute:
    """The element type of a matmul of two tensors: that of `wide` sums, if so."""
    types = [*map(tensor_type, factors)]
    if not wide:
        element = same_element_type(factors)
        NUMBERS.verify(types[0])
        return element
    for type in types:
        if type.element_type not in WIDE:
            raise VerifyException(f"wide sums are of i8, ui8 or bf16, got {type}")
    a, b = (WIDE[type.element_type] for type in types)
    if a != b:
        raise VerifyException(
            f"wide sums are of one kind, got {types[0]} and {types[1]}"
        )
    return a


def widened(factor: Array) -> Array:
    """The elements of a factor in the type of `wide` sums."""
    import numpy as np

    return factor.astype(np.int32 if factor.dtype.kind in "iu" else np.float32)


def unsigned_of(factors: Sequence[SSAValue], wide: bool) -> tuple[bool, bool]:
    """Whether the bytes of each factor of `wide` sums have no sign."""
    a, b, *_ = (wide and is_unsigned(element_of(value)) for value in factors)
    return a, b


def _check_inner(a: int, b: int) -> None:
    """Refuse matrices that cannot be multiplied."""
    if not may_equal(a, b):
        raise VerifyException(
            f"rows of {a} elements cannot be multiplied with columns of {b}"
        )


def _check_broadcast(shape: Sequence[int], target: Sequence[int]) -> None:
    """Refuse a shape that does not broadcast to another one without changing it."""
    fits = len(shape) <= len(target) and all(
        extent in (1, DYNAMIC_INDEX) or may_equal(extent, target[axis])
        for axis, extent in zip(range(-len(shape), 0), shape, strict=True)
    )
    if not fits:
        raise VerifyException(
            f"{shape_text(shape)} does not broadcast to {shape_text(target)}"
        )
