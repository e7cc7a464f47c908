"""
The stages that a fold of rows stands for whose points do not follow each other: one
that starts results, one that folds into them, and one that finishes them.

Loops of such a stage run in the order that suits memory, where one over rows with a
loop of its own over points would jump from point to point. A fold lies in its result
between terms and until it is finished, which so has to have all of its bits: folds in
`f32` with a result of 16 bits are loops, whose folds are in registers. A target that
keeps folds of stages in registers, too, takes stages if such a fold is only rounded.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from penstock.dialects.kernel.body_ops import AllReduceOp, IndexOp
from penstock.dialects.kernel.folds import LARGEST, SMALLEST, folded, neutral
from penstock.dialects.kernel.interface import element_of, shape_of
from penstock.dialects.kernel.loops import is_onto
from penstock.dialects.kernel.row_passes import RowPasses, RowStage, computed_in

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder

PARALLEL, REDUCTION = "parallel", "reduction"
CHOOSING = LARGEST | SMALLEST
"""The folds whose result is one of the numbers, so that it may be rounded before."""


def is_fold_of_stages(
    row: RowStage, derived: RowPasses, *, in_registers: bool = False
) -> bool:
    """
    Whether a row is one fold over points that are not the last loops, and its result
    has nothing else, so that it may be filled first.
    """
    count = row.maps()[0].num_dims
    along = row.along_loops
    is_last = [*along] == [*range(count - len(along), count)]
    if is_last or len(derived.passes) != 1 or len(row.outs) != 1:
        return False
    (only,) = derived.passes
    has_index = any(isinstance(op, IndexOp) for op in row.body.block.ops)
    if only.stores or len(only.folds) != 1 or has_index:
        return False
    if only.folds[0].combine is not None:
        return False
    if not is_onto(row.maps()[-1], row.loops().extents, shape_of(row.outs[0])):
        return False
    if not all(isinstance(value.type, MemRefType) for value in row.ins):
        return False
    (fold,), element = only.folds, element_of(row.outs[0])
    if fold.value.type == element:
        return True
    ((result, _),) = derived.stores
    is_exact = in_registers or fold.kind.data in CHOOSING
    is_narrow = fold.value.type == computed_in(element)
    return is_narrow and is_exact and _is_rounded(result, fold)


def build_fold_stages(row: RowStage, derived: RowPasses, k: KernelBuilder) -> None:
    """Build the stages of a row for which `is_fold_of_stages` holds."""
    (only,), (out,) = derived.passes, row.outs
    (fold,) = only.folds
    kind = fold.kind.data
    ops = [op for each in derived.shared for op in each]
    k.fill(out, neutral(kind, element_of(out)))

    def body(k: KernelBuilder, scalars: Sequence[SSAValue]) -> SSAValue:
        *elements, so_far = scalars
        values: dict[SSAValue, SSAValue] = dict(
            zip(row.body.block.args, elements, strict=True)
        )
        _clone(k, [*ops, *only.ops], fold.value, values)
        return folded(k, kind, so_far, values[fold.value], in_order=True)

    reductions = row.loops().reductions
    iterators = [REDUCTION if reduces else PARALLEL for reduces in reductions]
    k.generic(row.ins, out, row.maps(), iterators, body)
    ((result, _),) = derived.stores
    if not _is_rounded(result, fold):
        _build_finish(row, k, fold, result, ops)


def _is_rounded(result: SSAValue, fold: AllReduceOp) -> bool:
    """Whether a result is a fold, but for the bits that memory holds."""
    owner = result.owner
    value = owner.input if isinstance(owner, arith.TruncFOp) else result
    return value is fold.result


def _build_finish(
    row: RowStage,
    k: KernelBuilder,
    fold: AllReduceOp,
    result: SSAValue,
    ops: Sequence[Operation],
) -> None:
    """Build the stage that makes results of folds, and of what rows share."""
    (out,), args = row.outs, row.body.block.args
    *maps, out_map = row.maps()
    made = {value for op in ops for value in op.results} | {fold.result}
    makers = _makers(ops, result, {fold.result})
    needed = {value for op in makers for value in op.operands}
    read = [n for n, arg in enumerate(args) if arg in needed - made]

    def body(k: KernelBuilder, scalars: Sequence[SSAValue]) -> SSAValue:
        *shared, total = scalars
        values: dict[SSAValue, SSAValue] = {fold.result: total}
        values.update(zip((args[n] for n in read), shared, strict=True))
        _clone(k, ops, result, values)
        return values[result]

    place = _loops_at(out_map)
    identity = AffineMap.identity(len(out_map.results))
    maps = [*(maps[n].compose(place) for n in read), identity]
    kinds = [PARALLEL] * identity.num_dims
    k.generic([row.ins[n] for n in read], out, maps, kinds, body)


def _loops_at(out: AffineMap) -> AffineMap:
    """The loops of the row that an element of a result is of."""
    loops = [AffineExpr.constant(0)] * out.num_dims
    for number, expr in enumerate(out.results):
        if isinstance(expr, AffineDimExpr):
            loops[expr.position] = AffineExpr.dimension(number)
    return AffineMap(len(out.results), 0, tuple(loops))


def _clone(
    k: KernelBuilder,
    ops: Iterable[Operation],
    wanted: SSAValue,
    values: dict[SSAValue, SSAValue],
) -> None:
    """Build those ops that make a value, given the values that they are made of."""
    for op in _makers(ops, wanted, values):
        values[op.results[0]] = k.insert(op.clone(values))


def _makers(
    ops: Iterable[Operation], wanted: SSAValue, known: Container[SSAValue]
) -> list[Operation]:
    """Those ops that make a value of others that are known."""
    needed, pending = set[Operation](), [wanted]
    while pending:
        value = pending.pop()
        owner = value.owner
        if value not in known and isinstance(owner, Operation):
            needed.add(owner)
            pending += owner.operands
    return [op for op in ops if op in needed]
