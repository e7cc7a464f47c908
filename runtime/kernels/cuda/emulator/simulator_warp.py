"""
Tensor-core functions of a warp in Numba's simulator. All threads of a block have to
call each of these functions, and asynchronous copies take no time.
"""

# numba.cuda carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportMissingTypeStubs=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import numpy as np

from penstock.runtime.kernels.cuda.emulator.simulator_block import (
    shared_by_threads,
    thread,
)
from penstock.runtime.kernels.cuda.emulator.warp import (
    WARP,
    matrices_of,
    product_of,
    to_bf16,
)


def _of_warp(value):
    """The values of all lanes of the warp, and the number of this lane."""
    number = int(thread())
    lane = number % WARP
    found = shared_by_threads(value)
    return [found[number - lane + k] for k in range(WARP)], lane


def copy_async(slots, place, buffer, index, inside):
    """Copy 16 bytes to shared memory; zeros where they are not `inside`."""
    count = 16 // slots.dtype.itemsize
    assert (place | index) % count == 0, "elements are not aligned"
    for k in range(count):
        value = np.asarray(buffer[index + k]).view(slots.dtype)[()]
        slots[place + k] = value if inside else 0


def copy_async_if(condition, slots, place, buffer, index, inside):
    """The same where a condition holds."""
    if condition:
        copy_async(slots, place, buffer, index, inside)


def commit_copies():
    """Make a group of all copies that were begun since the last one."""


def await_copies(groups):
    """Wait until so many groups at most are on their way."""


def copy_back(buffer, index, slots, place):
    """Copy 16 bytes of shared memory to a buffer."""
    count = 16 // slots.dtype.itemsize
    assert (place | index) % count == 0, "elements are not aligned"
    for k in range(count):
        buffer[index + k] = np.asarray(slots[place + k]).view(buffer.dtype)[()]


def copy_back_if(condition, buffer, index, slots, place):
    """The same where a condition holds."""
    if condition:
        copy_back(buffer, index, slots, place)


def put_word(slots, place, word):
    """Store two elements of shared memory, at an even place, as a word."""
    slots[place], slots[place + 1] = word & 0xFFFF, word >> 16


def load_matrices(slots, place, turned=False):
    """Four matrices of 8 rows of 8 elements, each row named by a lane."""
    own = np.array([slots[place + k] for k in range(8)], np.uint16)
    rows, lane = _of_warp(own)
    return tuple(part[lane] for part in matrices_of(np.array(rows), turned))


def load_matrices_transposed(slots, place):
    """The same, each matrix with its rows as columns."""
    return load_matrices(slots, place, turned=True)


def _multiply(name):
    def multiply(*numbers):
        """Sums and the product of 16 by 16 and 16 by 8 elements."""
        lanes, lane = _of_warp(numbers)
        parts = [np.array(part) for part in zip(*lanes)]  # noqa: B905
        made = product_of(parts[:4], parts[4:8], parts[8:], name)
        return tuple(part[lane] for part in made)

    return multiply


multiply_f16, multiply_bf16 = _multiply("f16"), _multiply("bf16")


def bits_of(buffer, index):
    """An element of 16 bits as it is in memory."""
    return np.asarray(buffer[index]).view(np.uint16)[()]


def bits_if(condition, buffer, index):
    """An element of 16 bits where a condition holds, else a zero."""
    return bits_of(buffer, index) if condition else np.uint16(0)


def _pack(bits):
    def pack(low, high):
        """A word of two numbers, the first in its low bits."""
        return np.uint32(int(bits(low)) | int(bits(high)) << 16)

    return pack


pack_f16, pack_bf16 = _pack(lambda v: np.float16(v).view(np.uint16)), _pack(to_bf16)
