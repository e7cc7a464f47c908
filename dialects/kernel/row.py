"""`kernel.row`: folds of rows, and what is computed from them at each point."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    MemRefType,
    i64,
)
from xdsl.ir import Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import I64List
from penstock.dialects.kernel.body_ops import AllReduceOp, IndexOp, KeepOp, YieldOp
from penstock.dialects.kernel.evaluation import (
    element_dtype,
    evaluate_block,
    evaluate_region,
    view_over_loops,
)
from penstock.dialects.kernel.folds import fold_array
from penstock.dialects.kernel.interface import (
    Alias,
    Loops,
    StructuredOp,
    element_of,
    listed,
)
from penstock.dialects.kernel.row_loops import build_row_loops
from penstock.dialects.kernel.row_passes import (
    KeptPasses,
    is_read_again,
    passes_of,
    read_late,
    shared_values,
)

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array


@irdl_op_definition
class RowOp(StructuredOp):
    """
    Rows: the body says how one point of each result is computed, of the elements of
    `ins` at that point and of folds of a row, `kernel.all_reduce`, which are the same
    at all of its points. `along` names the loops of a row, those over its points.

    A result whose map has none of these loops is the same at all points: it is computed
    of folds, and of operands and numbers that all points share. Any other result has an
    element for each point.

    A value that is kept, `kernel.keep`, lies in the row of a result until that is
    written, so that halves are rounded there. Results may lie over an operand that is
    read at the same elements, and by no pass over the row after the first one that
    writes them; one with an element a row, over such an operand that a fold reads.

    ```mlir
    #id = affine_map<(r, e) -> (r, e)>
    kernel.row along [1] indexing_maps = [#id, #id]
        ins(%x : memref<512x128xf32>) outs(%y : memref<512x128xf32>) {
    ^bb0(%a: f32):
      %one = arith.constant 1.0 : f32
      %m = kernel.all_reduce maxnumf %a : f32
      %d = arith.subf %a, %m : f32
      %e = math.exp %d : f32
      %p = kernel.keep %e : f32
      %s = kernel.all_reduce add %p : f32
      %q = arith.divf %one, %s : f32
      %r = arith.mulf %p, %q : f32
      kernel.yield %r : f32
    }
    ```
    """

    name = "kernel.row"

    along = prop_def(I64List)
    indexing_maps = prop_def(ArrayAttr[AffineMapAttr])
    ins = var_operand_def(AnyAttr())
    outs = var_operand_def(MemRefType)
    body = region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(IsolatedFromAbove())

    assembly_format = (
        "`along` $along `indexing_maps` `=` $indexing_maps "
        "(`ins` `(` $ins^ `:` type($ins) `)`)? `outs` `(` $outs `:` type($outs) `)` "
        "attr-dict-with-keyword $body"
    )

    def __init__(
        self,
        along: Sequence[int],
        maps: Sequence[AffineMap],
        ins: Sequence[SSAValue],
        outs: Sequence[SSAValue],
        body: Region,
    ):
        super().__init__(
            operands=[ins, outs],
            properties={
                "along": DenseArrayBase.from_list(i64, along),
                "indexing_maps": ArrayAttr(map(AffineMapAttr, maps)),
            },
            regions=[body],
        )

    # The interface

    def outs_at(self) -> range:
        return range(len(self.ins), len(self.operands))

    def roles(self) -> Mapping[str, Sequence[int]]:
        along = self.along_loops
        count = self.maps()[0].num_dims
        rows = [loop for loop in range(count) if loop not in along]
        return {"row": rows, "along": along}

    def loops(self) -> Loops:
        extents, _ = super().loops()
        along = self.along_loops
        return Loops(extents, tuple(loop in along for loop in range(len(extents))))

    def work(self) -> int:
        extents, reductions = self.loops()
        points = prod(extents)
        rows = prod(n for n, r in zip(extents, reductions, strict=True) if not r)
        shared = shared_values(self)
        return sum(
            rows if op.results[0] in shared and not _folds(op) else points
            for op in self.body.block.ops
            if op.results and not isinstance(op, arith.ConstantOp | KeepOp | IndexOp)
        )

    def aliases(self) -> Sequence[Alias]:
        derived, args = passes_of(self), self.body.block.args
        first_inputs = len(self.ins)
        found: list[Alias] = []
        for result in range(len(self.outs)):
            if self.has_points(result):
                late = read_late(derived.passes, result)
                free = [arg for arg in args if arg not in late]
            else:
                free = _folded(self)
            found += [
                Alias(number, result)
                for number, arg in enumerate(args)
                if arg in free and self.are_alike(number, first_inputs + result)
            ]
        return found

    def loops_in_code(self) -> Collection[int]:
        # Layer norm of a sum takes a tenth longer if its number of rows is an argument.
        return range(self.maps()[0].num_dims) if is_read_again(self) else ()

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        extents = self.loops().extents
        along, maps, count = self.along_loops, self.maps(), len(self.ins)
        shared = tuple(1 if n in along else e for n, e in enumerate(extents))

        def over_loops(number: int) -> tuple[int, ...]:
            return extents if maps[number].used_dims() & {*along} else shared

        ins = [
            view_over_loops(operands[number], maps[number], over_loops(number))
            for number in range(count)
        ]

        def special(op: Operation, given: Sequence[Array]) -> Sequence[Array] | None:
            match op:
                case AllReduceOp():
                    return _folded_arrays(op, given, extents, along)
                case KeepOp():
                    return [given[0]]
                case _:
                    return None

        values = evaluate_region(self.body.block, ins, extents, special)
        results = [np.array(array, order="C") for array in operands[count:]]
        for number, (value, result) in enumerate(zip(values, results, strict=True)):
            where = over_loops(count + number)
            view = view_over_loops(result, maps[count + number], where, writeable=True)
            with np.errstate(all="ignore"):
                view[...] = np.asarray(value).astype(element_dtype(self.outs[number]))
        return results

    def build_loops(self, k: KernelBuilder) -> None:
        build_row_loops(self, k)

    # Facts

    @property
    def kept_passes(self) -> KeptPasses:
        """Its passes as they were found last."""
        # Definitions of ops must have no cached properties.
        return vars(self).setdefault("_kept_passes", KeptPasses())

    @property
    def along_loops(self) -> Sequence[int]:
        """The loops of a row, in order."""
        return [*self.along.iter_values()]

    def has_points(self, result: int) -> bool:
        """Whether a result has an element for each point of a row."""
        map = self.maps()[len(self.ins) + result]
        return bool(map.used_dims() & {*self.along_loops})

    # Rules

    def verify_structure(self) -> None:
        self._verify_along()
        self._verify_body()
        self._verify_inits()
        self._verify_results()
        if any(isinstance(op, KeepOp) for op in self.body.block.ops):
            # They must have room for all that they keep.
            passes_of(self)

    def _verify_along(self) -> None:
        along, count = self.along_loops, self.maps()[0].num_dims
        if not along or [*along] != sorted({*along}):
            raise VerifyException(
                f"the loops of a row are one or several, in order, got {[*along]}"
            )
        if not 0 <= along[0] <= along[-1] < count:
            raise VerifyException(f"there are {count} loops, got rows along {[*along]}")

    def _verify_body(self) -> None:
        block = self.body.block
        wanted = [element_of(value) for value in self.ins]
        if [arg.type for arg in block.args] != wanted:
            raise VerifyException(
                "the arguments of the body are elements of the operands, "
                f"{listed(wanted)}, got {listed([arg.type for arg in block.args])}"
            )
        last = block.last_op
        wanted = [element_of(value) for value in self.outs]
        if not isinstance(last, YieldOp):
            raise VerifyException("the body ends in kernel.yield")
        if [value.type for value in last.values] != wanted:
            raise VerifyException(
                "the body yields an element of each result, "
                f"{listed(wanted)}, got {listed([v.type for v in last.values])}"
            )
        for op in block.ops:
            values = (*op.operands, *op.results)
            is_scalar = len(op.results) == 1 and not op.regions
            is_scalar |= isinstance(op, AllReduceOp)
            if any(isinstance(value.type, MemRefType) for value in values) or (
                not is_scalar and op is not last
            ):
                raise VerifyException(f"the body computes scalars, got {op.name}")

    def _verify_inits(self) -> None:
        ops = self.body.block.ops
        folds = [op for op in ops if isinstance(op, AllReduceOp) and op.inits]
        shared = shared_values(self) if folds else set[SSAValue]()
        for op in folds:
            if not shared.issuperset(op.inits):
                raise VerifyException(
                    "a fold starts from numbers that all points of a row share"
                )

    def _verify_results(self) -> None:
        along, maps = {*self.along_loops}, self.maps()[len(self.ins) :]
        extents, reductions = self.loops()
        rows = {loop for loop, r in enumerate(reductions) if not r}
        several = {loop for loop, extent in enumerate(extents) if extent != 1}
        last = self.body.block.last_op
        assert isinstance(last, YieldOp), "checked"
        for number, map in enumerate(maps):
            used = map.used_dims()
            if rows & several - used:
                raise VerifyException(
                    f"each row has elements of its own in a result, got {map}"
                )
            if used & along and (along & several) - used:
                raise VerifyException(
                    "a result has an element for each point of a row, or one for the "
                    f"row, got {map}"
                )
            if not used & along and last.values[number] not in shared_values(self):
                raise VerifyException(
                    f"result {number} has one element a row, but its value is another "
                    "one at each point"
                )


def _folded_arrays(
    op: AllReduceOp,
    given: Sequence[Array],
    extents: Sequence[int],
    along: Sequence[int],
) -> Sequence[Array]:
    """The folds of arrays over the loops of a row, whose extents become 1."""
    import numpy as np

    if op.combine is None:
        array = np.broadcast_to(given[0], extents)
        return [fold_array(op.kind.data, op.value.type, array, [*along])]
    arrays = [np.broadcast_to(array, extents) for array in given]
    count = len(op.values)
    points = [np.moveaxis(x, [*along], range(len(along))) for x in arrays[:count]]
    shared = [1 if loop in along else extent for loop, extent in enumerate(extents)]
    so_far: list[Array] = [
        np.broadcast_to(x, shared).squeeze(tuple(along)) for x in given[count:]
    ]
    for place in np.ndindex(*(extents[loop] for loop in along)):
        others = [each[place] for each in points]
        so_far = evaluate_block(op.combine.block, [*so_far, *others])
    return [np.expand_dims(x, tuple(along)) for x in so_far]


def _folded(row: RowOp) -> set[SSAValue]:
    """
    The values that folds are made of: all threads of a row have read them before one of
    them writes a result of the row.
    """
    pending = [
        value
        for op in row.body.block.ops
        if isinstance(op, AllReduceOp)
        for value in op.values
    ]
    found: set[SSAValue] = set()
    while pending:
        value = pending.pop()
        if value not in found:
            found.add(value)
            if isinstance(value.owner, Operation):
                pending += value.owner.operands
    return found


def _folds(op: Operation) -> bool:
    return isinstance(op, AllReduceOp)
