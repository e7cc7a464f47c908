"""
Matmul micro-kernels on groups: several terms along K at once.

Operands are packed in groups of four bytes along K, four of int8 (VNNI) or two of
`bf16`, and tiles are those of `penstock.runtime.kernels.cpu.matmul.tile` on groups: a
group of A times a vector of groups of B, one for each column, is added to a vector of
`i32` or `f32` accumulators.

*Bytes.* VNNI multiplies `u8` by `s8`. If both operands have the same sign, the sign
bits of A are flipped while it is packed (A + 128 as `u8`, or A - 128 as `s8`), and
accumulators start at the excess, 128 times the column sum of B. CPUs without VNNI
extend bytes to `i16` or `i32`. Sums are exact modulo 2^32.

*Pairs.* `vdpbf16ps` of AVX512-BF16 adds the product of the second elements of a pair to
an accumulator, then that of the first ones. Products of `bf16` are exact in `f32`, so
each addition rounds once, as it does in a chain of `f32` terms: to the nearest, ties to
even. The instruction takes subnormal elements for zeros, and flushes subnormal sums.
CPUs without it extend pairs to `f32` and add in the same order.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportUnknownLambdaType=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportReturnType=false
# pyright: reportAttributeAccessIssue=false, reportAssignmentType=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import TypeAlias

from llvmlite import ir

from penstock.runtime.kernels.cpu.matmul.packing import (
    Elements,
    Neighbours,
    Panel,
    Pieces,
    RowPanel,
    columns_of,
    copier,
    each_tile,
    least,
)
from penstock.runtime.kernels.cpu.matmul.tile import Call, OuterMicroKernel, function_of
from penstock.runtime.kernels.cpu.simd import (
    BRAIN_FLOAT,
    INDEX,
    WORD,
    Amount,
    Code,
    LlvmValue,
    word,
)
from penstock.runtime.kernels.cpu_features import Processor, processor_here
from penstock.runtime.kernels.math.f32 import like, scalar_of, splat_constant

GROUP = 4
"""The bytes of a group."""

HIGHEST = -0x7F7F7F80
"""The highest bit of each byte of a group: four times 128, or -128."""

UPPER = -0x10000
"""The bits of the second element of a pair, which are those of an `f32`."""

Factors: TypeAlias = tuple[str, str]
"""The types of the elements of a and of b: bytes, or `bf16`."""

ELEMENTS = {"i8": ("i8", "i32"), "ui8": ("i8", "i32"), "bf16": ("i16", "f32")}
"""The bits of an element, and the type of sums of products, by types of factors."""

Loops: TypeAlias = Sequence[tuple[int, int]]
"""The trip count of each loop and its stride in elements, the outermost first."""


def is_sign_flipped(factors: Factors, lanes: int, processor: Processor) -> bool:
    """Whether the sign bits of a are flipped."""
    a, b = factors
    return processor.dot_product(lanes) == "vnni" and a == b != "bf16"


class ByteCode(Code):
    """
    Emits sums `i32` of products of groups for a processor; of `plain` ones no bits are
    turned.
    """

    def __init__(
        self,
        builder: ir.IRBuilder,
        factors: Factors,
        processor: Processor,
        plain: bool = False,
    ):
        super().__init__(builder, "i32")
        self.signs = [name == "i8" for name in factors]
        self._processor, self._plain = processor, plain

    def multiply_add(self, a: LlvmValue, b: LlvmValue, total: LlvmValue) -> LlvmValue:
        """The sums and the products of four bytes each."""
        lanes = total.type.count
        kind = self._processor.dot_product(lanes, self._plain)
        if kind == "vnni":
            factors = (a, b) if self.signs[1] else (b, a)
            name = f"x86.avx512.vpdpbusd.{lanes * 32}"
            return self._dot(name, total.type, [total, *factors])
        parts = 2 if kind == "pairs" else GROUP
        for part in range(parts):
            left, right = (
                self._part(value, part, parts, has_sign)
                for value, has_sign in zip((a, b), self.signs, strict=True)
            )
            total = self.builder.add(total, self._product(kind, left, right))
        return total

    def _product(
        self, kind: str | None, left: LlvmValue, right: LlvmValue
    ) -> LlvmValue:
        """The products of numbers of 32 bits, or the sums of those of pairs of 16."""
        if kind is None:
            return self.builder.mul(left, right)
        lanes = left.type.count // 2
        names = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
        return self._dot(f"x86.{names[lanes]}", self.vector(lanes), [left, right])

    def _part(
        self, value: LlvmValue, part: int, parts: int, has_sign: bool
    ) -> LlvmValue:
        """Each second byte in 16 bits, or each fourth in 32."""
        builder = self.builder
        bits = 16 if parts == 2 else 32
        lanes = value.type.count * 32 // bits
        type = ir.VectorType(ir.IntType(bits), lanes)
        upper = ir.Constant(type, [bits - 8 * (part + 1)] * lanes)
        down = ir.Constant(type, [bits - 8] * lanes)
        moved = builder.shl(builder.bitcast(value, type), upper)
        return (builder.ashr if has_sign else builder.lshr)(moved, down)

    def _dot(
        self, name: str, result: ir.Type, values: Sequence[LlvmValue]
    ) -> LlvmValue:
        function = self._function(name, result, [value.type for value in values])
        return self.builder.call(function, values)


class PairCode(Code):
    """Emits sums `f32` of products of pairs of `bf16` for a processor."""

    def __init__(self, builder: ir.IRBuilder, processor: Processor):
        super().__init__(builder, "f32")
        self._processor = processor

    def multiply_add(self, a: LlvmValue, b: LlvmValue, total: LlvmValue) -> LlvmValue:
        """The sums and the products of two elements each."""
        type = total.type
        lanes = type.count
        if not self._processor.multiplies_pairs(lanes):
            for upper in (True, False):
                factors = (self._extended(value, upper) for value in (a, b))
                total = super().multiply_add(*factors, total)
            return total
        pairs = ir.VectorType(BRAIN_FLOAT, 2 * lanes)
        values = [total, *(self.builder.bitcast(value, pairs) for value in (a, b))]
        name = f"x86.avx512bf16.dpbf16ps.{lanes * 32}"
        function = self._function(name, type, [type, pairs, pairs])
        return self.builder.call(function, values)

    def _extended(self, value: LlvmValue, upper: bool) -> LlvmValue:
        """One element of each pair, the second if `upper`, as `f32`."""
        builder, lanes = self.builder, value.type.count
        bits = builder.bitcast(value, ir.VectorType(INDEX, lanes))
        if upper:
            bits = builder.and_(bits, ir.Constant(bits.type, [UPPER] * lanes))
        else:
            bits = builder.shl(bits, ir.Constant(bits.type, [16] * lanes))
        return builder.bitcast(bits, value.type)


def code_of(builder: ir.IRBuilder, factors: Factors, processor: Processor) -> Code:
    """The emitter of sums of products of groups."""
    if factors[0] == "bf16":
        return PairCode(builder, processor)
    return ByteCode(builder, factors, processor)


@dataclass(frozen=True)
class _GroupMicroKernel(OuterMicroKernel):
    """Groups of a times vectors of groups of b."""

    factors: Factors = ("i8", "i8")
    processor: Processor = field(default_factory=processor_here)

    def code(self, builder: ir.IRBuilder) -> Code:
        return code_of(builder, self.factors, self.processor)

    def starts(self, code: Code, call: Call) -> Sequence[LlvmValue]:
        zeros = super().starts(code, call)
        if not is_sign_flipped(self.factors, self.lanes, self.processor):
            return zeros
        turned = ir.Constant(code.vector(self.lanes), [HIGHEST] * self.lanes)

        def turn(_: LlvmValue, state: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            b, *sums = state
            new = [
                code.multiply_add(
                    turned, code.load(b, column, width, None if whole else call.mask), s
                )
                for (column, width, whole), s in zip(self.pieces(), sums, strict=True)
            ]
            return [code.place(b, self.b), *new]

        _, *sums = code.loop(call.depth, 1, [call.b, *zeros], turn)
        return [code.builder.sub(zero, s) for zero, s in zip(zeros, sums, strict=True)]


def group_micro_kernel(factors: Factors, rows: int, vectors: int, lanes: int, **facts):
    """
    Tiles of groups of a times vectors of groups of b, as `outer_micro_kernel` of an a
    in panels has them: `b` and the depth count groups, all in 32 bits. `factors` are
    the types of a and of b; elements of a are as `pack_group_rows` leaves them. Both
    are for the same `processor`, by default the one that compiles.
    """
    facts |= {"factors": factors, "stored": True}
    total = ELEMENTS[factors[0]][1]
    return function_of(_GroupMicroKernel(total, rows, vectors, lanes, **facts))


################################################################################
# Operands with strides                                                        #
################################################################################


@dataclass(frozen=True)
class _Groups(Elements):
    """Reads groups of terms."""

    bits: str
    """The bits of an element."""
    turned: int = 0
    """The bits that are flipped in each group."""
    present: int = 0
    """The terms that a last group has, whose others are zeros; 0 for all of them."""

    @property
    def source(self) -> Code:
        return Code(self.code.builder, self.bits)

    @property
    def group(self) -> int:
        return GROUP // self.source.size

    def vector(
        self,
        place: LlvmValue,
        of_term: Amount,
        lanes: int,
        mask: LlvmValue | None = None,
    ) -> LlvmValue:
        reader = self.source
        return self._joined(
            reader.load(place, of_term * term, lanes, mask) for term in self._terms
        )

    def scalar(self, place: LlvmValue, of_term: Amount) -> LlvmValue:
        reader = self.source
        return self._joined(
            reader.load_scalar(place, of_term * term) for term in self._terms
        )

    def lines(
        self, place: LlvmValue, lanes: int, inside: LlvmValue | None = None
    ) -> LlvmValue:
        terms = self.source.load(place, 0, lanes * self.group)
        return self._turned(self.code.builder.bitcast(terms, self.code.vector(lanes)))

    @property
    def _terms(self) -> range:
        """The terms of a group that are there."""
        return range(self.present or self.group)

    def _joined(self, terms: Iterable[LlvmValue]) -> LlvmValue:
        return self._turned(joined(self.code.builder, [*terms]))

    def _turned(self, value: LlvmValue) -> LlvmValue:
        """Groups with some bits flipped."""
        if not self.turned:
            return value
        return self.code.builder.xor(value, splat_constant(value.type, self.turned))


@dataclass(frozen=True)
class _Depth:
    """So many terms, as groups: all of them, and those that are whole."""

    builder: ir.IRBuilder
    terms: LlvmValue
    group: int
    last: int
    """The terms of a last group of all."""

    @property
    def all(self) -> LlvmValue:
        """All groups."""
        more = self.builder.add(self.terms, word(self.group - 1))
        return self.builder.sdiv(more, word(self.group))

    @property
    def whole(self) -> LlvmValue:
        """The groups that are whole."""
        return self.builder.sdiv(self.terms, word(self.group))

    def copy_last(self, copy: Callable[[], None]) -> None:
        """Emit what copies the last group, where it is not whole."""
        if not self.last:
            return
        builder = self.builder
        left = builder.and_(self.terms, word(self.group - 1))
        with builder.if_then(builder.icmp_signed("!=", left, word(0))):
            copy()


def pack_group_rows(
    factors: Factors,
    rows: int,
    lanes: int,
    a: tuple[int, int],
    rest: int = 0,
    last: int = 0,
    processor: Processor | None = None,
):
    """
    A function `pack(a, panels, height, depth)` that copies `depth` terms of `height`
    rows of a to panels of groups as wide as a tile has `rows`, as `pack_rows` does, for
    `group_micro_kernel` of such elements and lanes. A last group has `last` terms, and
    ends in anything, for those of columns end in zeros.

    `a` is the steps from a row and from a term to the next.
    """
    processor = processor or processor_here()
    turned = HIGHEST if is_sign_flipped(factors, lanes, processor) else 0
    bits, _ = ELEMENTS[factors[0]]

    def emit(builder, _facts, source, panels, height, terms) -> None:
        code = Code(builder, "i32")
        groups = _Groups(code, bits, turned)
        depth, reader = _Depth(builder, terms, groups.group, last), groups.source

        def copy(count: int, row: LlvmValue) -> None:
            there = code.advanced(panels, builder.mul(row, depth.all), 1)
            task = RowPanel(groups, count, lanes, a)
            task.copy(reader.advanced(source, row, a[0]), there, depth.whole)

        def copy_last(count: int, row: LlvmValue) -> None:
            there = code.advanced(panels, builder.mul(row, depth.all), 1)
            there = code.advanced(there, depth.whole, count)
            here = groups.line(reader.advanced(source, row, a[0]), depth.whole, a[1])
            task = RowPanel(replace(groups, present=last), count, lanes, a)
            task.copy_single(here, there, word(1))

        if a[0] == 1:
            task = Neighbours(groups, rows, rest, a[1])
            task.copy(source, panels, height, depth.whole, depth.all)
        else:
            each_tile(code, rows, rest, height, copy)
        depth.copy_last(lambda: each_tile(code, rows, rest, height, copy_last))

    return copier("rows", 4, emit)


def pack_groups(
    factors: Factors,
    vectors: int,
    lanes: int,
    b: tuple[int, int],
    masked: bool = False,
    last: int = 0,
    ahead: bool = False,
):
    """
    A function `pack(b, panel, used, depth)` that copies `depth` terms of columns of b
    to a panel of `vectors` vectors of groups; in a `masked` one the last vector has
    `used` columns, and anything. A last group has `last` terms, and ends in zeros.
    With `ahead` the columns behind them, which are packed next, are fetched.

    `b` is the steps from a term and from a column to the next.
    """
    of_term, of_column = b
    bits, _ = ELEMENTS[factors[1]]

    def emit(builder, _facts, source, panel, used, terms) -> None:
        groups, width = _Groups(Code(builder, "i32"), bits), vectors * lanes
        depth, steps = _Depth(builder, terms, groups.group, last), (of_column, of_term)
        used = used if masked else None
        task = Panel(groups, width, lanes, steps, used, ahead)
        task.copy(source, panel, depth.whole)

        def copy_last() -> None:
            task = Panel(replace(groups, present=last), width, lanes, steps, used)
            copy = task.copy_vectors if of_column == 1 else task.copy_single
            there = groups.code.advanced(panel, depth.whole, width)
            copy(groups.line(source, depth.whole, of_term), there, word(1))

        depth.copy_last(copy_last)

    return copier("groups", 4, emit)


################################################################################
# Windows                                                                      #
################################################################################


def pack_group_windows(
    factors: Factors,
    vectors: int,
    lanes: int,
    b: tuple[Loops, Loops],
    masked: bool = False,
    whole: int = 1,
):
    """
    A function `pack(b, panel, used, depth, column, term)` that copies `depth` terms of
    columns from these on to a panel, as `pack_groups` does. The last group ends in
    zeros, and so do the columns, up to a multiple of `whole` groups. A block begins
    with a group.

    `b` has the loops of terms and of columns of b.
    """
    terms, columns = b

    def emit(builder, _facts, source, panel, used, depth, column, term) -> None:
        count = columns_of(builder, vectors, lanes, used if masked else None)
        pieces = Pieces(Code(builder, ELEMENTS[factors[1]][0]), count, lanes, columns)
        task = _GroupWindows(pieces, vectors * lanes, terms, whole)
        task.copy(source, panel, depth, column, term)

    return copier("windows", 6, emit)


@dataclass(frozen=True)
class _GroupWindows:
    """
    Copies columns piece by piece, and all terms of each.

    `Pieces` walks the columns, as for windows of other elements. Terms are another
    matter: a group joins several, which different loops may hold, so their offsets come
    from a table. Windows of other elements copy one term a store, nest their loops, and
    count indices for padding, of which groups have none.
    """

    pieces: Pieces
    width: int
    terms: Loops
    whole: int

    def copy(
        self,
        source: LlvmValue,
        panel: LlvmValue,
        depth: LlvmValue,
        column: LlvmValue,
        term: LlvmValue,
    ) -> None:
        """Copy all pieces."""
        builder = self.pieces.code.builder

        def copy(here: LlvmValue, at: LlvmValue, size: LlvmValue) -> None:
            there = builder.add(panel, builder.mul(at, word(GROUP)))
            is_whole = builder.icmp_signed("==", size, word(self.pieces.lanes))
            with builder.if_else(is_whole) as (then, otherwise):
                with then:
                    self._copy_piece(here, there, depth, term, None)
                with otherwise:
                    self._copy_piece(here, there, depth, term, size)

        self.pieces.each(source, column, copy)

    def _copy_piece(
        self,
        source: LlvmValue,
        panel: LlvmValue,
        depth: LlvmValue,
        term: LlvmValue,
        size: LlvmValue | None,
    ) -> None:
        """Copy the terms of some columns; `size` of them, unless that is all lanes."""
        builder, lanes = self.pieces.code.builder, self.pieces.lanes
        code = Code(builder, "i32")
        load, offset = self._loader(size), self._offsets(term)
        mask = None if size is None else code.lanes_below(lanes, size)

        def group(k: LlvmValue, count: int) -> None:
            reader = self.pieces.code
            places = (
                reader.advanced(source, offset(k, number), 1) for number in range(count)
            )
            value = joined(builder, [load(place) for place in places])
            code.store(value, code.advanced(panel, k, self.width), 0, mask)

        def turn(k: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            group(k, self.group)
            return ()

        whole = builder.sdiv(depth, word(self.group))
        code.loop(whole, 1, (), turn)
        if rest := self._term_count % self.group:
            left = builder.and_(depth, word(self.group - 1))
            with builder.if_then(builder.icmp_signed("!=", left, word(0))):
                group(whole, rest)
        if self._term_count % (self.group * self.whole):
            self._fill(panel, depth, mask)

    @property
    def group(self) -> int:
        """The terms of a group."""
        return GROUP // self.pieces.code.size

    @property
    def _term_count(self) -> int:
        return prod(extent for extent, _ in self.terms)

    def _fill(self, panel: LlvmValue, depth: LlvmValue, mask: LlvmValue | None) -> None:
        """Zeros behind the groups of so many terms."""
        builder, code = self.pieces.code.builder, Code(self.pieces.code.builder, "i32")
        ends = builder.add(depth, word(self.group - 1))
        first = builder.sdiv(ends, word(self.group))
        more = builder.and_(builder.sub(word(0), first), word(self.whole - 1))

        def turn(k: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            there = code.advanced(panel, builder.add(first, k), self.width)
            code.store(code.zero(self.pieces.lanes), there, 0, mask)
            return ()

        code.loop(more, 1, (), turn)

    def _offsets(self, term: LlvmValue) -> Callable[[LlvmValue, int], LlvmValue]:
        """The offsets of a group's terms from its first one."""
        builder = self.pieces.code.builder

        def number_of(k: LlvmValue, number: int) -> LlvmValue:
            first = builder.add(term, builder.mul(k, word(self.group)))
            return builder.add(first, word(number))

        if len(self.terms) < 2:
            stride = word(self.terms[0][1] if self.terms else 0)
            return lambda k, number: builder.mul(number_of(k, number), stride)
        ranges = (range(extent) for extent, _ in self.terms)
        strides = [stride for _, stride in self.terms]
        table = table_of(
            builder.module,
            [
                sum(index * stride for index, stride in zip(turn, strides, strict=True))
                for turn in product(*ranges)
            ],
        )
        return lambda k, number: builder.load(
            builder.gep(table, [word(0), number_of(k, number)])
        )

    def _loader(self, size: LlvmValue | None) -> Callable[[LlvmValue], LlvmValue]:
        """The loader of elements of a term: as many as there are lanes, or `size`."""
        code, lanes, step = self.pieces.code, self.pieces.lanes, self.pieces.step
        if step == 1:
            mask = None if size is None else code.lanes_below(lanes, size)
            return lambda place: code.load(place, 0, lanes, mask)
        if step == 2 and size is None:
            return self._load_seconds
        return lambda place: self._load_apart(place, size)

    def _load_seconds(self, place: LlvmValue) -> LlvmValue:
        """Each second element of twice as many, but for the last one."""
        code, lanes = self.pieces.code, self.pieces.lanes
        first, second = (code.load(place, at, lanes) for at in (0, lanes - 1))
        later = range(lanes + 1, 2 * lanes, 2)
        return code.shuffled(first, second, [*range(0, lanes, 2), *later])

    def _load_apart(self, place: LlvmValue, size: LlvmValue | None) -> LlvmValue:
        """Elements one by one, the last one again for lanes beyond it."""
        code, builder = self.pieces.code, self.pieces.code.builder
        found: list[LlvmValue] = []
        for lane in map(word, range(self.pieces.lanes)):
            last = () if size is None else (builder.sub(size, word(1)),)
            there = code.advanced(place, least(builder, lane, *last), self.pieces.step)
            found.append(code.load_scalar(there, 0))
        return code.vector_of(found)


def table_of(module: ir.Module, words: Sequence[int]) -> LlvmValue:
    """A constant array of words in a module."""
    type = ir.ArrayType(WORD, len(words))
    table = ir.GlobalVariable(module, type, module.get_unique_name("offsets"))
    table.linkage, table.global_constant = "internal", True
    table.initializer = ir.Constant(type, list(words))
    return table


def joined(builder: ir.IRBuilder, terms: Sequence[LlvmValue]) -> LlvmValue:
    """Elements, or vectors of them, as groups, with zeros for missing terms."""
    type = like(terms[0].type, INDEX)
    bits = scalar_of(terms[0].type).width
    group = builder.zext(terms[0], type)
    for number, term in enumerate(terms[1:], 1):
        place = splat_constant(type, bits * number)
        group = builder.or_(group, builder.shl(builder.zext(term, type), place))
    return group
