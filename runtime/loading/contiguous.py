"""
Arrays as contiguous ones. A copy of an array whose axes are in another order moves
squares of it through registers, and one of every n-th element picks these out of whole
vectors: NumPy moves element by element, which takes 2 to 30 times as long.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from penstock.runtime.jit.cpu import KernelFunction, compile_cpu
from penstock.runtime.loading.arrays import Array, address_of

_SQUARES = """\
from penstock.runtime.kernels.cpu.support import c_kernel, number
from penstock.runtime.kernels.cpu.transposition import transposition

turn = transposition("i{bits}")


@c_kernel
def kernel(args, part, parts):
    read = number(args, 0)
    written = number(args, 1)
    rows = number(args, 2)
    columns = number(args, 3)
    across = number(args, 4)
    down = number(args, 5)
    for i in range((columns + 63) // 64):
        first = 64 * i
        turn((read + first * across * {size}, written + first * {size}, across, down,
              rows, min(64, columns - first),))
    return 0
"""
_LINES = """\
from penstock.runtime.kernels.cpu.support import c_kernel, number
from penstock.runtime.kernels.cpu.vector_loop import line


def body(x, a):
    return (a,), ()


pick = line("i{bits}", None, body, loads=1, stores=1, steps=({step},))


@c_kernel
def kernel(args, part, parts):
    read = number(args, 0)
    written = number(args, 1)
    rows = number(args, 2)
    columns = number(args, 3)
    across = number(args, 4)
    down = number(args, 5)
    for i in range(rows):
        pick((read + i * across * {size}, written + i * down * {size}, columns))
    return 0
"""

SIZES = (1, 2, 4, 8)
"""The bytes of elements that registers hold."""
LEAST_BYTES, LEAST_BLOCK, LEAST_EXTENT = 1 << 15, 1 << 13, 8
"""
The bytes of an array, and of a block of it, from which a kernel is worth a call, and
the rows of squares and columns of any block that fill enough of a vector.
"""
MOST_STEP = 16
"""The most bytes from an element to the next of lines that whole vectors are of."""


class Axis(NamedTuple):
    """Axes that one step leads along: their elements, and the bytes of the step."""

    extent: int
    step: int


class _Copy(NamedTuple):
    """
    A copy of arrays of one shape and strides: the kernel for a block of rows and
    columns, and where all blocks are.
    """

    kernel: Callable[[int, int, int], int]
    numbers: Sequence[int]
    """
    The rows and columns; in elements, the step of an array's columns, of squares, or
    rows, of lines, and that of the rows of the copy.
    """
    places: Sequence[tuple[int, int]]
    """The offsets of blocks in bytes, in the array and in the copy."""

    def __call__(self, read: int, written: int) -> None:
        """Copy from an address to another one."""
        for there, here in self.places:
            words = _Words(read + there, written + here, *self.numbers)
            self.kernel(ctypes.addressof(words), 0, 1)


_Words = ctypes.c_int64 * 6


def contiguous(array: Array) -> Array:
    """An array itself if it is contiguous, and else a copy."""
    if array.flags.c_contiguous:
        return array
    size = array.dtype.itemsize
    copy = None
    if array.nbytes >= LEAST_BYTES and size in SIZES and array.flags.aligned:
        copy = copy_of(array.shape, array.strides, size)
    if copy is None:
        return np.ascontiguousarray(array)
    made = np.empty(array.shape, array.dtype)
    copy(address_of(array), address_of(made))
    return made


@lru_cache(maxsize=64)
def copy_of(shape: Sequence[int], strides: Sequence[int], size: int) -> _Copy | None:
    """The copy of large arrays of elements of a size; None where NumPy's is as good."""
    *outer, last = joined_axes(shape, strides)
    outer = outer or [Axis(1, 0)]
    if any(axis.step % size for axis in (*outer, last)) or 0 <= last.step <= size:
        return None
    beside = next((n for n, axis in enumerate(outer) if axis.step == size), None)
    if beside is not None and outer[beside].extent >= LEAST_EXTENT:
        source = _SQUARES.format(bits=8 * size, size=size)
        return _copy_by(source, [*outer, last], beside, last.step, size)
    if size < last.step <= MOST_STEP:
        source = _LINES.format(bits=8 * size, size=size, step=last.step // size)
        longest = max(range(len(outer)), key=lambda n: outer[n].extent)
        return _copy_by(source, [*outer, last], longest, outer[longest].step, size)
    return None


def _copy_by(
    source: str, axes: Sequence[Axis], rows: int, across: int, size: int
) -> _Copy | None:
    """
    The copy by a kernel whose columns are the last axis, given which are its rows and a
    step; None if its blocks are too small.
    """
    extents = [axis.extent for axis in axes]
    height, width = extents[rows], extents[-1]
    if height * width * size < LEAST_BLOCK or width < LEAST_EXTENT:
        return None
    steps = [size * prod(extents[n + 1 :]) for n in range(len(axes))]
    others = [pair for n, pair in enumerate(zip(axes, steps, strict=True)) if n != rows]
    numbers = height, width, across // size, steps[rows] // size
    kernel = KernelFunction(compile_cpu(source, "copy").address)
    return _Copy(kernel, numbers, [*_places(others[:-1])])


def joined_axes(shape: Sequence[int], strides: Sequence[int]) -> Sequence[Axis]:
    """The axes of an array, those together that one step leads along."""
    found: list[Axis] = []
    for extent, step in zip(shape, strides, strict=True):
        if extent == 1:
            continue
        if found and found[-1].step == extent * step:
            found[-1] = Axis(found[-1].extent * extent, step)
        else:
            found.append(Axis(extent, step))
    return found


def _places(axes: Sequence[tuple[Axis, int]]) -> Iterator[tuple[int, int]]:
    """The offsets of all blocks where they are read and where they are written."""
    for index in product(*(range(axis.extent) for axis, _ in axes)):
        moves = [*zip(index, axes, strict=True)]
        read = sum(i * axis.step for i, (axis, _) in moves)
        yield read, sum(i * step for i, (_, step) in moves)
