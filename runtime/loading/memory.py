"""
Memory of the host that the loader allocates once for a program, at addresses that never
change.
"""

from __future__ import annotations

import ctypes
import os

import numpy as np
import numpy.typing as npt

from penstock.runtime.errors import OutOfMemory

PAGE = 4096
"""Bytes: chunks start at pages, so that offsets tell addresses modulo a page."""
HUGE_PAGE = 2 << 20
"""
Bytes: where the system has such pages, NumPy asks it to use them for large arrays, but
only whole ones can be. Tiles touch a page of each channel of an image, and with small
pages most of their time can go into looking these up.
"""

_allocations = 0


def allocation_count() -> int:
    """The number of chunks allocated in this process so far, on any device."""
    return _allocations


def count_allocation() -> None:
    """Note that a device allocated a chunk."""
    global _allocations
    _allocations += 1


def machine_memory() -> int:
    """The bytes of memory that this machine has, whoever uses them."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class HostChunk:
    """
    `size` bytes of zeros from a page boundary on, for as long as this lives; half a
    huge page or more fill whole ones. Raises OutOfMemory if the machine has not that
    many, as its kernel may promise more than there is.
    """

    def __init__(self, size: int):
        if size > (there := machine_memory()):
            raise OutOfMemory(size, f"the host, which has {there}")
        page = HUGE_PAGE if 2 * size >= HUGE_PAGE else PAGE
        try:
            # One page to begin at its start, and one to have all of the last one.
            backing = np.zeros(size + 2 * page, np.uint8)
        except (MemoryError, ValueError) as error:
            raise OutOfMemory(size, "the host") from error
        count_allocation()
        skip = -backing.ctypes.data % page
        self._bytes = backing[skip : skip + size]
        self.address: int = backing.ctypes.data + skip

    def write(self, offset: int, array: npt.NDArray[np.generic]) -> None:
        """Copy an array to the bytes from `offset` on."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._bytes[offset : offset + data.size] = data

    def read(self, offset: int, size: int) -> npt.NDArray[np.uint8]:
        """A copy of `size` bytes."""
        return self._bytes[offset : offset + size].copy()


def host_bytes(address: int, size: int) -> npt.NDArray[np.uint8]:
    """The bytes of the host at an address, not a copy."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
