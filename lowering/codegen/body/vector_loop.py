"""
The analysis of vectorizable inner loops over contiguous elements.

A loop becomes a *line* (`penstock.runtime.kernels.cpu.vector_loop`) if it computes only
floats of one type, or comparisons of them; if its loads are invariant or have a stride
of up to `MAX_STEP` elements; if its stores are contiguous; and if it carries only sums
and products that may be reassociated, maxima or minima. Invariant values are loaded
before. In a line of `f32`, `f16` and `bf16` may be loaded, stored and rounded to, and
integers of up to 32 bits cast from or to it, added and multiplied. Any other loop is
printed as a Python loop, which LLVM may vectorise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeAlias, TypeGuard

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import (
    FloatAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    bf16,
    f16,
    f32,
    i1,
)
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.ir import Attribute, Block, Operation, SSAValue

from penstock.dialects.kernel.loops import Nest, Order, row_major
from penstock.dialects.kernel.views import root_of
from penstock.dialects.utils.hints import isa
from penstock.lowering.codegen.body.contraction import ELEMENTS
from penstock.lowering.codegen.body.epilogue import (
    SMALL_INTEGERS,
    VECTOR_OPS,
    is_of_integers,
)
from penstock.lowering.codegen.body.scalars import EXPRESSIONS
from penstock.lowering.codegen.body.statements import (
    Computation,
    product_in,
    running_sum,
)

BYTES = {"bf16": 2, "f16": 2, "f32": 4, "f64": 8, "i8": 1, "i16": 2, "i32": 4}

HALVES: Mapping[Attribute, str] = {bf16: "bf16", f16: "f16"}
"""The types of which lines load and store elements that they compute in `f32`."""

FOLDS = {
    "arith.addf": "add",
    "arith.mulf": "mul",
    "arith.maximumf": "maximum",
    "arith.minimumf": "minimum",
    "arith.maxnumf": "maxnum",
    "arith.minnumf": "minnum",
}
"""The reductions that a loop may carry, by the op that takes in one more number."""

NEED_ANY_ORDER = ("arith.addf", "arith.mulf")

BOOLEAN_OPS = {"arith.andi": "both", "arith.ori": "either", "arith.xori": "differ"}

PREDICATES = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)
"""The names of the relations of `arith.cmpf`."""

IndexOp: TypeAlias = arith.ConstantOp | arith.AddiOp | arith.SubiOp | arith.MuliOp
"""The ops that places may be computed with."""

MAX_STEP = 4
"""The largest stride of neighbouring elements of a vector."""

REPEATS = (2, 4, 8)
"""The numbers of times that an element of a vector may come."""

BLOCK = 4096
"""The elements of a line that a long loop is cut into."""


@dataclass
class VectorLoop:
    """A loop over contiguous elements."""

    element: str
    extent: int
    loads: list[tuple[SSAValue, memref.LoadOp | None]] = field(
        default_factory=list[tuple[SSAValue, memref.LoadOp | None]]
    )
    """The loads of an iteration: a value each, and the op, if there is one."""
    steps: list[int] = field(default_factory=list[int])
    """The stride of each load; 1 by default."""
    repeats: list[int] = field(default_factory=list[int])
    """The times that each element of a load comes; 1 by default."""
    loops: int = 1
    """The loops that it is: two, if elements of the outer one are repeated."""
    places: list[IndexOp] = field(default_factory=list[IndexOp])
    """The ops that compute the places of loads and stores."""
    stores: list[tuple[SSAValue, memref.StoreOp | None]] = field(
        default_factory=list[tuple[SSAValue, memref.StoreOp | None]]
    )
    """The stores of an iteration."""
    once: list[memref.LoadOp] = field(default_factory=list[memref.LoadOp])
    """The loads that are the same in all iterations."""
    folds: list[Operation] = field(default_factory=list[Operation])
    """The ops that take in numbers."""
    carried: list[SSAValue] = field(default_factory=list[SSAValue])
    """Inside of the loop, what folds have taken in so far."""
    ahead: list[int] = field(default_factory=list[int])
    """The distance to the next row of each load that is to be prefetched, or 0."""
    ops: list[Operation] = field(default_factory=list[Operation])
    """The scalar ops of an iteration."""
    product: arith.MulfOp | None = None
    """A product that is rounded once with the sum that it is added to."""


################################################################################
# Recognition of vectorized loops                                              #
################################################################################


def vector_loop_of_for(op: scf.ForOp) -> VectorLoop | None:
    """A loop as a line, or None if it is none."""
    bounds = [number_of(value) for value in (op.lb, op.ub, op.step)]
    first, end, step = bounds
    if first is None or end is None or step != 1 or end - first < 2:
        return None
    element = element_of(op.body.block)
    if element is None:
        return None
    line = VectorLoop(element, end - first)
    variable, *carried = op.body.block.args
    yielded = op.body.block.last_op
    if yielded is None or not _add_folds(line, carried, yielded.operands, True):
        return None
    for inner in op.body.block.ops:
        if inner is yielded or inner in line.folds:
            continue
        if _is_index(inner):
            line.places.append(inner)
        elif not _add(line, inner, variable):
            return None
    return line if _keeps_order(line) else None


def vector_loop_of_nest(op: scf.ForOp) -> tuple[VectorLoop, list[scf.ForOp]] | None:
    """
    A loop that has nothing but another one in it, as one line of the elements of all
    its turns, if these follow each other; and the loops, the innermost last.
    """
    nest = [op]
    while (inner := _only_loop_in(nest[-1])) is not None:
        nest.append(inner)
    line = vector_loop_of_for(nest[-1]) if len(nest) > 1 else None
    if line is None or not _go_on(line, nest):
        return None
    return replace(line, extent=prod(_turns(loop) for loop in nest)), nest


def _only_loop_in(op: scf.ForOp) -> scf.ForOp | None:
    """The loop that is all that another one does, but for numbers."""
    ops = [each for each in op.body.block.ops if not isinstance(each, arith.ConstantOp)]
    if len(ops) != 2 or not isinstance(inner := ops[0], scf.ForOp):
        return None
    _, *carried = op.body.block.args
    passes_on = [*inner.iter_args] == carried
    is_known = all(number_of(x) is not None for x in (op.lb, op.ub))
    is_whole = is_known and (number_of(op.lb), number_of(op.step)) == (0, 1)
    given = [*ops[1].operands] == [*inner.results]
    return inner if passes_on and is_whole and given else None


def _go_on(line: VectorLoop, nest: Sequence[scf.ForOp]) -> bool:
    """Whether elements of a line go on in the next turn of the loops around it."""
    if not all(isinstance(op, arith.ConstantOp) for op in line.places):
        return False
    steps = dict(zip([load for _, load in line.loads], line.steps, strict=True))
    steps |= {store: 1 for _, store in line.stores}
    steps |= dict.fromkeys(line.once, 0)
    turns = 1
    for loop, around in zip(reversed(nest), reversed(nest[:-1]), strict=False):
        turns *= _turns(loop)
        variable = around.body.block.args[0]
        for access, step in steps.items():
            assert access is not None, "a loop has an op for each access"
            if _stride(access.memref, access.indices, variable) != step * turns:
                return False
    return number_of(nest[-1].lb) == 0


def _turns(op: scf.ForOp) -> int:
    """The turns of a loop from 0 by ones."""
    turns = number_of(op.ub)
    assert turns is not None, "has been looked at"
    return turns


def element_of(block: Block) -> str | None:
    """The only type of floats that a block computes in, if it is one of vectors."""
    used = {
        value.type
        for op in block.ops
        for value in (*op.operands, *op.results)
        if not isinstance(value.type, IndexType | MemRefType) and value.type != i1
    }
    types = {computed_in(type) for type in used - SMALL_INTEGERS.keys()}
    if len(types) != 1:
        return None
    found = types.pop()
    return found if found == "f32" or not used & SMALL_INTEGERS.keys() else None


def computed_in(type: Attribute) -> str | None:
    """The floats that a line computes elements of a type in, None if no line does."""
    return "f32" if type in HALVES else ELEMENTS.get(type)


def is_element(type: Attribute, element: str) -> bool:
    """Whether a line of some floats loads and stores elements of a type."""
    is_cast = element == "f32" and type in SMALL_INTEGERS
    return is_cast or computed_in(type) == element


def stored_as(type: Attribute) -> str:
    """The type in memory of elements of a type that vectorized loops compute with."""
    return HALVES.get(type) or ELEMENTS.get(type) or SMALL_INTEGERS[type]


def _is_index(op: Operation) -> TypeGuard[IndexOp]:
    return isinstance(op, IndexOp) and isinstance(op.result.type, IndexType)


def number_of(value: SSAValue) -> int | None:
    """The number that an index is, if it is constant."""
    owner = value.owner
    if not isinstance(owner, arith.ConstantOp):
        return None
    return owner.value.value.data if isinstance(owner.value, IntegerAttr) else None


def _add_folds(
    line: VectorLoop,
    carried: Sequence[SSAValue],
    yielded: Iterable[SSAValue],
    ordered: bool,
) -> bool:
    """Note what a loop carries; whether all of it are folds."""
    for so_far, value in zip(carried, yielded, strict=True):
        op = value.owner
        if not isinstance(op, Operation) or op.name not in FOLDS:
            return False
        if value.type in HALVES:
            return False
        if so_far not in op.operands or op.operands[0] is op.operands[1]:
            return False
        if len(list(so_far.uses)) != 1 or len(list(value.uses)) != 1:
            return False
        if ordered and op.name in NEED_ANY_ORDER and not may_reorder(op):
            return False
        line.folds.append(op)
        line.carried.append(so_far)
    return True


def may_reorder(op: Operation) -> bool:
    """Whether a sum or product says that its terms may be taken in another order."""
    flags = isinstance(op, arith.AddfOp | arith.MulfOp) and op.fastmath
    return bool(flags) and FastMathFlag.REASSOC in flags.data


def _add(line: VectorLoop, op: Operation, variable: SSAValue) -> bool:
    """Note an op inside of a loop; whether a line can have it."""
    match op:
        case memref.LoadOp():
            stride = _stride(op.memref, op.indices, variable)
            if not is_element(op.res.type, line.element):
                return False
            if stride is None or not 0 <= stride <= MAX_STEP:
                return False
            if stride:
                line.loads.append((op.res, op))
                line.steps.append(stride)
            else:
                line.once.append(op)
            return not any(
                root_of(op.memref) is root_of(store.memref)
                for _, store in line.stores
                if store is not None
            )
        case memref.StoreOp():
            line.stores.append((op.value, op))
            if not is_element(op.value.type, line.element):
                return False
            return _stride(op.memref, op.indices, variable) == 1
        case _:
            line.ops.append(op)
            return is_vector_loop_op(op, line.element)


def _stride(
    buffer: SSAValue, indices: Iterable[SSAValue], variable: SSAValue
) -> int | None:
    """
    The stride of an access from iteration to iteration, in elements; None if not known.
    """
    assert isa(buffer.type, MemRefType), "checked by the verifier"
    total = 0
    strides = row_major(buffer.type.get_shape())
    for index, stride in zip(indices, strides, strict=True):
        if (change := _change(index, variable)) is None:
            return None
        total += change * stride
    return total


def _change(index: SSAValue, variable: SSAValue) -> int | None:
    """By how much an index is larger in the next turn; None if not known."""
    if index is variable:
        return 1
    if number_of(index) is not None or not _is_inside(index, variable):
        return 0
    op = index.owner
    if not isinstance(op, arith.AddiOp | arith.SubiOp | arith.MuliOp):
        return None
    a, b = (_change(value, variable) for value in op.operands)
    if a is None or b is None:
        return None
    match op:
        case arith.AddiOp():
            return a + b
        case arith.SubiOp():
            return a - b
        case _:
            return _change_of_product(op, a, b)


def _change_of_product(op: arith.MuliOp, a: int, b: int) -> int | None:
    if a == b == 0:
        return 0
    change, number = (a, number_of(op.rhs)) if a else (b, number_of(op.lhs))
    return None if number is None else change * number


def _is_inside(value: SSAValue, variable: SSAValue) -> bool:
    """Whether a value is made in the block of a loop."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent
    return block is variable.owner


def _keeps_order(line: VectorLoop) -> bool:
    """
    Whether nothing that is stored is loaded once, or at a place that is computed, where
    another turn may need it.
    """
    loads = [load for _, load in line.loads if load is not None]
    stores = [store for _, store in line.stores if store is not None]
    stored = {root_of(store.memref) for store in stores}
    if any(root_of(load.memref) in stored for load in line.once):
        return False
    roots = {root_of(load.memref) for load in loads} & stored
    shared = [op for op in (*loads, *stores) if root_of(op.memref) in roots]
    computed = [op.result for op in line.places if not isinstance(op, arith.ConstantOp)]
    return not any(index in computed for op in shared for index in op.indices)


def is_vector_op(op: Operation, element: str) -> bool:
    """Whether there is an op for vectors of the element type."""
    if op.regions or len(op.results) != 1:
        return False
    for value in (*op.operands, *op.results):
        if value.type != i1 and ELEMENTS.get(value.type) != element:
            return False
    if isinstance(op, arith.ConstantOp):
        return isinstance(op.value, FloatAttr)
    if isinstance(op, arith.CmpfOp):
        return PREDICATES[op.predicate.value.data] not in ("false", "true")
    if op.name in BOOLEAN_OPS:
        return op.results[0].type == i1
    if op.name.startswith("math."):
        return op.name in EXPRESSIONS
    return op.name in VECTOR_OPS


def is_half_cast(op: Operation) -> bool:
    """Whether an op extends `f16` or `bf16` to `f32`, or rounds to them."""
    if not isinstance(op, arith.ExtFOp | arith.TruncFOp):
        return False
    types = [op.input.type, op.result.type]
    return f32 in types and any(type in HALVES for type in types)


def is_vector_loop_op(op: Operation, element: str) -> bool:
    """
    Whether there is an op for vectors of the element type, or to and from others that
    it is cast from and to.
    """
    if element == "f32" and is_of_integers(op):
        return True
    if element == "f32" and is_half_cast(op):
        return True
    if element == "f32" and isinstance(op, arith.ConstantOp):
        return isinstance(op.value, FloatAttr)
    return is_vector_op(op, element)


def vector_loop_of(computation: Computation, order: Order) -> VectorLoop | None:
    """The innermost loop of a `linalg` op as a line, or None if it is none."""
    op, nest, block = computation.op, computation.nest, computation.body
    if not order.loops or nest.extents[order.loops[-1]] < 2 or nest.has_bounds:
        return None
    loop, repeat = order.loops[-1], _repeat_of(nest, order)
    element = element_of(block) or ("f32" if repeat > 1 else None)
    steps = [access.strides[loop] for access in nest.accesses[: -nest.outputs]]
    written = {access.strides[loop] for access in nest.written}
    folds = nest.reductions[loop]
    if (
        element is None
        or not all(is_element(arg.type, element) for arg in block.args)
        or any(step not in (0, 1) for step in steps)
        or written != {0 if folds else 1}
        or not reads_result_in_place(computation, folds)
    ):
        return None
    line = VectorLoop(element, nest.extents[loop])
    if repeat > 1:
        around = order.loops[-2]
        line.loops, line.extent = 2, repeat * nest.extents[around]
        steps = [access.strides[around] for access in nest.accesses[: -nest.outputs]]
    last, results = block.last_op, block.args[-nest.outputs :]
    assert last is not None, "a linalg body ends in linalg.yield"
    if folds and not _add_folds(line, results, last.operands, False):
        return None
    for operand, arg, step in zip(op.inputs, block.args, steps, strict=False):
        if isa(operand.type, MemRefType) and step and arg.uses:
            line.loads.append((arg, None))
            line.repeats.append(repeat // step)
    if not folds:
        own = [(result, None) for result in results if result.uses]
        line.loads += own
        line.repeats += [1] * len(own)
        line.stores += [(value, None) for value in last.operands]
        total = running_sum(computation)
        line.product = None if total is None else product_in(total)
    line.ops = [inner for inner in block.ops if inner not in (*line.folds, last)]
    return (
        line if all(is_vector_loop_op(inner, element) for inner in line.ops) else None
    )


def _repeat_of(nest: Nest, order: Order) -> int:
    """
    The times that elements of inputs come, if the last loop repeats them and is a line
    of the results with the one around it; 1 if not.
    """
    if len(order.loops) < 2 or any(nest.reductions):
        return 1
    around, loop = order.loops[-2:]
    count = nest.extents[loop]
    steps = [(x.strides[around], x.strides[loop]) for x in nest.accesses]
    along, again, once = (count, 1), (1, 0), (0, 0)
    inputs, results = steps[: -nest.outputs], steps[-nest.outputs :]
    is_line = {*results} == {along} and {*inputs} <= {along, again, once}
    return count if count in REPEATS and is_line and again in inputs else 1


def reads_result_in_place(computation: Computation, folds: bool) -> bool:
    """Whether inputs are other than the results, or their elements in their turn."""
    op, nest = computation.op, computation.nest
    return all(
        root_of(operand) is not root_of(result) or (access == written and not folds)
        for operand, access in zip(op.inputs, nest.accesses, strict=False)
        for result, written in zip(op.outputs, nest.written, strict=True)
        if isa(operand.type, MemRefType)
    )


def is_cut(order: Order, line: VectorLoop) -> bool:
    """Whether a line is a loop on its own that is cut into blocks."""
    is_all = len(order.loops) == line.loops
    return is_all and not line.folds and line.extent > 2 * BLOCK


def rows_ahead(loop: scf.ForOp, load: memref.LoadOp | None) -> int:
    """
    The elements from one row of a memref to the next, if a line loads a row not for the
    first time: while it does so, the next one can be fetched. Else 0.
    """
    if load is None or not _is_along_row(loop, load):
        return 0
    before = loop.prev_op
    while before is not None:
        if isinstance(before, scf.ForOp) and _loads(before, load.memref):
            return shape_of(load)[-1]
        before = before.prev_op
    return 0


def _is_along_row(loop: scf.ForOp, load: memref.LoadOp) -> bool:
    """Whether a loop loads a row, and the loop around it one row after the other."""
    parent = loop.parent_op()
    if not isinstance(parent, scf.ParallelOp) or len(load.indices) < 2:
        return False
    *_, row, column = load.indices
    around = parent.body.block.args[-1]
    return row is around and column is loop.body.block.args[0]


def only_read_before(loop: scf.ForOp) -> list[memref.LoadOp]:
    """
    The loads of whole rows by the loop just before, if it is the first, of what no loop
    from this one on reads: this one can fetch their next rows.
    """
    block = loop.parent_block()
    loops = [op for op in block.ops if isinstance(op, scf.ForOp)] if block else []
    if len(loops) < 2 or loop is not loops[1]:
        return []
    later = {
        value for op in loops[1:] for inner in op.walk() for value in inner.operands
    }
    return [
        op
        for op in loops[0].body.block.ops
        if isinstance(op, memref.LoadOp)
        and op.memref not in later
        and _is_along_row(loops[0], op)
        and shape_of(op)[-1] == number_of(loop.ub) == number_of(loops[0].ub)
        and number_of(loop.lb) == number_of(loops[0].lb) == 0
        and vector_loop_of_for(loops[0]) is not None
    ]


def shape_of(load: memref.LoadOp) -> tuple[int, ...]:
    """The shape of what is loaded from."""
    type = load.memref.type
    assert isa(type, MemRefType), "checked by the verifier"
    return type.get_shape()


def _loads(loop: scf.ForOp, buffer: SSAValue) -> bool:
    """Whether a loop loads from a memref, and does not store to it."""
    ops = [op for op in loop.body.block.ops if buffer in op.operands]
    return bool(ops) and all(isinstance(op, memref.LoadOp) for op in ops)
