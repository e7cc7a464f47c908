"""
Micro-kernels of max and average pooling: `pooling_micro_kernel`.

The result is computed in tiles of some lines, all of whose vectors are in registers.
For each line of the result the lines of the image under it are combined first, in
vectors along them; shuffles then combine across each window. Vectors run on from one
line to the next, of the result and of the image, where lines of windows are contiguous:
small images fill them.

The larger of two elements is taken by the CPU's instruction, which loses a NaN; a flag
over all elements tells that there was one, and the plane is then computed again by
comparisons.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportReturnType=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import inf
from typing import NamedTuple

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from penstock.runtime.kernels.cpu.simd import (
    BIT,
    WORD,
    Code,
    LlvmValue,
    begun,
    internal_function,
    word,
)
from penstock.runtime.kernels.cpu.window import Axis

CHAINS = 4
"""The number of registers that collect NaN, none of which waits for the others."""


class _Block(NamedTuple):
    """Lines or columns of the result: the first, how many, how many such blocks."""

    first: int
    size: int
    turns: int


@dataclass(frozen=True)
class _Lane:
    """An element of combined lines: a vector of these, and a lane of it."""

    vector: tuple[int, int]
    lane: int


@dataclass(frozen=True)
class _Pool:
    """Emits the pool of planes."""

    element: str
    lanes: int
    tile: tuple[int, int]
    """The lines and columns of a tile."""
    down: Axis
    across: Axis
    counts: tuple[Sequence[int], Sequence[int]] | None
    """The divisors of a mean, down and across: the elements of windows that count."""
    careful: bool = False
    """Whether a NaN is kept, where the largest elements are looked for."""

    def outside(self, code: Code) -> LlvmValue:
        """The neutral element of the combination."""
        number = -inf if self.counts is None else 0.0
        return ir.Constant(code.vector(self.lanes), [number] * self.lanes)

    def emit(self, module: ir.Module) -> ir.Function:
        """Add the function of addresses, the first plane, and the end of planes."""
        slow = None
        if self.counts is None and not self.careful:
            slow = replace(self, tile=(1, self.tile[1]), careful=True).emit(module)
        function, builder = internal_function(module, "pool", 4)
        code = Code(builder, self.element)
        images, outs, first, end = function.args
        of_image = self.down.extent * self.across.extent
        of_out = self.down.count * self.across.count

        def plane(at: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            number = builder.add(first, at)
            image = code.advanced(images, number, of_image)
            out = code.advanced(outs, number, of_out)
            fine = self._emit_plane(code, image, out)
            if slow is not None:
                with builder.if_then(builder.not_(fine), likely=False):
                    after = builder.add(number, word(1))
                    builder.call(slow, [images, outs, number, after])
            return ()

        code.loop(builder.sub(end, first), 1, (), plane)
        builder.ret_void()
        return function

    def _emit_plane(self, code: Code, image: LlvmValue, out: LlvmValue) -> LlvmValue:
        """Emit calls for all tiles of a plane; returns whether they met no NaN."""
        fine: LlvmValue = ir.Constant(BIT, 1)
        for numbers in self.down.runs(self.tile[0]):
            lines = _Block(*numbers)
            tiles = [
                (columns, self._tile(code.builder.module, lines, columns))
                for columns in (_Block(*n) for n in self.across.runs(self.tile[1]))
            ]

            def row(
                at: LlvmValue,
                state: Sequence[LlvmValue],
                lines: _Block = lines,
                tiles: Sequence[tuple[_Block, ir.Function]] = tiles,
            ) -> Sequence[LlvmValue]:
                step = lines.size * self.down.stride * self.across.extent
                places = (
                    code.advanced(image, at, step),
                    code.advanced(out, at, lines.size * self.across.count),
                )
                for columns, tile in tiles:
                    state = self._emit_row(code, columns, tile, places, state)
                return state

            (fine,) = code.loop(word(lines.turns), 1, [fine], row)
        return fine

    def _emit_row(
        self,
        code: Code,
        columns: _Block,
        tile: ir.Function,
        places: tuple[LlvmValue, LlvmValue],
        state: Sequence[LlvmValue],
    ) -> Sequence[LlvmValue]:
        """Emit calls for tiles of some lines that are alike."""

        def block(at: LlvmValue, state: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            image, out = places
            step = columns.size * self.across.stride
            places_here = [
                code.advanced(image, at, step),
                code.advanced(out, at, columns.size),
            ]
            return [code.builder.and_(state[0], code.builder.call(tile, places_here))]

        return code.loop(word(columns.turns), 1, state, block)

    def _tile(self, module: ir.Module, lines: _Block, columns: _Block) -> ir.Function:
        """
        Add the function of a tile, which says whether it has met no NaN. It is not
        inlined, so that constants are not kept in registers from tile to tile, of which
        there are too many.
        """
        type = ir.FunctionType(BIT, [WORD, WORD])
        function = ir.Function(module, type, module.get_unique_name("tile"))
        code = Code(begun(function), self.element)
        image, out = function.args
        tile = _Tile(self, code, lines, columns, image)
        tile.emit(out)
        code.builder.ret(tile.is_fine())
        return function


class _Tile:
    """
    Emits lines and columns of the result: given are the first one, how many, and how
    many such tiles follow each other, of which addresses are those of one.
    """

    def __init__(
        self,
        pool: _Pool,
        code: Code,
        lines: _Block,
        columns: _Block,
        image: LlvmValue,
    ):
        self._pool, self._code, self._image = pool, code, image
        self._lines, self._columns = lines, columns
        across = pool.across
        first, count = columns.first, columns.size
        self._is_whole = count == across.count
        """Whether lines of the result follow each other in the tile."""
        self._start = max(0, across.position(first, 0))
        last = across.position(first + count - 1, across.taps - 1)
        self._end = min(across.extent, last + 1)
        self._runs_on = self._is_whole and pool.down.stride == 1
        """Whether lines of the image follow each other, too."""
        if self._runs_on:
            self._start, self._end = 0, across.extent
        self._combined: dict[tuple[int, int], LlvmValue] = {}
        self._unchecked: LlvmValue | None = None
        self._fine: list[LlvmValue] = []

    def emit(self, out: LlvmValue) -> None:
        """Emit all vectors of the result."""
        first_line, lines, _ = self._lines
        first, columns, _ = self._columns
        lanes, count = self._pool.lanes, self._pool.across.count
        together = 1
        if self._is_whole:
            together = lines if self._runs_on else max(1, lanes // columns)
        places = [
            [
                (line, column)
                for line in range(start, min(start + together, first_line + lines))
                for column in range(first, first + columns)
            ]
            for start in range(first_line, first_line + lines, together)
        ]
        for line in places:
            for at in range(0, len(line), lanes):
                part = line[at : at + lanes]
                value = self._windows(part)
                mask = None
                if len(part) < lanes:
                    bits = [1] * len(part) + [0] * (lanes - len(part))
                    mask = ir.Constant(ir.VectorType(BIT, lanes), bits)
                offset = part[0][0] * count + part[0][1]
                self._code.store(value, out, offset, mask)
        if self._unchecked is not None:
            self._check(self._unchecked, self._unchecked)

    def is_fine(self) -> LlvmValue:
        """Emit whether no NaN was met."""
        if not self._fine:
            return ir.Constant(BIT, 1)
        builder, bits = self._code.builder, ir.IntType(self._pool.lanes)
        fine = builder.bitcast(reduce(builder.and_, self._fine), bits)
        return builder.icmp_unsigned("==", fine, ir.Constant(bits, -1))

    def _windows(self, places: Sequence[tuple[int, int]]) -> LlvmValue:
        """The pool of windows, by their lines and columns."""
        pool = self._pool
        taps = [
            [self._source(line, column, tap) for line, column in places]
            for tap in range(pool.across.taps)
        ]
        if pool.counts is None:
            for lane in range(len(places)):
                self._repeat(taps, lane)
        terms = [self._gathered(tap) for tap in taps if any(tap)]
        total = terms[0] if terms else pool.outside(self._code)
        for term in terms[1:]:
            total = self._combine(total, term)
        if pool.counts is None:
            return total
        down, across = pool.counts
        counts = [down[line] * across[column] for line, column in places]
        counts += [1] * (pool.lanes - len(places))
        return self._divided(total, counts)

    @staticmethod
    def _repeat(taps: Sequence[list[_Lane | None]], lane: int) -> None:
        """Let taps of a window outside of the image be others: largest ones stay."""
        inside = [tap[lane] for tap in taps if tap[lane] is not None]
        if not inside:
            return
        first = next(n for n, tap in enumerate(taps) if tap[lane] is not None)
        for number, tap in enumerate(taps):
            if tap[lane] is None:
                tap[lane] = inside[0] if number < first else inside[-1]

    def _divided(self, total: LlvmValue, counts: Sequence[int]) -> LlvmValue:
        """
        Quotients as a division rounds them, in less time: Markstein's correction of the
        product with the inverse, which needs that processors multiply and add at once.
        Without it, a quotient may be off by the last bit. Infinities stay.
        """
        code, builder = self._code, self._code.builder
        type = code.vector(self._pool.lanes)
        # A window on no pixel has no mean: 0 * inf is no number.
        inverse = ir.Constant(type, [1 / n if n else inf for n in counts])
        quotient = builder.fmul(total, inverse)
        if all(n & (n - 1) == 0 for n in counts):
            return quotient
        minus = ir.Constant(type, [-float(n) for n in counts])
        rest = code.multiply_add(quotient, minus, total)
        better = code.multiply_add(rest, inverse, quotient)
        is_number = builder.fcmp_ordered("ord", rest, rest)
        return builder.select(is_number, better, quotient)

    def _source(self, line: int, column: int, tap: int) -> _Lane | None:
        """The element of combined lines that is a tap of a window, if it is inside."""
        position = self._pool.across.position(column, tap)
        if not self._pool.across.has(position):
            return None
        number, at = line - self._lines[0], position - self._start
        if self._runs_on:
            number, at = 0, at + number * (self._end - self._start)
        vector, lane = divmod(at, self._pool.lanes)
        return _Lane((number, vector), lane)

    def _gathered(self, sources: Sequence[_Lane | None]) -> LlvmValue:
        """A vector of elements of combined lines, and of what changes nothing."""
        pool, code = self._pool, self._code
        lanes = pool.lanes
        keys = list(dict.fromkeys(s.vector for s in sources if s is not None))
        has_outside = None in sources
        values = [self._vector(key) for key in keys]
        numbers: dict[tuple[int, int] | None, int] = {
            key: number for number, key in enumerate(keys)
        }
        if has_outside:
            numbers[None] = len(values)
            values.append(pool.outside(code))
        wanted = [
            (numbers[None if s is None else s.vector], n if s is None else s.lane)
            for n, s in enumerate(sources)
        ]
        wanted += [(0, n) for n in range(len(wanted), lanes)]
        total = values[0]
        picked = [lane if number == 0 else n for n, (number, lane) in enumerate(wanted)]
        if len(values) == 1:
            same = picked == [*range(lanes)]
            return total if same else code.shuffled(total, total, picked)
        for second, value in enumerate(values[1:], start=1):
            picked = [
                lanes + lane
                if number == second
                else (lane if second == 1 and number == 0 else n)
                for n, (number, lane) in enumerate(wanted)
            ]
            total = code.shuffled(total, value, picked)
        return total

    def _vector(self, key: tuple[int, int]) -> LlvmValue:
        """A vector of combined lines."""
        found = self._combined.get(key)
        if found is None:
            found = self._combined[key] = self._down(*key)
        return found

    def _down(self, number: int, vector: int) -> LlvmValue:
        """Combine the lines of the image under one of the result, or under all."""
        pool, code = self._pool, self._code
        first_line, lines, _ = self._lines
        width = self._end - self._start
        first = vector * pool.lanes
        places: list[int | None] = []
        for at in range(first, first + pool.lanes):
            line = number + at // width if self._runs_on else number
            is_there = line < lines if self._runs_on else at < width
            places.append(first_line + line if is_there else None)
        terms: list[LlvmValue] = []
        for tap in range(pool.down.taps):
            inside = [
                None if line is None else pool.down.has(pool.down.position(line, tap))
                for line in places
            ]
            if any(inside):
                line = pool.down.position(first_line + number, tap)
                start = line * pool.across.extent + self._start + first
                terms.append(self._load(start, inside))
        if not terms:
            return pool.outside(code)
        total = terms[0]
        for number, term in enumerate(terms[1:]):
            if not number:
                self._check(total, term)
            elif number < len(terms) - 2:
                self._check_later(term)
            total = self._combine(total, term)
        if len(terms) != 2:
            self._check_later(total)
        return total

    def _load(self, start: int, inside: Sequence[bool | None]) -> LlvmValue:
        """
        Load elements of the image, and what changes nothing where they are not inside;
        anything where that is not said.
        """
        pool, code = self._pool, self._code
        size = pool.down.extent * pool.across.extent
        (_, lines, down), (_, columns, across) = self._lines, self._columns
        last = start + (down - 1) * lines * pool.down.stride * pool.across.extent
        last += (across - 1) * columns * pool.across.stride + pool.lanes
        if False not in inside and start >= 0 and last <= size:
            return code.load(self._image, start, pool.lanes)
        bits = ir.VectorType(BIT, pool.lanes)
        mask = ir.Constant(bits, [int(bool(here)) for here in inside])
        value = code.load(self._image, start, pool.lanes, mask)
        if pool.counts is not None:
            return value
        return code.builder.select(mask, value, pool.outside(code))

    def _combine(self, a: LlvmValue, b: LlvmValue) -> LlvmValue:
        """The sum, or the larger one: `b` if they are equal, or if there is a NaN."""
        if self._pool.counts is not None:
            return self._code.added(a, b)
        if self._pool.careful:
            return self._code.call("maximum", a, b)
        builder = self._code.builder
        return builder.select(builder.fcmp_ordered(">", a, b), a, b)

    def _check_later(self, value: LlvmValue) -> None:
        """Check for a NaN, with the next vector that is to be checked."""
        if self._unchecked is None:
            self._unchecked = value
        else:
            self._check(self._unchecked, value)
            self._unchecked = None

    def _check(self, a: LlvmValue, b: LlvmValue) -> None:
        """Note the lanes where one of two vectors has a NaN."""
        if self._pool.counts is not None or self._pool.careful:
            return
        builder = self._code.builder
        fine = builder.fcmp_ordered("ord", a, b)
        if len(self._fine) < CHAINS:
            self._fine.append(fine)
        else:
            self._fine.append(builder.and_(self._fine.pop(0), fine))


def pooling_micro_kernel(
    element: str,
    lanes: int,
    tile: tuple[int, int],
    image: tuple[int, int],
    result: tuple[int, int],
    taps: tuple[int, int],
    strides: tuple[int, int],
    before: tuple[int, int],
    dilations: tuple[int, int],
    counted: tuple[int, int, int, int] | None = None,
) -> Callable[..., None]:
    """
    The largest elements of windows of planes, or their means, as a function
    `kernel(images, results, first, end)` of addresses and numbers of planes.

    Facts of two numbers are of lines and columns: those of a tile (all columns, or
    whole vectors), of the image and of the result, the taps of a window, how far apart
    windows and taps are, and what windows have before the image. For a mean it is said
    how many zeros before the image are `counted`, down and across, and behind it.
    """
    axes = zip(image, result, taps, strides, before, dilations, strict=True)
    down, across = (Axis(*facts) for facts in axes)
    counts = None
    if counted is not None:
        counts = (
            _counts(down, counted[0], counted[2]),
            _counts(across, counted[1], counted[3]),
        )
    emitter = _Pool(element, lanes, tile, down, across, counts)

    def generate(context, builder, signature, args):
        builder.call(emitter.emit(builder.module), args)
        return context.get_dummy_value()

    @intrinsic
    def call(_typing, images, results, first, end):
        return types.void(*[types.int64] * 4), generate

    return call


def _counts(axis: Axis, before: int, after: int) -> Sequence[int]:
    """The taps of windows that are inside of the image, or are zeros that count."""
    return [
        sum(
            -before <= axis.position(window, tap) < axis.extent + after
            for tap in range(axis.taps)
        )
        for window in range(axis.count)
    ]
