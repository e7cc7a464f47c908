"""
Multi-rate ops: accumulate, last, repeat, pack and unpack.

All ops of a job act once for each piece of their operands, but for these: `op.acc`,
`op.last` and `op.pack` make one piece of `count` pieces, `op.repeat` and `op.unpack` so
many of one. The acts of each op in one launch of the job follow from that; inputs and
outputs of which there are several pieces in a launch have one more extent for them, in
front.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.sbp import PARTIAL, SbpSignature, signature
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.counts import Count
from penstock.dialects.utils.gradients import only
from penstock.dialects.utils.tensors import tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array


TYPES = " attr-dict `:` type($source) `->` type($result)"


class RateOp(TensorOp):
    """
    An op that acts `count` times for one piece of its operand, or of its result.

    `evaluate` is given all pieces of the operand in a launch, one after the other along
    a first axis, and returns those of the result so.
    """

    source = operand_def(TensorType)
    count = prop_def(Count)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, count: int, result: TensorType):
        super().__init__(
            operands=[source],
            properties={"count": IntegerAttr(count, i64)},
            result_types=[result],
        )

    @property
    def acts(self) -> int:
        """The number of pieces of the one for one of the other."""
        return self.count.value.data

    @property
    def taken(self) -> int:
        """The acts for one piece of the operand."""
        return 1

    @property
    def made(self) -> int:
        """The acts for one piece of the result."""
        return 1

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        """Pieces are cut along any axis that they have on both sides."""
        source, result = (
            tensor_type(x).get_shape() for x in (self.source, self.result)
        )
        axes = [signature([a], [a]) for a, n in enumerate(source) if n == result[a]]
        return (*axes, SbpSignature((PARTIAL,), (PARTIAL,)))

    def infer_types(self) -> Sequence[TensorType]:
        return [tensor_type(self.source)]

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        raise AssertionError("pieces are copied without a kernel")

    @property
    def rows(self) -> tuple[int, list[int]]:
        """The first extent of the operand and the others."""
        shape = tensor_type(self.source).get_shape()
        if not shape:
            raise VerifyException("a scalar has no rows")
        return shape[0], list(shape[1:])


class CollectOp(RateOp):
    """An op that makes one piece of `count` pieces."""

    @property
    def made(self) -> int:
        """The acts for one piece of the result."""
        return self.acts


class DealOp(RateOp):
    """An op that makes `count` pieces of one."""

    @property
    def taken(self) -> int:
        """The acts for one piece of the operand."""
        return self.acts


@irdl_op_definition
class AccOp(CollectOp):
    """
    The sum of `count` consecutive pieces.

    ```mlir
    %s = op.acc %g every 4 : tensor<8xf32> -> tensor<8xf32>
    ```
    """

    name = "op.acc"

    assembly_format = "$source `every` $count" + TYPES

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        (pieces,) = operands
        count = len(pieces) // self.acts
        groups = pieces.reshape(count, self.acts, *pieces.shape[1:])
        # One term after the other, as the actor adds them.
        total = groups[:, 0]
        for index in range(1, self.acts):
            total = np.add(total, groups[:, index])
        return [total]

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        """The work of each act but the first: add a piece to the sum."""
        k.elementwise([ins[0], outs[0]], outs[0], lambda k, values: k.add(*values))

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.one(RepeatOp, only(grads), count=self.acts)]


@irdl_op_definition
class LastOp(CollectOp):
    """
    The last of `count` consecutive pieces.

    ```mlir
    %h = op.last %x of 4 : tensor<8xf32> -> tensor<8xf32>
    ```
    """

    name = "op.last"
    NO_GRADIENT: ClassVar = "gradients come before loops are ops that act several times"

    assembly_format = "$source `of` $count" + TYPES

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        return [operands[0][self.acts - 1 :: self.acts]]


@irdl_op_definition
class RepeatOp(DealOp):
    """
    The same piece `count` times.

    ```mlir
    %r = op.repeat %w times 4 : tensor<8xf32> -> tensor<8xf32>
    ```
    """

    name = "op.repeat"

    assembly_format = "$source `times` $count" + TYPES

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        return [np.repeat(operands[0], self.acts, axis=0)]

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        k.copy(ins[0], outs[0])

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.one(AccOp, only(grads), count=self.acts)]


@irdl_op_definition
class PackOp(CollectOp):
    """
    The rows of `count` consecutive pieces.

    ```mlir
    %b = op.pack %x by 4 : tensor<1x8xf32> -> tensor<4x8xf32>
    ```
    """

    name = "op.pack"

    assembly_format = "$source `by` $count" + TYPES

    def infer_types(self) -> Sequence[TensorType]:
        rows, row = self.rows
        kind = tensor_type(self.source).element_type
        return [TensorType(kind, [rows * self.acts, *row])]

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        (pieces,) = operands
        rows, *row = pieces.shape[1:]
        count = len(pieces) // self.acts
        return [pieces.reshape(count, rows * self.acts, *row)]

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.one(UnpackOp, only(grads), count=self.acts)]


@irdl_op_definition
class UnpackOp(DealOp):
    """
    The rows of a piece in `count` consecutive pieces.

    ```mlir
    %x = op.unpack %b by 4 : tensor<4x8xf32> -> tensor<1x8xf32>
    ```
    """

    name = "op.unpack"

    assembly_format = "$source `by` $count" + TYPES

    def infer_types(self) -> Sequence[TensorType]:
        rows, row = self.rows
        if rows % self.acts:
            raise VerifyException(
                f"{rows} rows make no {self.acts} pieces of equal size"
            )
        kind = tensor_type(self.source).element_type
        return [TensorType(kind, [rows // self.acts, *row])]

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        (pieces,) = operands
        rows, *row = pieces.shape[1:]
        count = len(pieces) * self.acts
        return [pieces.reshape(count, rows // self.acts, *row)]

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [o.one(PackOp, only(grads), count=self.acts)]
