"""
Prologue and epilogue fusion: stages computed with a contraction while its accumulators
are in registers.

The stage before a contraction can be fused if it initialises the accumulators: if it
writes every element of the result without reading it. Stages after it can be if they
change each element of the result in place. All of their ops must be vector ops; their
inputs must have one stride from row to row, and be contiguous or constant from column
to column. Integer accumulators start from zeros or from a loaded result.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import prod
from typing import NamedTuple

from xdsl.dialects import arith, linalg
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
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.hints import isa

from penstock.dialects.kernel.body_ops import YieldOp
from penstock.dialects.kernel.interface import StructuredOp, element_of
from penstock.dialects.kernel.loops import Nest, row_major
from penstock.dialects.kernel.sums import SumOp
from penstock.dialects.kernel.views import VIEWS, root_of
from penstock.lowering.codegen.body.contraction import (
    DEVICE_ELEMENTS,
    ELEMENTS,
    INTEGERS,
    Contraction,
    nest_of,
    stride_along,
)
from penstock.lowering.codegen.body.scalars import EXPRESSIONS, Scalars, type_name

NO_STAGES = (arith.ConstantOp, *VIEWS)
"""The ops between stages."""

VECTOR_OPS = frozenset(
    (
        *("arith.addf", "arith.cmpf", "arith.divf", "arith.maximumf", "arith.maxnumf"),
        *("arith.minimumf", "arith.minnumf", "arith.mulf", "arith.negf"),
        *("arith.select", "arith.subf"),
    )
)
"""
The scalar ops of `arith` that `penstock.runtime.kernels.cpu.simd.Lanes` has for
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
    """An input of a fused stage: an argument, and its strides along the loops."""

    buffer: SSAValue
    row: int
    column: int
    outer: tuple[int, ...]
    offset: int


@dataclass
class Epilogue:
    """The prologue and epilogue of a contraction's accumulators."""

    inputs: list[Input] = field(default_factory=list[Input])
    start: FusedStage | int | arith.ConstantOp | None = None
    """A folded stage, or the number of an input, or a number that sums start from."""
    after: list[FusedStage] = field(default_factory=list["FusedStage"])
    results: list[Input] = field(default_factory=list[Input])
    """The results besides that which holds the sums."""

    @property
    def places(self) -> list[Input]:
        """The inputs, then the further results."""
        return [*self.inputs, *self.results]

    def stages(self) -> list[Operation]:
        """The stages that are folded."""
        folded = (self.start, *self.after)
        return [x.op for x in folded if isinstance(x, FusedStage) and x.op is not None]


@dataclass(frozen=True)
class FusedStage:
    """Folded scalar ops: the stage they are of, and what each block argument is."""

    op: LinalgStructuredOperation | None
    """None for the finish of a contraction."""
    block: Block
    arguments: Sequence[int | arith.ConstantOp | None]
    """The number of an input, a constant, or None for the element so far."""
    order: Sequence[int] = (0,)
    """The numbers of the elements that it yields, as they are stored."""


def stages_of(block: Block) -> list[Operation]:
    """The stages of a kernel in order."""
    return [op for op in block.ops if not isinstance(op, NO_STAGES)]


def epilogue_of(
    contraction: Contraction,
    stages: Sequence[Operation],
    position: int,
    folds: tuple[int, int],
) -> Epilogue | None:
    """
    The prologue and epilogue that stages around a contraction make; None if one cannot
    be fused.
    """
    before, after = folds
    if before > min(1, position) or position + after >= len(stages):
        return None
    finish = Epilogue()
    result = _result_of(stages[position])
    for stage in stages[position - before : position]:
        finish.start = _folded(contraction, finish, stage, result, starts=True)
        if finish.start is None:
            return None
    for stage in stages[position + 1 : position + 1 + after]:
        folded = _folded(contraction, finish, stage, result, starts=False)
        if folded is None:
            return None
        finish.after.append(folded)
    return finish


def most_fused(
    contraction: Contraction, stages: Sequence[Operation], position: int
) -> tuple[int, int]:
    """As many stages around a contraction as can be computed with it."""

    def works(before: int, after: int) -> bool:
        found = epilogue_of(contraction, stages, position, (before, after))
        return found is not None

    before = int(works(1, 0))
    after = 0
    while works(0, after + 1):
        after += 1
    return before, after


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
            stage = FusedStage(None, block, (None, *arguments), order)
            found.after.append(stage)
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


def _result_of(stage: Operation) -> SSAValue:
    if isinstance(stage, StructuredOp):
        return root_of(stage.written()[0])
    assert isinstance(stage, LinalgStructuredOperation), "a contraction is one"
    return root_of(stage.outputs[0])


def _folded(
    contraction: Contraction,
    finish: Epilogue,
    stage: Operation,
    result: SSAValue,
    starts: bool,
) -> FusedStage | None:
    """A stage in terms of the loops of a contraction, or None if that fails."""
    if (
        not isinstance(stage, LinalgStructuredOperation)
        or len(stage.outputs) != 1
        or stage.res
        or root_of(stage.outputs[0]) is not result
        or not _has_vectors(stage.body.block, contraction.element)
    ):
        return None
    nest = nest_of(stage)
    if isinstance(nest, str) or not writes_once(nest, result):
        return None
    if starts and stage.body.block.args[-1].uses:
        return None
    found: list[int | arith.ConstantOp | None] = []
    for number, operand in enumerate(stage.inputs):
        argument = _argument(contraction, finish, nest, number, operand, result)
        if argument is False or (argument is None and starts):
            return None
        found.append(argument)
    return FusedStage(stage, stage.body.block, (*found, None))


def _argument(
    contraction: Contraction,
    finish: Epilogue,
    nest: Nest,
    number: int,
    operand: SSAValue,
    result: SSAValue,
) -> int | arith.ConstantOp | bool | None:
    """
    The meaning of a block argument, see `FusedStage`; False where it cannot be told.
    """
    if not isa(operand.type, MemRefType):
        owner = operand.owner
        if not isinstance(owner, arith.ConstantOp):
            return False
        return owner if isinstance(owner.value, FloatAttr) or is_zero(owner) else False
    access, written = nest.accesses[number], nest.accesses[-1]
    if (root := root_of(operand)) is result:
        return None if access == written else False
    input = input_of(contraction, nest, number, root)
    if input is None:
        return False
    return number_of(finish, input)


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


def writes_once(nest: Nest, result: SSAValue) -> bool:
    """Whether a stage without reductions writes each element of the result once."""
    assert isa(result.type, MemRefType), "kernels work on memrefs"
    written = nest.accesses[-1]
    kept = [loop for loop, extent in enumerate(nest.extents) if extent != 1]
    ordered = sorted(kept, key=lambda loop: -written.strides[loop])
    extents = [nest.extents[loop] for loop in ordered]
    strides = tuple(written.strides[loop] for loop in ordered)
    return (
        not any(nest.reductions)
        and written.offset == 0
        and strides == row_major(extents)
        and prod(extents) == result.type.element_count()
    )


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
    is_yield = isinstance(op, linalg.ops.YieldOp | YieldOp)
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
    if not _starts_at_zero(finish.start):
        start = yield from _start_lines(finish.start, scalars, numbers)
        values = (f"v{next(numbers)}",)
        yield f"{values[0]} = {start} + s"
    for folded in finish.after:
        values = yield from _folded_lines(folded, values[0], scalars, numbers)
    yield f"return {', '.join(values)}"


def _start_lines(
    start: FusedStage | int | arith.ConstantOp | None,
    scalars: VectorScalars,
    numbers: Iterator[int],
) -> Generator[str, None, str]:
    """Lines that compute what sums start from; the generator's value is its name."""
    if isinstance(start, FusedStage):
        (value,) = yield from _folded_lines(start, "s", scalars, numbers)
        return value
    if isinstance(start, arith.ConstantOp):
        return scalars.constant(start.value) or ""
    return f"p{start}"


def is_trivial(finish: Epilogue) -> bool:
    """Whether the sums are stored as they are."""
    return not finish.after and _starts_at_zero(finish.start)


def _starts_at_zero(start: FusedStage | int | arith.ConstantOp | None) -> bool:
    """Whether sums start from zero, or from what the result holds."""
    match start:
        case None:
            return True
        case FusedStage():
            return _is_zero(start)
        case arith.ConstantOp():
            return is_zero(start)
        case _:
            return False


def _is_zero(start: FusedStage) -> bool:
    """Whether a stage writes zeros."""
    yielded = start.block.last_op
    assert yielded is not None, "a linalg body ends in linalg.yield"
    value, args = yielded.operands[0], start.block.args
    owner = start.arguments[args.index(value)] if value in args else value.owner
    return isinstance(owner, arith.ConstantOp) and is_zero(owner)


def is_zero(constant: arith.ConstantOp) -> bool:
    """Whether a number is 0."""
    value = constant.value
    return isinstance(value, FloatAttr | IntegerAttr) and value.value.data == 0


def _folded_lines(
    folded: FusedStage, so_far: str, scalars: VectorScalars, numbers: Iterator[int]
) -> Generator[str, None, Sequence[str]]:
    """Lines that compute a stage; the generator's value are the names it stores."""
    names: dict[SSAValue, str] = {}
    for arg, meaning in zip(folded.block.args, folded.arguments, strict=True):
        match meaning:
            case None:
                names[arg] = so_far
            case arith.ConstantOp():
                names[arg] = scalars.constant(meaning.value) or ""
            case number:
                names[arg] = f"p{number}"
    for op in folded.block.ops:
        for value in op.operands:
            if isinstance(owner := value.owner, arith.ConstantOp):
                names[value] = scalars.constant(owner.value) or ""
        operands = [names[value] for value in op.operands]
        if isinstance(op, linalg.ops.YieldOp | YieldOp):
            return [operands[number] for number in folded.order]
        if isinstance(op, arith.ConstantOp):
            continue
        text = scalars.expression(op, operands)
        assert text is not None, "only ops that have a source are folded"
        names[op.results[0]] = name = f"v{next(numbers)}"
        yield f"{name} = {text}"
    raise AssertionError("a linalg body ends in linalg.yield")
