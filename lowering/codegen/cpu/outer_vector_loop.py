"""
The source of vectorized outer loops: parallel iterations around sequential loops.

The innermost parallel loop of a stage is made of *columns*
(`penstock.runtime.kernels.cpu.outer_vector_loop`) if there are loops in it, if these
compute only floats of one type, comparisons of them, and places of elements, and if
loads and stores are contiguous from one iteration to the next, or load one element for
all of them. Columns of `f32` may load and store `f16` and `bf16`. Each one runs in
order, so a kernel may store where it has loaded. Threads share blocks of columns.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.arith import CMPI_COMPARISON_OPERATIONS
from xdsl.dialects.builtin import IndexType, MemRefType, i1, i64
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from penstock.dialects.kernel.loops import row_major
from penstock.dialects.utils.hints import isa
from penstock.lowering.codegen.body.contraction import ELEMENTS
from penstock.lowering.codegen.body.numbers import LEAST, is_digits
from penstock.lowering.codegen.body.statements import BodyPrinter
from penstock.lowering.codegen.body.vector_loop import (
    BYTES,
    HALVES,
    IndexOp,
    computed_in,
    is_half_cast,
    is_vector_op,
    number_of,
)
from penstock.lowering.codegen.cpu.vector_loop import InnerLoopScalars

COLUMN_BLOCK = 256
"""The columns that one call is for; their elements in all rows should be in a cache."""


AT_ONCE = ((2, 8), (8, 4))
"""
The vectors of columns that do what is no more than so many ops, at once: what lies far
apart in memory is best fetched in long pieces. Other columns do so two by two, as their
values would not stay in registers.
"""

PLACES = frozenset(("slt", "sle", "sgt", "sge"))
"""The relations of places."""


class Place(NamedTuple):
    """
    The offset of an element from the first one: a number, and a stride for each
    iteration.
    """

    offset: int
    steps: Mapping[SSAValue, int]


class Base(NamedTuple):
    """A buffer, and how far apart the parallel loops are in it."""

    buffer: SSAValue
    strides: tuple[int, ...]


@dataclass
class OuterVectorLoop:
    """A stage of columns."""

    op: scf.ParallelOp
    element: str
    extents: Sequence[int]
    """Of the parallel loops, the last of which are the columns."""
    places: dict[Operation, tuple[Base, Place]] = field(
        default_factory=dict[Operation, tuple[Base, Place]]
    )
    """The base and place of each load and store."""

    @property
    def bases(self) -> list[Base]:
        """The bases of loads and stores of columns, each once."""
        return [base for base in self._bases if base.strides[-1]]

    @property
    def shared(self) -> list[Base]:
        """The bases of loads that are the same for all columns, each once."""
        return [base for base in self._bases if not base.strides[-1]]

    @property
    def _bases(self) -> Iterable[Base]:
        return dict.fromkeys(base for base, _ in self.places.values())

    @property
    def at_once(self) -> int | None:
        """The vectors that are computed at once, if that is not by default."""
        ops = sum(
            not isinstance(op, IDLE) and not _is_index(op)
            for op in self.op.body.block.walk()
        )
        return next((count for most, count in AT_ONCE if ops <= most), None)

    @property
    def memory(self) -> list[str]:
        """The element type of each base."""
        return [stored_in(base.buffer) for base in self.bases]

    @property
    def loop_extents(self) -> list[int]:
        """The turns of each parallel loop, if that over columns goes by blocks."""
        *outer, last = self.extents
        return [*outer, -(-last // COLUMN_BLOCK)]


IDLE = (memref.LoadOp, memref.StoreOp, arith.ConstantOp, scf.ForOp, scf.YieldOp)
"""The ops of columns that compute nothing."""


def stored_in(buffer: SSAValue) -> str:
    """The type of elements of a buffer that columns use."""
    assert isa(buffer.type, MemRefType), "checked by the verifier"
    type = buffer.type.element_type
    return HALVES.get(type) or ELEMENTS.get(type, "i64")


def size_in(base: Base) -> int:
    """The bytes of an element of a buffer that columns use."""
    return {**BYTES, "i64": 8}[stored_in(base.buffer)]


################################################################################
# Recognition of vectorized outer loops                                        #
################################################################################


def outer_vector_loop_of(op: scf.ParallelOp) -> OuterVectorLoop | None:
    """A stage as columns, or None if it is none."""
    bounds = zip(op.lowerBound, op.upperBound, op.step, strict=True)
    numbers = [tuple(map(number_of, ends)) for ends in bounds]
    extents = [end for first, end, step in numbers if (first, step) == (0, 1) and end]
    block = op.body.block
    is_counted = bool(numbers) and len(extents) == len(numbers)
    if op.initVals or not is_counted or extents[-1] < 2:
        return None
    inside = list(block.walk())
    elements = {
        computed_in(value.type)
        for inner in inside
        for value in (*inner.operands, *inner.results)
        if not isinstance(value.type, IndexType | MemRefType)
        and value.type not in (i1, i64)
    }
    element = elements.pop() if len(elements) == 1 else None
    if element is None or not any(isinstance(inner, scf.ForOp) for inner in inside):
        return None
    found = OuterVectorLoop(op, element, extents)
    return found if _takes(found, block) else None


def _takes(found: OuterVectorLoop, block: Block) -> bool:
    """Whether columns can do what a block says; notes where it loads and stores."""
    for op in block.ops:
        match op:
            case memref.LoadOp() | memref.StoreOp():
                if not _notes(found, op):
                    return False
            case scf.ForOp():
                if not _is_loop(op, found.element) or not _takes(found, op.body.block):
                    return False
            case scf.YieldOp() | scf.ReduceOp():
                pass
            case _:
                if not (
                    _is_index(op)
                    or _is_of_places(op)
                    or is_half_cast(op)
                    or is_vector_op(op, found.element)
                ):
                    return False
    return True


def _is_of_places(op: Operation) -> bool:
    """Whether an op makes a place of an iteration, or compares or selects places."""
    match op:
        case arith.ConstantOp():
            return op.result.type == i64
        case arith.IndexCastOp(input=BlockArgument(owner=Block() as block)):
            return op.result.type == i64 and isinstance(block.parent_op(), scf.ForOp)
        case arith.CmpiOp():
            name = CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
            return op.lhs.type == i64 and name in PLACES
        case arith.SelectOp():
            return op.result.type == i64
        case _:
            return False


def _is_loop(op: scf.ForOp, element: str) -> bool:
    """Whether a loop takes known turns by ones, and carries elements."""
    bounds = [number_of(value) for value in (op.lb, op.ub, op.step)]
    types = {ELEMENTS.get(x.type) for x in op.iter_args if x.type != i64}
    return None not in bounds and bounds[2] == 1 and types <= {element}


def _is_index(op: Operation) -> bool:
    return isinstance(op, IndexOp) and isinstance(op.result.type, IndexType)


def _notes(found: OuterVectorLoop, op: memref.LoadOp | memref.StoreOp) -> bool:
    """
    Note where an op loads or stores; whether columns do so next to each other, or load
    the same.
    """
    type = op.memref.type
    assert isa(type, MemRefType), "checked by the verifier"
    is_place = type.element_type == i64 and isinstance(op, memref.StoreOp)
    if computed_in(type.element_type) != found.element and not is_place:
        return False
    offset, steps = 0, dict[SSAValue, int]()
    for index, stride in zip(op.indices, row_major(type.get_shape()), strict=True):
        if (place := place_of(index)) is None:
            return False
        offset += place.offset * stride
        for loop, step in place.steps.items():
            steps[loop] = steps.get(loop, 0) + step * stride
    strides = tuple(steps.pop(loop, 0) for loop in found.op.body.block.args)
    found.places[op] = Base(op.memref, strides), Place(offset, steps)
    return strides[-1] == 1 or (strides[-1] == 0 and isinstance(op, memref.LoadOp))


def place_of(index: SSAValue) -> Place | None:
    """An index as a sum of multiples of loops; None if it is none."""
    if isinstance(index.owner, Block):
        return Place(0, {index: 1})
    if (number := number_of(index)) is not None:
        return Place(number, {})
    op = index.owner
    if not isinstance(op, arith.AddiOp | arith.SubiOp | arith.MuliOp):
        return None
    a, b = place_of(op.lhs), place_of(op.rhs)
    if a is None or b is None:
        return None
    match op:
        case arith.AddiOp():
            return _sum(a, b, 1)
        case arith.SubiOp():
            return _sum(a, b, -1)
        case _ if a.steps and b.steps:
            return None
        case _:
            factor, other = (b.offset, a) if a.steps else (a.offset, b)
            return _sum(Place(0, {}), other, factor)


def _sum(a: Place, b: Place, factor: int) -> Place:
    """The sum of a place and a multiple of another one."""
    steps = dict(a.steps)
    for loop, step in b.steps.items():
        steps[loop] = steps.get(loop, 0) + step * factor
    return Place(a.offset + b.offset * factor, steps)


################################################################################
# Printing                                                                     #
################################################################################


class OuterLoopPrinter:
    """Prints columns: calls in the kernel, and the definitions of what they call."""

    def __init__(self, printer: BodyPrinter):
        self.printer = printer
        self.definitions: list[str] = []
        self.count = 0

    @property
    def names(self) -> frozenset[str]:
        """
        The functions of `penstock.runtime.kernels.cpu.outer_vector_loop` that are used.
        """
        return frozenset(("columns",) if self.count else ())

    def print_parallel(self, found: OuterVectorLoop) -> None:
        """Print a stage of columns, block by block."""
        out = self.printer
        loops = [out.new_loop() for _ in found.extents]
        whole, rest = divmod(found.extents[-1], COLUMN_BLOCK)
        body = self._body(found)
        calls = [
            self._call(found, extent, body, loops)
            for extent in (COLUMN_BLOCK if whole else 0, rest)
            if extent
        ]
        with out.restoring_depth():
            for number, (loop, extent) in enumerate(
                zip(loops, found.loop_extents, strict=True)
            ):
                out.open(f"for {loop} in {out.range_over(found.op, number, extent)}:")
            if len(calls) == 1:
                out.line(calls[0])
                return
            end = out.number(whole, "whole", found.op)
            with out.block(f"if {loops[-1]} < {end}:"):
                out.line(calls[0])
            with out.block("else:"):
                out.line(calls[1])

    def _call(
        self, found: OuterVectorLoop, extent: int, body: _Body, loops: Sequence[str]
    ) -> str:
        """The call for so many columns, where the parallel loops are."""
        name = f"columns_{self.count}"
        self.count += 1
        facts = [f'"{found.element}"', str(extent), body.name]
        if numbers := len(found.shared) + len(body.numbers):
            facts.append(f"numbers={numbers}")
        if found.at_once is not None:
            facts.append(f"at_once={found.at_once}")
        if any(type != found.element for type in found.memory):
            facts.append(f"memory={found.memory}")
        self.definitions.append(f"{name} = columns({', '.join(facts)})")
        given = [
            f"{self._start(base, loops)} + {loops[-1]} * {COLUMN_BLOCK * size_in(base)}"
            for base in found.bases
        ]
        given += [self._start(base, loops) for base in found.shared]
        return f"{name}(({', '.join((*given, *body.numbers))},))"

    def _start(self, base: Base, loops: Sequence[str]) -> str:
        """The address of the first column, where the loops around columns are."""
        buffer, (*outer, _) = base
        start = f"address_of({self.printer.name(buffer)})"
        if not any(outer):
            return start
        size = size_in(base)
        steps = [(loop, n * size) for loop, n in zip(loops, outer, strict=False)]
        return f"{start} + {self.printer.place_of(steps)}"

    def _body(self, found: OuterVectorLoop) -> _Body:
        """Define what a column does."""
        name = f"column_{self.count}"
        printer = _BodyPrinter(found, self.printer)
        # All of them first: they add to the names that are used.
        lines = list(printer.lines(found.op.body.block))
        given = ", ".join(("x", *printer.addresses.values(), *printer.numbers))
        self.printer.scalars.names |= printer.scalars.names
        self.definitions += ["", "", f"def {name}({given}):"]
        self.definitions += [f"    {line}" for line in lines]
        self.definitions += ["", ""]
        return _Body(name, printer.numbers)


class _Body(NamedTuple):
    """A function that says what a column does, and the numbers that it is given."""

    name: str
    numbers: Sequence[str]


class _BodyPrinter:
    """Prints what a column does."""

    def __init__(self, found: OuterVectorLoop, kernel: BodyPrinter):
        self.found, self.kernel = found, kernel
        self.numbers: list[str] = []
        self.scalars = InnerLoopScalars()
        bases = (*found.bases, *found.shared)
        self.addresses = {base: f"p{n}" for n, base in enumerate(bases)}
        self.names: dict[SSAValue, str] = {}
        self.values, self.loops = count(), count()

    def lines(self, block: Block) -> Iterator[str]:
        """The statements of a block, but for what it yields."""
        for op in block.ops:
            match op:
                case arith.ConstantOp() if not _is_index(op):
                    self.names[op.result] = self.scalars.constant(op.value) or ""
                case memref.LoadOp():
                    base, _ = self.found.places[op]
                    load = "load" if base.strides[-1] else "load_one"
                    yield f"{self._named(op.res)} = x.{load}({self._place(op)})"
                case memref.StoreOp():
                    yield f"x.store({self.name(op.value)}, {self._place(op)})"
                case arith.ExtFOp():
                    # Loads extend, and rounded values stay as wide.
                    self.names[op.result] = self.name(op.input)
                case scf.ForOp():
                    yield from self._loop(op)
                case _ if op.regions or len(op.results) != 1 or _is_index(op):
                    pass
                case _:
                    operands = [self.name(value) for value in op.operands]
                    text = self.scalars.expression(op, operands)
                    yield f"{self._named(op.results[0])} = {text}"

    def name(self, value: SSAValue) -> str:
        """
        The name of a value in the text; constants from outside stand where they are
        used.
        """
        if value not in self.names:
            owner = value.owner
            assert isinstance(owner, arith.ConstantOp), "all else is in the stage"
            self.names[value] = self.scalars.constant(owner.value) or ""
        return self.names[value]

    def _named(self, value: SSAValue) -> str:
        self.names[value] = f"v{next(self.values)}"
        return self.names[value]

    def _place(self, op: Operation) -> str:
        base, place = self.found.places[op]
        steps = [
            f"({self.names[loop]}, {self._number(step, self.names[loop])})"
            for loop, step in place.steps.items()
            if step
        ]
        offset = self._number(place.offset, "")
        if not is_digits(offset):
            offset, steps = "0", [f"({offset}, 1)", *steps]
        memory = stored_in(base.buffer)
        is_other = memory != self.found.element
        steps += [f'memory="{memory}"'] if is_other else []
        return ", ".join([self.addresses[base], offset, *steps])

    def _number(self, value: int, *role: Hashable) -> str:
        """The text of a number, which is noted if it is given."""
        text = str(value)
        # A block that is less than a vector is slow unless LLVM unrolls its loops.
        if value >= LEAST and self.found.extents[-1] % COLUMN_BLOCK == 0:
            text = self.kernel.number(value, self.found.op, *role)
        if not is_digits(text) and text not in self.numbers:
            self.numbers.append(text)
        return text

    def _loop(self, op: scf.ForOp) -> Iterator[str]:
        number = next(self.loops)
        variable, *carried = op.body.block.args
        starts = ", ".join(self.name(value) for value in op.iter_args)
        self.names[variable] = f"i{number}"
        given = ", ".join([f"i{number}", *(self._named(value) for value in carried)])
        yield f"def turn_{number}({given}):"
        yield from (f"    {line}" for line in self.lines(op.body.block))
        yields = op.body.block.last_op
        assert yields is not None, "a loop ends in scf.yield"
        yielded = ", ".join(self.name(value) for value in yields.operands)
        yield f"    return [{yielded}]"
        first, end = number_of(op.lb), number_of(op.ub)
        assert end is not None, "the loops of columns have known ends"
        last = self._number(end, "end", number)
        call = f"x.loop({first}, {last}, [{starts}], turn_{number})"
        results = ", ".join(self._named(value) for value in op.results)
        yield f"{results}, = {call}" if results else call
