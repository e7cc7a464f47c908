"""Scans: cumulative sums and products along an axis."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import TensorType, UnitAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.op.axes import I64Attr, dense
from penstock.dialects.op.elementwise import NUMBERS
from penstock.dialects.op.row_ops import Line
from penstock.dialects.op.sbp import PARTIAL, SbpSignature, signature
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.op.verify import normal_axis
from penstock.dialects.utils.gradients import only
from penstock.dialects.utils.tensors import element_count, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder, ScalarOp
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array


class ScanOp(TensorOp, ABC):
    """
    An op that combines all elements of a line up to each place: with `exclusive` up to
    but without it, with `reverse` from the end of the line on.
    """

    NEUTRAL: ClassVar[int]
    """The number that changes no element it is combined with."""

    NUMPY: ClassVar[str]
    """The function of NumPy that combines two elements."""

    SCALAR: ClassVar[ScalarOp]
    """The scalar op, or the method of the builder, that combines two elements."""

    operand = operand_def(TensorType)
    axis = prop_def(I64Attr)
    exclusive = opt_prop_def(UnitAttr)
    reverse = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$operand `axis` $axis (`exclusive` $exclusive^)? (`reverse` $reverse^)? "
        "attr-dict `:` type($operand) `->` type($result)"
    )

    def combine(self, k: KernelBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
        """Build the scalar op that combines two elements."""
        return k.apply(self.SCALAR, a, b)

    def infer_types(self) -> Sequence[TensorType]:
        type = tensor_type(self.operand)
        NUMBERS.verify(type)
        normal_axis(self.axis.value.data, type.get_num_dims())
        return (type,)

    def flops(self) -> int:
        return element_count(self.operand.type)

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        return (InPlacePair(0, 0),)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        rank = tensor_type(self.operand).get_num_dims()
        line = normal_axis(self.axis.value.data, rank)
        return [signature([axis], [axis]) for axis in range(rank) if axis != line]

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        axis = normal_axis(self.axis.value.data, operands[0].ndim)
        lines = np.moveaxis(operands[0], axis, -1)
        lines = lines[..., ::-1] if self.reverse is not None else lines
        with np.errstate(all="ignore"):
            sums = getattr(np, self.NUMPY).accumulate(lines, -1, dtype=lines.dtype)
        if self.exclusive is not None:
            first = np.full_like(sums[..., :1], self.NEUTRAL)
            sums = np.concatenate([first, sums[..., :-1]], -1)
        sums = sums[..., ::-1] if self.reverse is not None else sums
        return (dense(np.moveaxis(sums, -1, axis)),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        extents = memref_type(ins[0]).get_shape()
        axis = normal_axis(self.axis.value.data, len(extents))
        outer, inner = prod(extents[:axis]), prod(extents[axis + 1 :])
        shape = [outer, extents[axis], inner]
        input, out = k.view(ins[0], shape), k.view(outs[0], shape)
        k.parallel(
            [outer, inner],
            lambda k, place: self._scan(
                k,
                Line(input, place[:1], place[1:]),
                Line(out, place[:1], place[1:]),
            ),
        )

    def _scan(self, k: KernelBuilder, line: Line, out: Line) -> None:
        last = k.index(line.extent - 1)

        def step(
            k: KernelBuilder, index: SSAValue, carried: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            place = index if self.reverse is None else k.sub(last, index)
            total = self.combine(k, carried[0], line.load(k, place))
            out.store(k, total if self.exclusive is None else carried[0], place)
            return [total]

        element = memref_type(line.memref).element_type
        start = [k.constant(self.NEUTRAL, element)]
        k.loop(k.index(0), k.index(line.extent), start, step)


@irdl_op_definition
class CumSumOp(ScanOp):
    """
    The sums along one axis of all elements up to each place. Those of integers wrap.

    ```mlir
    %r = op.cum_sum %a axis 1 exclusive reverse : tensor<4x8xf32> -> tensor<4x8xf32>
    ```
    """

    name = "op.cum_sum"
    NEUTRAL: ClassVar[int] = 0
    NUMPY: ClassVar = "add"
    SCALAR: ClassVar = "add"

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return (*super().sbp_signatures(devices), signature([PARTIAL], [PARTIAL]))

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        flags = {"exclusive": self.exclusive is not None, "reverse": not self.reverse}
        return [o.one(CumSumOp, only(grads), axis=self.axis.value.data, **flags)]


@irdl_op_definition
class CumProdOp(ScanOp):
    """
    The products along one axis of all elements up to each place. Those of integers
    wrap.

    ```mlir
    %r = op.cum_prod %a axis 1 : tensor<4x8xf32> -> tensor<4x8xf32>
    ```
    """

    name = "op.cum_prod"
    NEUTRAL: ClassVar[int] = 1
    NUMPY: ClassVar = "multiply"
    SCALAR: ClassVar = "mul"

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        """
        That of an element is the sum of the products after it, each times its gradient,
        over the element. Past the first 0 of a line all products are 0; at this one the
        products are those of all others.
        """
        axis = normal_axis(self.axis.value.data, len(o.shape(self.operand)))
        is_back = self.reverse is not None
        g, x = only(grads), self.operand
        if not o.shape(g)[axis]:
            return [None]
        if self.exclusive is not None:
            g = self._shifted(o, g, axis, is_back)
        zeros = o.cast(o.equal(x, 0), i64)
        count = o.one(CumSumOp, zeros, axis=axis, reverse=is_back)
        is_first = o.both(o.equal(x, 0), o.equal(count, 1))
        x = o.where(is_first, 1, x)
        # From the first 0 on only the element that is 0 has these products.
        products = o.mul(g, o.one(CumProdOp, x, axis=axis, reverse=is_back))
        without = o.where(o.equal(count, 0), products, 0)
        flags = {"axis": axis, "reverse": not is_back}
        before = o.div(o.one(CumSumOp, without, **flags), x)
        at_first = o.one(CumSumOp, products, **flags)
        rest = o.where(is_first, at_first, 0)
        return [o.where(o.equal(count, 0), before, rest)]

    @staticmethod
    def _shifted(
        o: GradientBuilder, grad: SSAValue, axis: int, is_back: bool
    ) -> SSAValue:
        """The gradients by products up to and with each place, by those without."""
        shape = o.shape(grad)
        extent, none, one = shape[axis], [0] * len(shape), [0] * len(shape)
        one[axis] = 1
        if is_back:
            return o.pad(o.slice(grad, axis, 0, extent - 1), one, none)
        return o.pad(o.slice(grad, axis, 1, extent), none, one)
