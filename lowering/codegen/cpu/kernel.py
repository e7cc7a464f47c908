"""
The source of kernels for `cpu`: one C function over buffer addresses.

A stage is a loop nest in the order of
`penstock.dialects.kernel.loops.loop_order`; inputs are loaded as far outside
as their loops allow. Innermost loops are vectorized where
`penstock.lowering.codegen.cpu.vector_loop` can, loops around others where
`penstock.lowering.codegen.cpu.outer_vector_loop` can. A structured op with a schedule
is printed by the class that this package has for both.

The line `PARTS = <n>` says into how many parts at most the work of the kernel can be
usefully cut: calls with parts 0 to p - 1 of p do all of it, in any order or at once.
Where it is 1, part 0 may do all the work, and the others none.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Hashable, Iterator, Sequence
from contextlib import contextmanager

from xdsl.dialects import arith, cf, memref, scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from penstock.dialects.kernel.interface import StructuredOp
from penstock.dialects.kernel.loops import Nest, loop_order
from penstock.dialects.kernel.views import root_of
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.schedules.cpu_map import MapAttr
from penstock.lowering.codegen.body.contraction import nest_of
from penstock.lowering.codegen.body.epilogue import stages_of
from penstock.lowering.codegen.body.kernel_functions import cpu_imports, used_names
from penstock.lowering.codegen.body.numbers import LEAST, LONG, Numbers
from penstock.lowering.codegen.body.scalars import type_name
from penstock.lowering.codegen.body.statements import BodyPrinter, Computation, range_of
from penstock.lowering.codegen.body.vector_loop import (
    number_of,
    vector_loop_of,
    vector_loop_of_for,
)
from penstock.lowering.codegen.cpu.fixed_loops import (
    fixed_loops,
    nest_loops,
    unfixable,
)
from penstock.lowering.codegen.cpu.outer_vector_loop import (
    OuterLoopPrinter,
    outer_vector_loop_of,
)
from penstock.lowering.codegen.cpu.packed_operands import is_read_by_tiles, uses_of
from penstock.lowering.codegen.cpu.stage_printer import CpuStagePrinter, printers
from penstock.lowering.codegen.cpu.transposition import (
    TranspositionPrinter,
    transposition_of,
)
from penstock.lowering.codegen.cpu.vector_loop import InnerLoopPrinter
from penstock.lowering.codegen.cpu.work_split import Split, splits_of


def cpu_source(kernel: KernelOp, *, is_fixed: bool = False) -> str:
    """
    The module text of a kernel: a function `kernel(args, part, parts)`. If it is fixed,
    all numbers are in the code, and its arguments are addresses.

    Raises `LocatedPassFailure` with everything in the kernel that has no source.
    """
    return CpuPrinter(kernel, is_fixed).text()


class CpuPrinter(BodyPrinter):
    """Prints a kernel for `cpu`."""

    reorders_sums = True
    schedules = (MapAttr,)

    def __init__(self, kernel: KernelOp, is_fixed: bool = False):
        super().__init__(kernel)
        self._numbers = Numbers()
        self._is_fixed = is_fixed
        self._takes_numbers = False
        self._in_code: set[Hashable] = set()
        """The loops, and strides, that are in the code."""
        self._lines = InnerLoopPrinter(self)
        self._columns = OuterLoopPrinter(self)
        self._transpositions = TranspositionPrinter(self)
        self._stages = self._find_stages()
        self._splits = self._find_splits()
        self._check_panels()

    def _find_stages(self) -> dict[Operation, CpuStagePrinter]:
        """The printers of structured ops."""
        found: dict[Operation, CpuStagePrinter] = {}
        number = 0
        for op in stages_of(self.kernel.body.block):
            if not isinstance(op, StructuredOp):
                continue
            printer = printers().printer_of(op)
            if isinstance(printer, str):
                self.complain(op, printer)
                continue
            found[op] = printer(self, op, number)
            number += printer.NUMBERS
        return found

    def _check_panels(self) -> None:
        """Complain of what reads an argument in panels otherwise than in tiles."""
        for argument, panels in zip(
            self.kernel.body.block.args, self.kernel.panels, strict=True
        ):
            for op in uses_of(argument) if panels is not None else ():
                if not is_read_by_tiles(op, argument):
                    self.complain(op, f"{op.name} uses {panels}, which only tiles read")

    def _find_splits(self) -> dict[Operation, Split]:
        """The loops that run over the share of a part: one of each stage, or none."""
        if self._stages:
            return {}
        stages = stages_of(self.kernel.body.block)
        return {split.op: split for split in splits_of(stages)}

    @property
    def parts(self) -> int:
        """
        The number of parts at most into which the work of the kernel can be usefully
        cut.
        """
        for split in self._splits.values():
            return split.parts
        return 1 if (printer := self._only_printer) is None else printer.parts

    @property
    def _is_shared(self) -> bool:
        """Whether the work is that of a part, though it may have one part alone."""
        for split in self._splits.values():
            return split.is_shared
        return (printer := self._only_printer) is not None and printer.is_shared

    @property
    def _only_printer(self) -> CpuStagePrinter | None:
        """The printer of the only stage, if it has one."""
        stages = stages_of(self.kernel.body.block)
        return self._stages.get(stages[0]) if len(stages) == 1 else None

    def range_over(
        self, op: Operation, loop: int, extent: int, least: int = LEAST
    ) -> str:
        split = self._splits.get(op)
        count = self.number(extent, op, loop, least=least)
        if split is None or not split.is_shared or loop != split.loop:
            return f"range({count})"
        ends = (f"{count} * {at} // parts" for at in ("part", "(part + 1)"))
        return f"range({', '.join(ends)})"

    def number(self, value: int, *role: Hashable, least: int = LEAST) -> str:
        if not self._takes_numbers or value < least or role in self._in_code:
            return str(value)
        return self._numbers.name(value, *role)

    def operand(self, op: Operation, index: int) -> str:
        value = op.operands[index]
        bound = number_of(value) if value.type == IndexType() else None
        if bound is None or not any(map(is_of_data, op.operands)):
            return super().operand(op, index)
        return self.number(bound, op, index)

    def step(self, loop: str, value: int) -> str:
        is_loop = not loop or (loop[0] == "i" and loop not in self._in_code)
        may_vary = abs(value) >= LEAST and value not in self._in_code
        if self._takes_numbers and is_loop and may_vary:
            return self._numbers.name(value, loop)
        return str(value)

    @contextmanager
    def taking_numbers(self) -> Generator[None]:
        """The text of a stage in which numbers are arguments."""
        self._takes_numbers = not self._is_fixed
        yield
        self._takes_numbers = False

    def text(self) -> str:
        """The module text."""
        self.scalars.names.add("c_kernel")
        definitions = [
            line for stage in self._stages.values() for line in stage.definitions()
        ]
        self.line("@c_kernel")
        with self.block("def kernel(args, part, parts):"):
            if not self._is_shared:
                with self.block("if part != 0:"):
                    self.line("return 0")
            self._print_buffers()
            start = len(self.lines)
            self.print_stages()
            if self._lines.has_streams:
                self.line("end_streams()")
            self.line("return 0")
            self.lines[start:start] = self._loaded_numbers()
        self.finish()
        for printer in (self._lines, self._columns, self._transpositions):
            definitions += printer.definitions
        lines = [*definitions, "", "", *self.lines, ""]
        head = [f"PARTS = {self.parts}", *self._row()]
        return "\n".join([*self._imports(used_names(lines)), "", *head, *lines])

    def _loaded_numbers(self) -> list[str]:
        """The lines that load the numbers among the arguments."""
        first = len(self.arguments)
        return [
            f"    {name} = {self.scalars.call('number', 'args', str(place))}"
            for place, name in enumerate(self._numbers.names, start=first)
        ]

    def _row(self) -> list[str]:
        """The line that says which words of a row of arguments are numbers."""
        numbers = self._numbers.values
        return [f"ROW = {json.dumps([*self.arguments, *numbers])}"] if numbers else []

    def _imports(self, told: set[str]) -> list[str]:
        """The lines that import what the text uses, of the names that it tells."""
        of_micro_kernels = {name for x in self._stages.values() for name in x.names}
        loops = self._lines.names | self._columns.names | self._transpositions.names
        used = of_micro_kernels | loops
        if used - of_micro_kernels:
            used |= {"address_of"}
        return cpu_imports((used | self.scalars.names) & told)

    def print_stage(self, op: Operation) -> None:
        if (stage := self._stages.get(op)) is not None:
            stage.print(is_split=self._is_shared)
        elif not isinstance(op, StructuredOp):
            super().print_stage(op)

    def _print_buffers(self) -> None:
        types, count = self.kernel.arguments, len(self.arguments)
        for index, (name, type) in enumerate(zip(self.arguments, types, strict=True)):
            element = type_name(type.element_type)
            stored = "u8" if element == "i1" else element
            call = self.scalars.call(f"buffer_{stored}", "args", str(index), str(count))
            self.line(f"{name} = {call}")

    def print_failure(self, code: int) -> None:
        self.line(f"return {code}")

    def print_copy(self, source: str, target: str, elements: int) -> None:
        loop = self.new_loop()
        with self.taking_numbers():
            count = self.number(elements, loop, least=LONG)
        with self.block(f"for {loop} in range({count}):"):
            self.line(f"{target}[{loop}] = {source}[{loop}]")

    def print_parallel(self, op: scf.ParallelOp) -> None:
        if (found := outer_vector_loop_of(op)) is not None:
            with self.taking_numbers():
                self._columns.print_parallel(found)
            return
        lines = lines_in(op)
        self._in_code |= lines or {(op, len(op.upperBound) - 1)}
        self._in_code |= {(op, loop) for loop in fixed_loops(op)}
        with self.taking_numbers():
            self._print_loops(op)

    def _print_loops(self, op: scf.ParallelOp) -> None:
        """
        Print loops, and each statement as far outside as it may stand. Sequential loops
        that are all of a turn run around the last parallel one, whose turns lie next to
        each other in memory.
        """
        inside = loops_inside(op)
        block = inside[-1].body.block if inside else op.body.block
        for around in (op, *inside):
            for inner in around.body.block.ops:
                if isinstance(inner, arith.ConstantOp) and around.body.block != block:
                    self.print_statement(inner)
        bounds = zip(op.lowerBound, op.upperBound, op.step, strict=True)
        parallel = [
            (variable, *ends, number)
            for number, (variable, ends) in enumerate(
                zip(op.body.block.args, bounds, strict=True)
            )
        ]
        sequential = [
            (loop.body.block.args[0], loop.lb, loop.ub, loop.step, None)
            for loop in inside
        ]
        loops = [*parallel[:-1], *sequential, *parallel[-1:]]
        extents = [
            (number_of(lower), number_of(upper)) for _, lower, upper, *_ in loops
        ]
        places = dict(invariants_of(block, [loop[0] for loop in loops], extents))
        with self.restoring_depth():
            for at, (variable, lower, upper, step, number) in enumerate(loops):
                self._open_loop(op, variable, (lower, upper, step), number)
                for inner, place in places.items():
                    if place == at:
                        self.print_statement(inner)
            with self.or_pass():
                for inner in block.ops:
                    if inner not in places and inner is not block.last_op:
                        self.print_statement(inner)

    def _open_loop(
        self,
        op: scf.ParallelOp,
        variable: SSAValue,
        bounds: Sequence[SSAValue],
        number: int | None,
    ) -> None:
        """Open the parallel loop of a number, or a sequential one."""
        lower, upper, step = (self.name(end) for end in bounds)
        ends = range_of(lower, upper, step)
        if number is None:
            loop = self.new_sequential_loop()
        else:
            loop = self.new_loop()
            if (op, number) in self._in_code:
                self._in_code.add(loop)
            if (lower, step) == ("0", "1") and upper.isdigit():
                ends = self.range_over(op, number, int(upper))
        self.set_loop(variable, loop)
        self.open(f"for {loop} in {ends}:")

    def _keep_in_code(self, computation: Computation) -> None:
        """Note the loops that the schedule of a stage has in the code."""
        op, nest = computation.op, computation.nest
        if not (fixed := fixed_loops(op)) or not nest.extents:
            return
        whole = nest_of(op)
        assert not isinstance(whole, str), "it has a nest"
        if (text := unfixable(op)) is not None:
            self.complain(op, text)
            return
        loops = nest_loops(whole, nest)
        for loop in {loops[loop] for loop in fixed}:
            self._in_code |= {(op, loop), nest.extents[loop]}

    def print_for(self, op: scf.ForOp) -> None:
        if not self._lines.print_for(op):
            super().print_for(op)

    def new_sequential_loop(self) -> str:
        name = self.new_loop()
        self._in_code.add(name)
        return name

    def print_computation(self, computation: Computation) -> None:
        nest = computation.nest
        self._keep_in_code(computation)
        order = loop_order(nest)
        line = vector_loop_of(computation, order)
        if line is not None:
            with self.taking_numbers():
                self._lines.print_computation(computation, order, line)
            return
        if (found := transposition_of(computation, order)) is not None:
            with self.taking_numbers():
                self._transpositions.print_transposition(computation, order, found)
            return
        loops = [self.new_loop() for _ in nest.extents]
        for loop in {*order.loops[-1:], *reductions_of(nest)}:
            extent = nest.extents[loop]
            self._in_code |= {loops[loop], (computation.op, loop), extent}
        inner = sum(nest.reductions) if order.in_register else 0
        split = len(order.loops) - inner
        with self.taking_numbers(), self.restoring_depth():
            self.open_loops(computation, loops, (), order.loops[:split])
            self.print_output(computation, loops, order.loops, split)


def is_of_data(value: SSAValue) -> bool:
    """
    Whether sums and comparisons made a value of one that is loaded, as an index of a
    table is: the compiler knows no bounds of it.
    """
    match value.owner:
        case memref.LoadOp():
            return True
        case arith.IndexCastOp() | arith.AddiOp() | arith.CmpiOp() | arith.SelectOp():
            return any(map(is_of_data, value.owner.operands))
        case _:
            return False


def loops_inside(op: scf.ParallelOp) -> list[scf.ForOp]:
    """
    The loops that are all of what a turn does, one in the other, if these carry nothing
    and none is one of vectors.
    """
    found: list[scf.ForOp] = []
    block = op.body.block
    while True:
        ops = [x for x in block.ops if not isinstance(x, arith.ConstantOp)]
        if len(ops) != 2 or not isinstance(loop := ops[0], scf.ForOp):
            break
        if loop.iter_args or any(number_of(x) is None for x in (loop.lb, loop.ub)):
            return []
        found.append(loop)
        block = loop.body.block
    is_nested = any(isinstance(x, scf.ForOp) for x in block.walk())
    if not found or is_nested or vector_loop_of_for(found[-1]) is not None:
        return []
    return found


def invariants_of(
    block: Block,
    loops: Sequence[SSAValue],
    extents: Sequence[tuple[int | None, int | None]],
) -> Iterator[tuple[Operation, int]]:
    """
    The ops of a block that do the same in all turns of some inner loops, each with the
    number of the innermost loop that it depends on, in their order. Loads are of what
    no turn writes, and a check that fails does so before others.
    """
    if any(low is None or high is None or low >= high for low, high in extents):
        return
    stored = {
        root_of(inner.memref)
        for inner in block.walk()
        if isinstance(inner, memref.StoreOp)
    }
    innermost = len(loops) - 1
    place = {variable: number for number, variable in enumerate(loops)}
    for inner in block.ops:
        found = max((place.get(value, 0) for value in inner.operands), default=0)
        if isinstance(inner, memref.LoadOp):
            may_move = root_of(inner.memref) not in stored
        else:
            may_move = isinstance(inner, cf.AssertOp) or is_side_effect_free(inner)
        if not may_move or inner.regions:
            found = innermost
        place.update(dict.fromkeys(inner.results, found))
        if found < innermost and inner is not block.last_op:
            yield inner, found


def lines_in(op: scf.ParallelOp) -> set[int]:
    """The extents of the vectorized loops in a loop."""
    loops = (inner for inner in op.body.walk() if isinstance(inner, scf.ForOp))
    return {line.extent for loop in loops if (line := vector_loop_of_for(loop))}


def reductions_of(nest: Nest) -> list[int]:
    """The loops whose terms are added up."""
    return [loop for loop, reduces in enumerate(nest.reductions) if reduces]
