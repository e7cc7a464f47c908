"""
The analysis of contractions as convolutions of a library, by which loops index what.

An image is `[batch, groups x channels, places]`, filters are `[groups x filters,
channels, window]`, and the result is `[batch, groups x filters, places]`; each of these
may be absent. A place of the image is a loop of the result times a stride, and a loop
of the window times a dilation; there is no padding, as another kernel pads. Channels of
images may also come last, as libraries are told all strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from xdsl.dialects.builtin import MemRefType
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.loops import Nest, access_of, row_major
from penstock.dialects.utils.hints import isa
from penstock.lowering.codegen.body.contraction import (
    Contraction,
    sums_nest,
)

MOST_PLACES = 3
"""The dimensions that images of libraries have at most."""
IRREGULAR = "its loops are not those of a convolution"
BETWEEN = "its channels or images are not equally far apart"


def convolution_of(op: ContractOp, contraction: Contraction) -> dict[str, object] | str:
    """
    A contraction with windows as a
    `penstock.runtime.cuda.libraries.problems.Convolution` by its fields but `adds`; or
    why it is none.
    """
    return _Loops(op, contraction, sums_nest(op)).facts()


@dataclass(frozen=True)
class _Dimension:
    """A dimension of images that is not of channels."""

    along: int | None
    """The loop of the result that walks it."""
    tap: int | None
    """The loop of the window."""
    places: int
    window: int
    stride: int
    dilation: int
    step: int
    """From an element of the image to the next."""
    extent: int
    """The number of elements."""

    @property
    def reached(self) -> int:
        """
        The elements up to the last one that a window reaches and, if they are there,
        those behind it which are too few for another place.
        """
        last = (self.places - 1) * self.stride + (self.window - 1) * self.dilation
        return min(self.extent, last + self.stride)


class _Loops:
    """The loops of a contraction by what they walk: images, filters, and result."""

    def __init__(self, op: ContractOp, contraction: Contraction, nest: Nest):
        self._element, self._extents = contraction.element, nest.extents
        self._x, self._w, self._o = (
            nest.accesses[number].strides
            for number in (contraction.b, contraction.a, -1)
        )
        image = op.operands[contraction.b].type
        assert isa(image, MemRefType), "operands of contractions are buffers"
        self._shape = image.get_shape()
        self._exprs = op.maps()[contraction.b].results
        moving = [loop for loop, extent in enumerate(nest.extents) if extent > 1]
        self._terms = [loop for loop in moving if nest.reductions[loop]]
        self._others = [loop for loop in moving if not nest.reductions[loop]]

    def facts(self) -> dict[str, object] | str:
        """The description of the convolution for the library, or why there is none."""
        group, filters = self._walking(x=True), self._walking(x=False)
        channel = [loop for loop in self._terms if self._is_bare(loop)]
        found = self._dimensions({*group, *channel})
        if found is None or max(map(len, (group, filters, channel))) > 1:
            return IRREGULAR
        walked = {loop for each in found for loop in (each.along, each.tap)}
        walked |= {*group, *filters, *channel}
        images = [x for x in self._others if self._x[x] and x not in walked]
        images.sort(key=lambda loop: -self._o[loop])
        if not walked.union(images).issuperset((*self._others, *self._terms)):
            return IRREGULAR
        taps = [each.tap for each in found]
        if not self._is_dense([*group, *filters, *channel, *taps]):
            return "its filters do not follow each other"
        own = [0 if each.along is None else self._o[each.along] for each in found]
        x_steps = self._steps(self._x, images, [*group, *channel])
        o_steps = self._steps(self._o, images, [*group, *filters])
        if x_steps is None or o_steps is None:
            return BETWEEN
        return {
            "element": self._element,
            "batch": prod(map(self._extent, images)),
            "groups": prod(map(self._extent, group)),
            "channels": prod(map(self._extent, channel)),
            "filters": prod(map(self._extent, filters)),
            "places": tuple(each.places for each in found),
            "x_places": tuple(each.reached for each in found),
            "window": tuple(each.window for each in found),
            "strides": tuple(each.stride for each in found),
            "dilations": tuple(each.dilation for each in found),
            "x_steps": (*x_steps, *(each.step for each in found)),
            "o_steps": (*o_steps, *own),
        }

    def _extent(self, loop: int | None) -> int:
        return 1 if loop is None else self._extents[loop]

    def _factor(self, loop: int | None, step: int) -> int:
        """The number of places of the image that an iteration of a loop moves."""
        return 1 if loop is None else self._x[loop] // step

    def _walking(self, *, x: bool) -> list[int]:
        """The loops of the result that walk filters, and images or not."""
        return [
            loop for loop in self._others if self._w[loop] and bool(self._x[loop]) == x
        ]

    def _is_bare(self, loop: int) -> bool:
        """Whether a loop is an index of the image on its own."""
        return any(
            isinstance(expr, AffineDimExpr) and expr.position == loop
            for expr in self._exprs
        )

    def _dimensions(self, channels: set[int]) -> list[_Dimension] | None:
        """
        The dimensions of images behind their channels, and those ahead of them that
        windows or strides are in; None if loops are shared otherwise.
        """
        found: list[_Dimension] = []
        is_behind = False
        rows = zip(self._exprs, row_major(self._shape), self._shape, strict=True)
        for expr, step, extent in rows:
            loops = self._loops_of(expr)
            if channels & {*loops}:
                is_behind = True
                continue
            along = [loop for loop in loops if loop in self._others]
            taps = [loop for loop in loops if loop in self._terms]
            if len(along) > 1 or len(taps) > 1:
                return None
            made = self._dimension(along, taps, step, extent)
            # Ahead of channels, places that are walked one by one are as images.
            if taps or is_behind or made.stride > 1:
                found.append(made)
        return found if 0 < len(found) <= MOST_PLACES else None

    def _dimension(
        self, along: Sequence[int], taps: Sequence[int], step: int, extent: int
    ) -> _Dimension:
        """A dimension that up to one loop of the result and of the window walk."""
        place, tap = next(iter(along), None), next(iter(taps), None)
        return _Dimension(
            *(place, tap, self._extent(place), self._extent(tap)),
            *(self._factor(place, step), self._factor(tap, step), step, extent),
        )

    def _loops_of(self, expr: AffineExpr) -> list[int]:
        """The loops that move an index."""
        access = access_of(AffineMap(len(self._extents), 0, (expr,)), (1,))
        assert access is not None, "the maps of contractions are linear"
        moving = *self._others, *self._terms
        return [loop for loop in moving if access.strides[loop]]

    def _is_dense(self, loops: Sequence[int | None]) -> bool:
        """Whether the elements of the filters are contiguous in this order."""
        step = 1
        for loop in reversed([x for x in loops if x is not None]):
            if self._w[loop] != step:
                return False
            step *= self._extents[loop]
        return True

    def _steps(
        self,
        strides: Sequence[int],
        images: Sequence[int],
        channels: Sequence[int],
    ) -> tuple[int, int] | None:
        """
        From an image and from a channel of all groups to the next, 0 where there is but
        one; None if they are not equally far apart. Loops lie from the outermost to the
        innermost.
        """
        for loops in (images, channels):
            for outer, inner in pairwise(loops):
                if strides[outer] != strides[inner] * self._extents[inner]:
                    return None
        image, channel = (
            strides[loops[-1]] if loops else 0 for loops in (images, channels)
        )
        return image, channel
