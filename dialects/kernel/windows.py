"""Windows that move along a dimension: their arithmetic, and their taps in loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

MAX_UNROLLED = 32
"""The taps of a window that are combined without a loop."""
MAX_MULTIPLIED = 200
"""The taps of a line of a window that are multiplied without a loop."""
MIN_LINE = 4
"""The windows with all their taps that are worth a loop of their own."""
MAX_EDGES = 4
"""The other windows of a row that are written out beside such a loop."""

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array


class Taps(NamedTuple):
    """The taps of one window that lie inside the tensor, in a kernel."""

    start: SSAValue
    """The position of the window's first tap, negative if that is padding."""
    lower: SSAValue
    """The first tap inside."""
    upper: SSAValue
    """One more than the last tap inside."""


class Tap(NamedTuple):
    """One tap of a window, in a kernel."""

    position: SSAValue
    """Its position; that of the nearest element where it is outside the tensor."""
    weight: SSAValue | None
    """1 where it is inside the tensor, else 0, as a float; None if it always is."""

    def build_term(
        self, k: KernelBuilder, element: SSAValue, outside: float = 0
    ) -> SSAValue:
        """Build the element, or another number where the tap is outside."""
        if self.weight is None:
            return element
        zero = k.constant(0, element.type)
        other = k.constant(outside, element.type)
        return k.select(k.compare("gt", self.weight, zero), element, other)


class Window(NamedTuple):
    """
    A window along one dimension: `taps` elements, `dilation` apart, that start `before`
    elements ahead of the dimension and move on by `stride`, until the last one would
    end more than `after` elements behind it.

    With `ceil` the last window may end there, as long as it does not start there.
    """

    taps: int
    stride: int
    before: int
    after: int
    dilation: int = 1
    ceil: bool = False

    @property
    def span(self) -> int:
        """The elements from the first tap to the last."""
        return self.dilation * (self.taps - 1) + 1

    def count(self, extent: int) -> int:
        """The windows on a dimension of this extent, unless that is not known."""
        if DYNAMIC_INDEX in (extent, self.taps):
            return DYNAMIC_INDEX
        spare = self.before + extent + self.after - self.span
        last = -(-spare // self.stride) if self.ceil else spare // self.stride
        if self.ceil and last * self.stride >= extent + self.before:
            last -= 1
        if last < 0:
            raise VerifyException(
                f"a window that spans {self.span} does not fit into an extent of "
                f"{extent} with pads {self.before} and {self.after}"
            )
        return last + 1

    def overhang(self, extent: int) -> int:
        """The number of elements by which the last window ends behind the dimension."""
        last = (self.count(extent) - 1) * self.stride - self.before
        return max(0, last + self.span - extent)

    def taps_inside(self, extent: int, with_pads: bool = False) -> list[int]:
        """
        The number of taps of each window that lie inside a dimension of this extent, or
        inside it or its pads.
        """
        first, end = (-self.before, extent + self.after) if with_pads else (0, extent)
        starts = (
            index * self.stride - self.before for index in range(self.count(extent))
        )
        return [
            sum(first <= start + tap * self.dilation < end for tap in range(self.taps))
            for start in starts
        ]

    def count_taps(self, extent: int) -> int:
        """
        The number of taps of all windows that lie inside a dimension of this extent.
        """
        steps = (self.count(extent), self.stride), (self.taps, self.dilation)
        until = _sums_below(self.before + extent, *steps)
        return until - _sums_below(self.before, *steps)

    def whole(self, extent: int) -> range:
        """The windows all of whose taps lie inside a dimension of this extent."""
        first = -(-self.before // self.stride)
        end = (extent - self.span + self.before) // self.stride + 1
        return range(first, max(first, min(end, self.count(extent))))

    def kinds(self, extent: int) -> list[int]:
        """The first whole window, and all that are not whole."""
        return outside(self.whole(extent)[1:], self.count(extent))

    def inside(self, index: int, extent: int) -> list[int]:
        """The taps of a window that lie inside a dimension of this extent."""
        start = index * self.stride - self.before
        positions = (start + tap * self.dilation for tap in range(self.taps))
        return [tap for tap, at in enumerate(positions) if 0 <= at < extent]

    def build_tap(
        self,
        k: KernelBuilder,
        index: SSAValue,
        tap: int,
        extent: int,
        float: Attribute | None = None,
    ) -> Tap:
        """
        Find a tap of the window of this index in a dimension that has elements; with
        its weight, if a type of floats is given.
        """
        offset = tap * self.dilation - self.before
        start = index if self.stride == 1 else k.mul(index, k.index(self.stride))
        position = k.add(start, k.index(offset))
        last = offset + (self.count(extent) - 1) * self.stride
        if offset >= 0 and last < extent:
            return Tap(position, None)
        nearest = k.minimum(k.maximum(position, k.index(0)), k.index(extent - 1))
        if float is None:
            return Tap(nearest, None)
        one, zero = k.constant(1, float), k.constant(0, float)
        # All in a line is floats, so that what is the same in all turns is one, too.
        return Tap(nearest, k.select(k.compare("eq", position, nearest), one, zero))

    def build_start(self, k: KernelBuilder, index: SSAValue) -> SSAValue:
        """The position of the first tap of the window of this index."""
        start = index if self.stride == 1 else k.mul(index, k.index(self.stride))
        return k.sub(start, k.index(self.before)) if self.before else start

    def build_taps(self, k: KernelBuilder, index: SSAValue, extent: int) -> Taps:
        """Find the taps that the window of this index has inside a dimension."""
        start = self.build_start(k, index)
        lower, upper = k.index(0), k.index(self.taps)
        if self.before:
            lower = k.maximum(lower, self._taps_before(k, 0, start))
        if self.overhang(extent):
            upper = k.minimum(upper, self._taps_before(k, extent, start))
        return Taps(start, lower, upper)

    def build_taps_with_pads(
        self, k: KernelBuilder, start: SSAValue, extent: int
    ) -> SSAValue:
        """Count the taps of a window that lie inside a dimension or its pads."""
        taps = k.index(self.taps)
        if self.overhang(extent) <= self.after:
            return taps
        return k.minimum(taps, self._taps_before(k, extent + self.after, start))

    def _taps_before(self, k: KernelBuilder, end: int, start: SSAValue) -> SSAValue:
        """The number of taps before a position, if there are any."""
        elements = k.sub(k.index(end + self.dilation - 1), start)
        if self.dilation == 1:
            return elements
        return k.div(elements, k.index(self.dilation))

    def build_position(
        self, k: KernelBuilder, start: SSAValue, tap: SSAValue
    ) -> SSAValue:
        """The position of a tap of the window that starts at `start`."""
        if self.dilation != 1:
            tap = k.mul(tap, k.index(self.dilation))
        return k.add(start, tap)


class WindowedAxis(NamedTuple):
    """A dimension of a factor of a contraction that two of its loops index."""

    operand: int
    """The number of the factor."""
    axis: int
    column: int
    """The loop over places, as the next one over what lies in the window at each."""
    term: int
    extent: int
    """The elements of the dimension, without zeros around them."""
    window: Window


def outside(numbers: range, count: int) -> list[int]:
    """The numbers from 0 up to a count that are none of some consecutive ones."""
    if not numbers:
        return [*range(count)]
    return [*range(numbers.start), *range(numbers.stop, count)]


def check_pads(windows: Sequence[Window]) -> None:
    """Raise `VerifyException` if a window may have no tap in its dimension."""
    for window in windows:
        if max(window.before, window.after) >= window.taps:
            raise VerifyException(
                f"pads {window.before} and {window.after} should be less than the "
                f"window's {window.taps} taps"
            )


def _sums_below(end: int, one: tuple[int, int], other: tuple[int, int]) -> int:
    """
    The number of sums `i * step + j * width` below an end, where i counts up to the
    first number of `one = (count, step)` and j to that of `other = (size, width)`.
    """
    (count, step), (size, width) = one, other
    # Beyond `some` no i is small enough, and up to `all_of_it` each one is.
    some = min(size, max(0, -(-end // width)))
    all_of_it = min(some, max(0, -(-(end - (count - 1) * step) // width)))
    rest = some - all_of_it
    start = end - (some - 1) * width + step - 1
    return all_of_it * count + _floor_sum(rest, start, width, step)


def _floor_sum(count: int, start: int, step: int, divisor: int) -> int:
    """
    The sum of `(start + i * step) // divisor` for i below a count, by Euclid's
    algorithm on step and divisor: lattice points below a line.
    """
    total = 0
    while count > 0:
        total += count * (count - 1) // 2 * (step // divisor)
        total += count * (start // divisor)
        step, start = step % divisor, start % divisor
        last = step * count + start
        count, start = divmod(last, divisor)
        step, divisor = divisor, step
    return total


def are_lines(windows: tuple[Window, Window], extents: Sequence[int]) -> bool:
    """
    Whether most windows of a row have all their taps across, and these are few, so that
    one loop without another in it is worth its while. Images should be static.
    """
    down, across = windows
    whole = len(across.whole(extents[1]))
    return (
        extents[0] > 0
        and down.taps * across.taps <= MAX_UNROLLED
        and whole >= MIN_LINE
        and across.count(extents[1]) - whole <= MAX_EDGES
    )


def are_rows(shape: Sequence[int], pads: Sequence[tuple[int, int]]) -> bool:
    """
    Whether a number is put around images alone, and few times at the ends of a row, so
    that the elements between them are worth a loop.
    """
    return (
        len(shape) >= 2
        and not any(map(any, pads[:-2]))
        and 0 not in shape
        and shape[-1] >= MIN_LINE
        and sum(pads[-1]) <= 2 * MAX_EDGES
    )


def are_multiplied(windows: Sequence[Window], extents: Sequence[int]) -> bool:
    """
    Whether windows of one channel have so few taps in a line that these are multiplied
    without a loop, wherever they lie in an image. Images should be static.
    """
    taps = [window.taps for window in windows]
    return extents[0] > 0 and 0 not in taps and taps[-1] <= MAX_MULTIPLIED


def window_view(
    array: Array,
    windows: Sequence[Window],
    padding: float,
    dims: Sequence[int] | None = None,
) -> Array:
    """
    The elements of an array under each window, with `padding` outside: an array that
    counts windows along their dimensions, by default the last ones, and has dimensions
    for the taps of each behind all.
    """
    import numpy as np

    dims = range(array.ndim - len(windows), array.ndim) if dims is None else dims
    widths, places = [(0, 0)] * array.ndim, [slice(None)] * array.ndim
    for dim, window in zip(dims, windows, strict=True):
        extent = array.shape[dim]
        widths[dim] = window.before, window.overhang(extent)
        places[dim] = slice(0, window.count(extent) * window.stride, window.stride)
    padded = np.pad(array, widths, constant_values=padding)
    spans = tuple(window.span for window in windows)
    view = np.lib.stride_tricks.sliding_window_view(padded, spans, tuple(dims))
    return view[*places, *(slice(0, None, window.dilation) for window in windows)]
