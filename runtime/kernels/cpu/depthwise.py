"""
Micro-kernels of depthwise convolutions, one call a channel: `depthwise_micro_kernel`.

A tile is some lines of the result, with SIMD lanes along them. Elements outside of the
image are masked when they are loaded, so nothing is padded before, and the ends of
lines need no code of their own. The place of a tile is a constant of its code, except
for tiles inside of the image, which are alike.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportReturnType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class _Tile:
    """Lines and columns of the result: the first ones, and how many."""

    line: int
    lines: int
    column: int


@dataclass(frozen=True)
class _Plane:
    """Emits the convolution of one channel."""

    element: str
    lanes: int
    lines: int
    down: Axis
    across: Axis
    bias: bool

    def emit(self, module: ir.Module) -> ir.Function:
        """Add the function of addresses to a module."""
        function, builder = internal_function(module, "plane", 4)
        code = Code(builder, self.element)
        image, weights, bias, out = function.args
        start = code.zero(self.lanes)
        if self.bias:
            start = code.splat(code.load_scalar(bias, 0), self.lanes)
        for line, lines, turns in self.down.runs(self.lines):
            of_image = lines * self.down.stride * self.across.extent
            of_out = lines * self.across.count

            def block(
                at: LlvmValue,
                _: Sequence[LlvmValue],
                tile: _Tile = _Tile(line, lines, 0),
                steps: tuple[int, int] = (of_image, of_out),
            ) -> Sequence[LlvmValue]:
                places = (
                    code.advanced(image, at, steps[0]),
                    code.advanced(out, at, steps[1]),
                )
                self._emit_lines(code, tile, places, weights, start)
                return ()

            code.loop(word(turns), 1, (), block)
        code.builder.ret_void()
        return function

    def _emit_lines(
        self,
        code: Code,
        tile: _Tile,
        places: tuple[LlvmValue, LlvmValue],
        weights: LlvmValue,
        start: LlvmValue,
    ) -> None:
        """Emit all tiles of some lines."""
        image, out = places
        for column, _, turns in self.across.runs(self.lanes):
            here = _Tile(tile.line, tile.lines, column)

            def block(
                at: LlvmValue, _: Sequence[LlvmValue], here: _Tile = here
            ) -> Sequence[LlvmValue]:
                source = code.advanced(image, at, self.lanes * self.across.stride)
                sums = self._sums(code, here, source, weights, start)
                self._write(code, here, code.advanced(out, at, self.lanes), sums)
                return ()

            code.loop(word(turns), 1, (), block)

    def _sums(
        self,
        code: Code,
        tile: _Tile,
        image: LlvmValue,
        weights: LlvmValue,
        start: LlvmValue,
    ) -> Sequence[LlvmValue]:
        """
        The sums of a tile. Each line of the image is loaded once for each tap across,
        and each factor is used for all lines at once, so that both stay in registers.
        """
        sums, lanes = [start] * tile.lines, self.lanes
        positions = [
            [self.down.position(tile.line + line, tap) for line in range(tile.lines)]
            for tap in range(self.down.taps)
        ]
        inside = sorted({at for row in positions for at in row if self.down.has(at)})
        # Lines of zeros are multiplied too, once for all: a factor may be infinite.
        beyond = [code.zero(lanes)] * self.down.taps
        for across in range(self.across.taps):
            lines = {
                at: self._load(code, image, at, tile.column, across) for at in inside
            }
            for tap, row in enumerate(positions):
                number = tap * self.across.taps + across
                factor = code.splat(code.load_scalar(weights, number), lanes)
                if any(at not in lines for at in row):
                    beyond[tap] = code.multiply_add(
                        code.zero(lanes), factor, beyond[tap]
                    )
                for line, at in enumerate(row):
                    if at in lines:
                        sums[line] = code.multiply_add(lines[at], factor, sums[line])
        for tap, row in enumerate(positions):
            for line, at in enumerate(row):
                if at not in inside:
                    sums[line] = code.added(sums[line], beyond[tap])
        return sums

    def _load(
        self, code: Code, image: LlvmValue, line: int, column: int, tap: int
    ) -> LlvmValue:
        """A tap of windows of a line that follow each other."""
        first = self.across.position(column, tap)
        used = [
            column + lane < self.across.count
            and self.across.has(self.across.position(column + lane, tap))
            for lane in range(self.lanes)
        ]
        if not any(used):
            return code.zero(self.lanes)
        place, stride = line * self.across.extent + first, self.across.stride
        parts = [
            self._part(code, image, place, first, used, part) for part in range(stride)
        ]
        if stride == 1:
            return parts[0]
        return code.shuffled(*parts, range(0, 2 * self.lanes, 2))

    def _part(
        self,
        code: Code,
        image: LlvmValue,
        place: int,
        first: int,
        used: Sequence[bool],
        part: int,
    ) -> LlvmValue:
        """The vector number `part` of those over which windows are spread."""
        stride, lanes = self.across.stride, self.lanes
        numbers = range(part * lanes, (part + 1) * lanes)
        place += part * lanes
        if all(self.across.has(first + number) for number in numbers):
            return code.load(image, place, lanes)
        needed = [n % stride == 0 and used[n // stride] for n in numbers]
        mask = ir.Constant(ir.VectorType(BIT, lanes), [*map(int, needed)])
        return code.load(image, place, lanes, mask)

    def _write(
        self, code: Code, tile: _Tile, out: LlvmValue, sums: Sequence[LlvmValue]
    ) -> None:
        rest = self.across.count - tile.column
        mask = None
        if rest < self.lanes:
            bits = [1] * rest + [0] * (self.lanes - rest)
            mask = ir.Constant(ir.VectorType(BIT, self.lanes), bits)
        for line, value in enumerate(sums, start=tile.line):
            code.store(value, out, line * self.across.count + tile.column, mask)


def depthwise_micro_kernel(
    element: str,
    lanes: int,
    lines: int,
    image: tuple[int, int],
    result: tuple[int, int],
    taps: tuple[int, int],
    strides: tuple[int, int],
    before: tuple[int, int],
    dilations: tuple[int, int],
    bias: bool = False,
) -> Callable[..., None]:
    """
    The convolution of one channel, as a function `kernel(image, weights, bias, result)`
    of addresses.

    Facts of two numbers are of lines and columns: those of the image and of the result,
    the taps of a window, how far apart windows and taps are, and the zeros before the
    image; there are as many behind it as windows reach. Without `bias` that address is
    not read.
    """
    axes = zip(image, result, taps, strides, before, dilations, strict=True)
    down, across = (Axis(*facts) for facts in axes)
    plane = _Plane(element, lanes, lines, down, across, bias)

    def generate(context, builder, signature, args):
        builder.call(plane.emit(builder.module), args)
        return context.get_dummy_value()

    @intrinsic
    def call(_typing, image, weights, bias, result):
        return types.void(*[types.int64] * 4), generate

    return call
