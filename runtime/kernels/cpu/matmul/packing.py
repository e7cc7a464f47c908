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
from numba.extending import intrinsic

from penstock.runtime.kernels.cpu.simd import (
    BIT,
    BYTE,
    INDEX,
    WORD,
    Code,
    LlvmValue,
    internal_function,
    word,
)

LINE = 64
"""The bytes of a line of a cache, by which scratch memory is aligned."""


@intrinsic(prefer_literal=True)
def scratch(_typing, size):
    """The address of some bytes on the stack; the number is a literal."""
    if not isinstance(size, types.IntegerLiteral):
        return None
    count = size.literal_value

    def generate(context, builder, signature, args):
        with builder.goto_entry_block():
            memory = builder.alloca(ir.ArrayType(BYTE, count))
            memory.align = LINE
            return builder.ptrtoint(memory, WORD)

    return types.int64(size), generate


def pack(
    element: str, vectors: int, lanes: int, b: tuple[int, int], masked: bool = False
):
    """
    A function `pack(b, panel, used, depth)` that copies `depth` rows of columns of b to
    a panel of `vectors` vectors; in a `masked` one the last vector has `used` columns,
    and zeros.

    `b` is the steps from a term and from a column to the next; `lanes` is a power of 2.
    """
    emit = _pack_strided
    if b[1] == 1:
        emit = _pack_lines
    elif b[0] == 1:
        emit = _pack_transposed

    @intrinsic
    def call(_typing, source, panel, used, depth):
        def generate(context, builder, signature, args):
            module = builder.module
            function, inside = internal_function(module, "pack", 4)
            *places, used, depth = function.args
            columns = word(vectors * lanes)
            if masked:
                columns = inside.add(used, word((vectors - 1) * lanes))
            task = _Packing(Code(inside, element), columns, vectors, lanes, b)
            emit(task, *places, depth)
            inside.ret_void()
            builder.call(function, args)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 4), generate

    return call


@dataclass(frozen=True)
class _Packing:
    """The source of a panel: columns of B, and the strides of their elements."""

    code: Code
    columns: LlvmValue
    vectors: int
    lanes: int
    b: tuple[int, int]

    @property
    def width(self) -> int:
        """The columns of the panel."""
        return self.vectors * self.lanes

    def starts(self) -> range:
        """The first column of each vector."""
        return range(0, self.width, self.lanes)

    def mask(self, start: int) -> LlvmValue:
        """The lanes in use of the vector that starts at a column."""
        left = self.code.builder.sub(self.columns, word(start))
        return self.code.lanes_below(self.lanes, left)


def _pack_lines(
    task: _Packing, source: LlvmValue, panel: LlvmValue, depth: LlvmValue
) -> None:
    """Columns that follow each other: vectors are copied."""
    code = task.code
    masks = {start: task.mask(start) for start in task.starts()}

    def line(k: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
        here = code.advanced(source, k, task.b[0])
        there = code.advanced(panel, k, task.width)
        for start in task.starts():
            code.store(code.load(here, start, task.lanes, masks[start]), there, start)
        return ()

    code.loop(depth, 1, (), line)


def _pack_strided(
    task: _Packing, source: LlvmValue, panel: LlvmValue, depth: LlvmValue
) -> None:
    """Any other columns: elements are copied one by one."""
    code = task.code

    def line(k: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
        here = code.advanced(source, k, task.b[0])
        there = code.advanced(panel, k, task.width)

        def copy(n: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            value = code.load_scalar(code.advanced(here, n, task.b[1]), 0)
            code.store_scalar(value, code.advanced(there, n, 1), 0)
            return ()

        code.store(code.zero(task.lanes), there, task.width - task.lanes)
        code.loop(task.columns, 1, (), copy)
        return ()

    code.loop(depth, 1, (), line)


def _pack_transposed(
    task: _Packing, source: LlvmValue, panel: LlvmValue, depth: LlvmValue
) -> None:
    """Columns whose terms follow each other: square blocks are transposed."""
    code, lanes = task.code, task.lanes

    def block(k: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
        there = code.advanced(panel, k, task.width)
        for start in task.starts():
            lines = _lines(task, code.advanced(source, k, 1), start)
            for term, line in enumerate(transposed(code, lines)):
                code.store(line, there, term * task.width + start)
        return ()

    whole = code.builder.and_(depth, word(-lanes))
    code.loop(whole, lanes, (), block)
    source = code.advanced(source, whole, 1)
    panel = code.advanced(panel, whole, task.width)
    _pack_strided(task, source, panel, code.builder.sub(depth, whole))


def _lines(task: _Packing, source: LlvmValue, start: int) -> Sequence[LlvmValue]:
    """The terms of as many columns from one on as a vector has lanes, or zeros."""
    code, lines = task.code, list[LlvmValue]()
    for column in range(start, start + task.lanes):
        place = column * task.b[1]
        if start < task.width - task.lanes:
            lines.append(code.load(source, place, task.lanes))
            continue
        inside = code.builder.icmp_signed("<", word(column), task.columns)
        mask = code.splat(inside, task.lanes)
        lines.append(code.load(source, place, task.lanes, mask))
    return lines


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


################################################################################
# Rows                                                                         #
################################################################################


def pack_rows(element: str, rows: int, lanes: int, a: tuple[int, int], rest: int = 0):
    """
    A function `pack(a, panels, height, depth)` that copies `depth` terms of `height`
    rows of a to panels as wide as a tile has `rows`, one behind the other; a last panel
    has `rest` rows.

    `a` is the steps from a row and from a term to the next; `lanes` is a power of 2. Up
    to `lanes` elements behind the panels are written.
    """

    @intrinsic
    def call(_typing, source, panels, height, depth):
        def generate(context, builder, signature, args):
            module = builder.module
            function, inside = internal_function(module, "rows", 4)
            source, panels, height, depth = function.args
            task = Rows(Code(inside, element), lanes, a)
            tiles = inside.sdiv(height, word(rows))

            def tile(number: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
                row = inside.mul(number, word(rows))
                task.copy(rows, *task.places(source, panels, row, depth), depth)
                return ()

            task.code.loop(tiles, 1, (), tile)
            if rest:
                row = inside.mul(tiles, word(rows))
                with inside.if_then(inside.icmp_signed("<", row, height)):
                    task.copy(rest, *task.places(source, panels, row, depth), depth)
            inside.ret_void()
            builder.call(function, args)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 4), generate

    return call


@dataclass(frozen=True)
class Rows:
    """
    Copies rows to panels. Vectors are stored from the first element on, so that the
    next one writes over the lanes that are none of a panel.
    """

    code: Code
    lanes: int
    a: tuple[int, int]

    def places(
        self, source: LlvmValue, panels: LlvmValue, row: LlvmValue, depth: LlvmValue
    ) -> tuple[LlvmValue, LlvmValue]:
        """Where the tile that begins with a row is, here and there."""
        there = self.code.advanced(panels, self.code.builder.mul(row, depth), 1)
        return self.code.advanced(source, row, self.a[0]), there

    def copy(
        self, rows: int, source: LlvmValue, panel: LlvmValue, depth: LlvmValue
    ) -> None:
        """Copy the terms of the rows of one panel."""
        of_row, of_term = self.a
        if of_row == 1:
            self._copy_columns(rows, source, panel, depth)
        elif of_term == 1:
            code = self.code
            whole = code.builder.and_(depth, word(-self.lanes))
            self._copy_blocks(rows, source, panel, whole)
            source = code.advanced(source, whole, 1)
            panel = code.advanced(panel, whole, rows)
            self._copy_single(rows, source, panel, code.builder.sub(depth, whole))
        else:
            self._copy_single(rows, source, panel, depth)

    def _groups(self, rows: int) -> Sequence[tuple[int, int]]:
        """The first rows of vectors, and how many rows each has."""
        firsts = range(0, rows, self.lanes)
        return [(first, min(self.lanes, rows - first)) for first in firsts]

    def _copy_columns(
        self, rows: int, source: LlvmValue, panel: LlvmValue, depth: LlvmValue
    ) -> None:
        """Rows that follow each other: vectors are copied."""
        code, lanes = self.code, self.lanes

        def line(k: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            here = code.advanced(source, k, self.a[1])
            there = code.advanced(panel, k, rows)
            for first, count in self._groups(rows):
                mask = None if count == lanes else code.lanes_below(lanes, word(count))
                code.store(code.load(here, first, lanes, mask), there, first)
            return ()

        code.loop(depth, 1, (), line)

    def _copy_blocks(
        self, rows: int, source: LlvmValue, panel: LlvmValue, depth: LlvmValue
    ) -> None:
        """Terms that follow each other: square blocks are transposed."""
        code, lanes = self.code, self.lanes

        def block(k: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            here, there = code.advanced(source, k, 1), code.advanced(panel, k, rows)
            columns: list[tuple[int, Sequence[LlvmValue]]] = []
            for first, count in self._groups(rows):
                places = [(first + row) * self.a[0] for row in range(count)]
                lines = [code.load(here, place, lanes) for place in places]
                lines += [code.zero(lanes)] * (lanes - count)
                columns.append((first, transposed(code, lines)))
            for term in range(lanes):
                for first, vectors in columns:
                    code.store(vectors[term], there, term * rows + first)
            return ()

        code.loop(depth, lanes, (), block)

    def _copy_single(
        self, rows: int, source: LlvmValue, panel: LlvmValue, depth: LlvmValue
    ) -> None:
        """Any other rows: elements are copied one by one."""
        code = self.code

        def line(k: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            here = code.advanced(source, k, self.a[1])
            there = code.advanced(panel, k, rows)
            for row in range(rows):
                value = code.load_scalar(here, row * self.a[0])
                code.store_scalar(value, there, row)
            return ()

        code.loop(depth, 1, (), line)


################################################################################
# Windows                                                                      #
################################################################################

MAX_UNROLLED = 16
"""The terms of a window that are copied without a loop."""
NOWHERE = 1 << 31
"""What is added to the index of a lane that nobody wants: that is out of all bounds."""

Load: TypeAlias = Callable[[LlvmValue, int, Sequence[LlvmValue]], LlvmValue]
"""
What loads a vector of columns, at an offset from an address, which has these indices.
"""
Bound: TypeAlias = tuple[int, int, Sequence[int], Sequence[int]]
"""
The least index that is out of bounds, as negative ones are; that of the first element
of all; and what a step of each loop of terms and of columns adds to it.
"""


def pack_windows(
    element: str,
    vectors: int,
    lanes: int,
    b: tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]]],
    masked: bool = False,
    bounds: Sequence[Bound] = (),
):
    """
    A function `pack(b, panel, used, depth, column, term)` that copies `depth` terms of
    columns from these on to a panel, as `pack` does.

    `b` has the loops of terms and of columns, from the outermost to the innermost: the
    trip count of each, and its stride in elements. `depth` and `term` are multiples of
    the iterations of all loops of terms but the first. Elements out of `bounds` are not
    read, and zero; the first loop of terms adds nothing to their indices.
    """
    terms, columns = b

    @intrinsic
    def call(_typing, source, panel, used, depth, column, term):
        def generate(context, builder, signature, args):
            module = builder.module
            function, inside = internal_function(module, "windows", 6)
            source, panel, used, depth, column, term = function.args
            count = word(vectors * lanes)
            if masked:
                count = inside.add(used, word((vectors - 1) * lanes))
            code = Code(inside, element)
            pieces = Pieces(code, count, lanes, columns)
            task = _Windows(pieces, vectors * lanes, terms, bounds)
            if masked:
                task.clear_last(panel, depth)
            task.copy(source, panel, depth, column, term)
            inside.ret_void()
            builder.call(function, args)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6), generate

    return call


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
    """What loads the elements."""
    count: LlvmValue
    lanes: int
    columns: Sequence[tuple[int, int]]
    """How often each loop runs, and how far apart its elements are."""

    @property
    def step(self) -> int:
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
            left = self.code.builder.sub(word(self.columns[-1][0]), digits[-1])
        return source, left

    def digits(self, column: LlvmValue) -> list[LlvmValue]:
        """The turn of each loop that a column is in."""
        builder, found = self.code.builder, list[LlvmValue]()
        for extent, _ in reversed(self.columns):
            found.append(builder.srem(column, word(extent)))
            column = builder.sdiv(column, word(extent))
        return found[::-1]


@dataclass(frozen=True)
class _Windows:
    """Copies windows piece by piece, and all terms of each."""

    pieces: Pieces
    width: int
    terms: Sequence[tuple[int, int]]
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
        inner = prod(extent for extent, _ in self.terms[1:])
        turns = builder.sdiv(depth, word(inner))
        source = code.advanced(source, builder.sdiv(term, word(inner)), self._first)

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
            index = word(first)
            for digit, step in zip(digits, steps, strict=True):
                index = builder.add(index, builder.mul(digit, word(step)))
            found.append(index)
        return found

    @property
    def _first(self) -> int:
        """From a turn of the first loop of terms to the next."""
        return self.terms[0][1] if self.terms else 0

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
        inner = prod(extent for extent, _ in self.terms[1:])

        def turn(k: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            here = code.advanced(source, k, self._first)
            there = code.advanced(panel, k, inner * self.width)
            self._copy_terms(self.terms[1:], here, there, load, mask, indices)
            return ()

        code.loop(turns, 1, (), turn)

    def _copy_terms(
        self,
        terms: Sequence[tuple[int, int]],
        source: LlvmValue,
        panel: LlvmValue,
        load: Load,
        mask: LlvmValue | None,
        indices: Sequence[LlvmValue],
    ) -> None:
        """Copy the terms of one turn of the outer loops."""
        code, builder = self.code, self.code.builder
        steps_of = [steps[len(steps) - len(terms) :] for _, _, steps, _ in self.bounds]
        if prod(extent for extent, _ in terms) <= MAX_UNROLLED:
            numbers = product(*(range(extent) for extent, _ in terms))
            for line, number in enumerate(numbers):
                steps = zip(number, terms, strict=True)
                offset = sum(index * stride for index, (_, stride) in steps)
                here = [
                    builder.add(index, word(sum(map(mul, number, steps))))
                    for index, steps in zip(indices, steps_of, strict=True)
                ]
                value = load(source, offset, here)
                code.store(value, panel, line * self.width, mask)
            return
        (extent, stride), *rest = terms
        lines = prod(extent for extent, _ in rest)

        def turn(k: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            here = code.advanced(source, k, stride)
            there = code.advanced(panel, k, lines * self.width)
            inside = [
                builder.add(index, builder.mul(k, word(steps[0])))
                for index, steps in zip(indices, steps_of, strict=True)
            ]
            self._copy_terms(rest, here, there, load, mask, inside)
            return ()

        code.loop(word(extent), 1, (), turn)

    def _loader(self, step: int, size: LlvmValue) -> Load:
        """
        The loader of some columns at an offset, with the indices to be checked against
        bounds.
        """
        code, builder, lanes = self.code, self.code.builder, self.lanes
        if step not in (1, 2):
            below = code.lanes_below(lanes, size)

            def gather(
                source: LlvmValue, offset: int, indices: Sequence[LlvmValue]
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
            source: LlvmValue, offset: int, indices: Sequence[LlvmValue]
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
                inside = builder.icmp_unsigned("<", index, word(extent))
                nothing = ir.Constant(ir.VectorType(BIT, lanes), [0] * lanes)
                mask = builder.select(inside, mask, nothing)
                continue
            numbers = [NOWHERE if n < 0 else n * steps[-1] for n in columns]
            first = self.code.splat(builder.trunc(index, INDEX), lanes)
            places = builder.add(first, ir.Constant(vector, numbers))
            ends = ir.Constant(vector, [extent] * lanes)
            inside = builder.icmp_unsigned("<", places, ends)
            mask = builder.and_(mask, inside)
        return mask
