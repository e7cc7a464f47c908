"""
The prologue and epilogue of sums: their start and their finish, computed while the
accumulators are in registers.

All ops of a finish must be vector ops; the inputs of both must have one stride from row
to row, and be contiguous or constant from column to column. Integer accumulators start
from zeros or from a loaded result.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    FloatAttr,
    IntegerAttr,
    MemRefType,
    f32,
    i1,
    i8,
    i16,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from penstock.dialects.kernel.body_ops import YieldOp
from penstock.dialects.kernel.interface import element_of
from penstock.dialects.kernel.loops import Nest
from penstock.dialects.kernel.sums import SumOp
from penstock.dialects.kernel.views import VIEWS, root_of
from penstock.lowering.codegen.body.contraction import (
    DEVICE_ELEMENTS,
    ELEMENTS,
    INTEGERS,
    Contraction,
    stride_along,
)
from penstock.lowering.codegen.body.scalars import EXPRESSIONS, Scalars, type_name

NO_STAGES = (arith.ConstantOp, *VIEWS)
"""The ops between stages."""

VECTOR_OPS = frozenset(
    (
        *("arith.addf", "arith.cmpf", "arith.divf", "arith.maximumf", "arith.maxnumf"),
        *("arith.minimumf", "arith.minnumf", "arith.mulf", "arith.negf"),
        *("arith.select", "arith.subf", "llvm.frem"),
    )
)
"""
The scalar ops, but of `math`, that `penstock.runtime.kernels.cpu.simd.Lanes` has for
vectors.
"""

CASTS = ("arith.extf", "arith.truncf")
"""The casts between `f16` or `bf16` and `f32`, which they are computed in."""

INTEGER_CASTS = {
    "arith.extsi": "sext",
    "arith.extui": "zext",
    "arith.fptosi": "fptosi",
    "arith.fptoui": "fptoui",
    "arith.sitofp": "sitofp",
    "arith.trunci": "trunc",
    "arith.uitofp": "uitofp",
}
"""The casts from or to integers, with their names in LLVM."""

INTEGER_OPS = frozenset(
    f"arith.{name}" for name in ("addi", "maxsi", "minsi", "muli", "subi")
)
"""The ops on vectors of integers, besides those on `f32`."""

SMALL_INTEGERS: Mapping[Attribute, str] = {i8: "i8", i16: "i16", i32: "i32"}
"""The integers that vectors of `f32` are cast from and to."""

ORDERED = range(2, 6)
"""The predicates of `arith.cmpf` that vectors are compared by: `ogt` to `ole`."""


@dataclass(frozen=True)
class Input:
    """An input of sums: an argument, and its strides along the loops."""

    buffer: SSAValue
    row: int
    column: int
    outer: tuple[int, ...]
    offset: int


@dataclass
class Epilogue:
    """The prologue and epilogue of a contraction's accumulators."""

    inputs: list[Input] = field(default_factory=list[Input])
    start: int | arith.ConstantOp | None = None
    """The number of an input, or a number, that sums start from."""
    region: Finish | None = None
    results: list[Input] = field(default_factory=list[Input])
    """The results besides that which holds the sums."""

    @property
    def places(self) -> list[Input]:
        """The inputs, then the further results."""
        return [*self.inputs, *self.results]


@dataclass(frozen=True)
class Finish:
    """The finish of sums: scalar ops, and the inputs that they take after the sum."""

    block: Block
    inputs: Sequence[int]
    order: Sequence[int]
    """The numbers of the elements that it yields, as they are stored."""


def stages_of(block: Block) -> list[Operation]:
    """The stages of a kernel in order."""
    return [op for op in block.ops if not isinstance(op, NO_STAGES)]


def epilogue_in(op: SumOp, contraction: Contraction) -> tuple[Epilogue, Unfit]:
    """
    The prologue and epilogue of sums that their op has, by their loops as those of a
    contraction, and which of both cannot be computed in registers, with the reasons.
    """
    found, element = Epilogue(), contraction.element
    start = finish = None
    if op.start is not None and not op.is_started_by_itself:
        start = _set_start(op, contraction, found)
    if op.finish is not None:
        block = op.finish.block
        known = [
            _operand_input(contraction, op, number)
            for number in range(len(op.operands) - len(op.extra), len(op.operands))
        ]
        others = [number for number in op.outs_at() if number != op.held_at]
        results = [_operand_input(contraction, op, number) for number in others]
        if not _has_vectors(block, element):
            finish = f"its ops have no vectors of {element}"
        elif None in known:
            finish = "an operand is not read in the order of the result"
        elif not all(_is_alike(contraction, result) for result in results) or (
            len({element_of(out) for out in op.outs}) > 1
        ):
            finish = "its results do not lie alike"
        else:
            arguments = [number_of(found, x) for x in known if x is not None]
            found.results += [x for x in results if x is not None]
            order = [number - op.FACTORS for number in (op.held_at, *others)]
            found.region = Finish(block, arguments, order)
    return found, Unfit(start, finish)


def _is_alike(contraction: Contraction, result: Input | None) -> bool:
    """Whether columns of a result follow each other."""
    return result is not None and (contraction.extents[1] == 1 or result.column == 1)


class Unfit(NamedTuple):
    """Why the start and the finish of a contraction are not computed with it, if so."""

    start: str | None = None
    finish: str | None = None


def _set_start(op: SumOp, contraction: Contraction, found: Epilogue) -> str | None:
    """Set what sums start from; why they cannot, if so."""
    value = op.start
    assert value is not None, "asked for a start"
    type = element_of(value)
    names = {**DEVICE_ELEMENTS, **INTEGERS}
    if names.get(type) != contraction.element:
        return f"it is of {type}"
    if not isinstance(value.type, MemRefType):
        if not isinstance(value.owner, arith.ConstantOp):
            return "it is a number that is no constant"
        if not isinstance(value.owner.value, FloatAttr) and not is_zero(value.owner):
            return "it is an integer"
        found.start = value.owner
        return None
    input = _operand_input(contraction, op, op.outs_at().stop)
    if input is None:
        return "it is not read in the order of the result"
    found.start = number_of(found, input)
    return None


def number_of(finish: Epilogue, input: Input) -> int:
    """The number of an input, which is added if it is new."""
    if input not in finish.inputs:
        finish.inputs.append(input)
    return finish.inputs.index(input)


def _operand_input(contraction: Contraction, op: SumOp, number: int) -> Input | None:
    """The input that an operand of a contraction is, if it is one."""
    value = op.operands[number]
    if not isinstance(value.type, MemRefType):
        return None
    return input_of(contraction, op.nest([number, op.held_at]), 0, root_of(value))


def input_of(
    contraction: Contraction, nest: Nest, number: int, root: SSAValue
) -> Input | None:
    """
    The input that a memref is, which an access of a nest reads along the last one, to
    the result; None if it is not read in the order of the result.
    """
    access, written = nest.accesses[number], nest.accesses[-1]
    if access.bounds:
        return None
    pairs = zip(nest.extents, written.strides, access.strides, strict=True)
    loops = tuple(
        pair
        for pair, is_term in zip(pairs, nest.reductions, strict=True)
        if not is_term
    )

    def along(loop: int | None) -> int | None:
        if loop is None:
            return 0
        extent = contraction.nest.extents[loop]
        return stride_along(loops, extent, contraction.stride(-1, loop))

    row, column = along(contraction.row), stride_along(loops, contraction.extents[1], 1)
    outer = [along(loop) for loop in contraction.outer]
    if row is None or column not in (0, 1) or None in outer:
        return None
    known = tuple(stride for stride in outer if stride is not None)
    return Input(root, row, column, known, access.offset)


def _has_vectors(block: Block, element: str) -> bool:
    """
    Whether a body can be computed for vectors of one type; `f16` and `bf16`, which only
    GPUs have in tiles, are computed as `f32`. Integers are only moved.
    """
    if element in INTEGERS.values():
        (*others, last) = block.ops
        is_moved = not others and all(x in block.args for x in last.operands)
        return is_moved and all(INTEGERS.get(a.type) == element for a in block.args)
    # Sums of 16 bits are given in 32.
    given = {element, "f32"} if element not in ELEMENTS.values() else {element}
    return all(DEVICE_ELEMENTS.get(arg.type) in given for arg in block.args) and all(
        _is_of_vectors(op, element)
        and all(v.owner is block or _is_known(v.owner, block) for v in op.operands)
        for op in block.ops
    )


def _is_known(owner: Operation | Block, block: Block) -> bool:
    """Whether something makes values inside of a block, or is a number."""
    if isinstance(owner, Block):
        return False
    return owner.parent is block or _is_number(owner)


def _is_number(op: Operation) -> bool:
    return isinstance(op, arith.ConstantOp) and isinstance(op.value, FloatAttr)


def is_of_integers(op: Operation) -> bool:
    """Whether an op on vectors computes integers, or casts them from or to `f32`."""
    for value in (*op.operands, *op.results):
        if value.type != f32 and value.type not in SMALL_INTEGERS:
            return False
    if isinstance(op, arith.ConstantOp):
        return op.result.type in SMALL_INTEGERS
    return op.name in INTEGER_CASTS or op.name in INTEGER_OPS


def _is_of_vectors(op: Operation, element: str) -> bool:
    computed = {element} if element in ELEMENTS.values() else {element, "f32"}
    for value in (*op.operands, *op.results):
        if value.type != i1 and DEVICE_ELEMENTS.get(value.type) not in computed:
            return False
    if op.name in CASTS:
        return len(computed) > 1
    if isinstance(op, arith.CmpfOp) and op.predicate.value.data not in ORDERED:
        return False
    if op.name.startswith("math."):
        return op.name in EXPRESSIONS
    is_yield = isinstance(op, YieldOp)
    return is_yield or _is_number(op) or op.name in VECTOR_OPS


class VectorScalars(Scalars):
    """Prints scalar ops as ops of vectors: functions are methods of `x`."""

    def expression(self, op: Operation, operands: Sequence[str]) -> str | None:
        if (name := INTEGER_CASTS.get(op.name)) is not None:
            to = type_name(op.results[0].type)
            return self.call("cast", f'"{name}"', *operands, f'"{to}"')
        return super().expression(op, operands)

    def call(self, function: str, *arguments: str) -> str:
        return f"x.{function}({', '.join(arguments)})"


def epilogue_lines(finish: Epilogue, scalars: VectorScalars) -> Iterator[str]:
    """
    The body of the function that makes of the sums `s` and of the inputs `p0`, `p1`...
    what is stored.
    """
    numbers = count()
    values: Sequence[str] = ("s",)
    if not _starts_at_zero(start := finish.start):
        is_number = isinstance(start, arith.ConstantOp)
        first = scalars.constant(start.value) if is_number else f"p{start}"
        values = (f"v{next(numbers)}",)
        yield f"{values[0]} = {first} + s"
    if finish.region is not None:
        values = yield from _finish_lines(finish.region, values[0], scalars, numbers)
    yield f"return {', '.join(values)}"


def is_trivial(finish: Epilogue) -> bool:
    """Whether the sums are stored as they are."""
    return finish.region is None and _starts_at_zero(finish.start)


def _starts_at_zero(start: int | arith.ConstantOp | None) -> bool:
    """Whether sums start from zero, or from what the result holds."""
    return start is None or (isinstance(start, arith.ConstantOp) and is_zero(start))


def is_zero(constant: arith.ConstantOp) -> bool:
    """Whether a number is 0."""
    value = constant.value
    return isinstance(value, FloatAttr | IntegerAttr) and value.value.data == 0


def _finish_lines(
    finish: Finish, total: str, scalars: VectorScalars, numbers: Iterator[int]
) -> Generator[str, None, Sequence[str]]:
    """Lines that compute a finish; the generator's value are the names it stores."""
    given = (total, *(f"p{number}" for number in finish.inputs))
    names: dict[SSAValue, str] = dict(zip(finish.block.args, given, strict=True))
    for op in finish.block.ops:
        for value in op.operands:
            if isinstance(owner := value.owner, arith.ConstantOp):
                names[value] = scalars.constant(owner.value) or ""
        operands = [names[value] for value in op.operands]
        if isinstance(op, YieldOp):
            return [operands[number] for number in finish.order]
        if isinstance(op, arith.ConstantOp):
            continue
        text = scalars.expression(op, operands)
        assert text is not None, "has been asked for vectors"
        names[op.results[0]] = name = f"v{next(numbers)}"
        yield f"{name} = {text}"
    raise AssertionError("a finish ends in kernel.yield")
