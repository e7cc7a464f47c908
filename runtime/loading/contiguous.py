"""
Arrays as contiguous ones. A copy of an array whose axes are in another order moves
squares of it through registers: NumPy moves element by element, each from a cache line
of its own, which takes 30 times as long.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from penstock.runtime.jit.cpu import CompiledKernel, compile_cpu
from penstock.runtime.loading.arrays import Array, address_of

_SOURCE = """\
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

SIZES = (1, 2, 4, 8)
"""The bytes of elements that registers hold."""
LEAST_BYTES, LEAST_BLOCK, LEAST_EXTENT = 1 << 16, 1 << 14, 8
"""
The bytes of an array, and of a block of it, from which squares are worth a call, and
the rows and columns of a block that fill enough of a square.
"""


class Axis(NamedTuple):
    """Axes that one step leads along: their elements, and the bytes of the step."""

    extent: int
    step: int


def contiguous(array: Array) -> Array:
    """An array itself if it is contiguous, and else a copy."""
    if array.flags.c_contiguous:
        return array
    size = array.dtype.itemsize
    if array.nbytes < LEAST_BYTES or size not in SIZES:
        return np.ascontiguousarray(array)
    axes = joined_axes(array)
    rows = next((n for n, axis in enumerate(axes[:-1]) if axis.step == size), None)
    if (
        rows is None
        or not array.flags.aligned
        or any(axis.step % size for axis in axes)
        or min(axes[rows].extent, axes[-1].extent) < LEAST_EXTENT
        or axes[rows].extent * axes[-1].extent * size < LEAST_BLOCK
    ):
        return np.ascontiguousarray(array)
    made = np.empty(array.shape, array.dtype)
    extents = [axis.extent for axis in axes]
    steps = [size * prod(extents[n + 1 :]) for n in range(len(axes))]
    others = [
        (axis, step)
        for n, (axis, step) in enumerate(zip(axes[:-1], steps, strict=False))
        if n != rows
    ]
    words = (ctypes.c_int64 * 6)()
    across, down = axes[-1].step // size, steps[rows] // size
    words[2:] = extents[rows], extents[-1], across, down
    run = turning(size).bound(ctypes.addressof(words))
    for read, written in _places(others):
        words[0], words[1] = address_of(array) + read, address_of(made) + written
        run(0, 1)
    return made


def joined_axes(array: Array) -> Sequence[Axis]:
    """The axes of an array, those together that one step leads along."""
    found: list[Axis] = []
    for extent, step in zip(array.shape, array.strides, strict=True):
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


@cache
def turning(size: int) -> CompiledKernel:
    """The kernel that copies a block of elements of so many bytes."""
    source = _SOURCE.format(bits=8 * size, size=size)
    return compile_cpu(source, f"turn_{8 * size}")
