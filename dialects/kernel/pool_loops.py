"""The loops that a `kernel.pool` stands for: over windows, and over their taps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod

from xdsl.ir import Attribute, SSAValue

from penstock.dialects.kernel.body_ops import Fold
from penstock.dialects.kernel.builder import KernelBuilder, memref_type
from penstock.dialects.kernel.folds import folded, neutral
from penstock.dialects.kernel.windows import Tap, Taps, Window, are_lines, outside


@dataclass(frozen=True)
class PoolLoops:
    """
    The builder of the stage of a pool. Where most windows of a row have all their taps,
    and these are few, a loop over these windows has no loop over taps in it.
    """

    fold: Fold
    windows: Sequence[Window]
    dims: Sequence[int]
    is_mean: bool
    counts_pads: bool

    def build(self, k: KernelBuilder, input: SSAValue, out: SSAValue) -> None:
        """Build the stage."""
        shape = memref_type(input).get_shape()
        last = [len(shape) - 2, len(shape) - 1]
        if [*self.dims] == last and self._has_lines(shape[-2:]):
            self._build_lines(k, input, out)
        else:
            self.build_each(k, input, out)

    def _has_lines(self, extents: Sequence[int]) -> bool:
        down, across = self.windows
        is_near = down.dilation == across.dilation == 1
        return is_near and are_lines((down, across), extents)

    def _combine(self, k: KernelBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
        return folded(k, self.fold, a, b, in_order=True)

    # Each window on its own

    def build_each(self, k: KernelBuilder, input: SSAValue, out: SSAValue) -> None:
        """Build each window on its own, with loops over those taps that are inside."""
        type = memref_type(input)
        extents = [type.get_shape()[dim] for dim in self.dims]

        def body(k: KernelBuilder, indices: Sequence[SSAValue]) -> None:
            taps = tuple(
                window.build_taps(k, indices[dim], extent)
                for window, dim, extent in zip(
                    self.windows, self.dims, extents, strict=True
                )
            )
            element = type.element_type
            init = k.constant(neutral(self.fold, element), element)
            combined = self._build_loops(k, input, indices, taps, init)
            divisor = self._build_divisor(k, taps, extents, element)
            k.store(_divided(k, combined, divisor), out, indices)

        k.parallel(memref_type(out).get_shape(), body)

    def build_taps(self, k: KernelBuilder, input: SSAValue, out: SSAValue) -> None:
        """
        Build each window on its own, with its taps one after the other. Those outside
        of images, which have elements, are the nearest ones inside, or count as 0.
        """
        type = memref_type(input)
        extents = [type.get_shape()[dim] for dim in self.dims]
        kind = type.element_type if self.is_mean else None

        def body(k: KernelBuilder, place: Sequence[SSAValue]) -> None:
            axes = [*zip(self.windows, self.dims, extents, strict=True)]
            taps = [
                [
                    window.build_tap(k, place[dim], tap, extent, kind)
                    for tap in range(window.taps)
                ]
                for window, dim, extent in axes
            ]
            terms = (self._build_term(k, input, place, each) for each in product(*taps))
            combined = reduce(lambda a, b: self._combine(k, a, b), terms)
            ranges = [
                window.build_taps(k, place[dim], extent)
                for window, dim, extent in axes
                if self.is_mean
            ]
            divisor = self._build_divisor(k, ranges, extents, type.element_type)
            k.store(_divided(k, combined, divisor), out, place)

        k.parallel(memref_type(out).get_shape(), body)

    def _build_term(
        self,
        k: KernelBuilder,
        input: SSAValue,
        place: Sequence[SSAValue],
        taps: Sequence[Tap],
    ) -> SSAValue:
        """The element of a window at a tap of each dimension."""
        at = [*place]
        for dim, tap in zip(self.dims, taps, strict=True):
            at[dim] = tap.position
        element = k.load(input, at)
        return reduce(lambda term, tap: tap.build_term(k, term), taps, element)

    def _build_loops(
        self,
        k: KernelBuilder,
        input: SSAValue,
        place: Sequence[SSAValue],
        taps: Sequence[Taps],
        init: SSAValue,
    ) -> SSAValue:
        """Loops over the elements of one window."""

        def body(
            k: KernelBuilder, indices: Sequence[SSAValue], combined: SSAValue
        ) -> SSAValue:
            at = [*place]
            for dim, window, tap, index in zip(
                self.dims, self.windows, taps, indices, strict=True
            ):
                at[dim] = window.build_position(k, tap.start, index)
            return self._combine(k, combined, k.load(input, at))

        return k.accumulate([(tap.lower, tap.upper) for tap in taps], init, body)

    def _build_divisor(
        self,
        k: KernelBuilder,
        taps: Sequence[Taps],
        extents: Sequence[int],
        float: Attribute,
    ) -> SSAValue | None:
        """The number of elements of a window that count, for a mean."""
        if not self.is_mean:
            return None
        counts = [
            window.build_taps_with_pads(k, tap.start, extent)
            if self.counts_pads
            else k.sub(tap.upper, tap.lower)
            for window, tap, extent in zip(self.windows, taps, extents, strict=True)
        ]
        return k.index_to_float(reduce(k.mul, counts), float)

    # Rows of windows

    def _build_lines(self, k: KernelBuilder, input: SSAValue, out: SSAValue) -> None:
        """The windows of a row in a loop, but for those at its ends."""
        *others, height, width = memref_type(input).get_shape()
        rows, columns = memref_type(out).get_shape()[-2:]
        planes = prod(others)
        source = k.view(input, [planes, height, width])
        target = k.view(out, [planes, rows, columns])
        whole = self.windows[1].whole(width)

        def body(k: KernelBuilder, place: Sequence[SSAValue]) -> None:
            row = self._build_row(k, source, place)

            def write(k: KernelBuilder, column: SSAValue, first: int) -> None:
                k.store(row(k, column, first), target, [*place, column])

            k.each_in(whole, lambda k, column: write(k, column, whole.start))
            for column in outside(whole, columns):
                write(k, k.index(column), column)

        k.parallel([planes, rows], body)

    def _build_row(
        self, k: KernelBuilder, source: SSAValue, place: Sequence[SSAValue]
    ) -> Callable[[KernelBuilder, SSAValue, int], SSAValue]:
        """
        A function that builds the result of a window of a row of a plane, given its
        column, and the number of some column that has the same taps.

        Taps above and below the image are the nearest ones inside, or count as 0.
        """
        type = memref_type(source)
        _, height, width = type.get_shape()
        plane, row = place
        down, across = self.windows
        # The largest of a window is the same if an element of it is there twice.
        kind = type.element_type if self.is_mean else None
        lines = [down.build_tap(k, row, tap, height, kind) for tap in range(down.taps)]
        rows = down.build_taps(k, row, height)
        divisors = {
            column: self._build_divisor(
                k,
                (rows, across.build_taps(k, k.index(column), width)),
                (height, width),
                type.element_type,
            )
            for column in across.kinds(width)
        }

        def result(k: KernelBuilder, column: SSAValue, like: int) -> SSAValue:
            start = k.mul(column, k.index(across.stride))
            inside = across.inside(like, width)
            columns = [k.add(start, k.index(tap - across.before)) for tap in inside]
            terms = (
                line.build_term(k, k.load(source, [plane, line.position, column]))
                for line in lines
                for column in columns
            )
            combined = reduce(lambda a, b: self._combine(k, a, b), terms)
            return _divided(k, combined, divisors[like])

        return result


def _divided(
    k: KernelBuilder, combined: SSAValue, divisor: SSAValue | None
) -> SSAValue:
    return combined if divisor is None else k.div(combined, divisor)
