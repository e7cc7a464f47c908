"""`op.all_finite`: whether tensors have no NaN and no infinity."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects import math
from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import irdl_op_definition, result_def, traits_def, var_operand_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.body_ops import Fold
from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.kernel.row_builder import all_reduce, build_row
from penstock.dialects.op.elementwise import FLOATS
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.gradients import NO_FLOATS
from penstock.dialects.utils.tensors import element_count, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array

ROW = AffineMap.identity(2)
"""The index of an element of a tensor that is one row, by its two loops."""
OF_ROW = AffineMap(2, 0, (AffineExpr.dimension(0),))
"""The index of a result of a row."""


@irdl_op_definition
class AllFiniteOp(TensorOp):
    """
    Whether all elements of some tensors of floats are finite: neither infinite nor NaN.
    Where there are no elements they are.

    ```mlir
    %r = op.all_finite %x, %y : tensor<4x8xf32>, tensor<8xf16> -> tensor<i1>
    ```
    """

    name = "op.all_finite"
    NO_GRADIENT: ClassVar = NO_FLOATS

    tensors = var_operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = "$tensors attr-dict `:` type($tensors) `->` type($result)"

    def infer_types(self) -> Sequence[TensorType]:
        if not self.tensors:
            raise VerifyException("expected at least one tensor")
        for value in self.tensors:
            FLOATS.verify(tensor_type(value))
        return (TensorType(i1, []),)

    def flops(self) -> int:
        return 2 * sum(element_count(value.type) for value in self.tensors)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        return (np.array(all(np.all(np.isfinite(array)) for array in operands)),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        out = k.view(outs[0], [1])

        def point(k: KernelBuilder, args: Sequence[SSAValue]) -> Sequence[SSAValue]:
            size = k.insert(math.AbsFOp(args[0]))
            is_finite = k.compare("lt", size, k.constant(float("inf"), size.type))
            for before in args[1:]:
                is_finite = k.minimum(is_finite, before)
            return [all_reduce(k, Fold.ANDI, is_finite)]

        before: list[SSAValue] = []
        for value in ins:
            count = prod(memref_type(value).get_shape())
            if before and not count:
                # A value that is folded with no element would be lost.
                continue
            row = k.view(value, [1, count])
            maps = [ROW, *[OF_ROW] * len(before), OF_ROW]
            build_row(k, [1], [row, *before], [out], maps, point)
            before = [out]
