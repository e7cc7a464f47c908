"""
Packing: panels, which are copies of some columns of an operand in the order in which
micro-kernels read them.

A panel lies in `scratch`, memory on the stack of the thread that runs the kernel.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportUnknownLambdaType=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportReturnType=false
# pyright: reportAssignmentType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from operator import mul
from typing import TypeAlias

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from penstock.runtime.kernels.cpu.simd import (
    BIT,
    BYTE,
    INDEX,
    WORD,
    Amount,
    Code,
    LlvmValue,
    Number,
    arguments_in,
    as_word,
    given,
    internal_function,
    word,
)

LINE = 64
"""The bytes of a line of a cache, by which scratch memory is aligned."""
SECOND = 2
"""The cache that what is read later is fetched into."""
TOGETHER = 8
"""The tiles whose rows are copied together, where rows are neighbours."""
TERMS_AHEAD = 8
"""The terms of rows that are fetched before they are copied."""


@intrinsic(prefer_literal=True)
def scratch(_typing, size):
    """The address of some bytes on the stack, which a kernel asks for once."""

    def generate(context, builder, signature, args):
        if isinstance(size, types.IntegerLiteral):
            with builder.goto_entry_block():
                memory = builder.alloca(ir.ArrayType(BYTE, size.literal_value))
        else:
            memory = builder.alloca(BYTE, args[0])
        memory.align = LINE
        return builder.ptrtoint(memory, WORD)

    return types.int64(size), generate


def words_type(count: int):
    """The type of a tuple of so many words."""
    return types.UniTuple(types.int64, count) if count else types.Tuple(())


def copier(name: str, words: int, emit: Callable[..., None], facts: object = ()):
    """
    A function of four or six words that source calls, whose body is what `emit` writes
    for a builder, the facts that it is made with, and these words. It is not inlined,
    so that its registers are its own. If facts are arguments, it takes a tuple of these
    numbers last.
    """
    numbers = arguments_in(facts)

    def generate(context, builder, signature, args):
        count = words + numbers
        function, inside = internal_function(builder.module, name, count)
        made = given(facts, inside, function.args[words:])
        emit(inside, made, *function.args[:words])
        inside.ret_void()
        more = cgutils.unpack_tuple(builder, args[words], numbers) if numbers else ()
        builder.call(function, [*args[:words], *more])
        return context.get_dummy_value()

    last = [words_type(numbers)] if numbers else []
    signature = types.void(*[types.int64] * words, *last)

    @intrinsic
    def call_4(_typing, source, panels, size, depth):
        return signature, generate

    @intrinsic
    def call_4_with(_typing, source, panels, size, depth, numbers):
        return signature, generate

    @intrinsic
    def call_6(_typing, source, panel, used, depth, column, term):
        return signature, generate

    @intrinsic
    def call_6_with(_typing, source, panel, used, depth, column, term, numbers):
        return signature, generate

    calls = {4: (call_4, call_4_with), 6: (call_6, call_6_with)}
    return calls[words][bool(numbers)]


################################################################################
# Operands with strides                                                        #
################################################################################


def pack(
    element: str,
    vectors: int,
    lanes: int,
    b: tuple[Amount, Amount],
    masked: bool = False,
    ahead: bool = False,
):
    """
    A function `pack(b, panel, used, depth)` that copies `depth` rows of columns of b to
    a panel of `vectors` vectors; in a `masked` one the last vector has `used` columns,
    and zeros. With `ahead` the columns behind them, which are packed next, are fetched.

    `b` is the steps from a term and from a column to the next, each of which may be an
    `Argument`; `lanes` is a power of 2.
    """

    def emit(builder, steps, source, panel, used, depth) -> None:
        of_term, of_column = steps
        task = Panel(
            Elements(Code(builder, element)),
            vectors * lanes,
            lanes,
            (of_column, of_term),
            used if masked else None,
            ahead,
        )
        task.copy(source, panel, depth)

    return copier("pack", 4, emit, b)


def pack_rows(
    element: str, rows: int, lanes: int, a: tuple[Amount, Amount], rest: int = 0
):
    """
    A function `pack(a, panels, height, depth)` that copies `depth` terms of `height`
    rows of a to panels as wide as a tile has `rows`, one behind the other; a last panel
    has `rest` rows.

    `a` is the steps from a row and from a term to the next, each of which may be an
    `Argument`; `lanes` is a power of 2.
    """

    def emit(builder, steps, source, panels, height, depth) -> None:
        code = Code(builder, element)
        elements = Elements(code)
        if steps[0] == 1:
            task = Neighbours(elements, rows, rest, steps[1])
            task.copy(source, panels, height, depth, depth)
            return

        def copy(count: int, row: LlvmValue) -> None:
            there = code.advanced(panels, builder.mul(row, depth), 1)
            task = RowPanel(elements, count, lanes, steps)
            task.copy(code.advanced(source, row, steps[0]), there, depth)

        each_tile(code, rows, rest, height, copy)

    return copier("rows", 4, emit, a)


def each_tile(
    code: Code,
    rows: int,
    rest: int,
    height: LlvmValue,
    copy: Callable[[int, LlvmValue], None],
) -> None:
    """
    Emit a loop over the tiles of so many rows, and what a last one of `rest` rows does.
    `copy` is given how many rows a tile has, and the first of them.
    """
    builder = code.builder
    tiles = builder.sdiv(height, word(rows))

    def tile(number: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
        copy(rows, builder.mul(number, word(rows)))
        return ()

    code.loop(tiles, 1, (), tile)
    if rest:
        row = builder.mul(tiles, word(rows))
        with builder.if_then(builder.icmp_signed("<", row, height)):
            copy(rest, row)


@dataclass(frozen=True)
class Elements:
    """Reads an operand as panels have it: an element for each term of a line."""

    code: Code
    """The emitter of loads and stores of a panel."""

    @property
    def source(self) -> Code:
        """The emitter of addresses in the operand."""
        return self.code

    @property
    def group(self) -> int:
        """The terms that are one in a panel."""
        return 1

    def line(self, source: LlvmValue, number: LlvmValue, of_term: Amount) -> LlvmValue:
        """The address in the operand where a line of a panel begins."""
        return self.source.advanced(source, number, of_term * self.group)

    def vector(
        self,
        place: LlvmValue,
        of_term: Amount,
        lanes: int,
        mask: LlvmValue | None = None,
    ) -> LlvmValue:
        """Neighbours along a line from a place on; 0 where a mask is not set."""
        return self.code.load(place, 0, lanes, mask)

    def scalar(self, place: LlvmValue, of_term: Amount) -> LlvmValue:
        """The element of a panel that begins at a place."""
        return self.code.load_scalar(place, 0)

    def lines(
        self, place: LlvmValue, lanes: int, inside: LlvmValue | None = None
    ) -> LlvmValue:
        """
        The elements of as many lines from a place on, where terms follow each other;
        zeros, or anything, unless a bit says that they are inside of the operand.
        """
        mask = None if inside is None else self.code.splat(inside, lanes)
        return self.code.load(place, 0, lanes, mask)


@dataclass(frozen=True)
class Neighbours:
    """
    Copies rows that are neighbours to their panels: a line of several tiles at a time,
    so that lines of a cache are read once.
    """

    elements: Elements
    rows: int
    rest: int
    of_term: Amount
    """From a term to the next."""

    def copy(
        self,
        source: LlvmValue,
        panels: LlvmValue,
        height: LlvmValue,
        depth: LlvmValue,
        pitch: LlvmValue,
    ) -> None:
        """Copy so many lines of so many rows to panels that have `pitch` lines."""
        code = self.elements.code
        builder = code.builder

        def copy(tiles: int, count: int, row: LlvmValue) -> None:
            here = self.elements.source.advanced(source, row, 1)
            there = [code.advanced(panels, builder.mul(row, pitch), 1)]
            for _ in range(1, tiles):
                there.append(code.advanced(there[-1], pitch, count))
            self._copy_lines(here, there, count, depth)

        together = TOGETHER * self.rows
        whole = builder.mul(builder.sdiv(height, word(together)), word(together))

        def tiles(row: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            copy(TOGETHER, self.rows, row)
            return ()

        code.loop(whole, together, (), tiles)
        left = builder.sub(height, whole)

        def tile(count: int, row: LlvmValue) -> None:
            copy(1, count, builder.add(whole, row))

        each_tile(code, self.rows, self.rest, left, tile)

    def _copy_lines(
        self,
        source: LlvmValue,
        panels: Sequence[LlvmValue],
        count: int,
        depth: LlvmValue,
    ) -> None:
        """Copy so many lines of `count` rows to each of some panels."""
        elements, code = self.elements, self.elements.code
        reader = elements.source
        starts = range(0, count * len(panels), LINE // reader.size)

        def line(k: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            here = elements.line(source, k, self.of_term)
            for term in range(elements.group):
                for start in starts:
                    ahead = self.of_term * (TERMS_AHEAD + term)
                    reader.prefetch(here, ahead + start)
            vectors = [
                elements.vector(reader.place(here, n * count), self.of_term, count)
                for n in range(len(panels))
            ]
            for panel, vector in zip(panels, vectors, strict=True):
                code.store(vector, code.advanced(panel, k, count), 0)
            return ()

        code.loop(depth, 1, (), line)


@dataclass(frozen=True)
class RowPanel:
    """A panel of the rows of a tile: the elements of a term, then those of the next."""

    elements: Elements
    rows: int
    lanes: int
    steps: tuple[Amount, Amount]
    """From a row and from a term to the next, in the operand."""

    def copy(self, source: LlvmValue, panel: LlvmValue, depth: LlvmValue) -> None:
        """Copy so many lines."""
        code, of_term = self.elements.code, self.steps[1]
        if of_term == 1:
            whole = code.builder.and_(depth, word(-self.lanes))
            self._copy_vectors(source, panel, whole)
            source = self.elements.line(source, whole, of_term)
            panel = code.advanced(panel, whole, self.rows)
            depth = code.builder.sub(depth, whole)
        self.copy_single(source, panel, depth)

    def copy_single(
        self, source: LlvmValue, panel: LlvmValue, depth: LlvmValue
    ) -> None:
        """Copy so many lines, element by element."""
        elements, (of_row, of_term) = self.elements, self.steps
        code = elements.code

        def line(k: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            here = elements.line(source, k, of_term)
            there = code.advanced(panel, k, self.rows)
            for row in range(self.rows):
                place = elements.source.place(here, row * of_row)
                code.store_scalar(elements.scalar(place, of_term), there, row)
            return ()

        code.loop(depth, 1, (), line)

    def _copy_vectors(
        self, source: LlvmValue, panel: LlvmValue, depth: LlvmValue
    ) -> None:
        """Contiguous terms: a vector of each row."""
        elements, (of_row, of_term), lanes = self.elements, self.steps, self.lanes
        code = elements.code

        def block(k: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            here = elements.line(source, k, of_term)
            there = code.advanced(panel, k, self.rows)
            places = (elements.source.place(here, n * of_row) for n in range(self.rows))
            rows = [elements.lines(place, lanes) for place in places]
            for number, vector in enumerate(interleaved(code, rows, lanes)):
                code.store(vector, there, number * lanes)
            return ()

        code.loop(depth, lanes, (), block)


@dataclass(frozen=True)
class Panel:
    """A panel of columns: a line for each term, of whole vectors."""

    elements: Elements
    width: int
    lanes: int
    steps: tuple[Amount, Amount]
    """From a column and from a term to the next, in the operand."""
    used: LlvmValue | None = None
    """The elements of the last vector of a masked panel; zeros fill it."""
    ahead: bool = False
    """Whether the next panel is fetched, into the cache behind the nearest."""

    @property
    def code(self) -> Code:
        """The emitter of loads and stores of the panel."""
        return self.elements.code

    def copy(self, source: LlvmValue, panel: LlvmValue, depth: LlvmValue) -> None:
        """Copy so many lines."""
        code, (of_column, of_term) = self.code, self.steps
        if of_column == 1:
            self.copy_vectors(source, panel, depth)
            return
        if of_term == 1:
            whole = code.builder.and_(depth, word(-self.lanes))
            self._copy_blocks(source, panel, whole)
            source = self._line(source, whole)
            panel = code.advanced(panel, whole, self.width)
            depth = code.builder.sub(depth, whole)
        self.copy_single(source, panel, depth)

    def _line(self, source: LlvmValue, number: LlvmValue) -> LlvmValue:
        """The address in the operand where a line begins."""
        return self.elements.line(source, number, self.steps[1])

    def _starts(self) -> range:
        """The first element of each vector of a line."""
        return range(0, self.width, self.lanes)

    def _is_masked(self, start: int) -> bool:
        """Whether only some lanes of the vector from an element on are in use."""
        return self.used is not None and start == self.width - self.lanes

    def _mask(self, start: int) -> LlvmValue | None:
        """The lanes in use of the vector from an element on; None for all of them."""
        if not self._is_masked(start):
            return None
        return self.code.lanes_below(self.lanes, self.used)

    def _fetch(self, here: LlvmValue, column: int) -> None:
        """Fetch what lies in the next panel where this one has a column."""
        if self.ahead:
            place = (column + self.width) * self.steps[0]
            self.elements.source.prefetch(here, place, SECOND)

    def _fetch_line(self, line: LlvmValue, start: int) -> None:
        """Fetch the terms of a line where a line of a cache begins."""
        reader = self.elements.source
        if start % (LINE // reader.size):
            return
        for term in range(self.elements.group):
            self._fetch(reader.place(line, self.steps[1] * term), start)

    def copy_vectors(
        self, source: LlvmValue, panel: LlvmValue, depth: LlvmValue
    ) -> None:
        """Contiguous elements: vectors are copied."""
        elements, of_term = self.elements, self.steps[1]
        code, lanes = self.code, self.lanes
        masks = {
            start: code.lanes_below(lanes, self.used)
            if self._is_masked(start)
            else None
            for start in self._starts()
        }

        def line(k: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            here = self._line(source, k)
            there = code.advanced(panel, k, self.width)
            for start, mask in masks.items():
                self._fetch_line(here, start)
                place = elements.source.place(here, start)
                vector = elements.vector(place, of_term, lanes, mask)
                code.store(vector, there, start)
            return ()

        code.loop(depth, 1, (), line)

    def _copy_blocks(
        self, source: LlvmValue, panel: LlvmValue, depth: LlvmValue
    ) -> None:
        """Contiguous terms: square blocks are transposed."""
        code, lanes = self.code, self.lanes

        def block(k: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            here = self._line(source, k)
            there = code.advanced(panel, k, self.width)
            for start in self._starts():
                vectors = transposed(code, self._terms(here, start))
                for term, vector in enumerate(vectors):
                    code.store(vector, there, term * self.width + start)
            return ()

        code.loop(depth, lanes, (), block)

    def _terms(self, source: LlvmValue, start: int) -> Sequence[LlvmValue]:
        """A vector of terms of each column of a vector, zeros if it is not in use."""
        code, lanes = self.code, self.lanes
        found: list[LlvmValue] = []
        for column in range(start, start + lanes):
            place = self.elements.source.place(source, column * self.steps[0])
            inside = None
            if self._is_masked(start):
                inside = code.builder.icmp_signed("<", word(column - start), self.used)
                # A column that is there may be read in place of one that is not.
                place = code.builder.select(inside, place, source)
            self._fetch(source, column)
            found.append(self.elements.lines(place, lanes, inside))
        return found

    def copy_single(
        self, source: LlvmValue, panel: LlvmValue, depth: LlvmValue
    ) -> None:
        """Any other elements: they are copied one by one."""
        code, elements, (of_column, of_term) = self.code, self.elements, self.steps
        reader = elements.source

        def line(k: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            here = self._line(source, k)
            there = code.advanced(panel, k, self.width)
            if self.used is None:
                for column in range(self.width):
                    place = reader.place(here, column * of_column)
                    code.store_scalar(elements.scalar(place, of_term), there, column)
                return ()
            code.store(code.zero(self.lanes), there, self.width - self.lanes)
            count = code.builder.add(self.used, word(self.width - self.lanes))
            code.loop(count, 1, (), copy_from(here, there))
            return ()

        def copy_from(here: LlvmValue, there: LlvmValue):
            def copy(n: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
                place = reader.advanced(here, n, of_column)
                value = elements.scalar(place, of_term)
                code.store_scalar(value, code.advanced(there, n, 1), 0)
                return ()

            return copy

        code.loop(depth, 1, (), line)


def transposed(code: Code, lines: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
    """The columns of a square block whose rows are vectors of 2^n lanes."""
    count = len(lines)
    distance = 1
    while distance < count:
        low = [j if not j & distance else count + j - distance for j in range(count)]
        high = [j + distance if not j & distance else count + j for j in range(count)]
        new = list(lines)
        for index in range(count):
            if not index & distance:
                pair = lines[index], lines[index + distance]
                new[index] = code.shuffled(*pair, low)
                new[index + distance] = code.shuffled(*pair, high)
        lines, distance = new, 2 * distance
    return lines


def interleaved(
    code: Code, rows: Sequence[LlvmValue], lanes: int
) -> Sequence[LlvmValue]:
    """
    As many vectors as there are rows, of the elements of all rows: those of the first
    column, then those of the second. Halves of the rows are interleaved before, so that
    most vectors are shuffles of two.
    """
    count = len(rows)
    if count == 1:
        return rows
    high = count // 2
    low = count - high
    halves = [interleaved(code, half, lanes) for half in (rows[:low], rows[low:])]

    def origin(place: int) -> tuple[LlvmValue, int]:
        """The vector and the lane of a half that an element comes from."""
        column, row = divmod(place, count)
        in_half = column * low + row if row < low else column * high + row - low
        number, lane = divmod(in_half, lanes)
        return halves[row >= low][number], lane

    return [
        gathered(code, [origin(first + lane) for lane in range(lanes)])
        for first in range(0, count * lanes, lanes)
    ]


def gathered(code: Code, origins: Sequence[tuple[LlvmValue, int]]) -> LlvmValue:
    """A vector whose lanes come from these lanes of vectors as wide."""
    lanes = len(origins)
    first, *others = dict.fromkeys(vector for vector, _ in origins)
    made, places = first, [lane if vector is first else 0 for vector, lane in origins]
    for other in others or (first,):
        picked = [
            lanes + lane if vector is other else place
            for (vector, lane), place in zip(origins, places, strict=True)
        ]
        made, places = code.shuffled(made, other, picked), [*range(lanes)]
    return made


################################################################################
# Windows                                                                      #
################################################################################

MAX_UNROLLED = 16
"""The terms of a window that are copied without a loop."""
NOWHERE = 1 << 31
"""The offset of the index of an unused lane: it is out of all bounds."""

Load: TypeAlias = Callable[[LlvmValue, Amount, Sequence[LlvmValue]], LlvmValue]
"""
A function that loads a vector of columns, at an offset from an address, with these
indices.
"""
Loops: TypeAlias = Sequence[tuple[Amount, Amount]]
"""Loops from the outermost to the innermost: the trip count and the stride of each."""
Bound: TypeAlias = tuple[Amount, Amount, Sequence[int], Sequence[int]]
"""
The least index that is out of bounds, as negative ones are; that of the first element
of all; and what a step of each loop of terms and of columns adds to it.
"""


def pack_windows(
    element: str,
    vectors: int,
    lanes: int,
    b: tuple[Amount, Loops, Loops],
    masked: bool = False,
    bounds: Sequence[Bound] = (),
):
    """
    A function `pack(b, panel, used, depth, column, term)` that copies `depth` terms of
    columns from these on to a panel, as `pack` does.

    `b` has the stride of the outermost loop of terms, and the other loops of terms and
    those of columns, from the outermost to the innermost: the trip count of each, and
    its stride in elements. `depth` and `term` are multiples of the iterations of these
    loops of terms. Elements out of `bounds` are not read, and zero; the outermost loop
    of terms adds nothing to their indices. Each number may be an `Argument`, but for
    what steps add to indices.
    """

    def emit(builder, facts, source, panel, used, depth, column, term) -> None:
        (first, terms, columns), bounds = facts
        count = columns_of(builder, vectors, lanes, used if masked else None)
        pieces = Pieces(Code(builder, element), count, lanes, columns)
        task = _Windows(pieces, vectors * lanes, first, terms, bounds)
        if masked:
            task.clear_last(panel, depth)
        task.copy(source, panel, depth, column, term)

    return copier("windows", 6, emit, (b, tuple(bounds)))


def columns_of(
    builder: ir.IRBuilder, vectors: int, lanes: int, used: LlvmValue | None
) -> LlvmValue:
    """The columns of a panel, the last vector of which may have only some in use."""
    if used is None:
        return word(vectors * lanes)
    return builder.add(used, word((vectors - 1) * lanes))


def least(builder: ir.IRBuilder, *values: LlvmValue) -> LlvmValue:
    """The least of some words with a sign."""
    found, *others = values
    for value in others:
        found = builder.select(builder.icmp_signed("<", value, found), value, found)
    return found


@dataclass(frozen=True)
class Pieces:
    """
    Some columns of windows, piece by piece: columns of one turn of the innermost loop,
    as many as a vector has lanes.
    """

    code: Code
    """The emitter of the loads."""
    count: LlvmValue
    lanes: int
    columns: Loops
    """The trip count of each loop, and its stride in elements."""

    @property
    def step(self) -> Amount:
        """From a column of a piece to the next."""
        return self.columns[-1][1] if self.columns else 1

    def each(
        self,
        source: LlvmValue,
        column: LlvmValue,
        copy: Callable[[LlvmValue, LlvmValue, LlvmValue], None],
    ) -> None:
        """
        Emit a loop over the pieces from a column on. `copy` is given where a piece
        begins, how many columns come before it, and how many it has.
        """
        builder = self.code.builder
        loop, after = (builder.append_basic_block(name) for name in ("piece", "end"))
        before = builder.block
        builder.branch(loop)
        builder.position_at_end(loop)
        at = builder.phi(WORD)
        at.add_incoming(word(0), before)
        here, left = self._place(source, builder.add(column, at))
        size = least(builder, left, builder.sub(self.count, at), word(self.lanes))
        copy(here, at, size)
        end = builder.add(at, size)
        at.add_incoming(end, builder.block)
        builder.cbranch(builder.icmp_signed("<", end, self.count), loop, after)
        builder.position_at_end(after)

    def _place(
        self, source: LlvmValue, column: LlvmValue
    ) -> tuple[LlvmValue, LlvmValue]:
        """Where a column is, and how many the innermost loop has from there on."""
        digits, left = self.digits(column), word(1)
        for digit, (_, stride) in zip(digits, self.columns, strict=True):
            source = self.code.advanced(source, digit, stride)
        if self.columns:
            left = self.code.builder.sub(as_word(self.columns[-1][0]), digits[-1])
        return source, left

    def digits(self, column: LlvmValue) -> list[LlvmValue]:
        """The turn of each loop that a column is in."""
        builder, found = self.code.builder, list[LlvmValue]()
        for extent, _ in reversed(self.columns):
            turns = as_word(extent)
            found.append(builder.srem(column, turns))
            column = builder.sdiv(column, turns)
        return found[::-1]


def turns_of(loops: Loops) -> Amount:
    """The iterations of all of some loops, each in the next."""
    found: Amount = 1
    for extent, _ in loops:
        found = found * extent
    return found


@dataclass(frozen=True)
class _Windows:
    """Copies windows piece by piece, and all terms of each."""

    pieces: Pieces
    width: int
    first: Amount
    """From a turn of the outermost loop of terms to the next."""
    terms: Loops
    """The loops of terms in it."""
    bounds: Sequence[Bound]

    @property
    def code(self) -> Code:
        """The emitter of loads and stores of elements."""
        return self.pieces.code

    @property
    def lanes(self) -> int:
        """The elements of a vector."""
        return self.pieces.lanes

    def clear_last(self, panel: LlvmValue, depth: LlvmValue) -> None:
        """Zeros for the last vector, which is not full."""
        code = self.code

        def line(k: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            there = code.advanced(panel, k, self.width)
            code.store(code.zero(self.lanes), there, self.width - self.lanes)
            return ()

        code.loop(depth, 1, (), line)

    def copy(
        self,
        source: LlvmValue,
        panel: LlvmValue,
        depth: LlvmValue,
        column: LlvmValue,
        term: LlvmValue,
    ) -> None:
        """Copy all pieces."""
        code, builder = self.code, self.code.builder
        inner = as_word(turns_of(self.terms))
        turns = builder.sdiv(depth, inner)
        source = code.advanced(source, builder.sdiv(term, inner), self.first)

        def copy(here: LlvmValue, at: LlvmValue, size: LlvmValue) -> None:
            there = code.advanced(panel, at, 1)
            indices = self._indices(builder.add(column, at))
            self._copy_piece(here, there, turns, size, at, indices)

        self.pieces.each(source, column, copy)

    def _indices(self, column: LlvmValue) -> Sequence[LlvmValue]:
        """
        The indices of a column and the first term that have to be within each bound.
        """
        builder, found = self.code.builder, list[LlvmValue]()
        digits = self.pieces.digits(column) if self.bounds else ()
        for _, first, _, steps in self.bounds:
            index = as_word(first)
            for digit, step in zip(digits, steps, strict=True):
                index = builder.add(index, builder.mul(digit, word(step)))
            found.append(index)
        return found

    def _copy_piece(
        self,
        source: LlvmValue,
        panel: LlvmValue,
        turns: LlvmValue,
        size: LlvmValue,
        at: LlvmValue,
        indices: Sequence[LlvmValue],
    ) -> None:
        """Copy the terms of some columns that are equally far apart."""
        load = self._loader(self.pieces.step, size)
        builder = self.code.builder
        end = builder.add(at, word(self.lanes))
        # Whole vectors are faster than parts of them, and what is too much is written
        # again by the next piece.
        fits = builder.icmp_signed("<=", end, word(self.width))
        with builder.if_else(fits) as (then, otherwise):
            with then:
                self._copy_turns(source, panel, turns, load, None, indices)
            with otherwise:
                mask = self.code.lanes_below(self.lanes, size)
                self._copy_turns(source, panel, turns, load, mask, indices)

    def _copy_turns(
        self,
        source: LlvmValue,
        panel: LlvmValue,
        turns: LlvmValue,
        load: Load,
        mask: LlvmValue | None,
        indices: Sequence[LlvmValue],
    ) -> None:
        """Copy the terms of all turns of the outermost loop of terms."""
        code = self.code
        inner = turns_of(self.terms)

        def turn(k: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            here = code.advanced(source, k, self.first)
            there = code.advanced(panel, k, inner * self.width)
            self._copy_terms(self.terms, here, there, load, mask, indices)
            return ()

        code.loop(turns, 1, (), turn)

    def _copy_terms(
        self,
        terms: Loops,
        source: LlvmValue,
        panel: LlvmValue,
        load: Load,
        mask: LlvmValue | None,
        indices: Sequence[LlvmValue],
    ) -> None:
        """Copy the terms of one turn of the outer loops."""
        code, builder = self.code, self.code.builder
        steps_of = [steps[len(steps) - len(terms) :] for _, _, steps, _ in self.bounds]
        extents = [extent for extent, _ in terms if isinstance(extent, int)]
        if len(extents) == len(terms) and prod(extents) <= MAX_UNROLLED:
            for line, number in enumerate(product(*map(range, extents))):
                steps = zip(number, terms, strict=True)
                offset = sum((index * stride for index, (_, stride) in steps), start=0)
                here = [
                    builder.add(index, word(sum(map(mul, number, steps))))
                    for index, steps in zip(indices, steps_of, strict=True)
                ]
                value = load(source, offset, here)
                code.store(value, panel, line * self.width, mask)
            return
        (extent, stride), *rest = terms
        lines = turns_of(rest)

        def turn(k: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            here = code.advanced(source, k, stride)
            there = code.advanced(panel, k, lines * self.width)
            inside = [
                builder.add(index, builder.mul(k, word(steps[0])))
                for index, steps in zip(indices, steps_of, strict=True)
            ]
            self._copy_terms(rest, here, there, load, mask, inside)
            return ()

        code.loop(as_word(extent), 1, (), turn)

    def _loader(self, step: Amount, size: LlvmValue) -> Load:
        """
        The loader of some columns at an offset, with the indices to be checked against
        bounds.
        """
        code, builder, lanes = self.code, self.code.builder, self.lanes
        if isinstance(step, Number) or step not in (1, 2):
            below = code.lanes_below(lanes, size)

            def gather(
                source: LlvmValue, offset: Amount, indices: Sequence[LlvmValue]
            ) -> LlvmValue:
                mask = self._within(below, range(lanes), indices)
                return code.gather(source, offset, lanes, step, mask)

            return gather
        span = builder.sub(builder.mul(size, word(step)), word(step - 1))
        masks = [
            code.lanes_below(lanes, builder.sub(span, word(part * lanes)))
            for part in range(step)
        ]

        def load(
            source: LlvmValue, offset: Amount, indices: Sequence[LlvmValue]
        ) -> LlvmValue:
            parts: list[LlvmValue] = []
            for part, below in enumerate(masks):
                places = range(part * lanes, (part + 1) * lanes)
                columns = [-1 if n % step else n // step for n in places]
                mask = self._within(below, columns, indices)
                parts.append(code.load(source, offset + places[0], lanes, mask))
            if step == 1:
                return parts[0]
            return code.shuffled(parts[0], parts[1], range(0, 2 * lanes, 2))

        return load

    def _within(
        self,
        mask: LlvmValue,
        columns: Sequence[int],
        indices: Sequence[LlvmValue],
    ) -> LlvmValue:
        """
        The lanes of a mask that are within all bounds, if each is of one of some
        columns, the first of which has these indices, or of none (-1).
        """
        builder, lanes = self.code.builder, self.lanes
        vector = ir.VectorType(INDEX, lanes)
        for (extent, *_, steps), index in zip(self.bounds, indices, strict=True):
            # Negative indices are large ones without a sign.
            if not steps or not steps[-1]:
                inside = builder.icmp_unsigned("<", index, as_word(extent))
                nothing = ir.Constant(ir.VectorType(BIT, lanes), [0] * lanes)
                mask = builder.select(inside, mask, nothing)
                continue
            numbers = [NOWHERE if n < 0 else n * steps[-1] for n in columns]
            first = self.code.splat(builder.trunc(index, INDEX), lanes)
            places = builder.add(first, ir.Constant(vector, numbers))
            ends = self.code.splat(builder.trunc(as_word(extent), INDEX), lanes)
            inside = builder.icmp_unsigned("<", places, ends)
            mask = builder.and_(mask, inside)
        return mask
