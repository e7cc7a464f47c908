"""
The softmax of blocked attention (an online softmax) as CPU kernels call it.

Keys are read in blocks. Four numbers of each query row are kept between blocks: the
*largest* score so far, the *total* of the exponentials so far, the *decay* by which the
row of the result so far has to be multiplied (-1 if there is none yet), and the *share*
of each exponential in the end (1 before the last block). `mixed` is how the
micro-kernel that multiplies with the values applies the last two.

An exponential more than 87 below the largest score (708 for `f64`) is 0, as are those
of masked scores: each is less than 1e-37 of the largest one.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportReturnType=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from penstock.runtime.kernels.cpu.simd import (
    BIT,
    INDEX,
    Code,
    Lanes,
    LlvmValue,
    Vector,
    internal_function,
    word,
)
from penstock.runtime.kernels.cpu.vector_loop import InnerLoopLanes, narrowed
from penstock.runtime.kernels.math import f32 as vector_math
from penstock.runtime.kernels.math import f64 as wide_math
from penstock.runtime.kernels.math.f32 import Floats

Score: TypeAlias = Callable[..., Vector]
"""A score, given `InnerLoopLanes`, a sum of products, and a vector of each input."""

ScoreAndSlope: TypeAlias = Callable[..., tuple[Vector, Vector]]
"""The same, and its derivative by the sum."""

KEPT = 4
"""The numbers that are kept of each row."""

LARGEST, TOTAL, DECAY, SHARE = range(KEPT)


POWERS = {"f32": vector_math.share, "f64": wide_math.share}
"""e to the power of a number by its type; 0 where that is next to nothing."""

LOGARITHMS = {"f32": vector_math.log, "f64": wide_math.log}
"""The natural logarithm of a number by its type."""


def mixed(x: Lanes, fresh: Vector, so_far: Vector, decay: Vector, share: Vector):
    """A row of the result with the values of one more block."""
    sum = so_far * decay + fresh
    return x.select(decay < x.number(0), fresh, sum) * share


def mixed_once(x: Lanes, fresh: Vector, share: Vector):
    """A row of the result of which one block has all keys."""
    return fresh * share


@dataclass(frozen=True)
class _Call:
    """The arguments of a call, as values in LLVM code."""

    scores: LlvmValue
    kept: LlvmValue
    count: LlvmValue
    is_first: LlvmValue
    is_last: LlvmValue
    shown: LlvmValue | None
    """The keys that the first row sees, if it need not see all; may be below 0."""
    inputs: Sequence[LlvmValue]

    def seen(self, code: Code, row: int = 0) -> LlvmValue:
        """The keys that a row sees."""
        if self.shown is None:
            return self.count
        shown = code.builder.add(self.shown, word(row))
        return _least_key(code, shown, self.count)


@dataclass(frozen=True)
class _Shares(ABC):
    """A block of scores whose powers take their place."""

    element: str
    vectors: int
    lanes: int
    score: Score
    inputs: Sequence[tuple[int, int]]
    causal: bool

    @property
    def words(self) -> int:
        """The arguments before the addresses of inputs."""
        return 5 + self.causal

    @abstractmethod
    def emit(self, code: Code, call: _Call) -> None:
        """Emit all of it."""

    def function(self, module: ir.Module) -> ir.Function:
        """Add the function of this block to a module."""
        number = self.words + len(self.inputs)
        function, builder = internal_function(module, "shares", number)
        scores, kept, count, first, last, *shown = function.args[: self.words]
        flags = (builder.trunc(flag, BIT) for flag in (first, last))
        seen, inputs = (shown[0] if shown else None), function.args[self.words :]
        call = _Call(scores, kept, count, *flags, seen, inputs)
        self.emit(Code(builder, self.element), call)
        builder.ret_void()
        return function

    def base(
        self, code: Code, largest: LlvmValue, before: LlvmValue, lanes: int
    ) -> tuple[LlvmValue, LlvmValue]:
        """The largest scores so far, and what is subtracted from scores."""
        builder, lowest = code.builder, self.splat(code, -inf, lanes)
        largest = _larger(code, before, largest)
        is_lowest = builder.fcmp_ordered("==", largest, lowest)
        return largest, builder.select(is_lowest, code.zero(lanes), largest)

    def keep(
        self,
        code: Code,
        call: _Call,
        facts: tuple[LlvmValue, LlvmValue, LlvmValue],
        store: Callable[[LlvmValue, int], None],
    ) -> None:
        """Emit that the decay, and the total and its share, are kept."""
        decay, before, fresh = facts
        builder, lanes = code.builder, fresh.type.count
        before = builder.fmul(before, decay)
        before = builder.select(call.is_first, code.zero(lanes), before)
        total = builder.fadd(before, fresh)
        one = self.splat(code, 1, lanes)
        share = builder.select(call.is_last, builder.fdiv(one, total), one)
        none = self.splat(code, -1, lanes)
        store(total, TOTAL)
        store(builder.select(call.is_first, none, decay), DECAY)
        store(share, SHARE)

    @staticmethod
    def splat(code: Code, value: float, lanes: int) -> LlvmValue:
        """A constant in all lanes."""
        return ir.Constant(code.vector(lanes), [float(value)] * lanes)

    @staticmethod
    def power(code: Code, value: LlvmValue) -> LlvmValue:
        """e to the power of each lane, which has no share of 1 if it is far below."""
        return POWERS[code.element](Floats(code.builder, value)).value


def _larger(code: Code, so_far: LlvmValue, value: LlvmValue) -> LlvmValue:
    """The larger ones of two vectors; the first one where the second is NaN."""
    builder = code.builder
    return builder.select(builder.fcmp_ordered(">", value, so_far), value, so_far)


@dataclass(frozen=True)
class _ColumnShares(_Shares):
    """Scores of a key follow each other: vectors are along queries."""

    queries: int

    @property
    def width(self) -> int:
        """From the scores of a key to those of the next."""
        return self.vectors * self.lanes

    def places(self) -> range:
        """Where vectors begin."""
        return range(0, self.width, self.lanes)

    def emit(self, code: Code, call: _Call) -> None:
        builder, lanes = code.builder, self.lanes
        lowest = self.splat(code, -inf, lanes)
        kept = [
            [
                code.load(call.kept, self.width * fact + at, lanes)
                for at in self.places()
            ]
            for fact in (LARGEST, TOTAL)
        ]
        before = [builder.select(call.is_first, lowest, v) for v in kept[0]]
        seen = call.seen(code)
        found = code.loop(
            seen,
            1,
            [call.scores, *call.inputs, *[lowest] * self.vectors],
            lambda _, state: self._look(code, state),
        )
        if call.shown is not None:
            # A query sees one key more than the one before it.
            hidden = builder.sub(builder.add(seen, word(1)), call.shown)
            found = code.loop(
                builder.sub(call.count, seen),
                1,
                found,
                lambda key, state: self._look(code, state, builder.add(key, hidden)),
            )
        ends = [
            self.base(code, value, old, lanes)
            for value, old in zip(found[1 + len(self.inputs) :], before, strict=True)
        ]
        bases = [base for _, base in ends]
        totals = code.loop(
            call.count,
            1,
            [call.scores, *[code.zero(lanes)] * self.vectors],
            lambda _, state: self._raise(code, state, bases),
        )
        for number, at in enumerate(self.places()):
            largest, base = ends[number]
            decay = self.power(code, builder.fsub(before[number], base))
            code.store(largest, call.kept, at)
            facts = decay, kept[1][number], totals[1 + number]
            self.keep(code, call, facts, self._storer(code, call, at))

    def _storer(
        self, code: Code, call: _Call, at: int
    ) -> Callable[[LlvmValue, int], None]:
        return lambda value, fact: code.store(value, call.kept, self.width * fact + at)

    def _look(
        self, code: Code, state: Sequence[LlvmValue], hidden: LlvmValue | None = None
    ) -> Sequence[LlvmValue]:
        """
        Change the scores of a key, and find the largest ones; so many queries, the
        first ones, do not see it.
        """
        count = len(self.inputs)
        scores, inputs, largest = state[0], state[1 : 1 + count], state[1 + count :]
        new: list[LlvmValue] = []
        for at, so_far in zip(self.places(), largest, strict=True):
            x = InnerLoopLanes(code, self.lanes)
            given = [
                x.made(self._input(code, address, step, at))
                for address, (_, step) in zip(inputs, self.inputs, strict=True)
            ]
            value = x.made(code.load(scores, at, self.lanes))
            value = self.score(x, value, *given).value
            if hidden is not None:
                number = code.builder.sub(hidden, word(at))
                mask = code.lanes_below(self.lanes, number)
                lowest = self.splat(code, -inf, self.lanes)
                value = code.builder.select(mask, lowest, value)
            code.store(value, scores, at)
            new.append(_larger(code, so_far, value))
        moved = [
            code.place(address, step)
            for address, (step, _) in zip(inputs, self.inputs, strict=True)
        ]
        return [code.place(scores, self.width), *moved, *new]

    def _input(self, code: Code, address: LlvmValue, step: int, at: int) -> LlvmValue:
        """A vector of an input: the same for all queries, or one for each."""
        if step == 0:
            return code.splat(code.load_scalar(address, 0), self.lanes)
        used = self.queries - at
        if used >= self.lanes:
            return code.load(address, at, self.lanes)
        return code.load(
            address, at, self.lanes, code.lanes_below(self.lanes, word(used))
        )

    def _raise(
        self, code: Code, state: Sequence[LlvmValue], bases: Sequence[LlvmValue]
    ) -> Sequence[LlvmValue]:
        """Put powers in the places of the scores of a key, and add them up."""
        scores, *totals = state
        new: list[LlvmValue] = []
        for at, base, total in zip(self.places(), bases, totals, strict=True):
            value = code.load(scores, at, self.lanes)
            value = self.power(code, code.builder.fsub(value, base))
            code.store(value, scores, at)
            new.append(code.builder.fadd(total, value))
        return [code.place(scores, self.width), *new]


@dataclass(frozen=True)
class _RowShares(_Shares):
    """Scores of a query follow each other: vectors are along keys."""

    rows: int
    width: int

    def emit(self, code: Code, call: _Call) -> None:
        for row in range(self.rows):
            self._emit_row(code, call, row)

    def _emit_row(self, code: Code, call: _Call, row: int) -> None:
        builder, lanes = code.builder, self.lanes
        wide, seen = self.vectors * lanes, call.seen(code, row)
        scores = code.place(call.scores, row * self.width)
        inputs = [
            code.place(address, row * step)
            for address, (_, step) in zip(call.inputs, self.inputs, strict=True)
        ]

        def walk(
            start: LlvmValue, turn: Callable[..., LlvmValue], name: str
        ) -> LlvmValue:
            """One value over all keys: of many vectors, one, and what is left."""
            whole = builder.and_(seen, word(-wide))
            (value,) = code.loop(
                whole, wide, [start], lambda at, state: [turn(at, state[0], wide, None)]
            )
            value = narrowed(code, name, value, lanes)
            rest = builder.sub(seen, whole)
            (value,) = code.loop(
                rest,
                lanes,
                [value],
                lambda at, state: [
                    turn(
                        builder.add(whole, at),
                        state[0],
                        lanes,
                        code.lanes_below(lanes, builder.sub(rest, at)),
                    )
                ],
            )
            return narrowed(code, name, value, 1)

        def look(
            at: LlvmValue, so_far: LlvmValue, count: int, mask: LlvmValue | None
        ) -> LlvmValue:
            x, here = InnerLoopLanes(code, count), code.advanced(scores, at, 1)
            given = [
                x.made(self._input(code, address, step, at, count, mask))
                for address, (step, _) in zip(inputs, self.inputs, strict=True)
            ]
            value = x.made(code.load(here, 0, count, mask))
            value = self.score(x, value, *given).value
            code.store(value, here, 0, mask)
            if mask is not None:
                value = builder.select(mask, value, self.splat(code, -inf, count))
            return _larger(code, so_far, value)

        def kept(fact: int) -> LlvmValue:
            return code.load(call.kept, fact * self.rows + row, 1)

        lowest = self.splat(code, -inf, 1)
        before = builder.select(call.is_first, lowest, kept(LARGEST))
        found = walk(self.splat(code, -inf, wide), look, "maxnum")
        largest, base = self.base(code, found, before, 1)
        number = builder.extract_element(base, ir.Constant(INDEX, 0))

        def add(
            at: LlvmValue, total: LlvmValue, count: int, mask: LlvmValue | None
        ) -> LlvmValue:
            here = code.advanced(scores, at, 1)
            value = code.load(here, 0, count, mask)
            value = builder.fsub(value, code.splat(number, count))
            value = self.power(code, value)
            code.store(value, here, 0, mask)
            if mask is not None:
                value = builder.select(mask, value, code.zero(count))
            return builder.fadd(total, value)

        total = walk(code.zero(wide), add, "add")
        if call.shown is not None:
            self._hide(
                code, code.advanced(scores, seen, 1), builder.sub(call.count, seen)
            )
        decay = self.power(code, builder.fsub(before, base))
        code.store(largest, call.kept, row)
        self.keep(
            code,
            call,
            (decay, kept(TOTAL), total),
            lambda value, fact: code.store(value, call.kept, fact * self.rows + row),
        )

    @staticmethod
    def _hide(code: Code, scores: LlvmValue, count: LlvmValue) -> None:
        """Put 0 in the places of so many scores."""

        def turn(at: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            code.store(code.zero(1), code.advanced(scores, at, 1), 0)
            return ()

        code.loop(count, 1, (), turn)

    def _input(
        self,
        code: Code,
        address: LlvmValue,
        step: int,
        at: LlvmValue,
        count: int,
        mask: LlvmValue | None,
    ) -> LlvmValue:
        here = code.advanced(address, at, step)
        if step == 0:
            return code.splat(code.load_scalar(here, 0), count)
        if step == 1:
            return code.load(here, 0, count, mask)
        all = ir.Constant(ir.VectorType(BIT, count), [1] * count)
        return code.gather(here, 0, count, step, all if mask is None else mask)


@dataclass(frozen=True)
class _SharesOfGradients:
    """
    Scores and the gradients of shares, in whose places shares and the gradients of sums
    are put; vectors are along queries.
    """

    element: str
    vectors: int
    lanes: int
    score: ScoreAndSlope
    inputs: Sequence[tuple[int, int]]
    queries: int
    step: int
    causal: bool

    @property
    def words(self) -> int:
        """The arguments before the addresses of inputs."""
        return 5 + self.causal

    def function(self, module: ir.Module) -> ir.Function:
        """Add the function to a module."""
        number = self.words + len(self.inputs)
        function, builder = internal_function(module, "shares", number)
        scores, products, lse, delta, count, *shown = function.args[: self.words]
        code = Code(builder, self.element)
        rows = [
            [self._of_queries(code, address, at) for at in self._places()]
            for address in (lse, delta)
        ]
        state = [scores, products, *function.args[self.words :]]
        if not shown:
            code.loop(count, 1, state, lambda _, now: self._turn(code, now, rows))
        else:
            seen = _least_key(code, shown[0], count)
            state = code.loop(
                seen, 1, state, lambda _, now: self._turn(code, now, rows)
            )
            # A query sees one key more than the one before it.
            hidden = builder.sub(builder.add(seen, word(1)), shown[0])
            code.loop(
                builder.sub(count, seen),
                1,
                state,
                lambda key, now: self._turn(code, now, rows, builder.add(key, hidden)),
            )
        builder.ret_void()
        return function

    def _places(self) -> range:
        """Where vectors begin."""
        return range(0, self.vectors * self.lanes, self.lanes)

    def _mask(self, code: Code, at: int) -> LlvmValue | None:
        """The mask of the queries that there are in a vector, unless it is full."""
        used = self.queries - at
        return None if used >= self.lanes else code.lanes_below(self.lanes, word(used))

    def _of_queries(self, code: Code, address: LlvmValue, at: int) -> LlvmValue:
        return code.load(address, at, self.lanes, self._mask(code, at))

    def _turn(
        self,
        code: Code,
        state: Sequence[LlvmValue],
        rows: Sequence[Sequence[LlvmValue]],
        hidden: LlvmValue | None = None,
    ) -> Sequence[LlvmValue]:
        """
        Change the scores of a key, and the gradients of its shares; so many queries,
        the first ones, do not see it.
        """
        scores, products, *inputs = state
        builder = code.builder
        for at, lse, delta in zip(self._places(), *rows, strict=True):
            x = InnerLoopLanes(code, self.lanes)
            given = [
                x.made(self._input(code, address, step, at))
                for address, (_, step) in zip(inputs, self.inputs, strict=True)
            ]
            sum = x.made(code.load(scores, at, self.lanes))
            score, slope = self.score(x, sum, *given)
            number = Floats(builder, builder.fsub(score.value, lse))
            share = POWERS[self.element](number).value
            if hidden is not None:
                mask = code.lanes_below(self.lanes, builder.sub(hidden, word(at)))
                share = builder.select(mask, code.zero(self.lanes), share)
            fresh = builder.fsub(code.load(products, at, self.lanes), delta)
            fresh = builder.fmul(builder.fmul(share, fresh), slope.value)
            code.store(share, scores, at)
            code.store(fresh, products, at)
        moved = [
            code.place(address, step)
            for address, (step, _) in zip(inputs, self.inputs, strict=True)
        ]
        return [code.place(scores, self.step), code.place(products, self.step), *moved]

    def _input(self, code: Code, address: LlvmValue, step: int, at: int) -> LlvmValue:
        """A vector of an input: the same for all queries, or one for each."""
        if step == 0:
            return code.splat(code.load_scalar(address, 0), self.lanes)
        return self._of_queries(code, address, at)


def _least_key(code: Code, shown: LlvmValue, count: LlvmValue) -> LlvmValue:
    """The keys of a block that its first query sees; `shown` may be below 0."""
    builder, none = code.builder, word(0)
    seen = builder.select(builder.icmp_signed("<", shown, none), none, shown)
    return builder.select(builder.icmp_signed("<", seen, count), seen, count)


def _function_of(shares: _Shares | _SharesOfGradients):
    """The function that source calls."""
    count = len(shares.inputs)
    addresses = types.UniTuple(types.int64, count) if count else types.Tuple(())

    def generate(context, builder, signature, args):
        *words, inputs = args
        words += cgutils.unpack_tuple(builder, inputs, count)
        builder.call(shares.function(builder.module), words)
        return context.get_dummy_value()

    numbers = [types.int64] * shares.words

    if isinstance(shares, _SharesOfGradients):
        return _function_of_gradients(generate, numbers, addresses, shares.causal)

    @intrinsic
    def plain(_typing, scores, kept, count, first, last, inputs):
        return types.void(*numbers, addresses), generate

    @intrinsic
    def causal(_typing, scores, kept, count, first, last, shown, inputs):
        return types.void(*numbers, addresses), generate

    return causal if shares.causal else plain


def _function_of_gradients(generate, numbers, addresses, causal):
    @intrinsic
    def plain(_typing, scores, products, lse, delta, count, inputs):
        return types.void(*numbers, addresses), generate

    @intrinsic
    def shown(_typing, scores, products, lse, delta, count, shown, inputs):
        return types.void(*numbers, addresses), generate

    return shown if causal else plain


def gradient_shares(
    element: str,
    vectors: int,
    lanes: int,
    score: ScoreAndSlope,
    inputs: Sequence[tuple[int, int]] = (),
    queries: int = 0,
    step: int = 0,
    causal: bool = False,
):
    """
    A function `shares(scores, products, lse, delta, keys, inputs)` of addresses and a
    number, for this many keys of `queries` queries, each `step` elements after the one
    before it. Scores become shares, e to the power of a score less the `lse` of its
    query, and products, less the `delta` of their query, times shares, the gradients of
    sums. `score` makes a score and its derivative of a sum.

    Inputs and `causal` are as for `column_shares`, where `shown` comes after `keys`.
    """
    return _function_of(
        _SharesOfGradients(
            element, vectors, lanes, score, inputs, queries, step, causal
        )
    )


def column_shares(
    element: str,
    vectors: int,
    lanes: int,
    score: Score,
    inputs: Sequence[tuple[int, int]] = (),
    queries: int = 0,
    causal: bool = False,
):
    """
    A function `shares(scores, kept, keys, first, last, inputs)` of addresses and
    numbers, for a block of this many keys, each with scores of `vectors` vectors of
    queries: it puts powers in the places of scores. `kept` has a line of as many
    numbers for each fact that is kept; `first` and `last` are 0 or 1.

    `inputs` has the steps from a key and from a query (0 or 1) to the next for each
    input of `score`, of which `queries` queries are there.

    A `causal` function takes a number `shown` after `last`: the first query sees so
    many keys of the block (none if it is below 0), each other one more than the one
    before it. Shares of keys that are not seen are 0.
    """
    shares = _ColumnShares(element, vectors, lanes, score, inputs, causal, queries)
    return _function_of(shares)


def row_shares(
    element: str,
    vectors: int,
    lanes: int,
    score: Score,
    inputs: Sequence[tuple[int, int]] = (),
    rows: int = 1,
    width: int = 0,
    causal: bool = False,
):
    """
    The function of `column_shares` for `rows` rows of scores, `width` elements apart,
    in which those of keys follow each other; `vectors` of them are looked at at once.

    `inputs` has the steps from a key and from a query to the next.
    """
    shares = _RowShares(element, vectors, lanes, score, inputs, causal, rows, width)
    return _function_of(shares)


def kept_logarithms(element: str, width: int, step: int):
    """
    A function `logarithms(kept, to, rows)` of addresses and a number: it stores the
    logarithms of the sums of the exponentials of the scores of this many rows, each
    `step` elements after the one before it. `width` is the numbers of a line of what is
    kept of rows once all keys have been read.
    """

    def generate(context, builder, signature, args):
        function, inside = internal_function(builder.module, "logarithms", 3)
        code = Code(inside, element)
        kept, to, rows = function.args

        def row(at: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            here = code.advanced(kept, at, 1)
            largest, total = (
                code.load_scalar(here, width * fact) for fact in (LARGEST, TOTAL)
            )
            found = LOGARITHMS[element](Floats(inside, total)).value
            found = inside.fadd(largest, found)
            code.store_scalar(found, code.advanced(to, at, step), 0)
            return ()

        code.loop(rows, 1, (), row)
        inside.ret_void()
        builder.call(function, args)
        return context.get_dummy_value()

    @intrinsic
    def logarithms(_typing, kept, to, rows):
        return types.void(types.int64, types.int64, types.int64), generate

    return logarithms
