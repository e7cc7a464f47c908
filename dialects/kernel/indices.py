"""Indices that are data: elements of a memref that name places of another one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, i64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import prop_def
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.interface import StructuredOp, element_of, shape_of
from penstock.dialects.kernel.views import PaddedOp
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.signless import is_unsigned
from penstock.dialects.utils.tensors import shape_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array

    Places: TypeAlias = NDArray[np.int64]

OUT_OF_RANGE = "gather index out of range"


def place_from_front(k: KernelBuilder, raw: SSAValue, extent: int) -> SSAValue:
    """The place from the front that an index means, which may be out of range."""
    index = k.insert(arith.IndexCastOp(raw, IndexType()))
    count, zero = k.index(extent), k.index(0)
    if not extent:
        return index
    from_end = k.compare("lt", index, zero)
    return k.select(from_end, k.add(index, count), index)


def checked_place(k: KernelBuilder, raw: SSAValue, extent: int) -> SSAValue:
    """The place from the front that an index means, checked to be in range."""
    place = place_from_front(k, raw, extent)
    above = k.compare("ge", place, k.index(0))
    below = k.compare("lt", place, k.index(extent))
    k.check(k.insert(arith.AndIOp(above, below)), OUT_OF_RANGE)
    return place


def counted_from_front(indices: Array, extent: int) -> Places:
    """Indices counted from the front, which may be out of range."""
    import numpy as np

    wide: Places = indices.astype(np.int64)
    return np.where(np.less(wide, 0), np.add(wide, extent), wide)


def places_from_front(indices: Array, extent: int) -> Places:
    """Indices counted from the front. Raises `IndexError` for one out of range."""
    import numpy as np

    counted = counted_from_front(indices, extent)
    if np.any(np.less(counted, 0)) or np.any(np.greater_equal(counted, extent)):
        raise IndexError(OUT_OF_RANGE)
    return counted


class Sides(NamedTuple):
    """The operands of an op on slices that indices name."""

    whole: SSAValue
    """The memref that has the axis."""
    indices: SSAValue
    slices: SSAValue
    """The memref of the slices, one after the other."""


@dataclass(frozen=True)
class IndexedLoops:
    """
    The loops over slices along an axis that indices name: those of the indices stand in
    place of the axis.
    """

    axis: int
    data: int
    """The number of dimensions that have the axis among them."""
    indices: int
    """The number of dimensions of the indices."""

    @property
    def end(self) -> int:
        """The first loop behind those of the indices."""
        return self.axis + self.indices

    @property
    def count(self) -> int:
        """The number of loops."""
        return self.data - 1 + self.indices

    def maps(self) -> Sequence[AffineMap]:
        """The maps of the indices, and of the slices one after the other."""
        loops = [AffineExpr.dimension(loop) for loop in range(self.count)]
        of_indices = AffineMap(self.count, 0, tuple(loops[self.axis : self.end]))
        return of_indices, AffineMap.identity(self.count)

    def roles(self) -> Mapping[str, Sequence[int]]:
        """The loops over places, which the indices have, and over their elements."""
        places = range(self.axis, self.end)
        others = [loop for loop in range(self.count) if loop not in places]
        return {"place": places, "element": others}

    def place(self, loops: Sequence[SSAValue], found: SSAValue) -> Sequence[SSAValue]:
        """The indices into what has the axis."""
        return *loops[: self.axis], found, *loops[self.end :]


class IndexedOp(StructuredOp):
    """
    A stage on slices along an axis of one memref, the `whole`, that elements of another
    one name. Where it is accessed depends on the indices: no map says it.
    """

    axis = prop_def(IntegerAttr.constr(i64))

    @property
    @abstractmethod
    def sides(self) -> Sides:
        """The operands by their roles."""

    @property
    def indexed(self) -> IndexedLoops:
        """The loops over the slices."""
        whole, indices, _ = self.sides
        ranks = len(shape_of(whole)), len(shape_of(indices))
        return IndexedLoops(self.axis.value.data, *ranks)

    def accessed(self) -> Sequence[SSAValue]:
        return self.sides[1:]

    def maps(self) -> Sequence[AffineMap]:
        return self.indexed.maps()

    def roles(self) -> Mapping[str, Sequence[int]]:
        return self.indexed.roles()

    def failures(self) -> Sequence[str]:
        return (OUT_OF_RANGE,)

    def verify_(self) -> None:
        verify_indexed(self.axis.value.data, *self.sides)
        super().verify_()


def verify_indexed(
    axis: int, whole: SSAValue, indices: SSAValue, slices: SSAValue
) -> None:
    """
    Raise `VerifyException` unless indices are integers, and `slices` has the shape of
    slices of `whole` along an axis.
    """
    kind, shape = element_of(indices), shape_of(whole)
    if not isa(kind, IntegerType) or is_unsigned(kind):
        raise VerifyException(f"indices should be signed integers, got {kind}")
    if not 0 <= axis < len(shape):
        raise VerifyException(f"{whole.type} has no axis {axis}")
    wanted = (*shape[:axis], *shape_of(indices), *shape[axis + 1 :])
    if (found := shape_of(slices)) != wanted:
        raise VerifyException(
            f"slices of {shape_text(shape)} along axis {axis} by indices "
            f"{shape_text(shape_of(indices))} are {shape_text(wanted)}, got "
            f"{shape_text(found)}"
        )
    for value in (whole, indices, slices):
        if isinstance(value.owner, PaddedOp):
            raise VerifyException(f"no operand is padded, got {value.type}")
