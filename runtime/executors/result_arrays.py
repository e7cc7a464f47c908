"""
New arrays for the results of runs. A large one gets the memory of the last one if that
is free again, as the system would have to map each page of new memory.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from penstock.runtime.loading.arrays import Array

RECYCLED_BYTES = 1 << 16
"""Bytes from which on the memory of a result is used again once it is free."""


def maker_of(
    shape: Sequence[int], dtype: np.dtype[np.generic]
) -> tuple[Callable[..., Array], tuple[object, ...]]:
    """A function, and its arguments, that makes arrays of a shape and a dtype."""
    if prod(shape) * dtype.itemsize < RECYCLED_BYTES:
        return np.empty, (shape, dtype)
    return _Recycled(shape, dtype).take, ()


class _Recycled:
    """The arrays of a large result."""

    def __init__(self, shape: Sequence[int], dtype: np.dtype[np.generic]):
        self._shape = shape
        self._dtype = dtype
        self._last: Array | None = None

    def take(self) -> Array:
        """The last array if nobody else holds it, else a new one."""
        array = self._last
        if array is None or is_shared(array):
            self._last = array = np.empty(self._shape, self._dtype)
        return array


def is_shared(array: Array) -> bool:
    """Whether an array has references besides a container, the caller and this."""
    return sys.getrefcount(array) > UNSHARED or weakref.getweakrefcount(array) > 0


def _unshared() -> int:
    """The count of `is_shared` for an array without other references."""
    counted = {"": np.empty(0)}
    array = counted[""]

    def count(array: Array) -> int:
        return sys.getrefcount(array)

    return count(array)


UNSHARED = _unshared()
