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
# pyright: reportUnknownLambdaType=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportReturnType=false

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from penstock.runtime.kernels.cpu.matmul.packing import (
    LINE,
    SECOND,
    Loops,
    turns_of,
    words_type,
)
from penstock.runtime.kernels.cpu.simd import (
    BIT,
    INDEX,
    WORD,
    Amount,
    Code,
    Lanes,
    LlvmValue,
    Vector,
    arguments_in,
    as_word,
    given,
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
    c: Amount
    inputs: Sequence[tuple[Amount, int]] = ()
    finish: Finish | None = None
    results: int = 0
    blocked: bool = False
    masked: bool = False
    fetch: bool = False
    ahead: tuple[Amount, Amount] = (0, 0)

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
        count = len(self.inputs)
        words = 8 + count + arguments_in(self)
        function, builder = internal_function(module, "micro_kernel", words)
        a, b, c, height, used, depth, first, last, *others = function.args
        kernel = given(self, builder, others[count:])
        code = kernel.code(builder)
        mask = code.lanes_below(self.lanes, used) if self.masked else None
        flags = (builder.trunc(flag, BIT) for flag in (first, last))
        call = Call(a, b, c, depth, mask, *flags, others[:count])
        call = replace(call, starts=kernel.starts(code, call))
        kernel.run(code, call, height)
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
        if lines == 0:
            return
        there = code.place(call.b, distance)
        there = code.advanced(there, tile, lines * (LINE // code.size))

        def fetch(line: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            code.prefetch(code.advanced(there, line, LINE // code.size), 0, SECOND)
            return ()

        code.loop(as_word(lines), 1, (), fetch)

    def _fetch(self, code: Code, rows: int, call: Call) -> None:
        """Fetch where the sums are stored, and what is then read, as they begin."""
        self._fetch_tile(code, rows, call.c, self.c)
        steps = zip(call.inputs, self.inputs, strict=True)
        tiles = [
            (place, row) for place, (row, column) in steps if row != 0 and column == 1
        ]
        if not tiles:
            return
        with code.builder.if_then(call.is_last):
            for address, of_row in tiles:
                self._fetch_tile(code, rows, address, of_row)

    def _fetch_tile(
        self, code: Code, rows: int, address: LlvmValue, of_row: Amount
    ) -> None:
        """Fetch the lines of all rows of a tile."""
        for here in rows_down(code, address, of_row, rows):
            for column, width, _ in self.pieces():
                for place in range(column, column + width, LINE // code.size):
                    code.prefetch(here, place)

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
        steps = [of_row for of_row, _ in self.inputs] if finish else []
        inputs = [
            rows_down(code, address, of_row, rows)
            for address, of_row in zip(call.inputs, steps, strict=False)
        ]
        of_columns = {
            (number, piece): self._input(code, call, number, inputs[number][0], piece)
            for number, of_row in enumerate(steps[:read])
            if of_row == 0
            for piece in range(len(pieces))
        }
        results = rows_down(code, call.c, self.c, rows)
        held = self.held(code, call, rows)
        for row, result in enumerate(results):
            for index, (column, width, is_whole) in enumerate(pieces):
                mask = None if is_whole else call.mask
                value = self.gathered(code, sums, row, index)
                if self.blocked:
                    before = code.load(held[row], column, width, mask)
                    value = code.added(before, value)
                if finish is not None:
                    values = [
                        of_columns.get((number, index))
                        or self._input(code, call, number, inputs[number][row], index)
                        for number in range(read)
                    ]
                    x = Lanes(code, width)
                    value, *others = finished(finish, x, value, values)
                    for number, other in enumerate(others, read):
                        code.store(other, inputs[number][row], column, mask)
                code.store(value, result, column, mask)
        self.write_edge(code, rows, sums, call, ends)

    def held(self, code: Code, call: Call, rows: int) -> Sequence[LlvmValue]:
        """
        The addresses of what each row is added to, if several calls add to a sum: the
        sums of calls before, or zeros for the first call. Its choice is that of an
        address, as one of loaded vectors becomes a branch for each.
        """
        if not self.blocked:
            return ()
        builder = code.builder
        zeros = self._zeros(code)
        first = builder.select(call.is_first, zeros, call.c)
        step = as_word(self.c * code.size)
        step = builder.select(call.is_first, word(0), step)
        addresses = [first]
        for _ in range(1, rows):
            addresses.append(builder.add(addresses[-1], step))
        return addresses

    def _zeros(self, code: Code) -> LlvmValue:
        """The address of as many zeros as a row of a tile has columns."""
        module = code.builder.module
        last, width, _ = self.pieces()[-1]
        type = ir.ArrayType(code.scalar, last + width + self.edge_columns)
        name = f"zeros.{code.element}.{type.count}"
        if (zeros := module.globals.get(name)) is None:
            zeros = ir.GlobalVariable(module, type, name)
            zeros.linkage, zeros.global_constant = "internal", True
            zeros.initializer, zeros.align = ir.Constant(type, None), LINE
        return code.builder.ptrtoint(zeros, WORD)

    @property
    def edge_columns(self) -> int:
        """The columns of a tile that are in no vector of a row."""
        return 0

    def _input(
        self, code: Code, call: Call, number: int, address: LlvmValue, piece: int
    ) -> LlvmValue:
        """The elements of a row of an input that belong to a vector of the result."""
        of_column = self.inputs[number][1]
        column, width, is_whole = self.pieces()[piece]
        if of_column == 0:
            return code.splat(code.load_scalar(address, 0), width)
        return code.load(address, column, width, None if is_whole else call.mask)


@dataclass(frozen=True)
class OuterMicroKernel(_MicroKernel):
    """Elements of a times vectors along the columns of b."""

    a: tuple[Amount, Amount] = (0, 0)
    b: Amount = 0
    prefetch: int = 0
    stored: bool = False
    edge: tuple[int, Amount, Amount] = (0, 0, 0)
    window: Loops = ()

    @property
    def edge_columns(self) -> int:
        return self.edge[0]

    def row_of_a(self, code: Code, call: Call, row: LlvmValue) -> LlvmValue:
        if not self.stored:
            return code.advanced(call.a, row, self.a[0])
        return code.advanced(call.a, code.builder.mul(row, call.depth), 1)

    def a_steps(self, rows: int) -> tuple[Amount, Amount]:
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

        def added(
            loops: Sequence[tuple[LlvmValue, Amount]], state: Sequence[LlvmValue]
        ) -> Sequence[LlvmValue]:
            if loops:
                (turns, step), *inner = loops

                def turn(
                    _: LlvmValue, state: Sequence[LlvmValue]
                ) -> Sequence[LlvmValue]:
                    a, _, *rest = added(inner, state)
                    return [a, code.place(state[1], step), *rest]

                return code.loop(turns, 1, state, turn)
            a, b, edge, *sums = state
            count = rows * self.vectors
            new = self._add_term(code, rows, a, b, call.mask, sums[:count])
            new += self._add_edge(code, rows, a, edge, sums[count:])
            next_edge = code.place(edge, self.edge[2])
            return [code.place(a, self.a_steps(rows)[1]), b, next_edge, *new]

        loops = [(as_word(turns), step) for turns, step in self.window]
        turns = call.depth
        if loops:
            turns = code.builder.sdiv(turns, as_word(turns_of(self.window)))
        start = [call.a, call.b, edge, *starts]
        _, _, _, *sums = added([(turns, self.b), *loops], start)
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
                code.prefetch(b, self.b * self.prefetch + column)
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
        held = self.held(code, call, rows)
        results = rows_down(code, call.c, self.c, rows)
        for number in range(self.edge[0]):
            column, value = self.vectors * self.lanes + number, sums[EDGE, number]
            if self.blocked:
                before = [code.load_scalar(address, column) for address in held]
                value = code.added(code.vector_of(before), value)
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
                    there = rows_down(code, call.inputs[number], of_row, rows)
                    _store_down(code, other, there, column)
            _store_down(code, value, results, column)


def finished(
    finish: Finish, x: Lanes, value: LlvmValue, inputs: Sequence[LlvmValue]
) -> Sequence[LlvmValue]:
    """The elements that `finish` makes of sums, one for each result."""
    made = finish(x, x.made(value), *map(x.made, inputs))
    return [each.value for each in (made if isinstance(made, tuple) else (made,))]


def rows_down(
    code: Code, address: LlvmValue, step: Amount, rows: int
) -> Sequence[LlvmValue]:
    """
    The addresses of rows one below the other, each of which follows from the one above:
    a product for each would be kept in a register.
    """
    addresses = [address]
    for _ in range(1, rows):
        addresses.append(code.place(addresses[-1], step))
    return addresses


def _store_down(
    code: Code, value: LlvmValue, rows: Sequence[LlvmValue], column: int
) -> None:
    """Store a vector of an element of each of some rows, in a column."""
    for row, address in enumerate(rows):
        scalar = code.builder.extract_element(value, ir.Constant(INDEX, row))
        code.store_scalar(scalar, address, column)


def _down(
    code: Code, address: LlvmValue, place: Amount, step: Amount, rows: int
) -> LlvmValue:
    """A vector of an element of each row, from a place on."""
    if step == 0:
        return code.splat(code.load_scalar(address, place), rows)
    if step == 1:
        return code.load(address, place, rows)
    down = rows_down(code, address, step, rows)
    return code.vector_of([code.load_scalar(each, place) for each in down])


@dataclass(frozen=True)
class _InnerStrip(_MicroKernel):
    """Vectors along the terms of the sum, of rows of a and columns of b."""

    a: Amount = 0
    b: Amount = 0

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
        of_a = rows_down(code, call.a, self.a, rows)
        of_b = [code.opaque(b) for b in rows_down(code, call.b, self.b, self.vectors)]

        def turn(at: LlvmValue, sums: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            return self._add_terms(code, of_a, of_b, at, None, sums)

        whole = builder.and_(call.depth, word(-self.lanes))
        totals = code.loop(whole, self.lanes, totals, turn)
        mask = code.lanes_below(self.lanes, builder.sub(call.depth, whole))
        totals = self._add_terms(code, of_a, of_b, whole, mask, totals)
        return dict(zip(places, totals, strict=True))

    def _add_terms(
        self,
        code: Code,
        of_a: Sequence[LlvmValue],
        of_b: Sequence[LlvmValue],
        at: LlvmValue,
        mask: LlvmValue | None,
        totals: Sequence[LlvmValue],
    ) -> Sequence[LlvmValue]:
        columns = [
            code.load(code.advanced(address, at, 1), 0, self.lanes, mask)
            for address in of_b
        ]
        new: list[LlvmValue] = []
        for row, address in enumerate(of_a):
            factor = code.load(code.advanced(address, at, 1), 0, self.lanes, mask)
            new += [
                code.multiply_add(factor, column, totals[row * self.vectors + v])
                for v, column in enumerate(columns)
            ]
        return new


def function_of(kernel: _MicroKernel):
    """
    The function that source calls. It takes a tuple of numbers last, if facts of the
    micro-kernel are arguments.
    """
    inputs, numbers = len(kernel.inputs), arguments_in(kernel)

    def generate(context, builder, signature, args):
        words = [*args[:8], *cgutils.unpack_tuple(builder, args[8], inputs)]
        if numbers:
            words += cgutils.unpack_tuple(builder, args[9], numbers)
        builder.call(kernel.emit(builder.module), words)
        return context.get_dummy_value()

    signature = [*[types.int64] * 8, words_type(inputs)]

    @intrinsic
    def call(_typing, a, b, c, rows, used, depth, first, last, inputs):
        return types.void(*signature), generate

    @intrinsic
    def call_with(_typing, a, b, c, rows, used, depth, first, last, inputs, given):
        return types.void(*signature, words_type(numbers)), generate

    return call_with if numbers else call


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
    there. Terms may lie in several loops in b: then `b` is the step of the outermost
    one, and `window` the turns and the step of each of the others.

    Steps, other than 0 and 1, distances and counts of lines may be an `Argument`.
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
