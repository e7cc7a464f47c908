"""
Vectorized inner loops (*lines*) over contiguous elements.

`line` makes the function that a kernel calls for a loop whose iterations are
independent, or that carries sums, products, maxima or minima. Vectors are as wide as
those of the CPU that compiles. The last elements, which do not fill a vector, are
loaded and stored under a mask. `f16` and `bf16` are extended when they are loaded, and
computed in `f32`.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportUnknownLambdaType=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportReturnType=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from penstock.runtime.kernels.cpu.halves import from_f16, to_f16
from penstock.runtime.kernels.cpu.simd import (
    INDEX,
    Amount,
    Code,
    Lanes,
    LlvmValue,
    Vector,
    as_word,
    down_to,
    word,
)
from penstock.runtime.kernels.cpu_features import Processor, processor_here

Body: TypeAlias = Callable[..., tuple[Sequence[Vector], Sequence[Vector]]]
"""
The stored vectors, and the one that each reduction takes in, given `Lanes`, a vector of
each load, and one of each number.
"""

AT_ONCE, FOLDED_AT_ONCE = 2, 4
"""
The vectors of a turn of a loop without folds, and with them or of a short line. They
make one long vector, whose ops LLVM cuts in ops that do not wait for each other.
"""

CONTRACT = ("contract",)

MOST_SHUFFLED = 16
"""
The most bytes from an element to the next of a load of which whole vectors are loaded
and shuffled. A vector of larger steps takes more cache lines than elements are worth.
"""

CACHE_LINE = 64
"""Bytes that are fetched at once."""


################################################################################
# Floats of 16 bits                                                            #
################################################################################

_HALVES = {"bf16": (ir.IntType(16), "i16"), "f16": (ir.HalfType(), "f16")}
"""The type of an element in LLVM code, and its name in those of functions."""


class HalfCode(Code):
    """
    Loads and stores of `bf16` or `f16` elements that are computed in `f32`. Stored
    values should be exact in 16 bits: nothing is rounded.
    """

    def __init__(self, builder: ir.IRBuilder, element: str):
        super().__init__(builder, "f32")
        self.scalar, self.element = _HALVES[element]
        self.size = 2

    def zero(self, lanes: int) -> LlvmValue:
        """A vector of zeros."""
        return ir.Constant(self.vector(lanes), None)

    def load(
        self,
        address: LlvmValue,
        offset: Amount,
        lanes: int,
        mask: LlvmValue | None = None,
    ) -> LlvmValue:
        """Elements that follow each other; 0 where a mask is not set."""
        return self._extended(super().load(address, offset, lanes, mask))

    def gather(
        self,
        address: LlvmValue,
        offset: Amount,
        lanes: int,
        step: Amount,
        mask: LlvmValue,
    ) -> LlvmValue:
        """Elements that are `step` apart; 0 where a mask is not set."""
        return self._extended(super().gather(address, offset, lanes, step, mask))

    def store(
        self,
        value: LlvmValue,
        address: LlvmValue,
        offset: Amount,
        mask: LlvmValue | None = None,
    ) -> None:
        """Write elements that follow each other, those whose bit in a mask is set."""
        super().store(self._narrowed(value), address, offset, mask)

    def _extended(self, value: LlvmValue) -> LlvmValue:
        if self.element == "f16":
            return from_f16(self.builder, value)
        builder, lanes = self.builder, value.type.count
        wide = ir.VectorType(ir.FloatType(), lanes)
        words = builder.zext(value, ir.VectorType(INDEX, lanes))
        return builder.bitcast(builder.shl(words, _same(16, lanes)), wide)

    def _narrowed(self, value: LlvmValue) -> LlvmValue:
        if self.element == "f16":
            return to_f16(self.builder, value)
        builder, lanes = self.builder, value.type.count
        words = builder.bitcast(value, ir.VectorType(INDEX, lanes))
        return builder.trunc(builder.lshr(words, _same(16, lanes)), self.vector(lanes))


def _same(number: int, lanes: int) -> LlvmValue:
    """A word of 32 bits in all lanes."""
    return ir.Constant(ir.VectorType(INDEX, lanes), [number] * lanes)


def code_for(code: Code, type: str) -> Code:
    """
    The emitter of loads and stores of a type's elements in a line that computes in
    `code`.
    """
    if type in _HALVES:
        return HalfCode(code.builder, type)
    return code if type == code.element else Code(code.builder, type)


################################################################################
# Folds                                                                        #
################################################################################


def _larger(relation: str) -> Callable[[Code, LlvmValue, LlvmValue], LlvmValue]:
    """The new number where it stands in a relation to the one so far; no NaN does."""

    def combine(code: Code, total: LlvmValue, term: LlvmValue) -> LlvmValue:
        builder = code.builder
        return builder.select(builder.fcmp_ordered(relation, term, total), term, total)

    return combine


def _called(name: str) -> Callable[[Code, LlvmValue, LlvmValue], LlvmValue]:
    return lambda code, total, term: code.call(name, total, term)


Total: TypeAlias = Sequence[LlvmValue]
"""The vectors that a fold has of the numbers so far."""


@dataclass(frozen=True)
class _Fold:
    """The combination of two numbers, and its neutral element."""

    neutral: float
    combine: Callable[[Code, LlvmValue, LlvmValue], LlvmValue]

    def begin(self, code: Code, lanes: int) -> Total:
        """The total of no numbers."""
        return [ir.Constant(code.vector(lanes), [self.neutral] * lanes)]

    def take(self, code: Code, total: Total, term: LlvmValue) -> Total:
        """The total with another number in each lane."""
        return [self.combine(code, total[0], term)]

    def join(self, code: Code, a: Total, b: Total) -> Total:
        """One total of two."""
        return [self.combine(code, a[0], b[0])]

    def finish(self, code: Code, total: Total) -> LlvmValue:
        """The number that all lanes are combined to."""
        (one,) = self.narrow(code, total, 1)
        return code.builder.extract_element(one, ir.Constant(INDEX, 0))

    def narrow(self, code: Code, total: Total, lanes: int) -> Total:
        """The total in fewer lanes."""
        while (count := total[0].type.count) > lanes:
            halves = (
                [code.shuffled(x, x, range(first, first + count // 2)) for x in total]
                for first in (0, count // 2)
            )
            total = self.join(code, *halves)
        return total


@dataclass(frozen=True)
class _Extreme(_Fold):
    """
    The largest or smallest `f32` by its bits, in three instructions a vector: as
    integers with a sign numbers above 0 are in order, as those without one both these
    and the others are, by their size. NaNs are past the infinities. So the largest and
    the least of both kinds tell whether there is a NaN, and which number is the one.
    """

    is_largest: bool

    def begin(self, code: Code, lanes: int) -> Total:
        """The total of no numbers."""
        one = ir.Constant(code.vector(lanes), [self.neutral] * lanes)
        return [code.builder.bitcast(one, ir.VectorType(INDEX, lanes))] * len(_ORDERS)

    def take(self, code: Code, total: Total, term: LlvmValue) -> Total:
        """The total with another number in each lane."""
        bits = code.builder.bitcast(term, ir.VectorType(INDEX, term.type.count))
        return self.join(code, total, [bits] * len(_ORDERS))

    def join(self, code: Code, a: Total, b: Total) -> Total:
        """One total of two."""
        integers = Code(code.builder, "i32")
        return [
            integers.call(name, *pair)
            for name, *pair in zip(_ORDERS, a, b, strict=True)
        ]

    def finish(self, code: Code, total: Total) -> LlvmValue:
        """The number that all lanes are combined to."""
        builder = code.builder
        signed, least, most = (
            builder.extract_element(x, ir.Constant(INDEX, 0))
            for x in self.narrow(code, total, 1)
        )
        is_nan = builder.or_(
            builder.icmp_signed(">", signed, ir.Constant(INDEX, _INFINITY)),
            builder.icmp_unsigned(">", most, ir.Constant(INDEX, _SIGN | _INFINITY)),
        )
        has_sign = builder.icmp_signed("<", most, ir.Constant(INDEX, 0))
        is_below = builder.icmp_signed("<", signed, ir.Constant(INDEX, 0))
        if self.is_largest:
            bits = builder.select(is_below, least, signed)
        else:
            bits = builder.select(has_sign, most, least)
        bits = builder.select(is_nan, ir.Constant(INDEX, _NAN), bits)
        return builder.bitcast(bits, code.scalar)


_ORDERS = ("smax", "umin", "umax")
_INFINITY, _NAN, _SIGN = 0x7F800000, 0x7FC00000, 0x80000000


_FOLDS = {
    "add": _Fold(-0.0, lambda code, a, b: code.builder.fadd(a, b, flags=CONTRACT)),
    "mul": _Fold(1.0, lambda code, a, b: code.builder.fmul(a, b)),
    "maximum": _Fold(-math.inf, _called("maximum")),
    "minimum": _Fold(math.inf, _called("minimum")),
    "maxnum": _Fold(-math.inf, _larger(">")),
    "minnum": _Fold(math.inf, _larger("<")),
}


_OF_BITS = {
    "maximum": _Extreme(-math.inf, _called("maximum"), is_largest=True),
    "minimum": _Extreme(math.inf, _called("minimum"), is_largest=False),
}


def _fold_of(code: Code, name: str) -> _Fold:
    """The fold of a name, on elements as they are computed."""
    return {**_FOLDS, **(_OF_BITS if code.element == "f32" else {})}[name]


_SYMBOLS = {"eq": "==", "ne": "!=", "gt": ">", "ge": ">=", "lt": "<", "le": "<="}


class InnerLoopLanes(Lanes):
    """The operations of the body of a vectorized loop."""

    def times(self, a: Vector, b: Vector) -> Vector:
        """A product that is rounded only once it is added to a sum."""
        return self.made(self.builder.fmul(a.value, b.value, flags=CONTRACT))

    def compared(self, relation: str, a: Vector, b: Vector) -> Vector:
        """Whether two numbers stand in a relation, named as in `arith.cmpf`."""
        symbol = _SYMBOLS.get(relation[1:], relation)
        builder = self.builder
        is_ordered = relation[0] == "o"
        compare = builder.fcmp_ordered if is_ordered else builder.fcmp_unordered
        return self.made(compare(symbol, a.value, b.value))

    def both(self, a: Vector, b: Vector) -> Vector:
        """Whether both conditions hold."""
        return self.made(self.builder.and_(a.value, b.value))

    def either(self, a: Vector, b: Vector) -> Vector:
        """Whether one of two conditions holds, or both."""
        return self.made(self.builder.or_(a.value, b.value))

    def differ(self, a: Vector, b: Vector) -> Vector:
        """Whether one of two conditions holds, but not both."""
        return self.made(self.builder.xor(a.value, b.value))

    def round_f16(self, a: Vector) -> Vector:
        """The nearest `f16`."""
        return self.made(from_f16(self.builder, to_f16(self.builder, a.value)))

    def round_bf16(self, a: Vector) -> Vector:
        """The nearest `bf16`, of two as near the even one; a NaN stays one."""
        builder, lanes = self.builder, self._count
        words = builder.bitcast(a.value, ir.VectorType(INDEX, lanes))
        last = builder.and_(builder.lshr(words, _same(16, lanes)), _same(1, lanes))
        nearest = builder.add(words, builder.add(last, _same(0x7FFF, lanes)))
        quiet = builder.or_(words, _same(0x400000, lanes))
        is_nan = builder.fcmp_unordered("uno", a.value, a.value)
        upper = builder.and_(
            builder.select(is_nan, quiet, nearest), _same(0xFFFF0000, lanes)
        )
        return self.made(builder.bitcast(upper, a.value.type))


################################################################################
# Lines                                                                        #
################################################################################


@dataclass(frozen=True)
class _Line:
    element: str
    extent: int | None
    """None if it is known when the line runs."""
    multiple: int
    """Of how many elements the extent is a multiple, a power of two."""
    short: bool
    """Whether the extent is small, so that its last vectors count."""
    loads: int
    stores: int
    folds: Sequence[str]
    body: Body
    steps: Sequence[int]
    repeats: Sequence[int]
    ahead: Sequence[int]
    types: Sequence[str]
    """The element types in memory of all loads, then of all stores."""
    streamed: bool
    """Whether the only store is of what no cache holds when it is read."""
    processor: Processor

    @property
    def lanes(self) -> int:
        """Lanes of a vector: no more than the line has elements, rounded up."""
        most = self.processor.vector_bytes // (4 if self.element == "f32" else 8)
        if self.extent is None:
            return most
        return min(most, 1 << (self.extent - 1).bit_length())

    def emit(self, code: Code, values: Sequence[LlvmValue]) -> list[LlvmValue]:
        """
        Emit the loop on addresses, numbers, and what folds begin with; then the extent,
        if it is known when it runs.
        """
        extent = None
        if self.extent is None:
            *values, extent = values
        ends = self.loads, self.loads + self.stores, len(values) - len(self.folds)
        sources, targets = values[: ends[0]], values[ends[0] : ends[1]]
        numbers = values[ends[1] : ends[2]]
        run = _Run(self, code, sources, targets, numbers, extent)
        return [
            self._finished(code, fold, total, start)
            for fold, total, start in zip(
                self.folds, run.all(), values[ends[2] :], strict=True
            )
        ]

    def _finished(
        self, code: Code, name: str, total: Total, start: LlvmValue
    ) -> LlvmValue:
        """The reduction of a total's lanes and the first number."""
        fold = _fold_of(code, name)
        number = fold.finish(code, total)
        if name in ("add", "mul"):
            return fold.combine(code, start, number)
        return _scalar_call(code, name, start, number)


def narrowed(code: Code, fold: str, total: LlvmValue, lanes: int) -> LlvmValue:
    """The reduction of a vector's lanes to fewer lanes."""
    (narrow,) = _FOLDS[fold].narrow(code, [total], lanes)
    return narrow


def powers_in(count: int) -> list[tuple[int, int]]:
    """A number as a sum of powers of two, the largest first, each after its start."""
    found: list[tuple[int, int]] = []
    start = 0
    while start < count:
        found.append((start, 1 << ((count - start).bit_length() - 1)))
        start += found[-1][1]
    return found


def _scalar_call(code: Code, name: str, *values: LlvmValue) -> LlvmValue:
    type = ir.FunctionType(code.scalar, [code.scalar] * len(values))
    function = cgutils.get_or_insert_function(
        code.builder.module, type, f"llvm.{name}.{code.element}"
    )
    return code.builder.call(function, values)


@dataclass(frozen=True)
class _Run:
    """A line with the values of one call."""

    line: _Line
    code: Code
    sources: Sequence[LlvmValue]
    targets: Sequence[LlvmValue]
    numbers: Sequence[LlvmValue]
    extent: LlvmValue | None
    """The number of elements, if it is known when the line runs."""

    @property
    def _folds(self) -> list[_Fold]:
        return [_fold_of(self.code, name) for name in self.line.folds]

    def all(self) -> list[Total]:
        """Emit everything; the total of each fold at the end."""
        if self.extent is not None:
            if self.line.streamed:
                return self._streamed(self.extent)
            return self._all_of(self.extent)
        assert self.line.extent is not None, "it is known"
        return self._all_of_known(self.line.extent)

    def _all_of(self, extent: LlvmValue) -> list[Total]:
        """
        Emit a loop over long vectors, and one over vectors, the last under a mask; of
        short lines without a mask but for the last.
        """
        lanes, line, builder = self.line.lanes, self.line, self.code.builder
        wide = lanes * (FOLDED_AT_ONCE if line.folds or line.short else AT_ONCE)
        totals = self._begun(wide)
        end = down_to(builder, extent, wide)
        totals = self._loop(end, totals, wide)
        totals = self._narrowed(totals, lanes)
        if line.multiple % wide == 0:
            return totals
        if line.short:
            self._finish_short(extent, end)
            return totals
        left = builder.sub(extent, end)

        def turn(at: LlvmValue, totals: Sequence[Total]) -> Sequence[Total]:
            rest = None if line.multiple % lanes == 0 else builder.sub(left, at)
            return self._step(builder.add(end, at), totals, lanes, rest)

        return self._repeated(left, lanes, totals, turn)

    def _finish_short(self, extent: LlvmValue, start: LlvmValue) -> None:
        """
        Emit the last vectors of a line without folds: whole ones, and one under a mask
        that is the same for all lines of an extent.
        """
        lanes, builder = self.line.lanes, self.code.builder
        end = down_to(builder, extent, lanes)
        self._loop(end, (), lanes, start)
        rest = builder.sub(extent, end)
        with builder.if_then(builder.icmp_signed("<", word(0), rest)):
            self._step(end, (), lanes, rest)

    def _streamed(self, extent: LlvmValue) -> list[Total]:
        """
        Emit a loop over long vectors that are written past the caches, which begins at
        a whole vector of memory, and after it one over vectors; the latter takes all
        where the result lies over an operand.
        """
        lanes, builder, (target,) = self.line.lanes, self.code.builder, self.targets
        bytes, wide = lanes * self.code.size, lanes * AT_ONCE
        is_apart = ir.Constant(ir.IntType(1), 1)
        for source in self.sources:
            differs = builder.icmp_unsigned("!=", source, target)
            is_apart = builder.and_(is_apart, differs)
        before = builder.and_(builder.sub(word(0), target), word(bytes - 1))
        head = builder.udiv(before, word(self.code.size))
        is_apart = builder.and_(is_apart, builder.icmp_signed("<=", head, extent))
        head = builder.select(is_apart, head, word(0))
        end = down_to(builder, builder.sub(extent, head), wide)
        end = builder.select(is_apart, end, word(0))
        self._step(word(0), [], lanes, head)

        def turn(at: LlvmValue, _: Sequence[Total]) -> Sequence[Total]:
            return self._step(builder.add(head, at), [], wide, None, streamed=True)

        self._repeated(end, wide, [], turn)
        start = builder.add(head, end)
        left = builder.sub(extent, start)

        def rest(at: LlvmValue, _: Sequence[Total]) -> Sequence[Total]:
            return self._step(builder.add(start, at), [], lanes, builder.sub(left, at))

        return self._repeated(left, lanes, [], rest)

    def _all_of_known(self, extent: int) -> list[Total]:
        lanes, line = self.line.lanes, self.line
        vectors = extent // lanes
        most = FOLDED_AT_ONCE if line.folds else AT_ONCE
        wide = lanes * min(most, 1 << max(0, vectors.bit_length() - 1))
        totals = self._begun(wide)
        end = extent // wide * wide
        if end == wide:
            totals = self._step(word(0), totals, wide, None)
        elif end:
            totals = self._loop(word(end), totals, wide)
        totals = self._narrowed(totals, lanes)
        for start in range(end, vectors * lanes, lanes):
            totals = self._step(word(start), totals, lanes, None)
        if rest := extent % lanes:
            totals = self._step(word(vectors * lanes), totals, lanes, rest)
        return totals

    def _begun(self, lanes: int) -> list[Total]:
        return [fold.begin(self.code, lanes) for fold in self._folds]

    def _narrowed(self, totals: Sequence[Total], lanes: int) -> list[Total]:
        pairs = zip(self._folds, totals, strict=True)
        return [fold.narrow(self.code, total, lanes) for fold, total in pairs]

    def _loop(
        self,
        end: LlvmValue,
        totals: Sequence[Total],
        lanes: int,
        start: LlvmValue | None = None,
    ) -> list[Total]:
        """Emit a loop over whole vectors, from a start or from 0 to an end."""
        builder = self.code.builder

        def turn(at: LlvmValue, totals: Sequence[Total]) -> Sequence[Total]:
            here = at if start is None else builder.add(start, at)
            return self._step(here, totals, lanes, None)

        count = end if start is None else builder.sub(end, start)
        return self._repeated(count, lanes, totals, turn)

    def _repeated(
        self,
        end: LlvmValue,
        step: int,
        totals: Sequence[Total],
        turn: Callable[[LlvmValue, Sequence[Total]], Sequence[Total]],
    ) -> list[Total]:
        """Emit a loop that carries totals."""
        counts = [len(total) for total in totals]

        def grouped(values: Sequence[LlvmValue]) -> list[Total]:
            given = iter(values)
            return [[next(given) for _ in range(count)] for count in counts]

        def body(at: LlvmValue, carried: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            return [value for total in turn(at, grouped(carried)) for value in total]

        starts = [value for total in totals for value in total]
        return grouped(self.code.loop(end, step, starts, body))

    def _step(
        self,
        at: LlvmValue,
        totals: Sequence[Total],
        lanes: int,
        rest: int | LlvmValue | None,
        *,
        streamed: bool = False,
    ) -> list[Total]:
        """
        Emit what is done with one vector, or with the rest of one; what totals are with
        it.
        """
        code = self.code
        x = InnerLoopLanes(code, lanes)
        count = lanes if rest is None else rest
        mask = None if rest is None else code.lanes_below(lanes, as_word(rest))
        codes = [code_for(code, type) for type in self.line.types]
        loaded = (
            self._load(number, at, lanes, count) for number in range(self.line.loads)
        )
        if mask is None:
            self._fetch(codes, at, lanes)
        numbers = (code.splat(number, lanes) for number in self.numbers)
        given = (x.made(value) for value in (*loaded, *numbers))
        stored, terms = self.line.body(x, *given)
        for own, value, address in zip(
            codes[self.line.loads :], stored, self.targets, strict=True
        ):
            here, number = own.advanced(address, at, 1), value.value
            # LLVM writes 32 bits for a masked store of one lane that it has cut.
            is_short = self._is_short(own, count)
            if streamed:
                own.stream(number, here, self.line.lanes * own.size)
            elif isinstance(count, int) and (count == 1 or is_short):
                for lane, width in powers_in(count):
                    part = code.shuffled(number, number, range(lane, lane + width))
                    own.store(part, here, lane)
            else:
                own.store(number, here, 0, mask)
        return [
            self._folded(fold, total, term.value, mask)
            for fold, total, term in zip(self._folds, totals, terms, strict=True)
        ]

    def _load(
        self, number: int, at: LlvmValue, lanes: int, count: int | LlvmValue
    ) -> LlvmValue:
        """The elements of a load for some lanes, of which so many are in use."""
        code = code_for(self.code, self.line.types[number])
        address, step = self.sources[number], self.line.steps[number]
        if (repeat := self.line.repeats[number]) > 1:
            return self._loaded_again(code, address, at, repeat, lanes, count)
        if step == 1 and self._is_short(code, count):
            return self._loaded_short(code, address, lanes, count)
        return self._loaded(code, address, at, step, lanes, count)

    def _is_short(self, code: Code, count: int | LlvmValue) -> bool:
        """
        Whether a line is less than a vector, of what is in memory as it is computed.
        Then nothing is masked: what is stored under a mask seems to touch the next
        lines as well, which would wait for it.
        """
        if not isinstance(count, int) or count != self.line.extent:
            return False
        return count < self.line.lanes and code.size == self.code.size

    @staticmethod
    def _loaded_short(
        code: Code, address: LlvmValue, lanes: int, count: int
    ) -> LlvmValue:
        """All elements of a line that is less than a vector, then any others."""
        whole: LlvmValue | None = None
        for lane, width in powers_in(count):
            part = code.load(address, lane, width)
            spread = [min(max(0, n - lane), width - 1) for n in range(lanes)]
            wide = code.shuffled(part, part, spread)
            if whole is None:
                whole = wide
            else:
                places = (n if n < lane else lanes + n for n in range(lanes))
                whole = code.shuffled(whole, wide, list(places))
        assert whole is not None, "a line has elements"
        return whole

    def _fetch(self, codes: Sequence[Code], at: LlvmValue, lanes: int) -> None:
        """Fetch what the next line loads, one vector for each that this one does."""
        for code, address, ahead in zip(
            codes, self.sources, self.line.ahead, strict=False
        ):
            here = code.advanced(address, at, 1)
            for lane in range(0, lanes if ahead else 0, CACHE_LINE // code.size):
                code.prefetch(here, ahead + lane)

    @staticmethod
    def _loaded(
        code: Code,
        address: LlvmValue,
        at: LlvmValue,
        step: int,
        lanes: int,
        count: int | LlvmValue,
    ) -> LlvmValue:
        """The elements of the first lanes, which are some steps apart."""
        here, number = code.advanced(address, at, step), as_word(count)
        if step == 1:
            mask = None if count == lanes else code.lanes_below(lanes, number)
            return code.load(here, 0, lanes, mask)
        if step * code.size > MOST_SHUFFLED:
            mask = code.lanes_below(lanes, number)
            return code.gather(here, 0, lanes, step, mask)
        builder = code.builder
        reach = builder.add(builder.mul(number, word(step)), word(1 - step))
        whole: LlvmValue | None = None
        for part in range(step):
            first = part * lanes
            mask = code.lanes_below(lanes, builder.sub(reach, word(first)))
            loaded = code.load(here, first, lanes, mask)
            places = [
                n * (step if part == 1 else 1)
                if n * step < first
                # Those of later parts come with these.
                else lanes + min(n * step - first, lanes - 1)
                for n in range(lanes)
            ]
            whole = loaded if whole is None else code.shuffled(whole, loaded, places)
        assert whole is not None, "a step is positive"
        return whole

    @staticmethod
    def _loaded_again(
        code: Code,
        address: LlvmValue,
        at: LlvmValue,
        repeat: int,
        lanes: int,
        count: int | LlvmValue,
    ) -> LlvmValue:
        """The elements of the first lanes, each of which comes so often."""
        builder, number = code.builder, max(1, lanes // repeat)
        here = code.advanced(address, builder.udiv(at, word(repeat)), 1)
        mask = None
        if count != lanes:
            last = builder.add(as_word(count), word(repeat - 1))
            mask = code.lanes_below(number, builder.udiv(last, word(repeat)))
        part = code.load(here, 0, number, mask)
        return code.shuffled(part, part, [lane // repeat for lane in range(lanes)])

    def _folded(
        self, fold: _Fold, total: Total, term: LlvmValue, mask: LlvmValue | None
    ) -> Total:
        if mask is not None:
            lanes = term.type.count
            none = ir.Constant(self.code.vector(lanes), [fold.neutral] * lanes)
            term = self.code.builder.select(mask, term, none)
        return fold.take(self.code, total, term)


def line(
    element: str,
    extent: int | None,
    body: Body,
    loads: int = 0,
    stores: int = 0,
    folds: Sequence[str] = (),
    steps: Sequence[int] = (),
    repeats: Sequence[int] = (),
    ahead: Sequence[int] = (),
    memory: Sequence[str] = (),
    processor: Processor | None = None,
    *,
    multiple: int = 1,
    short: bool = False,
    streamed: bool = False,
):
    """
    A function of one tuple: the addresses of the first elements that are loaded and
    that are stored, numbers, and what each fold begins with. If no extent is given, the
    tuple ends in it, a `multiple` of a power of two; a `short` one, without folds, has
    more code for its last vectors. It gives a tuple of what
    each fold ends with: `add`, `mul`, `maximum`, `minimum`, `maxnum` or `minnum`, whose
    terms are taken in any order.

    `ahead` says how many elements further on lies what a later call will load, which is
    fetched into the cache meanwhile, or 0.

    `steps` says how far apart the elements of each load are, where that is not 1, and
    `repeats` how often each comes, one after the other: 1 or another power of two.

    `memory` says what elements are in memory, of all loads and then of all stores, if
    that is not what is computed in: `bf16` and `f16` may be, in a line of `f32`, and
    what is stored as one should be rounded to it. So may integers, `i8` to `i32`, which
    the body is given as such.

    A turn of the loop loads before it stores, so that what is stored may lie where
    something is loaded that no other turn needs.

    With `streamed` results are written past the caches, unless they lie where something
    is loaded; `end_streams` is to be called before others may read them.

    Vectors are those of the `processor`, by default of the one that compiles.
    """
    made = _Line(
        element,
        extent,
        multiple,
        short,
        loads,
        stores,
        folds,
        body,
        steps or [1] * loads,
        repeats or [1] * loads,
        ahead or [0] * loads,
        memory or [element] * (loads + stores),
        streamed,
        processor or processor_here(),
    )
    scalar = types.float32 if element == "f32" else types.float64

    @intrinsic
    def call(_typing, values):
        result = types.UniTuple(scalar, len(folds)) if folds else types.void

        def generate(context, builder, signature, args):
            code = Code(builder, element)
            totals = made.emit(code, cgutils.unpack_tuple(builder, args[0]))
            if not totals:
                return context.get_dummy_value()
            return context.make_tuple(builder, signature.return_type, totals)

        return result(values), generate

    return call


@intrinsic
def end_streams(_typing):
    """Let what was written past the caches be seen before all that is written later."""

    def generate(context, builder, signature, args):
        if processor_here().needs_fence:
            kind = ir.FunctionType(ir.VoidType(), [])
            name = "llvm.x86.sse.sfence"
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])
        return context.get_dummy_value()

    return types.void(), generate
