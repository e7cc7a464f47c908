"""
`RowOp`: ops that map each row along one axis to a row (softmax, layer norm), and the
loops that build them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from xdsl.ir import Attribute, SSAValue

from penstock.dialects.kernel.builder import KernelBuilder, memref_type
from penstock.dialects.op.tensor_op import TensorOp

Element: TypeAlias = Callable[[KernelBuilder, SSAValue], SSAValue]
"""Builds an element of a line, given its index."""

Combine: TypeAlias = Callable[[KernelBuilder, SSAValue, SSAValue], SSAValue]
"""Builds the next value of a loop, given the one so far and an element."""


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

    def fold(self, k: KernelBuilder, init: float, combine: Combine) -> SSAValue:
        """A loop over all elements that carries one value, first `init`."""
        type = memref_type(self.memref).element_type
        return Row(self.extent, type, self.load, self).fold(k, init, combine)


class Row:
    """
    The row that a row op reads, element by element, any number of times.

    The elements are computed from others. Unless that is just to load them, the loop
    that comes first keeps them in `home`, where others find them.
    """

    def __init__(self, extent: int, type: Attribute, compute: Element, scratch: Line):
        self.extent, self.type = extent, type
        self.scratch = scratch
        """Where the op may keep an element of its type at each index, once it does not
        read the one at this index any more."""
        self.home: Line | None = None
        self._compute, self._is_kept = compute, False

    def load(self, k: KernelBuilder, index: SSAValue) -> SSAValue:
        """An element."""
        if self._is_kept and self.home is not None:
            return self.home.load(k, index)
        value = self._compute(k, index)
        if self.home is not None:
            self.home.store(k, value, index)
        return value

    def fold(self, k: KernelBuilder, init: float, combine: Combine) -> SSAValue:
        """A loop over all elements that carries one value, first `init`."""
        value = k.accumulate(
            [(k.index(0), k.index(self.extent))],
            k.constant(init, self.type),
            lambda k, index, value: combine(k, value, self.load(k, index[0])),
        )
        self._is_kept = True
        return value


class RowOp(TensorOp, ABC):
    """
    An op whose first operand and only result have one type of floats, and whose results
    depend on lines of the operand, and on parameters that are the same for all lines.
    """

    @abstractmethod
    def is_of_rows(self) -> bool:
        """Whether its lines are those of the last dimension."""

    @abstractmethod
    def build_row(
        self, k: KernelBuilder, row: Row, parameters: Sequence[Element]
    ) -> Element:
        """
        Build what makes a line of the result, and return how an element of it is
        computed. The first loop of all over the row is made with `Row.fold`.
        """

    def build_line(
        self, k: KernelBuilder, line: Line, out: Line, parameters: Sequence[Element]
    ) -> None:
        """Build what reads one line and writes the same line of the result."""
        type = memref_type(line.memref).element_type
        row = Row(line.extent, type, line.load, out)
        element = self.build_row(k, row, parameters)
        k.each(line.extent, lambda k, index: out.store(k, element(k, index), index))
