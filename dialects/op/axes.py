"""What the ops share that rearrange axes: lists of integers, maps, copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel import PARALLEL, memref_type

if TYPE_CHECKING:
    from penstock.dialects.interfaces import Array
    from penstock.dialects.kernel import KernelBuilder

I64Attr = IntegerAttr.constr(i64)
I64List = DenseArrayBase.constr(i64)


def int_list(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """A list of 64-bit integers as a property."""
    return DenseArrayBase.from_list(i64, values)


def one_per_axis(what: str, values: Sequence[int], rank: int) -> None:
    """Raise `VerifyException` unless there is one value an axis."""
    if len(values) != rank:
        raise VerifyException(f"expected {rank} {what}, got {len(values)}")


def strided_map(starts: Sequence[int], steps: Sequence[int]) -> AffineMap:
    """The map from loops `d` to the index `start + step * d` on each axis."""
    exprs = [
        AffineExpr.dimension(axis) * step + start
        for axis, (start, step) in enumerate(zip(starts, steps, strict=True))
    ]
    return AffineMap(len(exprs), 0, tuple(exprs))


def offset_map(rank: int, axis: int, offset: int) -> AffineMap:
    """The map from loops to the index that is shifted by `offset` on one axis."""
    starts = [offset if other == axis else 0 for other in range(rank)]
    return strided_map(starts, [1] * rank)


def move(
    k: KernelBuilder,
    source: SSAValue,
    target: SSAValue,
    *,
    source_map: AffineMap | None = None,
    target_map: AffineMap | None = None,
) -> None:
    """
    A phase that copies elements between memrefs of one rank: the loops go over the
    side without a map, and the other side's map gives the place that belongs to it.
    """
    rank = memref_type(source).get_num_dims()
    identity = AffineMap.identity(rank)
    k.generic(
        [source],
        target,
        [source_map or identity, target_map or identity],
        [PARALLEL] * rank,
        lambda k, scalars: scalars[0],
    )


def dense(array: Array) -> Array:
    """The array in row-major order; a copy only if it is in another one."""
    import numpy as np

    return np.asarray(array, order="C")
