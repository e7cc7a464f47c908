"""
Runs in the order of the axes of the caller's arrays.

A program that is pointwise reads and writes elements one by one, wherever they are in
their tensors. So arrays whose axes all lie in one order, as those of Fortran, are read
where they are, and the results lie in the same order, as those of NumPy do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np

from penstock.runtime.loading.arrays import Array
from penstock.runtime.options import check_named


class Layout(NamedTuple):
    """
    An order of axes, from the largest step to the smallest, the extents in this order,
    and the place in it of each axis.
    """

    order: Sequence[int]
    extents: Sequence[int]
    places: Sequence[int]

    def put(self, results: Mapping[str, Array]) -> dict[str, Array]:
        """Results whose elements lie in this order in memory; scalars as they are."""
        return {
            name: array.reshape(self.extents).transpose(self.places)
            if array.ndim
            else array
            for name, array in results.items()
        }


@lru_cache(maxsize=64)
def layout_of(shape: Sequence[int], steps: Sequence[int], size: int) -> Layout | None:
    """
    The layout of arrays whose elements, of a size, follow each other if their axes are
    taken in another order; None of other arrays.
    """
    axes = range(len(shape))
    order = sorted(axes, key=steps.__getitem__, reverse=True)
    for axis in reversed(order):
        if shape[axis] > 1 and steps[axis] != size:
            return None
        size *= shape[axis]
    return Layout(order, [shape[axis] for axis in order], [*map(order.index, axes)])


def in_order(arrays: Mapping[str, object]) -> tuple[dict[str, Array], Layout] | None:
    """
    The elements of arrays as they lie in memory, in arrays of the same shapes, and the
    layout that all of these but scalars have; None if they have none in common.
    """
    check_named(arrays)
    common: Layout | None = None
    found: dict[str, Array] = {}
    for name, given in arrays.items():
        if type(given) is not np.ndarray:
            return None
        array = cast("Array", given)
        if shape := array.shape:
            layout = layout_of(shape, array.strides, array.itemsize)
            if layout is None or (common is not None and layout != common):
                return None
            common = layout
            array = array.transpose(layout.order).reshape(shape)
        found[name] = array
    return None if common is None else (found, common)
