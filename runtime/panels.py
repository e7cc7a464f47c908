"""
Panels: copies of some columns of a matrix, in the order in which tiles read them.

A panel lies in `scratch`, memory on the stack of the thread that runs a kernel.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportUnknownLambdaType=false
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from penstock.runtime.lanes import BYTE, WORD, Code, LlvmValue, word

LINE = 64
"""The alignment of scratch memory in bytes."""


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
            type = ir.FunctionType(ir.VoidType(), [WORD] * 4)
            function = ir.Function(module, type, module.get_unique_name("pack"))
            function.linkage = "internal"
            function.attributes.add("noinline")
            function.attributes.add("nounwind")
            inside = ir.IRBuilder(function.append_basic_block("entry"))
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
    """What is copied to a panel: columns of b, and how far apart its elements are."""

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
