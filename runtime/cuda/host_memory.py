"""
Device memory that lies on the host, for the drivers that only stand in for a device.

Each allocation has a poisoned guard zone at both ends. A copy, a library or a kernel
that writes past an end changes the zone, which `check` finds.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.runtime.cuda.driver import CudaError
from penstock.runtime.loading.memory import PAGE

GUARD_BYTES = 512
"""The bytes of a guard zone."""
POISON = 0xA5
"""The byte of guard zones and of memory that nothing was written to."""


class _Allocation(NamedTuple):
    """An allocation: all of its bytes, and the first of those that are its owner's."""

    backing: npt.NDArray[np.uint8]
    start: int
    size: int

    @property
    def overrun(self) -> int:
        """The bytes of the guard zones that were written."""
        end = self.start + self.size
        before = self.backing[self.start - GUARD_BYTES : self.start]
        after = self.backing[end : end + GUARD_BYTES]
        return int((before != POISON).sum() + (after != POISON).sum())


class GuardedMemory:
    """All allocations of a driver, each from a page boundary on."""

    def __init__(self) -> None:
        self._allocations: dict[int, _Allocation] = {}
        self._lock = threading.Lock()

    def allocate(self, size: int, *, is_poisoned: bool) -> int:
        """
        The address of `size` new bytes, poisoned or zero. Raises MemoryError or
        ValueError if the host has not that many.
        """
        # Zeros take no memory before they are written.
        backing = np.zeros(size + 2 * PAGE + GUARD_BYTES, np.uint8)
        start = PAGE + -backing.ctypes.data % PAGE
        backing[start - GUARD_BYTES : start] = POISON
        backing[start + size : start + size + GUARD_BYTES] = POISON
        if is_poisoned:
            backing[start : start + size] = POISON
        address = backing.ctypes.data + start
        with self._lock:
            self._allocations[address] = _Allocation(backing, start, size)
        return address

    def free(self, address: int) -> int:
        """Give back an allocation; its bytes. Raises CudaError as `check` does."""
        self.check()
        with self._lock:
            return self._allocations.pop(address).size

    def check(self) -> None:
        """Raise CudaError if something wrote past either end of an allocation."""
        with self._lock:
            allocations = list(self._allocations.items())
        for address, allocation in allocations:
            if count := allocation.overrun:
                raise CudaError(
                    f"{count} bytes were written outside of the {allocation.size} "
                    f"bytes of memory at {address:#x}"
                )
