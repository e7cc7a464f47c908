"""
The source of Winograd transforms of tiles, and their analysis in a kernel.

A transform is a `linalg` op that adds `p[i, k] * q[j, l] * d[k, l, ...]` to its output.
Loops that neither p nor q have are loops over tiles. One of them runs along SIMD lanes:
its elements of d have a stride of 1, 2 or 4, and those of the result are contiguous, or
leave room between them for the tile's own, which j counts. The other loops are the
units of work:

    for i0 in range(<units> * part // parts, <units> * (part + 1) // parts):
        ...where unit i0 begins...
        transform_0(...)

`transform_0` is made by `penstock.runtime.kernels.cpu.winograd`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Operation, SSAValue
from xdsl.utils.hints import isa

from penstock.dialects.kernel.loops import Nest
from penstock.dialects.kernel.views import root_of
from penstock.dialects.launch.schedules.cpu_winograd import TransformAttr
from penstock.lowering.codegen.body.contraction import ELEMENTS, Contraction, nest_of
from penstock.lowering.codegen.body.epilogue import (
    Epilogue,
    Input,
    VectorScalars,
    epilogue_lines,
    epilogue_of,
    is_trivial,
)

if TYPE_CHECKING:
    from penstock.lowering.codegen.body.statements import BodyPrinter

BYTES = {"f32": 4, "f64": 8}
WORK_OF_A_PART = 200_000
"""Scalar operations that are worth a part of their own."""
MAX_SIZE = 8
"""The elements of a tile on an axis that are held at once."""
STEPS = (1, 2, 4)


@dataclass(frozen=True)
class Transform:
    """A transform of tiles by its loops."""

    element: str
    nest: Nest
    i: int
    j: int
    k: int
    l: int  # noqa: E741
    along: int
    """The loop that vectors run along."""
    outer: tuple[int, ...]
    down: int | None = None
    """The loop around it, if a vector takes several of its turns."""

    @property
    def tiles(self) -> int:
        """The number of tiles that vectors run along."""
        extents = self.nest.extents
        return extents[self.along] * (1 if self.down is None else extents[self.down])

    def merged_down(self, lanes: int) -> Transform:
        """
        The transform with vectors of several short rows of tiles, if these are
        contiguous and elements or results of a row just fill a vector.
        """
        count = self.nest.extents[self.along]
        d, out = (self.nest.accesses[n].strides for n in (2, 3))
        room = max(d[self.along], out[self.along])
        for loop in self.outer:
            is_next = all(
                strides[loop] == strides[self.along] * count
                for strides in (d, out)
                if strides[self.along] == 1
            )
            if is_next and count * room == lanes and room > 1:
                outer = tuple(other for other in self.outer if other != loop)
                return replace(self, outer=outer, down=loop)
        return self

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """The extents of i, k, j and l."""
        extents = self.nest.extents
        return extents[self.i], extents[self.k], extents[self.j], extents[self.l]

    def stride(self, operand: int, loop: int) -> int:
        """From an element of an operand (3: the result) to the next one of a loop."""
        return self.nest.accesses[operand].strides[loop]

    @property
    def interleaves(self) -> bool:
        """Whether the results of a tile are contiguous along vectors."""
        return self.stride(3, self.along) != 1

    def as_contraction(self) -> Contraction:
        """The loops as those of a contraction, to find what follows it."""
        columns = (self.along, self.j) if self.interleaves else (self.along,)
        outer = self.outer if self.interleaves else (*self.outer, self.j)
        terms = (self.k, self.l)
        return Contraction(self.element, 2, 2, self.nest, outer, self.i, columns, terms)


def is_transform_body(op: LinalgStructuredOperation) -> bool:
    """Whether a body adds the product of its three inputs, in order, to its output."""
    block = op.body.block
    if len(block.args) != 4 or len(list(block.ops)) != 4:
        return False
    first, second, total, last = block.ops
    p, q, d, out = block.args
    return (
        isinstance(first, arith.MulfOp)
        and isinstance(second, arith.MulfOp)
        and isinstance(total, arith.AddfOp)
        and tuple(first.operands) == (p, q)
        and tuple(second.operands) == (first.result, d)
        and set(total.operands) == {second.result, out}
        and tuple(last.operands) == (total.result,)
    )


def transform_of(op: LinalgStructuredOperation) -> Transform | None:
    """The loops of a transform of tiles, None for any other op."""
    if len(op.outputs) != 1 or op.res or not is_transform_body(op):
        return None
    element = ELEMENTS.get(op.body.block.args[-1].type)
    nest = nest_of(op) if all(isa(v.type, MemRefType) for v in op.operands) else ""
    if element is None or isinstance(nest, str) or 0 in nest.extents:
        return None
    if nest.has_bounds:
        return None
    if root_of(op.outputs[0]) in map(root_of, op.inputs):
        return None
    return _with_loops(element, nest)


def _with_loops(element: str, nest: Nest) -> Transform | None:
    p, q, d, out = (access.strides for access in nest.accesses)
    loops = range(len(nest.extents))
    rows = [loop for loop in loops if p[loop]]
    columns = [loop for loop in loops if q[loop]]
    found = [
        [loop for loop in group if nest.reductions[loop] is reduced]
        for group in (rows, columns)
        for reduced in (False, True)
    ]
    if any(len(group) != 1 for group in found) or set(rows) & set(columns):
        return None
    (i,), (k,), (j,), (l,) = found  # noqa: E741
    others = [loop for loop in loops if loop not in (i, j, k, l)]
    if d[i] or d[j] or any(nest.reductions[loop] for loop in others):
        return None
    if any(not out[loop] for loop in (i, j, *others)):
        return None
    wanted = nest.extents[j] if out[j] == 1 else 1
    steps = (loop for loop in others if out[loop] == wanted and d[loop] in STEPS)
    along = next(steps, None)
    if along is None or not _fits(nest, (i, k, j, l)):
        return None
    if (d[along] > 1 and d[l] != 1) or (wanted > 1 and wanted not in STEPS):
        return None
    if d[along] > 1 and nest.extents[l] > 2 * d[along]:
        return None
    outer = tuple(loop for loop in others if loop != along)
    return Transform(element, nest, i, j, k, l, along, outer)


def _fits(nest: Nest, loops: Sequence[int]) -> bool:
    return all(nest.extents[loop] <= MAX_SIZE for loop in loops)


def transform_folds(
    transform: Transform, phases: Sequence[Operation], position: int
) -> tuple[int, int] | None:
    """The phases around a transform that are computed with it; None if it cannot be."""
    after = 0
    if _finish(transform, phases, position, (1, 0)) is None:
        return None
    while _finish(transform, phases, position, (1, after + 1)) is not None:
        after += 1
    return 1, after


def _finish(
    transform: Transform,
    phases: Sequence[Operation],
    position: int,
    folds: tuple[int, int],
) -> Epilogue | None:
    contraction = transform.as_contraction()
    finish = epilogue_of(contraction, phases, position, folds)
    if finish is None or transform.interleaves or is_trivial(finish):
        return finish
    return None


@dataclass(frozen=True)
class TransformGroup:
    """A transform with a schedule, and what is computed with it."""

    op: LinalgStructuredOperation
    transform: Transform
    schedule: TransformAttr
    finish: Epilogue
    loops: tuple[int, ...]
    """The loops that `Input.outer` of what is folded is about."""

    @property
    def units(self) -> int:
        """The pieces of work that are independent."""
        return prod(self.transform.nest.extents[loop] for loop in self.transform.outer)

    @property
    def parts(self) -> int:
        """The number of parts that the work is worth."""
        i, k, j, l = self.transform.sizes  # noqa: E741
        tiles = self.units * self.transform.tiles
        work = 2 * tiles * (k * j * l + i * k * j)
        return max(1, min(self.units, work // WORK_OF_A_PART))


def transform_group(
    op: Operation, schedule: TransformAttr, phases: Sequence[Operation]
) -> TransformGroup | str:
    """The transform of an op, or why it is not computed as its schedule says."""
    found = transform_of(op) if isinstance(op, LinalgStructuredOperation) else None
    if found is None:
        return f"{op.name} is no transform of tiles, which {schedule} is for"
    assert isinstance(op, LinalgStructuredOperation), "a transform is one"
    finish = _finish(found, phases, phases.index(op), schedule.folds)
    if finish is None:
        before, after = schedule.folds
        return f"{before} phases before and {after} after cannot be folded in {op.name}"
    merged = found.merged_down(schedule.lanes)
    loops = found.as_contraction().outer
    return TransformGroup(op, merged, schedule, finish, loops)


class TransformPrinter:
    """Prints a group: the definition of its transform, and the loops that call it."""

    names = frozenset(("tile_transform",))
    """The functions of `penstock.runtime.kernels.cpu.winograd` that are used."""

    def __init__(self, printer: BodyPrinter, group: TransformGroup, number: int):
        self.printer, self.group, self.number = printer, group, number
        self.size = BYTES[group.transform.element]

    def definitions(self) -> list[str]:
        """The lines that make the function which the loops call."""
        lines: list[str] = []
        transform, finish = self.group.transform, self.group.finish
        lanes = self.group.schedule.lanes
        extent = transform.tiles

        def steps(operand: int, *loops: int) -> str:
            return str(tuple(transform.stride(operand, loop) for loop in loops))

        i, j, k, l = transform.i, transform.j, transform.k, transform.l  # noqa: E741
        facts = [
            *(f'"{transform.element}"', str(lanes), str(transform.sizes), str(extent)),
            f"p={steps(0, i, k)}",
            f"q={steps(1, j, l)}",
            f"d={steps(2, k, l, transform.along)}",
            f"o={steps(3, i, j, transform.along)}",
        ]
        if transform.down is not None:
            down = tuple(transform.stride(n, transform.down) for n in (2, 3))
            facts.append(f"down={down}")
        if not is_trivial(finish):
            lines += self._finish_lines()
            facts += [f"inputs={self._input_steps()}", f"finish=finish_{self.number}"]
        name = f"transform_{self.number}"
        return [*lines, "", f"{name} = tile_transform({', '.join(facts)})"]

    def _input_steps(self) -> list[tuple[int, int, int]]:
        """From a row, a column, and a row of tiles of each input to the next."""
        down = self.group.transform.down
        return [
            (input.row, input.column, self._outer_steps(input).get(down, 0))
            for input in self.group.finish.inputs
        ]

    def _outer_steps(self, input: Input) -> dict[int | None, int]:
        """From a turn of each outer loop of an input to the next."""
        return dict(zip(self.group.loops, input.outer, strict=True))

    def _finish_lines(self) -> list[str]:
        names = [f"p{n}" for n in range(len(self.group.finish.inputs))]
        scalars = VectorScalars()
        header = f"def finish_{self.number}({', '.join(('x', 's', *names))}):"
        body = [f"    {line}" for line in epilogue_lines(self.group.finish, scalars)]
        self.printer.scalars.names |= scalars.names
        return ["", "", header, *body, ""]

    def print_loops(self, is_split: bool) -> None:
        """Print the loop over units; of one part of the kernel, or of all."""
        out, units = self.printer, self.group.units
        addresses = self._addresses()
        ends = f"{units} * part // parts, {units} * (part + 1) // parts"
        unit = out.new_loop()
        with out.block(f"for {unit} in range({ends if is_split else units}):"):
            places = self._places(unit)
            accesses = self.group.transform.nest.accesses
            found = [
                self._moved(
                    address,
                    zip(places, self._strides(number), strict=True),
                    accesses[number].offset,
                )
                for number, address in enumerate(addresses[:4])
            ]
            inputs = [
                self._input_at(address, input, places)
                for address, input in zip(
                    addresses[4:], self.group.finish.inputs, strict=True
                )
            ]
            comma = "," if len(inputs) == 1 else ""
            arguments = ", ".join((*found, f"({', '.join(inputs)}{comma})"))
            out.line(f"transform_{self.number}({arguments})")

    def _input_at(self, address: str, input: Input, places: Sequence[str]) -> str:
        """The address where a unit begins in an input."""
        known = self._outer_steps(input)
        steps = [known[loop] for loop in self.group.transform.outer]
        return self._moved(address, zip(places, steps, strict=True), input.offset)

    def _strides(self, operand: int) -> list[int]:
        transform = self.group.transform
        return [transform.stride(operand, loop) for loop in transform.outer]

    def _addresses(self) -> list[str]:
        """The addresses of p, q, d, the result, and the inputs of what follows."""
        op, out = self.group.op, self.printer
        buffers = [
            *op.operands,
            *(input.buffer for input in self.group.finish.inputs),
        ]
        known: dict[SSAValue, str] = {}
        for buffer in map(root_of, buffers):
            if buffer not in known:
                known[buffer] = out.new_value()
                out.line(f"{known[buffer]} = address_of({out.name(buffer)})")
        return [known[root_of(buffer)] for buffer in buffers]

    def _places(self, unit: str) -> list[str]:
        """Print where a unit is in each of the outer loops."""
        counts = [
            self.group.transform.nest.extents[x] for x in self.group.transform.outer
        ]
        places: list[str] = []
        left = unit
        for index in reversed(range(len(counts))):
            if counts[index] == 1:
                places.append("0")
            elif prod(counts[:index]) == 1:
                places.append(left)
            else:
                name, rest = self.printer.new_value(), self.printer.new_value()
                self.printer.line(f"{name} = {left} % {counts[index]}")
                self.printer.line(f"{rest} = {left} // {counts[index]}")
                places.append(name)
                left = rest
        return places[::-1]

    def _moved(
        self, address: str, steps: Iterable[tuple[str, int]], offset: int
    ) -> str:
        parts = [
            f"{place} * {stride * self.size}"
            for place, stride in steps
            if stride and place != "0"
        ]
        if offset:
            parts.append(str(offset * self.size))
        return " + ".join((address, *parts))
