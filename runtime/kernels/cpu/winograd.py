"""
Winograd transforms of tiles, `o[i, j] += p[i, k] q[j, l] d[k, l]`, as many tiles at
once as a vector has lanes.

Elements of overlapping tiles are shuffled from vectors that are loaded once, and
results of a tile that are contiguous are put side by side before they are stored.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportReturnType=false
# pyright: reportAssignmentType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from penstock.runtime.kernels.cpu.matmul.tile import Finish, finished
from penstock.runtime.kernels.cpu.simd import (
    INDEX,
    Code,
    Lanes,
    LlvmValue,
    internal_function,
    word,
)


def tile_transform(
    element: str,
    lanes: int,
    sizes: tuple[int, int, int, int],
    extent: int,
    **facts,
):
    """
    A function `transform(p, q, d, o, inputs)` of addresses, for `extent` tiles beside
    each other.

    `sizes` are the extents of i, k, j and l. `p` has the steps of i and k, `q` of j and
    l, `d` of k, l and the tiles, `o` of i, j and the tiles, counted in elements. The
    steps of tiles are powers of 2; if that of `d` is not 1, that of l is, and if that
    of `o` is not 1, it is the extent of j, whose step is 1. `finish` makes of the sums
    what is stored, given `inputs`, which have the steps of i, of an element of a row of
    results (0 or 1), and of `down`. With `down` a vector has several rows of tiles, so
    that the elements or results of one row fill a vector: these are the steps of d and
    of o from a row of tiles to the next.
    """
    task = _Transform(element, lanes, *sizes, extent, **facts)
    count = len(task.inputs)
    addresses = types.UniTuple(types.int64, count) if count else types.Tuple(())

    @intrinsic
    def call(_typing, p, q, d, o, inputs):
        def generate(context, builder, signature, args):
            *words, inputs = args
            words += cgutils.unpack_tuple(builder, inputs, count)
            builder.call(task.emit_function(builder.module), words)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 4, addresses), generate

    return call


@dataclass(frozen=True)
class _Call:
    """The arguments of a call, moved to the first tile of a vector."""

    p: LlvmValue
    q: LlvmValue
    d: LlvmValue
    o: LlvmValue
    inputs: Sequence[LlvmValue]
    count: LlvmValue
    """The tiles of this vector."""


@dataclass(frozen=True)
class _Transform:
    element: str
    lanes: int
    rows: int
    terms: int
    columns: int
    inner: int
    extent: int
    p: tuple[int, int]
    q: tuple[int, int]
    d: tuple[int, int, int]
    o: tuple[int, int, int]
    inputs: Sequence[tuple[int, int, int]] = ()
    finish: Finish | None = None
    down: tuple[int, int] | None = None

    @property
    def across(self) -> int:
        """The tiles of a row, where vectors have several rows."""
        return self.lanes // max(self.d[2], self.o[2])

    def emit_function(self, module: ir.Module) -> ir.Function:
        """Add the function to a module."""
        function, builder = internal_function(module, "transform", 4 + len(self.inputs))
        code = Code(builder, self.element)
        p, q, d, o, *inputs = function.args

        def turn(tile: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            left = builder.sub(word(self.extent), tile)
            steps = [self.d[2], self.o[2], *(x[1] * self.o[2] for x in self.inputs)]
            if self.down is not None:
                tile = builder.sdiv(tile, word(self.across))
                steps = [*self.down, *(x[2] for x in self.inputs)]
            moved = [
                code.advanced(address, tile, step)
                for address, step in zip((d, o, *inputs), steps, strict=True)
            ]
            call = _Call(p, q, moved[0], moved[1], moved[2:], left)
            self._emit_tiles(code, call)
            return ()

        code.loop(word(self.extent), self.lanes, (), turn)
        builder.ret_void()
        return function

    def _emit_tiles(self, code: Code, call: _Call) -> None:
        """Transform rows, then columns, and store the results."""
        across: list[list[LlvmValue]] = []
        for term in range(self.terms):
            row = self._row(code, call, term)
            across.append(
                [
                    self._sum(code, call.q, (j * self.q[0], self.q[1]), row)
                    for j in range(self.columns)
                ]
            )
        for i in range(self.rows):
            results = [
                self._sum(
                    code,
                    call.p,
                    (i * self.p[0], self.p[1]),
                    [row[j] for row in across],
                )
                for j in range(self.columns)
            ]
            self._store(code, call, i, results)

    def _sum(
        self,
        code: Code,
        matrix: LlvmValue,
        places: tuple[int, int],
        vectors: Sequence[LlvmValue],
    ) -> LlvmValue:
        """The sum of vectors times the elements of a row of a matrix."""
        first, step = places
        factors = [
            code.splat(code.load_scalar(matrix, first + n * step), self.lanes)
            for n in range(len(vectors))
        ]
        total = code.builder.fmul(factors[0], vectors[0])
        for factor, vector in zip(factors[1:], vectors[1:], strict=True):
            total = code.multiply_add(factor, vector, total)
        return total

    def _mask(self, code: Code, count: LlvmValue, before: int) -> LlvmValue:
        """The lanes in use of a vector that has some elements before it."""
        return code.lanes_below(self.lanes, code.builder.sub(count, word(before)))

    def _row(self, code: Code, call: _Call, term: int) -> Sequence[LlvmValue]:
        """The elements of a row of tiles: a vector for each place in the row."""
        place, (_, inner, step) = term * self.d[0], self.d
        if step == 1:
            mask = self._mask(code, call.count, 0)
            return [
                code.load(call.d, place + l * inner, self.lanes, mask)
                for l in range(self.inner)  # noqa: E741
            ]
        if self.down is not None:
            return self._row_of_rows(code, call, place, self.down[0])
        # The last tile needs more than its share, but not all of the next one.
        count = code.builder.mul(call.count, word(step))
        count = code.builder.add(count, word(self.inner - step))
        parts = step + (self.inner > step)
        vectors = [
            code.load(
                call.d,
                place + part * self.lanes,
                self.lanes,
                self._mask(code, count, part * self.lanes),
            )
            for part in range(parts)
        ]
        own = _apart(code, vectors[:step], self.lanes)
        following = range(1, self.lanes + 1)
        shifted = [
            code.shuffled(
                vector, _first(code, vectors[-1], number, self.lanes), following
            )
            for number, vector in enumerate(own[: max(0, self.inner - step)])
        ]
        return [*own, *shifted][: self.inner]

    def _row_of_rows(
        self, code: Code, call: _Call, place: int, down: int
    ) -> Sequence[LlvmValue]:
        """As `_row`, for as many rows of tiles as fill a vector."""
        step = self.d[2]

        def loaded(first: int, count: int) -> Sequence[LlvmValue]:
            return _apart(
                code,
                [
                    code.load(
                        call.d,
                        place + row * down + first,
                        self.lanes,
                        self._row_mask(code, call, row, count),
                    )
                    for row in range(step)
                ],
                self.lanes,
            )

        shared = max(0, self.inner - step)
        vectors = [*loaded(0, self.lanes)]
        if shared:
            vectors += loaded(step, self.lanes - step + shared)[:shared]
        return vectors[: self.inner]

    def _row_mask(self, code: Code, call: _Call, row: int, count: int) -> LlvmValue:
        """The first lanes of one of several rows, if there are tiles in it."""
        builder = code.builder
        exists = builder.icmp_signed("<", word(row * self.across), call.count)
        return code.lanes_below(
            self.lanes, builder.select(exists, word(count), word(0))
        )

    def _store(
        self, code: Code, call: _Call, i: int, results: Sequence[LlvmValue]
    ) -> None:
        """Store the results of a row of tiles."""
        row, column, step = self.o
        if step == 1:
            mask = self._mask(code, call.count, 0)
            for j, value in enumerate(results):
                code.store(value, call.o, i * row + j * column, mask)
            return
        count = code.builder.mul(call.count, word(step))
        for part, value in enumerate(_beside(code, results, self.lanes)):
            place, mask = part * self.lanes, self._mask(code, count, part * self.lanes)
            if self.down is not None:
                place = part * self.down[1]
                mask = self._row_mask(code, call, part, self.lanes)
            if self.finish is not None:
                x = Lanes(code, self.lanes)
                inputs = self._inputs(code, call, i, part, mask)
                (value,) = finished(self.finish, x, value, inputs)
            code.store(value, call.o, i * row + place, mask)

    def _inputs(
        self, code: Code, call: _Call, i: int, part: int, mask: LlvmValue
    ) -> Sequence[LlvmValue]:
        """The elements of inputs that belong to a vector of results."""
        found: list[LlvmValue] = []
        for address, (row, column, down) in zip(call.inputs, self.inputs, strict=True):
            place = i * row
            if self.down is not None:
                place += part * down
            elif column:
                place += part * self.lanes
            if column:
                found.append(code.load(address, place, self.lanes, mask))
                continue
            # Where there is no row there is no element either.
            exists = code.builder.extract_element(mask, ir.Constant(INDEX, 0))
            own = code.builder.select(exists, code.place(address, place), address)
            found.append(code.splat(code.load_scalar(own, 0), self.lanes))
        return found


def _apart(code: Code, vectors: Sequence[LlvmValue], lanes: int) -> Sequence[LlvmValue]:
    """
    Of vectors that follow each other, 2^n of them, the elements that are 2^n apart: a
    vector of those that begin with the first, with the second, and so on.
    """
    if len(vectors) == 1:
        return vectors
    pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
    even, odd = (
        _apart(
            code,
            [code.shuffled(a, b, range(start, 2 * lanes, 2)) for a, b in pairs],
            lanes,
        )
        for start in (0, 1)
    )
    return [vector for pair in zip(even, odd, strict=True) for vector in pair]


def _beside(
    code: Code, vectors: Sequence[LlvmValue], lanes: int
) -> Sequence[LlvmValue]:
    """The other way round: 2^n vectors, whose elements take turns."""
    if len(vectors) == 1:
        return vectors
    even = _beside(code, vectors[::2], lanes)
    odd = _beside(code, vectors[1::2], lanes)
    low = [lane // 2 + lane % 2 * lanes for lane in range(lanes)]
    high = [place + lanes // 2 for place in low]
    return [
        code.shuffled(a, b, places)
        for a, b in zip(even, odd, strict=True)
        for places in (low, high)
    ]


def _first(code: Code, vector: LlvmValue, number: int, lanes: int) -> LlvmValue:
    """A vector that begins with the element of this number of another one."""
    places = [min(number + lane, lanes - 1) for lane in range(lanes)]
    return code.shuffled(vector, vector, places)
