"""
`RowOp`: ops that map each row along one axis to a row (softmax, layer norm), and the
lines of elements that loops go through.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import SSAValue

from penstock.dialects.kernel.builder import KernelBuilder, memref_type
from penstock.dialects.op.tensor_op import TensorOp


class Line(NamedTuple):
    """The elements of a memref along one dimension, at a place in the others."""

    memref: SSAValue
    before: Sequence[SSAValue]
    """The indices into the dimensions before that of the line."""
    after: Sequence[SSAValue] = ()
    """The indices into the dimensions after it."""

    @property
    def extent(self) -> int:
        """The number of elements of the line."""
        return memref_type(self.memref).get_shape()[len(self.before)]

    def load(self, k: KernelBuilder, index: SSAValue) -> SSAValue:
        """One element."""
        return k.load(self.memref, [*self.before, index, *self.after])

    def store(self, k: KernelBuilder, value: SSAValue, index: SSAValue) -> None:
        """Write one element."""
        k.store(value, self.memref, [*self.before, index, *self.after])


class RowOp(TensorOp, ABC):
    """
    An op whose first operand and only result have one type of floats, and whose results
    depend on lines of the operand, and on parameters that are the same for all lines.
    """

    @abstractmethod
    def is_of_rows(self) -> bool:
        """Whether its lines are those of the last dimension."""

    @abstractmethod
    def build_point(
        self,
        k: KernelBuilder,
        value: SSAValue,
        parameters: Sequence[SSAValue],
        extent: int,
    ) -> SSAValue:
        """
        Build, in the body of a `kernel.row` of lines of so many elements, an element of
        the result from those of the operands at the same place.
        """
