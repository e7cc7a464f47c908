"""
The source of stages whose result is contiguous along another loop than an operand.

    for i0 in range(<other loops>):
        for i1 in range(<blocks of rows>):
            for i2 in range(<blocks of columns>):
                turn_0((<addresses>, <numbers>, <steps>, <rows>, <columns>))

Columns follow each other in the result, rows in some operand. A block is as much as
stays in a cache; `penstock.runtime.kernels.cpu.transposition` turns squares of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import FixedBitwidthType, MemRefType
from xdsl.ir import Attribute, SSAValue

from penstock.dialects.kernel.loops import Access, Order
from penstock.dialects.utils.hints import isa
from penstock.lowering.codegen.body.numbers import is_digits
from penstock.lowering.codegen.body.statements import Computation
from penstock.lowering.codegen.body.vector_loop import (
    VectorLoop,
    element_of,
    is_element,
    is_vector_loop_op,
    reads_result_in_place,
    stored_as,
)
from penstock.lowering.codegen.cpu.vector_loop import InnerLoopPrinter

ROWS, COLUMNS = 256, 64
"""
The rows and columns of a block. Of 64 columns whose rows are a power of two apart, few
lines of a cache drive out others, and 256 rows of 256 bytes are a part of the next one.
"""


@dataclass(frozen=True)
class Transposition:
    """A stage in blocks of rows and columns, its only loops that matter."""

    row: int
    """The loop along which rows follow each other, in some operand."""
    column: int
    """The loop along which columns follow each other, in all results."""
    line: VectorLoop
    """The body, and its loads and stores."""
    kinds: Sequence[str]
    """Where the elements of each load are."""
    is_moved: bool
    """Whether elements are moved as they are."""

    def blocks(self, extents: Sequence[int]) -> dict[int, int]:
        """The blocks of each of the two loops."""
        return {
            self.row: -(-extents[self.row] // ROWS),
            self.column: -(-extents[self.column] // COLUMNS),
        }


def transposition_of(computation: Computation, order: Order) -> Transposition | None:
    """A stage as a transposition, or None if it is none."""
    op, nest, block = computation.op, computation.nest, computation.body
    if any(nest.reductions) or nest.has_bounds or len(order.loops) < 2:
        return None
    column, inputs = order.loops[-1], nest.accesses[: -nest.outputs]
    if {access.strides[column] for access in nest.written} != {1}:
        return None
    memrefs = [
        (arg, access)
        for operand, arg, access in zip(op.inputs, block.args, inputs, strict=False)
        if isa(operand.type, MemRefType) and arg.uses
    ]
    rows = {
        row
        for _, access in memrefs
        if access.strides[column] not in (0, 1)
        for row, step in enumerate(access.strides)
        if step == 1
    }
    if len(rows) != 1 or not reads_result_in_place(computation, folds=False):
        return None
    (row,) = rows
    loads = [(arg, access) for arg, access in memrefs if access.loops & {row, column}]
    results = block.args[-nest.outputs :]
    loads += [pair for pair in zip(results, nest.written, strict=True) if pair[0].uses]
    kinds = [_kind_of(access, row, column) for _, access in loads]
    line = _line_of(computation, [arg for arg, _ in loads], nest.extents[column])
    if line is None or not all(kinds):
        return None
    return Transposition(row, column, line, kinds, is_moved=_is_moved(computation))


def _kind_of(access: Access, row: int, column: int) -> str:
    """Where the elements of an operand are; empty if elsewhere."""
    match access.strides[row], access.strides[column]:
        case _, 1:
            return "along"
        case _, 0:
            return "row"
        case 1, _:
            return "across"
        case _:
            return ""


def _is_moved(computation: Computation) -> bool:
    """Whether the only result is an operand."""
    block, last = computation.body, computation.body.last_op
    return last is block.first_op and last is not None and len(last.operands) == 1


def _line_of(
    computation: Computation, loads: Sequence[SSAValue], extent: int
) -> VectorLoop | None:
    """The body with its loads and stores, or None if vectors cannot compute it."""
    block, last = computation.body, computation.body.last_op
    assert last is not None, "a linalg body ends in linalg.yield"
    if _is_moved(computation) and len(loads) == 1:
        element = f"i{8 * bytes_of(loads[0].type)}"
    else:
        found = element_of(block)
        if found is None or not all(is_element(x.type, found) for x in block.args):
            return None
        element = found
    ops = [op for op in block.ops if op is not last]
    if not all(is_vector_loop_op(op, element) for op in ops):
        return None
    return VectorLoop(
        element,
        extent,
        loads=[(value, None) for value in loads],
        stores=[(value, None) for value in last.operands],
        ops=ops,
    )


def bytes_of(type: Attribute) -> int:
    """The bytes of an element in memory."""
    assert isinstance(type, FixedBitwidthType), "elements are numbers"
    return -(-type.bitwidth // 8)


class TranspositionPrinter(InnerLoopPrinter):
    """Prints transpositions: calls in the kernel, and what they call."""

    body_name = "cell"

    @property
    def names(self) -> frozenset[str]:
        """The functions of `penstock.runtime.kernels.cpu.transposition` in use."""
        return frozenset(("transposition",) if self.count else ())

    def print_transposition(
        self, computation: Computation, order: Order, found: Transposition
    ) -> None:
        """Print a `linalg` op as blocks."""
        out, nest = self.printer, computation.nest
        loops = [out.new_loop() for _ in nest.extents]
        both = (found.row, ROWS), (found.column, COLUMNS)
        outer = [x for x in order.loops if x not in (found.row, found.column)]
        with out.restoring_depth():
            out.open_loops(computation, loops, (), outer)
            counts: list[str] = []
            for loop, size in both:
                count, name = self._open_blocks(computation, loop, size, loops[loop])
                counts.append(count)
                loops[loop] = name
            out.line(self._call_of_block(computation, found, loops, counts))

    def _open_blocks(
        self, computation: Computation, loop: int, size: int, name: str
    ) -> tuple[str, str]:
        """
        Open the loop over blocks of a loop; the text of the elements of one, and that
        of its first one.
        """
        out, op = self.printer, computation.op
        extent = computation.nest.extents[loop]
        count = out.number(extent, op, loop)
        if extent <= size:
            return count, "0"
        blocks = -(-extent // size)
        least = 0 if not is_digits(count) else blocks + 1
        out.open(f"for {name} in {out.range_over(op, loop, blocks, least)}:")
        if extent % size == 0 and is_digits(count):
            return str(size), f"{name} * {size}"
        return f"min({size}, {count} - {name} * {size})", f"{name} * {size}"

    def _call_of_block(
        self,
        computation: Computation,
        found: Transposition,
        loops: Sequence[str],
        counts: Sequence[str],
    ) -> str:
        out, op, nest = self.printer, computation.op, computation.nest
        args = [*computation.body.args]
        number: dict[SSAValue, int] = {arg: index for index, arg in enumerate(args)}
        operands = [*op.operands]
        loads = [number[value] for value, _ in found.line.loads]
        stores = [*range(len(args) - nest.outputs, len(args))]
        addresses = [
            self.address_of(operands[index], out.element(nest.accesses[index], loops))
            for index in (*loads, *stores)
        ]
        steps: list[str] = []
        for index, kind in zip(
            (*loads, *stores), (*found.kinds, *["along"] * nest.outputs), strict=True
        ):
            loop = found.column if kind == "across" else found.row
            stride = nest.accesses[index].strides[loop]
            steps.append(out.number(stride, op, "step", index))
        return self._defined(found, addresses, steps, counts)

    def address_of(self, buffer: SSAValue, element: str) -> str:
        """The address of an element of any type as an expression."""
        assert isa(buffer.type, MemRefType), "checked by the verifier"
        size = bytes_of(buffer.type.element_type)
        start = f"address_of({self.printer.name(buffer)})"
        return start if element == "0" else f"{start} + ({element}) * {size}"

    def _defined(
        self,
        found: Transposition,
        addresses: Sequence[str],
        steps: Sequence[str],
        counts: Sequence[str],
    ) -> str:
        """The call of a block, whose function is defined here."""
        line, facts, numbers = found.line, [f'"{found.line.element}"'], list[str]()
        body: list[str] = []
        if not found.is_moved:
            numbers, body = self.body(line)
            facts.append(f"{self.body_name}_{self.count}")
            types = [stored_as(value.type) for value, _ in (*line.loads, *line.stores)]
            facts.append(f"loads={[*found.kinds]}")
            if len(line.stores) > 1:
                facts.append(f"stores={len(line.stores)}")
            if any(type != line.element for type in types):
                facts.append(f"memory={types}")
        given = [*addresses, *numbers, *steps]
        for name, count in zip(("rows", "columns"), counts, strict=True):
            if is_digits(count):
                facts.append(f"{name}={count}")
            else:
                given.append(count)
        name = f"turn_{self.count}"
        self.definitions += [
            *(("", "", *body) if body else ()),
            *("", "", f"{name} = transposition({', '.join(facts)})"),
        ]
        self.count += 1
        return f"{name}(({', '.join(given)},))"
