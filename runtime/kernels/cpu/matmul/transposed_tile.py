"""
Transposed matmul micro-kernels: SIMD lanes run along the rows of the result.

Where the columns of `c[m, n] += a[m, k] * b[k, n]` are windows, `outer_micro_kernel`
needs a packed panel of them. A transposed tile does not: it multiplies single elements
of B, wherever they lie, with vectors of A, which is packed in panels as wide as a tile
has rows. The accumulators then hold the transpose of the result and are transposed in
registers before they are stored.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportReturnType=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from penstock.runtime.kernels.cpu.matmul.packing import transposed
from penstock.runtime.kernels.cpu.matmul.tile import Finish, finished
from penstock.runtime.kernels.cpu.simd import (
    BIT,
    WORD,
    Code,
    Lanes,
    LlvmValue,
    internal_function,
    word,
)

Loops: TypeAlias = Sequence[tuple[int, int]]
"""From the outermost to the innermost: turns, and how far apart they are in b."""


@dataclass(frozen=True)
class _Place:
    """Where some columns begin in b, the result and the inputs."""

    b: LlvmValue
    c: LlvmValue
    inputs: Sequence[LlvmValue]


@dataclass(frozen=True)
class _Upright:
    """Tiles of all columns of some lines, `vectors` vectors high."""

    element: str
    vectors: int
    lanes: int
    terms: Loops
    tiles: Sequence[tuple[int, int, int]]
    steps: tuple[int, int]
    turn: int
    c: int
    tail: tuple[int, int] = (0, 0)
    inputs: Sequence[tuple[int, int]] = ()
    finish: Finish | None = None
    results: int = 0

    @property
    def height(self) -> int:
        """The rows of a tile, and the width of the panel of a."""
        return self.vectors * self.lanes

    def emit(self, module: ir.Module) -> ir.Function:
        """Add the function of this micro-kernel to a module."""
        function, builder = internal_function(module, "upright", 5 + len(self.inputs))
        code = Code(builder, self.element)
        a, b, c, turns, tail, *inputs = function.args
        start = _Place(b, c, inputs)
        columns = sum(count * lines * width for count, lines, width in self.tiles)

        def turn(at: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            self._emit_tiles(code, a, self._moved(code, start, at, self.turn, columns))
            return ()

        code.loop(turns, 1, (), turn)
        if self.tail[0]:
            with builder.if_then(builder.trunc(tail, BIT)):
                place = self._moved(code, start, turns, self.turn, columns)
                self._emit_tile(code, a, place, self.tail)
        builder.ret_void()
        return function

    def _moved(
        self, code: Code, place: _Place, count: LlvmValue, of_b: int, columns: int
    ) -> _Place:
        """The place `count` times so many columns further on."""
        inputs = [
            code.advanced(address, count, columns * of_column)
            for address, (_, of_column) in zip(place.inputs, self.inputs, strict=True)
        ]
        b, c = (
            code.advanced(address, count, step)
            for address, step in ((place.b, of_b), (place.c, columns))
        )
        return replace(place, b=b, c=c, inputs=inputs)

    def _emit_tiles(self, code: Code, a: LlvmValue, place: _Place) -> None:
        """Emit the tiles of one turn."""
        for count, lines, width in self.tiles:
            of_b, columns = width * self.steps[1], lines * width

            def tile(
                at: LlvmValue,
                _: Sequence[LlvmValue],
                start: _Place = place,
                shape: tuple[int, int] = (lines, width),
                of_b: int = of_b,
            ) -> Sequence[LlvmValue]:
                moved = self._moved(code, start, at, of_b, shape[0] * shape[1])
                self._emit_tile(code, a, moved, shape)
                return ()

            code.loop(word(count), 1, (), tile)
            place = self._moved(code, place, word(count), of_b, columns)

    def _emit_tile(
        self, code: Code, a: LlvmValue, place: _Place, shape: tuple[int, int]
    ) -> None:
        lines, width = shape
        offsets = [
            line * self.steps[0] + column * self.steps[1]
            for line in range(lines)
            for column in range(width)
        ]
        zeros = [code.zero(self.lanes)] * (len(offsets) * self.vectors)
        sums = self._sums(code, (a, place.b, *zeros), offsets)
        for vector in range(self.vectors):
            for first in range(0, len(offsets), self.lanes):
                of_vector = sums[vector :: self.vectors][first : first + self.lanes]
                self._write(code, of_vector, place, vector * self.lanes, first)

    def _sums(
        self, code: Code, state: Sequence[LlvmValue], offsets: Sequence[int]
    ) -> Sequence[LlvmValue]:
        """
        The sums of a tile after all terms, from the addresses of a and b on.

        Where the terms of a window lie is looked up in a table. If it were in the code,
        compilers would find that windows overlap, and keep what they share in registers
        that are not there.
        """
        (extent, step), *window = self.terms
        if not window:
            return self._add_all(code, word(extent), state, offsets, step)
        places = [
            sum(index * step for index, (_, step) in zip(place, window, strict=True))
            for place in product(*(range(turns) for turns, _ in window))
        ]
        table = self._table(code, [place * code.size for place in places])
        # Nor may they know that the table is read from its beginning to its end.
        unknown = code.builder.lshr(state[0], word(63))
        count = code.builder.add(word(len(places)), unknown)

        def turn(_: LlvmValue, state: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            a, b, *sums = state
            a, _, *sums = self._add_all(code, count, (a, b, *sums), offsets, table)
            return [a, code.place(b, step), *sums]

        return code.loop(word(extent), 1, state, turn)[2:]

    def _table(self, code: Code, places: Sequence[int]) -> LlvmValue:
        """The address of words in constant memory."""
        module = code.builder.module
        type = ir.ArrayType(WORD, len(places))
        table = ir.GlobalVariable(module, type, module.get_unique_name("places"))
        table.linkage, table.global_constant = "internal", True
        table.initializer = ir.Constant(type, list(places))
        return code.builder.ptrtoint(table, WORD)

    def _add_all(
        self,
        code: Code,
        count: LlvmValue,
        state: Sequence[LlvmValue],
        offsets: Sequence[int],
        step: int | LlvmValue,
    ) -> Sequence[LlvmValue]:
        """Add so many terms, which are a step apart, or lie as a table says."""
        builder = code.builder

        def turn(at: LlvmValue, state: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            a, b, *sums = state
            here, following = b, b
            if isinstance(step, int):
                following = code.place(b, step)
            else:
                address = builder.add(step, builder.mul(at, word(8)))
                pointer = builder.inttoptr(address, WORD.as_pointer())
                here = builder.add(b, builder.load(pointer))
            new = self._add_term(code, a, here, sums, offsets)
            return [code.place(a, self.height), following, *new]

        found = code.loop(count, 1, state, turn)
        return found if not isinstance(step, int) else found[2:]

    def _add_term(
        self,
        code: Code,
        a: LlvmValue,
        b: LlvmValue,
        sums: Sequence[LlvmValue],
        offsets: Sequence[int],
    ) -> Sequence[LlvmValue]:
        """Add the products of a vector of a and elements of b."""
        starts = range(0, self.height, self.lanes)
        vectors = [code.load(a, start, self.lanes) for start in starts]
        factors = [
            code.splat(code.load_scalar(b, offset), self.lanes) for offset in offsets
        ]
        return [
            code.multiply_add(factor, vector, total)
            for (factor, vector), total in zip(
                product(factors, vectors), sums, strict=True
            )
        ]

    def _write(
        self,
        code: Code,
        sums: Sequence[LlvmValue],
        place: _Place,
        row: int,
        column: int,
    ) -> None:
        """Store the sums of up to as many columns as a vector has lanes."""
        lanes, used = self.lanes, len(sums)
        rows = transposed(code, [*sums, *[sums[-1]] * (lanes - used)])
        mask = None
        if used < lanes:
            bits = [1] * used + [0] * (lanes - used)
            mask = ir.Constant(ir.VectorType(BIT, lanes), bits)
        read = len(self.inputs) - self.results
        of_columns = {
            number: self._input(code, place, number, (0, column), mask)
            for number, (of_row, _) in enumerate(self.inputs[:read])
            if of_row == 0
        }
        x = Lanes(code, lanes)
        for number, value in enumerate(rows, start=row):
            if self.finish is not None:
                inputs = [
                    of_columns.get(index)
                    or self._input(code, place, index, (number, column), mask)
                    for index in range(read)
                ]
                value, *others = finished(self.finish, x, value, inputs)
                for index, other in enumerate(others, read):
                    at = number * self.inputs[index][0] + column
                    code.store(other, place.inputs[index], at, mask)
            code.store(value, place.c, number * self.c + column, mask)

    def _input(
        self,
        code: Code,
        place: _Place,
        number: int,
        at: tuple[int, int],
        mask: LlvmValue | None,
    ) -> LlvmValue:
        """The elements of an input that belong to columns of a row."""
        of_row, of_column = self.inputs[number]
        address, offset = place.inputs[number], at[0] * of_row + at[1] * of_column
        if of_column == 0:
            return code.splat(code.load_scalar(address, offset), self.lanes)
        return code.load(address, offset, self.lanes, mask)


def transposed_micro_kernel(element: str, vectors: int, lanes: int, **facts):
    """
    Tiles of elements of b times vectors of a, as a function `kernel(a, b, c, turns,
    tail, inputs)` of addresses and numbers: it computes the columns of so many turns,
    and of those in the tail if that is 1.

    `a` is the address of a panel as wide as `vectors` vectors. `terms` are the loops of
    terms: turns, and how far apart they are in b. A turn has `tiles`: how many follow
    each other, and the lines and the columns of each line of one. `steps` is from a
    line and from a column to the next in b; columns follow each other in the result.
    `turn` is from a turn to the next in b, `c` from a row of the result to the next,
    `tail` the lines and the columns of the last tile, if it is another one. `inputs`
    has the steps from a row and from a column (0 or 1) to the next for each input of
    `finish`, the last `results` of which are further results that it returns.
    """
    kernel = _Upright(element, vectors, lanes, **facts)
    count = len(kernel.inputs)
    addresses = types.UniTuple(types.int64, count) if count else types.Tuple(())

    def generate(context, builder, signature, args):
        *words, inputs = args
        words += cgutils.unpack_tuple(builder, inputs, count)
        builder.call(kernel.emit(builder.module), words)
        return context.get_dummy_value()

    @intrinsic
    def call(_typing, a, b, c, turns, tail, inputs):
        return types.void(*[types.int64] * 5, addresses), generate

    return call
