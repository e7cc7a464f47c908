"""Lines of elements along one dimension, in kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from xdsl.ir import SSAValue

from penstock.dialects.kernel import KernelBuilder, memref_type


class Line(NamedTuple):
    """The elements of a memref along one dimension, at a place in the others."""

    memref: SSAValue
    before: Sequence[SSAValue]
    """The indices into the dimensions before that of the line."""
    after: Sequence[SSAValue] = ()
    """The indices into the dimensions after it."""

    @property
    def extent(self) -> int:
        """How many elements the line has."""
        return memref_type(self.memref).get_shape()[len(self.before)]

    def load(self, k: KernelBuilder, index: SSAValue) -> SSAValue:
        """One element."""
        return k.load(self.memref, [*self.before, index, *self.after])

    def store(self, k: KernelBuilder, value: SSAValue, index: SSAValue) -> None:
        """Write one element."""
        k.store(value, self.memref, [*self.before, index, *self.after])

    def fold(
        self,
        k: KernelBuilder,
        init: float,
        combine: Callable[[KernelBuilder, SSAValue, SSAValue], SSAValue],
    ) -> SSAValue:
        """
        A loop over all elements that carries one value, first `init`.

        `combine` is given the value so far and an element and returns the next value.
        """
        return k.accumulate(
            [(k.index(0), k.index(self.extent))],
            k.constant(init, memref_type(self.memref).element_type),
            lambda k, index, value: combine(k, value, self.load(k, index[0])),
        )
