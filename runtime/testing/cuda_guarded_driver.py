"""
A driver whose allocations on devices have guard zones at both ends, on any other one.

It is for tests on a card, where no index can be looked at: what a kernel writes past an
end of a chunk is found there when the memory is given back, or by `check`.
"""

from __future__ import annotations

import threading
from typing import cast

import numpy as np

from penstock.runtime.cuda.driver import CudaError, Driver
from penstock.runtime.cuda.host_memory import GUARD_BYTES, POISON


class GuardedDriver:
    """The guard zones of all memory of devices that `driver` allocates."""

    def __init__(self, driver: Driver):
        self._driver = driver
        self._sizes: dict[int, int] = {}
        self._overrun = 0
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> object:
        return getattr(self._driver, name)

    def allocate(self, size: int) -> int:
        """The address of new memory on the device, between guard zones."""
        address = self._driver.allocate(size + 2 * GUARD_BYTES) + GUARD_BYTES
        zone = np.full(GUARD_BYTES, POISON, np.uint8)
        for start in (address - GUARD_BYTES, address + size):
            self._copy(start, zone.ctypes.data)
        with self._lock:
            self._sizes[address] = size
        return address

    def free(self, address: int) -> None:
        """Give back memory; what was written around it is known from then on."""
        with self._lock:
            size = self._sizes.pop(address)
            self._overrun += self._written_around(address, size)
        self._driver.free(address - GUARD_BYTES)

    def check(self) -> None:
        """Raise CudaError if something wrote past either end of an allocation."""
        with self._lock:
            sizes = self._sizes.items()
            overrun = sum(self._written_around(*each) for each in sizes)
            overrun, self._overrun = overrun + self._overrun, 0
        if overrun:
            raise CudaError(f"{overrun} bytes were written outside of memory")

    def _written_around(self, address: int, size: int) -> int:
        zone = np.empty(GUARD_BYTES, np.uint8)
        count = 0
        for start in (address - GUARD_BYTES, address + size):
            self._copy(zone.ctypes.data, start)
            count += int((zone != POISON).sum())
        return count

    def _copy(self, target: int, source: int) -> None:
        stream = self._driver.stream()
        self._driver.copy(target, source, GUARD_BYTES, stream)
        self._driver.synchronize_stream(stream)
        self._driver.destroy_stream(stream)


def guarded(driver: Driver) -> tuple[Driver, GuardedDriver]:
    """A driver between guard zones, as what `Driver` says and as what checks them."""
    guards = GuardedDriver(driver)
    # All else it hands on, which types do not see.
    return cast("Driver", guards), guards
