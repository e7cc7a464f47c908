"""
Micro-kernels of depthwise convolutions, one call a channel: `depthwise_micro_kernel`.

A tile is some lines of the result by some vectors, with SIMD lanes along lines.
Elements outside of the image are masked when they are loaded, so nothing is padded
before, and the ends of lines need no code of their own. Taps that follow each other
share the vectors that they load, if each is multiplied once: elements that are `stride`
apart are picked out of them, and moved by the distance of two taps, by shuffles.

The place of a tile is a constant of its code, except for tiles inside of the image,
which are alike. Windows of many taps are *looped*: a tile is one line of the result,
and a loop runs over the lines of the window that are inside of the image.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportReturnType=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from penstock.runtime.kernels.cpu.simd import (
    BIT,
    Code,
    LlvmValue,
    internal_function,
    word,
)
from penstock.runtime.kernels.cpu.window import Axis

BUSY = 8
"""The sums that keep a processor busy."""
SHARING = 2
"""
The taps that share loads, of each phase of a stride, where a loaded vector is
multiplied once. Shuffles keep a processor as busy as loads across cache lines do.
"""


@dataclass(frozen=True)
class _Tile:
    """Lines and columns of the result: the first ones, and how many lines."""

    line: int
    lines: int
    column: int


@dataclass
class _Elements:
    """The elements of a line of the image that taps of the windows of a tile see."""

    code: Code
    axis: Axis
    lanes: int
    columns: range
    """The columns of the result."""
    address: LlvmValue
    """The address of the line."""
    anchor: int
    """The tap at whose first element loads begin."""
    known: dict[tuple[int, int], LlvmValue] = field(
        default_factory=dict[tuple[int, int], LlvmValue]
    )
    """Vectors by their phase and number; loaded ones have no phase, -1."""

    def under(self, tap: int, number: int) -> LlvmValue:
        """The elements that a tap sees at the columns of the vector of a number."""
        behind = (tap - self.anchor) * self.axis.dilation
        moved, phase = divmod(behind, self.axis.stride)
        first, lane = divmod(number * self.lanes + moved, self.lanes)
        vector = self._apart(phase, first)
        if not lane:
            return vector
        next = self._apart(phase, first + 1)
        return self.code.shuffled(vector, next, range(lane, lane + self.lanes))

    def _apart(self, phase: int, number: int) -> LlvmValue:
        """The vector of a number of the elements a stride apart from a phase on."""
        stride, lanes = self.axis.stride, self.lanes
        if stride == 1:
            return self._loaded(number)
        if (phase, number) in self.known:
            return self.known[phase, number]
        firsts = (phase + (number * lanes + lane) * stride for lane in range(lanes))
        places = [divmod(place, lanes) for place in firsts]
        first, *others = dict.fromkeys(vector for vector, _ in places)
        # The first shuffle places lanes of two vectors, each other one those of one.
        found, placed = self._loaded(first), [at for _, at in places]
        for other in others:
            picked = [
                lanes + at if vector == other else placed[lane]
                for lane, (vector, at) in enumerate(places)
            ]
            found = self.code.shuffled(found, self._loaded(other), picked)
            placed = [*range(lanes)]
        self.known[phase, number] = found
        return found

    def _loaded(self, number: int) -> LlvmValue:
        """The vector of a number from the anchor on, without what no tap sees."""
        if (-1, number) in self.known:
            return self.known[-1, number]
        axis, lanes = self.axis, self.lanes
        place = axis.position(self.columns.start, self.anchor) + number * lanes
        last = axis.position(self.columns[-1], axis.taps - 1)
        bits = [axis.has(at) and at <= last for at in range(place, place + lanes)]
        if not any(bits):
            found = self.code.zero(lanes)
        elif all(bits):
            found = self.code.load(self.address, place, lanes)
        else:
            mask = ir.Constant(ir.VectorType(BIT, lanes), [*map(int, bits)])
            found = self.code.load(self.address, place, lanes, mask)
        self.known[-1, number] = found
        return found


@dataclass(frozen=True)
class _Plane:
    """Emits the convolution of one channel."""

    element: str
    lanes: int
    lines: int
    vectors: int
    down: Axis
    across: Axis
    bias: bool
    looped: bool

    def emit(self, module: ir.Module) -> ir.Function:
        """Add the function of addresses to a module."""
        function, builder = internal_function(module, "plane", 4)
        code = Code(builder, self.element)
        image, weights, bias, out = function.args
        start = code.zero(self.lanes)
        if self.bias:
            start = code.splat(code.load_scalar(bias, 0), self.lanes)
        beyond = self._emit_beyond(code, weights)
        if self.looped:
            _Looped(self, code, weights, start, beyond).emit(image, out)
        else:
            self._emit_tiles(code, image, weights, out, start, beyond)
        code.builder.ret_void()
        return function

    @property
    def sharing(self) -> int:
        """The taps of a line of a window that share loads, as phases of a stride do."""
        taps = 1 if self.looped else self.down.taps
        lines = (self.lines - 1) * self.down.stride + taps
        stride = self.across.stride
        return stride * (SHARING if self.lines * taps <= lines * stride else 1)

    def groups(self) -> Iterator[range]:
        """The taps of a line of a window, in groups that share loads."""
        taps = self.across.taps
        for first in range(0, taps, self.sharing):
            yield range(first, min(taps, first + self.sharing))

    def elements(
        self, code: Code, line: LlvmValue, column: int, anchor: int
    ) -> _Elements:
        """The elements of a line of the image for the columns of a tile."""
        end = min(column + self.vectors * self.lanes, self.across.count)
        columns = range(column, end)
        return _Elements(code, self.across, self.lanes, columns, line, anchor)

    def vectors_from(self, column: int) -> range:
        """The numbers of the vectors of a tile, of which the last ones may be none."""
        rest = -(-(self.across.count - column) // self.lanes)
        return range(min(self.vectors, rest))

    def emit_columns(
        self,
        code: Code,
        places: tuple[LlvmValue, LlvmValue],
        emit: Callable[[int, LlvmValue, LlvmValue], None],
    ) -> None:
        """Emit all tiles of some lines: `emit` gets a column, image and result."""
        size = self.vectors * self.lanes
        for column, _, turns in self.across.runs(size):

            def block(
                at: LlvmValue, _: Sequence[LlvmValue], column: int = column
            ) -> Sequence[LlvmValue]:
                image = code.advanced(places[0], at, size * self.across.stride)
                emit(column, image, code.advanced(places[1], at, size))
                return ()

            code.loop(word(turns), 1, (), block)

    def write(
        self,
        code: Code,
        line: int,
        column: int,
        out: LlvmValue,
        sums: Sequence[LlvmValue],
    ) -> None:
        """Store the vectors of a line of a tile."""
        for number, value in enumerate(sums):
            first = column + number * self.lanes
            mask, rest = None, self.across.count - first
            if rest < self.lanes:
                bits = [1] * rest + [0] * (self.lanes - rest)
                mask = ir.Constant(ir.VectorType(BIT, self.lanes), bits)
            code.store(value, out, line * self.across.count + first, mask)

    def _emit_tiles(
        self,
        code: Code,
        image: LlvmValue,
        weights: LlvmValue,
        out: LlvmValue,
        start: LlvmValue,
        beyond: LlvmValue,
    ) -> None:
        """Emit tiles whose lines of windows are in the code."""
        for line, lines, turns in self.down.runs(self.lines):
            of_image = lines * self.down.stride * self.across.extent
            of_out = lines * self.across.count

            def block(
                at: LlvmValue,
                _: Sequence[LlvmValue],
                line: int = line,
                lines: int = lines,
                steps: tuple[int, int] = (of_image, of_out),
            ) -> Sequence[LlvmValue]:
                def emit(column: int, image: LlvmValue, out: LlvmValue) -> None:
                    tile = _Tile(line, lines, column)
                    sums = self._sums(code, tile, image, weights, start, beyond)
                    for number, of_line in enumerate(sums):
                        self.write(code, line + number, column, out, of_line)

                places = (
                    code.advanced(image, at, steps[0]),
                    code.advanced(out, at, steps[1]),
                )
                self.emit_columns(code, places, emit)
                return ()

            code.loop(word(turns), 1, (), block)

    def _sums(
        self,
        code: Code,
        tile: _Tile,
        image: LlvmValue,
        weights: LlvmValue,
        start: LlvmValue,
        beyond: LlvmValue,
    ) -> Sequence[Sequence[LlvmValue]]:
        """
        The sums of a tile. Each line of the image is loaded once for each group of taps
        across, and multiplied by all their factors at once, which stay in registers.
        """
        vectors = self.vectors_from(tile.column)
        seen: dict[int, list[tuple[int, int]]] = {}
        outside: dict[int, list[int]] = {}
        for line in range(tile.lines):
            for tap in range(self.down.taps):
                at = self.down.position(tile.line + line, tap)
                if self.down.has(at):
                    seen.setdefault(at, []).append((line, tap))
                else:
                    outside.setdefault(tap, []).append(line)
        sums = [[start for _ in vectors] for _ in range(tile.lines)]
        for tap, lines in outside.items():
            of_zeros = code.splat(code.load_scalar(beyond, tap), self.lanes)
            for line in lines:
                sums[line] = [code.added(value, of_zeros) for value in sums[line]]
        for taps in self.groups():
            factors = {
                (tap, across): code.splat(
                    code.load_scalar(weights, tap * self.across.taps + across),
                    self.lanes,
                )
                for tap in range(self.down.taps)
                for across in taps
            }
            for at, pairs in sorted(seen.items()):
                place = code.place(image, at * self.across.extent)
                elements = self.elements(code, place, tile.column, taps.start)
                for across in taps:
                    for vector in vectors:
                        x = elements.under(across, vector)
                        for line, tap in pairs:
                            sums[line][vector] = code.multiply_add(
                                x, factors[tap, across], sums[line][vector]
                            )
        return sums

    def _emit_beyond(self, code: Code, weights: LlvmValue) -> LlvmValue:
        """
        The address of the sums of the products of zeros and each line of the window.
        They are 0, unless a factor is infinite or no number, which is found for all
        lines at once.
        """
        builder, lanes, taps = code.builder, self.lanes, self.across.taps
        type = ir.ArrayType(code.scalar, self.down.taps)
        memory = builder.alloca(type)
        builder.store(ir.Constant(type, None), memory)
        found = builder.ptrtoint(memory, word(0).type)
        if self.down.is_all_inside:
            return found

        def of_zeros(address: LlvmValue, count: int) -> LlvmValue:
            """The sum of the products of zeros and some factors."""
            total = code.zero(lanes)
            for first in range(0, count, lanes):
                bits = [int(first + lane < count) for lane in range(lanes)]
                mask = ir.Constant(ir.VectorType(BIT, lanes), bits)
                factors = code.load(address, first, lanes, None if all(bits) else mask)
                total = code.multiply_add(code.zero(lanes), factors, total)
            return code.sum(total)

        def line(at: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            total = of_zeros(code.advanced(weights, at, taps), taps)
            code.store_scalar(total, code.advanced(found, at, 1), 0)
            return ()

        total = of_zeros(weights, self.down.taps * taps)
        is_finite = builder.fcmp_ordered("==", total, ir.Constant(code.scalar, 0))
        lines = builder.select(is_finite, word(0), word(self.down.taps))
        code.loop(lines, 1, (), line)
        return found


@dataclass(frozen=True)
class _Looped:
    """Emits lines of the result by loops over the lines of their windows."""

    plane: _Plane
    code: Code
    weights: LlvmValue
    start: LlvmValue
    beyond: LlvmValue

    def emit(self, image: LlvmValue, out: LlvmValue) -> None:
        """Emit all lines of the result."""
        plane, code = self.plane, self.code
        down, across = plane.down, plane.across

        def line(at: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            lower, upper = self._inside(at)
            start = self.start
            if not down.is_all_inside:
                before = self._total(word(0), lower)
                behind = self._total(upper, word(down.taps))
                both = code.builder.fadd(before, behind)
                start = code.added(start, code.splat(both, plane.lanes))
            step = down.stride * across.extent
            first = code.advanced(image, at, step)
            first = code.place(first, -down.before * across.extent)

            def emit(column: int, image: LlvmValue, out: LlvmValue) -> None:
                sums = self._sums(column, image, lower, upper, start)
                plane.write(code, 0, column, out, sums)

            places = first, code.advanced(out, at, across.count)
            plane.emit_columns(code, places, emit)
            return ()

        code.loop(word(down.count), 1, (), line)

    def _total(self, first: LlvmValue, end: LlvmValue) -> LlvmValue:
        """The products of zeros and lines of the window from one on to another."""
        code = self.code
        address = code.advanced(self.beyond, first, 1)

        def add(at: LlvmValue, sums: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            number = code.load_scalar(code.advanced(address, at, 1), 0)
            return (code.builder.fadd(sums[0], number),)

        count = code.builder.sub(end, first)
        (total,) = code.loop(count, 1, (ir.Constant(code.scalar, 0),), add)
        return total

    def _inside(self, line: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
        """The first tap of a window down that is inside of the image, and the end."""
        down, builder = self.plane.down, self.code.builder
        first = builder.sub(builder.mul(line, word(down.stride)), word(down.before))

        def taps_before(position: int) -> LlvmValue:
            """The taps before a position, of those that there are."""
            elements = builder.sub(word(position + down.dilation - 1), first)
            is_any = builder.icmp_signed(">", elements, word(0))
            elements = builder.select(is_any, elements, word(0))
            taps = builder.udiv(elements, word(down.dilation))
            is_less = builder.icmp_signed("<", taps, word(down.taps))
            return builder.select(is_less, taps, word(down.taps))

        return taps_before(0), taps_before(down.extent)

    def _sums(
        self,
        column: int,
        image: LlvmValue,
        lower: LlvmValue,
        upper: LlvmValue,
        start: LlvmValue,
    ) -> Sequence[LlvmValue]:
        """The sums of a tile, from the address of the first tap of its first line."""
        plane, code = self.plane, self.code
        down, across = plane.down, plane.across
        vectors = plane.vectors_from(column)
        # Products wait for sums: those of several taps have sums of their own.
        ways = min(-(-BUSY // len(vectors)), across.taps)

        def line(at: LlvmValue, sums: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            tap, found = code.builder.add(lower, at), [*sums]
            place = code.advanced(image, tap, down.dilation * across.extent)
            factors = code.advanced(self.weights, tap, across.taps)
            for taps in plane.groups():
                elements = plane.elements(code, place, column, taps.start)
                for number in taps:
                    factor = code.load_scalar(factors, number)
                    splat = code.splat(factor, plane.lanes)
                    for vector in vectors:
                        x = elements.under(number, vector)
                        sum = number % ways * len(vectors) + vector
                        found[sum] = code.multiply_add(x, splat, found[sum])
            return found

        zeros = [code.zero(plane.lanes)] * ((ways - 1) * len(vectors))
        count = code.builder.sub(upper, lower)
        sums = code.loop(count, 1, [*(start for _ in vectors), *zeros], line)
        return [reduce(code.added, sums[vector :: len(vectors)]) for vector in vectors]


def depthwise_micro_kernel(
    element: str,
    lanes: int,
    tile: tuple[int, int],
    image: tuple[int, int],
    result: tuple[int, int],
    taps: tuple[int, int],
    strides: tuple[int, int],
    before: tuple[int, int],
    dilations: tuple[int, int],
    bias: bool = False,
    looped: bool = False,
) -> Callable[..., None]:
    """
    The convolution of one channel, as a function `kernel(image, weights, bias, result)`
    of addresses, in tiles of so many lines by so many vectors.

    Facts of two numbers are of lines and columns: those of the image and of the result,
    the taps of a window, how far apart windows and taps are, and the zeros before the
    image; there are as many behind it as windows reach. Without `bias` that address is
    not read. `looped` is for tiles of one line.
    """
    axes = zip(image, result, taps, strides, before, dilations, strict=True)
    down, across = (Axis(*facts) for facts in axes)
    plane = _Plane(element, lanes, *tile, down, across, bias, looped)

    def generate(context, builder, signature, args):
        builder.call(plane.emit(builder.module), args)
        return context.get_dummy_value()

    @intrinsic
    def call(_typing, image, weights, bias, result):
        return types.void(*[types.int64] * 4), generate

    return call
