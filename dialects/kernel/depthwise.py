"""
Contractions that are depthwise convolutions: each channel of the result is one channel
of images under windows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from penstock.dialects.kernel.interface import StructuredOp, element_of, shape_of
from penstock.dialects.kernel.views import PaddedOp
from penstock.dialects.kernel.windows import (
    Window,
    WindowedAxis,
    are_lines,
    are_multiplied,
    outside,
)

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder


class Depthwise(NamedTuple):
    """
    Such a convolution by its memrefs, which have any shape with as many elements in the
    same order: images [n, groups, h, w], weights [groups * times, 1, taps down, taps
    across], a bias [groups * times] if there is one, and the result [n, groups * times,
    rows, columns].
    """

    windows: tuple[Window, Window]
    images: int
    groups: int
    times: int
    input: SSAValue
    weights: SSAValue
    bias: SSAValue | None
    out: SSAValue

    @property
    def has_lines(self) -> bool:
        """Whether rows are worth loops of their own, as `build` makes."""
        return are_lines(self.windows, shape_of(self.input)[-2:])

    def build(self, k: KernelBuilder) -> None:
        """
        Build the stage. The columns of a row that have all their taps are computed in
        one loop, those at its ends without one.
        """
        outputs = self.groups * self.times
        taps = [window.taps for window in self.windows]
        input, out = shape_of(self.input)[-2:], shape_of(self.out)[-2:]
        own = self._replace(
            input=k.view(self.input, [self.images, self.groups, *input]),
            weights=k.view(self.weights, [outputs, 1, *taps]),
            bias=None if self.bias is None else k.view(self.bias, [outputs]),
            out=k.view(self.out, [self.images, outputs, *out]),
        )
        rows, columns = out
        whole = self.windows[1].whole(input[1])

        def body(k: KernelBuilder, place: Sequence[SSAValue]) -> None:
            element = own.build_row(k, place)

            def write(k: KernelBuilder, column: SSAValue, like: int) -> None:
                k.store(element(k, column, like), own.out, [*place, column])

            k.each_in(whole, lambda k, column: write(k, column, whole.start))
            for column in outside(whole, columns):
                write(k, k.index(column), column)

        k.parallel([self.images, outputs, rows], body)

    def build_row(
        self, k: KernelBuilder, place: Sequence[SSAValue]
    ) -> Callable[[KernelBuilder, SSAValue, int], SSAValue]:
        """
        A function that builds an element of a row of the result, given its column and
        the number of some column that has the same taps.
        """
        element_type = element_of(self.input)
        height, width = shape_of(self.input)[2:]
        image, output, row = place
        down, across = self.windows
        group = output if self.times == 1 else k.div(output, k.index(self.times))
        lines = [
            down.build_tap(k, row, tap, height, element_type)
            for tap in range(down.taps)
        ]
        zero = k.index(0)
        weights = {
            (i, j): k.load(self.weights, [output, zero, k.index(i), k.index(j)])
            for i in range(down.taps)
            for j in range(across.taps)
        }
        if self.bias is None:
            start = k.constant(0, element_type)
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


FIRST, LAST, ALL = slice(None, -2), slice(-2, None), slice(None)
"""The dimensions of channels, those of windows or taps, and both."""


def may_be_depthwise(a: AffineMap, b: AffineMap, out: AffineMap) -> bool:
    """
    Whether one of two factors may be images under windows, whose channels the other one
    and the result have. That is asked of all contractions, and takes no time.
    """
    for image, weights in ((a, b), (b, a)):
        channel, *places = image.results[-3:] or (None,)
        is_shared = channel in weights.results and channel in out.results
        is_bare = any(isinstance(expr, AffineDimExpr) for expr in places)
        if len(places) == 2 and is_shared and not is_bare:
            return True
    return False


def depthwise_of(
    op: StructuredOp, axes: Sequence[WindowedAxis], bias: SSAValue | None
) -> Depthwise | None:
    """
    The depthwise convolution that a contraction is, if it is one: its factors, result
    and start are the first that it accesses, and have windows along some axes.

    Windows are along the last two dimensions of one factor, and have few enough taps to
    be multiplied without a loop. A channel of the other factor belongs to one
    channel of this one.
    """
    if len(axes) != 2 or axes[0].operand != axes[1].operand:
        return None
    image, out = axes[0].operand, 2
    weights, rank = 1 - image, len(op.maps()[image].results)
    of_image, of_weights = (_loops_of(op, n, FIRST) for n in (image, weights))
    if [x.axis for x in axes] != [rank - 2, rank - 1] or not of_image or not of_weights:
        return None
    (*others, group), of_group = of_image, of_weights[1:]
    columns, terms = [x.column for x in axes], [x.term for x in axes]
    channels = [group, *of_group]
    wanted = [
        (weights, LAST, terms),
        (out, FIRST, [*others, *channels]),
        (out, LAST, columns),
        *([] if bias is None else [(out + 1, ALL, channels)]),
    ]
    if of_weights[0] != group or any(
        _loops_of(op, number, dims) != loops for number, dims, loops in wanted
    ):
        return None
    extents = op.loops().extents
    known = {*others, group, *of_group, *columns, *terms}
    if len(known) != len(extents) or extents[group] == 1:
        return None
    down, across = (axis.window for axis in axes)
    operands = op.accessed()
    if not _is_regular(operands[image], operands[out], (down, across)):
        return None
    owner = operands[image].owner
    return Depthwise(
        (down, across),
        prod(extents[loop] for loop in others),
        extents[group],
        prod(extents[loop] for loop in of_group),
        owner.source if isinstance(owner, PaddedOp) else operands[image],
        operands[weights],
        bias,
        operands[out],
    )


def _loops_of(op: StructuredOp, number: int, dims: slice) -> list[int] | None:
    """
    The loops that walk some dimensions of an operand, one each; those of one element
    may have none. None if there are others, or elements are left out.
    """
    value, extents = op.accessed()[number], op.loops().extents
    owner = value.owner
    if isinstance(owner, PaddedOp) and any(map(any, owner.pads[dims])):
        return None
    found: list[int] = []
    exprs = op.maps()[number].results[dims]
    for expr, extent in zip(exprs, shape_of(value)[dims], strict=True):
        if isinstance(expr, AffineDimExpr) and extents[expr.position] == extent:
            found.append(expr.position)
        elif extent != 1:
            return None
    return found


def _is_regular(input: SSAValue, out: SSAValue, windows: tuple[Window, Window]) -> bool:
    """Whether windows fill the pads around images, and are multiplied."""
    owner, image = input.owner, shape_of(input)[-2:]
    if isinstance(owner, PaddedOp):
        image = owner.shape[-2:]
        if owner.number != 0:
            return False
    if any(min(window.stride, window.dilation) < 1 for window in windows):
        return False
    counts = tuple(
        window.count(extent) for window, extent in zip(windows, image, strict=True)
    )
    return counts == shape_of(out)[-2:] and are_multiplied(windows, image)
