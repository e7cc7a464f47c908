"""Memory of the host that is allocated once, at addresses that never change."""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt

from penstock.runtime.errors import PenstockError

PAGE = 4096
"""Bytes: chunks start at pages, so that offsets tell addresses modulo a page."""

_allocations = 0


def allocation_count() -> int:
    """How many chunks were allocated in this process so far, on any device."""
    return _allocations


def count_allocation() -> None:
    """Note that a device allocated a chunk."""
    global _allocations
    _allocations += 1


class HostChunk:
    """
    `size` bytes of zeros from a page boundary on, for as long as this lives. Raises
    PenstockError if the machine has not that many.
    """

    def __init__(self, size: int):
        try:
            backing = np.zeros(size + PAGE, np.uint8)
        except (MemoryError, ValueError) as error:
            raise PenstockError(f"there is no memory for {size} bytes") from error
        count_allocation()
        skip = -backing.ctypes.data % PAGE
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
