"""
Int8 matmul micro-kernels: four terms along K at once.

Operands are packed in groups of four bytes along K (VNNI, one `i32` each), and tiles
are those of `penstock.runtime.kernels.cpu.matmul.tile` on groups: a group of A times a
vector of groups of B, one for each column, is added to a vector of `i32` accumulators.
VNNI multiplies `u8` by `s8`. If both operands have the same sign, the sign bits of A
are flipped while it is packed (A + 128 as `u8`, or A - 128 as `s8`), and accumulators
start at the excess, 128 times the column sum of B. CPUs without VNNI extend bytes to
`i16` or `i32`. Sums are exact modulo 2^32.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportUnknownLambdaType=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportReturnType=false
# pyright: reportAttributeAccessIssue=false, reportAssignmentType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import TypeAlias

from llvmlite import ir

from penstock.runtime.kernels.cpu.matmul.packing import (
    LINE,
    Pieces,
    RowPanel,
    columns_of,
    copier,
    each_tile,
    least,
)
from penstock.runtime.kernels.cpu.matmul.tile import Call, OuterMicroKernel, function_of
from penstock.runtime.kernels.cpu.simd import (
    BYTE,
    INDEX,
    WORD,
    Code,
    LlvmValue,
    word,
)
from penstock.runtime.kernels.cpu_features import Processor, processor_here

GROUP = 4
"""The bytes of a group."""

HIGHEST = -0x7F7F7F80
"""The highest bit of each byte of a group: four times 128, or -128."""

Signs: TypeAlias = tuple[bool, bool]
"""Whether a and b are signed."""

Loops: TypeAlias = Sequence[tuple[int, int]]
"""The trip count of each loop and its stride in elements, the outermost first."""


def is_sign_flipped(signs: Signs, lanes: int, processor: Processor) -> bool:
    """Whether the sign bits of a are flipped."""
    return processor.dot_product(lanes) == "vnni" and signs[0] == signs[1]


class Int8Code(Code):
    """
    Emits sums `i32` of products of groups for a processor; of `plain` ones no bits are
    turned.
    """

    def __init__(
        self,
        builder: ir.IRBuilder,
        signs: Signs,
        processor: Processor,
        plain: bool = False,
    ):
        super().__init__(builder, "i32")
        self.signs, self._processor, self._plain = signs, processor, plain

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


@dataclass(frozen=True)
class _Int8MicroKernel(OuterMicroKernel):
    """Groups of a times vectors of groups of b."""

    signs: Signs = (False, False)
    processor: Processor = field(default_factory=processor_here)

    def code(self, builder: ir.IRBuilder) -> Code:
        return Int8Code(builder, self.signs, self.processor)

    def starts(self, code: Code, call: Call) -> Sequence[LlvmValue]:
        zeros = super().starts(code, call)
        if not is_sign_flipped(self.signs, self.lanes, self.processor):
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


def int8_micro_kernel(signs: Signs, rows: int, vectors: int, lanes: int, **facts):
    """
    Tiles of groups of a times vectors of groups of b, as `outer_micro_kernel` of an a
    in panels has them: `b` and the depth count groups, all in 32 bits. `signs` says
    whether the bytes of a and of b have a sign; those of a are as `pack_int8_rows`
    leaves them. Both are for the same `processor`, by default the one that compiles.
    """
    facts |= {"signs": signs, "stored": True}
    return function_of(_Int8MicroKernel("i32", rows, vectors, lanes, **facts))


################################################################################
# Rows                                                                         #
################################################################################


def pack_int8_rows(
    signs: Signs,
    rows: int,
    lanes: int,
    depth: int,
    a: tuple[int, int],
    rest: int = 0,
    processor: Processor | None = None,
):
    """
    A function `pack(a, panels, height, count)` that copies up to `depth` terms of
    `height` rows of a to panels of groups as wide as a tile has `rows`, as `pack_rows`
    does, for `int8_micro_kernel` of such bytes and lanes. The last group of a row ends
    in anything, for those of columns end in zeros.

    `a` is the steps from a row and from a term to the next.
    """
    processor = processor or processor_here()
    turned = HIGHEST if is_sign_flipped(signs, lanes, processor) else 0

    def emit(builder, _facts, source, panels, height, count) -> None:
        lines = builder.alloca(ir.ArrayType(BYTE, rows * depth + lanes * GROUP))
        lines.align = LINE
        single = Lines(builder, lanes, turned, a)
        task = _Rows(single, depth, builder.ptrtoint(lines, WORD))

        def copy(tall: int, row: LlvmValue) -> None:
            task.copy(tall, source, panels, row, count)

        each_tile(Code(builder, "i32"), rows, rest, height, copy)

    return copier("rows", 4, emit)


@dataclass(frozen=True)
class Lines:
    """Copies rows to where their bytes follow each other, and turns some bits."""

    builder: ir.IRBuilder
    lanes: int
    turned: int
    a: tuple[int, int]

    def copy(self, here: LlvmValue, there: LlvmValue, count: LlvmValue) -> None:
        """Copy so many bytes of a row to where they follow each other."""
        builder, size = self.builder, word(self.lanes * GROUP)
        if self.a[1] != 1:
            self._copy_single(here, there, count)
            return
        is_short = builder.icmp_signed("<", count, size)
        with builder.if_else(is_short) as (short, long):
            with short:
                self._copy_single(here, there, count)
            with long:
                # The last vector begins where it has to for the row to end with it.
                last = builder.sub(count, size)

                def block(at: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
                    self._copy_vector(here, there, at)
                    return ()

                Code(builder, "i32").loop(last, self.lanes * GROUP, (), block)
                self._copy_vector(here, there, last)

    def _copy_vector(self, here: LlvmValue, there: LlvmValue, at: LlvmValue) -> None:
        builder, code = self.builder, Code(self.builder, "i32")
        value = code.load(builder.add(here, at), 0, self.lanes)
        value = builder.xor(value, ir.Constant(value.type, [self.turned] * self.lanes))
        code.store(value, builder.add(there, at), 0)

    def _copy_single(self, here: LlvmValue, there: LlvmValue, count: LlvmValue) -> None:
        builder, code = self.builder, Code(self.builder, "i8")
        bits = ir.Constant(BYTE, self.turned & 0x80)

        def one(at: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            value = code.load_scalar(code.advanced(here, at, self.a[1]), 0)
            code.store_scalar(builder.xor(value, bits), builder.add(there, at), 0)
            return ()

        code.loop(count, 1, (), one)


@dataclass(frozen=True)
class _Rows:
    """
    Copies the rows of a tile to where each begins with a group, and from there to their
    panel.
    """

    single: Lines
    depth: int
    lines: LlvmValue
    """Where the rows of a tile lie, `depth` bytes apart."""

    def copy(
        self,
        rows: int,
        source: LlvmValue,
        panels: LlvmValue,
        row: LlvmValue,
        count: LlvmValue,
    ) -> None:
        """Copy so many terms of the rows from one on."""
        builder, step = self.single.builder, word(self.single.a[0])
        code = Code(builder, "i32")
        first = builder.add(source, builder.mul(row, step))

        def line(n: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            here = builder.add(first, builder.mul(n, step))
            there = builder.add(self.lines, builder.mul(n, word(self.depth)))
            self.single.copy(here, there, count)
            return ()

        code.loop(word(rows), 1, (), line)
        groups = builder.ashr(builder.add(count, word(GROUP - 1)), word(2))
        panel = code.advanced(panels, builder.mul(row, groups), 1)
        task = RowPanel(code, rows, self.single.lanes, (self.depth // GROUP, 1))
        task.copy(self.lines, panel, groups)


################################################################################
# Columns                                                                      #
################################################################################


def pack_int8(
    vectors: int,
    lanes: int,
    b: tuple[Loops, Loops],
    masked: bool = False,
    whole: int = 1,
):
    """
    A function `pack(b, panel, used, depth, column, term)` that copies `depth` terms of
    columns from these on to a panel of `vectors` vectors of groups; in a `masked` one
    the last vector has `used` columns, and anything. The last group ends in zeros, and
    so do the columns, up to a multiple of `whole` groups. A block begins with a group.

    `b` has the loops of terms and of columns of b, whose elements are bytes.
    """
    terms, columns = b

    def emit(builder, _facts, source, panel, used, depth, column, term) -> None:
        count = columns_of(builder, vectors, lanes, used if masked else None)
        pieces = Pieces(Code(builder, "i8"), count, lanes, columns)
        task = _Int8Packing(pieces, vectors * lanes, terms, whole)
        task.copy(source, panel, depth, column, term)

    return copier("groups", 6, emit)


@dataclass(frozen=True)
class _Int8Packing:
    """
    Copies columns piece by piece, and all terms of each.

    `Pieces` walks the columns, as for windows of other elements. Terms are another
    matter: a group joins four, which different loops may hold, so their offsets come
    from a table. Windows of other elements copy one term a store, nest their loops, and
    count indices for padding, of which bytes have none.
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
            places = (builder.add(source, offset(k, number)) for number in range(count))
            value = joined(builder, [load(place) for place in places])
            code.store(value, code.advanced(panel, k, self.width), 0, mask)

        def turn(k: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            group(k, GROUP)
            return ()

        whole = builder.ashr(depth, word(2))
        code.loop(whole, 1, (), turn)
        if rest := self._term_count % GROUP:
            left = builder.and_(depth, word(GROUP - 1))
            with builder.if_then(builder.icmp_signed("!=", left, word(0))):
                group(whole, rest)
        if self._term_count % (GROUP * self.whole):
            self._fill(panel, depth, mask)

    @property
    def _term_count(self) -> int:
        return prod(extent for extent, _ in self.terms)

    def _fill(self, panel: LlvmValue, depth: LlvmValue, mask: LlvmValue | None) -> None:
        """Zeros behind the groups of so many terms."""
        builder, code = self.pieces.code.builder, Code(self.pieces.code.builder, "i32")
        first = builder.sdiv(builder.add(depth, word(GROUP - 1)), word(GROUP))
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
            first = builder.add(term, builder.mul(k, word(GROUP)))
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
        """The loader of the bytes of a term: as many as there are lanes, or `size`."""
        code, lanes, step = self.pieces.code, self.pieces.lanes, self.pieces.step
        if step == 1:
            mask = None if size is None else code.lanes_below(lanes, size)
            return lambda place: code.load(place, 0, lanes, mask)
        if step == 2 and size is None:
            return self._load_seconds
        return lambda place: self._load_apart(place, size)

    def _load_seconds(self, place: LlvmValue) -> LlvmValue:
        """Each second byte of twice as many, but for the last one."""
        code, lanes = self.pieces.code, self.pieces.lanes
        first, second = (code.load(place, at, lanes) for at in (0, lanes - 1))
        later = range(lanes + 1, 2 * lanes, 2)
        return code.shuffled(first, second, [*range(0, lanes, 2), *later])

    def _load_apart(self, place: LlvmValue, size: LlvmValue | None) -> LlvmValue:
        """Bytes one by one, the last one again for lanes beyond it."""
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


def joined(builder: ir.IRBuilder, lines: Sequence[LlvmValue]) -> LlvmValue:
    """Up to four vectors of bytes as one of groups, with zeros for missing ones."""
    lanes = lines[0].type.count
    type = ir.VectorType(INDEX, lanes)
    whole: LlvmValue = ir.Constant(type, [0] * lanes)
    for number, line in enumerate(lines):
        shift = ir.Constant(type, [8 * number] * lanes)
        whole = builder.or_(whole, builder.shl(builder.zext(line, type), shift))
    return whole
