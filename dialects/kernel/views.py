"""Views of memrefs in kernels: the same elements in another shape, or padded."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import memref
from xdsl.dialects.builtin import (
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    MemRefType,
    i64,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import OpTrait, Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import I64List
from penstock.dialects.utils.attributes import KnownAttributes
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.numpy_types import dtype_of


class MayReadPadded(OpTrait):
    """That the operands that an op reads, and does not write, may be padded views."""


@irdl_op_definition
class PaddedOp(IRDLOperation):
    """
    A view of a memref with a number around it, in a kernel: of each dimension `low`
    times before and `high` times behind. It is `value`, of the elements' type, or zero.
    These elements lie nowhere in memory: only inputs of `linalg` and of structured ops
    may be such views. Schedules that skip them want zeros.

    ```mlir
    %p = kernel.padded %x low [0, 1] high [0, 2] value -1.0 : f32
      : memref<3x4xf32> to memref<3x7xf32>
    ```
    """

    name = "kernel.padded"

    source = operand_def(MemRefType)
    low = prop_def(I64List)
    high = prop_def(I64List)
    value = opt_prop_def(FloatAttr | IntegerAttr)
    result = result_def(MemRefType)

    traits = traits_def(KnownAttributes(), Pure())

    assembly_format = (
        "$source `low` $low `high` $high (`value` $value^)? attr-dict "
        "`:` type($source) `to` type($result)"
    )

    def __init__(
        self,
        source: SSAValue,
        low: Sequence[int],
        high: Sequence[int],
        value: FloatAttr | IntegerAttr | None = None,
    ) -> None:
        type = source.type
        assert isa(type, MemRefType), "kernels work on memrefs"
        sides = zip(low, type.get_shape(), high, strict=True)
        super().__init__(
            operands=[source],
            properties={
                "low": DenseArrayBase.from_list(i64, low),
                "high": DenseArrayBase.from_list(i64, high),
                "value": value,
            },
            result_types=[MemRefType(type.element_type, [*map(sum, sides)])],
        )

    @property
    def number(self) -> float:
        """The number around the memref, as elements of its type hold it."""
        import numpy as np

        if self.value is None:
            return 0
        dtype = dtype_of(self.value.type)
        return np.asarray(self.value.value.data).astype(dtype).item()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the memref inside of what is around it."""
        assert isa(self.source.type, MemRefType), "checked by the verifier"
        return self.source.type.get_shape()

    @property
    def pads(self) -> list[tuple[int, int]]:
        """The elements before and behind each dimension."""
        return [*zip(self.low.get_values(), self.high.get_values(), strict=True)]

    def verify_(self) -> None:
        source, result = self.source.type, self.result.type
        assert isa(source, MemRefType), "checked by the constraints"
        lengths = len(self.low), len(self.high)
        if lengths != (len(self.shape),) * 2:
            raise VerifyException(
                f"{source} needs {len(self.shape)} numbers of pads on both sides, got "
                f"{lengths[0]} and {lengths[1]}"
            )
        if any(min(pair) < 0 for pair in self.pads):
            low, high = ([*side.get_values()] for side in (self.low, self.high))
            raise VerifyException(
                f"numbers of pads must not be negative, got low {low} and high {high}"
            )
        sides = zip(self.shape, self.pads, strict=True)
        shape = [extent + low + high for extent, (low, high) in sides]
        if result != (wanted := MemRefType(source.element_type, shape)):
            raise VerifyException(f"the view is of type {wanted}, got {result}")
        if self.value is not None and self.value.type != source.element_type:
            raise VerifyException(
                f"the value around {source} is a number of type {source.element_type}, "
                f"got {self.value}"
            )
        for use in self.result.uses:
            user = use.operation
            if not _may_be_padded(user, self.result):
                raise VerifyException(
                    "only inputs of linalg and structured ops may be padded, got one "
                    f"of {user.name}"
                )


def _may_be_padded(user: Operation, view: SSAValue) -> bool:
    if isinstance(user, LinalgStructuredOperation):
        return view not in user.outputs
    return user.has_trait(MayReadPadded)


VIEWS = (memref.CollapseShapeOp, memref.ExpandShapeOp, PaddedOp)
"""The ops that make a memref of the elements of another one."""


def root_of(value: SSAValue) -> SSAValue:
    """The memref that a memref is a view of."""
    while isinstance(op := value.owner, VIEWS):
        value = op.operands[0]
    return value
