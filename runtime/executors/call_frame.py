"""
The arrays of one call of a program, checked, made and handed to the core in as few
steps as it takes: they are most of the time of a short run.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import cast

import numpy as np

from penstock.runtime.loading.arrays import DATA_FIELD, Array
from penstock.runtime.loading.loader import Port

RECYCLED_BYTES = 1 << 16
"""Bytes from which on the memory of a result is used again once it is free."""


class CallFrame:
    """
    The words at `address` that name the arrays of a call, one for each input and output
    of a program (`penstock.runtime.core.entry_points.call_starter`). `field` is the
    offset of the address of its elements in an array object.
    """

    def __init__(
        self, inputs: Mapping[str, Port], outputs: Mapping[str, Port], field: int
    ):
        ports = [*inputs.values(), *outputs.values()]
        tables = [port.table.ctypes.data for port in ports]
        head = [len(ports), field, *tables]
        words = np.array([*head, *[0] * len(ports)], np.int64)
        # An element of a memoryview is set in half the time of one of an array.
        self._cells = words.data
        self.address: int = words.ctypes.data
        self._places = range(len(head), len(words))
        self._most = len(inputs)
        self._inputs = [
            (name, x.shape, strides_of(x.shape, x.dtype.itemsize), x.dtype, place)
            for (name, x), place in zip(inputs.items(), self._places, strict=False)
        ]
        last = self._places[self._most :]
        self._outputs = [
            (name, x.shape, x.dtype, x.nbytes >= RECYCLED_BYTES, place)
            for (name, x), place in zip(outputs.items(), last, strict=True)
        ]
        self._last: dict[str, Array] = {}
        """The large arrays that the last call has returned."""

    def take(self, given: object) -> list[Array] | None:
        """
        Name the arrays of inputs, in the order of these; None unless they are arrays by
        name of which each can be read as it is.
        """
        if type(given) is not dict:
            return None
        arrays = cast("dict[object, object]", given)
        if len(arrays) != self._most:
            return None
        taken: list[Array] = []
        cells = self._cells
        for name, shape, strides, dtype, place in self._inputs:
            array = arrays.get(name)
            # Strides tell more quickly than flags that an array is contiguous.
            if (
                type(array) is not np.ndarray
                or array.shape != shape
                or array.strides != strides
                or array.dtype is not dtype
            ):
                return None
            cells[place] = id(array)
            taken.append(cast("Array", array))
        return taken

    def new_results(self) -> dict[str, Array]:
        """
        New arrays for outputs, which it names. A large one gets the memory of the last
        one if that is free again, as the system would have to map each page of new
        memory.
        """
        results: dict[str, Array] = {}
        for name, shape, dtype, is_large, place in self._outputs:
            array = self._last.get(name) if is_large else None
            if array is None or is_shared(array):
                array = np.empty(shape, dtype)
                if is_large:
                    self._last[name] = array
            results[name] = array
            self._cells[place] = id(array)
        return results

    def hold(self, arrays: Iterable[Array]) -> None:
        """Name the arrays of inputs, and after them those of outputs, if given."""
        for place, array in zip(self._places, arrays, strict=False):
            self._cells[place] = id(array)


def call_frame(
    inputs: Mapping[str, Port], outputs: Mapping[str, Port]
) -> CallFrame | None:
    """A frame for calls; None if a port takes several pieces in an iteration."""
    if any(port.repetitions > 1 for port in (*inputs.values(), *outputs.values())):
        return None
    return None if DATA_FIELD is None else CallFrame(inputs, outputs, DATA_FIELD)


def strides_of(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """The strides in bytes of a contiguous array."""
    return tuple(prod(shape[axis + 1 :]) * itemsize for axis in range(len(shape)))


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
