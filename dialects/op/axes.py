"""Helpers of ops that rearrange axes: lists of integers, and copies."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
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

from penstock.dialects.kernel.builder import PARALLEL, memref_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array

I64Attr = IntegerAttr.constr(i64)
I64List = DenseArrayBase.constr(i64)


def int_list(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """A list of `i64` as a property."""
    return DenseArrayBase.from_list(i64, values)


def one_per_axis(what: str, values: Sequence[int], rank: int) -> None:
    """Raise `VerifyException` unless there is one value an axis."""
    if len(values) != rank:
        raise VerifyException(f"expected {rank} {what}, got {len(values)}")


def copy_part(
    k: KernelBuilder,
    part: SSAValue,
    whole: SSAValue,
    starts: Sequence[int],
    steps: Sequence[int],
    *,
    is_target: bool,
) -> None:
    """
    A stage that copies between a memref and the elements of another one, of the same
    rank, at `start + step * place` on each axis; into `part` if it is the target.
    """
    shape = memref_type(part).get_shape()
    if 0 in shape:
        return
    whole_shape = memref_type(whole).get_shape()
    strides = row_major(whole_shape)
    line = k.view(whole, [prod(whole_shape)])
    block = k.view(part, [1, *shape])
    weights = [step * stride for step, stride in zip(steps, strides, strict=True)]
    # A loop of extent 1 comes first, since a dimension that is indexed by nothing but
    # a loop has to be covered. It merges with the next one.
    weights = [shape[0] * weights[0] if shape else 1, *weights]
    origin = sum(start * stride for start, stride in zip(starts, strides, strict=True))
    place = AffineExpr.constant(origin)
    for axis, weight in enumerate(weights):
        place += AffineExpr.dimension(axis) * weight
    rank = len(weights)
    line_map, block_map = AffineMap(rank, 0, (place,)), AffineMap.identity(rank)
    source, target = (line, block) if is_target else (block, line)
    maps = (line_map, block_map) if is_target else (block_map, line_map)
    k.generic([source], target, maps, [PARALLEL] * rank, lambda k, scalars: scalars[0])


def row_major(shape: Sequence[int]) -> list[int]:
    """The elements from one place of each axis to the next, row by row."""
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def place_of_part(
    shape: Sequence[int],
    whole: Sequence[int],
    starts: Sequence[int],
    steps: Sequence[int],
) -> int | None:
    """
    At which element of a dense tensor of shape `whole` a dense one of shape `shape`
    starts that is its part at `start + step * place` on each axis; None if the elements
    of the part are not contiguous there.
    """
    if 0 in shape:
        return 0
    strides = row_major(whole)
    for extent, step, stride, own in zip(
        shape, steps, strides, row_major(shape), strict=True
    ):
        if extent > 1 and step * stride != own:
            return None
    return sum(start * stride for start, stride in zip(starts, strides, strict=True))


def offset_by(rank: int, axis: int, offset: int) -> list[int]:
    """Starts that are 0 but on one axis."""
    return [offset if other == axis else 0 for other in range(rank)]


def dense(array: Array) -> Array:
    """The array in row-major order; a copy only if it is in another one."""
    import numpy as np

    return np.asarray(array, order="C")
