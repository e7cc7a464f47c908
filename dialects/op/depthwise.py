"""Kernels of depthwise convolutions: each out channel depends on one channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from xdsl.ir import SSAValue

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.kernel.windows import Window, outside
from penstock.dialects.launch.stages import WINDOWS
from penstock.dialects.op.windows import windows_attribute

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder


class Depthwise(NamedTuple):
    """
    The builder of the stage of such a convolution, from the memrefs of images [n,
    groups, h, w], weights [groups * m, 1, taps down, taps across], a bias [groups * m]
    if there is one, and the result [n, groups * m, rows, columns].

    The columns of a row that have all their taps are computed in one loop, those at
    its ends without one.
    """

    windows: tuple[Window, Window]
    input: SSAValue
    weights: SSAValue
    bias: SSAValue | None
    out: SSAValue

    def build(self, k: KernelBuilder) -> None:
        """Build the stage."""
        images, outputs, rows, columns = memref_type(self.out).get_shape()
        width = memref_type(self.input).get_shape()[3]
        across = self.windows[1]
        whole = across.whole(width)

        def body(k: KernelBuilder, place: Sequence[SSAValue]) -> None:
            element = self._build_row(k, place)

            def write(k: KernelBuilder, column: SSAValue, like: int) -> None:
                k.store(element(k, column, like), self.out, [*place, column])

            k.each_in(whole, lambda k, column: write(k, column, whole.start))
            for column in outside(whole, columns):
                write(k, k.index(column), column)

        stage = k.parallel([images, outputs, rows], body)
        stage.attributes[WINDOWS] = windows_attribute(self.windows)

    def _build_row(
        self, k: KernelBuilder, place: Sequence[SSAValue]
    ) -> Callable[[KernelBuilder, SSAValue, int], SSAValue]:
        """
        A function that builds an element of a row of the result, given its column and
        the number of some column that has the same taps.
        """
        type = memref_type(self.input)
        _, groups, height, width = type.get_shape()
        image, output, row = place
        down, across = self.windows
        of_group = memref_type(self.out).get_shape()[1] // groups
        group = output if of_group == 1 else k.div(output, k.index(of_group))
        lines = [
            down.build_tap(k, row, tap, height, type.element_type)
            for tap in range(down.taps)
        ]
        zero = k.index(0)
        weights = {
            (i, j): k.load(self.weights, [output, zero, k.index(i), k.index(j)])
            for i in range(down.taps)
            for j in range(across.taps)
        }
        if self.bias is None:
            start = k.constant(0, type.element_type)
        else:
            start = k.load(self.bias, [output])

        def element(k: KernelBuilder, column: SSAValue, like: int) -> SSAValue:
            first = k.mul(column, k.index(across.stride))
            total = start
            for j in across.inside(like, width):
                at = k.add(first, k.index(j * across.dilation - across.before))
                for i, line in enumerate(lines):
                    x = k.load(self.input, [image, group, line.position, at])
                    term = k.mul(line.build_term(k, x), weights[i, j])
                    total = k.add(total, term)
            return total

        return element
