"""
The source of warp reductions: dot products over contiguous terms, one warp each.

A `linalg` op that adds to its output is one if it has one loop of at least 32 terms,
along which each input is contiguous or constant: matrix times a few vectors, above all.
The terms are added in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from xdsl.dialects.builtin import AnyFloat, MemRefType

from penstock.dialects.launch.schedules.cuda_matmul import WARP
from penstock.dialects.utils.hints import isa
from penstock.lowering.codegen.body.statements import Computation, running_sum
from penstock.lowering.codegen.cuda.statements import DevicePrinter
from penstock.lowering.codegen.cuda.vector_access import ALONE, element_type, width_of

WARPS = 8
"""The warps of a block; each has a sum."""


@dataclass(frozen=True)
class WarpReduction:
    """A sum for each turn of the other loops."""

    computation: Computation
    loop: int
    """The loop over terms."""
    width: int
    """The terms that a thread takes at once."""

    @property
    def terms(self) -> int:
        """The terms of a sum."""
        return self.computation.nest.extents[self.loop]

    @property
    def turns(self) -> int:
        """The number of vectors of terms that a thread takes."""
        return -(-self.terms // (WARP * self.width))

    @property
    def outer(self) -> list[int]:
        """The other loops."""
        loops = range(len(self.computation.nest.extents))
        return [loop for loop in loops if loop != self.loop]


def warp_reduction_of(computation: Computation) -> WarpReduction | None:
    """The sums of a stage, or None if it has none that warps compute."""
    nest, op = computation.nest, computation.op
    terms = [loop for loop, reduces in enumerate(nest.reductions) if reduces]
    if len(terms) != 1 or nest.extents[terms[0]] < WARP or 0 in nest.extents:
        return None
    if running_sum(computation) is None or nest.has_bounds:
        return None
    if any(isinstance(inner, ALONE) for inner in op.body.walk()):
        return None
    (loop,) = terms
    strides = [access.strides[loop] for access in nest.accesses[:-1]]
    if not set(strides) <= {0, 1} or 1 not in strides:
        return None
    if not all(isinstance(element_type(v), AnyFloat) for v in op.operands):
        return None
    return WarpReduction(computation, loop, _width(computation, loop))


def scheduled_warp_reduction(
    computation: Computation, width: int
) -> WarpReduction | str:
    """Sums whose terms a thread reads so many of at once, or why they cannot be so."""
    found = warp_reduction_of(computation)
    if found is None:
        return "its folds are not those of warps"
    if found.width % width:
        return f"a thread moves {width} terms at once, but {found.width} lie so"
    return replace(found, width=width)


def _width(computation: Computation, loop: int) -> int:
    """The terms that may be read at once."""
    nest, op = computation.nest, computation.op
    along = [n for n, a in enumerate(nest.accesses[:-1]) if a.strides[loop]]
    width = width_of(*(element_type(op.operands[n]) for n in along))
    numbers = [nest.extents[loop]]
    for access in (nest.accesses[n] for n in along):
        others = (s for i, s in enumerate(access.strides) if i != loop)
        numbers += [access.offset, *others]
    return 1 if any(number % width for number in numbers) else width


class WarpReductionPrinter:
    """Prints the sums of one stage."""

    def __init__(self, printer: DevicePrinter, dots: WarpReduction):
        self._printer, self._dots = printer, dots
        self._call, self._line = printer.scalars.call, printer.line

    def print(self, name: str) -> str:
        """Print the function of the stage; how it is listed, but for its fallback."""
        printer, dots = self._printer, self._dots
        nest = dots.computation.nest
        loops = [printer.new_loop() for _ in nest.extents]
        extents = [nest.extents[loop] for loop in dots.outer]
        count = prod(extents)
        items = -(-count // WARPS)
        with printer.stage_function(name):
            thread = self._call("thread")
            self._line(f"warp = {self._call('i32', f'{thread} >> 5')}")
            self._line(f"at = {self._call('i32', f'{thread} & {WARP - 1}')}")
            with printer.blocks(items):
                self._print_place(count)
                printer.split("row", [loops[loop] for loop in dots.outer], extents)
                self._print_sum(loops, count)
        return f"Stage({name}, {items}, {WARP * WARPS}, blockwise=True"

    def _print_place(self, count: int) -> None:
        """Print which sum a warp has; those without one do again what the last does."""
        self._line(f"row = {self._call('i32', f'e * {WARPS} + warp')}")
        self._printer.print_edge("live", "row", count, WARPS, count - 1)

    def _print_sum(self, loops: Sequence[str], count: int) -> None:
        printer, dots = self._printer, self._dots
        computation = dots.computation
        total = running_sum(computation)
        assert total is not None, "found before"
        value, index = printer.new_value(), loops[dots.loop]
        name = "f64" if "64" in str(total.result.type) else "f32"
        self._line(f"{value} = {printer.scalars.float_constant(0.0, name)}")
        step = WARP * dots.width
        with printer.block(f"for j in range({dots.turns}):"):
            at = "at" if dots.width == 1 else f"at * {dots.width}"
            self._line(f"{index} = {self._call('i32', f'{at} + j * {step}')}")
            edge = printer.print_edge("inside", index, dots.terms, step)
            self._print_terms(loops, value, bool(edge))
        printer.print_fold_of_lanes(value, partial(printer.folded, total), WARP)
        self._print_result(loops, value, count)

    def _print_terms(self, loops: Sequence[str], value: str, has_edge: bool) -> None:
        """Print how a thread adds its next terms."""
        printer, dots = self._printer, self._dots
        computation = dots.computation
        names: list[list[str]] = []
        for operand, access in zip(
            computation.op.inputs, computation.nest.accesses, strict=False
        ):
            if not isa(operand.type, MemRefType):
                names.append([printer.name(operand)] * dots.width)
                continue
            place, loaded = printer.element(access, loops), printer.new_value()
            if dots.width == 1 or not access.strides[dots.loop]:
                self._line(f"{loaded} = {printer.loaded(operand, place)}")
                names.append([loaded] * dots.width)
            else:
                function = f"load_{dots.width}"
                call = self._call(function, printer.name(operand), place)
                self._line(f"{loaded} = {call}")
                names.append([f"{loaded}[{k}]" for k in range(dots.width)])
        for k in range(dots.width):
            for arg, parts in zip(computation.body.args, names, strict=False):
                printer.set_loop(arg, parts[k])
            new = printer.print_element(computation, loops, value)
            new = self._call("select", "inside", new, value) if has_edge else new
            self._line(f"{value} = {new}")

    def _print_result(self, loops: Sequence[str], value: str, count: int) -> None:
        """Print that one thread adds a sum to the output."""
        printer, computation = self._printer, self._dots.computation
        total, output = running_sum(computation), computation.op.outputs[0]
        assert total is not None, "found before"
        place = printer.element(computation.nest.accesses[-1], loops)
        so_far = printer.loaded(output, place)
        text = printer.folded(total, so_far, value)
        condition = "live & (at == 0)" if count % WARPS else "at == 0"
        printer.store_if(condition, output, place, text)
