"""
Transposition of blocks whose rows follow each other in memory on one side only.

`transposition` makes the function that a kernel calls for a block of elements that
follow each other along one loop where they are read, and along another one where they
are written. Squares of vectors are loaded, turned in registers and stored, so that all
bytes of a cache line are used at once on both sides. The last rows and columns, which
do not fill a square, are loaded and stored under masks.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportReturnType=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from penstock.runtime.kernels.cpu.matmul.packing import transposed
from penstock.runtime.kernels.cpu.simd import (
    Code,
    LlvmValue,
    word,
)
from penstock.runtime.kernels.cpu.vector_loop import Body, InnerLoopLanes, code_for
from penstock.runtime.kernels.cpu_features import Processor, processor_here

MOST_LANES = 16
"""The most rows of a square: all of it has to fit into registers."""

ACROSS, ALONG, ROW = "across", "along", "row"
"""
The places of an operand's elements: one after the other down a column, or along a row,
or one for all of a row.
"""


@dataclass(frozen=True)
class _Transposition:
    element: str
    body: Body | None
    """None if elements are moved as they are."""
    loads: Sequence[str]
    stores: int
    rows: int | None
    columns: int | None
    types: Sequence[str]
    """The element types in memory of all loads, then of all stores."""
    processor: Processor

    @property
    def lanes(self) -> int:
        """The rows, and columns, of a square."""
        size = {"8": 1, "16": 2, "32": 4, "64": 8}[self.element[1:]]
        least = min(self.rows or MOST_LANES, self.columns or MOST_LANES)
        most = min(self.processor.vector_bytes // size, MOST_LANES)
        return min(most, 1 << (least - 1).bit_length())

    def emit(self, code: Code, values: Sequence[LlvmValue]) -> None:
        """Emit the loops over squares."""
        given = iter(values)

        def take(count: int) -> list[LlvmValue]:
            return [next(given) for _ in range(count)]

        sources, targets = take(len(self.loads)), take(self.stores)
        numbers = take(
            len(values)
            - 2 * (len(sources) + len(targets))
            - (self.rows is None)
            - (self.columns is None)
        )
        steps = take(len(sources)), take(len(targets))
        rows, columns = (
            word(known) if known is not None else next(given)
            for known in (self.rows, self.columns)
        )
        block = _Block(self, code, sources, targets, numbers, *steps)
        lanes = self.lanes

        def line(row: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            down = code.builder.sub(rows, row)

            def square(at: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
                block.square(row, at, down, code.builder.sub(columns, at))
                return ()

            code.loop(columns, lanes, (), square)
            return ()

        code.loop(rows, lanes, (), line)


@dataclass(frozen=True)
class _Block:
    """A block with the values of one call."""

    made: _Transposition
    code: Code
    sources: Sequence[LlvmValue]
    targets: Sequence[LlvmValue]
    numbers: Sequence[LlvmValue]
    source_steps: Sequence[LlvmValue]
    target_steps: Sequence[LlvmValue]

    @property
    def codes(self) -> Sequence[Code]:
        """The emitters of loads, then of stores."""
        return [code_for(self.code, type) for type in self.made.types]

    def square(
        self, row: LlvmValue, column: LlvmValue, down: LlvmValue, right: LlvmValue
    ) -> None:
        """Emit a square from a place on, given how many rows and columns are left."""
        made, builder, lanes = self.made, self.code.builder, self.made.lanes
        place = row, column
        known = [made.rows or lanes, made.columns or lanes]
        if min(known) < lanes:
            # No square is whole.
            self._square(place, (down, right))
            return
        is_whole = builder.and_(
            builder.icmp_signed(">=", down, word(lanes)),
            builder.icmp_signed(">=", right, word(lanes)),
        )
        with builder.if_else(is_whole, likely=True) as (whole, rest):
            with whole:
                self._square(place, None)
            with rest:
                self._square(place, (down, right))

    def _square(
        self,
        place: tuple[LlvmValue, LlvmValue],
        left: tuple[LlvmValue, LlvmValue] | None,
    ) -> None:
        turned = {
            number: transposed(self.code, list(self._columns(number, place, left)))
            for number, kind in enumerate(self.made.loads)
            if kind == ACROSS
        }
        if self.made.body is not None:
            self._compute(turned, place, left)
            return
        ((vectors,), (target,), (step,)) = (
            turned.values(),
            self.targets,
            self.target_steps,
        )
        own = self.codes[-1]
        for number, vector in enumerate(vectors):
            here = self._at(own, target, step, place, word(number))
            mask = None if left is None else self._mask(own, left[::-1], number)
            own.store(vector, here, 0, mask)

    def _columns(
        self,
        number: int,
        place: tuple[LlvmValue, LlvmValue],
        left: tuple[LlvmValue, LlvmValue] | None,
    ) -> Iterator[LlvmValue]:
        """A vector down each column of a square of an operand."""
        own, source = self.codes[number], self.sources[number]
        step = self.source_steps[number]
        for column in range(self.made.lanes):
            here = self._at(own, source, step, place[::-1], word(column))
            mask = None if left is None else self._mask(own, left, column)
            yield own.load(here, 0, self.made.lanes, mask)

    def _at(
        self,
        own: Code,
        address: LlvmValue,
        step: LlvmValue,
        place: tuple[LlvmValue, LlvmValue],
        number: LlvmValue,
    ) -> LlvmValue:
        """The address of a vector so many steps after the first one of a square."""
        outer, inner = place
        line = self.code.builder.add(outer, number)
        return own.advanced(own.advanced(address, line, step), inner, 1)

    def _mask(
        self, own: Code, left: tuple[LlvmValue, LlvmValue], number: int
    ) -> LlvmValue:
        """The elements of a vector that are left, none if it is past the last one."""
        builder, lanes = self.code.builder, self.made.lanes
        inside, vectors = left
        is_left = builder.icmp_signed("<", word(number), vectors)
        zero = own.builder.select(is_left, inside, word(0))
        return own.lanes_below(lanes, zero)

    def _compute(
        self,
        turned: dict[int, Sequence[LlvmValue]],
        place: tuple[LlvmValue, LlvmValue],
        left: tuple[LlvmValue, LlvmValue] | None,
    ) -> None:
        """Emit a loop over the rows of a square, which lie in memory meanwhile."""
        code, builder, lanes = self.code, self.code.builder, self.made.lanes
        kept: dict[int, LlvmValue] = {}
        for number, vectors in turned.items():
            buffer = cgutils.alloca_once(builder, vectors[0].type, size=word(lanes))
            for index, vector in enumerate(vectors):
                builder.store(vector, builder.gep(buffer, [word(index)]))
            kept[number] = buffer
        count, mask = word(lanes), None
        if left is not None:
            down, right = left
            is_less = builder.icmp_signed("<", down, count)
            count = builder.select(is_less, down, count)
            mask = code.lanes_below(lanes, right)
        compute = partial(self._row, kept, place, mask)
        code.loop(count, 1, (), compute)

    def _row(
        self,
        kept: dict[int, LlvmValue],
        place: tuple[LlvmValue, LlvmValue],
        mask: LlvmValue | None,
        row: LlvmValue,
        _: Sequence[LlvmValue],
    ) -> Sequence[LlvmValue]:
        code, builder, lanes = self.code, self.code.builder, self.made.lanes
        x = InnerLoopLanes(code, lanes)
        codes = self.codes
        loaded: list[LlvmValue] = []
        for number, kind in enumerate(self.made.loads):
            own, step = codes[number], self.source_steps[number]
            if kind == ACROSS:
                loaded.append(builder.load(builder.gep(kept[number], [row])))
                continue
            first = (place[0], word(0)) if kind == ROW else place
            here = self._at(own, self.sources[number], step, first, row)
            if kind == ROW:
                # A vector of one is extended as the others are.
                one = own.load(here, 0, 1)
                loaded.append(code.shuffled(one, one, [0] * lanes))
            else:
                loaded.append(own.load(here, 0, lanes, mask))
        numbers = (code.splat(number, lanes) for number in self.numbers)
        assert self.made.body is not None, "it computes"
        given = (x.made(value) for value in (*loaded, *numbers))
        stored, _terms = self.made.body(x, *given)
        stores = zip(self.targets, self.target_steps, strict=True)
        for own, value, (target, step) in zip(
            codes[len(self.made.loads) :], stored, stores, strict=True
        ):
            here = self._at(own, target, step, place, row)
            own.store(value.value, here, 0, mask)
        return ()


def transposition(
    element: str,
    body: Body | None = None,
    loads: Sequence[str] = (ACROSS,),
    stores: int = 1,
    rows: int | None = None,
    columns: int | None = None,
    memory: Sequence[str] = (),
    processor: Processor | None = None,
):
    """
    A function of one tuple: the addresses of the first elements of all loads and
    stores, numbers, the steps of all loads and stores, then the rows and the columns of
    the block, each unless it is known.

    A row of a store has columns that follow each other, and the next one is a step
    further on. So it is with loads `along`; those `across` have columns whose rows
    follow each other, a step apart; and of a `row` there is one element each. Steps are
    in elements. `body` computes the elements of a row, as in `line`; without one the
    only load is stored as it is. `memory` says what elements are in memory, if that is
    not what is computed in.

    A square is loaded before any of it is stored but for loads `along`, of which a row
    is loaded before it is stored: that may be where the result lies.
    """
    made = _Transposition(
        element,
        body,
        loads,
        stores,
        rows,
        columns,
        memory or [element] * (len(loads) + stores),
        processor or processor_here(),
    )

    @intrinsic
    def call(_typing, values):
        def generate(context, builder, signature, args):
            code = Code(builder, element)
            made.emit(code, cgutils.unpack_tuple(builder, args[0]))
            return context.get_dummy_value()

        return types.void(values), generate

    return call
