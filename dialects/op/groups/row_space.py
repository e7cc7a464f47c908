"""
The loops over which ops on rows run together, and where tensors have their elements.

The *space* of a group is the shape of what its roots read, and the axes of rows. A
tensor takes part by its last dimensions, as NumPy broadcasts it; but reductions that do
not keep their axes leave the loops over rows alone, and so do ops on elements that work
on their results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.reduction import ReduceOp
from penstock.dialects.op.row_ops import RowOp
from penstock.dialects.utils.diagnostics import LocatedVerifyException
from penstock.dialects.utils.tensors import shape_text, tensor_type

RowRoot: TypeAlias = "ReduceOp | RowOp"
"""An op that a group of rows is computed around."""


@dataclass(frozen=True)
class Lies:
    """The loops that the dimensions of a tensor are, and its shape."""

    loops: Sequence[int]
    shape: Sequence[int]

    def extents(self, among: Iterable[int]) -> list[int]:
        """Its extents in loops, which are 1 where it has no dimension."""
        own = dict(zip(self.loops, self.shape, strict=True))
        return [own.get(loop, 1) for loop in among]


@dataclass(frozen=True)
class RowSpace:
    """The loops of a group: their extents, and those that are along a row."""

    shape: tuple[int, ...]
    along: tuple[int, ...]

    def __str__(self) -> str:
        return f"{shape_text(self.shape)} along {[*self.along]}"

    @classmethod
    def of(cls, root: RowRoot) -> RowSpace:
        """The space of an op, which reads its first operand at all points."""
        shape = tuple(tensor_type(root.operands[0]).get_shape())
        if isinstance(root, ReduceOp):
            return cls(shape, root.normal_axes)
        return cls(shape, (len(shape) - 1,))

    @property
    def rows(self) -> tuple[int, ...]:
        """The loops over rows."""
        return tuple(n for n in range(len(self.shape)) if n not in self.along)

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return prod(self.shape[loop] for loop in self.rows)

    @property
    def is_along_last(self) -> bool:
        """Whether the points of a row are contiguous."""
        return self.along == tuple(
            range(len(self.shape) - len(self.along), len(self.shape))
        )

    def placed(self, ops: Sequence[Operation]) -> Mapping[SSAValue, Lies]:
        """
        The place of each tensor that ops read or make. Raises `LocatedVerifyException`
        if one of them is not of these rows.
        """
        reduced = self._reduced(ops)
        found: dict[SSAValue, Lies] = {}
        for op in ops:
            for value in (*op.operands, *op.results):
                if isinstance(value.owner, ConstantOp):
                    continue
                lies = self._lies(value, value in reduced)
                if lies is None:
                    shape = shape_text(tensor_type(value).get_shape())
                    text = f"has no place in rows of {shape_text(self.shape)} for"
                    raise LocatedVerifyException([(op, f"{op.name} {text} {shape}")])
                found[value] = lies
        return found

    def _lies(self, value: SSAValue, is_reduced: bool) -> Lies | None:
        """The place of a tensor, if it broadcasts to these loops."""
        shape = tensor_type(value).get_shape()
        loops = self.rows if is_reduced else tuple(range(len(self.shape)))
        own = loops[max(0, len(loops) - len(shape)) :]
        pairs = zip(shape, (self.shape[loop] for loop in own), strict=False)
        fits = all(a in (1, b) or DYNAMIC_INDEX in (a, b) for a, b in pairs)
        return Lies(own, shape) if fits and len(shape) == len(own) else None

    def _reduced(self, ops: Sequence[Operation]) -> set[SSAValue]:
        """The tensors whose dimensions are those that reductions have left."""
        kinds: dict[SSAValue, bool] = {}
        for op in ops:
            if isinstance(op, ReduceOp | RowOp):
                self._note(op, op.operands, False, kinds)
                is_reduced = isinstance(op, ReduceOp) and op.keepdims is None
                self._note(op, op.results, is_reduced, kinds)
        others = [op for op in ops if not isinstance(op, ReduceOp | RowOp | ConstantOp)]
        count = -1
        while count != len(kinds):
            count = len(kinds)
            for op in (*others, *reversed(others)):
                values = [*op.operands, *op.results]
                known = [kinds[value] for value in values if value in kinds]
                if known:
                    self._note(op, values, known[0], kinds)
        return {value for value, is_reduced in kinds.items() if is_reduced}

    def _note(
        self,
        op: Operation,
        values: Iterable[SSAValue],
        is_reduced: bool,
        kinds: dict[SSAValue, bool],
    ) -> None:
        is_reduced &= self.rows != tuple(range(len(self.along), len(self.shape)))
        for value in values:
            if isinstance(value.owner, ConstantOp):
                continue
            if kinds.setdefault(value, is_reduced) != is_reduced:
                text = f"{op.name} reads one element of each row as if that were a row"
                raise LocatedVerifyException([(op, text)])

    def has_points(self, lies: Lies) -> bool:
        """Whether a tensor has all elements of all rows."""
        return tuple(lies.shape) == self.shape

    def is_of_row(self, lies: Lies) -> bool:
        """Whether a tensor has one element for each row."""
        wanted = [self.shape[loop] for loop in self.rows]
        return lies.extents(self.rows) == wanted and prod(lies.shape) == prod(wanted)

    # Views with fewer loops

    def whole(self) -> MergedSpace:
        """The space with its loops as they are."""
        return MergedSpace(self, [[loop] for loop in range(len(self.shape))])

    def merged(self, places: Iterable[Lies]) -> MergedSpace:
        """The space with loops that follow each other in all tensors made one."""
        among = [*places]
        groups: list[list[int]] = []
        for loop in range(len(self.shape)):
            group = groups[-1] if groups else []
            is_alike = bool(group) and (loop in self.along) == (group[0] in self.along)
            if is_alike and self._is_one([*group, loop], among):
                group.append(loop)
            else:
                groups.append([loop])
        if sum(group[0] not in self.along for group in groups) > 1:
            # Rows are one loop, or those that they were.
            groups = [
                part
                for group in groups
                for part in (
                    [group] if group[0] in self.along else [[loop] for loop in group]
                )
            ]
        return MergedSpace(self, groups)

    def _is_one(self, loops: Sequence[int], among: Sequence[Lies]) -> bool:
        """Whether loops are one in all tensors, which have all of it, or none."""
        whole = [self.shape[loop] for loop in loops]
        return all(
            lies.extents(loops) == whole or prod(lies.extents(loops)) == 1
            for lies in among
        )


@dataclass(frozen=True)
class MergedSpace:
    """Loops of a space, some of which are made of several."""

    space: RowSpace
    groups: Sequence[Sequence[int]]

    @property
    def along(self) -> list[int]:
        """The loops along a row."""
        return [
            n for n, group in enumerate(self.groups) if group[0] in self.space.along
        ]

    @property
    def is_whole(self) -> bool:
        """Whether the loops are those of the space."""
        return len(self.groups) == len(self.space.shape)

    def shape_of(self, lies: Lies) -> tuple[int, ...]:
        """The shape of a tensor with these loops: its own, if they are as they were."""
        if self.is_whole:
            return tuple(lies.shape)
        return tuple(prod(lies.extents(group)) for group in self._loops_of(lies))

    def map_of(self, lies: Lies) -> AffineMap:
        """
        The index into a tensor of this shape at a point of a row: one element is that
        of all points of a loop, but where the loop has one point as well. The element
        of a row of several points is at none of them.
        """
        loops, space = self._loops_of(lies), self.space
        has_several = prod(space.shape[loop] for loop in space.along) != 1
        is_of_row = has_several and space.is_of_row(lies)
        exprs = [
            AffineExpr.constant(0)
            if extent == 1 != prod(space.shape[loop] for loop in group)
            or (is_of_row and group[0] in space.along)
            else AffineExpr.dimension(self.groups.index(group))
            for group, extent in zip(loops, self.shape_of(lies), strict=True)
        ]
        return AffineMap(len(self.groups), 0, tuple(exprs))

    def _loops_of(self, lies: Lies) -> list[Sequence[int]]:
        """The loops that are dimensions of a tensor of this shape."""
        if self.is_whole:
            return [[loop] for loop in lies.loops]
        is_full = self.space.has_points(lies) or not self.space.is_of_row(lies)
        return [
            group
            for group in self.groups
            if is_full or group[0] not in self.space.along
        ]
