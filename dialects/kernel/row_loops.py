"""
The loops that a `kernel.row` stands for: one over rows, with those of its passes.

`convert-kernel-to-loops` puts them in its place, and so does code generation where no
schedule fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from penstock.dialects.kernel.body_ops import AllReduceOp, IndexOp, KeepOp
from penstock.dialects.kernel.fold_stages import (
    build_fold_stages,
    is_fold_of_stages,
)
from penstock.dialects.kernel.folds import folded, neutral
from penstock.dialects.kernel.row_passes import (
    RowPass,
    RowPasses,
    RowStage,
    passes_of,
)
from penstock.dialects.utils.hints import isa

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder

Body: TypeAlias = "Callable[[KernelBuilder, Sequence[SSAValue]], Sequence[SSAValue]]"


def build_row_loops(row: RowStage, k: KernelBuilder) -> None:
    """Build the loops of a `kernel.row`."""
    derived = passes_of(row)
    if is_fold_of_stages(row, derived):
        build_fold_stages(row, derived, k)
        return

    _build_over_rows(row, derived, k, _RowLoops.build)


def build_first_pass(row: RowStage, k: KernelBuilder) -> None:
    """Build of the loops of a `kernel.row` those of the first pass over each row."""
    _build_over_rows(row, passes_of(row), k, _RowLoops.build_first)


def _build_over_rows(
    row: RowStage,
    derived: RowPasses,
    k: KernelBuilder,
    build: Callable[[_RowLoops, KernelBuilder], None],
) -> None:
    """Build the loop over rows; `build` is given one row of it."""
    extents, reductions = row.loops()
    rows = [loop for loop, reduces in enumerate(reductions) if not reduces]

    def body(k: KernelBuilder, place: Sequence[SSAValue]) -> None:
        indices = dict(zip(rows, place, strict=False))
        build(_RowLoops(row, derived, extents, indices), k)

    k.parallel([extents[loop] for loop in rows] or [1], body)


@dataclass
class _RowLoops:
    """The loops over one row."""

    row: RowStage
    derived: RowPasses
    extents: Sequence[int]
    indices: dict[int, SSAValue]
    """The variables of the loops that are open."""
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """The values of the op's body that are known for the whole row."""
    _numbers: dict[int, SSAValue] = field(default_factory=dict[int, SSAValue])
    """The numbers in indices."""

    def build(self, k: KernelBuilder) -> None:
        self._begin(k)
        *before, after = self.derived.shared
        for ops, each in zip(before, self.derived.passes, strict=True):
            self._compute(k, ops, self.values)
            self._build_pass(k, each)
        self._compute(k, after, self.values)
        for value, result in self.derived.stores:
            self._store(k, self.values[value], result)

    def build_first(self, k: KernelBuilder) -> None:
        """Build what comes up to the end of the first pass."""
        self._begin(k)
        self._compute(k, self.derived.shared[0], self.values)
        self._build_pass(k, self.derived.passes[0])

    def _begin(self, k: KernelBuilder) -> None:
        """Build the numbers in indices, and the elements that a row shares."""
        numbers = (expr for map in self.row.maps() for expr in _parts(map))
        self._numbers = {
            expr.value: k.index(expr.value)
            for expr in numbers
            if isinstance(expr, AffineConstantExpr)
        }
        for arg in self.derived.loads:
            self.values[arg] = self._load(k, arg)

    def _build_pass(self, k: KernelBuilder, each: RowPass) -> None:
        inits = [init for fold in each.folds for init in self._inits(k, fold)]

        def point(k: KernelBuilder, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            values = {**self.values}
            for value in each.loads:
                values[value] = self._load(k, value)
            self._compute(k, each.ops, values)
            for value, result in each.results:
                self._store(k, values[value], result)
            so_far = iter(carried)
            made: list[SSAValue] = []
            for fold in each.folds:
                own = [next(so_far) for _ in fold.outs]
                made += _combined(k, fold, own, values)
            return made

        results = self._loops(k, self.row.along_loops, inits, point)
        made = (result for fold in each.folds for result in fold.outs)
        self.values.update(zip(made, results, strict=True))

    def _inits(self, k: KernelBuilder, fold: AllReduceOp) -> Sequence[SSAValue]:
        """The values that a fold starts from."""
        if fold.combine is not None:
            return [self.values[value] for value in fold.inits]
        type = fold.value.type
        return [k.constant(neutral(fold.kind.data, type), type)]

    def _loops(
        self,
        k: KernelBuilder,
        along: Sequence[int],
        carried: Sequence[SSAValue],
        point: Body,
    ) -> Sequence[SSAValue]:
        if not along:
            return point(k, carried)
        first, *others = along

        def turn(
            k: KernelBuilder, index: SSAValue, carried: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            self.indices[first] = index
            return self._loops(k, others, carried, point)

        return k.loop(k.index(0), k.index(self.extents[first]), carried, turn)

    def _compute(
        self,
        k: KernelBuilder,
        ops: Sequence[Operation],
        values: dict[SSAValue, SSAValue],
    ) -> None:
        """Build ops of the body, given the values that they are made of."""
        for op in ops:
            match op:
                case KeepOp():
                    values[op.result] = values[op.value]
                    if (home := self.derived.homes.get(op)) is not None:
                        self._store(k, values[op.value], home)
                case IndexOp():
                    values[op.result] = self.indices[op.loop.value.data]
                case _:
                    values[op.results[0]] = k.insert(op.clone(values))

    # Elements

    def _map_of(self, result: int) -> AffineMap:
        return self.row.maps()[len(self.row.ins) + result]

    def _load(self, k: KernelBuilder, value: SSAValue) -> SSAValue:
        if isinstance(value.owner, KeepOp):
            result = self.derived.homes[value.owner]
            return self._load_at(k, self.row.outs[result], self._map_of(result))
        number = self.row.body.block.args.index(value)
        operand = self.row.ins[number]
        if not isa(operand.type, MemRefType):
            return operand
        return self._load_at(k, operand, self.row.maps()[number])

    def _load_at(self, k: KernelBuilder, memref: SSAValue, map: AffineMap) -> SSAValue:
        return k.load(memref, [self._index(k, expr) for expr in map.results])

    def _store(self, k: KernelBuilder, value: SSAValue, result: int) -> None:
        place = [self._index(k, expr) for expr in self._map_of(result).results]
        k.store(value, self.row.outs[result], place)

    def _index(self, k: KernelBuilder, expr: AffineExpr) -> SSAValue:
        match expr:
            case AffineDimExpr():
                return self.indices[expr.position]
            case AffineConstantExpr():
                return self._numbers[expr.value]
            case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Add):
                return k.add(self._index(k, expr.lhs), self._index(k, expr.rhs))
            case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Mul):
                return k.mul(self._index(k, expr.lhs), self._index(k, expr.rhs))
            case _:
                raise AssertionError("checked by the verifier")


def _combined(
    k: KernelBuilder,
    fold: AllReduceOp,
    so_far: Sequence[SSAValue],
    values: Mapping[SSAValue, SSAValue],
) -> Sequence[SSAValue]:
    """Build what a fold makes of one more point."""
    if fold.combine is None:
        return [folded(k, fold.kind.data, so_far[0], values[fold.value])]
    return k.inline(fold.combine.block, [*so_far, *(values[x] for x in fold.values)])


def _parts(map: AffineMap) -> Iterator[AffineExpr]:
    """All expressions that the results of a map are made of."""
    for result in map.results:
        yield from result.dfs()
