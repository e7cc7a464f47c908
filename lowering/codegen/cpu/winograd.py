"""
The source of Winograd transforms of tiles, and their analysis in a kernel.

A transform is a `kernel.tile_transform`. One of its loops over tiles runs along SIMD
lanes: its elements of d have a stride of 1, 2 or 4, and those of the result are
contiguous, or leave room between them for the tile's own, which j counts. The other
loops are the units of work:

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

from xdsl.ir import Attribute, SSAValue

from penstock.dialects.kernel.interface import SCHEDULE, StructuredOp, element_of
from penstock.dialects.kernel.loops import Nest
from penstock.dialects.kernel.tile_transform import (
    OUT,
    D,
    P,
    Q,
    TileTransformOp,
)
from penstock.dialects.kernel.views import root_of
from penstock.dialects.launch.schedules.cpu_winograd import TransformAttr
from penstock.lowering.codegen.body.contraction import ELEMENTS, Contraction
from penstock.lowering.codegen.body.epilogue import (
    Epilogue,
    Input,
    Unfit,
    VectorScalars,
    epilogue_in,
    epilogue_lines,
    is_trivial,
)
from penstock.lowering.codegen.cpu.stage_printer import CpuStagePrinter

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

    def may_run_along(self, loop: int) -> bool:
        """Whether vectors may run along a loop over tiles."""
        room = self.nest.extents[self.j] if self.stride(OUT, self.j) == 1 else 1
        if self.stride(OUT, loop) != room or self.stride(D, loop) not in STEPS:
            return False
        return room in STEPS

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


def transform_of(op: TileTransformOp) -> Transform | str:
    """The loops of a transform of tiles, or why vectors cannot compute it."""
    held = op.operands[op.held_at]
    if (element := ELEMENTS.get(element_of(held))) is None:
        return f"elements are {element_of(held)}"
    nest = op.nest([P, Q, D, op.held_at])
    if 0 in nest.extents:
        return "there are no elements"
    if nest.has_bounds:
        return "a factor has padding around it"
    (i,), (k,), (j,), (l,), others = op.roles().values()  # noqa: E741
    if (most := max(nest.extents[loop] for loop in (i, k, j, l))) > MAX_SIZE:
        return f"tiles of {most} elements on an axis are larger than {MAX_SIZE}"
    found = Transform(element, nest, i, j, k, l, -1, ())
    along = next((loop for loop in others if found.may_run_along(loop)), None)
    if along is None:
        return "neither tiles nor results follow each other"
    outer = tuple(loop for loop in others if loop != along)
    found = replace(found, along=along, outer=outer)
    step = found.stride(D, along)
    if step > 1 and found.stride(D, l) != 1:
        return "the elements of overlapping tiles do not follow each other"
    if step > 1 and nest.extents[l] > 2 * step:
        return f"tiles of {nest.extents[l]} elements overlap after {step}"
    return found


def epilogue_with(op: TileTransformOp, transform: Transform) -> tuple[Epilogue, Unfit]:
    """
    The start and the end of a transform's sums that are computed in registers, and the
    reasons why one of them is not.
    """
    found, unfit = epilogue_in(op, transform.as_contraction())
    if len(op.outs) > 1:
        return found, Unfit(unfit.start, "transforms store one result")
    if transform.interleaves or is_trivial(found):
        return found, unfit
    why = "the results of a tile do not follow each other"
    start = why if op.start is not None else None
    return Epilogue(), Unfit(start, why if op.finish is not None else None)


def schedule_or_refusal(
    op: TileTransformOp, vector_bytes: int
) -> tuple[TransformAttr, Unfit] | str:
    """
    The schedule of a transform, and what is not computed with it, or why it has none.
    """
    found = transform_of(op)
    if isinstance(found, str):
        return found
    _, unfit = epilogue_with(op, found)
    if unfit.start is not None:
        return f"the start: {unfit.start}"
    return TransformAttr(max(4, vector_bytes // BYTES[found.element])), unfit


def _planned(
    op: StructuredOp, schedule: Attribute
) -> tuple[TileTransformOp, TransformAttr, Transform, Epilogue] | str:
    """A transform with all that is computed with it, or why a schedule does not fit."""
    assert isinstance(op, TileTransformOp), "found by its op"
    assert isinstance(schedule, TransformAttr), "found by its schedule"
    found = transform_of(op)
    if isinstance(found, str):
        return found
    finish, unfit = epilogue_with(op, found)
    why = unfit.start or unfit.finish
    return why or (op, schedule, found, finish)


class TransformPrinter(CpuStagePrinter):
    """Prints a transform: the definition of its function, and the loops around it."""

    OP = TileTransformOp
    SCHEDULES = (TransformAttr,)

    def __init__(self, printer: BodyPrinter, op: StructuredOp, number: int):
        found = _planned(op, op.attributes[SCHEDULE])
        assert not isinstance(found, str), "no misfit"
        self.op, schedule, self.transform, self.finish = found
        self.lanes = schedule.lanes
        self.printer, self.number = printer, number
        self.names = {"address_of", "tile_transform"}
        self.size = BYTES[self.transform.element]
        # The loops that `Input.outer` is about.
        self.loops = self.transform.as_contraction().outer
        self.transform = self.transform.merged_down(self.lanes)

    @classmethod
    def misfit(cls, op: StructuredOp, schedule: Attribute) -> str | None:
        found = _planned(op, schedule)
        return f"{schedule} does not fit: {found}" if isinstance(found, str) else None

    @property
    def units(self) -> int:
        """The pieces of work that are independent."""
        return prod(self.transform.nest.extents[loop] for loop in self.transform.outer)

    @property
    def parts(self) -> int:
        work = self.op.work() - self.op.work_of_finish()
        return max(1, min(self.units, work // WORK_OF_A_PART))

    def definitions(self) -> list[str]:
        lines: list[str] = []
        transform, finish, lanes = self.transform, self.finish, self.lanes
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
        down = self.transform.down
        return [
            (input.row, input.column, self._outer_steps(input).get(down, 0))
            for input in self.finish.inputs
        ]

    def _outer_steps(self, input: Input) -> dict[int | None, int]:
        """From a turn of each outer loop of an input to the next."""
        return dict(zip(self.loops, input.outer, strict=True))

    def _finish_lines(self) -> list[str]:
        names = [f"p{n}" for n in range(len(self.finish.inputs))]
        scalars = VectorScalars()
        header = f"def finish_{self.number}({', '.join(('x', 's', *names))}):"
        body = [f"    {line}" for line in epilogue_lines(self.finish, scalars)]
        self.printer.scalars.names |= scalars.names
        return ["", "", header, *body, ""]

    def print(self, is_split: bool) -> None:
        out, units = self.printer, self.units
        addresses = self._addresses()
        ends = f"{units} * part // parts, {units} * (part + 1) // parts"
        unit = out.new_loop()
        with out.block(f"for {unit} in range({ends if is_split else units}):"):
            places = self._places(unit)
            accesses = self.transform.nest.accesses
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
                    addresses[4:], self.finish.inputs, strict=True
                )
            ]
            comma = "," if len(inputs) == 1 else ""
            arguments = ", ".join((*found, f"({', '.join(inputs)}{comma})"))
            out.line(f"transform_{self.number}({arguments})")

    def _input_at(self, address: str, input: Input, places: Sequence[str]) -> str:
        """The address where a unit begins in an input."""
        known = self._outer_steps(input)
        steps = [known[loop] for loop in self.transform.outer]
        return self._moved(address, zip(places, steps, strict=True), input.offset)

    def _strides(self, operand: int) -> list[int]:
        transform = self.transform
        return [transform.stride(operand, loop) for loop in transform.outer]

    def _addresses(self) -> list[str]:
        """The addresses of p, q, d, the result, and the inputs of what follows."""
        op, out = self.op, self.printer
        buffers = [
            *op.operands[:OUT],
            op.operands[op.held_at],
            *(input.buffer for input in self.finish.inputs),
        ]
        known: dict[SSAValue, str] = {}
        for buffer in map(root_of, buffers):
            if buffer not in known:
                known[buffer] = out.new_value()
                out.line(f"{known[buffer]} = address_of({out.name(buffer)})")
        return [known[root_of(buffer)] for buffer in buffers]

    def _places(self, unit: str) -> list[str]:
        """Print where a unit is in each of the outer loops."""
        counts = [self.transform.nest.extents[x] for x in self.transform.outer]
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
