"""
Int8 matmul micro-kernels on AMX tile registers.

A tile register holds 16 rows of 64 bytes: for A, 16 groups of four bytes of each of 16
rows; for B, a group of each of 16 columns in each row, which is the order of packed
int8 panels; and an accumulator of 16 rows and columns of `i32`. A micro-kernel tile is
one or two of these down and across. Rows of A are packed in *chunks* of 64 terms, so
that a register is loaded from contiguous memory. A process that may not use AMX
multiplies the same panels row by row in vectors.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportReturnType=false
# pyright: reportAttributeAccessIssue=false, reportAssignmentType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from llvmlite import ir
from numba.core import cgutils

from penstock.runtime.kernels.cpu.matmul.groups import GROUP, ByteCode, Factors
from penstock.runtime.kernels.cpu.matmul.packing import copier
from penstock.runtime.kernels.cpu.matmul.tile import Call, OuterMicroKernel, function_of
from penstock.runtime.kernels.cpu.simd import (
    BYTE,
    WORD,
    Code,
    LlvmValue,
    word,
)
from penstock.runtime.kernels.cpu_features import Processor, processor_here

SIDE = 16
"""The rows of a register, and its groups of 4 terms, or sums."""
ROW = SIDE * GROUP
"""The bytes of a row."""
REGISTER = SIDE * ROW
"""The bytes of a register."""
LEFT, RIGHT = 4, 6
"""The first registers of a and of b, of two each; those before are of sums."""


@dataclass(frozen=True)
class _MatrixStrip(OuterMicroKernel):
    """Registers of rows of a times registers of columns of b."""

    factors: Factors = ("ui8", "ui8")
    processor: Processor = field(default_factory=processor_here)

    def code(self, builder: ir.IRBuilder) -> Code:
        return ByteCode(builder, self.factors, self.processor, plain=True)

    def row_of_a(self, code: Code, call: Call, row: LlvmValue) -> LlvmValue:
        chunks = self._chunks(code, call)
        return code.builder.add(
            call.a, code.builder.mul(code.builder.mul(row, chunks), word(ROW))
        )

    @staticmethod
    def _chunks(code: Code, call: Call) -> LlvmValue:
        """The chunks that the groups of 4 terms of a call take."""
        builder = code.builder
        return builder.sdiv(builder.add(call.depth, word(SIDE - 1)), word(SIDE))

    def run(self, code: Code, call: Call, height: LlvmValue) -> None:
        if not self.processor.matrices:
            super().run(code, call, height)
            return
        shapes = code.builder.bitcast(_shapes(code), BYTE.as_pointer())
        _emit(code, "ldtilecfg", shapes)
        super().run(code, call, height)
        _emit(code, "tilerelease")

    def emit_tile(self, code: Code, rows: int, call: Call) -> None:
        builder, groups = code.builder, -(-rows // SIDE)
        with builder.goto_entry_block():
            memory = builder.alloca(ir.ArrayType(BYTE, 4 * REGISTER))
            memory.align = ROW
            sums = builder.ptrtoint(memory, WORD)
        if self.processor.matrices:
            self._multiply(code, groups, call, sums)
        else:
            self._multiply_rows(code, groups, call, sums)
        for group in range(groups):
            count = min(SIDE, rows - group * SIDE)
            self._write_group(code, group, count, call, sums)

    def _multiply(self, code: Code, groups: int, call: Call, sums: LlvmValue) -> None:
        """Leave the sums of a tile in memory, register by register."""
        builder = code.builder
        pairs = [*product(range(groups), range(self.vectors))]
        for group, v in pairs:
            _emit(code, "tilezero", _register(group, v))
        a, b = ("u" if name == "ui8" else "s" for name in self.factors)
        name = f"tdpb{a}{b}d"

        def turn(_: LlvmValue, state: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            a, b = state
            for group in range(groups):
                here = builder.add(a, word(group * REGISTER))
                _move(code, "tileloadd64", LEFT + group, here, ROW)
            for v in range(self.vectors):
                here = builder.add(b, word(v * ROW))
                _move(code, "tileloadd64", RIGHT + v, here, self.b * GROUP)
            for group, v in pairs:
                factors = (ir.Constant(BYTE, n) for n in (LEFT + group, RIGHT + v))
                _emit(code, name, _register(group, v), *factors)
            following = builder.add(a, word(groups * REGISTER))
            return [following, builder.add(b, word(SIDE * self.b * GROUP))]

        code.loop(self._chunks(code, call), 1, [call.a, call.b], turn)
        for group, v in pairs:
            there = builder.add(sums, word((group * self.vectors + v) * REGISTER))
            _move(code, "tilestored64", _register(group, v).constant, there, ROW)

    def _multiply_rows(
        self, code: Code, groups: int, call: Call, sums: LlvmValue
    ) -> None:
        """The same, in vectors, row by row."""
        builder, zeros = code.builder, [code.zero(SIDE)] * self.vectors
        chunks = self._chunks(code, call)

        def row(n: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            of_row = builder.mul(builder.srem(n, word(SIDE)), word(ROW))
            group = builder.sdiv(n, word(SIDE))
            first = builder.add(builder.mul(group, word(REGISTER)), of_row)
            a = builder.add(call.a, first)

            def four_terms(
                k: LlvmValue, state: Sequence[LlvmValue]
            ) -> Sequence[LlvmValue]:
                chunk = builder.sdiv(k, word(SIDE))
                here = builder.add(a, builder.mul(chunk, word(groups * REGISTER)))
                here = code.advanced(here, builder.srem(k, word(SIDE)), 1)
                factor = code.splat(code.load_scalar(here, 0), SIDE)
                b = code.advanced(call.b, k, self.b)
                return [
                    code.multiply_add(factor, code.load(b, v * SIDE, SIDE), total)
                    for v, total in enumerate(state)
                ]

            totals = code.loop(builder.mul(chunks, word(SIDE)), 1, zeros, four_terms)
            place = builder.mul(group, word((self.vectors - 1) * REGISTER))
            there = builder.add(builder.add(sums, place), first)
            for v, total in enumerate(totals):
                code.store(total, builder.add(there, word(v * REGISTER)), 0)
            return ()

        code.loop(word(groups * SIDE), 1, (), row)

    def _write_group(
        self, code: Code, group: int, count: int, call: Call, sums: LlvmValue
    ) -> None:
        """Write the sums of the rows of a register."""
        first = group * SIDE

        def row(n: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            here = code.advanced(sums, n, SIDE)
            found = {
                (0, v): code.load(here, self._place(group, v), SIDE)
                for v in range(self.vectors)
            }
            below = code.builder.add(n, word(first))
            moved = replace(self.moved(code, call, below), a=call.a)
            self.write_tile(code, 1, found, moved)
            return ()

        code.loop(word(count), 1, (), row)

    def _place(self, group: int, v: int) -> int:
        """Where a register of sums begins, in sums."""
        return (group * self.vectors + v) * SIDE * SIDE


def _shapes(code: Code) -> LlvmValue:
    """A table that says that all registers are whole."""
    # Palette 1, then the bytes of the rows of eight registers, and their rows.
    numbers = bytearray(64)
    numbers[0] = 1
    for register in range(8):
        numbers[16 + 2 * register], numbers[48 + register] = ROW, SIDE
    module, type = code.builder.module, ir.ArrayType(BYTE, len(numbers))
    table = ir.GlobalVariable(module, type, module.get_unique_name("shapes"))
    table.linkage, table.global_constant = "internal", True
    table.initializer = ir.Constant(type, numbers)
    return table


def _register(group: int, v: int) -> ir.Constant:
    """The register of sums of a group of rows and of columns."""
    return ir.Constant(BYTE, 2 * group + v)


def _emit(code: Code, name: str, *values: LlvmValue) -> None:
    """A call of an intrinsic on registers of matrices."""
    kind = ir.FunctionType(ir.VoidType(), [value.type for value in values])
    full = f"llvm.x86.{name}"
    function = cgutils.get_or_insert_function(code.builder.module, kind, full)
    code.builder.call(function, values)


def _move(code: Code, name: str, register: int, address: LlvmValue, step: int) -> None:
    """Load or store a register, whose rows are so many bytes apart."""
    pointer = code.builder.inttoptr(address, BYTE.as_pointer())
    _emit(code, name, ir.Constant(BYTE, register), pointer, word(step))


def amx_micro_kernel(factors: Factors, rows: int, vectors: int, lanes: int, **facts):
    """
    Tiles of registers of matrices, as `group_micro_kernel`, of 16 or 32 rows and one or
    two vectors of 16 groups of 4. Rows of a are as `pack_amx` leaves them, and columns
    have whole chunks of 64 terms. `processor` is by default the one that compiles.
    """
    facts |= {"factors": factors, "stored": True}
    return function_of(_MatrixStrip("i32", rows, vectors, lanes, **facts))


@dataclass(frozen=True)
class _Lines:
    """Copies rows to where their bytes follow each other."""

    builder: ir.IRBuilder
    lanes: int
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
        code.store(value, builder.add(there, at), 0)

    def _copy_single(self, here: LlvmValue, there: LlvmValue, count: LlvmValue) -> None:
        builder, code = self.builder, Code(self.builder, "i8")

        def one(at: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            value = code.load_scalar(code.advanced(here, at, self.a[1]), 0)
            code.store_scalar(value, builder.add(there, at), 0)
            return ()

        code.loop(count, 1, (), one)


def pack_amx(rows: int, depth: int, a: tuple[int, int], rest: int = 0):
    """
    A function `pack(a, panels, height, count)` that copies up to `depth` terms of
    `height` rows of a, which a tile has `rows` of, or `rest` the last one: chunk by
    chunk, and group by group of 16 rows, 64 bytes of each of these.

    `a` is the steps from a row and from a term to the next.
    """

    def emit(builder, _facts, source, panels, height, count) -> None:
        memory = builder.alloca(ir.ArrayType(BYTE, depth + ROW))
        memory.align = ROW
        line = builder.ptrtoint(memory, WORD)
        code = Code(builder, "i32")
        lines = _Lines(builder, SIDE, a)
        chunks = builder.sdiv(builder.add(count, word(ROW - 1)), word(ROW))

        def row(n: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            lines.copy(builder.add(source, builder.mul(n, word(a[0]))), line, count)
            tile = builder.mul(builder.sdiv(n, word(rows)), word(rows))
            below = builder.srem(n, word(rows))
            there = builder.mul(builder.mul(tile, chunks), word(ROW))
            there = builder.add(panels, there)
            group = builder.mul(builder.sdiv(below, word(SIDE)), word(REGISTER))
            place = builder.mul(builder.srem(below, word(SIDE)), word(ROW))
            there = builder.add(there, builder.add(group, place))
            groups = _groups(builder, rows, rest, tile, height)

            def chunk(c: LlvmValue, _: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
                value = code.load(code.advanced(line, c, SIDE), 0, SIDE)
                step = builder.mul(groups, word(REGISTER))
                target = builder.add(there, builder.mul(c, step))
                code.store(value, target, 0)
                return ()

            code.loop(chunks, 1, (), chunk)
            return ()

        code.loop(height, 1, (), row)

    return copier("rows", 4, emit)


def _groups(
    builder: ir.IRBuilder, rows: int, rest: int, tile: LlvmValue, height: LlvmValue
) -> LlvmValue:
    """The groups of 16 rows of the tile that begins with a row."""
    whole, last = (word(-(-count // SIDE)) for count in (rows, rest))
    left = builder.sub(height, tile)
    return builder.select(builder.icmp_signed("<", left, word(rows)), last, whole)
