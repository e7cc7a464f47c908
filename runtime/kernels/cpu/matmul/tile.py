"""
Matmul micro-kernels: tiles of accumulators in vector registers.

A *tile* is a block of the result of `c[m, n] += a[m, k] * b[k, n]` that stays in vector
registers while the sum runs. A *micro-kernel call* computes tiles
one below the other. Generated source calls it with addresses; `outer_micro_kernel` and
`inner_micro_kernel` make its code with all strides (in elements) as constants. The
epilogue is a function `finish(x, sum, *inputs)` on vectors, written in the methods of
`penstock.runtime.kernels.cpu.simd.Lanes`.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportUnknownLambdaType=false
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from penstock.runtime.kernels.cpu.matmul.packing import LINE
from penstock.runtime.kernels.cpu.simd import (
    BIT,
    INDEX,
    WORD,
    Code,
    Lanes,
    LlvmValue,
    Vector,
    internal_function,
    word,
)
from penstock.runtime.kernels.cpu.support import Buffer

Finish: TypeAlias = Callable[..., Vector | tuple[Vector, ...]]
"""
The epilogue: the stored vector, given `Lanes`, the sums, and a vector of each input.
"""


@intrinsic
def address_of(_typing, buffer):
    """The address of a buffer's first element."""
    if not isinstance(buffer, Buffer):
        return None

    def generate(context, builder, signature, args):
        return builder.ptrtoint(args[0], WORD)

    return types.int64(buffer), generate


################################################################################
# Strips of tiles                                                              #
################################################################################

Place: TypeAlias = tuple[int, int]
"""The row and the column of an accumulator in a tile."""

SECOND = 2
"""The cache that what is read later is fetched into."""

EDGE = -1
"""The row of accumulators that are a vector of all rows of a column."""

AHEAD = 64
"""The number of terms of panels of a that are prefetched."""

Piece: TypeAlias = tuple[int, int, bool]
"""A vector of a row: its first column, its lanes, whether all of them are in use."""


@dataclass(frozen=True)
class Call:
    """The arguments of a micro-kernel call, as values in LLVM code."""

    a: LlvmValue
    b: LlvmValue
    c: LlvmValue
    depth: LlvmValue
    mask: LlvmValue | None
    """
    The mask of the lanes of the last vector that are in use, unless all of them are.
    """
    is_first: LlvmValue
    is_last: LlvmValue
    inputs: Sequence[LlvmValue]
    starts: Sequence[LlvmValue] = ()
    """The initial accumulators of each vector of a row."""


@dataclass(frozen=True)
class _MicroKernel(ABC):
    """Tiles of `rows` rows and `vectors` vectors or columns, one below the other."""

    element: str
    rows: int
    vectors: int
    lanes: int
    rest: int
    c: int
    inputs: Sequence[tuple[int, int]] = ()
    finish: Finish | None = None
    results: int = 0
    blocked: bool = False
    masked: bool = False
    fetch: bool = False
    ahead: tuple[int, int] = (0, 0)

    @abstractmethod
    def row_of_a(self, code: Code, call: Call, row: LlvmValue) -> LlvmValue:
        """The address of the tile of a that begins with a row."""

    @abstractmethod
    def sums(self, code: Code, rows: int, call: Call) -> dict[Place, LlvmValue]:
        """Emit the sums of the products of one tile."""

    @abstractmethod
    def pieces(self) -> Sequence[Piece]:
        """The vectors of a row of the result."""

    @abstractmethod
    def gathered(
        self, code: Code, sums: dict[Place, LlvmValue], row: int, piece: int
    ) -> LlvmValue:
        """The sums that one vector of the result consists of."""

    def code(self, builder: ir.IRBuilder) -> Code:
        """The emitter of products of elements."""
        return Code(builder, self.element)

    def starts(self, code: Code, call: Call) -> Sequence[LlvmValue]:
        """The initial values of the accumulators, for each vector of all rows."""
        return [code.zero(self.lanes)] * self.vectors

    def emit(self, module: ir.Module) -> ir.Function:
        """Add the function of this micro-kernel to a module."""
        function, builder = internal_function(
            module, "micro_kernel", 8 + len(self.inputs)
        )
        code = self.code(builder)
        a, b, c, height, used, depth, first, last, *inputs = function.args
        mask = code.lanes_below(self.lanes, used) if self.masked else None
        flags = (builder.trunc(flag, BIT) for flag in (first, last))
        call = Call(a, b, c, depth, mask, *flags, inputs)
        call = replace(call, starts=self.starts(code, call))
        self.run(code, call, height)
        builder.ret_void()
        return function

    def run(self, code: Code, call: Call, height: LlvmValue) -> None:
        """Emit what computes all tiles."""
        builder = code.builder
        tiles = builder.sdiv(height, word(self.rows))
        with cgutils.for_range(builder, tiles, intp=WORD) as loop:
            row = builder.mul(loop.index, word(self.rows))
            self._fetch_ahead(code, call, loop.index)
            self.emit_tile(code, self.rows, self.moved(code, call, row))
        if self.rest:
            row = builder.mul(tiles, word(self.rows))
            with builder.if_then(builder.icmp_signed("<", row, height)):
                self.emit_tile(code, self.rest, self.moved(code, call, row))

    def moved(self, code: Code, call: Call, row: LlvmValue) -> Call:
        """The addresses some rows below."""
        inputs = [
            code.advanced(address, row, of_row)
            for address, (of_row, _) in zip(call.inputs, self.inputs, strict=True)
        ]
        return replace(
            call,
            a=self.row_of_a(code, call, row),
            c=code.advanced(call.c, row, self.c),
            inputs=inputs,
        )

    def emit_tile(self, code: Code, rows: int, call: Call) -> None:
        """Emit what computes and writes a tile."""
        if self.fetch:
            self._fetch(code, rows, call)
        self.write_tile(code, rows, self.sums(code, rows, call), call)

    def write_tile(
        self, code: Code, rows: int, sums: dict[Place, LlvmValue], call: Call
    ) -> None:
        """Write the sums of a tile, at the end of all terms what is made of them."""
        if not self.blocked:
            self._write(code, rows, sums, call, ends=True)
            return
        with code.builder.if_else(call.is_last) as (then, otherwise):
            with then:
                self._write(code, rows, sums, call, ends=True)
            with otherwise:
                self._write(code, rows, sums, call, ends=False)

    def _fetch_ahead(self, code: Code, call: Call, tile: LlvmValue) -> None:
        """Fetch a share of what the next micro-kernel call reads of b."""
        distance, lines = self.ahead
        there = code.place(call.b, distance)
        there = code.advanced(there, tile, lines * LINE // code.size)
        for line in range(lines):
            code.prefetch(there, line * LINE // code.size, SECOND)

    def _fetch(self, code: Code, rows: int, call: Call) -> None:
        """Fetch where the sums are stored, and what is then read, as they begin."""
        self._fetch_tile(code, rows, call.c, self.c)
        steps = zip(call.inputs, self.inputs, strict=True)
        tiles = [(place, row) for place, (row, column) in steps if row and column == 1]
        if not tiles:
            return
        with code.builder.if_then(call.is_last):
            for address, of_row in tiles:
                self._fetch_tile(code, rows, address, of_row)

    def _fetch_tile(
        self, code: Code, rows: int, address: LlvmValue, of_row: int
    ) -> None:
        """Fetch the lines of all rows of a tile."""
        for row in range(rows):
            for column, width, _ in self.pieces():
                for place in range(column, column + width, LINE // code.size):
                    code.prefetch(address, row * of_row + place)

    @abstractmethod
    def write_edge(
        self,
        code: Code,
        rows: int,
        sums: dict[Place, LlvmValue],
        call: Call,
        ends: bool,
    ) -> None:
        """Store the sums of columns that are in no vector of a row, if any."""

    def _write(
        self,
        code: Code,
        rows: int,
        sums: dict[Place, LlvmValue],
        call: Call,
        ends: bool,
    ) -> None:
        """Store all sums, after what came before is added and, at the end, `finish`."""
        pieces = self.pieces()
        finish = self.finish if ends else None
        read = len(self.inputs) - self.results
        of_columns = {
            (number, piece): self._input(code, call, number, 0, piece)
            for number, (of_row, _) in enumerate(self.inputs[:read] if finish else ())
            if of_row == 0
            for piece in range(len(pieces))
        }
        for row in range(rows):
            for index, (column, width, is_whole) in enumerate(pieces):
                place, mask = row * self.c + column, None if is_whole else call.mask
                value = self.gathered(code, sums, row, index)
                if self.blocked:
                    before = code.load(call.c, place, width, mask)
                    zero = code.zero(width)
                    before = code.builder.select(call.is_first, zero, before)
                    value = code.added(before, value)
                if finish is not None:
                    values = [
                        of_columns.get((number, index))
                        or self._input(code, call, number, row, index)
                        for number in range(read)
                    ]
                    x = Lanes(code, width)
                    value, *others = finished(finish, x, value, values)
                    for number, other in enumerate(others, read):
                        at = row * self.inputs[number][0] + column
                        code.store(other, call.inputs[number], at, mask)
                code.store(value, call.c, place, mask)
        self.write_edge(code, rows, sums, call, ends)

    def _input(
        self, code: Code, call: Call, number: int, row: int, piece: int
    ) -> LlvmValue:
        """The elements of an input that belong to a vector of the result."""
        of_row, of_column = self.inputs[number]
        column, width, is_whole = self.pieces()[piece]
        address, place = call.inputs[number], row * of_row + column * of_column
        if of_column == 0:
            return code.splat(code.load_scalar(address, place), width)
        return code.load(address, place, width, None if is_whole else call.mask)


@dataclass(frozen=True)
class OuterMicroKernel(_MicroKernel):
    """Elements of a times vectors along the columns of b."""

    a: tuple[int, int] = (0, 0)
    b: int = 0
    prefetch: int = 0
    stored: bool = False
    edge: tuple[int, int, int] = (0, 0, 0)

    def row_of_a(self, code: Code, call: Call, row: LlvmValue) -> LlvmValue:
        if not self.stored:
            return code.advanced(call.a, row, self.a[0])
        return code.advanced(call.a, code.builder.mul(row, call.depth), 1)

    def a_steps(self, rows: int) -> tuple[int, int]:
        """From a row and from a term of a to the next, in a tile of `rows` rows."""
        return (1, rows) if self.stored else self.a

    def pieces(self) -> Sequence[Piece]:
        return [
            (v * self.lanes, self.lanes, not self.masked or v < self.vectors - 1)
            for v in range(self.vectors)
        ]

    def gathered(
        self, code: Code, sums: dict[Place, LlvmValue], row: int, piece: int
    ) -> LlvmValue:
        return sums[row, piece]

    def sums(self, code: Code, rows: int, call: Call) -> dict[Place, LlvmValue]:
        places = [(r, v) for r in range(rows) for v in range(self.vectors)]
        places += [(EDGE, column) for column in range(self.edge[0])]
        starts = [
            code.zero(rows) if row == EDGE else call.starts[v] for row, v in places
        ]
        edge = code.place(call.b, self.edge[1])

        def turn(_: LlvmValue, state: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            a, b, edge, *sums = state
            inner = rows * self.vectors
            new = self._add_term(code, rows, a, b, call.mask, sums[:inner])
            new += self._add_edge(code, rows, a, edge, sums[inner:])
            next_edge = code.place(edge, self.edge[2])
            a = code.place(a, self.a_steps(rows)[1])
            return [a, code.place(b, self.b), next_edge, *new]

        start = [call.a, call.b, edge, *starts]
        _, _, _, *sums = code.loop(call.depth, 1, start, turn)
        return dict(zip(places, sums, strict=True))

    def _add_term(
        self,
        code: Code,
        rows: int,
        a: LlvmValue,
        b: LlvmValue,
        mask: LlvmValue | None,
        sums: Sequence[LlvmValue],
    ) -> list[LlvmValue]:
        vectors: list[LlvmValue] = []
        for column, width, is_whole in self.pieces():
            vectors.append(code.load(b, column, width, None if is_whole else mask))
            if self.prefetch:
                code.prefetch(b, self.prefetch * self.b + column)
        new: list[LlvmValue] = []
        if self.stored:
            code.prefetch(a, AHEAD * rows)
        for row in range(rows):
            scalar = code.load_scalar(a, row * self.a_steps(rows)[0])
            factor = code.splat(scalar, self.lanes)
            new += [
                code.multiply_add(factor, vector, sums[row * self.vectors + v])
                for v, vector in enumerate(vectors)
            ]
        return new

    def _add_edge(
        self,
        code: Code,
        rows: int,
        a: LlvmValue,
        edge: LlvmValue,
        sums: Sequence[LlvmValue],
    ) -> list[LlvmValue]:
        """Add a term to the sums of the columns whose vectors are along the rows."""
        if not sums:
            return []
        column_of_a = code.load(a, 0, rows)
        return [
            code.multiply_add(
                column_of_a, code.splat(code.load_scalar(edge, column), rows), total
            )
            for column, total in enumerate(sums)
        ]

    def write_edge(
        self,
        code: Code,
        rows: int,
        sums: dict[Place, LlvmValue],
        call: Call,
        ends: bool,
    ) -> None:
        for number in range(self.edge[0]):
            column, value = self.vectors * self.lanes + number, sums[EDGE, number]
            if self.blocked:
                before = _down(code, call.c, column, self.c, rows)
                zero = code.zero(rows)
                before = code.builder.select(call.is_first, zero, before)
                value = code.added(before, value)
            if self.finish is not None and ends:
                read = len(self.inputs) - self.results
                inputs = [
                    _down(code, address, column * of_column, of_row, rows)
                    for address, (of_row, of_column) in zip(
                        call.inputs[:read], self.inputs[:read], strict=True
                    )
                ]
                x = Lanes(code, rows)
                value, *others = finished(self.finish, x, value, inputs)
                for number, other in enumerate(others, read):
                    of_row = self.inputs[number][0]
                    _store_down(code, other, call.inputs[number], column, of_row, rows)
            _store_down(code, value, call.c, column, self.c, rows)


def finished(
    finish: Finish, x: Lanes, value: LlvmValue, inputs: Sequence[LlvmValue]
) -> Sequence[LlvmValue]:
    """The elements that `finish` makes of sums, one for each result."""
    made = finish(x, x.made(value), *map(x.made, inputs))
    return [each.value for each in (made if isinstance(made, tuple) else (made,))]


def _store_down(
    code: Code, value: LlvmValue, address: LlvmValue, place: int, step: int, rows: int
) -> None:
    """Store a vector of an element of each row, from a place on."""
    for row in range(rows):
        scalar = code.builder.extract_element(value, ir.Constant(INDEX, row))
        code.store_scalar(scalar, address, place + row * step)


def _down(
    code: Code, address: LlvmValue, place: int, step: int, rows: int
) -> LlvmValue:
    """A vector of an element of each row, from a place on."""
    if step == 0:
        return code.splat(code.load_scalar(address, place), rows)
    if step == 1:
        return code.load(address, place, rows)
    return code.vector_of(
        [code.load_scalar(address, place + row * step) for row in range(rows)]
    )


@dataclass(frozen=True)
class _InnerStrip(_MicroKernel):
    """Vectors along the terms of the sum, of rows of a and columns of b."""

    a: int = 0
    b: int = 0

    def write_edge(
        self,
        code: Code,
        rows: int,
        sums: dict[Place, LlvmValue],
        call: Call,
        ends: bool,
    ) -> None:
        pass

    def row_of_a(self, code: Code, call: Call, row: LlvmValue) -> LlvmValue:
        return code.advanced(call.a, row, self.a)

    def pieces(self) -> Sequence[Piece]:
        return [(0, self.vectors, True)]

    def gathered(
        self, code: Code, sums: dict[Place, LlvmValue], row: int, piece: int
    ) -> LlvmValue:
        totals = [code.sum(sums[row, column]) for column in range(self.vectors)]
        return code.vector_of(totals)

    def sums(self, code: Code, rows: int, call: Call) -> dict[Place, LlvmValue]:
        builder = code.builder
        places = [(r, v) for r in range(rows) for v in range(self.vectors)]
        totals = [call.starts[v] for _, v in places]

        def turn(at: LlvmValue, sums: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            return self._add_terms(code, rows, call, at, None, sums)

        whole = builder.and_(call.depth, word(-self.lanes))
        totals = code.loop(whole, self.lanes, totals, turn)
        mask = code.lanes_below(self.lanes, builder.sub(call.depth, whole))
        totals = self._add_terms(code, rows, call, whole, mask, totals)
        return dict(zip(places, totals, strict=True))

    def _add_terms(
        self,
        code: Code,
        rows: int,
        call: Call,
        at: LlvmValue,
        mask: LlvmValue | None,
        totals: Sequence[LlvmValue],
    ) -> Sequence[LlvmValue]:
        a, b = (code.advanced(address, at, 1) for address in (call.a, call.b))
        columns = [
            code.load(b, v * self.b, self.lanes, mask) for v in range(self.vectors)
        ]
        new: list[LlvmValue] = []
        for row in range(rows):
            factor = code.load(a, row * self.a, self.lanes, mask)
            new += [
                code.multiply_add(factor, column, totals[row * self.vectors + v])
                for v, column in enumerate(columns)
            ]
        return new


def function_of(kernel: _MicroKernel):
    """The function that source calls."""
    count = len(kernel.inputs)
    addresses = types.UniTuple(types.int64, count) if count else types.Tuple(())

    def generate(context, builder, signature, args):
        *words, inputs = args
        words += cgutils.unpack_tuple(builder, inputs, count)
        builder.call(kernel.emit(builder.module), words)
        return context.get_dummy_value()

    @intrinsic
    def call(_typing, a, b, c, rows, used, depth, first, last, inputs):
        return types.void(*[types.int64] * 8, addresses), generate

    return call


def outer_micro_kernel(element: str, rows: int, vectors: int, lanes: int, **facts):
    """
    Tiles of elements of a times vectors along the columns of b, as a function
    `kernel(a, b, c, rows, used, depth, first, last, inputs)` of addresses and numbers:
    it computes this many rows of the result, as sums of `depth` products.

    `a` is the steps from a row and from a term to the next, `b` that from a term to the
    next; columns of b follow each other. `c` is the step from a row of the result to
    the next. `rest` is the number of rows below the last whole tile, if it may be other
    than 0. In a `masked` micro-kernel only `used` columns of the last vector are
    touched. With `blocked` several calls add to one sum, and `first` and `last` are 0
    or 1. `inputs` has the steps from a row and from a column (0 or 1) to the next for
    each input of `finish`; the last `results` of them are further results, which it
    returns besides that at `c`. Rows of b this far ahead are fetched, if `prefetch` is
    not 0; and `ahead` is how many elements further the next micro-kernel call reads b,
    and how many lines of that a tile fetches. With `fetch` each tile begins to fetch
    where it will store, and inputs of its size.

    With `stored` a lies in panels as wide as a tile has rows, `depth` deep. `edge` is
    columns besides those in vectors, where they begin in b, and the step of a term
    there.
    """
    return function_of(OuterMicroKernel(element, rows, vectors, lanes, **facts))


def inner_micro_kernel(element: str, rows: int, vectors: int, lanes: int, **facts):
    """
    Tiles of `rows` rows of a and `vectors` columns of b, both of which have the terms
    of a sum next to each other; the function is that of `outer_micro_kernel`.

    `a` and `b` are the steps from a row of a and from a column of b to the next; the
    other facts are as for `outer_micro_kernel`.
    """
    return function_of(_InnerStrip(element, rows, vectors, lanes, **facts))
